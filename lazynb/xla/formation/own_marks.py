"""The operations that an instruction was made from, where a function is called several times.

JAX lowers a function once for all of its calls, and its instructions are then those of each. XLA makes its
body anew for each call before it resolves them.
"""

from __future__ import annotations

from collections.abc import Collection

from lazynb.xla.hlo.module import Mark, Module
from lazynb.xla.hlo.pass_history import Marks

_NONE: frozenset[Mark] = frozenset()


def own_marks(module: Module, marks: Marks, names: Collection[str]) -> dict[str, frozenset[Mark]]:
    """The operations of each instruction in ``names``. Where XLA made a function's body anew for each of its
    calls, what is in one of them is of that call alone."""
    calls = {one.name: marks.get(one.name, _NONE) for one in module if one.opcode == "call"}
    called = _NONE.union(*calls.values())
    wanted, own = {*names, *calls}, {}
    for computation in reversed(module.computations.values()):  # XLA prints what is called first
        callers = module.all_callers.get(computation.name, ())
        around = _NONE.union(*(calls.get(caller.name, _NONE) for caller in callers))
        for name in computation.instructions.keys() & wanted:
            own[name] = _narrowed(marks.get(name, _NONE), around, called)
            if name in calls:
                calls[name] = own[name]
    return own


def _narrowed(marks: frozenset[Mark], around: frozenset[Mark], called: frozenset[Mark]) -> frozenset[Mark]:
    """Those of ``marks`` that are of the calls ``around`` them, where all are of some that are ``called``."""
    if len(marks) < 2 or not all(_is_of(mark, called) for mark in marks):
        return marks
    return frozenset(mark for mark in marks if _is_of(mark, around)) or marks


def _is_of(mark: Mark, calls: frozenset[Mark]) -> bool:
    """Whether an operation is one of ``calls``, or inside of one."""
    return any(mark[:length] in calls for length in range(1, len(mark) + 1))
