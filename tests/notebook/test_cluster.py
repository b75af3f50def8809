"""Cells on a cluster, without processes: which cells go there, and how outputs and errors become one."""

from __future__ import annotations

import sys

import pytest
from IPython.core.error import UsageError

from lazynb.notebook import extension
from lazynb.notebook.cluster import cluster_engines, rank_process
from lazynb.notebook.cluster.rank_differences import MergedBreaks, RankOutput, as_html, as_text, differences
from lazynb.notebook.cluster.rank_execution import Failure, RanksError, RanksInterrupted
from lazynb.notebook.cluster.rank_outputs import Outputs
from lazynb.notebook.cluster.rank_process import BREAKS, INSPECTION
from lazynb.running.break_log import TraceBreak
from lazynb.user_code.source_lines import Place


class Screen:
    """Notes what would be shown."""

    def __init__(self):
        self.said = []

    def write(self, stream, text):
        self.said.append((stream, text))

    def show(self, shown, is_result):
        self.said.append(("result" if is_result else "display", shown))

    def update(self, content):
        self.said.append(("update", content))

    def clear(self, wait):
        self.said.append(("clear", wait))

    def tell(self, different):
        self.said.append(("others", as_text(different)))


def streamed(text, name="stdout"):
    return "stream", {"name": name, "text": text}


def displayed(text, kind="display_data", display_id="", **more):
    transient = {"display_id": display_id} if display_id else {}
    return kind, {"data": {"text/plain": text, **more}, "metadata": {}, "transient": transient}


def shown(*outputs, ranks=2):
    """What a notebook shows of ``(rank, output)``."""
    screen = Screen()
    merged = Outputs(ranks, screen)
    for rank, output in outputs:
        merged.take(rank, *output)
    merged.close()
    return screen.said


def test_equal_outputs_are_shown_once_and_as_they_come():
    screen = Screen()
    outputs = Outputs(2, screen)
    outputs.take(1, *streamed("1\n"))
    assert screen.said == []
    outputs.take(0, *streamed("1\n"))
    outputs.take(0, *streamed("2\n"))
    assert screen.said == [("stdout", "1\n"), ("stdout", "2\n")]
    outputs.take(1, *streamed("2\n"))
    outputs.close()
    assert len(screen.said) == 2


def test_what_another_rank_prints_is_labelled_and_what_it_does_not_print_left_out():
    said = shown((0, streamed("0\n")), (1, streamed("1\n")), (2, streamed("1\n")), ranks=4)
    assert said == [("stdout", "0\n"), ("others", "ranks 1, 2 printed, unlike rank 0 above:\n  1")]
    assert shown((1, streamed("late\n", "stderr")))[-1] == ("others", "rank 1 wrote to stderr:\n  late")


def test_results_are_rank_0s_and_others_are_told_where_they_differ():
    result = displayed("0", "execute_result", **{"text/html": "<b>0</b>"})
    said = shown((0, result), (1, displayed("1", "execute_result")))
    assert said == [("result", result[1]), ("others", "rank 1 showed, unlike rank 0 above:\n  1")]
    assert len(shown((0, displayed("same")), (1, displayed("same")))) == 1
    at = "<f at 0x7f{}0000>"
    assert len(shown((0, displayed(at.format(1))), (1, displayed(at.format(2))))) == 1
    path = "/tmp/ipykernel_{}/1.py:1: UserWarning: look"
    assert len(shown((0, streamed(path.format(17))), (1, streamed(path.format(18))))) == 1
    took = "{}: step 7 took {}"
    assert (
        len(shown((0, streamed(took.format("a", "3.21 ms"))), (1, streamed(took.format("a", "1.4 s"))))) == 1
    )
    assert (
        len(shown((0, streamed(took.format("a", "3.21 ms"))), (1, streamed(took.format("b", "1.4 s"))))) == 2
    )
    assert len(shown((0, streamed("loss 3.21")), (1, streamed("loss 3.22")))) == 2


def test_progress_bars_are_compared_by_their_final_text():
    bars = [(0, streamed("1 of 2\r")), (0, streamed("2 of 2\n")), (1, streamed("half\r2 of 2\n"))]
    assert [kind for kind, _ in shown(*bars)] == ["stdout", "stdout"]
    updates = [
        (rank, one)
        for rank in (0, 1)
        for one in (
            displayed(f"begun by {rank}", display_id="a"),
            displayed("done", "update_display_data", display_id="a"),
        )
    ]
    assert [kind for kind, _ in shown(*updates)] == ["display", "update"]
    cleared = [(rank, one) for rank in (0, 1) for one in (streamed(f"{rank}"), ("clear_output", {}))]
    assert shown(*cleared)[-1] == ("clear", False)


def test_connection_messages_of_gloo_are_hidden():
    line = "[Gloo] Rank {} is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n"
    assert shown((0, streamed(line.format(0))), (1, streamed(line.format(1) + "2\n")))[0][1] == (
        "rank 1 printed:\n  2"
    )


def test_inspectors_are_not_compared():
    mine = displayed("compiled in 3 ms", **{INSPECTION: {"inspection": {}}})
    other = displayed("compiled in 4 ms", **{INSPECTION: {}})
    assert shown((0, mine), (1, other)) == [("display", mine[1])]


def test_html_of_another_ranks_output_is_escaped_and_long_ones_are_folded():
    (one,) = differences([RankOutput({}, []), RankOutput({"stdout": "\x1b[31m<b>\x1b[0m\n"}, [])])
    assert as_html([one]) == (
        "<details open><summary>rank 1 printed:</summary><pre>&lt;b&gt;</pre></details>"
    )
    (long,) = differences([RankOutput({}, []), RankOutput({"stdout": "line\n" * 50}, [])])
    assert as_html([long]).startswith("<details><summary>")


def a_break(line, **changed):
    fields = {
        "code": "LNB103",
        "kind": "float",
        "location": Place("<cell>", line, f"float(x{line})", 4),
        "ops": 2,
        "compiled": False,
        "seconds": 0.5,
        "hint": "less",
        "count": 1,
        "compiles": 0,
        "text": "float() was called",
        "library": None,
        "compile_seconds": 0.0,
        "detail": "",
    }
    return TraceBreak(**{**fields, **changed})


def written(*breaks):
    class Some(list):
        def to_dicts(self):
            import dataclasses

            return [dataclasses.asdict(one) for one in self]

    return rank_process.written_breaks(Some(breaks))


def test_breaks_of_all_hosts_are_one_table_with_those_first_that_not_all_have():
    mine = displayed("mine", "execute_result", **written(a_break(1), a_break(2, seconds=9.0)))
    other = displayed("other", "execute_result", **written(a_break(2, count=1, seconds=8.0)))
    screen = Screen()
    outputs = Outputs(2, screen)
    outputs.take(0, *mine)
    outputs.take(0, *streamed("after\n"))
    assert screen.said == []  # the other host's are needed
    outputs.take(1, *other)
    (_, table), after = screen.said
    assert after == ("stdout", "after\n") and isinstance(table, MergedBreaks)
    assert [row["hosts"] for row in table.rows()] == ["only 0", "all 2"]
    assert table[1].seconds == {0: 9.0, 1: 8.0} and table.rows()[1]["time"] == "8.00 s to 9.00 s"
    assert table[0].location == Place("<cell>", 1, "float(x1)", 4)
    assert "all 2" in table._repr_html_() and "now" not in table.rows()[0]


def test_breaks_that_come_on_all_hosts_but_not_equally_often_are_among_the_first():
    place = Place("lib.py", 3, "if x:", None)
    table = MergedBreaks(
        {
            0: [a_break(1, seconds=9.0), a_break(3, location=place, library=place, callers=(place,))],
            1: [a_break(1, seconds=9.0), a_break(3, location=place, count=4, ops=8, gone_since=7)],
        },
        2,
    )
    assert [record.everywhere for record in table] == [False, True]
    assert table.rows()[0]["times"] == "1 (host 0), 4 (host 1)" and table[0].gone_since is None
    (back,) = rank_process.breaks_of(written(a_break(3, library=place, callers=(place,)))[BREAKS])
    assert back.library == place and back.callers == (place,)


FAILED = Failure("ZeroDivisionError", "division by zero", ["line 1", "ZeroDivisionError: division by zero"])


def missing(host):
    return Failure("HostMissingError", f"Host {host} waits", [f"HostMissingError: Host {host} waits"])


def test_an_error_is_shown_once_with_its_ranks_and_what_followed_from_it_last():
    error = RanksError({0: missing(0), 1: FAILED, 2: missing(2), 3: FAILED}, 4)
    assert error._render_traceback_() == [
        "On ranks 1, 3 of 4:",
        *FAILED.traceback,
        "On ranks 0, 2 of 4: HostMissingError: Host 0 waits",
    ]
    assert RanksError({0: FAILED, 1: FAILED}, 2)._render_traceback_()[0] == "On all 2 ranks:"
    assert str(RanksError({0: FAILED}, 1)) == "ZeroDivisionError on rank 0 of 1: division by zero"


def test_an_interrupt_names_the_ranks_that_do_not_answer():
    error = RanksInterrupted({0: Failure("KeyboardInterrupt", "", ["here"])}, 2, [1])
    assert isinstance(error, KeyboardInterrupt)
    assert error._render_traceback_()[:2] == ["On rank 0 of 2:", "here"]
    assert "rank 1 does not answer" in error._render_traceback_()[-1]


class FakeCluster:
    def __init__(self):
        self.ran, self.stopped = [], 0

    def run(self, text, number):
        self.ran.append((text, number))

    def stop(self):
        self.stopped += 1

    def __repr__(self):
        return "a cluster"


@pytest.fixture
def routed(notebook):
    (loaded,) = extension._loaded.values()
    loaded.cluster = FakeCluster()
    yield notebook, loaded.cluster
    loaded.cluster = None


def test_cells_run_on_the_cluster_as_typed(routed):
    notebook, cluster = routed
    first = notebook.shell.execution_count
    for cell in ("x = 1\nx", "%%compile A\nx + 1", "# a comment\nawait f()", "!ls"):
        assert notebook.run(cell).result is None
    assert [text for text, _ in cluster.ran] == [
        "x = 1\nx",
        "%%compile A\nx + 1",
        "# a comment\nawait f()",
        "!ls",
    ]
    assert [number for _, number in cluster.ran] == [first, first + 1, first + 2, first + 3]
    assert "x" not in notebook.shell.user_ns


def test_lazynb_magics_and_silent_cells_run_in_the_notebook_process(routed):
    notebook, cluster = routed
    assert "a cluster" in notebook.run("# how it stands\n%lazy cluster\nhere = 3").stdout
    assert notebook["here"] == 3
    notebook.shell.run_cell("look = 1", silent=True)
    notebook.shell.run_cell("quiet = 1", store_history=False)
    assert notebook["look"] == notebook["quiet"] == 1
    notebook.run("def f(:", error=SyntaxError)
    with pytest.raises(UsageError, match="there is one already"):
        notebook.shell.run_line_magic("lazy", "cluster 2")
    assert cluster.ran == []
    notebook.run("%lazy cluster off")
    assert notebook.run("2 + 3").result == 5
    assert cluster.ran == [] and cluster.stopped == 1
    assert "No cluster" in notebook.run("%lazy cluster off").stdout


def test_taking_lazynb_out_ends_the_cluster(routed):
    notebook, cluster = routed
    notebook.run("%unload_ext lazynb")
    assert cluster.stopped == 1 and notebook.run("1 + 1").result == 2
    assert notebook.shell.ast_transformers == []


def test_bad_cluster_arguments_are_refused(notebook, monkeypatch):
    for line, what in {
        "cluster four": "'four' is no number of processes",
        "cluster 0": "'0' is no number of processes",
        "on 4": "go with cluster",
        "--profile x": "go with cluster",
        "cluster --profile no-such-profile": "ipython profile create --parallel",
    }.items():
        with pytest.raises(UsageError, match=what):
            notebook.shell.run_line_magic("lazy", line)
    assert "stands alone" in str(notebook.run("%lazy cluster 2\nx = 1", error=UsageError).error)
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    monkeypatch.setattr(cluster_engines.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install ipyparallel \(or \"lazynb\[cluster\]\"\)"):
        notebook.shell.run_line_magic("lazy", "cluster 2")
    monkeypatch.setattr(rank_process, "joined_cluster", [True])
    with pytest.raises(UsageError, match="this is a process of a cluster"):
        notebook.shell.run_line_magic("lazy", "cluster off")
