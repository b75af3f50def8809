/* Shared by lazynb's C modules: objects from Python by name, offsets of `__slots__` from their descriptors, interned
   strings.

   They rely on the GIL, and on CPython 3.11 or newer; the offsets of descriptors are outside of the stable ABI. Each
   module has its own `known`, `offsets` and SOURCE_DIGEST, which covers this file too. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h> /* PyMemberDef before 3.12 */

#ifdef Py_GIL_DISABLED
#error "the accelerator needs the GIL"
#endif

#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST unknown
#endif
#define TEXT_OF(macro) TEXT(macro)
#define TEXT(words) #words

#define SLOT(object, which) (*(PyObject **)((char *)(object) + offsets[which]))
#define IS_A(object, which) ((PyObject *)Py_TYPE(object) == known[which])

typedef struct {
    const char *owner, *name;
} Slot;

typedef struct {
    PyObject **where;
    const char *text;
} Text;

/* A new object of a class with empty slots. */
static PyObject *new_of(PyObject *type) { return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0); }

/* The offset of a slot of a class among `arguments`; -1 with an error if there is no such slot. */
static Py_ssize_t offset_of(PyObject *arguments, const Slot *slot)
{
    PyObject *owner = PyDict_GetItemString(arguments, slot->owner);
    PyObject *descriptor = PyObject_GetAttrString(owner, slot->name);
    Py_ssize_t place = -1;
    if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
        place = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    Py_XDECREF(descriptor);
    if (place < 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s.%s is no slot", slot->owner, slot->name);
    }
    return place;
}

/* Stores the objects `names` and the offsets of `slots`: None, or NULL with an error and nothing changed. */
static PyObject *configured(PyObject *arguments, const char *const *names, int count, PyObject **known,
                            const Slot *slots, int slot_count, Py_ssize_t *offsets)
{
    for (int at = 0; at < count; at++)
        if (PyDict_GetItemString(arguments, names[at]) == NULL)
            return PyErr_Format(PyExc_KeyError, "%s", names[at]);
    for (int at = 0; at < slot_count; at++)
        if (offset_of(arguments, &slots[at]) < 0)
            return NULL;
    for (int at = 0; at < count; at++)
        Py_XSETREF(known[at], Py_NewRef(PyDict_GetItemString(arguments, names[at])));
    for (int at = 0; at < slot_count; at++)
        offsets[at] = offset_of(arguments, &slots[at]);
    Py_RETURN_NONE;
}

/* Initialises a module: 0, or -1 with an error. Static objects exist once in a process, so other interpreters are
   rejected (JAX rejects them too, but later). */
static int begun(PyObject *module, const Text *texts, size_t count)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "the accelerator is for the main interpreter alone");
        return -1;
    }
    for (size_t at = 0; at < count; at++) {
        PyObject *text = PyUnicode_InternFromString(texts[at].text);
        if (text == NULL)
            return -1;
        Py_XSETREF(*texts[at].where, text);
    }
    return PyModule_AddStringConstant(module, "source_digest", TEXT_OF(SOURCE_DIGEST));
}
