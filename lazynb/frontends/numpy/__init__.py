"""NumPy front end: records NumPy calls on lazy tensors, and defines the mutable lazy array.

``numpy_protocols``: ``__array_ufunc__`` and ``__array_function__``, the entry points.
``mutable_array``: ``MutableArray``, the lazy array with the interface of ``numpy.ndarray``.
``view_memory``: memory shared by views, and the paths to it.
``array_indexing``: indexing and assignment.
``ufunc_recording``: records ufuncs.
``ufunc_lowerings``: ufuncs that NumPy and JAX define differently.
``function_recording``: records other functions.
``function_rules``: tables of functions with special rules.
``function_lowerings``: functions that JAX lacks or defines differently.
``mutable_functions``: ``out=``, views and in-place functions of mutable arrays.
``linalg_checks``: ``np.linalg`` errors that depend on the values.
``numpy_arguments``: tree, dtype and 64-bit helpers.
``array_namespace``: ``np.array`` of lists, and the array API namespace.
``argument_conversion``: patches libraries to convert mutable arrays to ``numpy.ndarray``.
"""
