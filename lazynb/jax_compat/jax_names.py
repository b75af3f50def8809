"""Names of JAX as text: functions and files in a stack, messages, public functions, primitives, parameters.

Each comment names the place in JAX. ``tests/test_jax_private_names.py`` looks each name up there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# ---- Files and modules ----------------------------------------------------------------------------------

PACKAGE_FOLDER = f"{os.sep}jax{os.sep}"
"""Part of the path of each file of JAX."""

PRIVATE_FOLDER = f"{os.sep}jax{os.sep}_src{os.sep}"
"""Part of the path of each file that implements JAX's public modules."""

PRIVATE_MODULES, PUBLIC_MODULES = "jax._src.", "jax."
"""Prefixes of private modules, and of the modules that users import from."""

INTERPRETERS_FOLDER = os.path.join("jax", "_src", "interpreters")
"""The folder of the functions that JAX's transformations call, such as the backward pass."""

# ``api_boundary`` and ``cache_miss``, ``Primitive.bind``, the calls of ``custom_jvp`` and ``custom_vjp``,
# transformations of functions, and annotations for the profiler.
MACHINERY_FILES = (
    os.path.join("jax", "_src", "traceback_util.py"),
    os.path.join("jax", "_src", "pjit.py"),
    os.path.join("jax", "_src", "core.py"),
    os.path.join("jax", "_src", "custom_derivatives.py"),
    os.path.join("jax", "_src", "linear_util.py"),
    os.path.join("jax", "_src", "api_util.py"),
    os.path.join("jax", "_src", "profiler.py"),
)
"""Ends of the paths of files that only forward calls."""

CALLBACK_MODULES = ("jax._src.tree", "jax._src.test_util", "jax._src.public_test_util", "jax.test_util")
"""Prefixes of modules whose functions call a user's function, or compare values in tests. A value that such a
function converts is not needed by JAX."""

# ---- Functions in a stack -------------------------------------------------------------------------------

FORWARDING_FUNCTIONS = frozenset(
    (
        # numpy/array_methods.py: a tracer's operators, methods and properties
        "op",
        "meth",
        "prop",
        "method",
        "_run_python_pjit",  # pjit.py
        "wrapped_fun",  # custom_derivatives.py: custom_gradient
        "wrapper",  # config.py and source_info_util.py: context managers that are used as decorators
        "wrapped",  # numpy/vectorize.py, shard_map.py
        "inner",  # error_check.py
        "__call__",  # numpy/ufunc_api.py
        "<lambda>",
    )
)
"""Functions in :data:`PRIVATE_FOLDER` that only forward a call."""

OPERATOR_PREFIX = "_operator_"
"""Prefix of the functions behind an array's operators (numpy/array_methods.py)."""

# api.py: inside ``grad``, ``value_and_grad``, ``jacfwd`` and ``jacrev``
DERIVATIVE_FUNCTIONS: Mapping[str, str] = {
    "grad_f": "grad",
    "value_and_grad_f": "value_and_grad",
    "jacfun": "jacobian",
}
"""The functions that JAX creates to differentiate a user's function, and the public name of each."""

GRADIENT_FUNCTIONS = frozenset((*DERIVATIVE_FUNCTIONS, "vjp", "linearize"))
"""Those, and the functions of :data:`GRADIENT_FILE` that return a gradient as a function."""

GRADIENT_FILE = os.path.join("jax", "_src", "api.py")
"""End of the path of the file with these functions."""

# api.py: inside ``vmap``
TRANSFORMED_FUNCTIONS: Mapping[str, str] = {**DERIVATIVE_FUNCTIONS, "vmap_f": "vmap"}
"""The functions that JAX creates from a user's function, and the public name of each."""

# numpy/array_methods.py, without the underscores around them
ARRAY_FUNCTIONS: Mapping[str, str] = {"getitem": "indexing", "transpose_property": "transpose"}
"""Functions behind an array's attributes, and the public name of each."""

BACKWARD_SCOPE = "transpose"
"""The backward pass in a name stack."""

# source_info_util.py: ``transform_name_stack``; pjit.py: ``wrap_name``
TRANSFORMATION_SCOPES = ("jvp", BACKWARD_SCOPE, "vmap", "jit")
"""Transformations in a name stack, which put parentheses around names: ``jvp(MLP)``."""

# ---- Messages and events --------------------------------------------------------------------------------

REPEAT_COUNTS_MESSAGE = "the total number of repeats must be static"
"""The message of ``jnp.repeat`` that it needs concrete counts (numpy/lax_numpy.py)."""

CONTEXT_PREFIXES = ("It arose in the ", "The error arose in ", "in ")
"""Beginnings of messages before the name of a function (numpy/lax_numpy.py, nn/functions.py)."""

CACHE_HIT_EVENT = "/jax/compilation_cache/cache_hits"
"""The event that JAX records for a hit in its persistent cache (compiler.py)."""

# ---- Public functions -----------------------------------------------------------------------------------

NOT_REPLAYED = frozenset(
    """apply_along_axis apply_over_axes array_repr array_str broadcast_shapes can_cast einsum_path
    fill_diagonal from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc fromstring get_printoptions
    iscomplexobj isdtype isrealobj isscalar issubdtype iterable load mask_indices ndim piecewise place
    printoptions promote_types put result_type save savez set_printoptions shape size vectorize cond switch
    while_loop fori_loop scan map associative_scan reduce custom_root custom_linear_solve composite key
    PRNGKey key_data wrap_key_data clone""".split()
)
"""Functions of :mod:`jax.numpy`, :mod:`jax.lax` and others that return no arrays, take functions, read files,
print, or refuse to work in place."""

# ``psend`` and ``precv`` are public in 0.10 only.
NOT_WORTH_REPLAYING = frozenset(
    """argwhere flatnonzero nonzero unique unique_all unique_counts unique_inverse unique_values union1d
    intersect1d setdiff1d setxor1d extract compress trim_zeros
    conv_dimension_numbers conv_general_permutations conv_general_shape_tuple conv_shape_tuple
    conv_transpose_shape_tuple reduce_window_shape_tuple padtype_to_pads dtype after_all create_token
    shape_as_value key_dtype key_impl get_scaled_dot_general_config
    platform_dependent reduce_window scatter_apply
    jax.numpy.choose jax.numpy.full jax.numpy.histogram2d jax.numpy.histogramdd jax.numpy.ravel_multi_index
    jax.numpy.roots jax.numpy.select eig eigh qr slogdet svd bernoulli binomial multinomial
    dce_sink gather index_take ragged_dot_general random_gamma_grad
    scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub
    all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute precv psend pshuffle
    psum psum_scatter pswapaxes ragged_all_to_all""".split()
)
"""Functions of the same modules for which call replay saves nothing (``python -m benchmarks.substitution``).

The shapes of their results depend on values, so that each call runs pending traces; or they return shapes,
dtypes or tokens and no arrays, or named tuples; or they take functions, or objects whose values cannot be
compared; or they need the name of an axis, which only a transformation has, where nothing is replayed.
"""

COMPARED_BY_IDENTITY = frozenset("mean sum max min prod all any std var amax amin".split())
"""Functions of ``jax.numpy`` that libraries compare with ``is``: Optax has ``reduce_fn=jnp.mean``."""

MONOIDS = frozenset("add mul max min bitwise_and bitwise_or bitwise_xor".split())
"""Functions of ``jax.lax`` that ``reduce_window`` and ``reduce`` recognise by identity (lax/lax.py)."""

DEVICE_FILL_FUNCTIONS = frozenset(("full", "full_like"))
"""Functions of ``jax.lax`` that create an array on a device."""

VALUE_INDEPENDENT_SCALARS = frozenset(
    """add subtract multiply divide true_divide floor_divide remainder mod fmod maximum minimum fmax fmin
    where equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor arctan2 atan2 hypot copysign logaddexp logaddexp2 nextafter heaviside
    clip""".split()
)
"""Functions of ``jax.numpy`` that record each number of one type in the same way: their arguments are
arguments of a jitted function or an elementwise primitive."""

# ---- Operations -----------------------------------------------------------------------------------------

# numpy/ufuncs.py: ``divide`` calls ``true_divide``, which is jitted
JITTED_NAMES: Mapping[str, str] = {"true_divide": "divide"}
"""JAX's own jitted functions with internal names, and the public name of each."""

PRIMITIVE_DISPLAY_NAMES: Mapping[str, str] = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_and": "all",
    "reduce_or": "any",
    "mul": "multiply",
    "sub": "subtract",
    "div": "divide",
    "neg": "negative",
    "convert_element_type": "astype",
    "integer_pow": "power",
    "pow": "power",
    "dot_general": "matmul",
    "iota": "arange",
    "remat2": "checkpoint",
}
"""Primitives with internal names, and the public name of each (lax/lax.py, ad_checkpoint.py)."""

# Primitives, ``jnp.expand_dims``, ``jax.lax.stop_gradient``, and ``convert_element_type`` in words
SHAPE_ADAPTERS = frozenset("astype broadcast_in_dim reshape squeeze expand_dims copy stop_gradient".split())
"""Operations that JAX inserts to make shapes and types fit."""

# ---- Parameters of operations ---------------------------------------------------------------------------

RANK_PARAMETERS = frozenset(
    """axes axis dimension dimensions broadcast_dimensions permutation dimension_numbers
    index_dtype""".split()
)
"""Parameters that may depend on the operands' number of dimensions, not on their sizes."""

SIZE_PARAMETERS = frozenset(
    """shape new_sizes limit_indices start_indices slice_sizes sizes length padding padding_config
    window_dimensions base_dilation window_dilation window_strides k strides""".split()
)
"""Parameters that may depend on the operands' sizes."""

DTYPE_PARAMETERS = frozenset("new_dtype dtype preferred_element_type weak_type out_dtype".split())
"""Parameters that may depend on the operands' types."""

# ``scan`` has ``num_consts`` and ``num_carry`` in 0.10, ``ft_in`` and ``ft_out`` in 0.12.
ADDED_PARAMETERS = frozenset(
    """in_shardings out_shardings in_layouts out_layouts donated_invars ctx_mesh keep_unused inline
    compiler_options_kvs sharding jvp_jaxpr_fun fwd_jaxpr_thunk bwd num_consts num_carry ft_in ft_out
    cond_nconsts body_nconsts in_tree out_tree name""".split()
)
"""Parameters that JAX adds. They depend on others, if anything else differs."""

UNNAMED_PARAMETERS = frozenset("dimension_numbers padding_config".split())
"""Parameters that the user writes in another form."""

PARAMETER_DISPLAY_NAMES: Mapping[str, str] = {
    "axes": "axis",
    "dimension": "axis",
    "dimensions": "axis",
    "permutation": "axes",
    "new_sizes": "shape",
    "new_dtype": "dtype",
    "limit_indices": "end",
    "start_indices": "start",
    "strides": "step",
    "broadcast_dimensions": "axes",
    "preferred_element_type": "dtype",
    "slice_sizes": "size",
    "y": "exponent",
}
"""Parameters with internal names, and the public name of each."""

# ---- Primitives at cuts between two programs ------------------------------------------------------------

INLINE_CALL_PRIMITIVES = frozenset(("jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"))
"""Primitives that call one jaxpr with their operands. This and the next tables serve
lazynb/recording/loops/bit_exact_cuts.py."""

CONVERTING = frozenset(("convert_element_type",))
"""Primitives whose results hold the bits of their operands if the type is the same."""

EMBEDDING_PRIMITIVES = frozenset(("broadcast_in_dim", "concatenate", "pad", "dynamic_update_slice"))
"""Primitives that embed a value into a larger one."""

MOVING = EMBEDDING_PRIMITIVES | frozenset(
    """reshape squeeze transpose rev copy select_n slice dynamic_slice gather neg split real imag
    complex stop_gradient""".split()
)
"""Primitives whose results hold the bits of their operands, up to a sign."""

SUMS = frozenset(("add", "sub", "add_any"))
"""Sums of two operands."""

PRODUCTS = frozenset(("mul", "square", "integer_pow", "div", "dot_general", "conv_general_dilated"))
"""Primitives that may become a part of a fused multiply-add."""

QUOTIENTS = frozenset("div sqrt rsqrt cbrt pow exp exp2 expm1 log log1p logistic integer_pow".split())
"""Primitives that the algebraic simplifier rewrites together with products and quotients that read them."""

REDUCING = frozenset(
    """reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor argmax argmin cumsum
    cumprod cummax cummin cumlogsumexp reduce_window_sum reduce_window_max reduce_window_min reduce_window
    reduce""".split()
)
"""Reductions, which may be merged with one another, and which change their form for broadcast operands."""

COMPARING = frozenset("eq ne lt le gt ge is_finite sign floor ceil round".split())
"""Primitives whose results depend only on the bits of the operands."""

OPAQUE = frozenset(
    """max min abs clamp tanh sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erf erfc erf_inv
    lgamma digamma rem nextafter sort while scan optimization_barrier threefry2x32 random_bits iota
    sign floor ceil round top_k""".split()
)
"""Primitives that neither LLVM nor the algebraic simplifier splits or merges with their users."""

REMAT_SCOPE = "rematted_computation"
"""The name scope of operations that ``jax.checkpoint`` recomputes for a gradient."""
