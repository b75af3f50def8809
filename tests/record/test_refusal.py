"""What eager JAX refuses at the call is refused there, and what was pending is as it was."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax._src import core
from jax.extend.core import Primitive
from jax.interpreters import mlir
from oracle import assert_same

import lazynb

X = np.eye(3, dtype=np.float32) * 2
PRESET = lax.DotAlgorithmPreset.TF32_TF32_F32  # no CPU has it


@jax.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (g * 2,))


def twice(x):
    return jax.jit(lambda x, y: x + y, donate_argnums=0)(x, x)


def without_execution(x):
    lazynb.sync(x)
    with jax.no_execution():
        return x + 1


REFUSED = {
    "forward mode": lambda x: jax.jvp(doubled, (x,), (x,)),
    "forward mode in jit": lambda x: jax.jvp(jax.jit(doubled), (x,), (x,)),
    "forward mode in scan": lambda x: jax.jvp(
        lambda x: lax.fori_loop(0, 2, lambda _, x: doubled(x), x), (x,), (x,)
    ),
    "linearize": lambda x: jax.linearize(doubled, x)[1](x),
    "way to multiply": lambda x: lax.dot(x, x, precision=PRESET),
    "way to multiply in einsum": lambda x: jnp.einsum("ij,jk->ik", x, x, precision=PRESET),
    "way to multiply in scan": lambda x: lax.scan(
        lambda c, _: (lax.dot(c, c, precision=PRESET), None), x, None, length=2
    )[0],
    "seed": lambda x: jax.random.key(x[0, 0]),
    "seed that is a number": lambda x: jax.random.PRNGKey(3.5),
    "compiler option": lambda x: jax.jit(lambda x: x + 1, compiler_options={"no_such_option": "1"})(x),
    "no execution": without_execution,
}
if jax.__version__.startswith("0.10"):  # later releases compute in float32
    REFUSED |= {
        "half precision": lambda x: jnp.linalg.cholesky(x.astype(jnp.float16)),
        "half precision in jit": lambda x: jax.jit(lambda x: jnp.linalg.inv(x.astype(jnp.bfloat16)))(x),
    }


def message(call, x):
    with pytest.raises(Exception) as raised:
        call(x)
    return type(raised.value), str(raised.value)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_raises_the_error_of_eager_jax_and_keeps_pending_values(name, clean):
    expected = message(REFUSED[name], jnp.asarray(X))
    with lazynb.lazy():
        other = jnp.asarray(X) + 1
        assert message(REFUSED[name], jnp.asarray(X)) == expected
        assert message(REFUSED[name], jnp.asarray(X)) == expected
        assert float(other.sum()) == 15.0


def test_refusing_a_call_runs_nothing(clean):
    with lazynb.lazy():
        x = jnp.asarray(X) * 2
        for name in ("forward mode", "way to multiply", "way to multiply in scan"):
            message(REFUSED[name], x)
        assert x.is_pending and not lazynb.breaks()


def test_an_argument_both_donated_and_used_raises_as_eagerly(clean):
    expected = message(twice, jnp.asarray(X) * 1)
    with lazynb.lazy():
        x = jnp.asarray(X) * 1
        assert message(twice, x) == expected
        y = jnp.asarray(X) * 1
        lazynb.sync(y)
        assert message(twice, y) == expected


def test_supported_dot_algorithms_and_compiler_options_equal_eager():
    assert_same(lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32), X)
    assert_same(
        lambda x: jax.jit(lambda x: x + 1, compiler_options={"xla_embed_ir_in_executable": True})(x), X
    )


numbers = itertools.count()


def primitive(impl=None, abstract=None):
    made = Primitive(f"users{next(numbers)}")
    if impl is not None:
        made.def_impl(impl)
    if abstract is not None:
        made.def_abstract_eval(abstract)
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda: primitive(),
        lambda: primitive(abstract=lambda x: x),
        lambda: primitive(lambda x: x + 1),
        lambda: primitive(
            lambda x: jnp.asarray(np.asarray(x) + 1), lambda x: core.ShapedArray(x.shape, x.dtype)
        ),
        lambda: primitive(functools.partial(jnp.power, 2), lambda x: x),
    ],
)
def test_primitives_without_a_lowering_equal_eager(make):
    mine = make()
    assert_same(lambda x: mine.bind(x * 2) * 3, X)


def test_results_of_a_custom_dtype_run_at_once():
    """Such a type need not have a size of its elements."""
    extended = next(cls for cls in type(jax.random.key(0).dtype).__mro__ if cls.__name__ == "ExtendedDType")

    class Users(extended):
        type = jax.dtypes.extended
        name = "users"

    made = object()
    make = Primitive("make_users_array")
    make.def_impl(lambda x: made)
    make.def_abstract_eval(lambda x: core.ShapedArray((2,), Users()))
    mlir.register_lowering(make, lambda context, x: [x])
    with lazynb.lazy():
        assert make.bind(jnp.ones(2) * 2) is made


# ---- transfers that are guarded ----------------------------------------------------------------------------

MOVING = {
    "number": lambda x: x + 1,
    "new array": lambda x: jnp.ones(3),
    "index": lambda x: float(x[0, 0]),
    "NumPy array": lambda x: x * X,
    "nothing": lambda x: x * x,
    "jitted": lambda x: jax.jit(lambda x: x * 2)(x),
    "device_put": lambda x: jax.device_put(X),
    "seed": lambda x: jax.random.key(jax.device_put(42)),
}


def guarded(name, level):
    def call(x):
        y = x * 3
        with jax.transfer_guard_host_to_device(level):
            return MOVING[name](x), y * y

    return call


@pytest.mark.parametrize("level", ["allow", "disallow", "disallow_explicit"])
@pytest.mark.parametrize("name", MOVING)
def test_a_guarded_transfer_is_refused_at_its_line(name, level):
    assert_same(guarded(name, level), X)


def test_a_trace_recorded_before_a_transfer_guard_may_transfer():
    """Eager JAX moved them when nothing was guarded yet."""
    with lazynb.lazy():
        x = jnp.asarray(X) * 2 + 1
        with jax.transfer_guard("disallow"):
            np.testing.assert_array_equal(np.asarray(x), X * 2 + 1)
        jax.config.update("jax_transfer_guard", "disallow")
        try:
            with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed"):
                x + 1
        finally:
            jax.config.update("jax_transfer_guard", None)
        assert (x + 1).is_pending


EXPORTED = {
    "called": lambda call, x: call(x),
    "in a jitted function": lambda call, x: jax.jit(call)(x) + 1,
    "in a loop": lambda call, x: lax.fori_loop(0, 3, lambda _, y: call(y), x),
}


@pytest.mark.parametrize("how", EXPORTED)
@pytest.mark.parametrize("platforms", [("cpu",), ("cuda",), ("tpu", "cpu")])
def test_calls_of_exported_functions_equal_eager_for_each_platform(platforms, how):
    def program(x):
        found = EXPORTED[how](export.export(jax.jit(jnp.sin), platforms=platforms)(x).call, x)
        return found

    assert_same(program, jnp.asarray(X), raises="cpu" not in platforms)
