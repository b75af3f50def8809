"""Whether two nodes are the same operation."""

from __future__ import annotations

from lazynb.compare.matching import Matching


def same_types(matching: Matching, before: int, now: int) -> bool:
    """Whether two nodes give values of the same types."""
    return matching.before.nodes[before]["avals"] == matching.now.nodes[now]["avals"]


_PRIMITIVES = {
    "absolute": "abs", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "divide": "div",
    "equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "maximum": "max", "minimum": "min", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "power": "pow", "subtract": "sub", "true_divide": "div", "where": "select_n",
}  # fmt: skip
"""Names of jax.numpy, by which an operation on its own is called, and of JAX's primitives, by which it is
called inside of the user's jax.jit."""


def same_operation(matching: Matching, before: int, now: int) -> bool:
    """Whether two nodes are the same operation, with values of the same types. One that JAX makes the same
    HLO of is the same, however it is called."""
    if not same_types(matching, before, now):
        return False
    first, second = matching.before.nodes[before]["name"], matching.now.nodes[now]["name"]
    if _PRIMITIVES.get(first, first) == _PRIMITIVES.get(second, second):
        return True
    old, new = matching.before.lowered.get(before), matching.now.lowered.get(now)
    return old is not None and new is not None and old.work == new.work
