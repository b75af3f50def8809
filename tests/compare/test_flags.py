"""``lazynb.compile(f, ..., flags=..., without=...)``, and what a comparison says of flags."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.errors import LazynbError
from lazynb.xla.flags import BadFlag, asked, compiled_with, parse_flags, written

pytestmark = pytest.mark.xdist_group("compare flags")
TYPE = jax.ShapeDtypeStruct((64, 32), jnp.float32)
UNFUSED = {"xla_disable_hlo_passes": "fusion"}


def chain(x):
    return jnp.exp(x * 2) + x


@functools.cache
def plain():
    return lazynb.compile(chain, TYPE)


@functools.cache
def unfused():
    return lazynb.compile(chain, TYPE, flags=UNFUSED)


@pytest.mark.parametrize(
    "given",
    [
        {"xla_a": True, "xla_b": 3, "xla_c": "x,y"},
        {"--xla_a": "true", "xla_b": "3", "xla_c": "x,y"},
        ["--xla_a=True", "xla_b=3", "xla_c=x,y"],
        ("xla_a=true", "xla_b=3", "xla_c=x,y"),
        "--xla_a=true  --xla_b=3 --xla_c=x,y",
    ],
)
def test_the_forms_of_flags(given):
    flags = parse_flags(given)
    assert flags == {"xla_a": True, "xla_b": "3", "xla_c": "x,y"}
    assert parse_flags(written(flags)) == flags


@pytest.mark.parametrize(
    "flags, without, words",
    [
        ("xla_cpu_enable_fast_math", None, "write its name and value, such as xla_cpu_enable_fast_math=true"),
        (["a b=1"], None, "'a b' is no name of a flag"),
        ([3], None, "3 is no flag"),
        ({3: 4}, None, "3 is no name of a flag"),
        (3, None, "flags are a dictionary or a list"),
        ({"xla_a": None}, None, "None is no value for xla_a: write true, false, a number or a text"),
        ({"xla_a": [1]}, None, "is no value for xla_a"),
        (None, 3, "without takes names of libraries, such as 'YNNPACK', not 3"),
        (None, ["YNNPACK", 3], "without takes names of libraries"),
        (None, "cuDNN", "in place of cuDNN: lazynb knows it of YNNPACK"),
        (None, "YNNPACK,", "in place of nothing: lazynb knows it of YNNPACK"),
    ],
)
def test_what_cannot_be_meant(flags, without, words):
    with pytest.raises(BadFlag) as raised:
        asked(flags, without)
    assert words in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"xla_cpu_nonsense": 1}, "No such compile option: 'xla_cpu_nonsense' (XLA_FLAGS=--help"),
        ({"xla_cpu_enable_fast_math": 1}, "'1' is not a valid bool value: write true or false"),
        ("xla_backend_optimization_level=high", "'high' is not a valid int32 value"),
        ({"xla_cpu_experimental_ynn_fusion_type": "all of it"}, "not a valid enum value (XLA_FLAGS=--help"),
    ],
)
def test_what_xla_refuses(flags, words):
    with pytest.raises(LazynbError) as raised:
        lazynb.compile(chain, TYPE, flags=flags)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_a_function_with_flags():
    made = unfused()
    assert made.flags == UNFUSED and not made.is_run
    assert len(made.clusters) > len(plain().clusters) == 1
    assert "to be looked at: what runs is the program without" in repr(made.notes)


def test_numbers_are_given_as_numbers():
    made = lazynb.compile(chain, TYPE, flags={"xla_backend_optimization_level": 0, "xla_cpu_ftz": False})
    assert written(made.flags) == "xla_backend_optimization_level=0 xla_cpu_ftz=false"


def test_tensors_and_what_jit_compiles():
    with lazynb.lazy():
        y = chain(jnp.ones(TYPE.shape))
        made = lazynb.compile(y, flags=UNFUSED)
        assert made.flags and y._pending is not None
    jitted = lazynb.compile(chain, TYPE, as_jit=True, flags=UNFUSED)
    assert jitted.form is not None and len(jitted.clusters) > 1
    assert "to be looked at: nothing runs it" in jitted.notes[0]
    del y
    lazynb.sync()
    assert not lazynb.compile(flags=UNFUSED).traces


def test_a_flag_of_the_function_is_the_compilers():
    """As its target, mesh and shard are; a function that has one of its own takes it in a lambda."""
    with pytest.raises(BadFlag):
        lazynb.compile(lambda x, flags: x, TYPE, flags=3)


def test_without_a_library():
    def product(x):
        return x @ x + 1

    square = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    made = lazynb.compile(product, square, without="ynnpack", flags=["xla_cpu_ftz=true"])
    assert made.flags == {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_ftz": True}
    assert not any(cluster.library for cluster in made.clusters)
    assert any(cluster.library for cluster in lazynb.compile(product, square).clusters)


def test_where_flags_mean_nothing():
    with pytest.raises(BadFlag, match="leave the target out"):
        lazynb.compile(chain, TYPE, target="v5e", flags=UNFUSED)
    with pytest.raises(BadFlag, match=r"compile\(compiler_options="):
        lazynb.compile(jax.jit(chain).lower(TYPE), flags=UNFUSED)
    with pytest.raises(TypeError, match="only with a function"):
        lazynb.inspect(plain(), flags=UNFUSED)


def test_a_pass_that_does_not_run_is_told():
    """XLA takes any name; an experiment without an effect is no evidence."""
    made = compiled_with(plain(), {"xla_disable_hlo_passes": "fusion,fusoin"})
    idle = [note for note in made.notes if "changes nothing" in note]
    assert idle == ["XLA runs no pass `fusoin` on this program, so disabling it changes nothing."]
