"""Entry point of the command ``lazynb``, and its subcommands ``run``, ``explain`` and ``targets``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax

import lazynb
from lazynb.cli.arguments import CommandError, RunRequest, parser, run_request, split_arguments
from lazynb.cli.compilation_commands import diff, inspect
from lazynb.cli.program_run import INTERRUPTED, BadScript, Outcome, run_notebook, run_script, summary
from lazynb.compare.costs.budget import Account, Used
from lazynb.compare.costs.budget_text import explain
from lazynb.compare.costs.program_usage import ProgramRecorder
from lazynb.compare.misses.event_stream import EventStream
from lazynb.notebook.frontend_requests import machine_data
from lazynb.recording.break_reasons import REASONS, find
from lazynb.recording.lazy_mode import eager
from lazynb.recording.replay.native_replay import describe
from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry
from lazynb.running.background_thread import process_exit
from lazynb.running.observers import observe
from lazynb.running.record_table import plural
from lazynb.xla.targets.compiler_packages import COMPILERS, InstallError, target_table

FAILED, UNUSABLE, OVER = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command in ``arguments`` (default: ``sys.argv``) and returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    versions = f"JAX {jax.__version__}, Python {sys.version.split()[0]}, {describe()}"
    top = parser(f"lazynb {lazynb.__version__} ({versions})")
    script: list[str] = []
    if words[:1] == ["run"]:
        own, script = split_arguments(words[1:])
        words = ["run", *own]
    try:
        options = top.parse_args(words)
        if options.command == "run":
            return run(run_request(options, script))
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
    except CommandError as error:
        print(error, file=sys.stderr)
        return FAILED if isinstance(error, BadScript) else UNUSABLE


# ---- lazynb run --------------------------------------------------------------------------------------------


def run(asked: RunRequest) -> int:
    """Runs the program, prints a summary, writes the report and checks the budget. Returns the exit status.

    Raises:
      CommandError: the program cannot be run.
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
        _print_stderr(f"lazynb: {outcome.where} of {asked.program.name} failed: {outcome.error}")
    _print_stderr(summary(account.counter, used, breaks_follow="breaks" in used.over(asked.limits)))
    verdict = _verdict(used, asked)
    if verdict:
        _print_stderr(f"lazynb: {verdict}")
    is_written = True
    if asked.report is not None:
        is_written = _write_report(asked.report, asked, outcome, account, used, verdict, seconds)
    if events is not None:
        is_written = _report_events(events, asked) and is_written
    if asked.save is not None:
        is_written = _save_programs(asked.save, programs, str(asked.program)) and is_written
    if outcome.status == INTERRUPTED:
        process_exit.status = INTERRUPTED
    if outcome.status:
        return outcome.status
    if verdict:
        return OVER
    return 0 if is_written else UNUSABLE


def _events(asked: RunRequest) -> EventStream | None:
    """Opens the event stream; None without ``--events``."""
    if asked.events is None:
        return None
    try:
        events = EventStream(asked.events, str(asked.program), asked.arguments)
    except OSError as error:
        raise CommandError(
            f"lazynb run: the event stream cannot be written to {asked.events}: {error.strerror}"
        ) from None
    events.open()
    return events


def _report_events(events: EventStream, asked: RunRequest) -> bool:
    """Prints how many events were written. Returns whether all were."""
    if events.error:
        _print_stderr(
            f"lazynb: after {events.written:,} events {asked.events} could not be written: {events.error}"
        )
        return False
    _print_stderr(f"lazynb: {plural(events.written, 'event')} written to {asked.events}")
    return True


def _verdict(used: Used, asked: RunRequest) -> str:
    """The exceeded limits and those that cannot be checked, as text; empty if the budget was kept."""
    if used.over(asked.limits):
        return explain(used, asked.limits)
    said = []
    for name, why in used.unchecked(asked.limits).items():
        option = f"--max-{name.replace('_', '-')}"
        said.append(f"{option} {asked.limits.asked()[name]} cannot be checked: {why}")
    return "\n".join(said)


def _write_report(
    report: Path,
    asked: RunRequest,
    outcome: Outcome,
    account: Account,
    used: Used,
    verdict: str,
    seconds: float,
) -> bool:
    from lazynb.report.run_report import RunReport  # needs Jinja2

    page = RunReport(
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
        _print_stderr(f"lazynb: the report cannot be written to {report}: {error.strerror}")
        return False
    _print_stderr(f"lazynb: report written to {report}")
    return True


def _save_programs(path: Path, programs: ProgramRecorder, name: str) -> bool:
    """Measures the kernels of each program and writes the inspections."""
    compilations = programs.compilations()
    untimed = 0
    for compilation in compilations:
        try:
            with eager():
                compilation.profile()
        except Exception:  # inputs cannot be generated, or no profiler: write the rest
            untimed += 1
    peak = machine_data() if compilations else None
    entries = [inspection_entry(compilation, ran=True, title=name) for compilation in compilations]
    for entry in entries:
        entry.data["machine"] = peak
    try:
        SavedInspections(entries).save(path)
    except OSError as error:
        _print_stderr(f"lazynb: the inspections cannot be written to {path}: {error.strerror}")
        return False
    beside = f", {untimed} without times" if untimed else ""
    beside += f", {programs.left_out} left out" if programs.left_out else ""
    _print_stderr(f"lazynb: {plural(len(entries), 'program')} written to {path}{beside}")
    return True


def _print_stderr(text: str) -> None:
    stream = sys.stderr
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "replace").decode(encoding), file=stream)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # the reader ended, or the program closed stdout
        pass


# ---- lazynb explain ----------------------------------------------------------------------------------------


def explain_code(code: str | None) -> int:
    """Prints what a trace break is and what to write instead; without ``code``, a list of all breaks.

    Raises:
      CommandError: ``code`` does not exist.
    """
    if code is None:
        for reason in REASONS.values():
            print(f"{reason.code}  {reason.kind:<13} {reason.text}")
        return 0
    try:
        print(find(code))
    except ValueError as error:
        raise CommandError(f"lazynb explain: {error}") from None
    return 0


# ---- lazynb targets ----------------------------------------------------------------------------------------


def targets(action: str | None, name: str) -> int:
    """Lists the chips, or installs or removes a compiler.

    Raises:
      CommandError: the installation failed.
    """
    if action is None:
        print(target_table())
        return 0
    compiler = COMPILERS[name]
    if action == "remove":
        compiler.remove()
        return 0
    try:
        compiler.install()
    except InstallError as error:
        raise CommandError(f"lazynb targets: {error}") from None
    print(f"installed {compiler.version}")
    return 0
