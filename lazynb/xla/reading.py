"""The reader of what XLA writes down, which reads while XLA still compiles.

Its passes over HLO take about a quarter of a compilation; making machine code of the result is the rest, in
which Python only waits. What the passes did is worked out then, so that an inspector costs little beside the
compilation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Sequence

from lazynb.execute.dumps import Dump
from lazynb.xla.clusters import Cluster, find_clusters
from lazynb.xla.cost.kernel_cost import Cost, kernel_costs
from lazynb.xla.hlo.module import Module, parse
from lazynb.xla.hlo.pass_history import PassHistory
from lazynb.xla.hlo.passes import Pass, before_text, read_passes

_INTERVAL = 0.002  # seconds between looks


@dataclasses.dataclass(frozen=True)
class Read:
    """What a dump says.

    Attributes:
      before: HLO before the first pass; empty if XLA wrote none.
      passes: those that changed the module.
      optimised: the module after the last; None if XLA wrote none.
      history: the program's way through the passes; None if it cannot be followed.
      clusters: of the optimised module.
      costs: of the clusters, by name; None if it was not worked out.
    """

    before: str
    passes: Sequence[Pass]
    optimised: Module | None
    history: PassHistory | None
    clusters: list[Cluster] = dataclasses.field(default_factory=list)
    costs: dict[str, Cost] | None = None

    def history_to(self, module: Module) -> PassHistory | None:
        """The history that ends in ``module``, the optimised module as JAX prints it: newer releases print
        parts of results in another way than they dump them."""
        if self.history is None or self.history.last.by_name.keys() == module.by_name.keys():
            return self.history
        return _history(self.before, self.passes, module)


def read(dump: Dump) -> Read:
    """Reads a dump; what cannot be read is absent."""
    try:
        before, passes, text = before_text(dump), read_passes(dump), dump.text("*after_optimizations.txt")
    except OSError:  # the directory vanished meanwhile
        return Read("", [], None, None)
    try:
        optimised = parse(text)
        clusters = find_clusters(optimised)
        costs = None
        if not dump.elsewhere:  # XLA's analysis of another chip's HLO may end the process
            costs = kernel_costs(optimised, [cluster.name for cluster in clusters])
    except ValueError:
        return Read(before, passes, None, None)
    return Read(before, passes, optimised, _history(before, passes, optimised), clusters, costs)


def _history(before: str, passes: Sequence[Pass], optimised: Module) -> PassHistory | None:
    if not before:
        return None
    history = PassHistory(before, passes, optimised)
    try:
        history.lineage  # noqa: B018
    except ValueError:  # a file was cut off
        return None
    return history


class Reading:
    """Reads a dump in a thread, as soon as XLA's passes are done."""

    def __init__(self, dump: Dump):
        self._dump = dump
        self._done = threading.Event()
        self._read: Read | None = None
        self._sizes: dict[str, int] = {}  # of the files that were read
        self._thread = threading.Thread(target=self._follow, name="lazynb-reading", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        """Waits until the passes are done or the compilation is over (it may have failed), and reads."""
        with contextlib.suppress(OSError):  # the directory may vanish meanwhile
            while not self._dump.files("*after_optimizations-*.txt") and not self._done.wait(_INTERVAL):
                pass
            if self._dump.files("*after_optimizations.txt"):
                self._sizes = _sizes(self._dump)
                self._read = read(self._dump)

    def result(self) -> Read:
        """What the dump says. To be asked when the compilation is over."""
        self._done.set()
        self._thread.join()
        sizes = _sizes(self._dump)
        was_partial = bool(sizes) and sizes != self._sizes  # a file was read before all of it was written
        if self._read is None or was_partial:
            self._sizes, self._read = sizes, read(self._dump)
        return self._read


def _sizes(dump: Dump) -> dict[str, int]:
    """Bytes of each file that :func:`read` reads."""
    sizes = {}
    for file in dump.files("*.txt"):
        if "after_optimizations-" not in file.name:
            with contextlib.suppress(OSError):  # it vanished
                sizes[file.name] = file.stat().st_size
    return sizes
