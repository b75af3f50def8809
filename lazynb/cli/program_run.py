"""Runs a script or a notebook lazily in this process, and summarises the run for ``lazynb run``."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from lazynb.cli.arguments import CommandError
from lazynb.compare.costs.budget import Used
from lazynb.compare.costs.budget_text import count, where
from lazynb.recording.lazy_mode import lazy
from lazynb.running.executable_cache import executables
from lazynb.running.run_statistics import RunCounter, summary_line
from lazynb.user_code.text_format import duration, size
from lazynb.user_code.tracebacks import trim

# ---- Outcome of a program ----------------------------------------------------------------------------------

INTERRUPTED = 130  # exit status of shells for a program that Ctrl-C ended


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a program.

    Attributes:
      status: exit status.
      error: type and text of the exception that ended the program, in one line; empty without one.
      where: the notebook cell that raised the exception, such as ``cell 4``; empty for a script.
    """

    status: int = 0
    error: str = ""
    where: str = ""


def outcome_of_error(error: BaseException, where: str = "") -> Outcome:
    """The outcome of a program that ``error`` ended. Prints nothing, except the text of a SystemExit."""
    if isinstance(error, SystemExit):
        return Outcome(exit_status(error))
    text = " ".join(str(error).split())
    message = type(error).__name__
    if text:
        message += f": {text}"
    status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return Outcome(status, message, where)


def exit_status(error: SystemExit) -> int:
    """The exit status that Python uses for ``error``. Prints its text, if it has one, to stderr."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return 1


# ---- Summary on stderr -------------------------------------------------------------------------------------

_BREAKS = 5


def summary(counter: RunCounter, used: Used, breaks_follow: bool = False) -> str:
    """A line of figures, and the costliest trace breaks with what to write instead.

    Arguments:
      breaks_follow: leave out the trace breaks, because they are printed elsewhere.
    """
    lines = [f"lazynb: {' · '.join(_figures(counter, used))}"]
    jax_itself = summary_line(counter.jax_log.rows())
    if jax_itself:
        lines.append(f"  {jax_itself}")
    if breaks_follow:
        return "\n".join(lines)
    for row in used.breaks[:_BREAKS]:
        lines += [
            f"  {row.code} {row.kind} ×{row.count:,}  {where(row.location)}  ({duration(row.seconds)})",
            f"      instead: {row.hint}",
        ]
    if len(used.breaks) > _BREAKS:
        lines.append(f"  ... {len(used.breaks) - _BREAKS:,} more; --report lists them")
    return "\n".join(lines)


def _figures(counter: RunCounter, used: Used) -> list[str]:
    breaks = count(used.broken, "trace break")
    if used.broken:
        breaks += f" ({duration(used.breaks.seconds)})"
    figures = [
        count(counter.operations, "operation"),
        count(len(executables.order), "executable"),
        count(counter.hits, "hit"),
        _misses(counter),
    ]
    if used.kernels is not None:
        figures.append(f"{count(used.kernels.total, 'kernel')} launched")
    if used.footprints is not None:
        moved = used.footprints.moved
        least = "" if moved.exact is not None else "at least "
        figures.append(f"{least}{size(moved.low)} through memory")
        figures.append(f"{size(used.footprints.largest)} taken at most")
    return [*figures, breaks]


def _misses(counter: RunCounter) -> str:
    if not counter.misses:
        return "0 misses"
    noun = "miss" if counter.misses == 1 else "misses"
    spent = f"compiling {duration(counter.compile_seconds)}"
    if counter.loaded:
        spent = f"{counter.loaded:,} loaded from disk, {duration(counter.compile_seconds)}"
    return f"{counter.misses:,} {noun} ({spent})"


class BadNotebook(CommandError):
    """The file is not a Python notebook; the text gives the reason."""


class Cell(NamedTuple):
    """A code cell.

    Attributes:
      source: source text.
      may_fail: whether the cell is tagged ``raises-exception``.
    """

    source: str
    may_fail: bool


def read_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook, without those tagged ``skip-execution``.

    Raises:
      BadNotebook: the file is not a Python notebook.
    """
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadNotebook(f"lazynb run: {path} is no notebook: not JSON ({error})") from None
    if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
        fault = "no notebook: it has no list of cells"
        if isinstance(data, dict) and "worksheets" in data:
            fault = "a notebook of an old format; save it again in Jupyter"
        raise BadNotebook(f"lazynb run: {path} is {fault}")
    language = _language(data)
    if language not in ("", "python"):
        raise BadNotebook(f"lazynb run: {path} is written in {language}, and lazynb runs Python")
    try:
        return list(_code_cells(data["cells"]))
    except (AttributeError, TypeError):
        fault = "its cells are not what nbformat 4 says"
        raise BadNotebook(f"lazynb run: {path} is no notebook: {fault}") from None


def _language(data: dict[str, Any]) -> str:
    """The language of the cells in lower case; empty if the notebook does not name it."""
    try:
        metadata = data.get("metadata", {})
        language = metadata.get("language_info", {}).get("name")
        if not language:
            language = metadata.get("kernelspec", {}).get("language") or ""
        return language.lower()
    except AttributeError:
        return ""


def _code_cells(cells: list[Any]) -> Iterator[Cell]:
    for cell in cells:
        tags = cell.get("metadata", {}).get("tags", ())
        if cell.get("cell_type") == "code" and "skip-execution" not in tags:
            yield Cell("".join(cell.get("source", ())), "raises-exception" in tags)


def run_notebook(path: Path) -> Outcome:
    """Runs the cells in order, in the notebook's folder, until one fails. Outputs go to stdout as text.

    Raises:
      BadNotebook: the file is not a Python notebook.
    """
    cells = read_cells(path)
    os.chdir(path.absolute().parent)
    if not sys.flags.safe_path:
        sys.path[0] = ""
    sys.argv = [str(path)]
    shell = _shell()
    from lazynb.notebook.extension import load  # needs IPython

    with contextlib.redirect_stdout(io.StringIO()):  # hides the greeting
        load(shell)  # a %load_ext lazynb in the notebook then does nothing
    for cell in cells:
        result = shell.run_cell(cell.source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and not (cell.may_fail and isinstance(error, Exception)):
            return outcome_of_error(error, f"cell {result.execution_count}")
    return Outcome()


def _shell() -> Any:
    """A shell without a history file, whose tracebacks go to stderr."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def enable_gui(self, gui: str | None = None) -> None:
            """Does nothing: the event loop for ``%matplotlib`` would never be used."""

        def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            kind, error, _ = self._get_exc_info(exc_tuple)
            trim(error)
            super().showtraceback((kind, error, error.__traceback__), *args, **kwargs)

        def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
            sys.stdout.flush()
            print(self.InteractiveTB.stb2text(stb), file=sys.stderr)

    _set_plot_backend()
    shell = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    with contextlib.suppress(Exception):  # names of colour schemes differ between releases
        shell.colors = "nocolor"
    return shell


def _set_plot_backend() -> None:
    """Chooses Matplotlib's backend as a kernel does, unless the user has chosen one."""
    backend = "agg"
    if importlib.util.find_spec("matplotlib_inline") is not None:
        backend = "module://matplotlib_inline.backend_inline"
    os.environ.setdefault("MPLBACKEND", backend)


# ---- Running a script --------------------------------------------------------------------------------------


class BadScript(CommandError):
    """The script is not valid Python; the text names the line."""


def run_script(path: Path, arguments: Sequence[str]) -> Outcome:
    """Runs the script as ``__main__``, like ``python script.py`` but lazily. ``sys.argv``, ``sys.path`` and
    ``__main__`` are not restored.

    Only the main thread is lazy. Returns after the script's non-daemon threads have ended. Prints the
    traceback of an uncaught exception as Python does.

    Raises:
      BadScript: the script cannot be compiled.
    """
    file = os.path.abspath(path)
    code = _compile(path, file)
    module = _main_module(file)
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    try:
        with lazy():
            exec(code, module.__dict__)
        _wait_for_threads()
    except SystemExit as error:
        return outcome_of_error(error)
    except BaseException as error:
        trim(error)
        sys.stdout.flush()
        sys.excepthook(type(error), error, error.__traceback__)
        return outcome_of_error(error)
    return Outcome()


def _main_module(file: str) -> ModuleType:
    """The module ``__main__`` as Python creates it for a script."""
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=file,
        __builtins__=builtins,
        __loader__=SourceFileLoader("__main__", file),
        __cached__=None,
        __spec__=None,
    )
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    return module


def _compile(path: Path, file: str) -> CodeType:
    try:
        return compile(path.read_bytes(), file, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f":{error.lineno}" if error.lineno else ""
        text = f": {error.text.strip()}" if error.text else ""
        raise BadScript(f"lazynb run: {path}{where}: {type(error).__name__}: {error.msg}{text}") from None
    except ValueError as error:  # null bytes, on some Pythons
        raise BadScript(f"lazynb run: {path} is no Python program: {error}") from None


def _wait_for_threads() -> None:
    """Waits until all non-daemon threads have ended, as Python does."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
