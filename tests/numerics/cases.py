"""Functions with the truth beside them: where their compiled values part from eager ones on XLA:CPU, and why.

The truth was found without lazynb: ``f(*args)`` against ``jax.jit(f)(*args)``, the optimised HLO, and compiling
with ``xla_disable_hlo_passes`` or ``xla_allow_excess_precision`` set. JAX 0.10.2 simplifies more than 0.12: of
the rules of algebra that do not hold for rounded numbers 0.12 has fewer left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

OLD = jax.__version_info__ < (0, 11)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A function.

    Attributes:
      first: the operation that parts first; empty if none does.
      cause: the code of the cause; empty if nothing differs by more than four ULPs.
      born: the operations that make NaN and Inf, with the kind and where: ``both``, ``eager``, ``compiled``.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    first: str = ""
    cause: str = ""
    born: tuple[tuple[str, str, str], ...] = ()


def issue_38096(x):
    """jax-ml/jax#38096: x * x overflows in float16. 0.10 computes abs(x) for sqrt(x * x)."""
    return jnp.sqrt(x * x) / x


def log_of_exp(x):
    return jnp.log(jnp.exp(x))


def softmax_without_maximum(x):
    e = jnp.exp(x)
    return e / e.sum()


def softmax(x):
    e = jnp.exp(x - x.max())
    return e / e.sum()


def kahan(x):
    """Compensated summation. XLA keeps (t - s) - y as it is."""
    s = c = jnp.float32(0)
    for number in range(5):
        y = x[number] - c
        t = s + y
        c = (t - s) - y
        s = t
    return s


def kahan_loop(x):
    def body(carry, value):
        s, c = carry
        y = value - c
        t = s + y
        return (t, (t - s) - y), None

    return jax.lax.scan(body, (jnp.float32(0), jnp.float32(0)), x)[0][0]


def layer_norm(x):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + jnp.bfloat16(1e-5))


def product_of_exponentials(x):
    return jnp.exp(x) * jnp.exp(-x)


def two_divisions(x, y):
    return (x / y) / y


def two_constants(x):
    return (x * jnp.float32(1e30)) * jnp.float32(1e-30)


def multiply_add(x, y, z):
    return x * y + z


def square_in_float32(x):
    """The product is rounded to bfloat16 eagerly, and not on the way to float32 when compiled."""
    return (x * x).astype(jnp.float32)


def square_and_back(x):
    """The same, and rounded in the end."""
    return (x * x) - (x * x).astype(jnp.float32).astype(jnp.bfloat16)


def there_and_back(x):
    """An explicit rounding. XLA:CPU keeps it."""
    return x.astype(jnp.bfloat16).astype(jnp.float32)


def masked_logarithm(x):
    return jnp.where(x > 0, jnp.log(x), 0.0)


def mean(x):
    return jnp.mean(x)


_random = np.random.default_rng(0)
_normal = [jnp.asarray(_random.normal(size=1000), jnp.float32) for _ in range(3)]
_wide = jnp.array([0.01, 0.1, 1, 3, 5.3, 100], jnp.float32)
_bf16 = jnp.asarray(10 + 3 * _random.normal(size=(4, 64)), jnp.bfloat16)
_exp_inf, _mul_inf = ("exp", "Inf", "both"), ("mul", "Inf", "both")

CASES = [
    Case(
        issue_38096,
        (jnp.float16(300),),
        first="sqrt" if OLD else "",
        cause="algebra" if OLD else "",
        born=(_mul_inf,),
    ),
    Case(
        jax.grad(lambda x: jnp.sqrt(x * x)),
        (jnp.float16(300),),
        first="sqrt" if OLD else "",
        cause="algebra" if OLD else "",
        born=(_mul_inf,),
    ),
    # eager: rounded to bfloat16 between the two, and XLA:CPU keeps that rounding
    Case(log_of_exp, (_wide.astype(jnp.bfloat16),), born=(_exp_inf,)),
    # 0.10 computes x for log(exp(x)): the last element is 100 and not Inf
    Case(log_of_exp, (_wide,), first="log" if OLD else "", cause="algebra" if OLD else "", born=(_exp_inf,)),
    Case(
        softmax_without_maximum,
        (jnp.array([1.0, 2.0, 1000.0]),),
        born=(_exp_inf, ("div", "NaN", "both")),
    ),
    Case(softmax, (jnp.array([1.0, 2.0, 1000.0]),)),
    Case(kahan, (jnp.array([1e8, 1.25, -1e8, 3.1, 1e-3], jnp.float32),)),
    Case(kahan_loop, (_normal[0],)),
    Case(layer_norm, (_bf16,)),
    # 0.10 computes exp(x - x) for exp(x) * exp(-x)
    Case(
        product_of_exponentials,
        (jnp.float32(100),),
        first="mul" if OLD else "",
        cause="algebra" if OLD else "",
        born=(_exp_inf, ("mul", "NaN", "eager" if OLD else "both")),
    ),
    # both compute x / (y * y), whose denominator is 0 in float32
    Case(
        two_divisions,
        (jnp.float32(1e-30), jnp.float32(1e-25)),
        first="div",
        cause="algebra",
        born=(("div", "Inf", "compiled"),),
    ),
    # 0.10 multiplies the constants first
    Case(
        two_constants,
        (jnp.float32(1e10),),
        first="mul" if OLD else "",
        cause="algebra" if OLD else "",
        born=(_mul_inf,),
    ),
    # LLVM makes one instruction of the two, which does not round the product: rounding, however many ULPs
    # that is of a sum that cancels
    Case(multiply_add, tuple(_normal), cause="fma"),
    Case(square_in_float32, (jnp.bfloat16(0.1),), first="convert_element_type", cause="precision"),
    Case(square_and_back, (jnp.bfloat16(0.1),)),
    Case(there_and_back, (_wide,)),
    Case(
        masked_logarithm,
        (jnp.array([0.0, 1.0, -1.0]),),
        born=(("log", "NaN", "both"), ("log", "Inf", "both")),
    ),
    Case(mean, (jnp.asarray(_random.uniform(size=10**6), jnp.float32),)),
]


def title(case: Case) -> str:
    """The name of a case."""
    return f"{case.function.__name__}-{case.arguments[0].dtype}"
