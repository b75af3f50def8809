"""A lazy program gives bit for bit what ``jax.jit`` of the same program gives, over the samples of every public
function; and it is near to what eager JAX gives, within bounds that docs/guide/limits.md states."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiers
from oracle import Call

import lazynb

from . import bits
from .bits_bounds import BOUNDS, NOT_UNDER_JIT, REFUSED, bound_of
from .samples import f, h
from .test_namespaces import TABLES, some


def _functions():
    """Functions with the samples of them that work: every fourth, and all of them in `make full`."""
    number = 0
    for title, (namespace, cases, _) in TABLES.items():
        for name, samples in cases.items():
            working = [sample for sample in samples if not sample.raises]
            full = f"{title}.{name}"
            if not hasattr(namespace, name) or not working:
                continue
            number += 1
            if tiers.FULL or number % 4 == 0:
                yield pytest.param(full, getattr(namespace, name), working, id=full)


@pytest.mark.parametrize("title, fn, samples", list(_functions()))
@pytest.mark.filterwarnings("ignore")
def test_each_public_function_has_the_bits_of_jit(title, fn, samples):
    for sample in some(samples):
        call = sample.call(fn)
        lazynb.clear_cache()  # where an earlier call had another number of JAX's own, this one is an input
        lazy = bits.lazily(call)
        assert _is_jits(title, call, lazy), f"{call}: other bits than under jax.jit"
        for one, other in zip(bits.eagerly(call), lazy, strict=True):
            apart = bits.ulps(one, other)
            bound = bound_of(one.dtype, sample.exact, sample.loose)
            assert apart <= bound, f"{call}: {apart:.3g} ULPs from eager"


def _is_jits(title, call, lazy):
    """Whether ``lazy`` is what ``jax.jit`` gives. Numbers are inputs of a lazy program, unless JAX takes them as
    constants."""
    reasons = []
    for is_argument in (bits.is_number, bits.is_array):
        try:
            if bits.same_bits(lazy, bits.under_jit(call, is_argument)):
                return True
        except bits.NoProgram as refusal:
            reasons.append(refusal.__cause__)
    if len(reasons) == 2:
        return title in REFUSED or isinstance(reasons[-1], tuple(NOT_UNDER_JIT))
    return False


# ---- programs of several operations ------------------------------------------------------------------------


def _normalised(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w) - y) ** 2)


PROGRAMS = {
    "softmax": (jax.nn.softmax, [f(8, 64)]),
    "log softmax": (jax.nn.log_softmax, [f(8, 64)]),
    "layer norm": (_normalised, [f(8, 64)]),
    "layer": (lambda x, w, b: jax.nn.gelu(x @ w + b), [f(32, 64), f(64, 16), f(16)]),
    "attention": (
        lambda q, k, v: jax.nn.softmax(q @ k.T / 8.0) @ v,
        [f(16, 64), f(16, 64, salt=1), f(16, 8)],
    ),
    "loss": (_loss, [f(64, 16), f(32, 64), f(32, 16)]),
    "gradient": (jax.grad(_loss), [f(64, 16), f(32, 64), f(32, 16)]),
    "value and gradient": (jax.value_and_grad(_loss), [f(64, 16), f(32, 64), f(32, 16)]),
    "step": (lambda w, x, y: w - 0.1 * jax.grad(_loss)(w, x, y), [f(64, 16), f(32, 64), f(32, 16)]),
    "mapped": (jax.vmap(lambda a: jnp.sort(a) * a.sum()), [f(8, 32)]),
    "scan": (lambda x: jax.lax.scan(lambda c, r: (jnp.sin(c) + r, c * r), x[0], x), [f(20, 30)]),
    "long sum": (lambda x: (x * x).sum() + jnp.exp(-x).mean(), [f(5000)]),
    "multiply and add": (lambda x, y: x * y + x - y * y, [f(1000), f(1000, salt=1)]),
    "powers": (lambda x: (x**2 + x**3) / (1 + x**4), [f(1000)]),
    "half": (lambda x: jax.nn.softmax(x * x - x), [h(8, 64)]),
    "half, a sum": (lambda x: (x * 3 + 1).sum(-1), [h(8, 64)]),
    # values that leave the range of their dtype between operations (jax-ml/jax#38096)
    "overflow": (lambda x: jnp.sqrt(x * x) / x, [np.float16([300.0, 1.0, 60000.0])]),
    "overflow, bfloat16": (lambda x: jnp.sqrt(x * x) / x, [np.full(5, 3e38).astype(jnp.bfloat16)]),
    "overflow of a sum": (lambda x: (x + x) - x, [np.full(5, 3e38).astype(jnp.bfloat16)]),
    "overflow of a product": (lambda x, n: (x * n) / n, [np.float16([300.0, 1.0]), 4096]),
    "overflow of a power": (lambda x: jnp.exp(x) * jnp.exp(-x), [np.float16([12.0, 1.0, -12.0])]),
    "underflow": (lambda x: (x * x) * (1 / x), [np.float16([1e-4, 1e-5, 1.0])]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_has_the_bits_of_jit(name):
    fn, arguments = PROGRAMS[name]
    call = Call(fn, tuple(arguments))
    assert bits.same_bits(bits.lazily(call), bits.under_jit(call, bits.is_number))


def test_eager_overflows_where_fusion_does_not():
    """jax-ml/jax#38096: a fused intermediate result has the range of float32. Not every release fuses so."""
    fn, arguments = PROGRAMS["overflow"]
    call = Call(fn, tuple(arguments))
    [eager], [lazy], [jit] = bits.eagerly(call), bits.lazily(call), bits.under_jit(call, bits.is_array)
    assert np.isinf(eager[0])
    assert lazy[0] == jit[0] and (lazy[0] == 1.0 or np.isinf(lazy[0]))


def test_numbers_in_the_code_are_constants_and_those_in_variables_arguments(clean):
    """XLA may simplify with constants: a number in the code has other bits than the same one in a variable."""
    x = np.float16([300.0])
    written = Call(lambda x: (x * 4096) / 4096, (x,))
    taken = Call(lambda x, n: (x * n) / n, (x, 4096))
    [constant] = bits.lazily(written)
    lazynb.clear_cache()  # a constant's step is for whoever brings its value
    [argument] = bits.lazily(taken)
    assert bits.same_bits([constant], bits.under_jit(written, bits.is_array))
    assert bits.same_bits([argument], bits.under_jit(taken, bits.is_number)) and np.isinf(argument[0])
    newer = jax.__version_info__ >= (0, 11)  # whose XLA does not simplify this
    assert constant[0] == (np.inf if newer else 300)


# ---- the comparison itself, and what is stated -------------------------------------------------------------


def test_the_comparison_detects_one_differing_bit():
    one = np.float32([1.0, np.nan])
    assert bits.same_bits([one], [np.float32([1.0, -np.nan])])
    assert not bits.same_bits([one], [np.nextafter(one, np.float32(2))])
    assert not bits.same_bits([np.float32([0.0])], [np.float32([-0.0])])
    assert not bits.same_bits([np.float32([1])], [np.float64([1])])
    assert bits.ulps(np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2))) == 1.0
    assert bits.ulps(np.float32([np.inf]), np.float32([1.0])) == np.inf
    assert bits.ulps(np.int32([1]), np.int32([2])) == np.inf


def test_the_exception_tables_name_existing_functions_with_reasons():
    names = {f"{title}.{name}" for title, (_, cases, _) in TABLES.items() for name in cases}
    assert set(REFUSED) <= names
    assert all(NOT_UNDER_JIT.values())


def test_the_guide_states_these_bounds():
    text = (Path(__file__).parents[2] / "docs" / "guide" / "limits.md").read_text()
    stated = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", text, re.M)
    assert [(kind, f"{ulps:,}") for kind, ulps in BOUNDS.items()] == stated


def test_a_number_written_in_jax_code_is_a_constant(clean):
    """JAX's code for ``random_gamma_grad`` computes ``digamma(a + 1)``: with the number as an argument its bits
    are others on JAX 0.10."""
    values = np.random.default_rng(0).uniform(0.1, 0.9, 300).astype(np.float32)
    written = Call(lambda a: jax.lax.digamma(a + 1), (values,))
    assert bits.same_bits(bits.lazily(written), bits.under_jit(written, bits.is_array))
    taken = Call(lambda a, n: jax.lax.digamma(a + n), (values, 1.0))
    lazynb.clear_cache()
    argument = bits.lazily(taken)
    assert bits.same_bits(argument, bits.under_jit(taken, bits.is_number))
    if jax.__version_info__ < (0, 11):
        assert not bits.same_bits(argument, bits.under_jit(taken, bits.is_array))
