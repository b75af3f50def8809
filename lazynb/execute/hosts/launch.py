"""What is agreed on: a pending trace that is about to run, and an operation that runs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.execute.executable import Binding, ExecutableCache
from lazynb.execute.hosts.agreement import Group, group_of
from lazynb.execute.hosts.proposal import Proposal, Recorded, line_of
from lazynb.execute.request import Request
from lazynb.record.fingerprint import fingerprint, of_call, of_request, rolling
from lazynb.record.operation import operation_name
from lazynb.record.pending import Pending
from lazynb.record.trie import State
from lazynb.source import Spot, here


def agree(
    group: Group,
    request: Request,
    binding: Binding | None,
    executables: ExecutableCache,
    kind: str,
    spot: Spot,
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Agrees with the other hosts to run ``request``.

    Arguments:
      binding: the program for it, if there is one.

    Returns: None if they run the same; or the results and the donated inputs of the program that all of them
      shall run in its place.

    Raises:
      HostsError: they do not agree.
    """
    program, part = _program(request, binding, executables)
    try:
        settled = group.agree(program, lambda: _described(request, program, kind, spot), request.pending)
    except BaseException:
        if part is not None:
            executables.trie.prune(part)
        raise
    return None if settled is None else (settled.wanted, settled.donated)


def _program(
    request: Request, binding: Binding | None, executables: ExecutableCache
) -> tuple[bytes, State | None]:
    """The fingerprint of what runs; and the end of its trace, if that is in the trie for this only."""
    if binding is not None:
        return binding.executable.fingerprint, None
    state, wanted, _, donated = executables.part(request)
    return of_request(state, wanted, donated), state


def _described(
    request: Request, program: bytes, kind: str, spot: Spot
) -> tuple[Proposal, Callable[[], Recorded]]:
    state = request.state
    proposal = Proposal(
        program.hex(),
        fingerprint(state).hex(),
        request.wanted,
        tuple(request.donated or ()),
        state.operations,
        kind,
        line_of(spot),
    )
    return proposal, lambda: _recorded(request.pending)


def _recorded(pending: Pending) -> Recorded:
    """The steps of a pending trace, in words."""
    path = pending.state.path()
    steps, used = [], ""
    for step, origin in zip(reversed(path), reversed(pending.origins()), strict=True):
        if step.operation is None:
            steps.append(f"{_input(step)}{f', for {used}' if used else ''}")
        else:
            place = origin.place if origin is not None else None
            where = "" if place is None else f" at {place.label}: {place.text}".rstrip(": ")
            steps.append(f"{step.operation.name}{_types(step.avals)}{where}")
            used = f"{step.operation.name}{where}"
    steps.reverse()
    return Recorded([each.hex()[:16] for each in rolling(pending.state)], steps)


def _input(step: State) -> str:
    """An input in words."""
    if step.constant is not None:
        return f"the number {step.constant.value}, which is written in the code"
    if step.is_host_scalar:
        return f"a number from a variable, {step.avals[0].str_short()}"
    key = step.key
    sharding = key[1] if isinstance(key, tuple) and len(key) > 1 else None
    spec = getattr(sharding, "spec", None)
    return f"an input {step.avals[0].str_short()}{f', sharded as {spec}' if spec is not None else ''}"


def _types(avals: Sequence[Any]) -> str:
    shown = ", ".join(aval.str_short() for aval in avals[:3])
    return f" ({shown}{', …' if len(avals) > 3 else ''})"


def agree_on_call(primitive: Any, values: Sequence[Any], params: dict[str, Any]) -> None:
    """Agrees with the other hosts on an operation that is about to run at once on arrays of several hosts.

    Raises:
      HostsError: they do not agree.
    """
    for value in values:
        if isinstance(value, jax.Array) and not value.is_deleted():
            group = group_of(jc.device_assignment(value.sharding))
            if group is not None:
                break
    else:
        return
    avals = tuple([jc.typeof(value) for value in values])
    program = of_call(primitive, params, avals)
    name, spot = operation_name(primitive, params), here(2)

    def described() -> tuple[Proposal, Callable[[], Recorded]]:
        text, line = program.hex(), line_of(spot)
        step = f"{name}{_types(avals)} at {line}"
        return Proposal(text, text, (), (), 1, "at once", line), lambda: Recorded([text], [step])

    group.agree(program, described)
