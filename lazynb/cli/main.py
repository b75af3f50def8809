"""``lazynb``: the command line's commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax

import lazynb
from lazynb.cli.arguments import Plan, Unusable, parser, plan, split
from lazynb.cli.diff import diff
from lazynb.cli.inspect import inspect
from lazynb.cli.notebook import run_notebook
from lazynb.cli.outcome import INTERRUPTED, Outcome
from lazynb.cli.script import BadScript, run_script
from lazynb.cli.summary import summary
from lazynb.execute.leaving import leaving
from lazynb.execute.observers import observe
from lazynb.notebook.answers import machine
from lazynb.reasons import REASONS, find
from lazynb.record.fast.accelerator import describe
from lazynb.record.mode import eager
from lazynb.session.budget import Account, Used
from lazynb.session.budget_report import explain
from lazynb.session.event_stream import EventStream
from lazynb.session.program_recorder import ProgramRecorder
from lazynb.targets.compilers import COMPILERS, NotInstalled
from lazynb.targets.listing import listed
from lazynb.view.inspection.saved import Saved, entry_of
from lazynb.view.words import plural

FAILED, UNUSABLE, OVER = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that ``arguments`` (by default the process's) give, and returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    versions = f"JAX {jax.__version__}, Python {sys.version.split()[0]}, {describe()}"
    top = parser(f"lazynb {lazynb.__version__} ({versions})")
    script: list[str] = []
    if words[:1] == ["run"]:
        own, script = split(words[1:])
        words = ["run", *own]
    try:
        options = top.parse_args(words)
        if options.command == "run":
            return run(plan(options, script))
        if options.command == "explain":
            return explain_code(options.code)
        if options.command == "inspect":
            return inspect(options)
        if options.command == "diff":
            return diff(options)
        if options.command == "targets":
            return targets(options.action, options.compiler if options.action else "")
        top.print_help()
        return UNUSABLE
    except Unusable as error:
        print(error, file=sys.stderr)
        return FAILED if isinstance(error, BadScript) else UNUSABLE


# ---- lazynb run --------------------------------------------------------------------------------------------


def run(asked: Plan) -> int:
    """Runs the program; says what happened, writes the report and holds the budget against it.

    Raises:
      Unusable: the program cannot be run at all.
    """
    account = Account(asked.limits)
    programs = ProgramRecorder()
    stop = observe(programs, everywhere=True) if asked.save is not None else lambda: None
    account.open(everywhere=True)
    events = _events(asked)
    began = time.perf_counter()
    outcome = Outcome(FAILED)
    try:
        if asked.is_notebook:
            outcome = run_notebook(asked.program)
        else:
            outcome = run_script(asked.program, asked.arguments)
    finally:
        account.close()
        stop()
        if events is not None:
            events.close(outcome.status, outcome.error)
    seconds = time.perf_counter() - began
    used = account.used()
    _flush()
    if outcome.where:
        _say(f"lazynb: {outcome.where} of {asked.program.name} failed: {outcome.error}")
    _say(summary(account.counter, used, breaks_follow="breaks" in used.over(asked.limits)))
    verdict = _verdict(used, asked)
    if verdict:
        _say(f"lazynb: {verdict}")
    is_written = True
    if asked.report is not None:
        is_written = _write(asked.report, asked, outcome, account, used, verdict, seconds)
    if events is not None:
        is_written = _said(events, asked) and is_written
    if asked.save is not None:
        is_written = _save(asked.save, programs, str(asked.program)) and is_written
    if outcome.status == INTERRUPTED:
        leaving.status = INTERRUPTED
    if outcome.status:
        return outcome.status
    if verdict:
        return OVER
    return 0 if is_written else UNUSABLE


def _events(asked: Plan) -> EventStream | None:
    """The stream that was asked for, opened.

    Raises:
      Unusable: it cannot be written.
    """
    if asked.events is None:
        return None
    try:
        events = EventStream(asked.events, str(asked.program), asked.arguments)
    except OSError as error:
        raise Unusable(
            f"lazynb run: the event stream cannot be written to {asked.events}: {error.strerror}"
        ) from None
    events.open()
    return events


def _said(events: EventStream, asked: Plan) -> bool:
    """Says how much was written; returns whether it is all."""
    if events.error:
        _say(f"lazynb: after {events.written:,} events {asked.events} could not be written: {events.error}")
        return False
    _say(f"lazynb: {plural(events.written, 'event')} written to {asked.events}")
    return True


def _verdict(used: Used, asked: Plan) -> str:
    """What the budget says; empty if it was kept."""
    if used.over(asked.limits):
        return explain(used, asked.limits)
    said = []
    for name, why in used.unchecked(asked.limits).items():
        option = f"--max-{name.replace('_', '-')}"
        said.append(f"{option} {asked.limits.asked()[name]} cannot be checked: {why}")
    return "\n".join(said)


def _write(
    report: Path, asked: Plan, outcome: Outcome, account: Account, used: Used, verdict: str, seconds: float
) -> bool:
    from lazynb.view.reports.run_report import Report  # needs Jinja2

    page = Report(
        program=str(asked.program),
        arguments=asked.arguments,
        status=outcome.status,
        error=outcome.error,
        where=outcome.where,
        seconds=seconds,
        counter=account.counter,
        used=used,
        limits=asked.limits,
        verdict=verdict,
    )
    try:
        page.save(report)
    except OSError as error:
        _say(f"lazynb: the report cannot be written to {report}: {error.strerror}")
        return False
    _say(f"lazynb: report written to {report}")
    return True


def _save(path: Path, programs: ProgramRecorder, name: str) -> bool:
    """Writes what ran, each kernel with its time."""
    compilations = programs.compilations()
    untimed = 0
    for compilation in compilations:
        try:
            with eager():
                compilation.profile()
        except Exception:  # inputs that cannot be made up, or no profiler: all else is known
            untimed += 1
    peak = machine() if compilations else None
    entries = [entry_of(compilation, ran=True, title=name) for compilation in compilations]
    for entry in entries:
        entry.data["machine"] = peak
    try:
        Saved(entries).save(path)
    except OSError as error:
        _say(f"lazynb: the inspections cannot be written to {path}: {error.strerror}")
        return False
    beside = f", {untimed} without times" if untimed else ""
    beside += f", {programs.left_out} left out" if programs.left_out else ""
    _say(f"lazynb: {plural(len(entries), 'program')} written to {path}{beside}")
    return True


def _say(text: str) -> None:
    stream = sys.stderr
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), file=stream)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # the reader has gone, or the program closed it
        pass


# ---- lazynb explain ----------------------------------------------------------------------------------------


def explain_code(code: str | None) -> int:
    """Prints what a trace break is and what to write instead; a list of all without ``code``.

    Raises:
      Unusable: there is no such code.
    """
    if code is None:
        for reason in REASONS.values():
            print(f"{reason.code}  {reason.kind:<13} {reason.text}")
        return 0
    try:
        print(find(code))
    except ValueError as error:
        raise Unusable(f"lazynb explain: {error}") from None
    return 0


# ---- lazynb targets ----------------------------------------------------------------------------------------


def targets(action: str | None, name: str) -> int:
    """Lists the chips; installs or removes a compiler.

    Raises:
      Unusable: it could not be installed.
    """
    if action is None:
        print(listed())
        return 0
    compiler = COMPILERS[name]
    if action == "remove":
        compiler.remove()
        return 0
    try:
        compiler.install()
    except NotInstalled as error:
        raise Unusable(f"lazynb targets: {error}") from None
    print(f"installed {compiler.version}")
    return 0
