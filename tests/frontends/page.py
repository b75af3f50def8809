"""The prose of docs/numpy.md."""

# ruff: noqa: E501

HEAD = """# NumPy on lazy tensors

In lazy mode a NumPy function of a lazy tensor gives the same result as eagerly for a `jax.Array`: values, types (NEP 50), shapes, containers, errors, and arrays
with NumPy's semantics. lazynb receives the calls through NumPy's protocols (NEP 13, NEP 18), so no import changes. If JAX cannot give NumPy's result, the trace
breaks with a reason (`%breaks LNB311`), and NumPy's own function runs on the values.

- **Results behave as NumPy arrays.** Where NumPy returns an `ndarray`, lazy mode returns a `lazynb.numpy.MutableArray`. It is writable (`y[0] = 1`,
  `y += 1`, `y[y > 3] = 3`, `y.sort()`, `out=y`), and its views share its memory (`v = y[1:]; v *= 10` changes `y`). All of this is recorded. Where NumPy returns
  a scalar, lazy mode returns a read-only array of this class. `isinstance(y, np.ndarray)` holds in the user's own code; `type(y)` is another class.
- **`np.asarray(y)`** breaks and returns a true NumPy array that shares memory with `y` in both directions. While a reference to it exists, each use of `y` copies it.
- **Some functions return a JAX array**, also eagerly, because NumPy calls the array's method: `np.sum(x)`, `np.mean(x)`, `np.argmax(x)`, `np.reshape(x, s)`,
  `np.round(x)`. They have JAX's types. For a NumPy result they return a NumPy result: `np.sum(np.sin(x))`.
- **64-bit types** are recorded in 64-bit mode and stay 64-bit: `np.sin(x).astype(np.float64)`, `np.sin(i)` of int32, `np.copy(x) * np.full(4, 1 / 3)`. JAX functions of such an
  array (`jnp.asarray(y)`, `jax.jit(f)(y)`, `y + x` with a lazy tensor `x`) take a copy of its current values, at 32 bits unless `jax_enable_x64` is set, as eagerly.
  Object, string, date and structured arrays break.
- **Operators** between a NumPy array and a lazy tensor are JAX's, as eagerly: `np.sin(x) + x` is a lazy tensor, and so is `y` after `y += x`. `np.add(y, x)` is NumPy's.
- **Libraries get true NumPy arrays.** A NumPy function or operator called by SciPy or another package breaks (LNB316), once for the whole call. A function that uses
  `__array_namespace__` does not break: SciPy and scikit-learn with the array API switched on. JAX's code and Python's standard library count as the user's code. The functions and methods of pandas,
  Matplotlib's axes, seaborn, statsmodels, scikit-image, xarray, Polars, PyArrow, Bokeh, joblib, OpenCV, `PIL.Image` and `torch.from_numpy` convert such arrays, which is one break: `table[y > 0]`.
- **Operations that need values** break: a shape, type or error that depends on values (`np.unique`, `np.linalg.eig`), `if`, `float(y)`, and an index array or mask, which
  may be out of bounds (`y[mask] = number` stays lazy). `jax.numpy` has forms without a break: `jnp.unique(x, size=n)`, `jnp.take`.
- **Linear algebra** (`np.linalg.inv`, `solve`, `cholesky`, `eigh`, `svd`, `pinv`, `matrix_rank`, `cond`, norms of singular values) is recorded with its check. `LinAlgError` is raised at the read of a
  value or at `lazynb.sync()`, with the line of the call. So a `try` around `np.linalg.inv(a)` must read the result to catch it.
- **Truth values.** `np.allclose`, `np.array_equal` and `np.array_equiv` return a pending truth value, which breaks in `if` or `assert`. `is True` does not hold.
- **Lists.** `np.array([a, b])` and `np.asarray` of a list of at most 256 lazy arrays are recorded in the user's own code. These break: a longer list, a type
  that JAX does not have, a library's call, and a name imported before (`from numpy import array`).
- **Only lazy arrays are recorded.** `np.zeros(4)`, and calls with only arrays from outside lazy mode, run as usual: `a[0] = x` and `a += np.sin(x)` of a true NumPy array `a` break.
- **Outside lazy mode** NumPy runs at once and returns its own arrays.
- **Floats** agree within rounding: XLA fuses operations, changes the order of sums, multiplies by the reciprocal of a constant, and may flush subnormal numbers to zero.
- **Differences from eager NumPy:** RuntimeWarnings about values (division by zero, overflow, invalid casts) are not issued. Under `np.errstate(...="raise")` calls break, so the error is raised.
  Floats that do not fit an integer type become other integers than NumPy's. `np.argsort` and `np.partition` may order equal elements differently. Use `np.asarray(y)` or `float(y)` for C code that requires an `ndarray`
  (an argument of Cython or numba code, a mask of a PyTorch tensor, a list of numbers to `torch.tensor`, on Python 3.11 `memoryview(y)`, `hashlib`, `file.write`; `y.__array_interface__`, `json.dumps` of a scalar).
  `resize` does not check for references to the array.
  C code that calls an operator's method (`map(array.__add__, ...)`) gets a result where eagerly it gets `NotImplemented`.

Of {total} functions that take arrays of numbers, by their simplest call (float32, or int32 for functions of integers):

| | lazy | break: a type that JAX has not | break: other | unsupported | lazy, of all | lazy, of those whose result JAX can hold |
|---|---|---|---|---|---|---|
| 32-bit mode | {lazy32} | {wide32} | {break32} | {unsupported32} | {all32} | {share32} |
| 64-bit mode | {lazy64} | {wide64} | {break64} | {unsupported64} | {all64} | {share64} |

Not counted: {over} functions that hand values over (`np.asarray`, `np.save`, `np.array2string`, ...) and {none} that take dates or types.

The arguments: `F`, `G` float32 (3, 4); `S`, `P` float32 (3, 3), `P` positive definite; `T` float32 (2, 3, 4); `U`, `V`, `W` float32 vectors; `I`, `J` int32
(3, 4); `K` int32 vector; `H` uint8 vector; `B` bool and `C` complex64 (3, 4); a name with `n` is a true NumPy array; `M` is a mutable array. All are
pending. `python scripts/numpy_page.py` writes this page, and the tests compare it with the actual results.

"""

SCIKIT_LEARN = """
## scikit-learn

With `sklearn.set_config(array_api_dispatch=True)` (and `SCIPY_ARRAY_API=1` in the environment before SciPy is imported) scikit-learn 1.9 computes with writable
arrays, `lazynb.numpy.mutable(x)`, by the array API standard. Array results are also writable arrays. Each function below gives
the same result and type as for NumPy arrays. Nearly all break at least once: scikit-learn checks that its input is finite (LNB101), and metrics
return Python numbers (LNB103). `X` is float32 (40, 4), `y` float32 and `k` int32 of 40. `manhattan_distances` gives float32. For NumPy arrays it gives float64, because
scikit-learn has separate code for them.

"""
