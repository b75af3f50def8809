"""The two questions of ``%%predict``: which lines share a kernel, and which lines are in a kernel."""

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
    """The question which lines share a kernel.

    Attributes:
      groups: the user's answer, groups of line numbers; None to ask with a form.
    """

    groups: list[set[int]] | None

    def question(self, compilation: Compilation) -> Any:
        """The object to display: the checked answer, or the form or text that asks for one."""
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
    """The question which lines are in a kernel.

    Attributes:
      label: label of the kernel; empty for the kernel with most lines.
      lines: the user's answer, line numbers; None to ask with a form.
    """

    label: str
    lines: set[int] | None

    def question(self, compilation: Compilation) -> Any:
        """See :meth:`SharedKernels.question`."""
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
    """The question that the options of the magic's line select.

    Raises:
      BadPrediction: the groups are invalid.
    """
    words = " ".join(options.groups)
    if options.kernel is None:
        return SharedKernels(parse_groups(words) if words else None)
    label = options.kernel
    if label and not _LABEL.fullmatch(label):  # --kernel 2-3 gives lines without a label
        label, words = "", f"{label} {words}".strip()
    groups = parse_groups(words) if words else None
    if groups is not None and len(groups) > 1:
        raise BadPrediction("with --kernel, the lines of one kernel: write 2-4 7, without |")
    return KernelLines(label, groups[0] if groups is not None else None)
