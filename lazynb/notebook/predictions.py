"""What the line of ``%%predict`` asks for: which lines share a kernel, or which lines are in one."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from typing import Any

from lazynb.notebook.question import Question
from lazynb.notebook.showing import shown
from lazynb.session.kernel_lines import asked_kernel, compare_lines
from lazynb.session.prediction import BadPrediction, compare, parse_groups, written_lines
from lazynb.view.reports.kernel_lines import KernelQuestion, KernelReveal
from lazynb.view.reports.prediction import Reveal
from lazynb.xla.compilation import Compilation

_LABEL = re.compile(r"c\d+(\.\d+)*")


@dataclasses.dataclass(frozen=True)
class SharedKernels:
    """Which lines share a kernel?

    Attributes:
      groups: the reader's answer; None where a form asks.
    """

    groups: list[set[int]] | None

    def question(self, compilation: Compilation) -> Any:
        """What is shown: the answer, or the form or text that asks for one."""
        if self.groups is not None:
            return Reveal(compare(compilation, self.groups))
        places = written_lines(compilation.snapshot)
        if not places or not _has_widgets():
            return Question(places)
        from lazynb.notebook.predict import PredictForm  # needs ipywidgets

        return PredictForm(
            places,
            lambda chosen: [Reveal(compare(compilation, chosen)), shown(compilation)],
        )


@dataclasses.dataclass(frozen=True)
class KernelsLines:
    """Which lines are in a kernel?

    Attributes:
      label: the kernel's; empty for that of most lines.
      lines: the reader's answer; None where a form asks.
    """

    label: str
    lines: set[int] | None

    def question(self, compilation: Compilation) -> Any:
        """As that of :class:`SharedKernels`."""
        kernel = asked_kernel(compilation, self.label)
        if self.lines is not None:
            return KernelReveal(compare_lines(compilation, kernel, self.lines))
        question = KernelQuestion(kernel, written_lines(compilation.snapshot))
        if not _has_widgets():
            return question
        from lazynb.notebook.predict_lines import KernelForm

        return KernelForm(
            question,
            lambda lines: [KernelReveal(compare_lines(compilation, kernel, lines)), shown(compilation)],
        )


def _has_widgets() -> bool:
    return importlib.util.find_spec("ipywidgets") is not None


def asked_prediction(options: Any) -> SharedKernels | KernelsLines:
    """What the magic's line says.

    Raises:
      BadPrediction: it cannot be meant.
    """
    words = " ".join(options.groups)
    if options.kernel is None:
        return SharedKernels(parse_groups(words) if words else None)
    label = options.kernel
    if label and not _LABEL.fullmatch(label):  # --kernel 2-3: no label, the lines at once
        label, words = "", f"{label} {words}".strip()
    groups = parse_groups(words) if words else None
    if groups is not None and len(groups) > 1:
        raise BadPrediction("with --kernel, the lines of one kernel: write 2-4 7, without |")
    return KernelsLines(label, groups[0] if groups is not None else None)
