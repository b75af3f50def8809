"""The public ``Compilation``: the compiled programs of a pending graph, and everything derived from them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazynb.recording.runtime_interface import runtime
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.running.record_table import Records, plural
from lazynb.running.time_log import analysis
from lazynb.user_code.text_format import short_duration
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.compile_times import CompileTimes
from lazynb.xla.cost.kernel_cost import Cost
from lazynb.xla.cost.kernel_profile import Timing
from lazynb.xla.cost.line_work import LineWork, line_work
from lazynb.xla.cost.program_memory import ProgramMemory
from lazynb.xla.cost.total_cost import ZERO_COST, TotalCost
from lazynb.xla.evidence import DEAD, Fate, Finding
from lazynb.xla.flag_text import flag_strings, process_flags
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.fusion.boundary_experiments import NotTestable
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo_text import Hlo
from lazynb.xla.partial_results import (
    ResultsNotRemovable,
    kernel_bytes_written,
    pruned_snapshot,
    without_results,
)
from lazynb.xla.program_findings import ranked_findings
from lazynb.xla.reproducer import ReproducerCase, write_reproducer
from lazynb.xla.result_rows import (
    boundary_row,
    cluster_row,
    collective_row,
    finding_row,
    line_row,
    sharding_row,
)
from lazynb.xla.sharding.collectives import Collective, collectives
from lazynb.xla.sharding.tile_assignment import sharding_svg
from lazynb.xla.sharding.value_shardings import ValueSharding, value_shardings
from lazynb.xla.targets.target_chip import Target

if TYPE_CHECKING:
    from lazynb.xla.jit_equivalent import Counterpart, JitSignature


class Compilation:
    """The compiled programs of a pending graph.

    Creating one runs nothing; a later run uses the programs. A graph that spans several notebook cells has
    one program per cell, in the order of ``traces``. The attributes cover all of them; ``compiled`` and
    ``hlo`` cover the last, which computes the requested values. A compilation made by ``%%compile`` contains
    only the programs of its cell.

    Attributes:
      traces: the programs, in execution order.
      snapshot: the graph that was compiled; ``fates`` uses its node numbers.
      target: the chip that it was compiled for, without being run; None for this machine.
      form: its results, arguments and constants, if it was compiled as ``jax.jit`` of the code would be,
        without being run; None for the program that lazynb runs.
      beside: one line on what JAX itself compiled meanwhile; empty if nothing, or if this was not recorded.
      instead: what to do where there is no program, as a sentence; empty if unknown.
      counterpart: the program that ``jax.jit`` of the same code would run; None if unknown.
      cell: the notebook cell that recorded the graph; None if unknown or not a single cell.
      earlier: pending work of earlier cells that was compiled with it, one compilation per cell.
      runs: how often each program ran before this compilation was made, because of trace breaks in the cell.
      unlisted: number of other programs that the cell ran.
      notes: sentences on what cannot be determined, and why.
      flags: XLA options of a compilation for inspection only; empty for none.
      left_out: names of results that a compilation for inspection leaves out; see :meth:`without`.
    """

    def __init__(
        self,
        traces: Sequence[CompiledProgram],
        snapshot: Snapshot,
        *,
        cell: int | None = None,
        earlier: Sequence[Compilation] = (),
        runs: Sequence[int] = (),
        unlisted: int = 0,
        target: Target | None = None,
        notes: Sequence[str] = (),
        form: JitSignature | None = None,
        asked: Collection[tuple[int, int]] | None = None,
    ):
        self.traces = tuple(traces)
        self.snapshot = snapshot
        self.beside = ""
        self.instead = ""
        self.counterpart: Counterpart | None = None
        self.cell = cell
        self.earlier = tuple(earlier)
        self.runs = tuple(runs) or (0,) * len(self.traces)
        self.unlisted = unlisted
        self.target = target
        self.notes = tuple(notes)
        self.form = form
        self.flags: dict[str, Any] = {}
        self.left_out: tuple[str, ...] = ()
        self._requested_values = asked  # (node, result) pairs that the user asked for; None: unknown
        self._measured_savings: dict[frozenset[str], int] = {}
        self._process_flags = process_flags()

    @property
    def is_run(self) -> bool:
        """Whether a run of the graph uses these programs: they are not for another chip, not as ``jax.jit``
        would be, and have no extra flags and no results left out."""
        return self.target is None and self.form is None and not (self.flags or self.left_out)

    @property
    def all_flags(self) -> dict[str, str] | None:
        """The XLA options of the compilation, as text: those of the process (``XLA_FLAGS``), overridden by
        ``flags``. None if unknown: it was given compiled, or another chip's compiler made it."""
        if self.target is not None or self.cache_event == "given":
            return None
        return {**self._process_flags, **flag_strings(self.flags)}

    @property
    def operations(self) -> int:
        """Number of recorded operations that will run."""
        return sum(trace.operations for trace in self.traces)

    @property
    def cache_event(self) -> str:
        """``hit`` when nothing was compiled, else ``compiled`` or ``disk``; ``given`` for a program that was
        given compiled; empty when nothing was pending."""
        events = [trace.cache_event for trace in self.traces]
        return next((event for event in ("compiled", "disk", "hit", "given") if event in events), "")

    @property
    def compile_seconds(self) -> float:
        """Seconds of lowering, and of compiling or loading."""
        return sum(trace.compile_seconds for trace in self.traces)

    @property
    def compile_times(self) -> list[CompileTimes]:
        """Compile times in seconds, for each of ``traces``: lowering, compiling, and XLA's own timing of its
        stages, passes and kernels. Empty, with the reason in ``why_not``, for a program not compiled here."""
        return [trace.compile_times for trace in self.traces]

    @property
    def line_work(self) -> Records[LineWork]:
        """The compiler's work per line of the user's code, the longest first within each of ``traces``:
        operations, HLO instructions, kernels, and inferred seconds."""
        places = {node.id: node.place for node in self.snapshot.nodes if node.place is not None}
        work = [line for trace in self.traces for line in line_work(trace, places)]
        return Records(work, "no lines", line_row, ranked=True)

    @property
    def compiled(self) -> Any:
        """The last program as ``jax.stages.Compiled``; None when nothing was pending."""
        return self.traces[-1].compiled if self.traces else None

    @property
    def hlo(self) -> Hlo:
        """The last program's text before and after XLA's passes, and the passes."""
        if not self.traces:
            return Hlo("", "")
        return Hlo(self.traces[-1].stablehlo, self.traces[-1].text, self.traces[-1])

    @property
    def clusters(self) -> Records[Cluster]:
        """The clusters (kernels, library calls, ...) of all programs, in execution order."""
        clusters = [cluster for trace in self.traces for cluster in trace.clusters]
        return Records(clusters, "nothing runs", cluster_row)

    @property
    def fates(self) -> dict[int, Fate]:
        """The fate of each operation, exactly one each, by its node number in ``snapshot``."""
        known: dict[int, Fate] = {}
        for trace in self.traces:
            known.update(trace.fates)
        return {node.id: known.get(node.id, DEAD) for node in self.snapshot.nodes if node.kind == "op"}

    @property
    def boundaries(self) -> Records[Boundary]:
        """The arrays that one cluster writes and another reads, each with the reason against fusing the
        two."""
        boundaries = [boundary for trace in self.traces for boundary in trace.boundaries]
        return Records(boundaries, "no boundaries", boundary_row)

    @property
    def findings(self) -> Records[Finding]:
        """Notable findings, a sentence each, the most bytes first: arrays that go through memory and why,
        operations that several kernels compute, values that only a variable name keeps alive, updates
        that copy their operand first, and tile padding. Empty if nothing is notable."""
        all_ = ranked_findings(
            self.traces, self.snapshot, self._requested_values, self.runs, self._measured_savings
        )
        return Records(all_, "nothing stands out", finding_row, ranked=True)

    @property
    def collectives(self) -> Records[Collective]:
        """The collectives on a mesh (all-reduce, all-gather, ...), each with its line, mesh axes, bytes per
        device, and the reason for it."""
        layout = self.target.layout if self.target is not None else None
        found = [one for trace in self.traces for one in collectives(trace, self.snapshot, layout)]
        return Records(found, "no collectives", collective_row)

    @property
    def shardings(self) -> Records[ValueSharding]:
        """The sharding of each value on a mesh: its spec, the tile of one device, bytes there and on all
        devices, and where the sharding changes. Empty for programs on one device.

        The source is XLA. The compiled program gives the shardings of inputs and results; the module after
        the pass ``shardy-xla`` gives those of inner values. Values for which XLA gives none are left out. If
        the passes were not dumped at compilation, inner values are missing until ``hlo.passes`` is read.
        """
        layout = self.target.layout if self.target is not None else None
        found = value_shardings(self.traces, self.snapshot, layout)
        return Records(
            found,
            "no shardings: on one device, or not known",
            sharding_row,
            ranked=True,
            drawing=lambda one: sharding_svg(one.tiling),
        )

    @property
    def cost(self) -> list[Cost | None]:
        """Cost of one execution of each of ``clusters``, in their order, by XLA's own analysis."""
        return [trace.costs.get(cluster.name) for trace in self.traces for cluster in trace.clusters]

    @property
    def total_cost(self) -> TotalCost:
        """Cost of one run of all programs, where each kernel counts as often as it runs. Unknown figures (the
        iterations of a ``while_loop``) have bounds."""
        return sum((trace.total for trace in self.traces), start=ZERO_COST)

    @property
    def memory(self) -> ProgramMemory | None:
        """Memory of the last program; None when nothing was pending."""
        return self.traces[-1].memory if self.traces else None

    @analysis
    def profile(self, runs: int = 5) -> list[Timing | None]:
        """Runs each program ``runs`` times on its inputs, and measures its kernels.

        The user's values, breaks and caches stay untouched. Synthetic inputs replace missing ones.

        Returns: seconds per run for each of ``clusters``, in their order; None for a branch not taken.

        Raises:
          InputsGone: an input no longer exists and cannot be replaced.
          ProfilerBusy: another profile is being taken.
        """
        for trace in self.traces:
            trace.profile(runs)
        return [trace.times.get(cluster.name) for trace in self.traces for cluster in trace.clusters]

    @analysis
    def ask(self, most: int = 8) -> Records[Boundary]:
        """Compiles again with XLA's fusion decisions logged; the boundaries then have the compiler's reasons.

        XLA:TPU gives positions in its source instead, and XLA:GPU does not log every pair. Then the program
        is compiled again without each likely cause in turn: a variable that keeps the value, a second reader,
        the layouts of arguments and results, the precision of products, the rest of the program. The
        ``verdict`` of a boundary names the experiments.

        Arguments:
          most: so many boundaries are tested in this way, the largest first. Each takes several compilations.

        Raises:
          DumpUnavailable: there is no place to write the dump.
        """
        for trace in self.traces:
            trace.ask(most)
        return self.boundaries

    @analysis
    def verify(self, boundary: Boundary) -> Boundary:
        """Tests one of ``boundaries``: compiles again without its supposed cause. Runs nothing.

        Returns: the boundary with the verdict.

        Raises:
          NotTestable: no experiment exists for its reason, or for this program.
        """
        trace = next((trace for trace in self.traces if boundary in trace.boundaries), None)
        if trace is None:
            raise NotTestable(
                "this is no boundary of this compilation (a newer one may have taken its place: see "
                "boundaries)"
            )
        return trace.verify(boundary)

    @analysis
    def without(self, *names: str) -> Compilation:
        """Compiles the programs as if the variables ``names`` had been deleted before the run, for
        inspection: ``lazynb.diff(c, c.without("h"))``. Runs nothing and leaves the caches untouched.

        Raises:
          ResultsNotRemovable: no result has such a name, nothing else is a result, or the program was not
            recorded for this machine.
        """
        others = {
            number: without_results(trace, self.snapshot, names) for number, trace in enumerate(self.traces)
        }
        if not any(others.values()):
            raise ResultsNotRemovable(
                f"no result of these programs is called {' or '.join(names) or 'nothing'}"
            )
        traces = [others[number] or trace for number, trace in enumerate(self.traces)]
        self._measured_savings[frozenset(names)] = kernel_bytes_written(self.traces) - kernel_bytes_written(
            traces
        )
        made = Compilation(
            traces,
            pruned_snapshot(self.snapshot, traces),
            cell=self.cell,
            earlier=self.earlier,
            runs=self.runs,
            notes=(
                f"Compiled as if {', '.join(f'`{name}`' for name in names)} were deleted; nothing runs it.",
            ),
        )
        made.left_out = names
        return made

    def reproducer(
        self, path: str | os.PathLike[str], question: str = "", *, save_inputs: bool = False
    ) -> Path:
        """Writes a Python file that compiles the same programs with JAX alone, for an XLA issue.

        The file contains the StableHLO, XLA's flags, the versions, the question, and each kernel with its
        lines of code. When run, it prints the kernels (``--hlo``: the optimised HLO) and compares them with
        those that lazynb saw; exit status 1 means they differ. Writing it runs nothing.

        Arguments:
          path: the file; an existing one is overwritten.
          question: the question to its reader: "why two kernels?"
          save_inputs: include the values of the inputs, in a second file (``.npz``) if they are large.
            Otherwise a run uses normal random numbers, and zeros for integers.

        Returns: the path.

        Raises:
          NotReproducible: JAX alone cannot compile it: it is for a chip that is not here, was given compiled,
            or calls back into Python.
          InputsGone: an input to be saved no longer exists or is not computed yet.
          OSError: the file cannot be written.
        """
        case = ReproducerCase(self.traces, self.snapshot, self.target, question, self.flags)
        return write_reproducer(case, path, save_inputs)

    def __repr__(self) -> str:
        if not self.traces:
            return "Compilation(nothing pending)"
        event = self.cache_event
        if event == "given":  # compiled elsewhere: neither time nor run is shown
            return f"Compilation({plural(self.operations, 'operation')}, given compiled)"
        time = short_duration(self.compile_seconds)
        if self.form is not None:
            event += " as jax.jit"
        if self.target is not None:
            event += f" for {self.target.title}"
        if self.flags:
            event += f" with {plural(len(self.flags), 'flag')}"
        if not self.is_run:
            event += ", not run"
        return f"Compilation({plural(self.operations, 'operation')}, {event}, {time})"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return runtime().displays.compilation_bundle(self)

    def save_html(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Writes the inspector as one HTML file that works offline.

        Raises:
          OSError: the file cannot be written.
        """
        return runtime().displays.save_html(self, path, title)

    def save_json(self, path: str | os.PathLike[str]) -> Path:
        """Writes the inspection as JSON, for :func:`lazynb.inspect` and :func:`lazynb.diff`.

        Raises:
          OSError: the file cannot be written.
        """
        return runtime().displays.save_json(self, path)

    def to_svg(self, figure: str = "graph") -> str:
        """Draws a figure for slides, as a stand-alone SVG document.

        Arguments:
          figure: ``graph``, the graph in the colours of its kernels; ``fusion``, the kernels and the arrays
            between them; ``memory``, the values alive at each step.

        Raises:
          NoFigure: there is nothing to draw, or too much to be readable.
          LayoutUnavailable: ``graph`` and ``fusion`` need a layout engine, and none is available.
        """
        return runtime().displays.to_svg(self, figure)
