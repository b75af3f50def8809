"""The files that ``%inspect`` writes of a compilation."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lazynb.view.inspection.page import save_html
from lazynb.xla.compilation import Compilation


def is_asked(options: argparse.Namespace) -> bool:
    """Whether a file is to be written."""
    return any(getattr(options, name) is not None for name in _FORMS)


def write_all(compilation: Compilation, options: argparse.Namespace) -> Iterator[Path]:
    """Writes the files that were asked for; gives the path of each.

    Raises:
      OSError: one cannot be written.
      NotReproducible, NotProfiled, InputsGone, NoFigure, LayoutUnavailable: see the methods of a compilation.
    """
    for name, write in _FORMS.items():
        file = getattr(options, name)
        if file is not None:
            yield Path(write(compilation, file, options))


def _explorer(compilation: Any, file: str, options: argparse.Namespace) -> str:
    Path(file).write_text(json.dumps(compilation.to_model_explorer()), encoding="utf-8")
    return file


def _svg(compilation: Any, file: str, options: argparse.Namespace) -> str:
    Path(file).write_text(compilation.to_svg(options.figure), encoding="utf-8")
    return file


def _perfetto(compilation: Any, file: str, options: argparse.Namespace) -> str:
    if any(trace.measured is None for trace in compilation.traces):
        compilation.profile()
    compilation.to_perfetto(file)
    return file


_FORMS: dict[str, Callable[[Any, str, argparse.Namespace], str | Path]] = {
    "html": lambda compilation, file, options: save_html(compilation, file),
    "model_explorer": _explorer,
    "perfetto": _perfetto,
    "svg": _svg,
    "reproducer": lambda compilation, file, options: compilation.reproducer(file, options.question),
}
