"""How values lie, as a person says it of some programs: by the text of the line, its value and its spec."""

from __future__ import annotations

SPECS = {
    "contracted": [("", "a", "P(None, 'x')"), ("b = ", "multiply", "P(None, 'x')"), ("b @ w", "matmul", "P(None, None)")],
    "summa": [("", "a", "P('data', 'model')"), ("", "w", "P('model', 'data')"), ("a @ w", "matmul", "P('data', None)")],
    "megatron": [
        ("", "w1", "P(None, 'model')"),
        ("x @ w1", "tanh", "P('data', 'model')"),
        ("h @ w2", "matmul", "P('data', None)"),
    ],
    "rows_summed": [("sin", "sin", "P('data', 'model')"), ("y.sum", "reduce_sum", "P('data')")],
    "moved_then_read": [("sin", "sin", "P('x', None)"), ("z @ w", "matmul", "P('x', None)")],
    "resharded_over": [("sin", "sin", "P('data', 'model')"), ("reshard", "reshard", "P('model', 'data')")],
    "layers_scanned": [("tanh", "tanh", "P('data', 'model')"), ("tanh", "dot_general", "P('data', 'model')")],
    "mapped_psum": [("return f(x)", "shard_map", "P('data', None)")],
}  # fmt: skip
CHANGES = {
    "moved_then_read": [("sin", "P(None, 'x')")],
    "resharded_over": [("reshard", "P('data', 'model')")],
    "put_elsewhere": [("sin", "P('x', None)")],
    "attention": [],
    "plus_transposed": [],
    "contracted": [],
}
"""Values whose sharding changes where they are made, and what it was."""


def wrong(name, found):
    """What is wrong in what is said of how the values of a program lie."""
    for text, value, spec in SPECS.get(name, ()):
        if not any(one.value == value and one.spec == spec and _is_at(one, text) for one in found):
            yield f"`{value}` does not lie as {spec}"
    changed = [(one.value, one.before) for one in found if one.before]
    if name in CHANGES and changed != CHANGES[name]:
        yield f"changes {changed}, not {CHANGES[name]}"


def _is_at(one, text):
    return not text if one.place is None else text in (one.place.text or "")
