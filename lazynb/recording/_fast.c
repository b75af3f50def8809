/* Replay of recorded calls in C.

   The specification is lazynb/recording/replay/python_replay.py with call_replay.append_replayed. A Call does here
   what a function of `replaying_function` or `replaying_operator` does there, in the same order, and calls Python for
   everything but a plain repetition (a new call, a gradient, another configuration of JAX). No edge is recorded here.
   Both use the same trie and keys, so either can continue after the other.

   `hand_over` repeats the run of a trace; its specification is `_run_in_python` in lazynb/running/trace_launch.py.
   `here` is lazynb.user_code.call_stack.current_position, called once for each stack. `again` replays calls that are
   no functions of JAX.

   It relies on the GIL: between the statements that append, no other thread runs and no signal is handled.
   PyFrame_GetLasti is outside of the stable ABI. */

#include "../_native.h"

/* ---- Slots and objects from Python ------------------------------------------------------------------------ */

enum {
    TENSOR_TRACE, TENSOR_AVAL, TENSOR_PENDING, TENSOR_SLOT, TENSOR_EDGE, TENSOR_CODE, TENSOR_LASTI, TENSOR_SCOPE,
    TENSOR_VALUE, PENDING_TRACE, PENDING_OPEN_STATE, PENDING_CONFIG_EPOCH, PENDING_SLOTS_OF, PENDING_INPUTS, PENDING_RECORDS,
    PENDING_END, PENDING_BEGAN, PENDING_ENDED, PENDING_GUARDS, PENDING_SOURCES, PENDING_UNRESOLVED,
    PENDING_CHECKS, PENDING_DELETE_AFTER_RUN, PENDING_CLOSED, PENDING_APPEND, PENDING_IN_FLIGHT_RUN, PENDING_FAILURE, PENDING_ROOT,
    PENDING_OWNERS, STATE_EXECUTABLES, STATE_LARGE, STATE_SLOTS, STATE_EDGES, STATE_INPUTS, STATE_RECENT, EDGE_END,
    EDGE_RESULTS, EDGE_CONTAINER, EDGE_SLOT, EDGE_AVAL, EDGE_VALUES, EDGE_CONVERTERS, EDGE_CONVERT, EDGE_SCALAR,
    EDGE_CONVERTED, EDGE_ARGUMENT, EDGE_PLAIN, EDGE_FILLS, CHANGES_COUNT, LANDMARK_CALL,
    LANDMARK_CALLED, LANDMARK_ORIGIN, LANDMARK_USER, ORIGIN_CODE, ORIGIN_LASTI, ORIGIN_CALLEE, ORIGIN_CALL_ID,
    ORIGIN_CONTEXT, ORIGIN_INSIDE, ORIGIN_FORWARD, CALLS_CALL, CALLS_POSITION, CALLS_NUMBER,
    WRITTEN_NUMBER, WRITTEN_VALUE, OFFSETS
};

static const Slot slots[OFFSETS] = {
    {"LazyTensor", "_trace"}, {"LazyTensor", "aval"}, {"LazyTensor", "_pending"}, {"LazyTensor", "_slot"},
    {"LazyTensor", "_edge"}, {"LazyTensor", "_code"}, {"LazyTensor", "_lasti"}, {"LazyTensor", "_scope"},
    {"LazyTensor", "_value"}, {"Pending", "trace"}, {"Pending", "open_state"}, {"Pending", "config_epoch"},
    {"Pending", "slots_of"}, {"Pending", "inputs"}, {"Pending", "records"}, {"Pending", "_end"},
    {"Pending", "began"}, {"Pending", "ended"}, {"Pending", "guards"}, {"Pending", "sources"},
    {"Pending", "unresolved_shardings"}, {"Pending", "checks"}, {"Pending", "delete_after_run"}, {"Pending", "closed"},
    {"Pending", "append"}, {"Pending", "in_flight_run"}, {"Pending", "failure"}, {"Pending", "root"},
    {"Pending", "_owners"}, {"State", "executables"}, {"State", "large"}, {"State", "slots"}, {"State", "edges"},
    {"State", "inputs"}, {"State", "recent"}, {"Edge", "end"}, {"Edge", "results"}, {"Edge", "container"},
    {"Edge", "slot"}, {"Edge", "aval"}, {"Edge", "values"}, {"Edge", "converters"}, {"Edge", "convert"},
    {"Edge", "scalar"}, {"Edge", "converted"}, {"Edge", "argument"}, {"Edge", "plain"}, {"Edge", "fills"},
    {"Changes", "count"}, {"Landmark", "call"}, {"Landmark", "called"}, {"Landmark", "origin"},
    {"Landmark", "user"}, {"Origin", "code"}, {"Origin", "lasti"}, {"Origin", "callee"}, {"Origin", "call_id"},
    {"Origin", "context"}, {"Origin", "inside"}, {"Origin", "forward"}, {"CallCounter", "_call"},
    {"CallCounter", "_position"}, {"CallCounter", "number"}, {"Written", "number"}, {"Written", "_value"},
};

static Py_ssize_t offsets[OFFSETS];

/* Classes and functions of lazynb and JAX, by their names in `configure`. */
enum {
    LAZY_TENSOR, PENDING, STATE, EDGE, CHANGES, LAZY_TRACE, LINEARIZE_TRACE, ARRAY, DTYPE, KINDS, AMBIENT,
    CHANGES_OBJECT, SCOPES, OPENED, WAITING_ELSEWHERE, RECALL, LINEARIZED_CALL, MAKE_CURRENT, LANDMARKS, LANDMARK, ORIGIN, CALL_COUNTER, BORROWED,
    HELD_OUTSIDE, PLACES, PLACE, CODE_KIND, WRITTEN, NAMES
};

static const char *const names[NAMES] = {
    "LazyTensor", "Pending", "State", "Edge", "Changes", "LazyTrace", "LinearizeTrace", "ArrayImpl", "dtype",
    "KINDS", "ambient", "changes", "scopes", "opened", "waiting_elsewhere", "recall", "linearized_call",
    "make_current", "landmarks", "Landmark", "Origin", "CallCounter",
    "borrowed", "held_outside", "places", "here", "code_kind", "Written",
};

static PyObject *known[NAMES];

static PyObject *str_append, *str_array, *str_aval, *str_forward_tracebacks, *str_calls, *str_committed, *str_context, *str_dict, *str_donated, *str_f_code, *str_inputs,
    *str_is_deleted, *str_name, *str_observers, *str_origin_of, *str_parent_trace, *str_pending, *str_placed,
    *str_pointer, *str_examine_after_replay, *str_is_config_unchanged, *str_seconds, *str_start, *str_tensors, *str_traceback, *str_value;

/* ---- Reading slots and inputs ----------------------------------------------------------------------------- */

static PyObject *ambient(void) { return PyObject_GetAttr(known[AMBIENT], str_value); }

/* JAX's source context of this thread. It is in the thread's dictionary of a threading.local, which is looked up once
   for each thread. */
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
        Py_XDECREF(before); /* the freed object may run Python, which lets another thread come here */
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

/* Whether calls may be replayed under JAX's current configuration; -1 is an error. */
static int is_config_unchanged(PyObject *pending)
{
    PyObject *count = SLOT(known[CHANGES_OBJECT], CHANGES_COUNT), *epoch = SLOT(pending, PENDING_CONFIG_EPOCH);
    if (count == epoch)
        return 1;
    int same = count == NULL || epoch == NULL ? 0 : PyObject_RichCompareBool(epoch, count, Py_EQ);
    if (same)
        return same;
    PyObject *answer = PyObject_CallMethodNoArgs(pending, str_is_config_unchanged);
    same = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return same;
}

/* The usual case of `PendingTrace._protect(value)`: 1 with the guard kept, 0 for the Python version, -1 for an
   error. */
static int guard(PyObject *pending, PyObject *value, PyObject *id)
{
    PyObject *view = PyMemoryView_FromObject(value), *address = NULL;
    int done = view == NULL ? -1 : 1;
    if (view != NULL && PyDict_GET_SIZE(known[BORROWED]) > 0) {
        address = PyObject_CallMethodNoArgs(value, str_pointer);
        int borrowed = address == NULL ? -1 : PyDict_Contains(known[BORROWED], address);
        done = borrowed < 0 ? -1 : !borrowed;
    }
    if (done < 0 && PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear(); /* an array without such a view, for example one in several parts */
        done = 0;
    }
    if (done == 1 && PyDict_SetItem(SLOT(pending, PENDING_GUARDS), id, view) < 0)
        done = -1;
    Py_XDECREF(address);
    Py_XDECREF(view);
    return done;
}

/* The state after an uncommitted array whose aval was an input there before: a new reference; NULL if there is none
   or for an error. */
static PyObject *state_after(PyObject *tip, PyObject *value)
{
    PyObject *aval = PyObject_GetAttr(value, str_aval), *id = NULL, *key = NULL, *state = NULL, *committed;
    if (aval != NULL && (id = PyLong_FromVoidPtr(aval)) != NULL && (key = PyTuple_Pack(2, id, Py_None)) != NULL) {
        PyObject *found = PyDict_GetItemWithError(SLOT(tip, STATE_EDGES), key);
        if (found != NULL && PyTuple_CheckExact(found) && PyTuple_GET_ITEM(found, 0) == aval) {
            state = Py_NewRef(PyTuple_GET_ITEM(found, 1));
            committed = PyObject_GetAttr(value, str_committed);
            if (committed != Py_False)
                Py_CLEAR(state);
            Py_XDECREF(committed);
        }
    }
    Py_XDECREF(key);
    Py_XDECREF(id);
    Py_XDECREF(aval);
    return state;
}

/* The rest of `PendingTrace.array`, for an array that is no input yet: its slot, or None; NULL without an error for
   the Python version. The order is that of `append`. */
static PyObject *new_input(PyObject *pending, PyObject *value, PyObject *id, int outside)
{
    PyObject *tip = Py_NewRef(SLOT(pending, PENDING_OPEN_STATE)), *state = NULL, *slot = NULL;
    int held = outside ? 1 : PyDict_Contains(known[HELD_OUTSIDE], id);
    if (tip == Py_None || held < 0 || (held && guard(pending, value, id) != 1))
        goto end;
    if ((state = state_after(tip, value)) == NULL || SLOT(pending, PENDING_OPEN_STATE) != tip) {
        slot = PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
        goto end;
    }
    Py_ssize_t before = PyLong_AsSsize_t(SLOT(tip, STATE_INPUTS));
    PyObject *entry = PyTuple_Pack(1, value);
    if (entry == NULL || before < 0 || PyList_SetSlice(SLOT(pending, PENDING_INPUTS), before, PY_SSIZE_T_MAX, entry) < 0) {
        Py_XDECREF(entry);
        goto end;
    }
    Py_DECREF(entry);
    Py_SETREF(SLOT(pending, PENDING_OPEN_STATE), Py_NewRef(state));
    if (PyDict_SetItem(SLOT(pending, PENDING_SLOTS_OF), id, SLOT(tip, STATE_SLOTS)) == 0)
        slot = Py_NewRef(SLOT(tip, STATE_SLOTS));
end:
    Py_XDECREF(state);
    Py_DECREF(tip);
    return slot;
}

/* `PendingTrace.array(value, outside)`: the slot of a concrete array, or None. */
static PyObject *slot_of_array(PyObject *pending, PyObject *value, int outside)
{
    if (IS_A(value, ARRAY)) {
        PyObject *id = PyLong_FromVoidPtr(value);
        if (id == NULL)
            return NULL;
        PyObject *slot = PyDict_GetItemWithError(SLOT(pending, PENDING_SLOTS_OF), id);
        Py_XINCREF(slot);
        int gone = PyErr_Occurred() ? -1 : slot == NULL || outside ? is_deleted(value) : 0;
        if (slot == NULL && gone == 0)
            slot = new_input(pending, value, id, outside);
        else if (gone != 0)
            Py_CLEAR(slot);
        Py_DECREF(id);
        if (slot != NULL || PyErr_Occurred())
            return slot;
    }
    PyObject *args[] = {pending, value, outside ? Py_True : Py_False};
    return PyObject_VectorcallMethod(str_array, args, 3, NULL);
}

/* The slot of a tensor, or None; NULL with an error. */
static PyObject *slot_of_tensor(PyObject *pending, PyObject *tensor)
{
    if (SLOT(tensor, TENSOR_PENDING) == pending) {
        if (SLOT(tensor, TENSOR_SLOT) == NULL)
            PyErr_SetString(PyExc_AttributeError, "_slot");
        return Py_XNewRef(SLOT(tensor, TENSOR_SLOT));
    }
    PyObject *value = SLOT(tensor, TENSOR_VALUE);
    if (value == NULL || value == Py_None)
        return Py_NewRef(Py_None);
    Py_INCREF(value);
    PyObject *slot = slot_of_array(pending, value, SLOT(tensor, TENSOR_TRACE) != SLOT(pending, PENDING_TRACE));
    Py_DECREF(value);
    return slot;
}

/* ---- Keys: equal to those of call_replay.find_edge -------------------------------------------------------- */

static PyObject *part_of(PyObject *pending, PyObject *argument, PyObject *scalars);

/* `(kind, *map(part_of, items))`; None if an item has no part. */
static PyObject *parts_of(PyObject *pending, PyTypeObject *kind, PyObject *const *items, Py_ssize_t count)
{
    if (Py_EnterRecursiveCall(" for the key of a call") != 0) /* a list may contain itself */
        return NULL;
    PyObject *parts = hidden_tuple(count + 1);
    if (parts != NULL)
        PyTuple_SET_ITEM(parts, 0, Py_NewRef(kind));
    for (Py_ssize_t at = 0; parts != NULL && at < count; at++) {
        PyObject *part = part_of(pending, items[at], NULL);
        if (part == NULL || (part == Py_None && items[at] != Py_None)) {
            Py_SETREF(parts, part);
            break;
        }
        PyTuple_SET_ITEM(parts, at + 1, part);
    }
    Py_LeaveRecursiveCall();
    return parts;
}

/* `call_replay.value_key`; None also for the Python version: the argument shows whether None is the key. */
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
        PyObject *items = PySequence_Tuple(argument); /* a copy, because the list may change */
        if (items == NULL)
            return NULL;
        PyObject *parts = parts_of(pending, kind, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items));
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

/* The part of a key for an argument; None for the Python version (or for None itself). A number that is not compared
   by value is appended to `scalars`, which is NULL if all numbers are. */
static PyObject *part_of(PyObject *pending, PyObject *argument, PyObject *scalars)
{
    if (IS_A(argument, LAZY_TENSOR)) {
        PyObject *slot = slot_of_tensor(pending, argument);
        if (slot != Py_None || SLOT(argument, TENSOR_VALUE) != Py_None)
            return slot;
        Py_DECREF(slot);
        PyObject *args[] = {pending, argument};
        return PyObject_Vectorcall(known[WAITING_ELSEWHERE], args, 2, NULL);
    }
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
            return Py_NewRef(Py_None); /* NumPy's scalars and similar objects */
    }
    return part_by_value(pending, argument);
}

/* The last edge taken at a state, if its parts are identical: a new reference, or NULL. */
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

/* A hidden tuple of `count` parts from index `first` on; the caller sets the items before. */
static PyObject *tuple_of(Py_ssize_t first, PyObject *const *parts, Py_ssize_t count)
{
    PyObject *tuple = hidden_tuple(first + count);
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

/* The edge of `parts` at a state: a new reference; NULL if there is none or for an error. The last edge taken is
   compared by identity before a key is built. */
static PyObject *edge_at(PyObject *state, PyObject *const *parts, Py_ssize_t count)
{
    PyObject *edge = recent_edge(state, parts, count), *key, *recent = NULL;
    if (edge != NULL)
        return edge;
    if ((key = tuple_of(0, parts, count)) == NULL)
        return NULL;
    /* A tuple among the parts was made for this call, so it is never identical again. This one is made before the
       edge is looked up, because the garbage collector may run here and remove edges. */
    if (!has_tuple(parts, count) && (recent = tuple_of(1, parts, count)) == NULL) {
        Py_DECREF(key);
        return NULL;
    }
    edge = PyDict_GetItemWithError(SLOT(state, STATE_EDGES), key);
    edge = edge != NULL && IS_A(edge, EDGE) ? Py_NewRef(edge) : NULL;
    if (edge != NULL && recent != NULL) {
        PyTuple_SET_ITEM(recent, 0, Py_NewRef(edge));
        Py_XSETREF(SLOT(state, STATE_RECENT), Py_NewRef(shown(recent)));
    }
    Py_XDECREF(recent);
    Py_DECREF(key);
    return edge;
}

/* ---- Kinds of code ---------------------------------------------------------------------------------------- */

enum { USERS = 1, OURS = 2, MODULE = 4, EXAMPLE = 8 }; /* the values of `call_stack.code_kind` */

/* The kind of `code`, looked up once while its place in the table is not taken; -1 is an error. */
static long kind_of(PyObject *code)
{
    static struct { PyObject *code; long kind; } table[1024];
    size_t at = ((uintptr_t)code >> 5) % 1024;
    if (table[at].code != code) {
        PyObject *answer = PyObject_CallOneArg(known[CODE_KIND], code);
        long kind = answer == NULL ? -1 : PyLong_AsLong(answer);
        Py_XDECREF(answer);
        if (kind < 0)
            return -1;
        table[at].kind = kind;
        Py_XSETREF(table[at].code, Py_NewRef(code)); /* the freed object may look up another kind */
        return kind;
    }
    return table[at].kind;
}

/* ---- Appending -------------------------------------------------------------------------------------------- */

static PyObject *new_tensor(PyObject *pending, PyObject *aval, PyObject *slot)
{
    PyObject *tensor = new_of(known[LAZY_TENSOR]);
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

/* The frame of the caller, `between` frames further out: a new reference; NULL without one, as under `atexit`. */
static PyFrameObject *caller(long between)
{
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    for (; frame != NULL && between > 0; between--) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    return frame;
}

/* `nearest_cached_call_stack(frame)`: a new reference; NULL if there is none or for an error. */
static PyObject *nearest_landmark(PyFrameObject *frame)
{
    PyObject *mark = NULL;
    Py_INCREF(frame);
    while (frame != NULL && mark == NULL) {
        PyObject *id = PyLong_FromVoidPtr(frame), *code = (PyObject *)PyFrame_GetCode(frame);
        mark = id == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(known[LANDMARKS], id));
        long kind = mark == NULL && !PyErr_Occurred() ? kind_of(code) : 0;
        int goes_on = mark == NULL && !PyErr_Occurred() && !(kind & USERS);
        PyFrameObject *back = goes_on ? PyFrame_GetBack(frame) : NULL;
        Py_XDECREF(id);
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    if (mark != NULL && !IS_A(mark, LANDMARK))
        Py_CLEAR(mark);
    return mark;
}

/* `calls.of(user, below, call)` of a call that a cached call stack numbers: a new reference, or NULL with an error. */
static PyObject *number_of(PyObject *calls, PyObject *user, PyObject *lasti, PyObject *number)
{
    PyObject *id = PyLong_FromVoidPtr(user), *minus = id == NULL ? NULL : PyNumber_Negative(number), *call = NULL;
    PyObject *position = minus == NULL ? NULL : PyList_New(0);
    if (position != NULL && (call = PyTuple_Pack(3, id, lasti, minus)) != NULL) {
        int same = PyObject_RichCompareBool(call, SLOT(calls, CALLS_CALL), Py_EQ);
        PyObject *one = same < 0 ? NULL : PyLong_FromLong(!same), *next = NULL;
        if (one != NULL)
            next = PyNumber_Add(SLOT(calls, CALLS_NUMBER), one);
        Py_XDECREF(one);
        if (next == NULL)
            Py_CLEAR(call);
        else
            Py_XSETREF(SLOT(calls, CALLS_NUMBER), next);
    }
    Py_XDECREF(id);
    Py_XDECREF(minus);
    if (call == NULL) {
        Py_XDECREF(position);
        return NULL;
    }
    Py_XSETREF(SLOT(calls, CALLS_CALL), call);
    Py_XSETREF(SLOT(calls, CALLS_POSITION), position);
    return Py_NewRef(SLOT(calls, CALLS_NUMBER));
}

/* The Origin of an operation of the call of a cached call stack: a new reference, or NULL with an error. */
static PyObject *origin_at(PyObject *mark, PyObject *calls, PyObject *context)
{
    PyObject *user = SLOT(mark, LANDMARK_USER), *called = SLOT(mark, LANDMARK_CALLED), *origin = NULL, *callee = NULL;
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)user), *number = NULL;
    PyObject *lasti = PyLong_FromLong(PyFrame_GetLasti((PyFrameObject *)user));
    Py_ssize_t below = lasti == NULL ? -1 : PySequence_Size(called);
    PyObject *first = below > 0 ? PySequence_GetItem(called, 0) : NULL;
    if (first != NULL)
        callee = PyObject_GetAttr(first, str_f_code);
    else if (below == 0)
        callee = Py_NewRef(Py_None);
    if (lasti != NULL && callee != NULL)
        number = number_of(calls, user, lasti, SLOT(mark, LANDMARK_CALL));
    if (number != NULL && (origin = new_of(known[ORIGIN])) != NULL) {
        SLOT(origin, ORIGIN_CODE) = Py_NewRef(code);
        SLOT(origin, ORIGIN_LASTI) = Py_NewRef(lasti);
        SLOT(origin, ORIGIN_CALLEE) = Py_NewRef(callee);
        SLOT(origin, ORIGIN_CALL_ID) = Py_NewRef(number);
        SLOT(origin, ORIGIN_CONTEXT) = Py_NewRef(context);
        SLOT(origin, ORIGIN_INSIDE) = Py_NewRef(Py_None);
        SLOT(origin, ORIGIN_FORWARD) = Py_NewRef(Py_None);
        Py_XSETREF(SLOT(mark, LANDMARK_ORIGIN), Py_NewRef(origin));
    }
    Py_XDECREF(number);
    Py_XDECREF(callee);
    Py_XDECREF(first);
    Py_XDECREF(lasti);
    Py_DECREF(code);
    return origin;
}

/* `LazyTrace.origin_of(frame)` for a `frame` below a cached call stack, without a user frame in between or a backward
   pass being recorded: a new reference; NULL for other frames or an error. */
static PyObject *origin_below_landmark(PyObject *trace, PyFrameObject *frame)
{
    PyObject *mark = nearest_landmark(frame), *origin = NULL;
    PyObject *backward = mark == NULL ? NULL : PyObject_GetAttr(trace, str_forward_tracebacks);
    PyObject *calls = backward == NULL ? NULL : PyObject_GetAttr(trace, str_calls);
    PyObject *context = calls == NULL ? NULL : scope();
    PyObject *traceback = context == NULL ? NULL : PyObject_GetAttr(context, str_traceback);
    if (backward == Py_None && traceback == Py_None && IS_A(calls, CALL_COUNTER)) {
        PyObject *kept = Py_NewRef(SLOT(mark, LANDMARK_ORIGIN));
        int same = IS_A(kept, ORIGIN) && SLOT(kept, ORIGIN_CONTEXT) == context;
        if (same)
            same = PyObject_RichCompareBool(SLOT(kept, ORIGIN_CALL_ID), SLOT(calls, CALLS_NUMBER), Py_EQ);
        if (same > 0)
            origin = Py_NewRef(kept);
        else if (same == 0 && PyFrame_Check(SLOT(mark, LANDMARK_USER)))
            origin = origin_at(mark, calls, context);
        Py_DECREF(kept);
    }
    Py_XDECREF(traceback);
    Py_XDECREF(context);
    Py_XDECREF(calls);
    Py_XDECREF(backward);
    Py_XDECREF(mark);
    return origin;
}

/* `trace.origin_of(frame)` */
static PyObject *origin_of(PyObject *trace, PyFrameObject *frame)
{
    PyObject *origin = PyDict_GET_SIZE(known[LANDMARKS]) ? origin_below_landmark(trace, frame) : NULL;
    if (origin != NULL || PyErr_Occurred())
        return origin;
    PyObject *args[] = {trace, (PyObject *)frame};
    return PyObject_VectorcallMethod(str_origin_of, args, 2, NULL);
}

/* Stores the user's line, in or above `frame`, in the first result of a call: 1, 0 without one, -1 for an error. */
static int note_line(PyObject *first, PyObject *edge, PyFrameObject *frame)
{
    if (frame == NULL)
        return 0;
    PyObject *code = (PyObject *)PyFrame_GetCode(frame), *lasti = NULL, *context = NULL;
    long kind = kind_of(code);
    int users = kind < 0 ? -1 : (kind & USERS) != 0;
    if (users > 0) {
        lasti = PyLong_FromLong(PyFrame_GetLasti(frame));
        context = lasti == NULL ? NULL : scope();
        if (context != NULL) {
            Py_XSETREF(SLOT(first, TENSOR_CODE), Py_NewRef(code));
            Py_XSETREF(SLOT(first, TENSOR_EDGE), Py_NewRef(edge));
            SLOT(first, TENSOR_LASTI) = Py_NewRef(lasti);
            SLOT(first, TENSOR_SCOPE) = Py_NewRef(context);
        } else
            users = -1;
    } else if (users == 0) {
        PyObject *origin = origin_of(SLOT(first, TENSOR_TRACE), frame);
        if (origin != NULL) {
            Py_XSETREF(SLOT(first, TENSOR_CODE), origin);
            Py_XSETREF(SLOT(first, TENSOR_EDGE), Py_XNewRef(SLOT(edge, EDGE_END)));
        } else
            users = -1;
    }
    Py_XDECREF(lasti);
    Py_XDECREF(context);
    Py_DECREF(code);
    return users < 0 ? -1 : 1;
}

/* Appends a call with the result `first`, or the list of results `tensors`: 1, 0 if the trace does not end at `tip` any
   more, -1 for an error, and then the trace is as it was. `inputs` is a tuple or NULL. `PendingTrace` explains the
   order; no other thread sees that the results come first here. */
static int append(PyObject *pending, PyObject *tip, PyObject *edge, PyObject *inputs, PyObject *first, PyObject *tensors)
{
    if (SLOT(pending, PENDING_OPEN_STATE) != tip)
        return 0; /* a finalizer recorded an operation, or another thread sealed the trace */
    if (inputs != NULL && PyTuple_GET_SIZE(inputs) > 0) {
        Py_ssize_t before = PyLong_AsSsize_t(SLOT(tip, STATE_INPUTS));
        if (before < 0 || PyList_SetSlice(SLOT(pending, PENDING_INPUTS), before, PY_SSIZE_T_MAX, inputs) < 0)
            return -1;
    }
    PyObject *records = SLOT(pending, PENDING_RECORDS);
    Py_ssize_t size = PyList_GET_SIZE(records);
    if (tensors == NULL ? PyList_Append(records, first) < 0 : PyList_SetSlice(records, size, size, tensors) < 0)
        return -1;
    Py_SETREF(SLOT(pending, PENDING_OPEN_STATE), Py_NewRef(SLOT(edge, EDGE_END))); /* the caller holds `tip` */
    return 1;
}

/* Whether a number certainly equals the literal of the edge, to the bit. */
static int is_same_number(PyObject *number, PyObject *written)
{
    if (number == written)
        return 1;
    if (!PyFloat_CheckExact(number) || !PyFloat_CheckExact(written))
        return 0;
    double one = PyFloat_AS_DOUBLE(number), other = PyFloat_AS_DOUBLE(written);
    return memcmp(&one, &other, sizeof one) == 0;
}

/* `inputs_of` if all numbers equal the literals of the edge; NULL otherwise or for an error. */
static PyObject *written_inputs(PyObject *edge, PyObject *scalars)
{
    PyObject *converters = SLOT(edge, EDGE_CONVERTERS), *values = SLOT(edge, EDGE_VALUES);
    Py_ssize_t count = PyTuple_GET_SIZE(converters);
    if (PyList_GET_SIZE(scalars) != count)
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *one = PyTuple_GET_ITEM(converters, at);
        if (!IS_A(one, WRITTEN) || !is_same_number(PyList_GET_ITEM(scalars, at), SLOT(one, WRITTEN_NUMBER)))
            return NULL;
    }
    if (PyTuple_GET_SIZE(values) > 0)
        return Py_NewRef(values);
    PyObject *inputs = PyTuple_New(count);
    for (Py_ssize_t at = 0; inputs != NULL && at < count; at++)
        PyTuple_SET_ITEM(inputs, at, Py_NewRef(SLOT(PyTuple_GET_ITEM(converters, at), WRITTEN_VALUE)));
    return inputs;
}

/* The inputs that a call with the numbers `scalars` adds: a new reference; NULL without an error if another edge fits
   the number, or JAX raises for it. */
static PyObject *inputs_of(PyObject *edge, PyObject *scalars)
{
    if (PyTuple_GET_SIZE(SLOT(edge, EDGE_CONVERTERS)) == 0)
        return Py_NewRef(SLOT(edge, EDGE_VALUES));
    if (scalars == NULL)
        return NULL;
    PyObject *as_written = written_inputs(edge, scalars);
    if (as_written != NULL || PyErr_Occurred())
        return as_written;
    PyObject *args[] = {edge, scalars};
    PyObject *inputs = PyObject_VectorcallMethod(str_inputs, args, 2, NULL);
    if (inputs == NULL &&
        (PyErr_ExceptionMatches(PyExc_OverflowError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
         PyErr_ExceptionMatches(PyExc_TypeError)))
        PyErr_Clear();
    return inputs;
}

/* The tensors of an edge's results: a list that is not empty, or NULL with an error. */
static PyObject *new_tensors(PyObject *pending, PyObject *edge)
{
    PyObject *results = SLOT(edge, EDGE_RESULTS), *tensors;
    if (!PyList_CheckExact(results) || PyList_GET_SIZE(results) == 0)
        return PyErr_Format(PyExc_TypeError, "the results of an edge: a list of slots and avals");
    tensors = PyList_New(0);
    for (Py_ssize_t at = 0; tensors != NULL && at < PyList_GET_SIZE(results); at++) {
        PyObject *pair = PyList_GET_ITEM(results, at), *one = NULL;
        if (PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2)
            one = new_tensor(pending, PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0));
        else
            PyErr_SetString(PyExc_TypeError, "a result of an edge: a slot and an aval");
        if (one == NULL || PyList_Append(tensors, one) < 0)
            Py_CLEAR(tensors);
        Py_XDECREF(one);
    }
    return tensors;
}

/* `call_replay.append_replayed`: 1 with the results, 0 if the edge cannot be appended, -1 for an error. `inputs` is a
   tuple or NULL, `frame` the caller's or NULL. */
static int take(PyObject *pending, PyObject *tip, PyObject *edge, PyObject *inputs, PyFrameObject *frame,
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
    if (first != NULL && (taken = note_line(first, edge, frame)) == 1)
        taken = append(pending, tip, edge, inputs, first, tensors);
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

/* ---- Calls of jitted functions ---------------------------------------------------------------------------- */

/* `take_slots(pending, operands, slots)` with lists for operands and slots. */
static PyObject *take_slots(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3 || !IS_A(args[0], PENDING) || !PyList_CheckExact(args[1]) || !PyList_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "take_slots(pending, operands, slots)");
    PyObject *pending = args[0], *operands = args[1], *slots = args[2];
    for (Py_ssize_t at; (at = PyList_GET_SIZE(slots)) < PyList_GET_SIZE(operands);) {
        PyObject *operand = Py_NewRef(PyList_GET_ITEM(operands, at)), *slot;
        slot = IS_A(operand, LAZY_TENSOR) ? slot_of_tensor(pending, operand)
               : IS_A(operand, ARRAY)     ? slot_of_array(pending, operand, 1)
                                          : Py_NewRef(Py_None);
        Py_DECREF(operand);
        int appended = slot == NULL ? -1 : slot == Py_None ? 1 : PyList_Append(slots, slot);
        Py_XDECREF(slot);
        if (appended < 0)
            return NULL;
        if (appended > 0)
            break;
    }
    Py_RETURN_NONE;
}

/* `new_tensors(pending, avals, first)`: `avals` is a tuple. */
static PyObject *tensors_of(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 3 || !IS_A(args[0], PENDING) || !PyTuple_CheckExact(args[1]) || !PyLong_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "new_tensors(pending, avals, first)");
    Py_ssize_t size = PyTuple_GET_SIZE(args[1]), first = PyLong_AsSsize_t(args[2]);
    if (first < 0 || first > PY_SSIZE_T_MAX - size)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "there is no slot %zd", first);
    PyObject *tensors = PyList_New(0);
    for (Py_ssize_t at = 0; tensors != NULL && at < size; at++) {
        PyObject *slot = PyLong_FromSsize_t(first + at);
        PyObject *one = slot == NULL ? NULL : new_tensor(args[0], PyTuple_GET_ITEM(args[1], at), slot);
        Py_XDECREF(slot);
        if (one == NULL || PyList_Append(tensors, one) < 0)
            Py_CLEAR(tensors);
        Py_XDECREF(one);
    }
    return tensors;
}

/* ---- Calls ------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *name, *plain, *dict, *weakrefs;
    int alike;   /* whether all numbers of one type are recorded in the same way */
    int pair;    /* whether it only replays calls with a tensor and another operand */
    int between; /* number of frames between the user's frame and the call */
} Call;

/* Whether a hook of sys.setprofile, sys.settrace or sys.monitoring runs: its operations run at once. */
static int in_hook(void) { return PyThreadState_Get()->tracing > 0; }

static PyObject *runs_hook(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(in_hook());
}

/* `operator` of `replaying_operator`: 1 with the result, 0 for no plain repetition, -1 for an error. */
static int binary(Call *self, PyObject *tensor, PyObject *other, PyObject **result)
{
    PyObject *pending = SLOT(tensor, TENSOR_PENDING), *tip, *slot, *part, *edge = NULL;
    PyObject *inputs = NULL;
    int taken = 0;
    if (pending == NULL || !IS_A(pending, PENDING) || SLOT(pending, PENDING_OPEN_STATE) == Py_None)
        return 0;
    Py_INCREF(pending);
    if (IS_A(other, LAZY_TENSOR))
        part = slot_of_tensor(pending, other);
    else if (IS_A(other, ARRAY))
        part = slot_of_array(pending, other, 1);
    else
        part = Py_XNewRef(PyDict_GetItemWithError(known[KINDS], (PyObject *)Py_TYPE(other)));
    tip = Py_NewRef(SLOT(pending, PENDING_OPEN_STATE)); /* the array may have become an input */
    slot = Py_XNewRef(SLOT(tensor, TENSOR_SLOT)); /* the tensor may move to another trace, with another slot */
    if (part == NULL || part == Py_None || tip == Py_None || slot == NULL)
        goto end;
    PyObject *parts[] = {self->name, slot, part};
    edge = edge_at(tip, parts, 3);
    if (edge == NULL || SLOT(edge, EDGE_PLAIN) != Py_True)
        goto end;
    PyObject *trace = ambient();
    Py_XDECREF(trace); /* the thread keeps it */
    if (trace == NULL || trace != SLOT(pending, PENDING_TRACE) || (taken = is_config_unchanged(pending)) <= 0)
        goto end;
    taken = 0;
    if (SLOT(edge, EDGE_CONVERT) != Py_None) {
        if (SLOT(edge, EDGE_SCALAR) != other) {
            PyObject *number = PyObject_CallOneArg(SLOT(edge, EDGE_CONVERT), other);
            if (number == NULL) {
                if (PyErr_ExceptionMatches(PyExc_OverflowError)) /* JAX raises its own error, or another edge fits */
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
    PyFrameObject *frame = caller(self->between);
    taken = take(pending, tip, edge, inputs, frame, result);
    Py_XDECREF(frame);
end:
    Py_XDECREF(inputs);
    Py_XDECREF(edge);
    Py_XDECREF(part);
    Py_XDECREF(slot);
    Py_DECREF(tip);
    Py_DECREF(pending);
    return PyErr_Occurred() ? -1 : taken;
}

/* Cuts a trace that a replayed call has filled. */
static int cut_full(PyObject *pending)
{
    PyObject *args[] = {SLOT(pending, PENDING_TRACE), pending};
    PyObject *nothing = PyObject_VectorcallMethod(str_examine_after_replay, args, 2, NULL);
    Py_XDECREF(nothing);
    return nothing == NULL ? -1 : 0;
}

#define FEW 24 /* number of arguments that fit on the stack */

/* Writes the parts of a call's key after its name to `parts`: 1, 0 for the Python version, -1 for an error. `filled`
   is set to the number written in each case. `outside`: whether other code may hold the arrays, as for
   `PendingTrace.array`. */
static int fill(PyObject *pending, PyObject *const *args, Py_ssize_t count, PyObject *words, PyObject *scalars,
                int outside, PyObject **parts, Py_ssize_t *filled)
{
    Py_ssize_t named = words == NULL ? 0 : PyTuple_GET_SIZE(words);
    for (Py_ssize_t at = 0; at < count + named; at++) {
        PyObject *part = IS_A(args[at], ARRAY) ? slot_of_array(pending, args[at], outside)
                                               : part_of(pending, args[at], at < count ? scalars : NULL);
        if (part == NULL || (part == Py_None && args[at] != Py_None)) {
            if (part == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_RecursionError))
                PyErr_Clear(); /* JAX raises its own error for such arguments */
            Py_XDECREF(part);
            return PyErr_Occurred() ? -1 : 0;
        }
        if (at >= count) {
            PyObject *pair = PyTuple_Pack(2, PyTuple_GET_ITEM(words, at - count), part);
            Py_DECREF(part);
            if ((part = pair) == NULL)
                return -1;
        }
        parts[(*filled)++] = part;
    }
    return 1;
}

/* Replays the call `name` at the end of an open trace: 1 with the result, 0 for no plain repetition, -1 for an error.
   The caller has checked that JAX's configuration is the trace's. `frame`: the caller's, or NULL for the frame
   `between` frames further out than the running one. `outside`: see `fill`. */
static int repeat(PyObject *pending, PyObject *name, int alike, PyFrameObject *frame, int between, int outside,
                  PyObject *const *args, Py_ssize_t count, PyObject *words, PyObject **result)
{
    Py_ssize_t filled = 1;
    Py_ssize_t all = count + (words == NULL ? 0 : PyTuple_GET_SIZE(words));
    PyObject *few[FEW + 1], *tip = NULL, *edge = NULL, *scalars = NULL, *inputs = NULL;
    PyObject **parts = all > FEW ? PyMem_New(PyObject *, all + 1) : few;
    int taken = 0;
    if (parts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    parts[0] = Py_NewRef(name);
    if ((alike && (scalars = PyList_New(0)) == NULL) ||
        fill(pending, args, count, words, scalars, outside, parts, &filled) != 1)
        goto end;
    tip = Py_NewRef(SLOT(pending, PENDING_OPEN_STATE));
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
        Py_ssize_t at = PyLong_AsSsize_t(argument);
        if (at >= 0 && at < count) {
            *result = Py_NewRef(args[at]);
            taken = 1;
        }
    } else if (SLOT(edge, EDGE_END) != Py_None && (inputs = inputs_of(edge, scalars)) != NULL) {
        PyFrameObject *from = frame == NULL ? caller(between) : (PyFrameObject *)Py_NewRef(frame);
        taken = take(pending, tip, edge, inputs, from, result);
        Py_XDECREF(from);
        if (taken == 1 && SLOT(edge, EDGE_FILLS) == Py_True && cut_full(pending) < 0) {
            Py_CLEAR(*result);
            taken = -1;
        }
    }
end:
    while (filled > 0)
        Py_DECREF(parts[--filled]);
    if (parts != few)
        PyMem_Free(parts);
    Py_XDECREF(inputs);
    Py_XDECREF(scalars);
    Py_XDECREF(edge);
    Py_XDECREF(tip);
    return PyErr_Occurred() ? -1 : taken;
}

/* `call` of `replaying_function`; returns as `binary`. */
static int general(Call *self, PyObject *pending, PyObject *const *args, Py_ssize_t count, PyObject *words,
                   PyObject **result)
{
    int same = is_config_unchanged(pending);
    return same <= 0 ? same : repeat(pending, self->name, self->alike, NULL, self->between, 1, args, count, words,
                                             result);
}

/* `again(pending, name, values, alike, frame, outside=True)`: the results of a call recorded before at the end of an
   open trace; None if it was not recorded. The caller has checked that JAX's configuration is the trace's. `values`
   is a list or tuple, `frame` a frame in or below the user's, or None for the running one; `outside` tells whether
   other code may hold arrays that are not in `held_outside`. */
static PyObject *again(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count < 5 || count > 6 || !IS_A(args[0], PENDING) || !(args[4] == Py_None || PyFrame_Check(args[4])))
        return PyErr_Format(PyExc_TypeError, "again(pending, name, values, alike, frame, outside=True)");
    PyObject *result = NULL, *pending = args[0], *values = PySequence_Tuple(args[2]);
    PyFrameObject *frame = args[4] == Py_None ? NULL : (PyFrameObject *)args[4];
    if (values == NULL)
        return NULL;
    int taken = SLOT(pending, PENDING_OPEN_STATE) == Py_None || in_hook() ? 0
                : repeat(pending, args[1], args[3] == Py_True, frame, 0, count < 6 || args[5] != Py_False,
                         &PyTuple_GET_ITEM(values, 0), PyTuple_GET_SIZE(values), NULL, &result);
    Py_DECREF(values);
    return taken == 0 ? Py_NewRef(Py_None) : result;
}

/* The open trace of a LazyTrace, opened if needed: a new reference, or None, see `call_replay.open_trace_for`. */
static PyObject *open_trace(PyObject *trace, PyObject *const *args, Py_ssize_t count)
{
    PyObject *pending = PyObject_GetAttr(trace, str_pending);
    if (pending == NULL || (IS_A(pending, PENDING) && SLOT(pending, PENDING_OPEN_STATE) != Py_None))
        return pending;
    Py_DECREF(pending);
    PyObject *all = shown(tuple_of(0, args, count));
    if (all == NULL)
        return NULL;
    PyObject *both[] = {trace, all};
    pending = PyObject_Vectorcall(known[OPENED], both, 2, NULL);
    Py_DECREF(all);
    return pending;
}

/* `function(trace, name, plain, args, kwargs, alike[, depth])` for replay or linearized_call. */
static PyObject *by_python(Call *self, PyObject *function, PyObject *trace, PyObject *const *args,
                           Py_ssize_t count, PyObject *words, int has_depth)
{
    PyObject *positional = shown(tuple_of(0, args, count)), *keywords = NULL, *depth = NULL, *result = NULL;
    if (positional == NULL || (keywords = PyDict_New()) == NULL)
        goto end;
    for (Py_ssize_t at = 0; words != NULL && at < PyTuple_GET_SIZE(words); at++)
        if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(words, at), args[count + at]) < 0)
            goto end;
    if ((depth = PyLong_FromLongLong(1LL + self->between)) == NULL)
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
    if (self->pair && (count != 2 || words != NULL)) /* JAX's method raises its own error */
        return PyObject_Vectorcall(self->plain, args, count, words);
    int hooked = in_hook();
    if (!hooked && self->alike && count == 2 && words == NULL && IS_A(args[0], LAZY_TENSOR)) {
        taken = binary(self, args[0], args[1], &result);
        if (taken != 0)
            return result;
    }
    PyObject *trace = ambient();
    if (trace == NULL)
        return NULL;
    if (!hooked && IS_A(trace, LAZY_TRACE)) {
        PyObject *pending = open_trace(trace, args, count);
        taken = pending == NULL ? -1 : pending == Py_None ? 0 : general(self, pending, args, count, words, &result);
        Py_XDECREF(pending);
    }
    if (taken == 0)
        result = otherwise(self, trace, args, count, words);
    Py_DECREF(trace);
    return result;
}

/* ---- Code positions --------------------------------------------------------------------------------------- */

/* Whether `frame`, whose code is of `kind`, is the cell, script or example at the top of the user's code; -1 is an
   error. */
static int is_main(PyFrameObject *frame, long kind)
{
    if (!(kind & MODULE) || (kind & EXAMPLE))
        return (kind & MODULE) != 0;
    PyObject *globals = PyFrame_GetGlobals(frame), *name = PyDict_GetItemWithError(globals, str_name);
    int is = name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__main__") == 0;
    if (name == NULL && PyErr_Occurred())
        is = -1;
    Py_DECREF(globals);
    return is;
}

#define STACK 64 /* number of instructions of a cached stack; Python handles a longer one */

typedef struct {
    PyObject *code[STACK];
    int lasti[STACK];
    int count;
} Stack;

static void drop(Stack *stack)
{
    while (stack->count > 0)
        Py_DECREF(stack->code[--stack->count]);
}

/* The instructions that determine a position in `call_stack.current_position`: the user's from the lowest outwards,
   then that of the calling library, if any. 1 if complete, 0 for the Python version, -1 for an error. */
static int read_stack(PyFrameObject *frame, Stack *stack)
{
    int users = 0, all = 0;
    Py_XINCREF(frame);
    while (frame != NULL && all == 0) {
        PyObject *code = (PyObject *)PyFrame_GetCode(frame);
        long kind = kind_of(code);
        int wanted = kind >= 0 && ((kind & USERS) || (users == 0 && stack->count == 0 && !(kind & OURS)));
        if (kind < 0)
            all = -1;
        else if (wanted && stack->count == STACK)
            all = 2;
        else if (wanted) {
            stack->lasti[stack->count] = PyFrame_GetLasti(frame);
            stack->code[stack->count++] = Py_NewRef(code);
            users += (kind & USERS) != 0;
            all = kind & USERS ? is_main(frame, kind) : 0;
        }
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return all == 2 ? 0 : all == 0 ? users > 0 : all;
}

/* `here(depth)`: `call_stack.current_position`, called once for each stack. */
static PyObject *here(PyObject *module, PyObject *depth)
{
    (void)module;
    if (known[NAMES - 1] == NULL)
        return PyErr_Format(PyExc_RuntimeError, "configure was not called");
    long frames = PyLong_AsLong(depth);
    if (frames < 1 && PyErr_Occurred())
        return NULL;
    PyFrameObject *frame = frames < 1 ? NULL : caller(frames - 1);
    if (frame == NULL)
        return PyObject_CallOneArg(known[PLACE], depth); /* Python raises the error */
    Stack stack = {.count = 0};
    int found = read_stack(frame, &stack);
    Py_DECREF(frame);
    PyObject *key = NULL, *spot = NULL, *kept = NULL;
    if (found < 0)
        goto end;
    if (found == 0) {
        spot = PyObject_CallOneArg(known[PLACE], depth);
        goto end;
    }
    uintptr_t words[2 * STACK];
    for (int at = 0; at < stack.count; at++) {
        words[2 * at] = (uintptr_t)stack.code[at];
        words[2 * at + 1] = (uintptr_t)stack.lasti[at];
    }
    key = PyBytes_FromStringAndSize((char *)words, (Py_ssize_t)(2 * stack.count * sizeof *words));
    if (key == NULL)
        goto end;
    kept = Py_XNewRef(PyDict_GetItemWithError(known[PLACES], key));
    if (kept != NULL)
        spot = Py_NewRef(PyTuple_GET_ITEM(kept, 0));
    else if (!PyErr_Occurred() && (spot = PyObject_CallOneArg(known[PLACE], depth)) != NULL) {
        kept = PyTuple_New(1 + stack.count); /* keeps the code alive, so its address stays unique */
        if (kept != NULL) {
            PyTuple_SET_ITEM(kept, 0, Py_NewRef(spot));
            for (int at = 0; at < stack.count; at++)
                PyTuple_SET_ITEM(kept, at + 1, Py_NewRef(stack.code[at]));
            if (PyDict_GET_SIZE(known[PLACES]) > 10000)
                PyDict_Clear(known[PLACES]);
        }
        if (kept == NULL || PyDict_SetItem(known[PLACES], key, kept) < 0)
            Py_CLEAR(spot);
    }
end:
    Py_XDECREF(kept);
    Py_XDECREF(key);
    drop(&stack);
    return spot;
}

/* ---- Repeated runs of a trace ----------------------------------------------------------------------------- */

/* Objects of lazynb.running, by their names in `configure_hand_over`. */
enum { IN_FLIGHT_RUN, RUN, FOR_ALL, TIME, KEY, USE, NOTE, NOT_STARTED, PARTS };

#define RUN_FIELDS "(sssss)", "binding", "miss", "seconds", "record_seconds", "began"

static const char *const part_names[PARTS] = {"InFlightRun", "Run", "for_all", "perf_counter", "key", "use", "note", "not_started"};

static PyObject *parts[PARTS];

/* Whether the trace only has to run; `_run_in_python` handles the others. */
static int is_usual(PyObject *pending)
{
    if (!IS_A(pending, PENDING) || SLOT(pending, PENDING_IN_FLIGHT_RUN) != Py_None || SLOT(pending, PENDING_FAILURE) != Py_None ||
        PyObject_Size(SLOT(pending, PENDING_CHECKS)) || PyObject_Size(SLOT(pending, PENDING_DELETE_AFTER_RUN)) ||
        PyObject_Size(SLOT(pending, PENDING_UNRESOLVED)) || PyList_GET_SIZE(parts[FOR_ALL]) > 0)
        return 0;
    PyObject *observers = PyObject_GetAttr(SLOT(pending, PENDING_TRACE), str_observers);
    int none = observers == NULL ? -1 : PyObject_Size(observers) == 0;
    Py_XDECREF(observers);
    return none;
}

/* `PendingTrace.live` and the slots, if the tensors are in the order of their slots; 0 otherwise or without any. */
static int live(PyObject *pending, PyObject **tensors, PyObject **wanted)
{
    PyObject *records = SLOT(pending, PENDING_RECORDS);
    long last = -1;
    *tensors = PyList_New(0);
    *wanted = NULL;
    for (Py_ssize_t at = 0; *tensors != NULL && at < PyList_GET_SIZE(records); at++) {
        PyObject *tensor = PyList_GET_ITEM(records, at);
        if (Py_REFCNT(tensor) == 1 || SLOT(tensor, TENSOR_PENDING) != pending)
            continue; /* only `records` references it, or it has its value */
        PyObject *number = SLOT(tensor, TENSOR_SLOT);
        long slot = number == NULL ? -1 : PyLong_AsLong(number);
        if (slot <= last)
            return 0;
        last = slot;
        if (PyList_Append(*tensors, tensor) < 0)
            return -1;
    }
    if (*tensors == NULL || (*wanted = PyTuple_New(PyList_GET_SIZE(*tensors))) == NULL)
        return -1;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(*tensors); at++)
        PyTuple_SET_ITEM(*wanted, at, Py_NewRef(SLOT(PyList_GET_ITEM(*tensors, at), TENSOR_SLOT)));
    return last >= 0;
}

/* Whether no input held by other code was deleted: `PendingTrace.restore` restores these. */
static int inputs_are_there(PyObject *pending)
{
    PyObject *key, *view;
    Py_ssize_t at = 0;
    while (PyDict_Next(SLOT(pending, PENDING_GUARDS), &at, &key, &view)) {
        PyObject *array = PyMemoryView_Check(view) ? PyMemoryView_GET_BUFFER(view)->obj : NULL;
        if (array == NULL || !IS_A(array, ARRAY))
            return 0;
        Py_INCREF(array);
        int gone = is_deleted(array);
        Py_DECREF(array);
        if (gone != 0)
            return gone < 0 ? -1 : 0;
    }
    return 1;
}

/* The values of all inputs: a list; NULL if one is missing or for an error. */
static PyObject *values_of(PyObject *pending)
{
    PyObject *inputs = SLOT(pending, PENDING_INPUTS), *values = PyList_New(0);
    for (Py_ssize_t at = 0; values != NULL && at < PyList_GET_SIZE(inputs); at++) {
        PyObject *value = PyList_GET_ITEM(inputs, at);
        if (IS_A(value, LAZY_TENSOR))
            value = SLOT(value, TENSOR_VALUE);
        if (value == NULL || value == Py_None || PyList_Append(values, value) < 0)
            Py_CLEAR(values);
    }
    return values;
}

/* The binding with which a trace that ends at `state` ran before: a new reference; NULL if there is none or for an
   error. Python chooses the donated inputs. */
static PyObject *binding_of(PyObject *pending, PyObject *state, PyObject *wanted, PyObject *values)
{
    PyObject *large = PyDict_GetItemWithError(SLOT(state, STATE_LARGE), wanted), *key;
    if (large == NULL || !PyTuple_CheckExact(large))
        return NULL;
    if (PyTuple_GET_SIZE(large) == 0)
        key = Py_NewRef(wanted);
    else {
        PyObject *args[] = {pending, wanted, values};
        key = PyObject_Vectorcall(parts[KEY], args, 3, NULL);
    }
    PyObject *binding = key == NULL ? NULL : PyDict_GetItemWithError(SLOT(state, STATE_EXECUTABLES), key);
    int is = binding != NULL && PyTuple_Check(binding) && PyTuple_GET_SIZE(binding) == 2 &&
             PyList_Check(PyTuple_GET_ITEM(binding, 1));
    Py_XINCREF(binding);
    Py_XDECREF(key);
    if (!is)
        Py_CLEAR(binding);
    return binding;
}

/* The item of `values` that is argument `at` of the program: a borrowed reference, or NULL with an error. */
static PyObject *argument_of(PyObject *values, PyObject *numbers, Py_ssize_t at)
{
    Py_ssize_t number = at < PyList_GET_SIZE(numbers) ? PyLong_AsSsize_t(PyList_GET_ITEM(numbers, at)) : -1;
    return PyErr_Occurred() ? NULL : PyList_GetItem(values, number);
}

/* The program's arguments among `values`: a list, or NULL with an error. Guards of donated inputs are dropped,
   because XLA cannot take memory with other references. */
static PyObject *arguments_of(PyObject *pending, PyObject *binding, PyObject *values)
{
    PyObject *numbers = PyTuple_GET_ITEM(binding, 1), *arguments = PyList_New(0);
    for (Py_ssize_t at = 0; arguments != NULL && at < PyList_GET_SIZE(numbers); at++) {
        PyObject *value = argument_of(values, numbers, at);
        if (value == NULL || PyList_Append(arguments, value) < 0)
            Py_CLEAR(arguments);
    }
    PyObject *donated = arguments == NULL ? NULL : PyObject_GetAttr(PyTuple_GET_ITEM(binding, 0), str_donated);
    if (donated == NULL || !PyTuple_Check(donated)) {
        if (donated != NULL)
            PyErr_SetString(PyExc_TypeError, "the donated arguments of a program: a tuple of numbers");
        Py_CLEAR(arguments);
    }
    for (Py_ssize_t at = 0; arguments != NULL && at < PyTuple_GET_SIZE(donated); at++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(donated, at));
        PyObject *value = PyErr_Occurred() ? NULL : PyList_GetItem(arguments, number);
        PyObject *id = value == NULL ? NULL : PyLong_FromVoidPtr(value);
        int there = id == NULL ? -1 : PyDict_Contains(SLOT(pending, PENDING_GUARDS), id);
        if (there < 0 || (there && PyDict_DelItem(SLOT(pending, PENDING_GUARDS), id) < 0))
            Py_CLEAR(arguments);
        Py_XDECREF(id);
    }
    Py_XDECREF(donated);
    return arguments;
}

static double seconds(PyObject *number) { return PyFloat_AsDouble(number); }

static PyObject *now(void) { return PyObject_CallNoArgs(parts[TIME]); }

static int seal(PyObject *pending)
{
    if (SLOT(pending, PENDING_OPEN_STATE) == Py_None)
        return 0;
    PyObject *ended = now();
    if (ended == NULL)
        return -1;
    PyObject *tip = SLOT(pending, PENDING_OPEN_STATE);
    Py_XSETREF(SLOT(pending, PENDING_END), Py_NewRef(tip));
    SLOT(pending, PENDING_OPEN_STATE) = Py_NewRef(Py_None);
    Py_DECREF(tip);
    Py_XSETREF(SLOT(pending, PENDING_ENDED), ended);
    return 0;
}

static PyObject *empty_list(void) { return PyList_New(0); }
static PyObject *empty_dict(void) { return PyDict_New(); }
static PyObject *empty_set(void) { return PySet_New(NULL); }

/* `PendingTrace.close` of a trace that ran as a whole and whose last state has an executable; -1 is an error, and then
   the trace is as it was. */
static int close_trace(PyObject *pending)
{
    static const struct {
        int slot;
        PyObject *(*empty)(void);
    } emptied[] = {{PENDING_RECORDS, empty_list}, {PENDING_INPUTS, empty_list},  {PENDING_OWNERS, empty_list},
                   {PENDING_SLOTS_OF, empty_dict}, {PENDING_GUARDS, empty_dict}, {PENDING_SOURCES, empty_set}};
    enum { EMPTIED = sizeof emptied / sizeof *emptied, COUNT = EMPTIED + 2 };
    int slots[COUNT], made = 0;
    PyObject *values[COUNT];
    while (made < EMPTIED && (values[made] = emptied[made].empty()) != NULL) {
        slots[made] = emptied[made].slot;
        made++;
    }
    if (made == EMPTIED && (values[made] = PyObject_GetAttr(values[0], str_append)) != NULL) { /* of the new records */
        slots[made++] = PENDING_APPEND;
        slots[made] = PENDING_END;
        values[made++] = Py_XNewRef(SLOT(pending, PENDING_ROOT));
    }
    for (int at = 0; made == COUNT && at < COUNT; at++) {
        PyObject *before = SLOT(pending, slots[at]);
        SLOT(pending, slots[at]) = values[at];
        values[at] = before;
    }
    if (made == COUNT)
        Py_XSETREF(SLOT(pending, PENDING_CLOSED), Py_NewRef(Py_True));
    for (int at = 0; at < made; at++)
        Py_XDECREF(values[at]); /* when all are stored, because a finalizer may look at the trace */
    return made == COUNT ? 0 : -1;
}

/* `Execution._deliver` of a trace without checks and failures. */
static int deliver(PyObject *pending, PyObject *in_flight, PyObject *tensors)
{
    PyObject *values = PyObject_CallMethodNoArgs(in_flight, str_placed);
    if (values == NULL)
        return -1;
    if (!PyList_Check(values) || PyList_GET_SIZE(values) != PyList_GET_SIZE(tensors)) {
        PyErr_SetString(PyExc_ValueError, "a program gave another number of results than was asked for");
        Py_DECREF(values);
        return -1;
    }
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(tensors); at++) {
        PyObject *tensor = PyList_GET_ITEM(tensors, at);
        Py_XSETREF(SLOT(tensor, TENSOR_VALUE), Py_NewRef(PyList_GET_ITEM(values, at)));
        Py_XSETREF(SLOT(tensor, TENSOR_PENDING), Py_NewRef(Py_None));
        Py_XSETREF(SLOT(tensor, TENSOR_EDGE), Py_NewRef(Py_None));
        Py_XSETREF(SLOT(tensor, TENSOR_CODE), Py_NewRef(Py_None));
    }
    Py_DECREF(values);
    PyObject *none = PyTuple_New(0);
    int failed = none == NULL || PyObject_SetAttr(in_flight, str_tensors, none) < 0;
    Py_XDECREF(none);
    if (failed)
        return -1;
    Py_XSETREF(SLOT(pending, PENDING_IN_FLIGHT_RUN), Py_NewRef(Py_None));
    return close_trace(pending);
}

/* The `except` of `_run_in_python`. */
static void tell_not_started(PyObject *pending, PyObject *tensors, PyObject *in_flight)
{
    PyObject *error = raised(), *args[] = {pending, tensors, in_flight, error};
    PyObject *nothing = PyObject_Vectorcall(parts[NOT_STARTED], args, 4, NULL);
    if (nothing != NULL)
        raise_again(error);
    else
        Py_DECREF(error);
    Py_XDECREF(nothing);
}

/* Starts the program of `in_flight` and stores its time; -1 is an error. */
static int start(PyObject *pending, PyObject *executable, PyObject *values, PyObject *awaited, PyObject *tensors,
                 PyObject *in_flight)
{
    PyObject *began = now(), *ended = NULL, *took = NULL, *args[] = {executable, values, awaited, in_flight};
    PyObject *nothing = began == NULL ? NULL : PyObject_VectorcallMethod(str_start, args, 4, NULL);
    int done = -1;
    if (nothing == NULL)
        tell_not_started(pending, tensors, in_flight);
    else if ((ended = now()) != NULL && (took = PyFloat_FromDouble(seconds(ended) - seconds(began))) != NULL)
        done = PyObject_SetAttr(in_flight, str_seconds, took);
    Py_XDECREF(nothing);
    Py_XDECREF(began);
    Py_XDECREF(ended);
    Py_XDECREF(took);
    return done;
}

/* A `Run`, a tuple with the fields of RUN_FIELDS: `tuple.__new__(Run, fields)`. */
static PyObject *run_of(PyObject *binding, PyObject *in_flight, PyObject *recorded, PyObject *began)
{
    PyObject *took = PyObject_GetAttr(in_flight, str_seconds), *args = NULL, *run = NULL;
    PyObject *fields = took == NULL ? NULL : PyTuple_Pack(5, binding, Py_None, took, recorded, began);
    if (fields != NULL && (args = PyTuple_Pack(1, fields)) != NULL)
        run = PyTuple_Type.tp_new((PyTypeObject *)parts[RUN], args, NULL);
    Py_XDECREF(args);
    Py_XDECREF(fields);
    Py_XDECREF(took);
    return run;
}

/* Runs a sealed trace with `binding`: a Run, or NULL with an error. */
static PyObject *run_with(PyObject *pending, PyObject *binding, PyObject *tensors, PyObject *values, PyObject *const *args)
{
    PyObject *began = Py_NewRef(SLOT(pending, PENDING_BEGAN)), *executable = PyTuple_GET_ITEM(binding, 0);
    PyObject *recorded = PyFloat_FromDouble(seconds(SLOT(pending, PENDING_ENDED)) - seconds(began));
    PyObject *in_flight = NULL, *run = NULL, *nothing = NULL;
    if (recorded != NULL) {
        PyObject *fields[] = {binding, tensors, args[1], args[2], Py_None, recorded};
        in_flight = PyObject_Vectorcall(parts[IN_FLIGHT_RUN], fields, 6, NULL);
    }
    if (in_flight == NULL)
        goto end;
    Py_XSETREF(SLOT(pending, PENDING_IN_FLIGHT_RUN), Py_NewRef(in_flight));
    if (start(pending, executable, values, args[3], tensors, in_flight) < 0)
        goto end;
    PyObject *both[] = {pending, in_flight};
    if ((nothing = PyObject_Vectorcall(parts[NOTE], both, 2, NULL)) == NULL)
        goto end;
    run = run_of(binding, in_flight, recorded, began);
    if (run != NULL && deliver(pending, in_flight, tensors) < 0)
        Py_CLEAR(run);
end:
    Py_XDECREF(nothing);
    Py_XDECREF(in_flight);
    Py_XDECREF(recorded);
    Py_DECREF(began);
    return run;
}

/* `hand_over(pending, kind, spot, awaited)`: what `_run_in_python` does with a trace that ran before, if there is
   nothing else to do: a Run. Otherwise None, and nothing has changed. */
static PyObject *hand_over(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 4 || parts[PARTS - 1] == NULL)
        return PyErr_Format(PyExc_TypeError, "hand_over takes a trace, a kind, a place, and whether it is awaited");
    PyObject *pending = args[0], *tensors = NULL, *wanted = NULL, *binding = NULL, *values = NULL, *arguments = NULL;
    PyObject *run = NULL;
    int usual = is_usual(pending);
    PyObject *tip = usual == 1 ? Py_NewRef(SLOT(pending, PENDING_OPEN_STATE)) : NULL;
    PyObject *end = usual == 1 ? Py_NewRef(tip != Py_None ? tip : SLOT(pending, PENDING_END)) : NULL;
    if (usual == 1 && (usual = live(pending, &tensors, &wanted)) == 1 && SLOT(pending, PENDING_OPEN_STATE) == tip &&
        (usual = inputs_are_there(pending)) == 1 && (values = values_of(pending)) != NULL)
        binding = binding_of(pending, end, wanted, values);
    if (binding == NULL)
        run = PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    else {
        PyObject *nothing = PyObject_CallOneArg(parts[USE], PyTuple_GET_ITEM(binding, 0));
        if (nothing != NULL && SLOT(pending, PENDING_OPEN_STATE) != tip)
            run = Py_NewRef(Py_None); /* a finalizer recorded an operation */
        else if (nothing != NULL && seal(pending) == 0 && (arguments = arguments_of(pending, binding, values)) != NULL) {
            Py_CLEAR(values);
            run = run_with(pending, binding, tensors, arguments, args);
        }
        Py_XDECREF(nothing);
    }
    Py_XDECREF(arguments);
    Py_XDECREF(values);
    Py_XDECREF(binding);
    Py_XDECREF(wanted);
    Py_XDECREF(tensors);
    Py_XDECREF(end);
    Py_XDECREF(tip);
    return run;
}

/* ---- The type Call ---------------------------------------------------------------------------------------- */

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
    Py_CLEAR(self->dict); /* `plain` is kept, because freeing the dictionary may still call it */
    return 0;
}

static void call_dealloc(Call *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, call_dealloc) /* calls may be nested to any depth */
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
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "lazynb.recording._fast.Call",
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

/* ---- The module ------------------------------------------------------------------------------------------- */

static PyObject *configure(PyObject *module, PyObject *arguments)
{
    (void)module;
    return configured(arguments, names, NAMES, known, slots, OFFSETS, offsets);
}

/* Whether a class is a tuple with RUN_FIELDS; -1 is an error. */
static int has_run_fields(PyObject *run)
{
    if (!PyType_Check(run) || !PyType_IsSubtype((PyTypeObject *)run, &PyTuple_Type))
        return 0;
    PyObject *fields = PyObject_GetAttrString(run, "_fields"), *wanted = fields == NULL ? NULL : Py_BuildValue(RUN_FIELDS);
    int same = wanted == NULL ? -1 : PyObject_RichCompareBool(fields, wanted, Py_EQ);
    Py_XDECREF(wanted);
    Py_XDECREF(fields);
    return same;
}

static PyObject *configure_hand_over(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *run = PyDict_Check(arguments) ? argument_named(arguments, part_names[RUN]) : NULL;
    int fits = run == NULL ? 1 : has_run_fields(run);
    Py_XDECREF(run);
    if (PyErr_Occurred())
        return NULL;
    if (!fits)
        return PyErr_Format(PyExc_TypeError, "Run has other fields");
    return configured(arguments, part_names, PARTS, parts, NULL, 0, NULL);
}

static PyMethodDef functions[] = {
    {"here", here, METH_O, PyDoc_STR("here(depth): see lazynb.user_code.call_stack.current_position.")},
    {"hand_over", (PyCFunction)(void (*)(void))hand_over, METH_FASTCALL,
     PyDoc_STR("hand_over(pending, kind, spot, awaited): runs a trace as trace_launch._run_in_python does, if it ran before and "
               "nothing else is to be done. Returns a Run; None if it did nothing.")},
    {"configure_hand_over", configure_hand_over, METH_O,
     PyDoc_STR("Takes what hand_over works with, by name. Raises KeyError for one that is missing.")},
    {"configure", configure, METH_O,
     PyDoc_STR("Takes the classes and functions that calls work with, by name. Raises KeyError for one that is "
               "missing, TypeError if an attribute is no slot.")},
    {"again", (PyCFunction)(void (*)(void))again, METH_FASTCALL,
     PyDoc_STR("again(pending, name, values, alike, frame): replays a recorded call without checking JAX's configuration. "
               "Returns its results, or None if it is no plain repetition.")},
    {"in_hook", runs_hook, METH_NOARGS, PyDoc_STR("in_hook(): see lazynb.recording.open_traces.OpenTraces.")},
    {"take_slots", (PyCFunction)(void (*)(void))take_slots, METH_FASTCALL,
     PyDoc_STR("take_slots(pending, operands, slots): see lazynb.recording.replay.python_replay.")},
    {"new_tensors", (PyCFunction)(void (*)(void))tensors_of, METH_FASTCALL,
     PyDoc_STR("new_tensors(pending, avals, first): see lazynb.recording.replay.python_replay.")},
    {NULL, NULL, 0, NULL},
};

static int filled(PyObject *module)
{
    static const Text texts[] = {
        {&str_append, "append"}, {&str_array, "array"}, {&str_aval, "aval"}, {&str_forward_tracebacks, "forward_tracebacks"},
        {&str_calls, "_calls"}, {&str_committed, "_committed"},
        {&str_name, "__name__"}, {&str_observers, "observers"}, {&str_placed, "placed"},
        {&str_pointer, "unsafe_buffer_pointer"}, {&str_seconds, "seconds"}, {&str_start, "start"},
        {&str_tensors, "tensors"}, {&str_traceback, "traceback"}, {&str_context, "context"}, {&str_dict, "__dict__"}, {&str_donated, "donated"}, {&str_f_code, "f_code"}, {&str_inputs, "inputs"},
        {&str_is_deleted, "is_deleted"}, {&str_origin_of, "origin_of"}, {&str_parent_trace, "parent_trace"},
        {&str_pending, "pending"}, {&str_examine_after_replay, "examine_after_replay"}, {&str_is_config_unchanged, "is_config_unchanged"}, {&str_value, "value"},
    };
    if (begun(module, texts, sizeof texts / sizeof *texts) < 0 || PyType_Ready(&CallType) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Call", (PyObject *)&CallType);
}

static PyModuleDef_Slot module_slots[] = {MAIN_INTERPRETER_ONLY {Py_mod_exec, filled}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lazynb.recording._fast",
    .m_doc = PyDoc_STR("Recording of remembered calls in C; lazynb.recording.replay.python_replay is the specification."),
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__fast(void) { return PyModuleDef_Init(&definition); }
