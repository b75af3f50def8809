"""A notebook, whose cells run lazily in an IPython shell of this process."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lazynb.cli.arguments import Unusable
from lazynb.cli.outcome import Outcome, failed
from lazynb.trimmed import trim


class BadNotebook(Unusable):
    """The file is no notebook that Python can run; the text says why."""


class Cell(NamedTuple):
    """A code cell.

    Attributes:
      source: its text.
      may_fail: whether it is tagged ``raises-exception``.
    """

    source: str
    may_fail: bool


def read_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook, without those tagged ``skip-execution``.

    Raises:
      BadNotebook: the file is no notebook for Python.
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
    """The language of the cells, in small letters; empty if the notebook does not say it."""
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
    """Runs the cells in the notebook's folder, one after the other until one fails.

    What they show goes to stdout, as text.

    Raises:
      BadNotebook: the file is no notebook for Python.
    """
    cells = read_cells(path)
    os.chdir(path.absolute().parent)
    if not sys.flags.safe_path:
        sys.path[0] = ""
    sys.argv = [str(path)]
    shell = _shell()
    from lazynb.notebook.extension import load  # needs IPython

    with contextlib.redirect_stdout(io.StringIO()):  # its greeting
        load(shell)  # a %load_ext lazynb in the notebook then finds nothing to do
    for cell in cells:
        result = shell.run_cell(cell.source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and not (cell.may_fail and isinstance(error, Exception)):
            return failed(error, f"cell {result.execution_count}")
    return Outcome()


def _shell() -> Any:
    """A shell without a history file, whose tracebacks go to stderr."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def enable_gui(self, gui: str | None = None) -> None:
            """Does nothing: ``%matplotlib`` asks for an event loop, and nobody would use it."""

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
