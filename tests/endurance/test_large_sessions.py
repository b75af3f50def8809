"""Large things in one kernel: pending operations, cells, variables, names; what is shown of them is bounded."""

import time

import pytest

from lazynb.config import config

from .shell_state import Session

PENDING = """
import functools, operator
ys = [x + number for number in range({half})]
y = functools.reduce(operator.add, ys)
del ys
"""


@pytest.fixture
def session(clean, no_other_loop, monkeypatch):
    monkeypatch.setattr(config, "max_pending", 1_000_000)
    session = Session()
    session.run("%load_ext lazynb")
    session.run("x = jnp.arange(8.0)")
    yield session
    session.close()


def shown(session, name):
    return session.shell.display_formatter.format(session[name])[0]


@pytest.mark.filterwarnings("ignore::lazynb.errors.LoopWarning")
def test_a_value_with_many_pending_operations_is_shown_at_once_and_its_graph_drawn_on_demand(session):
    session.run(PENDING.format(half=2_600))
    began = time.process_time()
    bundle = shown(session, "y")
    printed = session.run("y")
    text = bundle["text/plain"]
    assert text.startswith("y: float32[8]\n5,200 operations pending. print(y) gives its value")
    assert text.endswith("%graph y draws them.") and [*bundle] == ["text/plain"]
    assert text in printed
    assert "pending: 5200 operations" in session.run("[y]")
    assert time.process_time() - began < 1  # a drawing takes more
    assert session["y"].is_pending


@pytest.mark.filterwarnings("ignore::lazynb.errors.LoopWarning")
def test_what_is_shown_of_a_large_graph_is_bounded(session):
    session.run(PENDING.format(half=200))
    small = shown(session, "y")
    session.run(PENDING.format(half=1_000))
    large = shown(session, "y")
    assert [*small] == [*large] and "text/html" in large
    assert len(large["text/plain"]) < 4_000 and len(str(large)) < 500_000


@pytest.mark.parametrize(
    "source",
    [
        "# " + "é" * 1_000_000 + "\nfloat((x + 1).sum())",
        f"text = {'a' * 1_000_000!r}\nfloat((x + 1).sum())",
        "\n" * 20_000 + "float((x + 1).sum())",
        "".join(f"y = x + {number % 7}\n" for number in range(700)) + "float((y - 5).sum())",
    ],
    ids=["a comment of a megabyte", "a string of a megabyte", "20,000 lines", "700 operations"],
)
@pytest.mark.filterwarnings("ignore::lazynb.errors.LoopWarning")
def test_a_large_cell_gives_its_result(session, source):
    assert "36.0" in session.run(source)
    assert "36.0" in session.run(source)
    assert len(session.run("%breaks")) < 2_000
    session.run(f"{source}\nx.reshape(3, 99)", error=TypeError)
    assert "36.0" in session.run(source)


@pytest.mark.filterwarnings("ignore::lazynb.errors.LoopWarning")
def test_three_hundred_variables_hold_pending_values(session):
    session.run("".join(f"y{number} = x + {number}\n" for number in range(300)))
    listed = session.run("%whos")
    assert listed.count("pending: 301 operations") == 300 and session["y299"].is_pending
    assert session.run("[float(value.sum()) for value in (y0, y150, y299)]").endswith(
        "[28.0, 1228.0, 2420.0]\n"
    )
    assert session.run("sum(float(globals()[f'y{n}'][0]) for n in range(300))").endswith("44850.0\n")


def test_a_name_of_ten_thousand_characters_and_an_emoji_in_a_file_name(session, tmp_path):
    name = "n" * 10_000
    session.run(f"def {name}f(a): return a * 2\n{name} = {name}f(x + 1)\nz = {name} + 1")
    assert len(shown(session, "z")["text/plain"]) < 5_000
    assert len(shown(session, name)["text/plain"]) < 30_000
    assert len(session.run("%graph z")) < 5_000
    assert name in session.run(f"{name}.reshape(3, 99)", error=TypeError)
    assert "80.0" in session.run("float(z.sum())") and len(session.run("%breaks")) < 30_000

    script = tmp_path / "🐍 ünï 名.py"
    script.write_text("def f(a):\n    return a * 3\n\nw = f(x)\nprint(float(w.sum()))\n", encoding="utf-8")
    assert "84.0" in session.run(f"%run -i {str(script)!r}")
    assert "🐍 ünï 名.py" in session.run("%breaks")


def test_a_hundred_different_cells_in_a_real_kernel():
    pytest.importorskip("jupyter_client")
    pytest.importorskip("psutil")
    from .kernel_cells import Kernel, run_cells

    kernel = Kernel()
    try:
        run_cells(kernel, 0, 20)
        before = kernel.process.num_threads(), kernel.process.num_fds()
        seconds, wrong = run_cells(kernel, 20, 80)
        assert not wrong and max(seconds) < 30
        assert (kernel.process.num_threads(), kernel.process.num_fds()) <= (before[0] + 2, before[1] + 2)
        assert not kernel.process.children(recursive=True)
    finally:
        kernel.close()
