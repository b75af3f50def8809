"""The magics that show or switch lazynb's state: ``%lazy``, ``%graph``, ``%breaks``, ``%cache``."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from lazynb.compare.misses.cache_info import cache_info, clear_cache
from lazynb.notebook.cell_execution import ShellMagics
from lazynb.notebook.compile_request import targets_of
from lazynb.recording.break_reasons import find
from lazynb.recording.lazy_mode import is_lazy
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay.native_replay import describe
from lazynb.report.graph.lazy_graph import graph_of
from lazynb.report.miss_report import explained_miss
from lazynb.running.break_log import breaks
from lazynb.running.flush import execution
from lazynb.running.record_table import plural
from lazynb.running.run_statistics import recording_share
from lazynb.user_code.text_format import duration

# ---- The status line ---------------------------------------------------------------------------------------


def status_line(on: bool | None = None, strict: bool | None = None, recorder: str = "") -> str:
    """Mode, pending operations, executables, cache hits and misses, and trace breaks, in one line.

    Arguments:
      on: whether lazy mode is on; None for the mode of the current thread, which is off between cells.
      strict: whether trace breaks raise; None for the current setting.
      recorder: description of the recorder, printed after the mode.
    """
    if on is None:
        on = is_lazy()
    if strict is None:
        strict = execution.local.strict
    mode = "lazy mode is off"
    if on:
        mode = "lazy mode is on (strict)" if strict else "lazy mode is on"
    if recorder:
        mode += f", {recorder}"
    info, broken = cache_info(), breaks()
    executables = plural(len(info), "executable")
    if info and info.memory:
        executables += f" ({info.memory} of heap, measured)"
    trace_breaks = plural(broken.total, "trace break")
    if broken.seconds:
        trace_breaks += f" ({duration(broken.seconds)} lost)"
    parts = [
        mode,
        plural(sum(len(trace) for trace in thread_trace().all_pending()), "operation") + " pending",
        executables,
        plural(info.hits, "hit"),
        plural(info.misses, "miss"),
        trace_breaks,
    ]
    hint = recording_share().hint
    if hint:
        parts.append(hint)
    return " · ".join(parts)


@magics_class
class StateMagics(ShellMagics):
    """Magics that never run pending operations."""

    @magic_arguments()
    @argument(
        "switch",
        nargs="?",
        choices=["on", "off", "strict", "cluster"],
        help=(
            "on, off: switch lazy mode; strict: lazy mode in which each trace break is an error; cluster: "
            "run cells in several processes; without: show the state"
        ),
    )
    @argument(
        "size",
        nargs="?",
        metavar="N | off",
        help="with cluster: start N processes in which cells run from here on, or end them; without: show "
        "the state of the cluster",
    )
    @argument(
        "--profile",
        default=None,
        help="with cluster: use the running engines of this ipyparallel profile, or start its engines",
    )
    @argument(
        "--for",
        dest="targets",
        metavar="TARGETS",
        default=None,
        help="default chips of %%%%compile from here on, such as v5e or cpu,h100; cpu is this machine",
    )
    @line_magic
    def lazy(self, line: str) -> None:
        """Shows in one line whether recording is accelerated, and the numbers of pending operations,
        executables, cache hits, misses and trace breaks; or switches lazy mode.

        With ``strict`` the first trace break raises an error that says what to write instead. Nothing runs,
        and pending operations stay pending. Explicit barriers (``lazynb.sync()``, ``block_until_ready()``,
        ``%%compile``) are allowed. ``%lazy on`` ends strict mode.

        While lazy mode is on, functions such as ``jax.numpy.tanh`` are replaced by ones that remember what
        they recorded and compare equal to JAX's. ``lazynb.config.substitute_names = False`` keeps JAX's own
        functions: all still works, but recording takes longer. Where lazynb's accelerator was built, calls
        are remembered in C; ``LAZYNB_PURE=1`` in the environment turns it off.

        ``%lazy cluster 4`` starts four processes on this machine with ``jax.distributed`` set up. Cells then
        run in all of them. The output of rank 0 is shown, with output of other ranks that differs. Cells that
        begin with ``%lazy cluster`` or ``%%px`` run in the notebook's own process.
        """
        options = parse_argstring(self.lazy, line)
        switch = options.switch
        if switch != "cluster" and (options.size is not None or options.profile is not None):
            raise UsageError("%lazy: a number of processes and --profile go with cluster: %lazy cluster 4")
        if switch == "cluster":
            from lazynb.notebook.cluster.cluster_session import command

            return command(self._extension, options.size, options.profile)
        if options.targets is not None:
            self._extension.targets = targets_of(options.targets)
        if switch is not None:
            self._extension.switch(switch != "off", switch == "strict")
        print(status_line(recorder=describe()))

    @line_magic
    def graph(self, line: str) -> Any:
        """Draws all pending operations (``%graph``), or those that an expression needs (``%graph EXPR``).
        Runs nothing pending.

        EXPR is evaluated in the notebook's namespace. Its value is a tensor, or nested dicts, lists and
        tuples of tensors.
        """
        expression = line.strip()
        tensors = [self.shell.ev(expression)] if expression else []
        return graph_of(tensors, self.shell.user_ns)

    @magic_arguments()
    @argument("code", nargs="?", help="explain the breaks of this code or kind, such as LNB103 or float")
    @line_magic
    def breaks(self, line: str) -> Any:
        """Lists the trace breaks so far: line, operations forced, time lost, and how to avoid each.

        With a code or kind: explains that break, with a program that has it and the same program without it.
        """
        code = parse_argstring(self.breaks, line).code
        if code is None:
            return breaks()
        try:
            return find(code)
        except ValueError as error:
            raise UsageError(f"%breaks: {error}") from None

    @magic_arguments()
    @argument(
        "what",
        nargs="?",
        metavar="N | clear",
        help="N: explain the miss of that number, drawn on the graph; "
        "clear: forget executables, events and breaks",
    )
    @line_magic
    def cache(self, line: str) -> Any:
        """Lists the compiled programs with hits and misses; below, the reason of each miss and how to make it
        a hit.

        ``%cache N`` explains miss N: what was added, removed and changed compared with the nearest cached
        program. ``%cache clear`` forgets executables, events and breaks. Runs and compiles nothing.
        """
        what = parse_argstring(self.cache, line).what
        if what is None:
            return cache_info()
        if what == "clear":
            clear_cache()
            print(status_line())
            return None
        try:
            number = int(what)
        except ValueError:
            raise UsageError(f"%cache: takes the number of a miss, or clear, not {what!r}") from None
        try:
            return explained_miss(number)
        except ValueError as error:
            raise UsageError(f"%cache: {error}") from None
