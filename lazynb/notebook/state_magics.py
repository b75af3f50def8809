"""The magics that say how things stand: ``%lazy``, ``%graph``, ``%breaks``, ``%cache``."""

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

# ---- How things stand, in one line: what is pending, compiled, hit, missed and broken ---------------------


def status_line(on: bool | None = None, strict: bool | None = None, recorder: str = "") -> str:
    """How things stand, in one line.

    Arguments:
      recorder: what is said of the recorder, after the mode.
      on: whether lazy mode is; None: whether it is in force now, which it never is between two cells.
      strict: whether a trace break is an error; None: whether it is now.
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
    """They run nothing that is pending."""

    @magic_arguments()
    @argument(
        "switch",
        nargs="?",
        choices=["on", "off", "strict", "cluster"],
        help=(
            "switch lazy mode on or off, or on with every trace break an error; cluster: run cells in "
            "several processes; without: say how things stand"
        ),
    )
    @argument(
        "size",
        nargs="?",
        metavar="N | off",
        help="with cluster: start N processes in which cells run from here on, or end them; without: say how "
        "the cluster stands",
    )
    @argument(
        "--profile",
        default=None,
        help="with cluster: take the engines of this ipyparallel profile, or start those that it describes",
    )
    @argument(
        "--for",
        dest="targets",
        metavar="TARGETS",
        default=None,
        help="chips that every %%%%compile from here on compiles for, such as v5e or cpu,h100; "
        "cpu is this machine",
    )
    @line_magic
    def lazy(self, line: str) -> None:
        """Says in one line whether recording is accelerated, what is pending, compiled, hit, missed and
        broken; or switches lazy mode.

        With ``strict`` the first trace break raises and says what to write instead; nothing is run and
        nothing lost. Barriers that were asked for (``lazynb.sync()``, ``block_until_ready()``, ``%%compile``)
        pass. ``%lazy on`` ends it.

        While lazy mode is on, functions such as ``jax.numpy.tanh`` are ones that remember what they recorded.
        They are equal to JAX's own. ``lazynb.config.substitute_names = False`` leaves JAX's own in place:
        everything still works, and takes longer to record. Where lazynb's accelerator was built, calls are
        remembered in C; ``LAZYNB_PURE=1`` in the environment turns it off.

        ``%lazy cluster 4`` starts four processes of this machine with ``jax.distributed`` set up. Cells then
        run in all of them, and rank 0's output is shown, with what others print that differs. Cells that
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
        """Draws what is pending, or what an expression needs: ``%graph`` or ``%graph EXPR``. Runs nothing
        pending.

        EXPR is evaluated in the notebook's namespace; it may be a tensor or any nesting of dicts, lists and
        tuples of them.
        """
        expression = line.strip()
        tensors = [self.shell.ev(expression)] if expression else []
        return graph_of(tensors, self.shell.user_ns)

    @magic_arguments()
    @argument("code", nargs="?", help="explain the breaks of this code or kind, such as LNB103 or float")
    @line_magic
    def breaks(self, line: str) -> Any:
        """Lists the trace breaks so far: line, operations forced, time lost, and how to avoid each.

        With a code or kind: what that break is, a program that has it, and the same program without it.
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
        """Lists the compiled programs with hits and misses, and under them why each was no hit and what would
        make it one.

        ``%cache N`` explains miss N: what was added, removed and changed since the nearest program that was
        cached. ``%cache clear`` forgets all. Runs and compiles nothing.
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
