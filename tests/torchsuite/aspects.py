"""What is compared of an operation: values, those written in place and to ``out``, gradients, errors.

Each aspect is a function of an operation, a dtype and the number of samples, which returns a :class:`Found`.
The samples of an operation are recorded together, and run as one program where nothing breaks the trace.
Every other sample is pending when the operation takes it, so that nothing can be known of its values.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import lazynb
from torchsuite.comparing import chosen, difference, strides
from torchsuite.operations import call_of, copied, moved, samples, spread, tensors


@dataclass
class Found:
    """What was found of one aspect of an operation.

    Attributes:
      samples: how many were compared.
      failures: for each sample that differs, how.
      strides: the same of strides alone.
      breaks: what fell back to the CPU.
    """

    samples: int = 0
    failures: list[str] = field(default_factory=list)
    strides: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What a call gave: a result, or an exception."""

    result: Any = None
    error: Exception | None = None

    @staticmethod
    def of(call: Callable[[], Any]) -> Outcome:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Outcome(call())
        except Exception as error:
            return Outcome(error=error.with_traceback(None))


def _compared(pairs: list[tuple[Outcome, Outcome]], comparison: str) -> Found:
    """Outcomes of the CPU beside those of device ``jax``."""
    found = Found()
    with contextlib.suppress(Exception):
        lazynb.sync([tensors(got.result) for _, got in pairs])
    for wanted, got in pairs:
        found.samples += 1
        failure = _difference(wanted, got, comparison)
        if failure:
            found.failures.append(failure)
        elif wanted.error is None and (said := strides(got.result, wanted.result)):
            found.strides.append(said)
    found.breaks = sorted({one.detail for one in lazynb.breaks() if one.kind in ("unrecordable", "static")})
    lazynb.clear_cache()
    return found


def _difference(wanted: Outcome, got: Outcome, comparison: str) -> str | None:
    if wanted.error is not None:
        if got.error is None:
            read = Outcome.of(lambda: [x.cpu() for x in tensors(got.result)])
            got = Outcome(got.result, read.error)
        return _error_difference(got.error, wanted.error)
    if got.error is not None:
        return said(got.error)
    read = Outcome.of(lambda: difference(got.result, wanted.result, comparison))
    return read.result if read.error is None else f"when read: {said(read.error)}"


def said(error: Exception | None) -> str:
    """An exception in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _error_difference(got: Exception | None, wanted: Exception) -> str | None:
    if got is None:
        return f"no error in place of {said(wanted)}"
    return None if isinstance(got, type(wanted)) else f"{said(got)} in place of {said(wanted)}"


def _run(function: Any, call: Any) -> Any:
    given, args, kwargs = call
    return function(given, *args, **kwargs)


# ---- the aspects -------------------------------------------------------------------------------------------


def values(operation: Any, dtype: torch.dtype, most: int, comparison: str = "values") -> Found:
    """What the operation returns. What PyTorch itself says of results that are not determined (signs of
    eigenvectors) is heeded: its ``output_process_fn_grad`` keeps what is."""
    pairs = []
    with lazynb.lazy():
        for at, sample in enumerate(samples(operation, dtype, most)):

            def processed(call: Any, process: Any = sample.output_process_fn_grad) -> Any:
                result = process(_run(operation.op, call))
                return chosen(call[0], result) if comparison == "choices" else result

            call = call_of(sample)
            there = moved(call, at % 2 == 1)
            pairs.append(_pair(processed, copied(call), there))
        return _compared(pairs, comparison)


def _pair(function: Any, here: Any, there: Any) -> tuple[Outcome, Outcome]:
    torch.manual_seed(1)
    wanted = Outcome.of(lambda: function(here))
    torch.manual_seed(1)
    return wanted, Outcome.of(lambda: function(there))


def inplace(operation: Any, dtype: torch.dtype, most: int, comparison: str = "values") -> Found:
    """What the variant that overwrites its input returns and leaves there."""
    function = operation.get_inplace()
    if function is None:
        return Found()
    pairs = []
    with lazynb.lazy():
        for at, sample in enumerate(samples(operation, dtype, most)):
            if sample.broadcasts_input:
                continue
            call = call_of(sample)
            there = moved(call, at % 2 == 1)
            pairs.append(_pair(lambda given: (_run(function, given), given[0]), copied(call), there))
        return _compared(pairs, comparison)


def out(operation: Any, dtype: torch.dtype, most: int, comparison: str = "values") -> Found:
    """What is written to ``out``, tensors of the right size or of none."""
    if not operation.supports_out:
        return Found()
    pairs = []
    with lazynb.lazy():
        for at, sample in enumerate(samples(operation, dtype, most)):
            call = call_of(sample)
            result = Outcome.of(lambda: _run(operation.op, copied(call))).result  # noqa: B023
            targets = tensors(result)
            if not targets:
                continue
            empty = [_target(x, at % 3 == 2) for x in targets]
            there = moved(call, at % 2 == 1)

            def written(given: Any, process: Any = sample.output_process_fn_grad) -> Any:
                (x, *_), *_ = given
                written = process(_written(operation.op, *given))
                return chosen(x, written) if comparison == "choices" else written

            here = copied(call), empty, result
            pairs.append(_pair(written, here, (there, moved(empty, False), result)))
        return _compared(pairs, comparison)


def _target(x: torch.Tensor, is_empty: bool) -> torch.Tensor:
    """A tensor to which what ``x`` is shall be written, if ``is_empty`` one that has to be resized."""
    is_dense = x.layout is torch.strided  # of no size there is no sparse one
    return x.new_empty(0) if is_empty and is_dense else torch.zeros_like(x)


def _written(function: Any, call: Any, targets: list[Any], result: Any) -> Any:
    given, args, kwargs = call
    place: Any = targets[0] if isinstance(result, torch.Tensor) else tuple(targets)
    function(given, *args, **kwargs, out=place)
    return place


def gradients(operation: Any, dtype: torch.dtype, most: int, comparison: str = "values") -> Found:
    """Gradients of the sum of the results, and of a weighted sum."""
    if not operation.supports_autograd or dtype not in operation.supported_backward_dtypes("cpu"):
        return Found()
    pairs = []
    with lazynb.lazy():
        for at, sample in enumerate(samples(operation, dtype, most, requires_grad=True)):

            def differentiated(call: Any, process: Any = sample.output_process_fn_grad) -> Any:
                return _gradients(lambda: process(_run(operation.op, call)), call)

            call = call_of(sample)
            there = moved(call, at % 2 == 1)
            wanted, got = _pair(differentiated, copied(call), there)
            if wanted.error is None:
                pairs.append((wanted, got))
        return _compared(pairs, comparison)


def _gradients(function: Callable[[], Any], call: Any) -> Any:
    inputs = [x for x in tensors(call) if x.requires_grad]
    outputs = [x for x in tensors(function()) if x.requires_grad]
    if not inputs or not outputs:
        return []
    plain = torch.autograd.grad(_sum(outputs), inputs, allow_unused=True, retain_graph=True)
    weights = [_weights(x) for x in outputs]
    return plain, torch.autograd.grad(outputs, inputs, weights, allow_unused=True)


def _sum(outputs: list[Any]) -> Any:
    sums = [x.sum() for x in outputs]
    return sum(x.real + x.imag if x.is_complex() else x for x in sums)


def _weights(x: Any) -> Any:
    numbers = torch.linspace(-1, 1, x.numel()).cos().sub(0.4).reshape(x.shape)
    return numbers.to(x.device).to(x.dtype)


def errors(operation: Any, dtype: torch.dtype, most: int, comparison: str = "values") -> Found:
    """The exceptions for wrong arguments, which PyTorch has a list of (``error_inputs``): their types, and
    their texts where that of the CPU is as the list says."""
    found = Found()
    if operation.error_inputs_func is None:
        return found
    torch.manual_seed(0)
    for at, wrong in enumerate(spread(list(operation.error_inputs("cpu")), max(most, 64))):
        call = call_of(wrong.sample_input)
        wanted = Outcome.of(lambda: _run(operation.op, copied(call))).error  # noqa: B023
        if not isinstance(wanted, wrong.error_type):
            continue
        found.samples += 1
        failure = _wrong_error(operation, call, at % 2 == 1, wanted, wrong)
        if failure:
            found.failures.append(failure)
    lazynb.clear_cache()
    return found


def _wrong_error(operation: Any, call: Any, pending: bool, wanted: Exception, listed: Any) -> str | None:
    def read() -> Any:
        with lazynb.lazy():
            result = _run(operation.op, moved(call, pending))
            lazynb.sync(tensors(result))
            return [x.cpu() for x in tensors(result)]

    got = Outcome.of(read).error
    if got is None or not isinstance(got, listed.error_type):
        return _error_difference(got, wanted) or f"{said(got)} in place of {said(wanted)}"
    pattern = listed.error_regex
    if re.search(pattern, str(wanted)) and not re.search(pattern, str(got)):
        return f"{said(got)} in place of {said(wanted)}"
    return None


ASPECTS = {"values": values, "inplace": inplace, "out": out, "gradients": gradients, "errors": errors}
