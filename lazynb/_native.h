/* Shared by lazynb's C modules: objects from Python by name, offsets of `__slots__` from their descriptors, interned
   strings, exceptions that are kept.

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

/* A new tuple that Python code cannot find by the garbage collector, because it has items that are not set yet.
   `shown` ends that; a tuple that is dropped soon, as the key of a look-up, stays hidden. */
static PyObject *hidden_tuple(Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    if (tuple != NULL && count > 0)
        PyObject_GC_UnTrack(tuple);
    return tuple;
}

/* The argument, a tuple of `hidden_tuple` that has all its items, or NULL. */
static PyObject *shown(PyObject *tuple)
{
    if (tuple != NULL && PyTuple_GET_SIZE(tuple) > 0)
        PyObject_GC_Track(tuple);
    return tuple;
}

/* The exception that is set, a new reference, or NULL; no exception is set afterwards. */
static PyObject *raised(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return error;
#endif
}

/* Sets the exception again; steals the reference. */
static void raise_again(PyObject *error)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(error);
#else
    if (error != NULL)
        PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
#endif
}

/* The argument with this name: a new reference, or NULL with a KeyError. */
static PyObject *argument_named(PyObject *arguments, const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *found = key == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(arguments, key));
    if (found == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    Py_XDECREF(key);
    return found;
}

/* The offset of a slot of a class among `arguments`; -1 with an error if there is no such slot. */
static Py_ssize_t offset_of(PyObject *arguments, const Slot *slot)
{
    PyObject *owner = argument_named(arguments, slot->owner);
    PyObject *descriptor = owner == NULL ? NULL : PyObject_GetAttrString(owner, slot->name);
    Py_ssize_t place = -1;
    if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
        place = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    if (place < 0 && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_AttributeError)))
        PyErr_Format(PyExc_TypeError, "%s.%s is no slot", slot->owner, slot->name);
    Py_XDECREF(descriptor);
    Py_XDECREF(owner);
    return place;
}

/* Stores the objects `names` and the offsets of `slots`: None, or NULL with an error and nothing changed. */
static PyObject *configured(PyObject *arguments, const char *const *names, int count, PyObject **known,
                            const Slot *slots, int slot_count, Py_ssize_t *offsets)
{
    if (!PyDict_Check(arguments))
        return PyErr_Format(PyExc_TypeError, "a dictionary is needed");
    PyObject **found = PyMem_New(PyObject *, count);
    Py_ssize_t *places = PyMem_New(Py_ssize_t, slot_count + 1);
    int found_count = 0, placed = 0;
    if (found == NULL || places == NULL)
        PyErr_NoMemory();
    else
        while (found_count < count && (found[found_count] = argument_named(arguments, names[found_count])) != NULL)
            found_count++;
    if (found_count == count)
        while (placed < slot_count && (places[placed] = offset_of(arguments, &slots[placed])) >= 0)
            placed++;
    int done = found_count == count && placed == slot_count;
    if (done && slot_count > 0)
        memcpy(offsets, places, slot_count * sizeof *places);
    for (int at = 0; done && at < count; at++) {
        PyObject *before = known[at];
        known[at] = found[at];
        found[at] = before;
    }
    for (int at = 0; at < found_count; at++)
        Py_XDECREF(found[at]); /* when all are stored, because a finalizer may make calls */
    PyMem_Free(found);
    PyMem_Free(places);
    return done ? Py_NewRef(Py_None) : NULL;
}

/* Static objects exist once in a process, so other interpreters are rejected (JAX rejects them too, but later). This
   is for those with a GIL of their own, `begun` for all. */
#if PY_VERSION_HEX >= 0x030C0000
#define MAIN_INTERPRETER_ONLY {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#else
#define MAIN_INTERPRETER_ONLY
#endif

/* Initialises a module: 0, or -1 with an error. */
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
