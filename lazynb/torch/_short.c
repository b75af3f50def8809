/* The short way of PyTorch's operations on device `jax`, in C.

   The specification is lazynb/torch/dispatch/shortcut.py, with keys.py for what identifies a call and the first lines
   of dispatch.py: `dispatch` here does what they do for a call that was made before, and calls the Python for
   everything else. Nothing is learned here. */

#include "../_native.h"

/* ---- what Python tells ------------------------------------------------------------------------------------ */

enum {
    STORAGE_VALUE, STORAGE_HOST, STORAGE_VERSION, STORAGE_LAYOUT, STORAGE_BOUNDS, STORAGE_ADDRESS, LAYOUT_SHAPE,
    LAYOUT_STRIDE, LAYOUT_OFFSET, LAYOUT_DTYPE, RESULTS_NAME, RESULTS_RECALLED, RESULTS_STEPS, RESULTS_TREE,
    CHANGES_COUNT, PENDING_TIP, OFFSETS
};

static const Slot slots[OFFSETS] = {
    {"Storage", "value"}, {"Storage", "host"}, {"Storage", "version"}, {"Storage", "layout"}, {"Storage", "bounds"},
    {"Storage", "address"}, {"Layout", "shape"}, {"Layout", "stride"}, {"Layout", "offset"}, {"Layout", "dtype"},
    {"Results", "name"}, {"Results", "recalled"}, {"Results", "steps"}, {"Results", "tree"}, {"Changes", "count"},
    {"Pending", "tip"},
};

static Py_ssize_t offsets[OFFSETS];

enum {
    TENSOR, STORAGE, LAYOUT, RESULTS, CHANGES, PENDING, LAZY_TRACE, AMBIENT, CHANGES_OBJECT, RECALLABLE, RESULTS_OF, PLAIN,
    AROUND, OPEN, AGAIN, MAKE, STRIDED, DEVICE, SAME, WRITERS, WRITING, COPY, SLOW, NAMES
};

static const char *const names[NAMES] = {
    "Tensor", "Storage", "Layout", "Results", "Changes", "Pending", "LazyTrace", "ambient", "changes", "recallable", "results_of",
    "plain", "around", "open", "again", "make", "strided", "device", "same", "writers", "writing", "copy", "slow",
};

static PyObject *known[NAMES];

static PyObject *str_elem, *str_layout, *str_pending, *str_quick, *str_seen, *str_steps, *str_storage, *str_the_value,
    *str_value, *zero, *one, *none_at_all;

/* ---- what identifies a call: keys.py ---------------------------------------------------------------------- */

/* A call; `row` is a list of its tensors and numbers, as `key_and_row` gives it. */
typedef struct {
    int numbers; /* whether its numbers make no difference */
    PyObject *row;
} Call;

static PyObject *key_of(Call *call, PyObject *x);

/* `(key_of(item), ...)` */
static PyObject *keys_of(Call *call, PyObject *const *items, Py_ssize_t count)
{
    PyObject *keys = PyTuple_New(count);
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

/* What identifies an argument, whose tensors and numbers go into the row: a new reference; NULL, with an error or
   without, if Python is to look. */
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

/* What identifies the whole call of the operation with the number `id`. */
static PyObject *key_of_call(Call *call, PyObject *id, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), named = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs), at;
    PyObject *key = PyTuple_New(1 + count + (named ? named + 1 : 0)), *words = named ? PyTuple_New(named) : NULL;
    PyObject *word, *value, *part;
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
        if ((part = key_of(call, value)) == NULL)
            goto failed;
        PyTuple_SET_ITEM(key, 1 + count + at, part);
    }
    if (named)
        PyTuple_SET_ITEM(key, 1 + count + named, words);
    return key;
failed:
    Py_XDECREF(key);
    Py_XDECREF(words);
    return NULL;
}

/* ---- tensors ---------------------------------------------------------------------------------------------- */

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

/* `wrap(value, layout)` */
static PyObject *wrap(PyObject *value, PyObject *layout)
{
    PyObject *storage = new_of(known[STORAGE]);
    if (storage == NULL)
        return NULL;
    SLOT(storage, STORAGE_VALUE) = Py_NewRef(value);
    SLOT(storage, STORAGE_HOST) = Py_NewRef(Py_None);
    SLOT(storage, STORAGE_VERSION) = Py_NewRef(zero);
    SLOT(storage, STORAGE_LAYOUT) = Py_NewRef(layout);
    SLOT(storage, STORAGE_BOUNDS) = Py_NewRef(Py_None);
    SLOT(storage, STORAGE_ADDRESS) = Py_NewRef(zero);
    PyObject *tensor = new_tensor(storage, layout, none_at_all);
    Py_DECREF(storage);
    return tensor;
}

/* `shortcut.wrapped(values, tree)` of a tree without lists in a list; NULL without an error for another. */
static PyObject *wrapped(PyObject *values, PyObject *tree)
{
    if (IS_A(tree, LAYOUT))
        return wrap(values, tree);
    Py_ssize_t count = PyList_GET_SIZE(tree), next = 0;
    PyObject *given = PySequence_Fast(values, "an operation with several results gave one");
    PyObject *tensors = given == NULL ? NULL : PyTuple_New(count);
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
    return tensors;
}

/* Whether the results of an operation are tensors and plain values in one list at most. */
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

/* ---- views ------------------------------------------------------------------------------------------------ */

/* The view of `layout` that `step` takes of a tensor with `steps` in `storage`. */
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

/* `shortcut.views(source, found)` */
static PyObject *views(PyObject *source, PyObject *found)
{
    PyObject *storage = PyObject_GetAttr(source, str_storage), *steps = PyObject_GetAttr(source, str_steps);
    PyObject *all = Py_NewRef(SLOT(found, RESULTS_STEPS)), *tree = Py_NewRef(SLOT(found, RESULTS_TREE)), *result = NULL;
    if (storage == NULL || steps == NULL || !PyTuple_Check(steps))
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

/* Whether `views` is for such results: as many steps as there are layouts. */
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

/* ---- values ----------------------------------------------------------------------------------------------- */

/* `Tensor._read` of a view that was read before in such a trace: a new reference; NULL, with an error or without. */
static PyObject *read_again(PyObject *tensor, PyObject *storage, PyObject *steps, PyObject *pending)
{
    PyObject *version = Py_NewRef(SLOT(storage, STORAGE_VERSION)), *value = PyTuple_Pack(1, SLOT(storage, STORAGE_VALUE));
    PyObject *args[] = {pending, steps, value, Py_False, Py_None};
    PyObject *result = value == NULL ? NULL : PyObject_Vectorcall(known[AGAIN], args, 5, NULL);
    if (result == Py_None)
        Py_CLEAR(result);
    if (result != NULL && (PyObject_SetAttr(tensor, str_the_value, result) < 0 ||
                           PyObject_SetAttr(tensor, str_seen, version) < 0))
        Py_CLEAR(result);
    Py_XDECREF(value);
    Py_DECREF(version);
    return result;
}

/* `Tensor._elem` of a view with `steps`: a new reference, or NULL with an error. */
static PyObject *seen(PyObject *tensor, PyObject *storage, PyObject *steps, PyObject *pending)
{
    PyObject *version = PyObject_GetAttr(tensor, str_seen), *value = NULL;
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

/* The array of a tensor: a new reference; NULL, with an error or without, if Python is to look. `has_before`: whether
   the operation may be for the host, so that what the host knows is Python's. */
static PyObject *value_of(PyObject *tensor, PyObject *pending, int has_before)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage), *steps = NULL, *value = NULL;
    if (storage == NULL || !IS_A(storage, STORAGE))
        goto end;
    value = Py_NewRef(SLOT(storage, STORAGE_VALUE));
    if (value == Py_None || SLOT(storage, STORAGE_HOST) != Py_None) {
        Py_CLEAR(value);
        if (!has_before)
            value = PyObject_GetAttr(tensor, str_elem);
    } else if ((steps = PyObject_GetAttr(tensor, str_steps)) == NULL || !PyTuple_Check(steps))
        Py_CLEAR(value);
    else if (PyTuple_GET_SIZE(steps) > 0)
        Py_SETREF(value, seen(tensor, storage, steps, pending));
end:
    Py_XDECREF(steps);
    Py_XDECREF(storage);
    return value;
}

/* The arrays and numbers of a row: a list; NULL, with an error or without, if Python is to look. */
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

/* ---- calls ------------------------------------------------------------------------------------------------ */

/* The trace in which an operation that is called now is recorded, `around.open_here()`: a new reference; NULL, with an
   error or without, if there is none. */
static PyObject *open_trace(void)
{
    PyObject *trace = PyObject_GetAttr(known[AMBIENT], str_value), *pending = NULL, *before = NULL, *count = NULL;
    if (trace == NULL || !IS_A(trace, LAZY_TRACE))
        goto end;
    if ((pending = PyObject_GetAttr(trace, str_pending)) == NULL ||
        (before = PyObject_GetAttr(known[AROUND], str_pending)) == NULL ||
        (count = PyObject_GetAttr(known[AROUND], str_quick)) == NULL)
        Py_CLEAR(pending);
    else if (pending != before || !IS_A(pending, PENDING) || SLOT(pending, PENDING_TIP) == Py_None ||
             count != SLOT(known[CHANGES_OBJECT], CHANGES_COUNT)) {
        Py_SETREF(pending, PyObject_CallNoArgs(known[OPEN]));
        if (pending == Py_None)
            Py_CLEAR(pending);
    }
end:
    Py_XDECREF(count);
    Py_XDECREF(before);
    Py_XDECREF(trace);
    return pending;
}

/* What a call that was recorded before gives, an array or a sequence of arrays; NULL, with an error or without. */
static PyObject *arrays_of(PyObject *found, PyObject *row, PyObject *numbers, int has_before)
{
    PyObject *name = Py_NewRef(SLOT(found, RESULTS_NAME)), *values = NULL, *pending = open_trace(), *arrays = NULL;
    if (pending != NULL && (values = values_of(row, pending, has_before)) != NULL) {
        PyObject *args[] = {pending, name, values, numbers, Py_None};
        arrays = PyObject_Vectorcall(known[AGAIN], args, 5, NULL);
        if (arrays == Py_None)
            Py_CLEAR(arrays);
    }
    Py_XDECREF(pending);
    Py_XDECREF(values);
    Py_DECREF(name);
    return arrays;
}

/* `shortcut.again`: the results of a call that was recorded before; NULL, with an error or without. */
static PyObject *again(PyObject *found, PyObject *row, PyObject *numbers, int has_before)
{
    PyObject *tree = Py_NewRef(SLOT(found, RESULTS_TREE)), *result = NULL;
    PyObject *arrays = is_flat(tree) ? arrays_of(found, row, numbers, has_before) : NULL;
    if (arrays != NULL)
        result = wrapped(arrays, tree);
    Py_XDECREF(arrays);
    Py_DECREF(tree);
    return result;
}

/* What is known of the results of the call of the operation with the number `id`: a new reference; NULL, with an
   error or without, if nothing is. */
static PyObject *found_of(Call *call, PyObject *id, PyObject *args, PyObject *kwargs, int writes)
{
    PyObject *key = key_of_call(call, id, args, kwargs), *found = NULL;
    if (key != NULL && (!writes || PySet_Contains(known[WRITING], key) == 1))
        found = Py_XNewRef(PyDict_GetItemWithError(known[RESULTS_OF], key));
    Py_XDECREF(key);
    if (found == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear(); /* something that cannot be a key */
    return found;
}

/* The results of a call the short way; NULL, with an error or without. */
static PyObject *shortly(PyObject *id, PyObject *flags, PyObject *args, PyObject *kwargs)
{
    PyObject *numbers = PyTuple_GET_ITEM(flags, 0), *result = NULL, *found;
    if (PyTuple_GET_ITEM(flags, 1) == Py_True) /* it demands something of values */
        return NULL;
    Call call = {numbers == Py_True, PyList_New(0)};
    if (call.row == NULL)
        return NULL;
    if ((found = found_of(&call, id, args, kwargs, 0)) != NULL) {
        if (are_views(found))
            result = PyTuple_GET_SIZE(args) && IS_A(PyTuple_GET_ITEM(args, 0), TENSOR)
                         ? views(PyTuple_GET_ITEM(args, 0), found)
                         : NULL;
        else if (SLOT(found, RESULTS_RECALLED) == Py_True)
            result = again(found, call.row, numbers, PyTuple_GET_ITEM(flags, 2) == Py_True);
        Py_DECREF(found);
    }
    Py_DECREF(call.row);
    return result;
}

/* ---- writing ---------------------------------------------------------------------------------------------- */

/* `tensor._elem = value`: -1 with an error. */
static int write_to(PyObject *tensor, PyObject *value)
{
    PyObject *storage = PyObject_GetAttr(tensor, str_storage), *steps = PyObject_GetAttr(tensor, str_steps);
    int done = -1;
    if (storage != NULL && IS_A(storage, STORAGE) && steps != NULL && PyTuple_Check(steps) &&
        PyTuple_GET_SIZE(steps) == 0) {
        PyObject *version = PyNumber_Add(SLOT(storage, STORAGE_VERSION), one);
        if (version != NULL) {
            Py_SETREF(SLOT(storage, STORAGE_VERSION), version);
            Py_SETREF(SLOT(storage, STORAGE_HOST), Py_NewRef(Py_None));
            Py_SETREF(SLOT(storage, STORAGE_BOUNDS), Py_NewRef(Py_None));
            Py_SETREF(SLOT(storage, STORAGE_VALUE), Py_NewRef(value));
            done = 0;
        }
    } else if (storage != NULL && steps != NULL)
        done = PyObject_SetAttr(tensor, str_elem, value);
    Py_XDECREF(steps);
    Py_XDECREF(storage);
    return done;
}

/* `dispatch._write_again`, with what is known of a writer: the tensor that was written to; NULL, with an error or
   without. */
static PyObject *written(PyObject *writer, PyObject *args, PyObject *kwargs)
{
    PyObject *numbers = PyTuple_GET_ITEM(writer, 1), *found, *value = NULL, *result = NULL;
    Call call = {numbers == Py_True, PyList_New(0)};
    if (call.row == NULL || PyTuple_GET_SIZE(args) == 0 || !IS_A(PyTuple_GET_ITEM(args, 0), TENSOR))
        goto end;
    if ((found = found_of(&call, PyTuple_GET_ITEM(writer, 0), args, kwargs, 1)) != NULL) {
        if (SLOT(found, RESULTS_RECALLED) == Py_True && IS_A(SLOT(found, RESULTS_TREE), LAYOUT))
            value = arrays_of(found, call.row, numbers, PyTuple_GET_ITEM(writer, 2) == Py_True);
        Py_DECREF(found);
    }
    if (value != NULL && write_to(PyTuple_GET_ITEM(args, 0), value) == 0)
        result = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    Py_XDECREF(value);
end:
    Py_XDECREF(call.row);
    return result;
}

/* `moving._clone_again`: a tensor with the values of another; NULL, with an error or without. */
static PyObject *copied(PyObject *id, PyObject *args, PyObject *kwargs)
{
    Call call = {0, PyList_New(0)};
    PyObject *found, *pending = NULL, *value = NULL, *result = NULL;
    if (call.row == NULL || PyTuple_GET_SIZE(args) != 1 || !IS_A(PyTuple_GET_ITEM(args, 0), TENSOR))
        goto end;
    if ((found = found_of(&call, id, args, kwargs, 0)) != NULL) {
        if (IS_A(SLOT(found, RESULTS_TREE), LAYOUT) && (pending = open_trace()) != NULL &&
            (value = value_of(PyTuple_GET_ITEM(args, 0), pending, 1)) != NULL)
            result = wrap(value, SLOT(found, RESULTS_TREE));
        Py_XDECREF(value);
        Py_XDECREF(pending);
        Py_DECREF(found);
    }
end:
    Py_XDECREF(call.row);
    return result;
}

/* The results of the operation with the number `id`; NULL, with an error or without, if Python is to carry it out. */
static PyObject *short_way(PyObject *id, PyObject *args, PyObject *kwargs)
{
    PyObject *result = NULL, *flags = PyDict_GetItemWithError(known[RECALLABLE], id);
    if (flags != NULL) {
        Py_INCREF(flags);
        result = shortly(id, flags, args, kwargs);
        Py_DECREF(flags);
    } else if ((flags = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(known[WRITERS], id)) != NULL) {
        Py_INCREF(flags);
        result = written(flags, args, kwargs);
        Py_DECREF(flags);
    } else if (!PyErr_Occurred() && PyObject_RichCompareBool(id, known[COPY], Py_EQ) == 1)
        result = copied(id, args, kwargs);
    return result;
}

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
    return result;
}

/* ---- the module ------------------------------------------------------------------------------------------- */

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
    {NULL, NULL, 0, NULL},
};

static int filled(PyObject *module)
{
    static const Text texts[] = {
        {&str_elem, "_elem"}, {&str_layout, "_layout"}, {&str_pending, "pending"}, {&str_quick, "quick"},
        {&str_seen, "_seen"}, {&str_steps, "_steps"}, {&str_storage, "_storage"}, {&str_the_value, "_value"},
        {&str_value, "value"},
    };
    if (begun(module, texts, sizeof texts / sizeof *texts) < 0)
        return -1;
    Py_XSETREF(zero, PyLong_FromLong(0));
    Py_XSETREF(one, PyLong_FromLong(1));
    Py_XSETREF(none_at_all, PyTuple_New(0));
    return zero == NULL || one == NULL || none_at_all == NULL ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, filled}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lazynb.torch._short",
    .m_doc = PyDoc_STR("The short way of PyTorch's operations; lazynb.torch.dispatch.shortcut is the specification."),
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__short(void) { return PyModuleDef_Init(&definition); }
