"""NumPy front end: records NumPy calls on lazy tensors, and defines the mutable lazy array.

``numpy_protocols``: ``__array_ufunc__`` and ``__array_function__``, the entry points.
``mutable_array``: ``MutableArray``, the lazy array with the interface of ``numpy.ndarray``.
``array_conversions``: its conversions to NumPy and Python values, and its text.
``array_operators``: its operators, and its methods that only call a NumPy function.
``array_flags``: its flags.
``view_memory``: memory shared by views, and the paths to it.
``array_indexing``: indexing and assignment.
``ufunc_recording``: records ufuncs.
``ufunc_lowerings``: ufuncs that NumPy and JAX define differently.
``function_recording``: records other functions.
``function_names``: the public names of NumPy functions.
``trial_calls``: trial calls of NumPy with stand-ins for arrays.
``function_rules``: tables of functions with special rules.
``function_lowerings``: functions that JAX lacks or defines differently.
``mutable_functions``: ``out=`` and in-place functions of mutable arrays.
``view_functions``: functions that return views of mutable arrays.
``linalg_checks``: ``np.linalg`` errors that depend on the values.
``numpy_arguments``: tree, dtype and 64-bit helpers.
``array_namespace``: ``np.array`` of lists, and the array API namespace.
``argument_conversion``: patches libraries to convert mutable arrays to ``numpy.ndarray``.
"""
