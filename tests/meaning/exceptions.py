"""The honest differences between lazy and eager: where a test is left out, and why. Fewer than ten."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Why it is there, and the calls that show it, as the oracle writes them:
    'jax.numpy.argmax(complex64[3])'."""

    reason: str
    calls: tuple[str, ...]


EXCEPTIONS: tuple[Difference, ...] = (
    Difference(
        "NumPy's functions on a pending value give a pending tensor, where eagerly they run and give NumPy's "
        "array",
        ("python.ufunc(float32[3])",),
    ),
    Difference(
        "an error that JAX finds only when it lowers an operation comes when the trace runs, with a note "
        "that names the line",
        (
            *(f"jax.numpy.{name}(complex64[3])" for name in ("argmax", "argmin", "nanargmax", "nanargmin")),
            "jax.lax.cumlogsumexp(int32[3])",
        ),
    ),
    Difference(
        "outside shard_map JAX says of an unbound axis name to call the function there, when it is being "
        "recorded",
        ("jax.lax.psum(float32[3], 'no')", "jax.lax.pmean(float32[3], 'no')"),
    ),
    Difference(
        "NumPy asks a lazy tensor the same whether C code (map, reduce) does an operator or calls the "
        "array's method behind it, "
        "which eagerly says NotImplemented; nor does it say of a ufunc in a local variable that another "
        "operand answered it",
        (
            "list(map(N32.__add__, [x]))[0] is NotImplemented",
            "[f(one, x) for f in [np.add] for one in (Answers(), N64)]",
        ),
    ),
    Difference(
        "an operator that C code does asks an array with its own __array_ufunc__ before the lazy tensor, "
        "whatever its priority",
        ("next(map(operator.add, [N32.view(Doubles)], [x]))",),
    ),
)


def is_exception(call: str) -> bool:
    return any(call in difference.calls for difference in EXCEPTIONS)
