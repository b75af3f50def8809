"""Calls of `jax.random`: function name -> samples. Integers, keys and bits are the same bit for bit, floats within tolerance."""

# ruff: noqa: E501 (one line a function, however many samples it has)
# fmt: off

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .samples import KEY, KEYS, RAW_KEY, E, L, R, S, Sample, V, f, i, p, spd

RANDOM: dict[str, list[Sample]] = {}


def _all(names: str, samples: list[Sample]) -> None:
    RANDOM.update({name: samples for name in names.split()})


# ---- keys

_all("key PRNGKey", E(S(3), S(i()), S(np.uint32(5)), S(-1), S(3, impl="rbg"), S(3, impl="unsafe_rbg"), R(S(f())), R(S(3, impl="no"))))
RANDOM["Key"] = RANDOM["key"][:2]
RANDOM["split"] = E(S(KEY), S(KEY, 3), S(RAW_KEY), S(KEY, (2, 2)), R(S(f(2))), R(S(KEYS)))
RANDOM["fold_in"] = E(S(KEY, 3), S(RAW_KEY, i()), S(KEY, np.uint32(4)), S(KEY, 1.5))
RANDOM["clone"] = E(S(KEY), S(RAW_KEY), S(KEYS))
RANDOM["key_data"] = E(S(KEY), S(KEYS), S(RAW_KEY))
RANDOM["wrap_key_data"] = E(S(np.array([1, 2], np.uint32)), S(np.ones((3, 2), np.uint32)), S(np.ones(4, np.uint32), impl="rbg"), R(S(f(2))))
RANDOM["key_impl"] = [S(KEY), S(RAW_KEY), R(S(f(2)))]
RANDOM["bits"] = E(S(KEY), S(KEY, (3,)), S(RAW_KEY, (2, 3), jnp.uint8), S(KEY, (2,), jnp.uint16), R(S(KEY, (2,), jnp.float32)))

# ---- distributions of a key and a shape

_all(
    "cauchy double_sided_maxwell exponential gumbel laplace logistic maxwell normal uniform",
    [S(RAW_KEY, (2, 3)), S(KEY, dtype=jnp.bfloat16), R(S(KEYS)), R(S(KEY, (2,), jnp.int32))],
)
RANDOM["double_sided_maxwell"] = [S(KEY, f(3), p(3), (2, 3))]
RANDOM["normal"] = [*RANDOM["normal"], S(KEY, (0, 3)), S(KEY, (2,), jnp.complex64)]
RANDOM["gumbel"] = [*RANDOM["gumbel"], S(KEY, (3,), mode="high")]
RANDOM["uniform"] = [*RANDOM["uniform"], S(KEY, (2, 3), minval=f(3))]
RANDOM["rademacher"] = E(S(KEY), S(KEY, (3,)), S(KEY, (2,), jnp.float32))
RANDOM["randint"] = E(S(KEY, (3,), 0, 10), S(KEY, (2, 3), i(3), 9), S(KEY, (3,), 0, 300, jnp.uint8), S(KEY, (), 3, 3), S(KEY, (2,), 0.0, 1.0), R(S(KEY, (2,), 0, 5, jnp.float32)))
RANDOM["bernoulli"] = [S(KEY), S(KEY, p(3), (2, 3)), S(KEY, 0.5, mode="high"), R(S(KEY, i(2)))]

# ---- distributions with parameters

_all("pareto rayleigh wald", [S(RAW_KEY, p(3) + 1, (2, 3))])
# Rejection samplers take seconds to compile: few samples.
_all("chisquare t loggamma", [S(KEY, p(3) + 1)])
_all("gamma poisson", [S(RAW_KEY, p(3) + 1, (2, 3))])
RANDOM["geometric"] = E(S(KEY, p(3), (2, 3)), S(KEY, 0.5, (2,), jnp.int8))
RANDOM["poisson"] = [*RANDOM["poisson"], R(S(KEY, 2.0, dtype=jnp.float32))]
RANDOM["gamma"] = [*RANDOM["gamma"], R(S(KEY, 1.0, dtype=jnp.int32))]
_all("beta f", [S(KEY, p(3), p(3, salt=1))])
RANDOM["binomial"] = E(S(KEY, np.array([5.0, 50.0, 9.0]), p(3)))
RANDOM["multinomial"] = E(S(KEY, 9.0, np.array([0.2, 0.3, 0.5])))
RANDOM["dirichlet"] = [S(KEY, p(2, 3)), R(S(KEY, 1.0))]
RANDOM["lognormal"] = [S(KEY, p(3))]
RANDOM["weibull_min"] = [S(KEY, p(3), p(3), (3,))]
RANDOM["triangular"] = [S(KEY, 0.0, p(3), 1.0, (2, 3))]
RANDOM["truncated_normal"] = [S(KEY, f(3) - 2, f(3) + 2), S(KEY, -1.0, 2.0, (2,), jnp.bfloat16), R(S(KEY, 0, 1, dtype=jnp.int32))]
RANDOM["generalized_normal"] = [S(KEY, 2.0, (3,))]
RANDOM["ball"] = [S(KEY, 2, 1.5, (3,))]
# Factorisations of values that differ in the last bits.
RANDOM["orthogonal"] = L(10, S(KEY, 3, (2,)))
RANDOM["multivariate_normal"] = L(10, S(KEY, f(3), spd(3)), S(KEY, f(3), spd(3), (2,), method="svd"), R(S(KEY, f(2), spd(3))))

# ---- choosing

RANDOM["categorical"] = E(S(KEY, f(2, 3), axis=0), S(KEY, f(3), shape=(4,)), S(KEY, f(5), shape=(3,), replace=False), R(S(KEY, f(2, 3), shape=(3,))))
RANDOM["choice"] = E(S(KEY, f(5), (3,), replace=False), S(KEY, f(3), (2,), p=np.array([0.2, 0.3, 0.5])), S(KEY, 4, (3,), False, p(4)), S(KEY, f(2, 3), (2,), axis=1), R(S(KEY, 3, (4,), replace=False)), R(S(KEY, 0)))
RANDOM["permutation"] = E(S(KEY, 5), S(KEY, f(5)), S(KEY, f(2, 3), axis=1, independent=True), S(RAW_KEY, i(4)), R(S(KEY, 1.5)))
RANDOM["key_dtype"] = [S("rbg"), V(lambda kd: jax.eval_shape(lambda: jax.random.key(0)).dtype == kd("threefry2x32"))]

RANDOM_NOT_ARRAY_FUNCTIONS: dict[str, str] = {}
