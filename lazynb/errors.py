"""lazynb's exceptions and warnings. JAX's errors are raised unchanged."""

from __future__ import annotations

from lazynb.user_code.source_lines import CodePosition


class LazynbError(Exception):
    """Base class of lazynb's errors."""


class TraceBreakError(LazynbError):
    """A trace break in strict mode (``%lazy strict``, ``lazynb.lazy(strict=True)``).

    Nothing has run, and pending operations stay pending.

    Attributes:
      code, kind: code and kind of the trace break, see ``lazynb.recording.break_reasons``.
      location: the user's line.
      library: the place in a library that needed the value; None if the user's line did.
      ops: number of operations that the break would have run.
      text: the kind of value that Python needed.
      hint: how to avoid the break.
    """

    def __init__(self, code: str, kind: str, text: str, hint: str, spot: CodePosition, ops: int):
        self.code, self.kind, self.text, self.hint = code, kind, text, hint
        self.location, self.library = spot.place, spot.library_place
        self.ops = ops
        where = self.location.in_full
        through = f" (through {self.library.label})" if self.library is not None else ""
        super().__init__(
            f"{code} {kind}: {text}, at {where}{through}. It would run {ops:,} pending "
            f"operation{'s' * (ops != 1)}. Instead: {hint}. (%breaks {code} shows how.)"
        )


class HostsError(LazynbError):
    """Base class of errors of programs that run on several hosts. The program has not run, and pending
    operations stay pending.

    Attributes:
      host: number of the host (JAX: process index) that raised the error.
    """

    host: int

    def again(self) -> HostsError:
        """A copy of the error without its traceback, which keeps tensors alive."""
        other = type(self).__new__(type(self), *self.args)
        other.__dict__.update(self.__dict__)
        return other


class HostsDifferError(HostsError):
    """The hosts are about to run different programs together. Each host raises it.

    Attributes:
      lines: by host, the reason and the line at which it runs its program.
      step: index (from 0) of the first step in which the hosts differ.
      recorded: by host, that step with the user's line; ``nothing more`` for a host without such a step.
    """

    def __init__(self, host: int, lines: dict[int, str], step: int, recorded: dict[int, str]):
        self.host, self.lines, self.step, self.recorded = host, lines, step, recorded
        super().__init__(
            _lines(
                f"The hosts differ (this is host {host}). Together they are about to run different programs:",
                *_by_host(lines),
                f"The first step that differs is number {step + 1}:",
                *_by_host(recorded),
                f"{_AS_BEFORE} Instead: let every host run the same lines. Before a line that reads a value "
                "on one host alone, call lazynb.sync() on all.",
            )
        )


class HostMissingError(HostsError):
    """A host did not arrive in time to run a program together with the others.

    Attributes:
      line: the line of this host that runs the program.
      missing: by missing host, a text with what is known about it.
    """

    def __init__(self, host: int, line: str, operations: int, missing: dict[int, str]):
        self.host, self.line, self.missing = host, line, missing
        count = f"{operations:,} operation{'s' * (operations != 1)}"
        super().__init__(
            _lines(
                f"Host {host} waits at {line}, to run {count} together with other hosts:",
                *[f"  host {number} {words}" for number, words in sorted(missing.items())],
                f"{_AS_BEFORE} Let every host run the same lines. lazynb.config.hosts_timeout is how long a "
                "host may do nothing, in seconds.",
            )
        )


class OneHostOnlyError(HostsError):
    """A measurement or comparison would repeat a program that runs on several hosts. Each host would choose
    its own number of repetitions."""

    def __init__(self, host: int):
        self.host = host
        super().__init__(
            f"This program runs on several hosts together (this is host {host}). lazynb does not repeat it "
            "to measure or compare. Instead: jax.profiler.trace around some steps, on all hosts; or the same "
            "code on arrays of one host's own devices."
        )


_AS_BEFORE = "Nothing of it has run, and what was pending still is."


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _by_host(texts: dict[int, str]) -> list[str]:
    """A line for each text, with its hosts. Texts that differ from the most frequent one are marked."""
    hosts: dict[str, list[int]] = {}
    for host, text in sorted(texts.items()):
        hosts.setdefault(text or "not known", []).append(host)
    most = max(map(len, hosts.values()), default=0)
    marked = sum(len(numbers) == most for numbers in hosts.values()) == 1 and len(hosts) > 1
    return [
        f"{'→ ' if marked and len(numbers) < most else '  '}host{'s' * (len(numbers) > 1)} "
        f"{', '.join(map(str, numbers))}: {text}"
        for text, numbers in hosts.items()
    ]


class LoopWarning(UserWarning):
    """A loop records ever more operations without reading a result. The text names the line and a remedy."""
