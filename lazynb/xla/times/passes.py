"""Seconds of each pass over HLO, from XLA's profile and the files that it wrote meanwhile."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Iterator, Sequence

from lazynb.execute.dumps import Dump
from lazynb.xla.times.compile_events import CHECKERS, Event

START = "pipeline-start"


@dataclasses.dataclass(slots=True)
class PassTime:
    """One run of a pass.

    Attributes:
      pipeline, name: as XLA calls them.
      seconds: that it took by XLA's profiler, without the pipelines in it and without the check of the module
        after it, and with the writing of that module's text where it changed the module.
      changed: whether it changed the module.
      writing: the part of ``seconds`` that wrote the text, which XLA does only because the program is
        inspected. It is inferred, by what writing texts took elsewhere in the same compilation. None if
        that cannot be told.
      file: number of the file with the module after it; None if it changed nothing or nobody can tell.
    """

    pipeline: str
    name: str
    seconds: float
    changed: bool
    writing: float | None = 0.0
    file: int | None = None

    @property
    def own(self) -> float:
        """Seconds without writing, as far as that is known."""
        return max(0.0, self.seconds - (self.writing or 0.0))


@dataclasses.dataclass(frozen=True, slots=True)
class PassTimes:
    """All passes of one compilation.

    Attributes:
      passes: in the order in which they ended.
      checking: seconds in which XLA checked the module between them.
      writing: inferred seconds in which it wrote the module's text; None if that cannot be told.
    """

    passes: tuple[PassTime, ...]
    checking: float
    writing: float | None


def pass_times(whole: Event, dump: Dump) -> PassTimes:
    """The passes in the events of a compilation.

    Arguments:
      dump: the files that XLA wrote in that very compilation.
    """
    events = list(whole.walk())
    pipelines = [event for event in events if _is_pipeline(event)]
    found = [(one.end, _pass(pipeline, one)) for pipeline in pipelines for one in _passes(pipeline)]
    passes = [one for _, one in sorted(found, key=lambda pair: pair[0])]
    checking = sum(event.seconds for event in events if event.name == CHECKERS)
    return PassTimes(tuple(passes), checking, _note_writing(passes, pipelines, _files(dump)))


def _is_pipeline(event: Event) -> bool:
    return bool(event.module) and event.name.endswith(f" ({event.module})")


def _passes(pipeline: Event) -> Iterator[Event]:
    yield from (event for event in pipeline.inside if event.name != CHECKERS)


def _pass(pipeline: Event, event: Event) -> PassTime:
    apart = [inner for inner in event.inside if inner.name == CHECKERS or _is_pipeline(inner)]
    changed = any(inner.name == CHECKERS for inner in event.inside)
    name = pipeline.name.removesuffix(f" ({pipeline.module})")
    return PassTime(name, event.name, event.seconds - sum(inner.seconds for inner in apart), changed)


# ---- what writing took -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    """A module's text as XLA wrote it; ``is_last`` if the pass was over then."""

    number: int
    pipeline: str
    after: str
    is_last: bool
    bytes: int


_NAME = re.compile(r"\.(\d{4})\.([^.]+)\.after_(.+?)(\.before_.+)?\.txt$")


def _files(dump: Dump) -> list[_File]:
    files = []
    for path in dump.files("*.after_*.txt"):
        match = _NAME.search(path.name)
        if match is not None:
            files.append(_File(int(match[1]), match[2], match[3], bool(match[4]), path.stat().st_size))
    return sorted(files, key=lambda file: file.number)


def _note_writing(
    passes: Sequence[PassTime], pipelines: Sequence[Event], files: Sequence[_File]
) -> float | None:
    """Notes for each pass that changed the module how long writing the text took, by the texts that XLA
    writes at the start of a pipeline: there nothing else happens. Gives the seconds of all."""
    changed = [one for one in passes if one.changed]
    for one in changed:
        one.writing = None
    starts = [file for file in files if file.after == START]
    after = [file for file in files if file.after != START and file.is_last]
    gaps = list(map(_gap, sorted(pipelines, key=lambda pipeline: pipeline.start)))
    named = [(_plain(one.pipeline), _plain(one.name)) for one in changed]
    if (
        named != [(file.pipeline, file.after) for file in after]
        or len(starts) != len(pipelines)
        or not starts
    ):
        return None
    # The median: where the machine was busy with something else, a text took a hundred times as long.
    rate = statistics.median(gap / max(1, file.bytes) for gap, file in zip(gaps, starts))
    for one, file in zip(changed, after):
        one.file = file.number
        one.writing = min(one.seconds, rate * file.bytes)
    for file in files:
        if not file.is_last:  # in the midst of the pass that ended next
            one = next(one for one in changed if one.file is not None and one.file > file.number)
            one.writing = min(one.seconds, (one.writing or 0.0) + rate * file.bytes)
    return sum(gaps) + sum(one.writing or 0.0 for one in changed)


def _gap(pipeline: Event) -> float:
    """Seconds between the check at the start of a pipeline and its first pass: the text is written then."""
    checked = [event for event in pipeline.inside if event.name == CHECKERS][:1]
    first = pipeline.inside.index(checked[0]) if checked else -1
    until = pipeline.inside[first + 1].start if first + 1 < len(pipeline.inside) else pipeline.end
    return max(0.0, until - (checked[0].end if checked else pipeline.start))


def _plain(name: str) -> str:
    """A name as it stands in the name of a file."""
    return re.sub(r"[ /\\\[\]]", "_", name)
