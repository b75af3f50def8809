"""Names of JAX that lazynb compares with text: of functions and files in a stack, of primitives, of public
functions, and phrases in messages.

Each comment says where in JAX the names come from. ``tests/test_jax_private_names.py`` looks them up there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# ---- files and modules -------------------------------------------------------------------------------------

PACKAGE_FOLDER = f"{os.sep}jax{os.sep}"
"""Part of the path of each file of JAX."""

PRIVATE_FOLDER = f"{os.sep}jax{os.sep}_src{os.sep}"
"""Part of the path of each file that implements JAX's public modules."""

PRIVATE_MODULES, PUBLIC_MODULES = "jax._src.", "jax."
"""What a module's name starts with, and what it starts with where users import its functions from."""

INTERPRETERS_FOLDER = os.path.join("jax", "_src", "interpreters")
"""Where the functions stand that JAX's transformations call by themselves, such as the backward pass."""

# ``api_boundary`` and ``cache_miss``, ``Primitive.bind``, the calls of ``custom_jvp`` and ``custom_vjp``,
# transformations of functions, and annotations for the profiler.
MACHINERY_FILES = tuple(
    os.path.join("jax", "_src", name)
    for name in (
        "traceback_util.py",
        "pjit.py",
        "core.py",
        "custom_derivatives.py",
        "linear_util.py",
        "api_util.py",
        "profiler.py",
    )
)
"""Ends of the paths of files that only hand calls on."""

CALLBACK_MODULES = ("jax._src.tree", "jax._src.test_util", "jax._src.public_test_util", "jax.test_util")
"""Starts of the names of modules whose functions call what the user hands them, or compare values in tests.
What such a function converts is not for JAX."""

# ---- functions in a stack ----------------------------------------------------------------------------------

FORWARDING_FUNCTIONS = frozenset(
    (
        # numpy/array_methods.py: what a tracer's operators, methods and properties are
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
"""Functions in :data:`PRIVATE_FOLDER` that hand a call on, which nobody called by name."""

OPERATOR_PREFIX = "_operator_"
"""What the names of the functions behind an array's operators start with (numpy/array_methods.py)."""

# Inside ``grad``, ``value_and_grad``, ``jacfwd`` and ``jacrev`` of api.py.
DERIVATIVE_FUNCTIONS = {"grad_f": "grad", "value_and_grad_f": "value_and_grad", "jacfun": "jacobian"}
"""Functions that JAX makes of the user's to differentiate it; by their own name, that of the public one."""

TRANSFORMED_FUNCTIONS = {**DERIVATIVE_FUNCTIONS, "vmap_f": "vmap"}  # api.py: vmap
"""Functions that JAX makes of the user's; by their own name, that of the public one."""

# numpy/array_methods.py, without the underscores around them.
ARRAY_FUNCTIONS = {"getitem": "indexing", "transpose_property": "transpose"}
"""Functions behind an array's attributes; by their own name, what a user calls them."""

FIXED_ARGUMENTS = "argnums_partial"
"""What the names of the functions start with that fix the static arguments of a call (api_util.py), without
underscores: where JAX refuses such an argument, its error message shows the value."""

# ---- what JAX says that it needs a value for ---------------------------------------------------------------

COUNTS_PHRASE = "the total number of repeats must be static"
"""How ``jnp.repeat`` asks for the counts, with which it goes on to compute (numpy/lax_numpy.py)."""

CONTEXT_PREFIXES = ("It arose in the ", "The error arose in ", "in ")
"""How such a context starts before the function's name (numpy/lax_numpy.py, nn/functions.py)."""

# ---- public functions --------------------------------------------------------------------------------------

NOT_REMEMBERED = frozenset(
    """apply_along_axis apply_over_axes array_repr array_str broadcast_shapes can_cast einsum_path
    fill_diagonal from_dlpack frombuffer fromfile fromfunction fromiter frompyfunc fromstring get_printoptions
    iscomplexobj isdtype isrealobj isscalar issubdtype iterable load mask_indices ndim piecewise place
    printoptions promote_types put result_type save savez set_printoptions shape size vectorize cond switch
    while_loop fori_loop scan map associative_scan reduce custom_root custom_linear_solve composite key
    PRNGKey key_data wrap_key_data clone""".split()
)
"""Functions that return no arrays, take functions, read files or print, or refuse to work in place."""

COMPARED_BY_IDENTITY = frozenset("mean sum max min prod all any std var amax amin".split())
"""Functions of ``jax.numpy`` that libraries compare with ``is``, as Optax does with ``reduce_fn=jnp.mean``."""

MONOIDS = frozenset("add mul max min bitwise_and bitwise_or bitwise_xor".split())
"""Functions of ``jax.lax`` that ``reduce_window`` and ``reduce`` know by identity (lax/lax.py)."""

PLACED = frozenset(("full", "full_like"))
"""Functions of ``jax.lax`` that make an array on a device."""

NUMBERS_ALIKE = frozenset(
    """add subtract multiply divide true_divide floor_divide remainder mod fmod maximum minimum fmax fmin
    where equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor arctan2 atan2 hypot copysign logaddexp logaddexp2 nextafter heaviside
    clip""".split()
)
"""Functions of ``jax.numpy`` that record every number of one type alike: their arguments are arguments of a
jitted function or an elementwise primitive."""

# ---- operations --------------------------------------------------------------------------------------------

# ``jnp.divide`` calls ``jnp.true_divide``, which is jitted (numpy/ufuncs.py).
JITTED_NAMES: Mapping[str, str] = {"true_divide": "divide"}
"""Jitted functions of JAX that users know by another name."""

PRIMITIVES_IN_WORDS: Mapping[str, str] = {
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
"""Primitives that users know by another name (lax/lax.py, ad_checkpoint.py)."""

# Primitives, ``jnp.expand_dims``, and ``convert_element_type`` in words.
GLUE = frozenset("astype broadcast_in_dim reshape squeeze expand_dims copy stop_gradient".split())
"""Operations that JAX puts between others to make shapes and types fit."""
