"""The words of docs/numpy.md."""

# ruff: noqa: E501

HEAD = """# NumPy on lazy tensors

In lazy mode a NumPy function of a lazy tensor gives what it gives eagerly for a `jax.Array`: values, types (NEP 50), shapes, containers, errors, and arrays
with NumPy's meaning. NumPy hands the calls over by its own protocols (NEP 13, NEP 18): no import changes. Where JAX cannot give NumPy's result, the trace
breaks, with a reason (`%breaks LNB311`), and NumPy's own function runs on the values.

- **Results are arrays of NumPy's.** Where NumPy gives an `ndarray`, lazy mode gives a `lazynb.numpy.MutableArray`. It can be written to (`y[0] = 1`,
  `y += 1`, `y[y > 3] = 3`, `y.sort()`, `out=y`), and its views share its memory (`v = y[1:]; v *= 10` changes `y`). All of it is recorded. Where NumPy gives
  a scalar, it is such an array that cannot be written to. `isinstance(y, np.ndarray)` holds in the user's own code; `type(y)` is another class.
- **`np.asarray(y)`** breaks and gives NumPy's own array, which shares the memory with `y` both ways. As long as somebody holds it, each use of `y` copies it.
- **Some functions give an array of JAX's**, eagerly too, as NumPy calls the method of the array: `np.sum(x)`, `np.mean(x)`, `np.argmax(x)`, `np.reshape(x, s)`,
  `np.round(x)`, with JAX's types. Of a result of NumPy's they give NumPy's: `np.sum(np.sin(x))`.
- **64-bit types** are recorded in 64-bit mode and stay: `np.sin(x).astype(np.float64)`, `np.sin(i)` of int32, `np.copy(x) * np.full(4, 1 / 3)`. Where JAX takes such an
  array (`jnp.asarray(y)`, `jax.jit(f)(y)`, `y + x` with a lazy tensor `x`), it takes a copy of the moment, at 32 bits unless `jax_enable_x64` is set, as eagerly.
  Objects, texts, dates and structures break.
- **Operators** between an array of NumPy's and a lazy tensor are JAX's, as eagerly: `np.sin(x) + x` is a lazy tensor, and so is `y` after `y += x`. `np.add(y, x)` is NumPy's.
- **Libraries get NumPy's own arrays.** A NumPy function or operator that SciPy or another package calls breaks (LNB316), once and for the whole call. A function that asks for
  `__array_namespace__` goes through: SciPy and scikit-learn with the array API switched on. JAX's code and Python's own library count as the user's. The functions and methods of pandas,
  Matplotlib's axes, seaborn, statsmodels, scikit-image, xarray, Polars, PyArrow, Bokeh, joblib, OpenCV, `PIL.Image` and `torch.from_numpy` convert such arrays, which is one break: `table[y > 0]`.
- **Values that NumPy looks at** break: a shape, a type or an error that depends on them (`np.unique`, `np.linalg.eig`), `if`, `float(y)`, and an array of places or a mask as an index, which
  may be out of bounds (`y[mask] = number` stays lazy). `jax.numpy` has forms without: `jnp.unique(x, size=n)`, `jnp.take`.
- **Linear algebra** (`np.linalg.inv`, `solve`, `cholesky`, `eigh`, `svd`, `pinv`, `matrix_rank`, `cond`, norms of singular values) is recorded with its check: `LinAlgError` is raised where a
  value is read or at `lazynb.sync()`, with the line of the call. So a `try` around `np.linalg.inv(a)` has to read the result to catch it.
- **Truth values.** `np.allclose`, `np.array_equal` and `np.array_equiv` give a pending truth value, which breaks in `if` or `assert`. `is True` does not hold.
- **Lists.** `np.array([a, b])` and `np.asarray` of a list of at most 256 lazy arrays is recorded in the user's own code. A longer list, a type
  that JAX has not, a library's call or a name held before (`from numpy import array`) breaks.
- **Only lazy arrays take part.** `np.zeros(4)`, and an array made outside lazy mode alone, are as ever: `a[0] = x` and `a += np.sin(x)` of NumPy's own array `a` break.
- **Outside lazy mode** NumPy runs at once and gives its own arrays.
- **Floats** agree within rounding: XLA fuses, orders sums in its own way, multiplies by the reciprocal of a constant, and may take numbers below the smallest normal one for zero.
- **Not as eagerly:** RuntimeWarnings of values (division by zero, overflow, invalid casts) are not given, but under `np.errstate(...="raise")` calls break, so that the error comes;
  floats that do not fit become other integers than NumPy's. `np.argsort` and `np.partition` may order equal elements in another way. C code that asks for an `ndarray` itself
  (an argument of Cython's or numba's, a mask of a tensor of PyTorch's, a list of numbers to `torch.tensor`, on Python 3.11 `memoryview(y)`, `hashlib`, `file.write`; `y.__array_interface__`, `json.dumps` of a scalar)
  takes `np.asarray(y)`, `float(y)`. `resize` does not count who refers to the array.
  C code that calls an operator's method (`map(array.__add__, ...)`) gets a result where eagerly it gets `NotImplemented`.

Of {total} functions that take arrays of numbers, by their plainest call (float32, or int32 where they need integers):

| | lazy | break: a type that JAX has not | break: other | unsupported | lazy, of all | lazy, of those whose result JAX can hold |
|---|---|---|---|---|---|---|
| 32-bit mode | {lazy32} | {wide32} | {break32} | {unsupported32} | {all32} | {share32} |
| 64-bit mode | {lazy64} | {wide64} | {break64} | {unsupported64} | {all64} | {share64} |

Not counted: {over} that are there to hand values over (`np.asarray`, `np.save`, `np.array2string`, ...) and {none} that take dates or types.

The arguments: `F`, `G` float32 (3, 4); `S`, `P` float32 (3, 3), `P` positive definite; `T` float32 (2, 3, 4); `U`, `V`, `W` float32 vectors; `I`, `J` int32
(3, 4); `K` int32 vector; `H` uint8 vector; `B` bool and `C` complex64 (3, 4); with `n` NumPy's own array; `M` a mutable one. All are
pending. This page is written by `python scripts/numpy_page.py`, and the tests hold it against what happens.

"""

SCIKIT_LEARN = """
## scikit-learn

With `sklearn.set_config(array_api_dispatch=True)` (and `SCIPY_ARRAY_API=1` in the environment before SciPy is imported) scikit-learn 1.9 takes arrays that
can be written to, `lazynb.numpy.mutable(x)`, by the array API standard, and computes with them; results that are arrays are such arrays again. Each of these gives
what it gives for NumPy's arrays, with the same type. Nearly all break at least once: scikit-learn looks whether its input is finite (LNB101), and metrics
give Python's numbers (LNB103). `X` is float32 (40, 4), `y` float32 and `k` int32 of 40. `manhattan_distances` gives float32 where it gives float64 for NumPy's arrays, for which
scikit-learn has code of its own.

"""
