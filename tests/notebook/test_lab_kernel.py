"""The kernel's side of the JupyterLab extension: a real kernel, and a client that speaks as the page does."""

from __future__ import annotations

import os
import queue
import time

import pytest

from lazynb.notebook.lab_session import _SOON

jupyter_client = pytest.importorskip("jupyter_client")

pytestmark = pytest.mark.xdist_group("lab-kernel")


class Page:
    """Runs cells as JupyterLab does, and answers on lazynb's comm."""

    def __init__(self, client):
        self.client = client
        self.comm = None
        self.messages = []
        self.outputs = []
        self.asked = 0

    def _shell(self, kind, content, metadata=None):
        message = self.client.session.msg(kind, content, metadata=metadata)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def listen(self, until, timeout=60):
        """Takes what comes until ``until(message)``; the messages on lazynb's comm among it."""
        found, end = [], time.monotonic() + timeout
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"nothing more came; so far: {[one.get('type') for one in found]}"
                ) from None
            kind, content = message["msg_type"], message["content"]
            if kind == "comm_open" and content["target_name"] == "lazynb":
                self.comm = content["comm_id"]
                found.append(content["data"])
            elif kind == "comm_msg" and content["comm_id"] == self.comm:
                found.append(content["data"])
            elif kind == "comm_close" and content["comm_id"] == self.comm:
                self.comm = None
            elif kind in ("stream", "error", "execute_result", "display_data"):
                self.outputs.append((kind, content))
            self.messages += found[-1:] if kind.startswith("comm") else []
            if until(message, found[-1] if found else None):
                return found

    def _execute(self, code, metadata=None, silent=False):
        """Sends code to run; what came on the comm until it had run."""
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
        }
        asked = self._shell("execute_request", content, metadata)
        return self.listen(
            lambda m, _: (
                m["msg_type"] == "status"
                and m["parent_header"].get("msg_id") == asked
                and m["content"]["execution_state"] == "idle"
            )
        )

    def run(self, code, cell="one", trusted=True):
        """Runs a cell; what came on the comm meanwhile and shortly after."""
        self.outputs = []
        found = self._execute(code, {"cellId": cell, **({"trusted": True} if trusted else {})})
        return found + self.rest()

    def rest(self):
        """What the kernel says on the comm by itself: its timers run in the order of their times."""
        return self._execute(f"await __import__('asyncio').sleep({2 * _SOON})", silent=True)

    def say(self, **data):
        self._shell("comm_msg", {"comm_id": self.comm, "data": data})

    def ask(self, **data):
        """Asks and waits for the answer."""
        self.asked += 1
        self.say(**data, id=self.asked)
        return self.listen(lambda _, said: said is not None and said.get("id") == self.asked)[-1]


@pytest.fixture(scope="module")
def kernel():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(
        kernel_name="python3", env={**os.environ, "LAZYNB_PERSISTENT_CACHE": "0"}
    )
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def page(kernel):
    page = Page(kernel)
    page.run("%reset -f")
    page.run("%load_ext lazynb\n%cache clear")
    if page.comm is None:  # loaded already: start again
        page.run("%unload_ext lazynb\n%load_ext lazynb")
    page.run("import jax, jax.numpy as jnp")
    yield page
    page.run("%unload_ext lazynb")


def of(messages, kind):
    return [one for one in messages if one["type"] == kind]


PROGRAM = "x = jnp.linspace(0., 1., 64).reshape(8, 8)\ny = jnp.tanh(x @ x) + 1\nprint(float(y.sum()))\nz = jnp.sin(y)"


def test_a_page_that_knows_lazynb_gets_state_and_marks(page):
    page.say(type="hello")
    page.rest()
    messages = page.run(PROGRAM, "main")
    (marks,) = [one for one in of(messages, "marks") if one["cell"] == "main"]
    lines = {one["line"]: one for one in marks["lines"]}
    assert set(lines) == {1, 2, 3}, "line 4 is pending"
    assert [one["text"] for one in marks["lines"]] == PROGRAM.splitlines()[:3]
    assert any("tanh" in fate for kernel in lines[2]["kernels"] for fate in kernel["fates"])
    assert all(
        kernel["chip"] == f"c{kernel['id']}" and kernel["kind"]
        for one in marks["lines"]
        for kernel in one["kernels"]
    )
    (broke,) = lines[3]["breaks"]
    assert (broke["code"], broke["count"], broke["compiles"], broke["rank"]) == ("LNB103", 1, 1, 1) and broke[
        "seconds"
    ] > 0
    state = of(messages, "state")[-1]
    assert (
        state["lazy"]
        and state["pending"] == 1
        and state["breaks"] == 1
        and state["compilation"] == marks["compilation"]
    )
    assert "1 operation pending" in state["text"]


def test_a_compilation_sends_a_message_before_and_after(page):
    page.say(type="hello")
    page.rest()
    messages = page.run("float(jnp.ones(3).sum() * 2.5)", "other")
    kinds = [one["type"] for one in messages if one["type"] in ("compiling", "compiled")]
    assert kinds[:2] == ["compiling", "compiled"]
    began = of(messages, "compiling")[0]
    assert began["cell"] == "other" and began["label"].startswith("cell ") and began["operations"] > 1


def test_nothing_is_sent_until_a_page_says_that_it_is_there(page):
    """Cells queue up behind the one that loads the extension: their marks come when the page's first message
    is read."""
    assert page.run(PROGRAM, "main") == []
    page.say(type="hello")
    marks = [one for one in of(page.rest(), "marks") if one["cell"] == "main"][-1]
    assert {one["line"] for one in marks["lines"]} == {1, 2, 3} and any(
        one["kernels"] for one in marks["lines"]
    )


def test_a_page_that_does_not_know_lazynb_closes_the_comm(page):
    page._shell("comm_close", {"comm_id": page.comm, "data": {}})
    assert page.run(PROGRAM, "main") == []
    assert [kind for kind, _ in page.outputs] == ["stream"]


def test_other_front_ends_get_no_comm(page):
    page.run("%unload_ext lazynb", trusted=False)
    page.comm = None
    page.run("%load_ext lazynb", trusted=False)
    assert page.comm is None and [kind for kind, _ in page.outputs] == ["stream"]


def test_a_page_that_is_loaded_again_gets_everything_again(page):
    page.say(type="hello")
    page.run(PROGRAM, "main")
    page.say(type="hello")
    again = page.rest()
    assert of(again, "state") and [one["cell"] for one in of(again, "marks")] == ["main"]


def test_an_edited_cell_loses_its_old_marks(page):
    page.say(type="hello")
    page.run(PROGRAM, "main")
    messages = page.run("a = 1\nprint(jnp.ones(2) * 3)", "main")
    (marks,) = [one for one in of(messages, "marks") if one["cell"] == "main"]
    assert [one["line"] for one in marks["lines"]] == [2]
    (marks,) = [one for one in of(page.run("a = 2", "main"), "marks") if one["cell"] == "main"]
    assert marks["lines"] == []


def test_a_cell_that_runs_again_counts_its_breaks_anew(page):
    page.say(type="hello")
    for _ in range(2):
        messages = page.run("for i in range(3):\n    if jnp.ones(4).sum() > i:\n        pass", "again")
        (line,) = of(messages, "marks")[-1]["lines"]
        assert [(one["code"], one["count"]) for one in line["breaks"]] == [("LNB101", 3)]


def test_a_function_of_another_cell_is_marked_there(page):
    page.say(type="hello")
    page.run("def f(x):\n    return jnp.exp(x) * 2", "def")
    messages = page.run("print(f(jnp.ones(4)))", "use")
    lines = {one["cell"]: {line["line"] for line in one["lines"]} for one in of(messages, "marks")}
    assert lines["def"] == {2} and lines["use"] == {1}


def test_a_break_in_a_helper_marks_the_line_that_calls_it_too(page):
    page.say(type="hello")
    page.run("def report(v):\n    return float(v.sum())", "def")
    messages = page.run("for i in range(3):\n    report(jnp.ones(4) + i)", "use")
    breaks = {
        (one["cell"], line["line"]): [(found["count"], found["text"]) for found in line["breaks"]]
        for one in of(messages, "marks")
        for line in one["lines"]
    }
    assert breaks["def", 2] == [(3, "float() needed a value")]
    ((count, text),) = breaks["use", 2]
    assert count == 3 and text.endswith("line 2, called here")


def test_the_header_and_the_list_count_the_same(page):
    page.say(type="hello")
    state = of(page.run("for i in range(3):\n    float(jnp.ones(4).sum() + i)", "main"), "state")[-1]
    table = page.ask(type="show", view="breaks")["data"]
    assert state["breaks"] == 3 and "3 trace breaks" in state["text"]
    assert table["text"].startswith("3 trace breaks in 1 line cost ")


def test_a_program_that_a_loop_runs_often_is_shown_once(page):
    page.say(type="hello")
    messages = page.run(
        "x = jnp.ones((8, 8))\nfor _ in range(12):\n    x = jnp.tanh(x @ x)\n    print(float(x[0, 0]))",
        "loop",
    )
    names = [
        kernel["name"]
        for one in of(messages, "marks")[-1]["lines"]
        if one["line"] == 3
        for kernel in one["kernels"]
    ]
    programs = page.ask(type="show", view="compilation")["data"]["programs"]
    assert len(programs) <= 2, "the first step makes the array too"
    assert len(names) <= 2 * len(programs)


def test_the_panel_gets_graph_breaks_cache_and_compilation(page):
    page.say(type="hello")
    assert page.ask(type="show", view="graph")["data"] is None
    page.run(PROGRAM, "main")
    graph = page.ask(type="show", view="graph")["data"]
    assert graph["counts"]["operations"] == 1
    assert page.ask(type="show", view="breaks")["data"]["rows"]
    assert page.ask(type="show", view="cache")["data"]["rows"]
    shown = page.ask(type="show", view="compilation")
    assert shown["data"]["clusters"] and shown["data"]["live"] and shown["compilation"]
    page.run("print(jnp.ones(5) + 1)", "second")
    again = page.ask(type="show", view="compilation", compilation=shown["compilation"])
    assert again["data"]["clusters"] == shown["data"]["clusters"]
    assert page.ask(type="show", view="compilation")["compilation"] > shown["compilation"]
    assert "no view" in page.ask(type="show", view="nonsense")["text"]


def test_the_inspector_in_the_panel_is_answered(page):
    page.say(type="hello")
    state = of(page.run(PROGRAM, "main"), "state")[-1]
    request = {"type": "stage", "program": 0, "which": "after", "id": "7"}
    answer = page.ask(type="ask", compilation=state["compilation"], request=request)["answer"]
    assert answer["type"] == "stage" and answer["id"] == "7"
    assert "too old" in page.ask(type="ask", compilation=999, request=request)["answer"]["message"]


def test_compile_lazy_and_clear_commands_are_answered(page):
    page.say(type="hello")
    page.run(PROGRAM, "main")
    assert "0 operations pending" in page.ask(type="compile")["text"]
    assert "lazy mode is off" in page.ask(type="lazy", on=False)["text"]
    page.run("w = jnp.ones(3) + 1", "w")
    assert page.ask(type="show", view="graph")["data"] is None
    assert "lazy mode is on" in page.ask(type="lazy", on=True)["text"]
    assert "0 executables" in page.ask(type="clear")["text"]


def test_a_failing_compile_is_an_error_and_nothing_is_lost(page):
    page.say(type="hello")
    page.run(
        "import numpy as np\ndef boom(v):\n    raise ValueError('boom')\n"
        "b = jax.pure_callback(boom, jax.ShapeDtypeStruct((), 'float32'), jnp.ones(()) + 1)",
        "bad",
    )
    answer = page.ask(type="compile")
    assert "boom" in answer["error"]
    assert page.ask(type="show", view="graph")["data"]["counts"]["operations"] >= 1
    page.run("del b", "del")


def test_a_shown_value_is_run_when_the_settings_say_so(page):
    page.say(type="hello")
    page.say(type="settings", autocompile=True)
    page.run("jnp.ones(3) + 1", "shown")
    ((_, content),) = [one for one in page.outputs if one[0] == "execute_result"]
    assert content["data"]["text/plain"] == "Array([2., 2., 2.], dtype=float32)"
    page.say(type="settings", autocompile=False)
    page.run("jnp.ones(3) + 2", "shown")
    ((_, content),) = [one for one in page.outputs if one[0] == "execute_result"]
    assert "pending" in content["data"]["text/plain"]


def test_the_same_cell_again_sends_nothing_new(page):
    page.say(type="hello")
    page.run(PROGRAM, "main")
    page.run(PROGRAM, "main")
    messages = page.run("k = 0", "k")
    assert not [one for one in of(messages, "marks") if one["lines"]]
