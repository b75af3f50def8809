"""A script, run as ``python script.py`` runs it, but lazily."""

from __future__ import annotations

import builtins
import os
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from lazynb.cli.arguments import Unusable
from lazynb.cli.outcome import Outcome, failed
from lazynb.record.mode import lazy
from lazynb.trimmed import trim


class BadScript(Unusable):
    """The script is no Python program; the text says where."""


def run_script(path: Path, arguments: Sequence[str]) -> Outcome:
    """Runs the script as ``__main__``, in this process for good: ``sys.argv``, ``sys.path`` and ``__main__``
    stay the script's.

    Only the main thread is lazy; the run ends when the script's own threads have ended. An exception that
    ends it is shown as Python shows it.

    Raises:
      BadScript: it cannot be compiled.
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
        return failed(error)
    except BaseException as error:
        trim(error)
        sys.stdout.flush()
        sys.excepthook(type(error), error, error.__traceback__)
        return failed(error)
    return Outcome()


def _main_module(file: str) -> ModuleType:
    """The module ``__main__`` as Python makes it for a script."""
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
    """Waits until all threads but daemons have ended: so does Python."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
