"""The words of docs/numpy.md."""

# ruff: noqa: E501

HEAD = """# NumPy on lazy tensors

While a thread is lazy, NumPy's functions on lazy tensors are recorded through NumPy's own protocols (NEP 13, NEP 18): no import changes.
A result is what NumPy gives: its types (NEP 50), shapes, containers and errors, the latter at the call. Where JAX cannot give that, the
trace breaks, with a reason (`%breaks LNB311`), and NumPy's own function runs on the values.

- **Types.** In 32-bit mode JAX has no 64-bit types of its own accord. Where NumPy's result, or what NumPy computes in, has 64-bit floats
  (`np.sin` of int32), the call breaks, and gives NumPy's own result; with `jax_enable_x64` it is lazy. Places and counts (`np.argmax`, `np.argsort`,
  `np.searchsorted`, `np.count_nonzero`, `np.sum` of integers) are lazy, and are int64 as NumPy's: arrays that can be written to, whose operators are NumPy's,
  as JAX's own would make int32 of them. JAX's functions, and operators beside an array of JAX's, take them as they take NumPy's int64, as int32. They are no
  `np.integer` to `isinstance` and no scalars to `np.isscalar`: `np.random.default_rng` takes `int(place)`. `np.bincount`, also with `minlength=`, has a shape
  that depends on values. Masks of places whose values are known are computed by NumPy: in `x[labels == k]` one run gives the places to all `k`.
- **Values.** Where the shape, the type or an error depends on values (`np.unique`, `np.linalg.eig`, an index that is itself pending), the call
  breaks. `jax.numpy` has forms without: `jnp.unique(x, size=n)`, `jnp.take` (nan). `np.linalg.lstsq` breaks as well: how many residuals it gives depends
  on the rank.
- **Linear algebra** (`np.linalg.inv`, `solve`, `cholesky`, `eigh`, `svd`, `pinv`, `matrix_rank`, `cond` and norms of singular values) is recorded. The program
  computes in 64 bits as NumPy does, gives NumPy's type, and holds the check: `LinAlgError: Singular matrix` is raised where a value is read or at
  `lazynb.sync()`, with the line of the call, and again by whatever depends on it. So a `try` around `np.linalg.inv(a)` has to read the result, or
  `lazynb.sync()`, to catch it. The signs of eigenvectors and singular vectors are open, as they are in NumPy.
- **Truth values.** `np.allclose`, `np.array_equal` and `np.array_equiv` give a pending truth value, which breaks where it is asked for: in `if`, `assert`,
  `not`. It is no `bool` to `isinstance`, and `is True` does not hold. A different shape is `False` at once, in `np.array_equal`.
- **Operators** between NumPy's arrays and lazy tensors mean what they mean for any `jax.Array`, on either side and whoever does them:
  `array + x` is JAX's, and so are `operator.add(array, x)`, `sum([array, x])` and `jax.tree.map(operator.add, arrays, tensors)`;
  `np.add(array, x)` is NumPy's. C code that calls the array's own method (`map(array.__add__, ...)`) gets the result where eagerly it
  gets `NotImplemented`.
- **Subclasses.** NumPy's functions of a matrix, a masked array or another subclass of its arrays break, and give what NumPy gives.
- **Only lazy tensors take part.** An array made outside lazy mode is JAX's own, which has no protocol for NumPy: `np.sin` of it alone is an
  `ndarray`, also in lazy mode. Together with a lazy tensor it is recorded; alone, `jnp.asarray(x) * 1` or any function of `jax.numpy` makes a
  lazy tensor of it. (`jnp.asarray(array)` of an array of NumPy's, in lazy mode, is lazy already.)
- **Outside lazy mode** NumPy takes the values, as of any `jax.Array`: `np.sin(x)` is an `ndarray`.
- **Writing.** A lazy tensor refuses it as a `jax.Array` does. `lazynb.numpy.mutable(x)` is a copy that can be written to as NumPy's arrays
  can: `x[0] = 1`, `x += 1`, `out=`, and views (`v = x[1:]; v[:] = 0` changes `x`). `np.asarray` of it is a read-only snapshot.
  JAX's functions and transformations take its values; outside lazy mode an index of JAX's is `np.asarray` of it.
  `np.testing.assert_equal` and `assert_almost_equal` know NumPy's own arrays by `isinstance`, and places too fail there beside a number or a list:
  `np.testing.assert_array_equal` and `assert_allclose` compare them.
- **Lists.** `np.array([a, b])` and `np.asarray` of a list (also of lists) of at most 256 lazy tensors, one of them pending or an array that can be written to, is recorded where the
  user's own code calls it by NumPy's name, and gives an array that can be written to, as `lazynb.numpy.mutable` makes it. A longer list, a type
  that JAX has not, a library's call or a name held before (`from numpy import array`) breaks, and gives NumPy's own array.
- **Floats** agree within rounding: XLA fuses and orders sums in its own way, and may take numbers below the smallest normal one for zero.
  NumPy's warnings (division by zero, overflow) are not given; under `np.errstate(...="raise")` calls break, so that the error comes.
  `np.argsort`, `np.partition` and their like may order equal elements in another way, as NumPy leaves that open.

Of {total} functions that take arrays of numbers, by their plainest call (float32, or int32 where they need integers):

| | lazy | break: 64-bit by nature | break: other | unsupported | lazy, of all | lazy, of those whose result JAX can hold |
|---|---|---|---|---|---|---|
| 32-bit mode | {lazy32} | {wide32} | {break32} | {unsupported32} | {all32} | {share32} |
| 64-bit mode | {lazy64} | {wide64} | {break64} | {unsupported64} | {all64} | {share64} |

NumPy's own default is 64 bits: in 32-bit mode `np.cov` would have to give another type than NumPy promises in order to be lazy.

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
