/* Recording of remembered calls in C.

   The specification is lazynb/record/fast/remembered.py with recall.take: a Call here does what a function of
   `remembered` or `binary` does there, step by step and in that order, and calls the Python for whatever is
   not a plain repetition (a call that is new, a gradient, another configuration of JAX). Nothing is learned
   here. Both use one trie and the same keys, so either can go on where the other stopped.

   The attributes of lazynb's own classes are __slots__, and are read at the offsets that their descriptors
   tell. With the GIL alone: between the statements that append, no other thread runs and no signal is handled.
   CPython 3.11 and newer; PyFrame_GetLasti and the descriptors' offsets are outside of the stable ABI. */

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

/* ---- what Python tells ------------------------------------------------------------------------------------ */

enum {
    TENSOR_TRACE, TENSOR_AVAL, TENSOR_PENDING, TENSOR_SLOT, TENSOR_EDGE, TENSOR_CODE, TENSOR_LASTI, TENSOR_SCOPE,
    TENSOR_VALUE, PENDING_TRACE, PENDING_TIP, PENDING_EPOCH, PENDING_SLOTS_OF, PENDING_INPUTS, PENDING_RECORDS,
    STATE_EDGES, STATE_INPUTS, STATE_RECENT, EDGE_END, EDGE_RESULTS, EDGE_CONTAINER, EDGE_SLOT, EDGE_AVAL,
    EDGE_VALUES, EDGE_CONVERTERS, EDGE_CONVERT, EDGE_SCALAR, EDGE_CONVERTED, EDGE_ARGUMENT, EDGE_PLAIN,
    CHANGES_COUNT, OFFSETS
};

static const struct { const char *owner, *name; } slots[OFFSETS] = {
    {"LazyTensor", "_trace"}, {"LazyTensor", "aval"}, {"LazyTensor", "_pending"}, {"LazyTensor", "_slot"},
    {"LazyTensor", "_edge"}, {"LazyTensor", "_code"}, {"LazyTensor", "_lasti"}, {"LazyTensor", "_scope"},
    {"LazyTensor", "_value"}, {"Pending", "trace"}, {"Pending", "tip"}, {"Pending", "epoch"},
    {"Pending", "slots_of"}, {"Pending", "inputs"}, {"Pending", "records"}, {"State", "edges"},
    {"State", "inputs"}, {"State", "recent"}, {"Edge", "end"}, {"Edge", "results"}, {"Edge", "container"},
    {"Edge", "slot"}, {"Edge", "aval"}, {"Edge", "values"}, {"Edge", "converters"}, {"Edge", "convert"},
    {"Edge", "scalar"}, {"Edge", "converted"}, {"Edge", "argument"}, {"Edge", "plain"}, {"Changes", "count"},
};

static Py_ssize_t offsets[OFFSETS];

#define SLOT(object, which) (*(PyObject **)((char *)(object) + offsets[which]))

/* Classes and functions of lazynb and JAX, by the names that `configure` takes. */
enum {
    LAZY_TENSOR, PENDING, STATE, EDGE, CHANGES, LAZY_TRACE, LINEARIZE_TRACE, ARRAY, DTYPE, KINDS, AMBIENT,
    CHANGES_OBJECT, SCOPES, OPENED, RECALL, LINEARIZED_CALL, MAKE_CURRENT, IS_USER_CODE, NAMES
};

static const char *const names[NAMES] = {
    "LazyTensor", "Pending", "State", "Edge", "Changes", "LazyTrace", "LinearizeTrace", "ArrayImpl", "dtype",
    "KINDS", "ambient", "changes", "scopes", "opened", "recall", "linearized_call", "make_current", "is_user_code",
};

static PyObject *known[NAMES];

#define IS_A(object, which) ((PyObject *)Py_TYPE(object) == known[which])

static PyObject *str_array, *str_context, *str_dict, *str_inputs, *str_is_deleted, *str_origin_of,
    *str_parent_trace, *str_pending, *str_same_context, *str_value;

static PyObject *user_code; /* the code from which the last call was recalled, known to be the user's */

/* ---- reading ---------------------------------------------------------------------------------------------- */

static PyObject *ambient(void) { return PyObject_GetAttr(known[AMBIENT], str_value); }

/* JAX's source context of this thread. It stands in the dictionary that the thread has for a threading.local,
   which is looked for once for each thread. */
static PyObject *scope(void)
{
    static PyObject *dictionary;
    static uint64_t thread;
    uint64_t now = PyThreadState_GetID(PyThreadState_Get());
    if (dictionary == NULL || thread != now) {
        PyObject *found = PyObject_GetAttr(known[SCOPES], str_dict), *before = dictionary;
        if (found == NULL)
            return NULL;
        dictionary = found;
        thread = now;
        Py_XDECREF(before); /* what this frees may run Python, and another thread then comes here */
        if (thread != now)
            return PyObject_GetAttr(known[SCOPES], str_context);
    }
    PyObject *context = PyDict_GetItemWithError(dictionary, str_context);
    if (context != NULL)
        return Py_NewRef(context);
    return PyErr_Occurred() ? NULL : PyObject_GetAttr(known[SCOPES], str_context);
}

static int is_deleted(PyObject *array)
{
    PyObject *answer = PyObject_CallMethodNoArgs(array, str_is_deleted);
    int is = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return is;
}

/* Whether calls may be recalled under JAX's present configuration; -1 is an error. */
static int same_context(PyObject *pending)
{
    PyObject *count = SLOT(known[CHANGES_OBJECT], CHANGES_COUNT), *epoch = SLOT(pending, PENDING_EPOCH);
    if (count == epoch)
        return 1;
    int same = count == NULL || epoch == NULL ? 0 : PyObject_RichCompareBool(epoch, count, Py_EQ);
    if (same)
        return same;
    PyObject *answer = PyObject_CallMethodNoArgs(pending, str_same_context);
    same = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return same;
}

/* `Pending.array(value, outside)`: the slot of a concrete array, or None. */
static PyObject *slot_of_array(PyObject *pending, PyObject *value, int outside)
{
    if (IS_A(value, ARRAY)) {
        PyObject *id = PyLong_FromVoidPtr(value);
        if (id == NULL)
            return NULL;
        PyObject *slot = PyDict_GetItemWithError(SLOT(pending, PENDING_SLOTS_OF), id);
        Py_XINCREF(slot);
        Py_DECREF(id);
        int usable = slot == NULL ? 0 : outside ? is_deleted(value) : 0;
        if (slot != NULL && usable == 0)
            return slot;
        Py_XDECREF(slot);
        if (usable < 0 || PyErr_Occurred())
            return NULL;
    }
    PyObject *args[] = {pending, value, outside ? Py_True : Py_False};
    return PyObject_VectorcallMethod(str_array, args, 3, NULL);
}

static PyObject *slot_of_tensor(PyObject *pending, PyObject *tensor)
{
    if (SLOT(tensor, TENSOR_PENDING) == pending)
        return Py_XNewRef(SLOT(tensor, TENSOR_SLOT));
    PyObject *value = SLOT(tensor, TENSOR_VALUE);
    if (value == NULL || value == Py_None)
        return Py_NewRef(Py_None);
    Py_INCREF(value);
    PyObject *slot = slot_of_array(pending, value, SLOT(tensor, TENSOR_TRACE) != SLOT(pending, PENDING_TRACE));
    Py_DECREF(value);
    return slot;
}

/* ---- keys: the same as those of recall.look_up ------------------------------------------------------------ */

static PyObject *part_of(PyObject *pending, PyObject *argument, PyObject *scalars);

/* `(kind, *map(part_of, items))`; None if one has none. */
static PyObject *parts_of(PyObject *pending, PyTypeObject *kind, PyObject *const *items, Py_ssize_t count)
{
    PyObject *parts = PyTuple_New(count + 1);
    if (parts == NULL)
        return NULL;
    PyTuple_SET_ITEM(parts, 0, Py_NewRef(kind));
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *part = part_of(pending, items[at], NULL);
        int has_none = part == Py_None && items[at] != Py_None;
        if (part == NULL || has_none) {
            Py_DECREF(parts);
            return part;
        }
        PyTuple_SET_ITEM(parts, at + 1, part);
    }
    return parts;
}

/* `recall.by_value`; None also where Python is to look: None itself is told apart by the argument. */
static PyObject *part_by_value(PyObject *pending, PyObject *argument)
{
    PyTypeObject *kind = Py_TYPE(argument);
    if (kind == &PyFloat_Type || kind == &PyComplex_Type) {
        PyObject *text = PyObject_Repr(argument);
        PyObject *part = text == NULL ? NULL : PyTuple_Pack(2, (PyObject *)kind, text);
        Py_XDECREF(text);
        return part;
    }
    if (kind == &PyLong_Type || kind == &PyBool_Type || PyType_Check(argument) ||
        PyObject_TypeCheck(argument, (PyTypeObject *)known[DTYPE]))
        return PyTuple_Pack(2, (PyObject *)kind, argument);
    if (argument == Py_None || kind == &PyUnicode_Type || argument == Py_Ellipsis)
        return Py_NewRef(argument);
    if (kind == &PyTuple_Type || kind == &PyList_Type) {
        PyObject *items = PySequence_Tuple(argument); /* of its own, for the list may change */
        if (items == NULL)
            return NULL;
        PyObject *parts = NULL;
        if (Py_EnterRecursiveCall(" for the key of a call") == 0) { /* a list may be in itself */
            parts = parts_of(pending, kind, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items));
            Py_LeaveRecursiveCall();
        }
        Py_DECREF(items);
        return parts;
    }
    if (kind == &PySlice_Type) {
        PySliceObject *slice = (PySliceObject *)argument;
        PyObject *items[] = {slice->start, slice->stop, slice->step};
        return parts_of(pending, kind, items, 3);
    }
    return Py_NewRef(Py_None);
}

/* The part of a key for an argument; None if Python is to look (or for None itself). A number whose value makes
   no difference is appended to `scalars`, which is NULL where each value does. */
static PyObject *part_of(PyObject *pending, PyObject *argument, PyObject *scalars)
{
    if (IS_A(argument, LAZY_TENSOR))
        return slot_of_tensor(pending, argument);
    if (IS_A(argument, ARRAY))
        return slot_of_array(pending, argument, 1);
    if (scalars != NULL) {
        PyObject *kind = PyDict_GetItemWithError(known[KINDS], (PyObject *)Py_TYPE(argument));
        if (kind != NULL)
            return PyList_Append(scalars, argument) < 0 ? NULL : Py_NewRef(kind);
        if (PyErr_Occurred())
            return NULL;
        if (!(argument == Py_None || PyUnicode_CheckExact(argument) || PyTuple_CheckExact(argument) ||
              PyList_CheckExact(argument) || argument == Py_Ellipsis || PySlice_Check(argument)))
            return Py_NewRef(Py_None); /* NumPy's scalars and the like */
    }
    return part_by_value(pending, argument);
}

/* The edge of the call that a state saw last, if that had these very parts: a new reference, or NULL. */
static PyObject *recent_edge(PyObject *state, PyObject *const *parts, Py_ssize_t count)
{
    PyObject *recent = SLOT(state, STATE_RECENT);
    if (recent == NULL || recent == Py_None || PyTuple_GET_SIZE(recent) != count + 1)
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++)
        if (PyTuple_GET_ITEM(recent, at + 1) != parts[at])
            return NULL;
    return Py_NewRef(PyTuple_GET_ITEM(recent, 0));
}

/* A tuple of `count` parts from the place `first` on, after as many that the caller sets. */
static PyObject *tuple_of(Py_ssize_t first, PyObject *const *parts, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(first + count);
    for (Py_ssize_t at = 0; tuple != NULL && at < count; at++)
        PyTuple_SET_ITEM(tuple, first + at, Py_NewRef(parts[at]));
    return tuple;
}

static int has_tuple(PyObject *const *parts, Py_ssize_t count)
{
    while (count > 0)
        if (PyTuple_CheckExact(parts[--count]))
            return 1;
    return 0;
}

/* The edge of `parts` at a state: a new reference, or NULL, with an error or without. The call that a state saw
   last is compared by identity before a key is made of it. */
static PyObject *edge_at(PyObject *state, PyObject *const *parts, Py_ssize_t count)
{
    PyObject *edge = recent_edge(state, parts, count), *key, *recent = NULL;
    if (edge != NULL)
        return edge;
    if ((key = tuple_of(0, parts, count)) == NULL)
        return NULL;
    /* A tuple among the parts was made for this call, and so is never the same again. This one is made before
       the edge is looked for, because the garbage collector, which runs then, may have edges forgotten. */
    if (!has_tuple(parts, count) && (recent = tuple_of(1, parts, count)) == NULL) {
        Py_DECREF(key);
        return NULL;
    }
    edge = PyDict_GetItemWithError(SLOT(state, STATE_EDGES), key);
    edge = edge != NULL && IS_A(edge, EDGE) ? Py_NewRef(edge) : NULL;
    if (edge != NULL && recent != NULL) {
        PyTuple_SET_ITEM(recent, 0, Py_NewRef(edge));
        Py_XSETREF(SLOT(state, STATE_RECENT), Py_NewRef(recent));
    }
    Py_XDECREF(recent);
    Py_DECREF(key);
    return edge;
}

/* ---- appending -------------------------------------------------------------------------------------------- */

static PyObject *new_tensor(PyObject *pending, PyObject *aval, PyObject *slot)
{
    PyTypeObject *type = (PyTypeObject *)known[LAZY_TENSOR];
    PyObject *tensor = type->tp_alloc(type, 0);
    if (tensor == NULL)
        return NULL;
    SLOT(tensor, TENSOR_TRACE) = Py_XNewRef(SLOT(pending, PENDING_TRACE));
    SLOT(tensor, TENSOR_AVAL) = Py_XNewRef(aval);
    SLOT(tensor, TENSOR_PENDING) = Py_NewRef(pending);
    SLOT(tensor, TENSOR_SLOT) = Py_XNewRef(slot);
    SLOT(tensor, TENSOR_VALUE) = Py_NewRef(Py_None);
    SLOT(tensor, TENSOR_EDGE) = Py_NewRef(Py_None);
    SLOT(tensor, TENSOR_CODE) = Py_NewRef(Py_None);
    return tensor;
}

/* The frame of the caller, `between` frames further out: a new reference; NULL if there is none, as where
   `atexit` calls. */
static PyFrameObject *caller(int between)
{
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (frame != NULL && between-- > 0) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    return frame;
}

static int is_user_code(PyObject *code)
{
    if (code == user_code)
        return 1;
    PyObject *answer = PyObject_CallOneArg(known[IS_USER_CODE], code);
    int is = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    if (is > 0)
        Py_XSETREF(user_code, Py_NewRef(code));
    return is;
}

/* Notes the user's line on the first result of a call: 1, 0 if there is none, -1 for an error. */
static int note_line(PyObject *first, PyObject *edge, int between)
{
    PyFrameObject *frame = caller(between);
    if (frame == NULL)
        return 0;
    PyObject *code = (PyObject *)PyFrame_GetCode(frame), *lasti = NULL, *context = NULL;
    int users = is_user_code(code);
    if (users > 0) {
        lasti = PyLong_FromLong(PyFrame_GetLasti(frame));
        context = scope();
        if (lasti != NULL && context != NULL) {
            Py_XSETREF(SLOT(first, TENSOR_CODE), Py_NewRef(code));
            Py_XSETREF(SLOT(first, TENSOR_EDGE), Py_NewRef(edge));
            SLOT(first, TENSOR_LASTI) = Py_NewRef(lasti);
            SLOT(first, TENSOR_SCOPE) = Py_NewRef(context);
        } else
            users = -1;
    } else if (users == 0) {
        PyObject *args[] = {SLOT(first, TENSOR_TRACE), (PyObject *)frame};
        PyObject *origin = PyObject_VectorcallMethod(str_origin_of, args, 2, NULL);
        if (origin != NULL) {
            Py_XSETREF(SLOT(first, TENSOR_CODE), origin);
            Py_XSETREF(SLOT(first, TENSOR_EDGE), Py_XNewRef(SLOT(edge, EDGE_END)));
        } else
            users = -1;
    }
    Py_XDECREF(lasti);
    Py_XDECREF(context);
    Py_DECREF(code);
    Py_DECREF(frame);
    return users < 0 ? -1 : 1;
}

/* Appends a call whose results are `tensors`: 1, 0 if the trace does not end at `tip` any more, -1 for an error.
   `inputs` is a tuple or NULL. `Pending` explains the order. */
static int append(PyObject *pending, PyObject *tip, PyObject *edge, PyObject *inputs, PyObject *const *tensors,
                  Py_ssize_t count)
{
    if (SLOT(pending, PENDING_TIP) != tip)
        return 0; /* a finalizer recorded an operation, or another thread sealed the trace */
    if (inputs != NULL && PyTuple_GET_SIZE(inputs) > 0) {
        Py_ssize_t before = PyLong_AsSsize_t(SLOT(tip, STATE_INPUTS));
        if (before < 0 || PyList_SetSlice(SLOT(pending, PENDING_INPUTS), before, PY_SSIZE_T_MAX, inputs) < 0)
            return -1;
    }
    PyObject *end = Py_NewRef(SLOT(edge, EDGE_END)), *records = Py_NewRef(SLOT(pending, PENDING_RECORDS));
    Py_SETREF(SLOT(pending, PENDING_TIP), end); /* the caller holds `tip` */
    int done = 1;
    for (Py_ssize_t at = 0; at < count && done == 1; at++)
        if (PyList_Append(records, tensors[at]) < 0)
            done = -1;
    Py_DECREF(records);
    return done;
}

/* The inputs that a call adds, of which `scalars` are the numbers: a new reference; NULL with no error if another
   edge, or JAX with an error of its own, is for the number. */
static PyObject *inputs_of(PyObject *edge, PyObject *scalars)
{
    if (PyTuple_GET_SIZE(SLOT(edge, EDGE_CONVERTERS)) == 0)
        return Py_NewRef(SLOT(edge, EDGE_VALUES));
    PyObject *args[] = {edge, scalars};
    PyObject *inputs = PyObject_VectorcallMethod(str_inputs, args, 2, NULL);
    if (inputs == NULL &&
        (PyErr_ExceptionMatches(PyExc_OverflowError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
         PyErr_ExceptionMatches(PyExc_TypeError)))
        PyErr_Clear();
    return inputs;
}

/* The tensors of an edge's results: a list, or NULL with an error. */
static PyObject *new_tensors(PyObject *pending, PyObject *edge)
{
    PyObject *results = SLOT(edge, EDGE_RESULTS), *tensors = PyList_New(0); /* a list of pairs */
    for (Py_ssize_t at = 0; tensors != NULL && at < PyList_GET_SIZE(results); at++) {
        PyObject *pair = PyList_GET_ITEM(results, at);
        PyObject *one = new_tensor(pending, PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0));
        if (one == NULL || PyList_Append(tensors, one) < 0)
            Py_CLEAR(tensors);
        Py_XDECREF(one);
    }
    return tensors;
}

/* `recall.take`: 1 with the results, 0 if the edge cannot be appended, -1 for an error. `inputs` is a tuple or
   NULL. */
static int take(PyObject *pending, PyObject *tip, PyObject *edge, PyObject *inputs, int between,
                PyObject **result)
{
    PyObject *container = SLOT(edge, EDGE_CONTAINER), *tensors = NULL, *first;
    int taken = -1;
    if (container == Py_None)
        first = new_tensor(pending, SLOT(edge, EDGE_AVAL), SLOT(edge, EDGE_SLOT));
    else {
        tensors = new_tensors(pending, edge);
        first = tensors == NULL ? NULL : Py_NewRef(PyList_GET_ITEM(tensors, 0));
    }
    if (first != NULL && (taken = note_line(first, edge, between)) == 1) {
        PyObject *const *all = tensors == NULL ? &first : ((PyListObject *)tensors)->ob_item;
        taken = append(pending, tip, edge, inputs, all, tensors == NULL ? 1 : PyList_GET_SIZE(tensors));
    }
    if (taken == 1) {
        *result = tensors == NULL                         ? Py_NewRef(first)
                  : container == (PyObject *)&PyList_Type ? Py_NewRef(tensors)
                                                          : PyList_AsTuple(tensors);
        if (*result == NULL)
            taken = -1;
    }
    Py_XDECREF(first);
    Py_XDECREF(tensors);
    return taken;
}

/* ---- calls ------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *name, *plain, *dict, *weakrefs;
    int alike;   /* whether all numbers of one type are recorded in the same way */
    int pair;    /* whether it is an operator for a tensor and another operand, and for nothing else */
    int between; /* number of frames between the user's and that of the call */
} Call;

/* `operator` of `binary`: 1 with the result, 0 if it is no plain repetition, -1 for an error. */
static int binary(Call *self, PyObject *tensor, PyObject *other, PyObject **result)
{
    PyObject *pending = SLOT(tensor, TENSOR_PENDING), *tip, *slot, *part, *edge = NULL;
    PyObject *inputs = NULL;
    int taken = 0;
    if (pending == NULL || !IS_A(pending, PENDING) || SLOT(pending, PENDING_TIP) == Py_None)
        return 0;
    Py_INCREF(pending);
    if (IS_A(other, LAZY_TENSOR))
        part = slot_of_tensor(pending, other);
    else if (IS_A(other, ARRAY))
        part = slot_of_array(pending, other, 1);
    else
        part = Py_XNewRef(PyDict_GetItemWithError(known[KINDS], (PyObject *)Py_TYPE(other)));
    tip = Py_NewRef(SLOT(pending, PENDING_TIP)); /* the array may have become an input just now */
    slot = Py_XNewRef(SLOT(tensor, TENSOR_SLOT)); /* the tensor may move to another trace, where it has another */
    if (part == NULL || part == Py_None || tip == Py_None || slot == NULL)
        goto end;
    PyObject *parts[] = {self->name, slot, part};
    edge = edge_at(tip, parts, 3);
    if (edge == NULL || SLOT(edge, EDGE_PLAIN) != Py_True)
        goto end;
    PyObject *trace = ambient();
    Py_XDECREF(trace); /* the thread keeps it */
    if (trace == NULL || trace != SLOT(pending, PENDING_TRACE) || (taken = same_context(pending)) <= 0)
        goto end;
    taken = 0;
    if (SLOT(edge, EDGE_CONVERT) != Py_None) {
        if (SLOT(edge, EDGE_SCALAR) != other) {
            PyObject *number = PyObject_CallOneArg(SLOT(edge, EDGE_CONVERT), other);
            if (number == NULL) {
                if (PyErr_ExceptionMatches(PyExc_OverflowError)) /* for JAX's own error, or another edge */
                    PyErr_Clear();
                goto end;
            }
            PyObject *converted = PyTuple_Pack(1, number);
            Py_DECREF(number);
            if (converted == NULL)
                goto end;
            Py_XSETREF(SLOT(edge, EDGE_CONVERTED), converted);
            Py_XSETREF(SLOT(edge, EDGE_SCALAR), Py_NewRef(other));
        }
        inputs = Py_NewRef(SLOT(edge, EDGE_CONVERTED));
    }
    taken = take(pending, tip, edge, inputs, self->between, result);
end:
    Py_XDECREF(inputs);
    Py_XDECREF(edge);
    Py_XDECREF(part);
    Py_XDECREF(slot);
    Py_DECREF(tip);
    Py_DECREF(pending);
    return PyErr_Occurred() ? -1 : taken;
}

#define MOST 24 /* arguments; a call with more is Python's */

/* `call` of `remembered`, as `binary`. */
static int general(Call *self, PyObject *pending, PyObject *const *args, Py_ssize_t count, PyObject *words,
                   PyObject **result)
{
    Py_ssize_t named = words == NULL ? 0 : PyTuple_GET_SIZE(words), filled = 0;
    PyObject *parts[MOST + 1], *tip = NULL, *edge = NULL, *scalars = NULL, *inputs = NULL;
    int taken = 0;
    if (count + named > MOST || (taken = same_context(pending)) <= 0)
        return taken;
    taken = 0;
    if (self->alike && (scalars = PyList_New(0)) == NULL)
        goto end;
    parts[filled++] = Py_NewRef(self->name);
    for (Py_ssize_t at = 0; at < count + named; at++) {
        PyObject *part = part_of(pending, args[at], at < count ? scalars : NULL);
        if (part == NULL || (part == Py_None && args[at] != Py_None)) {
            if (part == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_RecursionError))
                PyErr_Clear(); /* JAX has an error of its own for such lists */
            Py_XDECREF(part);
            goto end;
        }
        if (at >= count) {
            PyObject *pair = PyTuple_Pack(2, PyTuple_GET_ITEM(words, at - count), part);
            Py_DECREF(part);
            if ((part = pair) == NULL)
                goto end;
        }
        parts[filled++] = part;
    }
    tip = Py_NewRef(SLOT(pending, PENDING_TIP));
    if (tip == Py_None)
        goto end;
    edge = edge_at(tip, parts, filled);
    if (edge == NULL) {
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Clear(); /* an argument without a hash */
        goto end;
    }
    PyObject *argument = SLOT(edge, EDGE_ARGUMENT);
    if (argument != Py_None) {
        *result = Py_NewRef(args[PyLong_AsSsize_t(argument)]);
        taken = 1;
    } else if (SLOT(edge, EDGE_END) != Py_None && (inputs = inputs_of(edge, scalars)) != NULL)
        taken = take(pending, tip, edge, inputs, self->between, result);
end:
    while (filled > 0)
        Py_DECREF(parts[--filled]);
    Py_XDECREF(inputs);
    Py_XDECREF(scalars);
    Py_XDECREF(edge);
    Py_XDECREF(tip);
    return PyErr_Occurred() ? -1 : taken;
}

/* The open trace of a LazyTrace, opened if it is none: a new reference, or None, see `recall.opened`. */
static PyObject *open_trace(PyObject *trace, PyObject *const *args, Py_ssize_t count)
{
    PyObject *pending = PyObject_GetAttr(trace, str_pending);
    if (pending == NULL || (IS_A(pending, PENDING) && SLOT(pending, PENDING_TIP) != Py_None))
        return pending;
    Py_DECREF(pending);
    PyObject *all = tuple_of(0, args, count);
    if (all == NULL)
        return NULL;
    PyObject *both[] = {trace, all};
    pending = PyObject_Vectorcall(known[OPENED], both, 2, NULL);
    Py_DECREF(all);
    return pending;
}

/* `function(trace, name, plain, args, kwargs, alike[, depth])`: recall or linearized_call. */
static PyObject *by_python(Call *self, PyObject *function, PyObject *trace, PyObject *const *args,
                           Py_ssize_t count, PyObject *words, int has_depth)
{
    PyObject *positional = tuple_of(0, args, count), *keywords = PyDict_New(), *depth = NULL, *result = NULL;
    if (positional == NULL || keywords == NULL)
        goto end;
    for (Py_ssize_t at = 0; words != NULL && at < PyTuple_GET_SIZE(words); at++)
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(words, at), args[count + at]) < 0)
            goto end;
    if ((depth = PyLong_FromLong(1 + self->between)) == NULL)
        goto end;
    PyObject *all[] = {trace, self->name, self->plain, positional, keywords, self->alike ? Py_True : Py_False, depth};
    result = PyObject_Vectorcall(function, all, has_depth ? 7 : 6, NULL);
end:
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    Py_XDECREF(depth);
    return result;
}

static PyObject *otherwise(Call *self, PyObject *trace, PyObject *const *args, Py_ssize_t count, PyObject *words)
{
    if (IS_A(trace, LAZY_TRACE))
        return by_python(self, known[RECALL], trace, args, count, words, 1);
    if (IS_A(trace, LINEARIZE_TRACE)) {
        PyObject *parent = PyObject_GetAttr(trace, str_parent_trace);
        if (parent == NULL)
            return NULL;
        int over_lazy = IS_A(parent, LAZY_TRACE);
        Py_DECREF(parent);
        if (over_lazy)
            return by_python(self, known[LINEARIZED_CALL], trace, args, count, words, 0);
    }
    if (trace == Py_None) {
        PyObject *nothing = PyObject_CallNoArgs(known[MAKE_CURRENT]);
        if (nothing == NULL)
            return NULL;
        Py_DECREF(nothing);
    }
    return PyObject_Vectorcall(self->plain, args, count, words);
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *words)
{
    Call *self = (Call *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *result = NULL;
    int taken = 0;
    if (self->pair && (count != 2 || words != NULL)) /* for the error of JAX's own method */
        return PyObject_Vectorcall(self->plain, args, count, words);
    if (self->alike && count == 2 && words == NULL && IS_A(args[0], LAZY_TENSOR)) {
        taken = binary(self, args[0], args[1], &result);
        if (taken != 0)
            return result;
    }
    PyObject *trace = ambient();
    if (trace == NULL)
        return NULL;
    if (IS_A(trace, LAZY_TRACE)) {
        PyObject *pending = open_trace(trace, args, count);
        taken = pending == NULL ? -1 : pending == Py_None ? 0 : general(self, pending, args, count, words, &result);
        Py_XDECREF(pending);
    }
    if (taken == 0)
        result = otherwise(self, trace, args, count, words);
    Py_DECREF(trace);
    return result;
}

/* ---- the type --------------------------------------------------------------------------------------------- */

static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"name", "plain", "alike", "between", "pair", NULL};
    PyObject *name, *plain;
    int alike, between = 0, pair = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOp|ip", words, &name, &plain, &alike, &between, &pair))
        return NULL;
    if (known[NAMES - 1] == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "configure was not called");
        return NULL;
    }
    Call *self = (Call *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = call;
    self->name = Py_NewRef(name);
    self->plain = Py_NewRef(plain);
    self->alike = alike;
    self->between = between;
    self->pair = pair;
    return (PyObject *)self;
}

static int call_traverse(Call *self, visitproc visit, void *arg)
{
    Py_VISIT(self->name);
    Py_VISIT(self->plain);
    Py_VISIT(self->dict);
    return 0;
}

static int call_clear(Call *self)
{
    Py_CLEAR(self->dict); /* `plain` stays: what is freed with this may still call it */
    return 0;
}

static void call_dealloc(Call *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, call_dealloc) /* calls of calls of calls, as deep as one likes */
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    call_clear(self);
    Py_CLEAR(self->plain);
    Py_CLEAR(self->name);
    Py_TYPE(self)->tp_free((PyObject *)self);
    Py_TRASHCAN_END
}

static PyObject *call_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *call_repr(Call *self)
{
    return PyUnicode_FromFormat("<remembered call of %R>", self->plain);
}

static PyGetSetDef call_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject CallType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "lazynb.record._fast.Call",
    .tp_doc = PyDoc_STR("Call(name, plain, alike, between=0, pair=False): `plain` with a memory."),
    .tp_basicsize = sizeof(Call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = call_new,
    .tp_dealloc = (destructor)call_dealloc,
    .tp_traverse = (traverseproc)call_traverse,
    .tp_clear = (inquiry)call_clear,
    .tp_vectorcall_offset = offsetof(Call, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = call_get,
    .tp_dictoffset = offsetof(Call, dict),
    .tp_weaklistoffset = offsetof(Call, weakrefs),
    .tp_getset = call_attributes,
    .tp_repr = (reprfunc)call_repr,
};

/* ---- the module ------------------------------------------------------------------------------------------- */

static PyObject *configure(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *found[NAMES];
    Py_ssize_t places[OFFSETS];
    for (int at = 0; at < NAMES; at++) {
        found[at] = PyDict_GetItemString(arguments, names[at]);
        if (found[at] == NULL)
            return PyErr_Format(PyExc_KeyError, "%s", names[at]);
    }
    for (int at = 0; at < OFFSETS; at++) {
        PyObject *owner = PyDict_GetItemString(arguments, slots[at].owner);
        PyObject *descriptor = PyObject_GetAttrString(owner, slots[at].name);
        int fits = descriptor != NULL && Py_IS_TYPE(descriptor, &PyMemberDescr_Type);
        if (fits)
            places[at] = ((PyMemberDescrObject *)descriptor)->d_member->offset;
        Py_XDECREF(descriptor);
        if (!fits) {
            PyErr_Clear();
            return PyErr_Format(PyExc_TypeError, "%s.%s is no slot", slots[at].owner, slots[at].name);
        }
    }
    for (int at = 0; at < NAMES; at++)
        Py_XSETREF(known[at], Py_NewRef(found[at]));
    memcpy(offsets, places, sizeof offsets);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_O,
     PyDoc_STR("Takes the classes and functions that calls work with, by name. Raises KeyError for one that is "
               "missing, TypeError if an attribute is no slot.")},
    {NULL, NULL, 0, NULL},
};

/* What is known of lazynb is there once in a process, so that no other interpreter may have it (JAX refuses them
   too, if later). */
static int filled(PyObject *module)
{
    static const struct { PyObject **where; const char *text; } strings[] = {
        {&str_array, "array"}, {&str_context, "context"}, {&str_dict, "__dict__"}, {&str_inputs, "inputs"},
        {&str_is_deleted, "is_deleted"}, {&str_origin_of, "origin_of"}, {&str_parent_trace, "parent_trace"},
        {&str_pending, "pending"}, {&str_same_context, "same_context"}, {&str_value, "value"},
    };
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "the accelerator is for the main interpreter alone");
        return -1;
    }
    for (size_t at = 0; at < sizeof strings / sizeof *strings; at++) {
        PyObject *text = PyUnicode_InternFromString(strings[at].text);
        if (text == NULL)
            return -1;
        Py_XSETREF(*strings[at].where, text);
    }
    if (PyType_Ready(&CallType) < 0 || PyModule_AddObjectRef(module, "Call", (PyObject *)&CallType) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "source_digest", TEXT_OF(SOURCE_DIGEST));
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, filled}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lazynb.record._fast",
    .m_doc = PyDoc_STR("Recording of remembered calls in C; lazynb.record.fast.operators is the specification."),
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__fast(void) { return PyModuleDef_Init(&definition); }
