"""What the line of ``%%predict`` asks for: which lines share a kernel, or which lines are in one."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from typing import Any

from lazynb.compare.differences.kernel_prediction import (
    BadPrediction,
    check_kernel_prediction,
    check_line_prediction,
    kernel_to_predict,
    parse_groups,
    written_lines,
)
from lazynb.notebook.inspection_display import inspector_for
from lazynb.report.prediction_report import (
    KernelPredictionResult,
    KernelQuestion,
    PredictionResult,
    SharedKernelQuestion,
)
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
            return PredictionResult(check_kernel_prediction(compilation, self.groups))
        places = written_lines(compilation.snapshot)
        if not places or not _has_widgets():
            return SharedKernelQuestion(places)
        from lazynb.notebook.prediction_form import PredictForm  # needs ipywidgets

        return PredictForm(
            places,
            lambda chosen: [
                PredictionResult(check_kernel_prediction(compilation, chosen)),
                inspector_for(compilation),
            ],
        )


@dataclasses.dataclass(frozen=True)
class KernelLines:
    """Which lines are in a kernel?

    Attributes:
      label: the kernel's; empty for that of most lines.
      lines: the reader's answer; None where a form asks.
    """

    label: str
    lines: set[int] | None

    def question(self, compilation: Compilation) -> Any:
        """As that of :class:`SharedKernels`."""
        kernel = kernel_to_predict(compilation, self.label)
        if self.lines is not None:
            return KernelPredictionResult(check_line_prediction(compilation, kernel, self.lines))
        question = KernelQuestion(kernel, written_lines(compilation.snapshot))
        if not _has_widgets():
            return question
        from lazynb.notebook.prediction_form import KernelForm

        return KernelForm(
            question,
            lambda lines: [
                KernelPredictionResult(check_line_prediction(compilation, kernel, lines)),
                inspector_for(compilation),
            ],
        )


def _has_widgets() -> bool:
    return importlib.util.find_spec("ipywidgets") is not None


def asked_prediction(options: Any) -> SharedKernels | KernelLines:
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
    return KernelLines(label, groups[0] if groups is not None else None)
