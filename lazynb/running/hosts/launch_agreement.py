"""Agreement of hosts at each launch: on a pending trace, on its compilation, and on an eager operation."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jax

from lazynb import jax_compat as jc
from lazynb.errors import HostsDifferError, HostsError
from lazynb.recording.fingerprint import (
    fingerprint,
    of_call,
    of_event,
    of_request,
    prefix_fingerprints,
    without_addresses,
)
from lazynb.recording.operation import operation_name
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.trie import State
from lazynb.running.break_log import break_log
from lazynb.running.executable_cache import Binding, ExecutableCache
from lazynb.running.hosts import host_exit
from lazynb.running.hosts.host_agreement import HostGroup, group_of
from lazynb.running.hosts.host_interrupts import interrupts
from lazynb.running.hosts.host_presence import presence
from lazynb.running.hosts.host_proposal import (
    Proposal,
    Recorded,
    agreed_constants,
    line_of,
    numbers_of,
    with_numbers_as_inputs,
)
from lazynb.running.jaxpr_program import Request
from lazynb.running.run_failure import one_host_error
from lazynb.user_code.call_stack import current_position
from lazynb.user_code.source_lines import CodePosition


def begin_agreement() -> None:
    """Starts the reports of this host and the agreement on runs, if the program runs on several hosts."""
    if jc.coordination() is None:
        return
    if not presence.is_reported:
        atexit.register(host_exit.end)  # registered after JAX's handlers, so it runs before them
        current = runtime()
        current.before_outermost_exit, current.before_eager_operation = host_exit.run_shared, agree_on_call
    presence.begin()


class Agreed(NamedTuple):
    """The program that all hosts run.

    Attributes:
      request: the same trace, with additional results or inputs if another host wants them.
      binding: the program for it, if this host has it.
      made: whether all hosts have it.
      program: its fingerprint.
    """

    request: Request
    binding: Binding | None
    made: bool
    program: bytes


def agree(
    group: HostGroup,
    request: Request,
    binding: Binding | None,
    executables: ExecutableCache,
    kind: str,
    spot: CodePosition,
) -> Agreed:
    """Agrees with the other hosts to run ``request``.

    Arguments:
      binding: the program for it, if there is one.

    Raises:
      HostsError: they do not agree.
    """
    begin_agreement()
    interrupts.defer(request.pending)  # until it is launched
    program, part = _program(request, binding, executables)
    made = binding is not None
    try:
        with _noted(spot):
            settled = group.agree(
                program, lambda: _described(request, program, kind, spot, made), request.pending, made
            )
    except BaseException:
        if part is not None:
            executables.trie.prune(part)
        raise
    if settled is None:
        return Agreed(request, binding, made, program)
    agreed = _settled(Agreed(request, binding, False, program), settled, executables)
    if part is not None and agreed.request is not request:
        executables.trie.prune(part)
    return agreed


def _settled(asked: Agreed, settled: Proposal, executables: ExecutableCache) -> Agreed:
    request, pending = asked.request, asked.request.pending
    constants = {step.depth - 1 for step in request.path if step.constant is not None}
    inputs = constants.difference(number for number, _, constant in settled.numbers if constant)
    if inputs:
        agreed_constants.take(pending, executables.trie, frozenset(inputs))
    elif (settled.wanted, settled.donated) == (request.wanted, tuple(request.donated or ())):
        return asked
    request = Request(pending, settled.wanted, request.values, settled.donated)
    program = of_request(request.state, request.wanted, request.donated or ())
    return Agreed(request, executables.find(request.state, request.key), False, program)


def compile_on_all_hosts(
    group: HostGroup, agreed: Agreed, kind: str, spot: CodePosition, make: Callable[[], Made]
) -> Made:
    """Calls ``make`` and returns its result when all hosts have made the program. A host that has launched it
    could not be told that another host never will.

    Raises:
      HostsError: another host could not make it.
      Exception: this host could not; the error is that of ``make``.
    """
    try:
        with interrupts.raised():
            made = make()
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")
        try:
            _meet(group, agreed, "could not make the program", f" ({why})", kind, spot)
        except HostsError:
            raise one_host_error(error) from None
        raise
    _meet(group, agreed, "has made the program", "", kind, spot)
    return made


def _meet(group: HostGroup, agreed: Agreed, how: str, why: str, kind: str, spot: CodePosition) -> None:
    """Checks that compilation had the same outcome on all hosts."""
    request, program = agreed.request, of_event(agreed.program, how)

    def described() -> tuple[Proposal, Callable[[], Recorded]]:
        proposal, steps = _described(request, program, f"{how}{why}, {kind}", spot, True)
        return dataclasses.replace(proposal, trace=program.hex(), alike=""), lambda: _longer(steps())

    def _longer(recorded: Recorded) -> Recorded:
        return dataclasses.replace(
            recorded, rolling=[*recorded.rolling, program.hex()], steps=[*recorded.steps, how + why]
        )

    with _noted(spot):
        group.agree(program, described, request.pending)


@contextlib.contextmanager
def _noted(spot: CodePosition) -> Iterator[None]:
    """Records a trace break at ``spot``, with the line of each host, if the hosts differ."""
    began = time.perf_counter()
    try:
        yield
    except HostsDifferError as error:
        lines = "; ".join(f"host {host}: {line}" for host, line in sorted(error.lines.items()))
        break_log.add("hosts_differ", spot, 0, 0, time.perf_counter() - began, lines)
        raise


Made = TypeVar("Made")


def _program(
    request: Request, binding: Binding | None, executables: ExecutableCache
) -> tuple[bytes, State | None]:
    """The fingerprint of the program; and the end of its trace, if only this call added it to the trie."""
    if binding is not None:
        return binding.executable.fingerprint, None
    state, wanted, _, donated = executables.part(request)
    return of_request(state, wanted, donated), state


def _described(
    request: Request, program: bytes, kind: str, spot: CodePosition, made: bool
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
        fingerprint(with_numbers_as_inputs(state)).hex(),
        numbers_of(state, request.values),
        made,
    )
    return proposal, lambda: _recorded(request.pending)


def _recorded(pending: PendingTrace) -> Recorded:
    path = pending.state.path()
    steps, used = [], ""
    for step, origin in zip(reversed(path), reversed(pending.origins()), strict=True):
        if step.operation is None:
            steps.append(f"{_input(step)}{f', for {used}' if used else ''}")
        else:
            place = origin.place if origin is not None else None
            where = "" if place is None else f" at {place.in_full}"
            steps.append(f"{step.operation.name}{_types(step.avals)}{where}")
            used = f"{step.operation.name}{where}"
    steps.reverse()
    texts = [each.hex()[:16] for each in prefix_fingerprints(with_numbers_as_inputs(pending.state))]
    return Recorded(texts, steps, lambda number: _inside(path[number]) if number < len(path) else ())


def _inside(step: State) -> list[str]:
    if step.operation is None:
        return [without_addresses(str(step.key))]
    parts = [f"operands {step.operands}"]
    for name, value in sorted(step.operation.params.items()):
        parts += [f"{name} = {line.strip()}" for line in without_addresses(str(value)).splitlines()]
    return [*parts, without_addresses(str(step.operation.context))]


def _input(step: State) -> str:
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
    """Agrees with the other hosts on an eager operation on arrays of several hosts.

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
    begin_agreement()
    avals = tuple([jc.typeof(value) for value in values])
    program = of_call(primitive, params, avals)
    name, spot = operation_name(primitive, params), current_position(2)

    def described() -> tuple[Proposal, Callable[[], Recorded]]:
        text, line = program.hex(), line_of(spot)
        step = f"{name}{_types(avals)} at {line}"
        return Proposal(text, text, (), (), 1, "at once", line), lambda: Recorded([text], [step])

    interrupts.defer(group)
    try:
        with _noted(spot):
            group.agree(program, described)
    finally:
        interrupts.release_later(group)
