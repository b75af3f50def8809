"""Writes a reproducer: a compilation as one Python file that needs JAX alone, for an issue of XLA or JAX.

The file contains StableHLO rather than the jaxpr as JAX code. StableHLO is XLA's input, so it gives the same
kernels again, independent of JAX's lowering in another release.
"""

from __future__ import annotations

import base64
import inspect
import os
import platform
import pprint
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jaxlib
import numpy as np

from lazynb import jax_compat as jc
from lazynb.errors import LazynbError
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.version import __version__
from lazynb.xla import reproducer_script
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.hlo.clusters import CONTROL, FREE, Cluster
from lazynb.xla.targets.target_chip import Target


class NotReproducible(LazynbError):
    """No file can compile this program again with JAX alone; the message says why."""


class ReproducerCase(NamedTuple):
    """The contents of a reproducer.

    Attributes:
      traces: the programs.
      snapshot: their graph.
      target: the chip of the compilation; None for this machine.
      question: the question to the reader of the file.
      flags: XLA options of the compilation.
    """

    traces: Sequence[CompiledProgram]
    snapshot: Snapshot
    target: Target | None
    question: str
    flags: Mapping[str, Any]


def write_reproducer(case: ReproducerCase, path: str | os.PathLike[str], save_inputs: bool = False) -> Path:
    """Writes the file, and a second one with the inputs if these are large.

    Arguments:
      save_inputs: include the values of the inputs; otherwise a run makes up values of the same types.

    Raises:
      NotReproducible: JAX alone cannot compile it.
      InputsGone: an input to be saved no longer exists.
      OSError: the file cannot be written.
    """
    _check(case)
    target = Path(path)
    saved = _SavedInputs(target.with_suffix(".npz"), save_inputs)
    programs = [_program(trace, case.snapshot, saved) for trace in case.traces]
    target.write_text(_text(case, programs, saved), encoding="utf-8")
    saved.write()
    return target


def _check(case: ReproducerCase) -> None:
    if case.target is not None:
        raise NotReproducible(
            f"this was compiled for {case.target.title}, and JAX has its compiler only on a machine with "
            "that chip: lazynb.compile(...).reproducer() writes the file there. Its StableHLO is "
            "compilation.hlo.before"
        )
    if not case.traces:
        raise NotReproducible("nothing was compiled, so there is nothing to reproduce")


_CALLBACK = re.compile(r"@xla_\w*python\w*_callback")


def _program(trace: CompiledProgram, snapshot: Snapshot, saved: _SavedInputs) -> dict[str, Any]:
    if not trace.stablehlo:
        raise NotReproducible(
            "this program was given compiled, and its StableHLO is not in it: "
            "lazynb.inspect(jax.jit(f).lower(...)) has both"
        )
    if not trace.text:
        raise NotReproducible("the backend gives no optimised HLO, so there are no kernels to compare")
    module = jc.StableHlo(trace.stablehlo)
    text = module.text(locations=False)
    if _CALLBACK.search(text):
        raise NotReproducible("it calls back into Python, and the function called is no part of the program")
    lowered = trace.lowered()
    lowering = jc.lowering_of(lowered) if lowered is not None and module.devices > 1 else None
    if lowering is None and module.devices > 1:
        raise NotReproducible("it is for several devices, and the file that it came from does not say enough")
    return {
        "about": _program_summary(trace),
        "stablehlo": text,
        "devices": module.devices,
        "free_arguments": list(lowering.propagate_input_shardings) if lowering is not None else [],
        "free_results": list(lowering.propagate_result_shardings) if lowering is not None else [],
        "arguments": saved.arguments(trace, module),
        "kernels": reproducer_script.kernel_signatures(trace.text, FREE, CONTROL),
        "seen": [
            _kernel_summary(trace, cluster, snapshot) for cluster in trace.clusters if cluster.is_kernel
        ],
    }


def _program_summary(trace: CompiledProgram) -> str:
    kernels = sum(cluster.is_kernel for cluster in trace.clusters)
    return f"{trace.operations:,} operations, {kernels:,} kernel{'s' * (kernels != 1)}"


def _kernel_summary(trace: CompiledProgram, cluster: Cluster, snapshot: Snapshot) -> str:
    """A kernel as lazynb shows it, with the user's lines in it."""
    lines: dict[str, None] = {}
    for node in trace.nodes_of(cluster):
        place = snapshot.nodes[node].place
        if place is not None:
            lines[f"{place.label}: {place.text}"] = None
    inside = f" in {cluster.inside}" if cluster.inside else ""
    kind = f"{cluster.kind}{f' ({cluster.library})' if cluster.library else ''}"
    return f"{cluster.name}{inside}, {kind}: {' | '.join(lines) or 'of no line'}"


# ---- Inputs ------------------------------------------------------------------------------------------------


class _SavedInputs:
    """The saved inputs: small ones in the file itself, others in a NumPy file beside it.

    Arguments:
      beside: the path of the NumPy file.
      wanted: whether values are saved at all.
    """

    def __init__(self, beside: Path, wanted: bool):
        self.beside = beside
        self.arrays: dict[str, np.ndarray] = {}
        self._wanted = wanted
        self._written = 0  # characters in the file itself

    def arguments(
        self, trace: CompiledProgram, module: jc.StableHlo
    ) -> list[tuple[str, tuple[int, ...], Any]]:
        """Dtype, shape and value of each argument of a program. A value is None, base64 text, or the number
        of an array in the NumPy file."""
        try:
            types = module.argument_types
        except (ValueError, KeyError) as error:
            raise NotReproducible(f"its arguments cannot be written down: {error}") from None
        if not self._wanted:
            return [(dtype, shape, None) for dtype, shape in types]
        values, lowered = trace.arguments(), trace.lowered()
        if lowered is not None:
            values = [values[number] for number in jc.kept_arguments(lowered)]
        return [
            (dtype, shape, self._save(_bytes(value, dtype)))
            for (dtype, shape), value in zip(types, values, strict=True)
        ]

    def _save(self, data: bytes) -> str | int:
        packed = base64.b64encode(zlib.compress(data)).decode()
        if self._written + len(packed) <= _IN_FILE:
            self._written += len(packed)
            return packed
        number = len(self.arrays)
        self.arrays[str(number)] = np.frombuffer(data, np.uint8)
        return number

    def write(self) -> None:
        if self.arrays:
            with open(self.beside, "wb") as file:
                np.savez_compressed(file, **self.arrays)  # type: ignore[arg-type]


_IN_FILE = 64 << 10  # characters


def _bytes(value: Any, dtype: str) -> bytes:
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.ascontiguousarray(np.asarray(value).astype(jax.numpy.dtype(dtype), copy=False)).tobytes()


# ---- Text of the file --------------------------------------------------------------------------------------

_HEAD = '''"""{title}

Written by lazynb {version}; it needs JAX alone. It compiles what lazynb saw compiled, prints the kernels, and
ends with 1 if they are others than those that lazynb saw, which are these:

{seen}

Options: --hlo prints the optimised HLO; --run runs the program once, and says what the results are.
"""
'''


def _text(case: ReproducerCase, programs: Sequence[dict[str, Any]], saved: _SavedInputs) -> str:
    asked = case.question or "What does XLA make of this program?"
    question = asked.encode("utf-8", "replace").decode()  # an unpaired surrogate cannot be encoded
    seen = "\n".join(f"  {line}" for program in programs for line in program["seen"])
    head = _HEAD.format(title=_in_docstring(question), version=__version__, seen=_in_docstring(seen))
    constants, described = [], []
    for number, program in enumerate(programs, 1):
        constants.append(f"STABLEHLO_{number} = {_quoted(program['stablehlo'])}")
        named = {**program, "stablehlo": _VerbatimName(f"STABLEHLO_{number}")}
        described.append({name: value for name, value in named.items() if name != "seen"})
    data = {
        "question": question,
        "versions": _versions(case.traces[0].platform),
        "environment": {name: os.environ[name] for name in ("XLA_FLAGS",) if os.environ.get(name)},
        "settings": _changed_jax_settings(
            case.traces[0].platform, max(program["devices"] for program in programs)
        ),
        "beside": saved.beside.name if saved.arrays else "",
        "flags": dict(case.flags),
        "free": sorted(FREE),
        "control": sorted(CONTROL),
        "programs": described,
    }
    body = inspect.getsource(reproducer_script).split('"""', 2)[2].lstrip("\n")
    case_text = f"CASE = {pprint.pformat(data, width=110, compact=True, sort_dicts=False)}"
    return "\n\n".join(
        [head, *constants, case_text, body, 'if __name__ == "__main__":\n    run_and_exit(CASE)\n']
    )


def _in_docstring(text: str) -> str:
    """Escapes text for a docstring: source code cannot contain a NUL, and control characters are
    invisible."""
    escaped = text.replace("\\", "\\\\").replace('"""', "'''")
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in escaped)


class _VerbatimName(str):
    """A name printed without quotes in the data."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _quoted(text: str) -> str:
    """``text`` as a Python literal, line for line where possible."""
    if "'''" in text or "\r" in text or text.endswith(("'", "\\")):
        return repr(text)
    return f"r'''\n{text.rstrip()}\n'''"


def _versions(chip: str) -> dict[str, Any]:
    return {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "platform": chip,
        "cores": os.cpu_count(),
    }


_SETTINGS = {
    "jax_use_shardy_partitioner": True,
    "jax_optimization_level": "UNKNOWN",
    "jax_memory_fitting_level": "O2",
    "jax_exec_time_optimization_effort": 0.0,
    "jax_memory_fitting_effort": 0.0,
    "jax_disable_most_optimizations": False,
    "jax_enable_remat_opt_pass": True,
}
"""JAX settings that are compile options, with JAX's defaults."""


def _changed_jax_settings(chip: str, devices: int) -> dict[str, Any]:
    settings = {}
    for name, usual in _SETTINGS.items():
        try:
            value = jax.config.read(name)
        except (AttributeError, KeyError):  # a setting of another JAX release
            continue
        if value != usual:
            settings[name] = value
    if chip == "cpu" and devices > 1 and "device_count" not in os.environ.get("XLA_FLAGS", ""):
        settings["jax_num_cpu_devices"] = devices
    return settings
