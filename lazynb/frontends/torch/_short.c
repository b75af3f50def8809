/* The fast path of PyTorch operations on device `jax`, in C.

   It replays earlier calls as lazynb/frontends/torch/dispatch/torch_replay.py and the start of `dispatch` in
   dispatcher.py specify, and calls Python for everything else. Calls are only recorded in Python.

   Convention: a function that returns a PyObject * returns a new reference. NULL with an error set is an error;
   NULL without one means that Python must handle the call. Comments name deviations. */

#include "../../_native.h"

/* ---- Objects from Python ----------------------------------------------------------------------------------------- */

enum {
    STORAGE_VALUE, STORAGE_HOST, STORAGE_VERSION, STORAGE_LAYOUT, STORAGE_BOUNDS, STORAGE_ADDRESS, LAYOUT_SHAPE,
    LAYOUT_STRIDE, LAYOUT_OFFSET, LAYOUT_DTYPE, RESULTS_BOUNDS, RESULTS_COPIES, RESULTS_NAME, RESULTS_RANGE,
    RESULTS_IS_REPLAYED, RESULTS_STEPS, RESULTS_TREE, RESULTS_WHOLE, CHANGES_COUNT, PENDING_OPEN_STATE, KNOWN_BOUNDS, KNOWN_ARRAYS, KNOWN_PLAIN, OFFSETS
};

static const Slot slots[OFFSETS] = {
    {"Storage", "value"}, {"Storage", "host"}, {"Storage", "version"}, {"Storage", "layout"}, {"Storage", "bounds"},
    {"Storage", "address"}, {"Layout", "shape"}, {"Layout", "stride"}, {"Layout", "offset"}, {"Layout", "dtype"},
    {"Results", "bounds"}, {"Results", "copies"}, {"Results", "name"}, {"Results", "range"}, {"Results", "is_replayed"},
    {"Results", "steps"}, {"Results", "tree"}, {"Results", "whole"}, {"Changes", "count"},
    {"Pending", "open_state"}, {"Known", "_bounds"}, {"Known", "_arrays"}, {"Known", "plain"},
};

static Py_ssize_t offsets[OFFSETS];

enum {
    TENSOR, STORAGE, LAYOUT, RESULTS, CHANGES, PENDING, KNOWN, LAZY_TRACE, AMBIENT, CHANGES_OBJECT, RECALLABLE, RESULTS_OF, PLAIN,
    AROUND, OPEN, AGAIN, MAKE, STRIDED, DEVICE, SAME, WRITERS, WRITING, BOUNDS_OF, NOTED_BOUNDS, QUIET,
    FORWARD_AD, IS_GRAD_ENABLED, IS_INFERENCE, LEAVES, GLOBAL_HOOKS, FUNCTIONS, RUNNING, SCOPES_CONTEXT, MODULE_NAMES,
    SCOPES_INSIDE, HOST_WAYS, HOST_OF, UP, WHOLE, NEGATIVE, LAYOUTS, LAYOUT_WITH, PLAIN_TENSOR, MOST, SLOW, NAMES
};

static const char *const names[NAMES] = {
    "Tensor", "Storage", "Layout", "Results", "Changes", "Pending", "Known", "LazyTrace", "ambient", "changes", "recallable", "results_of",
    "plain", "around", "open", "again", "make", "strided", "device", "same", "writers", "writing", "bounds_of", "noted_bounds", "quiet",
    "forward_ad", "is_grad_enabled", "is_inference_mode_enabled", "leaves", "global_hooks", "functions", "running", "scopes", "module_names",
    "scopes_inside", "host_ways", "host_of", "up", "whole", "negative", "layouts", "layout", "plain_tensor", "most", "slow",
};

static PyObject *known[NAMES];

static PyObject *str_array, *str_as_strided, *str_base, *str_bounds, *str_buffers, *str_clone, *str_context,
    *str_current_level, *str_dict, *str_dtype, *str_elem, *str_is_inference, *str_layout, *str_offset_of, *str_shape,
    *str_stride, *str_modules, *str_modules_inside, *str_parameters, *str_pending, *str_quick, *str_requires_grad, *str_value_version,
    *str_steps, *str_storage, *str_the_value, *str_value, *zero, *one, *none_at_all;

/* ---- Keys of calls: torch_replay.py ------------------------------------------------------------------------------ */

/* A call; `row` is the list of its operands, as in `key_and_operands`. */
typedef struct {
    int numbers; /* whether numbers are operands */
    PyObject *row;
} Call;

static PyObject *key_of(Call *call, PyObject *x);

/* `(key_of(item), ...)`, for a look-up */
static PyObject *keys_of(Call *call, PyObject *const *items, Py_ssize_t count)
{
    PyObject *keys = hidden_tuple(count);
    for (Py_ssize_t at = 0; keys != NULL && at < count; at++) {
        PyObject *key = key_of(call, items[at]);
        if (key == NULL)
            Py_CLEAR(keys);
        else
            PyTuple_SET_ITEM(keys, at, key);
    }
    return keys;
}

/* `(float, x or repr(x))` */
static PyObject *key_of_float(PyObject *x)
{
    PyObject *value = PyFloat_AS_DOUBLE(x) != 0.0 ? Py_NewRef(x) : PyObject_Repr(x); /* 0.0 == -0.0 */
    PyObject *key = value == NULL ? NULL : PyTuple_Pack(2, (PyObject *)&PyFloat_Type, value);
    Py_XDECREF(value);
    return key;
}

static int is_plain(PyObject *kind)
{
    if (kind == (PyObject *)&PyLong_Type || kind == (PyObject *)&PyBool_Type || kind == (PyObject *)Py_TYPE(Py_None))
        return 1;
    return PySet_Contains(known[PLAIN], kind);
}

/* The key of an argument; appends its tensors and numbers to the row. */
static PyObject *key_of(Call *call, PyObject *x)
{
    PyObject *kind = (PyObject *)Py_TYPE(x);
    if (kind == known[TENSOR])
        return PyList_Append(call->row, x) < 0 ? NULL : PyObject_GetAttr(x, str_layout);
    if (kind == (PyObject *)&PyFloat_Type) {
        if (!call->numbers)
            return key_of_float(x);
        return PyList_Append(call->row, x) < 0 ? NULL : Py_NewRef(kind);
    }
    if (kind == (PyObject *)&PyList_Type || kind == (PyObject *)&PyTuple_Type) {
        PyObject *items = PySequence_Tuple(x), *keys = NULL;
        if (items != NULL && Py_EnterRecursiveCall(" for the key of a call") == 0) {
            keys = keys_of(call, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items));
            Py_LeaveRecursiveCall();
        }
        Py_XDECREF(items);
        return keys;
    }
    int plain = is_plain(kind);
    if (plain <= 0)
        return NULL;
    if (call->numbers && kind == (PyObject *)&PyLong_Type && PyList_Append(call->row, x) < 0)
        return NULL;
    return PyTuple_Pack(2, kind, x);
}

/* The key of a call of the operation with this `id`. */
static PyObject *key_of_call(Call *call, PyObject *id, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), named = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs), at;
    PyObject *key = hidden_tuple(1 + count + (named ? named + 1 : 0)), *word, *value, *part;
    PyObject *words = named && key != NULL ? hidden_tuple(named) : NULL;
    Py_ssize_t place = 0;
    if (key == NULL || (named && words == NULL))
        goto failed;
    PyTuple_SET_ITEM(key, 0, Py_NewRef(id));
    for (at = 0; at < count; at++) {
        if ((part = key_of(call, PyTuple_GET_ITEM(args, at))) == NULL)
            goto failed;
        PyTuple_SET_ITEM(key, 1 + at, part);
    }
    for (at = 0; at < named && PyDict_Next(kwargs, &place, &word, &value); at++) {
        PyTuple_SET_ITEM(words, at, Py_NewRef(word));
        Py_INCREF(value); /* the dictionary may change meanwhile */
        part = key_of(call, value);
        Py_DECREF(value);
        if (part == NULL)
            goto failed;
        PyTuple_SET_ITEM(key, 1 + count + at, part);
    }
    if (at < named)
        goto failed;
    if (named)
        PyTuple_SET_ITEM(key, 1 + count + named, words);
    return key;
failed:
    Py_XDECREF(key);
    Py_XDECREF(words);
    return NULL;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* `Tensor.__new__(Tensor, storage, layout, steps)` */
static PyObject *new_tensor(PyObject *storage, PyObject *layout, PyObject *steps)
{
    PyObject *offset = SLOT(layout, LAYOUT_OFFSET);
    int starts = PyObject_IsTrue(offset);
    if (starts < 0)
        return NULL;
    PyObject *args[] = {known[TENSOR], SLOT(layout, LAYOUT_SHAPE), SLOT(layout, LAYOUT_STRIDE), starts ? offset : Py_None,
                        Py_None, SLOT(layout, LAYOUT_DTYPE), known[STRIDED], known[DEVICE]};
    PyObject *tensor = PyObject_Vectorcall(known[MAKE], args, 8, NULL);
    if (tensor != NULL && (PyObject_SetAttr(tensor, str_storage, storage) < 0 ||
                           PyObject_SetAttr(tensor, str_layout, layout) < 0 ||
                           PyObject_SetAttr(tensor, str_steps, steps) < 0))
        Py_CLEAR(tensor);
    return tensor;
}

/* `wrap(value, layout)` with host values `host`. */
static PyObject *wrap_known(PyObject *value, PyObject *layout, PyObject *host)
{
    PyObject *storage = new_of(known[STORAGE]);
    if (storage == NULL)
        return NULL;
    SLOT(storage, STORAGE_VALUE) = Py_NewRef(value);
    SLOT(storage, STORAGE_HOST) = Py_NewRef(host);
    SLOT(storage, STORAGE_VERSION) = Py_NewRef(zero);
    SLOT(storage, STORAGE_LAYOUT) = Py_NewRef(layout);
    SLOT(storage, STORAGE_BOUNDS) = Py_NewRef(Py_None);
    SLOT(storage, STORAGE_ADDRESS) = Py_NewRef(zero);
    PyObject *tensor = new_tensor(storage, layout, none_at_all);
    Py_DECREF(storage);
    return tensor;
}

static PyObject *wrap(PyObject *value, PyObject *layout) { return wrap_known(value, layout, Py_None); }

/* `torch_replay.wrap_results(values, tree)` for a flat tree. */
static PyObject *wrapped(PyObject *values, PyObject *tree)
{
    if (IS_A(tree, LAYOUT))
        return wrap(values, tree);
    Py_ssize_t count = PyList_GET_SIZE(tree), next = 0;
    PyObject *given = PySequence_Fast(values, "an operation with several results gave one");
    PyObject *tensors = given == NULL ? NULL : hidden_tuple(count);
    for (Py_ssize_t at = 0; tensors != NULL && at < count; at++) {
        PyObject *wanted = PyList_GET_ITEM(tree, at), *one;
        if (!IS_A(wanted, LAYOUT))
            one = Py_NewRef(wanted);
        else if (next < PySequence_Fast_GET_SIZE(given))
            one = wrap(PySequence_Fast_GET_ITEM(given, next++), wanted);
        else
            one = PyErr_Format(PyExc_ValueError, "an operation gave fewer results than it has");
        if (one == NULL)
            Py_CLEAR(tensors);
        else
            PyTuple_SET_ITEM(tensors, at, one);
    }
    Py_XDECREF(given);
    return shown(tensors);
}

/* Whether the tree is a layout, or one list without nested lists. */
static int is_flat(PyObject *tree)
{
    if (IS_A(tree, LAYOUT))
        return 1;
    if (!PyList_CheckExact(tree))
        return 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(tree); at++)
        if (PyList_CheckExact(PyList_GET_ITEM(tree, at)))
            return 0;
    return 1;
}

/* ---- Views ------------------------------------------------------------------------------------------------------- */

/* A view with `layout`, one `step` after the `steps` of a tensor in `storage`. */
static PyObject *view(PyObject *storage, PyObject *steps, PyObject *layout, PyObject *step)
{
    if (step == known[SAME])
        return new_tensor(storage, layout, steps);
    PyObject *taken = PyTuple_New(PyTuple_GET_SIZE(steps) + 1), *tensor;
    if (taken == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(steps); at++)
        PyTuple_SET_ITEM(taken, at, Py_NewRef(PyTuple_GET_ITEM(steps, at)));
    PyTuple_SET_ITEM(taken, PyTuple_GET_SIZE(steps), Py_NewRef(step));
    tensor = new_tensor(storage, layout, taken);
    Py_DECREF(taken);
    return tensor;
}

/* Whether a view of `source` must be made outside inference mode, by Python; 1 also with an error. */
static int is_from_outside(PyObject *source)
{
    PyObject *enabled = PyObject_CallNoArgs(known[IS_INFERENCE]), *inside;
    if (enabled == Py_False) {
        Py_DECREF(enabled);
        return 0;
    }
    inside = enabled == NULL ? NULL : PyObject_CallMethodNoArgs(source, str_is_inference);
    Py_XDECREF(enabled);
    Py_XDECREF(inside);
    return inside != Py_True;
}

/* `torch_replay.make_views(source, found)` */
static PyObject *views(PyObject *source, PyObject *found)
{
    PyObject *all = Py_NewRef(SLOT(found, RESULTS_STEPS)), *tree = Py_NewRef(SLOT(found, RESULTS_TREE)), *result = NULL;
    PyObject *storage = is_from_outside(source) ? NULL : PyObject_GetAttr(source, str_storage);
    PyObject *steps = storage == NULL ? NULL : PyObject_GetAttr(source, str_steps);
    if (steps == NULL || !PyTuple_Check(steps))
        goto end;
    if (IS_A(tree, LAYOUT))
        result = view(storage, steps, tree, PyList_GET_ITEM(all, 0));
    else if ((result = PyList_New(0)) != NULL) {
        for (Py_ssize_t at = 0; result != NULL && at < PyList_GET_SIZE(all); at++) {
            PyObject *one = view(storage, steps, PyList_GET_ITEM(tree, at), PyList_GET_ITEM(all, at));
            if (one == NULL || PyList_Append(result, one) < 0)
                Py_CLEAR(result);
            Py_XDECREF(one);
        }
    }
end:
    Py_XDECREF(storage);
    Py_XDECREF(steps);
    Py_DECREF(all);
    Py_DECREF(tree);
    return result;
}

/* Whether `views` can handle the results: as many steps as layouts. */
static int are_views(PyObject *found)
{
    PyObject *steps = SLOT(found, RESULTS_STEPS), *tree = SLOT(found, RESULTS_TREE);
    if (!PyList_CheckExact(steps) || PyList_GET_SIZE(steps) == 0)
        return 0;
    if (IS_A(tree, LAYOUT))
        return PyList_GET_SIZE(steps) == 1;
    if (!PyList_CheckExact(tree) || PyList_GET_SIZE(tree) != PyList_GET_SIZE(steps))
        return 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(tree); at++)
        if (!IS_A(PyList_GET_ITEM(tree, at), LAYOUT))
            return 0;
    return 1;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* `Tensor._read`, by replay of an earlier read. */
static PyObject *read_again(PyObject *tensor, PyObject *storage, PyObject *steps, PyObject *pending)
{
    PyObject *version = Py_NewRef(SLOT(storage, STORAGE_VERSION)), *value = PyTuple_Pack(1, SLOT(storage, STORAGE_VALUE));
    PyObject *args[] = {pending, steps, value, Py_False, Py_None, Py_False};
    PyObject *result = value == NULL ? NULL : PyObject_Vectorcall(known[AGAIN], args, 6, NULL);
    if (result == Py_None)
        Py_CLEAR(result);
    if (result != NULL && (PyObject_SetAttr(tensor, str_the_value, result) < 0 ||
                           PyObject_SetAttr(tensor, str_value_version, version) < 0))
        Py_CLEAR(result);
    Py_XDECREF(value);
    Py_DECREF(version);
    return result;
}

/* `Tensor._elem` of a view with `steps`; NULL only with an error. */
static PyObject *seen(PyObject *tensor, PyObject *storage, PyObject *steps, PyObject *pending)
{
    PyObject *version = PyObject_GetAttr(tensor, str_value_version), *value = NULL;
    if (version == NULL)
        return NULL;
    int same = PyObject_RichCompareBool(version, SLOT(storage, STORAGE_VERSION), Py_EQ);
    Py_DECREF(version);
    if (same == 1)
        return PyObject_GetAttr(tensor, str_the_value);
    if (same == 0)
        value = read_again(tensor, storage, steps, pending);
    return value != NULL || PyErr_Occurred() ? value : PyObject_GetAttr(tensor, str_elem);
}

/* `storage.read()` for host values; NULL only with an error. */
static PyObject *array_of_known(PyObject *storage)
{
    if (SLOT(storage, STORAGE_VALUE) == Py_None) {
        PyObject *host = Py_NewRef(SLOT(storage, STORAGE_HOST)), *array = PyObject_CallMethodNoArgs(host, str_array);
        Py_DECREF(host);
        if (array == NULL)
            return NULL;
        Py_SETREF(SLOT(storage, STORAGE_VALUE), array);
    }
    return Py_NewRef(SLOT(storage, STORAGE_VALUE));
}

/* The array of a tensor. `has_before`: the host may run the operation, so Python must handle host values. */
static PyObject *value_of(PyObject *tensor, PyObject *pending, int has_before)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage), *steps = NULL, *value = NULL;
    if (storage == NULL || !IS_A(storage, STORAGE))
        goto end;
    value = Py_NewRef(SLOT(storage, STORAGE_VALUE));
    if (value == Py_None || SLOT(storage, STORAGE_HOST) != Py_None) {
        Py_CLEAR(value);
        if (!has_before && (steps = PyObject_GetAttr(tensor, str_steps)) != NULL)
            value = steps == none_at_all && IS_A(SLOT(storage, STORAGE_HOST), KNOWN) ? array_of_known(storage)
                                                                                     : PyObject_GetAttr(tensor, str_elem);
    } else if ((steps = PyObject_GetAttr(tensor, str_steps)) == NULL || !PyTuple_Check(steps))
        Py_CLEAR(value);
    else if (PyTuple_GET_SIZE(steps) > 0)
        Py_SETREF(value, seen(tensor, storage, steps, pending));
end:
    Py_XDECREF(steps);
    Py_XDECREF(storage);
    return value;
}

/* The list of the arrays and numbers of a row. */
static PyObject *values_of(PyObject *row, PyObject *pending, int has_before)
{
    PyObject *values = PyList_New(0);
    int tensors = 0;
    for (Py_ssize_t at = 0; values != NULL && at < PyList_GET_SIZE(row); at++) {
        PyObject *x = PyList_GET_ITEM(row, at);
        int is_tensor = IS_A(x, TENSOR);
        PyObject *value = is_tensor ? value_of(x, pending, has_before) : Py_NewRef(x);
        tensors += is_tensor;
        if (value == NULL || PyList_Append(values, value) < 0)
            Py_CLEAR(values);
        Py_XDECREF(value);
    }
    if (values != NULL && has_before && tensors == 0)
        Py_CLEAR(values);
    return values;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* `replay_context.current_trace()`: the trace that records an operation called now. */
static PyObject *open_trace(void)
{
    PyObject *trace = PyObject_GetAttr(known[AMBIENT], str_value), *pending = NULL, *before = NULL, *count = NULL;
    if (trace == NULL || !IS_A(trace, LAZY_TRACE))
        goto end;
    if ((pending = PyObject_GetAttr(trace, str_pending)) == NULL ||
        (before = PyObject_GetAttr(known[AROUND], str_pending)) == NULL ||
        (count = PyObject_GetAttr(known[AROUND], str_quick)) == NULL)
        Py_CLEAR(pending);
    else {
        int same = pending == before && IS_A(pending, PENDING) && SLOT(pending, PENDING_OPEN_STATE) != Py_None;
        if (same)
            same = PyObject_RichCompareBool(count, SLOT(known[CHANGES_OBJECT], CHANGES_COUNT), Py_EQ);
        if (same < 1)
            Py_SETREF(pending, same < 0 ? NULL : PyObject_CallNoArgs(known[OPEN]));
        if (pending == Py_None)
            Py_CLEAR(pending);
    }
end:
    Py_XDECREF(count);
    Py_XDECREF(before);
    Py_XDECREF(trace);
    return pending;
}

/* Replays a call: an array, or a sequence of arrays. */
static PyObject *arrays_of(PyObject *found, PyObject *row, PyObject *numbers, int has_before)
{
    PyObject *name = Py_NewRef(SLOT(found, RESULTS_NAME)), *values = NULL, *pending = open_trace(), *arrays = NULL;
    if (pending != NULL && (values = values_of(row, pending, has_before)) != NULL) {
        PyObject *args[] = {pending, name, values, numbers, Py_None, Py_False}; /* no other holder of the arrays */
        arrays = PyObject_Vectorcall(known[AGAIN], args, 6, NULL);
        if (arrays == Py_None)
            Py_CLEAR(arrays);
    }
    Py_XDECREF(pending);
    Py_XDECREF(values);
    Py_DECREF(name);
    return arrays;
}

/* `torch_replay.with_bounds(result, found)`; steals the reference. NULL is returned unchanged. */
static PyObject *bounded(PyObject *result, PyObject *found)
{
    PyObject *bounds = SLOT(found, RESULTS_BOUNDS);
    if (result == NULL || bounds == Py_None || !IS_A(result, TENSOR))
        return result;
    PyObject *storage = PyObject_GetAttr(result, str_storage);
    if (storage == NULL || !IS_A(storage, STORAGE))
        Py_CLEAR(result);
    else
        Py_SETREF(SLOT(storage, STORAGE_BOUNDS), Py_NewRef(bounds));
    Py_XDECREF(storage);
    return result;
}

/* `torch_replay.replay_copy(source, found)` */
static PyObject *copied(PyObject *source, PyObject *found)
{
    PyObject *pending = open_trace(), *value = pending == NULL ? NULL : value_of(source, pending, 1);
    PyObject *copy = value == NULL ? NULL : wrap(value, SLOT(found, RESULTS_TREE));
    PyObject *from = copy == NULL ? NULL : PyObject_GetAttr(source, str_storage), *to = NULL, *bounds;
    if (from == NULL || !IS_A(from, STORAGE))
        Py_CLEAR(copy);
    else if (SLOT(from, STORAGE_BOUNDS) != Py_None) {
        bounds = PyObject_CallOneArg(known[NOTED_BOUNDS], source);
        to = bounds == NULL ? NULL : PyObject_GetAttr(copy, str_storage);
        if (to == NULL) {
            Py_XDECREF(bounds);
            Py_CLEAR(copy);
        } else
            Py_SETREF(SLOT(to, STORAGE_BOUNDS), bounds);
    }
    Py_XDECREF(to);
    Py_XDECREF(from);
    Py_XDECREF(value);
    Py_XDECREF(pending);
    return copy;
}

/* `torch_replay.replay` */
static PyObject *again(PyObject *found, PyObject *row, PyObject *numbers, int has_before)
{
    PyObject *tree = Py_NewRef(SLOT(found, RESULTS_TREE)), *result = NULL;
    PyObject *arrays = is_flat(tree) ? arrays_of(found, row, numbers, has_before) : NULL;
    if (arrays != NULL)
        result = bounded(wrapped(arrays, tree), found);
    Py_XDECREF(arrays);
    Py_DECREF(tree);
    return result;
}

/* The cached OpResults of a call of the operation with this `id`. */
static PyObject *found_of(Call *call, PyObject *id, PyObject *args, PyObject *kwargs, int writes)
{
    PyObject *key = key_of_call(call, id, args, kwargs), *found = NULL;
    if (key != NULL && (!writes || PySet_Contains(known[WRITING], key) == 1))
        found = Py_XNewRef(PyDict_GetItemWithError(known[RESULTS_OF], key));
    Py_XDECREF(key);
    if (found == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear(); /* an argument is not hashable */
    return found;
}

/* `value_checks.bounds_of(tensor)`; NULL only with an error. */
static PyObject *bounds_of(PyObject *tensor)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage), *bounds = NULL;
    PyObject *steps = storage == NULL ? NULL : PyObject_GetAttr(tensor, str_steps);
    if (steps == none_at_all && IS_A(storage, STORAGE) && IS_A(SLOT(storage, STORAGE_HOST), KNOWN)) {
        PyObject *host = Py_NewRef(SLOT(storage, STORAGE_HOST));
        bounds = PyObject_CallMethodNoArgs(host, str_bounds);
        Py_DECREF(host);
    }
    if ((bounds == NULL || bounds == Py_None) && steps != NULL && !PyErr_Occurred())
        Py_XSETREF(bounds, PyObject_CallOneArg(known[BOUNDS_OF], tensor));
    Py_XDECREF(steps);
    Py_XDECREF(storage);
    return bounds;
}

/* `value_checks.is_within` for the range in OpResults; 0 also with an error. */
static int is_within(PyObject *found, PyObject *args)
{
    PyObject *range = SLOT(found, RESULTS_RANGE), *bounds;
    if (!PyTuple_Check(range) || PyTuple_GET_SIZE(range) != 3)
        return 0;
    Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(range, 0));
    if (at < 0 || at >= PyTuple_GET_SIZE(args) || !IS_A(PyTuple_GET_ITEM(args, at), TENSOR))
        return 0;
    Py_INCREF(range);
    int is = (bounds = bounds_of(PyTuple_GET_ITEM(args, at))) != NULL && PyTuple_Check(bounds) &&
             PyTuple_GET_SIZE(bounds) == 2 &&
             PyObject_RichCompareBool(PyTuple_GET_ITEM(range, 1), PyTuple_GET_ITEM(bounds, 0), Py_LE) == 1 &&
             PyObject_RichCompareBool(PyTuple_GET_ITEM(bounds, 1), PyTuple_GET_ITEM(range, 2), Py_LT) == 1;
    Py_XDECREF(bounds);
    Py_DECREF(range);
    return is && !PyErr_Occurred();
}

/* Which result of a call is needed: an index, or one of these. */
enum { THE_ONE = -1, ALL = -2 };

/* One result of a call as a tensor; the only one if `which` is THE_ONE. */
static PyObject *one_result(PyObject *found, PyObject *row, PyObject *numbers, int has_before, Py_ssize_t which)
{
    PyObject *tree = Py_NewRef(SLOT(found, RESULTS_TREE)), *arrays = NULL, *given = NULL, *result = NULL;
    if (which == THE_ONE ? !IS_A(tree, LAYOUT) : !PyList_CheckExact(tree) || which >= PyList_GET_SIZE(tree))
        goto end;
    for (Py_ssize_t at = 0; at <= which; at++)
        if (!IS_A(PyList_GET_ITEM(tree, at), LAYOUT))
            goto end;
    if ((arrays = arrays_of(found, row, numbers, has_before)) == NULL)
        goto end;
    if (which == THE_ONE)
        result = bounded(wrap(arrays, tree), found);
    else if ((given = PySequence_Fast(arrays, "an operation with several results gave one")) != NULL &&
             which < PySequence_Fast_GET_SIZE(given))
        result = wrap(PySequence_Fast_GET_ITEM(given, which), PyList_GET_ITEM(tree, which));
end:
    Py_XDECREF(given);
    Py_XDECREF(arrays);
    Py_DECREF(tree);
    return result;
}

/* Replays a call; returns all results, or the one in `which`. */
static PyObject *shortly(PyObject *id, PyObject *args, PyObject *kwargs, Py_ssize_t which)
{
    PyObject *flags = PyDict_GetItemWithError(known[RECALLABLE], id), *result = NULL, *found;
    if (flags == NULL)
        return NULL;
    PyObject *numbers = Py_NewRef(PyTuple_GET_ITEM(flags, 0));
    int demands = PyTuple_GET_ITEM(flags, 1) == Py_True, has_before = PyTuple_GET_ITEM(flags, 2) == Py_True;
    Call call = {numbers == Py_True, PyList_New(0)};
    if (call.row != NULL && (found = found_of(&call, id, args, kwargs, 0)) != NULL) {
        has_before = has_before && SLOT(found, RESULTS_WHOLE) == Py_True;
        if (demands && !is_within(found, args))
            ;
        else if (SLOT(found, RESULTS_COPIES) == Py_True) {
            if (IS_A(SLOT(found, RESULTS_TREE), LAYOUT) && PyTuple_GET_SIZE(args) &&
                IS_A(PyTuple_GET_ITEM(args, 0), TENSOR))
                result = copied(PyTuple_GET_ITEM(args, 0), found);
        } else if (are_views(found)) {
            if (which == ALL && PyTuple_GET_SIZE(args) && IS_A(PyTuple_GET_ITEM(args, 0), TENSOR))
                result = views(PyTuple_GET_ITEM(args, 0), found);
        } else if (SLOT(found, RESULTS_IS_REPLAYED) == Py_True)
            result = which == ALL ? again(found, call.row, numbers, has_before)
                                  : one_result(found, call.row, numbers, has_before, which);
        Py_DECREF(found);
    }
    Py_XDECREF(call.row);
    Py_DECREF(numbers);
    return result;
}

/* ---- Writes ------------------------------------------------------------------------------------------------------ */

/* `tensor._elem = value`: -1 with an error. */
static int write_to(PyObject *tensor, PyObject *value)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage);
    PyObject *steps = storage == NULL ? NULL : PyObject_GetAttr(tensor, str_steps);
    int done = -1;
    if (steps != NULL && IS_A(storage, STORAGE) && PyTuple_Check(steps) && PyTuple_GET_SIZE(steps) == 0) {
        PyObject *version = PyNumber_Add(SLOT(storage, STORAGE_VERSION), one);
        if (version != NULL) {
            Py_SETREF(SLOT(storage, STORAGE_VERSION), version);
            Py_SETREF(SLOT(storage, STORAGE_HOST), Py_NewRef(Py_None));
            Py_SETREF(SLOT(storage, STORAGE_BOUNDS), Py_NewRef(Py_None));
            Py_SETREF(SLOT(storage, STORAGE_VALUE), Py_NewRef(value));
            done = 0;
        }
    } else if (steps != NULL)
        done = PyObject_SetAttr(tensor, str_elem, value);
    Py_XDECREF(steps);
    Py_XDECREF(storage);
    return done;
}

/* `dispatcher._replay_write` for an entry of `writers`: the written tensor. */
static PyObject *written(PyObject *writer, PyObject *args, PyObject *kwargs)
{
    PyObject *numbers = PyTuple_GET_ITEM(writer, 1), *found, *value = NULL, *result = NULL;
    Call call = {numbers == Py_True, PyList_New(0)};
    if (call.row == NULL || PyTuple_GET_SIZE(args) == 0 || !IS_A(PyTuple_GET_ITEM(args, 0), TENSOR))
        goto end;
    if ((found = found_of(&call, PyTuple_GET_ITEM(writer, 0), args, kwargs, 1)) != NULL) {
        if (SLOT(found, RESULTS_IS_REPLAYED) == Py_True && IS_A(SLOT(found, RESULTS_TREE), LAYOUT) &&
            (PyTuple_GET_ITEM(writer, 2) != Py_True || is_within(found, args)))
            value = arrays_of(found, call.row, numbers,
                              PyTuple_GET_ITEM(writer, 3) == Py_True && SLOT(found, RESULTS_WHOLE) == Py_True);
        Py_DECREF(found);
    }
    if (value != NULL && write_to(PyTuple_GET_ITEM(args, 0), value) == 0)
        result = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    Py_XDECREF(value);
end:
    Py_XDECREF(call.row);
    return result;
}

/* ---- Host values: lazynb/frontends/torch/dispatch/host_operations.py --------------------------------------------- */

/* The fields of the tuple HostOperation. */
enum { HOST_OPERATION, HOST_KIND, HOST_FLOATS, HOST_FIELDS };
enum { COMPUTES, IS_ELEMENTWISE, WRITES };

/* The number of elements of a shape; -1 if above MOST, or with an error. */
static long long count_of(PyObject *shape)
{
    long long count = 1, most = PyLong_AsLongLong(known[MOST]);
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(shape); at++) {
        long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, at));
        if (size < 0 || count > most)
            return -1;
        count *= size > most ? most + 1 : size; /* does not overflow */
    }
    return count > most ? -1 : count;
}

/* `known_integers.view_of(tensor, whole)` for a tensor with elements. */
static PyObject *part_of(PyObject *tensor, PyObject *layout, PyObject *all, PyObject *whole)
{
    if (SLOT(layout, LAYOUT_DTYPE) != SLOT(all, LAYOUT_DTYPE) || count_of(SLOT(layout, LAYOUT_SHAPE)) <= 0)
        return NULL;
    PyObject *steps = PyObject_GetAttr(tensor, str_steps);
    int plain = steps != NULL && PyTuple_Check(steps);
    for (Py_ssize_t at = 0; plain && at < PyTuple_GET_SIZE(steps); at++)
        plain = PyTuple_GET_ITEM(steps, at) != known[NEGATIVE];
    Py_XDECREF(steps);
    if (!plain)
        return NULL;
    PyObject *args[] = {whole, SLOT(layout, LAYOUT_SHAPE), SLOT(layout, LAYOUT_STRIDE), SLOT(layout, LAYOUT_OFFSET)};
    return PyObject_VectorcallMethod(str_as_strided, args, 4, NULL);
}

/* `known_integers.cpu_values(tensor)` */
static PyObject *plain_of(PyObject *tensor)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage), *plain = NULL;
    PyObject *layout = storage == NULL ? NULL : PyObject_GetAttr(tensor, str_layout);
    if (layout != NULL && IS_A(storage, STORAGE) && IS_A(layout, LAYOUT) && IS_A(SLOT(storage, STORAGE_HOST), KNOWN)) {
        PyObject *whole = Py_NewRef(SLOT(SLOT(storage, STORAGE_HOST), KNOWN_PLAIN));
        PyObject *all = SLOT(storage, STORAGE_LAYOUT);
        plain = layout == all ? Py_NewRef(whole) : part_of(tensor, layout, all, whole);
        Py_DECREF(whole);
    }
    Py_XDECREF(layout);
    Py_XDECREF(storage);
    return plain;
}

static PyObject *down(PyObject *x, int floats);

/* `down` of the items of a tuple. */
static PyObject *down_all(PyObject *items, int floats)
{
    PyObject *found = hidden_tuple(PyTuple_GET_SIZE(items));
    for (Py_ssize_t at = 0; found != NULL && at < PyTuple_GET_SIZE(items); at++) {
        PyObject *item = down(PyTuple_GET_ITEM(items, at), floats);
        if (item == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, at, item);
    }
    return shown(found);
}

/* `host_operations.to_host(x, floats)` */
static PyObject *down(PyObject *x, int floats)
{
    PyTypeObject *kind = Py_TYPE(x);
    if (IS_A(x, TENSOR))
        return plain_of(x);
    if (kind == &PyLong_Type || kind == &PyBool_Type || x == Py_None || (floats && kind == &PyFloat_Type))
        return Py_NewRef(x);
    if (kind != &PyList_Type && kind != &PyTuple_Type)
        return NULL;
    PyObject *items = PySequence_Tuple(x), *found = NULL; /* a copy, because the list may change */
    if (items != NULL && Py_EnterRecursiveCall(" for the arguments of a call") == 0) {
        found = down_all(items, floats);
        Py_LeaveRecursiveCall();
    }
    Py_XDECREF(items);
    if (found != NULL && kind == &PyList_Type)
        Py_SETREF(found, PySequence_List(found));
    return found;
}

/* Whether options mean the same on the CPU: no device, only integer dtypes; 0 also with an error. */
static int are_options(PyObject *kwargs)
{
    PyObject *word, *value;
    Py_ssize_t place = 0;
    int are = 1;
    while (are && kwargs != NULL && PyDict_Next(kwargs, &place, &word, &value)) {
        Py_INCREF(value);
        are = PyLong_CheckExact(value) || PyBool_Check(value) || value == Py_None ||
              strcmp(Py_TYPE(value)->tp_name, "torch.memory_format") == 0;
        if (!are)
            are = PySet_Contains(known[WHOLE], value);
        if (are < 0) {
            are = 0;
            if (PyErr_ExceptionMatches(PyExc_TypeError))
                PyErr_Clear(); /* not hashable */
        }
        Py_DECREF(value);
    }
    return are;
}

/* Whether the broadcast result of the tensors is known to be small; 0 also with an error. */
static int broadcast_is_small(PyObject *args)
{
    long long all = 1, most = PyLong_AsLongLong(known[MOST]), count = 0;
    PyObject *first = NULL;
    int same = 1;
    for (Py_ssize_t at = 0; count >= 0 && same >= 0 && at < PyTuple_GET_SIZE(args); at++) {
        if (!IS_A(PyTuple_GET_ITEM(args, at), TENSOR))
            continue;
        PyObject *layout = PyObject_GetAttr(PyTuple_GET_ITEM(args, at), str_layout);
        count = layout != NULL && IS_A(layout, LAYOUT) ? count_of(SLOT(layout, LAYOUT_SHAPE)) : -1;
        if (count >= 0 && same && first != NULL)
            same = PyObject_RichCompareBool(SLOT(first, LAYOUT_SHAPE), SLOT(layout, LAYOUT_SHAPE), Py_EQ);
        all = all > most ? all : all * (count > 0 ? count : 1);
        Py_XSETREF(first, layout);
    }
    Py_XDECREF(first);
    return count >= 0 && same >= 0 && (same || all <= most);
}

/* The layout of a CPU tensor with its own memory. */
static PyObject *layout_of_plain(PyObject *plain)
{
    PyObject *shape = PyObject_GetAttr(plain, str_shape), *key = NULL, *layout = NULL;
    PyObject *stride = shape == NULL ? NULL : PyObject_CallMethodNoArgs(plain, str_stride);
    PyObject *dtype = stride == NULL ? NULL : PyObject_GetAttr(plain, str_dtype);
    int fits = dtype == NULL ? 0 : PySet_Contains(known[WHOLE], dtype);
    if (fits == 1 && count_of(shape) >= 0 && (key = PyTuple_Pack(4, shape, stride, zero, dtype)) != NULL &&
        (layout = Py_XNewRef(PyDict_GetItemWithError(known[LAYOUTS], key))) == NULL && !PyErr_Occurred()) {
        Py_SETREF(shape, PySequence_Tuple(shape)); /* a plain tuple instead of torch.Size, as it is stored */
        if (shape != NULL)
            layout = PyObject_CallFunctionObjArgs(known[LAYOUT_WITH], shape, stride, zero, dtype, NULL);
    }
    Py_XDECREF(key);
    Py_XDECREF(dtype);
    Py_XDECREF(stride);
    Py_XDECREF(shape);
    return layout;
}

/* Whether a CPU tensor owns its memory and starts at offset 0; 0 also with an error. */
static int is_its_own(PyObject *plain)
{
    PyObject *base = PyObject_GetAttr(plain, str_base);
    PyObject *offset = base == Py_None ? PyObject_CallMethodNoArgs(plain, str_offset_of) : NULL;
    int is = offset != NULL && PyObject_RichCompareBool(offset, zero, Py_EQ) == 1;
    Py_XDECREF(offset);
    Py_XDECREF(base);
    return is;
}

/* `KnownIntegers(plain)` */
static PyObject *new_known(PyObject *plain)
{
    PyObject *host = new_of(known[KNOWN]), *arrays = host == NULL ? NULL : PyDict_New();
    if (arrays == NULL) {
        Py_XDECREF(host);
        return NULL;
    }
    SLOT(host, KNOWN_PLAIN) = Py_NewRef(plain);
    SLOT(host, KNOWN_BOUNDS) = Py_NewRef(Py_None);
    SLOT(host, KNOWN_ARRAYS) = arrays;
    return host;
}

/* `host_operations.to_device(result)` */
static PyObject *up(PyObject *result)
{
    PyObject *layout = NULL, *host, *tensor;
    if (!IS_A(result, PLAIN_TENSOR) || !is_its_own(result) || (layout = layout_of_plain(result)) == NULL)
        return PyErr_Occurred() ? NULL : PyObject_CallOneArg(known[UP], result);
    host = new_known(result);
    tensor = host == NULL ? NULL : wrap_known(Py_None, layout, host);
    Py_XDECREF(host);
    Py_DECREF(layout);
    return tensor;
}

/* The result of an operation without writes, on the host. */
static PyObject *computed_on_host(PyObject *way, PyObject *args, PyObject *kwargs)
{
    PyObject *plain = NULL, *result = NULL;
    if (PyLong_AsLong(PyTuple_GET_ITEM(way, HOST_KIND)) == IS_ELEMENTWISE && !broadcast_is_small(args))
        return NULL;
    if ((plain = down_all(args, PyTuple_GET_ITEM(way, HOST_FLOATS) == Py_True)) != NULL)
        result = PyObject_Call(PyTuple_GET_ITEM(way, HOST_OPERATION), plain, kwargs);
    Py_XDECREF(plain);
    if (result != NULL)
        Py_SETREF(result, up(result));
    return result;
}

/* A writable copy of the values of a storage. */
static PyObject *copy_of(PyObject *storage)
{
    PyObject *host = Py_NewRef(SLOT(storage, STORAGE_HOST)), *copy = NULL, *stride = NULL;
    if (host == Py_None) { /* nothing was written yet: the new zeros need no copy */
        Py_SETREF(host, PyObject_CallOneArg(known[HOST_OF], storage));
        if (host != NULL && IS_A(host, KNOWN)) {
            copy = Py_NewRef(SLOT(host, KNOWN_PLAIN));
            Py_SETREF(SLOT(storage, STORAGE_HOST), Py_NewRef(Py_None));
        }
    } else if (IS_A(host, KNOWN) && (copy = PyObject_CallMethodNoArgs(SLOT(host, KNOWN_PLAIN), str_clone)) != NULL) {
        stride = PyObject_CallMethodNoArgs(copy, str_stride);
        if (stride == NULL || PyObject_RichCompareBool(stride, SLOT(SLOT(storage, STORAGE_LAYOUT), LAYOUT_STRIDE), Py_EQ) != 1)
            Py_CLEAR(copy);
        Py_XDECREF(stride);
    }
    Py_XDECREF(host);
    return copy;
}

/* `storage.set_host_values(KnownIntegers(plain))`: -1 with an error. */
static int know(PyObject *storage, PyObject *plain)
{
    PyObject *host = new_known(plain), *version = host == NULL ? NULL : PyNumber_Add(SLOT(storage, STORAGE_VERSION), one);
    if (version == NULL) {
        Py_XDECREF(host);
        return -1;
    }
    Py_SETREF(SLOT(storage, STORAGE_VERSION), version);
    Py_SETREF(SLOT(storage, STORAGE_VALUE), Py_NewRef(Py_None));
    Py_SETREF(SLOT(storage, STORAGE_BOUNDS), Py_NewRef(Py_None));
    Py_SETREF(SLOT(storage, STORAGE_HOST), host);
    return 0;
}

/* The arguments of a write on the CPU, with `target` as the first. */
static PyObject *written_args(PyObject *args, PyObject *target)
{
    PyObject *plain = hidden_tuple(PyTuple_GET_SIZE(args));
    for (Py_ssize_t at = 0; plain != NULL && at < PyTuple_GET_SIZE(args); at++) {
        PyObject *one_of = at == 0 ? Py_NewRef(target) : down(PyTuple_GET_ITEM(args, at), 1);
        if (one_of == NULL)
            Py_CLEAR(plain);
        else
            PyTuple_SET_ITEM(plain, at, one_of);
    }
    return shown(plain);
}

/* Executes an in-place operation on the host: the written tensor. */
static PyObject *written_on_host(PyObject *way, PyObject *args, PyObject *kwargs)
{
    PyObject *target = PyTuple_GET_ITEM(args, 0), *result = NULL, *copy = NULL, *seen_of = NULL, *plain = NULL, *done = NULL;
    PyObject *storage = PyObject_GetAttr(target, str_storage);
    PyObject *layout = storage == NULL ? NULL : PyObject_GetAttr(target, str_layout);
    if (layout == NULL || !IS_A(storage, STORAGE) || !IS_A(layout, LAYOUT) || (copy = copy_of(storage)) == NULL)
        goto end;
    seen_of = layout == SLOT(storage, STORAGE_LAYOUT) ? Py_NewRef(copy)
                                                      : part_of(target, layout, SLOT(storage, STORAGE_LAYOUT), copy);
    if (seen_of != NULL && (plain = written_args(args, seen_of)) != NULL &&
        (done = PyObject_Call(PyTuple_GET_ITEM(way, HOST_OPERATION), plain, kwargs)) != NULL && know(storage, copy) == 0)
        result = Py_NewRef(target);
end:
    Py_XDECREF(done);
    Py_XDECREF(plain);
    Py_XDECREF(seen_of);
    Py_XDECREF(copy);
    Py_XDECREF(layout);
    Py_XDECREF(storage);
    return result;
}

/* Whether the host knows the values of a tensor, or nothing was written to it. */
static int is_on_host(PyObject *tensor)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage);
    int is = storage != NULL && IS_A(storage, STORAGE) &&
             (IS_A(SLOT(storage, STORAGE_HOST), KNOWN) ||
              (SLOT(storage, STORAGE_HOST) == Py_None && SLOT(storage, STORAGE_VALUE) == Py_None));
    Py_XDECREF(storage);
    return is;
}

/* Executes an operation on host values. */
static PyObject *on_host(PyObject *id, PyObject *args, PyObject *kwargs)
{
    PyObject *way = PyDict_GetItemWithError(known[HOST_WAYS], id), *result = NULL, *first;
    if (way == NULL || !PyTuple_Check(way) || PyTuple_GET_SIZE(way) != HOST_FIELDS || PyTuple_GET_SIZE(args) == 0)
        return NULL;
    first = PyTuple_GET_ITEM(args, 0);
    if (PyList_CheckExact(first) && PyList_GET_SIZE(first) > 0)
        first = PyList_GET_ITEM(first, 0);
    Py_INCREF(way);
    if (!IS_A(first, TENSOR) || !is_on_host(first) || !are_options(kwargs))
        ;
    else if (PyLong_AsLong(PyTuple_GET_ITEM(way, HOST_KIND)) != WRITES)
        result = computed_on_host(way, args, kwargs);
    else if (IS_A(PyTuple_GET_ITEM(args, 0), TENSOR))
        result = written_on_host(way, args, kwargs);
    Py_DECREF(way);
    return result;
}

/* The results of the operation with this `id`. */
static PyObject *short_way(PyObject *id, PyObject *args, PyObject *kwargs)
{
    PyObject *result = on_host(id, args, kwargs), *writer;
    if (result != NULL || PyErr_Occurred())
        return result;
    if (PyDict_GetItemWithError(known[RECALLABLE], id) != NULL)
        result = shortly(id, args, kwargs, ALL);
    else if ((writer = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(known[WRITERS], id)) != NULL) {
        Py_INCREF(writer);
        result = written(writer, args, kwargs);
        Py_DECREF(writer);
    }
    return result;
}

/* The list that records the operations of a thread, see `watch`; or NULL. */
static PyObject *watcher;
static unsigned long watching_thread;

/* `dispatch(func, types, args=(), kwargs=None)`: `Tensor.__torch_dispatch__`. */
static PyObject *dispatch(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    if (count < 2 || count > 4 || known[NAMES - 1] == NULL)
        return PyErr_Format(PyExc_TypeError, "dispatch(func, types, args=(), kwargs=None), after configure");
    PyObject *func = given[0], *args = count > 2 ? given[2] : none_at_all, *kwargs = count > 3 ? given[3] : Py_None;
    PyObject *result = NULL, *id = PyLong_FromVoidPtr(func);
    if (id == NULL)
        return NULL;
    if (PyTuple_CheckExact(args) && (kwargs == Py_None || PyDict_CheckExact(kwargs)))
        result = short_way(id, args, kwargs == Py_None || PyDict_GET_SIZE(kwargs) == 0 ? NULL : kwargs);
    Py_DECREF(id);
    if (result == NULL && !PyErr_Occurred()) {
        PyObject *all[] = {func, given[1], args, kwargs};
        result = PyObject_Vectorcall(known[SLOW], all, 4, NULL);
    }
    if (result != NULL && watcher != NULL && PyThread_get_thread_ident() == watching_thread) {
        PyObject *calls = Py_NewRef(watcher), *call = PyTuple_Pack(4, func, args, kwargs, result);
        if (call == NULL || PyList_Append(calls, call) < 0)
            Py_CLEAR(result);
        Py_XDECREF(call);
        Py_DECREF(calls);
    }
    return result;
}

/* `watch(calls)`: records this thread's operations in a list; None stops recording. */
static PyObject *watch(PyObject *module, PyObject *calls)
{
    (void)module;
    if (calls != Py_None && !PyList_CheckExact(calls))
        return PyErr_Format(PyExc_TypeError, "watch(calls): a list or None");
    watching_thread = PyThread_get_thread_ident();
    Py_XSETREF(watcher, calls == Py_None ? NULL : Py_NewRef(calls));
    Py_RETURN_NONE;
}

/* ---- Direct calls of methods ------------------------------------------------------------------------------------- */

/* Whether no mode, transformation, autocast or profiler intercepts operations on tensors without gradients; -1 is an
   error. */
static int is_quiet(void)
{
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(known[QUIET]); at++) {
        PyObject *answer = PyObject_CallNoArgs(PyTuple_GET_ITEM(known[QUIET], at));
        int busy = answer == NULL ? -1 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
        if (busy != 0)
            return busy < 0 ? -1 : 0;
    }
    PyObject *level = PyDict_GetItemWithError(known[FORWARD_AD], str_current_level);
    if (level == NULL)
        return PyErr_Occurred() ? -1 : 0;
    return PyLong_CheckExact(level) ? PyObject_RichCompareBool(level, zero, Py_LT) : 0;
}

static int is_grad_enabled(void)
{
    PyObject *answer = PyObject_CallNoArgs(known[IS_GRAD_ENABLED]);
    int is = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return is;
}

/* Whether no argument requires a gradient; -1 is an error. */
static int are_without_gradient(PyObject *const *args, Py_ssize_t count)
{
    int enabled = is_grad_enabled();
    for (Py_ssize_t at = 0; enabled == 1 && at < count; at++) {
        if (!IS_A(args[at], TENSOR))
            continue;
        PyObject *answer = PyObject_GetAttr(args[at], str_requires_grad);
        int wanted = answer == NULL ? -1 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
        if (wanted != 0)
            return wanted < 0 ? -1 : 0;
    }
    return enabled < 0 ? -1 : 1;
}

/* A tensor method in place of PyTorch's `plain`, which it calls if the fast path fails. `unary`, `tensor` and
   `number` are the ids of its operations without another argument, with a tensor, and with a number. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *plain, *unary, *tensor, *number, *dict;
} Method;

static PyObject *operation_of(Method *self, PyObject *const *args, Py_ssize_t count)
{
    if (count == 1)
        return self->unary;
    if (count != 2)
        return Py_None;
    if (IS_A(args[1], TENSOR))
        return self->tensor;
    return PyFloat_CheckExact(args[1]) || PyLong_CheckExact(args[1]) ? self->number : Py_None;
}

static int is_lazy(void)
{
    PyObject *trace = PyObject_GetAttr(known[AMBIENT], str_value);
    int is = trace == NULL ? -1 : IS_A(trace, LAZY_TRACE);
    Py_XDECREF(trace);
    return is;
}

/* The result of an operation by the fast path. */
static PyObject *at_once(PyObject *id, PyObject *const *args, Py_ssize_t count)
{
    PyObject *row, *result = NULL;
    if (is_lazy() != 1 || are_without_gradient(args, count) != 1 || is_quiet() != 1 || (row = PyTuple_New(count)) == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < count; at++)
        PyTuple_SET_ITEM(row, at, Py_NewRef(args[at]));
    result = shortly(id, row, NULL, THE_ONE);
    Py_DECREF(row);
    return result;
}

static PyObject *call_operator(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *words)
{
    Method *self = (Method *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (words == NULL && count > 0 && IS_A(args[0], TENSOR)) {
        PyObject *id = operation_of(self, args, count), *result = id == Py_None ? NULL : at_once(id, args, count);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    return PyObject_Vectorcall(self->plain, args, nargsf, words);
}

/* ---- Leaf modules: lazynb/frontends/torch/module_calls.py -------------------------------------------------------- */

/* The fields of the tuples LeafModule and LeafCall. */
enum { LEAF_MODULE, LEAF_NAMES, LEAF_VALUES, LEAF_MISSING, LEAF_METHODS, LEAF_FUNCTIONS, LEAF_WAYS, LEAF_FIELDS };
enum { WAY_OPERATION, WAY_KINDS, WAY_ITEMS, WAY_WHICH, WAY_FIELDS };
#define OF(tuple, field) PyTuple_GET_ITEM(tuple, field)

/* Whether a dictionary has exactly these objects under these names, in this order, and its dictionaries of hooks and
   submodules are empty. */
static int has_just(PyObject *dict, PyObject *names, PyObject *values)
{
    PyObject *name, *value;
    Py_ssize_t place = 0, at = 0;
    if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(names))
        return 0;
    while (PyDict_Next(dict, &place, &name, &value)) {
        if (OF(names, at) != name || OF(values, at) != value)
            return 0;
        if (PyDict_Check(value) && PyDict_GET_SIZE(value) != 0 && name != str_parameters && name != str_buffers)
            return 0;
        at++;
    }
    return 1;
}

/* Whether the parameters and buffers that were None still are; 0 also with an error. */
static int are_missing(PyObject *names, PyObject *dict)
{
    PyObject *parameters = PyDict_GetItemWithError(dict, str_parameters);
    PyObject *buffers = parameters == NULL ? NULL : PyDict_GetItemWithError(dict, str_buffers);
    if (buffers == NULL || !PyDict_Check(parameters) || !PyDict_Check(buffers))
        return 0;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(names); at++) {
        PyObject *one = PyDict_GetItemWithError(parameters, OF(names, at));
        if (one == NULL && !PyErr_Occurred())
            one = PyDict_GetItemWithError(buffers, OF(names, at));
        if (one != Py_None)
            return 0;
    }
    return 1;
}

/* Whether the methods of a class are unchanged: names, each followed by the function. */
static int has_methods(PyTypeObject *type, PyObject *methods)
{
    int same = 1;
    for (Py_ssize_t at = 0; same && at + 1 < PyTuple_GET_SIZE(methods); at += 2) {
        PyObject *method = PyObject_GetAttr((PyObject *)type, OF(methods, at));
        if (method == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear(); /* it was deleted */
        same = method == OF(methods, at + 1);
        Py_XDECREF(method);
    }
    return same;
}

/* Whether a module is unchanged: its attributes, the methods of its class, and PyTorch's functions that these call. */
static int is_as_before(PyObject *leaf, PyObject *module, PyObject *dict)
{
    PyObject *itself = PyObject_CallNoArgs(OF(leaf, LEAF_MODULE)), *functions = OF(leaf, LEAF_FUNCTIONS);
    int same = itself == module && has_just(dict, OF(leaf, LEAF_NAMES), OF(leaf, LEAF_VALUES)) &&
               are_missing(OF(leaf, LEAF_MISSING), dict) && has_methods(Py_TYPE(module), OF(leaf, LEAF_METHODS));
    Py_XDECREF(itself);
    for (Py_ssize_t at = 0; same && at < PyTuple_GET_SIZE(known[GLOBAL_HOOKS]); at++)
        same = PyDict_GET_SIZE(OF(known[GLOBAL_HOOKS], at)) == 0;
    for (Py_ssize_t at = 0; same && at + 1 < PyTuple_GET_SIZE(functions); at += 2)
        same = PyDict_GetItemWithError(known[FUNCTIONS], OF(functions, at)) == OF(functions, at + 1);
    return same && !PyErr_Occurred();
}

/* The arguments of a module's operation. */
static PyObject *arguments_of(PyObject *way, PyObject *dict, PyObject *x)
{
    const char *kinds = PyBytes_AS_STRING(OF(way, WAY_KINDS));
    PyObject *items = OF(way, WAY_ITEMS), *args = PyTuple_New(PyTuple_GET_SIZE(items));
    for (Py_ssize_t at = 0; args != NULL && at < PyTuple_GET_SIZE(items); at++) {
        PyObject *item = OF(items, at), *holder;
        if (kinds[at] == 'x')
            item = x;
        else if (kinds[at] != 'c') {
            holder = PyDict_GetItemWithError(dict, kinds[at] == 'p' ? str_parameters : str_buffers);
            item = holder == NULL || !PyDict_Check(holder) ? NULL : PyDict_GetItemWithError(holder, item);
            if (item == NULL || !IS_A(item, TENSOR)) {
                Py_CLEAR(args);
                break;
            }
        }
        PyTuple_SET_ITEM(args, at, Py_NewRef(item));
    }
    return args;
}

/* `module_calls._name_of(module)` for a module whose path is cached. */
static PyObject *name_of(PyObject *module, PyObject *id)
{
    PyObject *running = PyObject_GetAttr(known[RUNNING], str_modules), *named = NULL, *found = NULL, *name = NULL;
    if (running == NULL || !PyList_CheckExact(running) || PyList_GET_SIZE(running) == 0 ||
        (named = Py_XNewRef(PyDict_GetItemWithError(known[MODULE_NAMES], id))) == NULL)
        goto end;
    PyObject *path = OF(named, 0);
    found = Py_NewRef(PyList_GET_ITEM(running, OF(named, 1) == Py_True ? 0 : PyList_GET_SIZE(running) - 1));
    for (Py_ssize_t at = 0; found != NULL && at < PyTuple_GET_SIZE(path); at++) {
        PyObject *parts = PyObject_GetAttr(found, str_modules_inside);
        PyObject *part = parts == NULL || !PyDict_Check(parts) ? NULL : PyDict_GetItemWithError(parts, OF(path, at));
        Py_SETREF(found, Py_XNewRef(part));
        Py_XDECREF(parts);
    }
    if (found == module)
        name = Py_NewRef(OF(named, 2));
end:
    Py_XDECREF(found);
    Py_XDECREF(named);
    Py_XDECREF(running);
    return name;
}

/* The scope of a module inside `outer`. */
static PyObject *scope_of(PyObject *module, PyObject *id, PyObject *outer)
{
    PyObject *name = name_of(module, id), *number = name == NULL ? NULL : PyLong_FromVoidPtr(outer);
    PyObject *key = NULL, *scope = NULL;
    if (number != NULL && (key = PyTuple_Pack(2, number, name)) != NULL) {
        PyObject *found = PyDict_GetItemWithError(known[SCOPES_INSIDE], key);
        scope = found == NULL ? NULL : Py_NewRef(OF(found, 1));
    }
    Py_XDECREF(key);
    Py_XDECREF(number);
    Py_XDECREF(name);
    return scope;
}

/* `module_calls.scope_of(module)`: the scope in which a module called now runs, or None. */
static PyObject *scope_of_module(PyObject *self, PyObject *module)
{
    (void)self;
    if (known[NAMES - 1] == NULL)
        return PyErr_Format(PyExc_RuntimeError, "configure was not called");
    PyObject *outer = PyObject_GetAttr(known[SCOPES_CONTEXT], str_context);
    PyObject *id = outer == NULL ? NULL : PyLong_FromVoidPtr(module);
    PyObject *scope = id == NULL ? NULL : scope_of(module, id, outer);
    Py_XDECREF(id);
    Py_XDECREF(outer);
    return scope != NULL || PyErr_Occurred() ? scope : Py_NewRef(Py_None);
}

/* `host_operations.to_device(result)`, for Python */
static PyObject *up_of(PyObject *self, PyObject *result)
{
    (void)self;
    if (known[NAMES - 1] == NULL)
        return PyErr_Format(PyExc_RuntimeError, "configure was not called");
    return up(result);
}

/* Replays a module's operation in the scope of the module. */
static PyObject *recorded_inside(PyObject *module, PyObject *id, PyObject *way, PyObject *args)
{
    PyObject *outer = PyObject_GetAttr(known[SCOPES_CONTEXT], str_context), *scope = NULL, *result = NULL;
    if (outer != NULL && (scope = scope_of(module, id, outer)) != NULL &&
        PyObject_SetAttr(known[SCOPES_CONTEXT], str_context, scope) == 0) {
        result = shortly(OF(way, WAY_OPERATION), args, NULL, PyLong_AsSsize_t(OF(way, WAY_WHICH)));
        PyObject *error = raised(); /* restores the context after any error */
        if (PyObject_SetAttr(known[SCOPES_CONTEXT], str_context, outer) < 0) {
            Py_CLEAR(result);
            Py_XDECREF(error);
        } else
            raise_again(error);
    }
    Py_XDECREF(scope);
    Py_XDECREF(outer);
    return result;
}

/* The result of a leaf module for a tensor. */
static PyObject *of_leaf(PyObject *leaf, PyObject *module, PyObject *id, PyObject *x)
{
    PyObject *dict = PyObject_GetAttr(module, str_dict), *layout = NULL, *way = NULL, *args = NULL, *result = NULL;
    if (dict == NULL || !PyDict_CheckExact(dict) || is_grad_enabled() != 0 || is_quiet() != 1 ||
        !is_as_before(leaf, module, dict) || (layout = PyObject_GetAttr(x, str_layout)) == NULL)
        goto end;
    way = Py_XNewRef(PyDict_GetItemWithError(OF(leaf, LEAF_WAYS), layout));
    if (way == NULL || !PyTuple_Check(way) || PyTuple_GET_SIZE(way) != WAY_FIELDS)
        goto end;
    if (OF(way, WAY_OPERATION) == Py_None) /* the module returns its input */
        result = Py_NewRef(x);
    else if ((args = arguments_of(way, dict, x)) != NULL)
        result = recorded_inside(module, id, way, args);
end:
    Py_XDECREF(args);
    Py_XDECREF(way);
    Py_XDECREF(layout);
    Py_XDECREF(dict);
    return result;
}

/* `module_calls.call_replayed(module, args, kwargs)`: the result of a leaf module, or NotImplemented. */
static PyObject *module_at_once(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)self;
    if (count != 3 || !PyTuple_Check(given[1]) || !PyDict_Check(given[2]) || known[NAMES - 1] == NULL)
        return PyErr_Format(PyExc_TypeError, "at_once(module, args, kwargs), after configure");
    PyObject *args = given[1], *id, *leaf, *result = NULL;
    if (PyTuple_GET_SIZE(args) != 1 || PyDict_GET_SIZE(given[2]) != 0 || !IS_A(PyTuple_GET_ITEM(args, 0), TENSOR) ||
        watcher != NULL)
        Py_RETURN_NOTIMPLEMENTED;
    if ((id = PyLong_FromVoidPtr(given[0])) == NULL)
        return NULL;
    leaf = PyDict_GetItemWithError(known[LEAVES], id);
    if (leaf != NULL && PyTuple_Check(leaf) && PyTuple_GET_SIZE(leaf) == LEAF_FIELDS) {
        Py_INCREF(leaf);
        result = of_leaf(leaf, given[0], id, PyTuple_GET_ITEM(args, 0));
        Py_DECREF(leaf);
    }
    Py_DECREF(id);
    return result != NULL || PyErr_Occurred() ? result : Py_NewRef(Py_NotImplemented);
}

/* ---- Methods ----------------------------------------------------------------------------------------------------- */

static PyObject *method_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"plain", "unary", "tensor", "number", NULL};
    PyObject *plain, *unary = Py_None, *tensor = Py_None, *number = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OOO", words, &plain, &unary, &tensor, &number))
        return NULL;
    if (known[NAMES - 1] == NULL)
        return PyErr_Format(PyExc_RuntimeError, "configure was not called");
    Method *self = (Method *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = call_operator;
    self->plain = Py_NewRef(plain);
    self->unary = Py_NewRef(unary);
    self->tensor = Py_NewRef(tensor);
    self->number = Py_NewRef(number);
    return (PyObject *)self;
}

static int method_traverse(Method *self, visitproc visit, void *arg)
{
    Py_VISIT(self->plain);
    Py_VISIT(self->dict);
    return 0;
}

static int method_clear(Method *self)
{
    Py_CLEAR(self->dict); /* keeps `plain`: objects freed here may still call this method */
    return 0;
}

static void method_dealloc(Method *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, method_dealloc) /* methods may be nested to any depth */
    method_clear(self);
    Py_CLEAR(self->plain);
    Py_CLEAR(self->unary);
    Py_CLEAR(self->tensor);
    Py_CLEAR(self->number);
    Py_TYPE(self)->tp_free((PyObject *)self);
    Py_TRASHCAN_END
}

static PyObject *method_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *method_repr(Method *self) { return PyUnicode_FromFormat("<%R, at once where it can>", self->plain); }

static PyGetSetDef method_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject MethodType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "lazynb.frontends.torch._short.Method",
    .tp_doc = PyDoc_STR("Method(plain, unary=None, tensor=None, number=None): `plain`, at once where its operation "
                        "was recorded before."),
    .tp_basicsize = sizeof(Method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = method_new,
    .tp_dealloc = (destructor)method_dealloc,
    .tp_traverse = (traverseproc)method_traverse,
    .tp_clear = (inquiry)method_clear,
    .tp_vectorcall_offset = offsetof(Method, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = method_get,
    .tp_dictoffset = offsetof(Method, dict),
    .tp_getset = method_attributes,
    .tp_repr = (reprfunc)method_repr,
};

/* ---- Module definition ------------------------------------------------------------------------------------------- */

static PyObject *configure(PyObject *module, PyObject *arguments)
{
    (void)module;
    return configured(arguments, names, NAMES, known, slots, OFFSETS, offsets);
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_O,
     PyDoc_STR("Takes the classes and functions that calls work with, by name. Raises KeyError for one that is "
               "missing, TypeError if an attribute is no slot.")},
    {"dispatch", (PyCFunction)(void (*)(void))dispatch, METH_FASTCALL,
     PyDoc_STR("dispatch(func, types, args=(), kwargs=None): carries out an operation of PyTorch's.")},
    {"at_once", (PyCFunction)(void (*)(void))module_at_once, METH_FASTCALL,
     PyDoc_STR("at_once(module, args, kwargs): what a module without parts gives, or NotImplemented.")},
    {"scope_of", scope_of_module, METH_O,
     PyDoc_STR("scope_of(module): the scope in which a module runs that is called now, or None.")},
    {"up", up_of, METH_O,
     PyDoc_STR("up(result): what was computed on the CPU, on device jax.")},
    {"watch", watch, METH_O,
     PyDoc_STR("watch(calls): notes (operation, args, kwargs, result) of this thread's operations in a list; None ends "
               "that.")},
    {NULL, NULL, 0, NULL},
};

static int filled(PyObject *module)
{
    static const Text texts[] = {
        {&str_array, "array"}, {&str_as_strided, "as_strided"}, {&str_bounds, "bounds"}, {&str_base, "_base"},
        {&str_buffers, "_buffers"}, {&str_clone, "clone"}, {&str_dtype, "dtype"}, {&str_is_inference, "is_inference"},
        {&str_offset_of, "storage_offset"}, {&str_shape, "shape"}, {&str_stride, "stride"},
        {&str_context, "context"}, {&str_current_level, "_current_level"},
        {&str_dict, "__dict__"}, {&str_elem, "_elem"}, {&str_layout, "_layout"},
        {&str_modules, "modules"}, {&str_modules_inside, "_modules"}, {&str_parameters, "_parameters"},
        {&str_pending, "pending"}, {&str_quick, "quick"}, {&str_requires_grad, "requires_grad"}, {&str_value_version, "_value_version"},
        {&str_steps, "_steps"}, {&str_storage, "_storage"}, {&str_the_value, "_value"}, {&str_value, "value"},
    };
    if (begun(module, texts, sizeof texts / sizeof *texts) < 0)
        return -1;
    Py_XSETREF(zero, PyLong_FromLong(0));
    Py_XSETREF(one, PyLong_FromLong(1));
    Py_XSETREF(none_at_all, PyTuple_New(0));
    if (zero == NULL || one == NULL || none_at_all == NULL || PyType_Ready(&MethodType) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Method", (PyObject *)&MethodType);
}

static PyModuleDef_Slot module_slots[] = {MAIN_INTERPRETER_ONLY {Py_mod_exec, filled}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lazynb.frontends.torch._short",
    .m_doc = PyDoc_STR("The short way of PyTorch's operations; lazynb.frontends.torch.dispatch.torch_replay is the specification."),
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__short(void) { return PyModuleDef_Init(&definition); }
