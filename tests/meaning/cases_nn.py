"""Calls of `jax.nn` and `jax.nn.initializers`: function name -> samples."""

# ruff: noqa: E501 (one line a function, however many samples it has)
# fmt: off

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .samples import KEY, RAW_KEY, E, L, R, S, Sample, V, b, f, h, p, unary

NN: dict[str, list[Sample]] = {}


def _all(names: str, samples: list[Sample]) -> None:
    NN.update({name: samples for name in names.split()})


# Complex and boolean arguments are refused by some, and accepted by others through promotion.
_all("celu elu gelu hard_sigmoid hard_silu hard_swish leaky_relu mish relu selu soft_sign softplus squareplus tanh", unary("fibch"))
_all("hard_tanh relu6 sparse_plus", unary("fibch"))
_all("log_sigmoid log1mexp", unary("fich"))
_all("sigmoid silu swish", unary("fch"))
_all("sparse_sigmoid", unary("fibh"))
NN["identity"] = E(*unary("fibch"))
NN["gelu"] = [*NN["gelu"], S(f(3), approximate=False)]
_all("celu elu leaky_relu", [*NN["elu"], S(f(3), 0.3), S(f(2, 3), p(3))])
NN["squareplus"] = [*NN["squareplus"], S(f(3), 1.0)]
_all("softmax log_softmax", [*unary("fich", shapes=((3,), (2, 3), (0, 3))), S(f(2, 3), axis=0), S(f(2, 3), axis=(0, 1)), S(f(2, 3), where=b(2, 3)), R(S(f(2), axis=1))])
_all("logsumexp", [*unary("fibch")[1:], S(f(3), b=f(3), return_sign=True), S(f(2, 3), where=b(2, 3)), R(S(f(2), axis=1))])
_all("logmeanexp", [*unary("fich", refused="", shapes=((3,), (2, 3))), S(f(2, 3), axis=1, keepdims=True), S(f(2, 3), where=b(2, 3))])
_all("standardize", [*unary("fh", refused="", shapes=((3,), (2, 3))), S(f(2, 3), axis=0), S(f(2, 3), mean=0.5, variance=p())])
NN["glu"] = [S(f(4)), S(f(4, 3), axis=0), S(h(2, 4)), R(S(f(3)))]
NN["one_hot"] = E(S(np.array([0, 2, 5, -1]), 3), S(2, 4, dtype=jnp.int32), S(np.array([[0, 1]]), 2, axis=0), S(f(2), 3))
NN["dot_product_attention"] = [
    S(f(3, 2, 4), f(3, 2, 4, salt=1), f(3, 2, 4, salt=2), is_causal=True, scale=0.5),
    S(f(2, 3, 2, 4), f(2, 3, 1, 4), f(2, 3, 1, 4), mask=b(2, 2, 3, 3), bias=f(2, 2, 3, 3)),
    S(f(1, 3, 2, 4), f(1, 3, 2, 4), f(1, 3, 2, 4), local_window_size=1, query_seq_lengths=np.array([2]), key_value_seq_lengths=np.array([2])),
    R(S(f(2, 3, 4), f(3, 2, 4), f(3, 2))),
]

NN_NOT_ARRAY_FUNCTIONS = {
    "get_scaled_dot_general_config": "makes a configuration; needs an NVIDIA GPU with block scaling",
    "scaled_dot_general": "needs an NVIDIA GPU with block scaling",
    "scaled_matmul": "needs an NVIDIA GPU with block scaling",
}

for _name in ("swish", "hard_swish"):  # second names of silu and hard_silu
    NN[_name] = NN[_name][:2]

# ---- initializers: fn(...) makes one, which takes a key and a shape

INITIALIZERS: dict[str, list[Sample]] = {
    name: [
        V(lambda make, key: make(in_axis=0, out_axis=1)(key, (3, 4)), KEY),
        R(V(lambda make, key: make()(key, (3,)), KEY)),
    ]
    for name in (
        "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal lecun_uniform xavier_normal"
        " xavier_uniform"
    ).split()
}
INITIALIZERS["glorot_normal"].append(V(lambda make, key: make()(key, (2, 3, 4), jnp.bfloat16), RAW_KEY))
INITIALIZERS |= {
    "constant": E(V(lambda make, key: make(2.5)(key, (2, 3)), KEY), V(lambda make, key, x: make(x)(key, (2, 3)), KEY, f(3))),
    "normal": [V(lambda make, key: make()(key, (3,)), KEY), V(lambda make, key: make(2.0)(key, (3,), jnp.complex64), KEY)],
    "uniform": [V(lambda make, key: make()(key, (3,)), KEY), V(lambda make, key: make(2.0)(key, (0, 3)), KEY)],
    "truncated_normal": [V(lambda make, key: make(lower=-1.0, upper=0.5)(key, (3,)), KEY)],
    "variance_scaling": [
        V(lambda make, key, mode=mode, dist=dist: make(2.0, mode, dist)(key, (3, 4)), KEY)
        for mode, dist in [("fan_in", "normal"), ("fan_out", "uniform"), ("fan_avg", "truncated_normal"), ("fan_geo_avg", "normal")]
    ]
    + [R(V(lambda make, key: make(1.0, "no", "normal")(key, (3, 4)), KEY))],
    # A QR factorisation of values that differ in the last bits.
    "orthogonal": L(10, V(lambda make, key: make()(key, (3, 4)), KEY), V(lambda make, key: make(2.0, 0)(key, (2, 3, 2)), KEY)),
    "delta_orthogonal": L(10, V(lambda make, key: make()(key, (3, 2, 4)), KEY), R(V(lambda make, key: make()(key, (3, 4, 2)), KEY))),
    "zeros": E(S(KEY, (2, 3)), S(KEY, (), jnp.int32)),
    "ones": E(S(KEY, (2, 3)), S(KEY, (), jnp.bfloat16)),
}
# xavier is glorot, kaiming is he
for _name in list(INITIALIZERS):
    if _name.startswith(("xavier", "kaiming")):
        INITIALIZERS[_name] = INITIALIZERS[_name][:1]
INITIALIZERS_NOT_ARRAY_FUNCTIONS = {"Initializer": "a protocol class"}
