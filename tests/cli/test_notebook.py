"""``lazynb run notebook.ipynb``: cell after cell in a shell of its own."""

from __future__ import annotations


def test_a_notebook_runs_cell_by_cell(notebook, lazynb_run, tmp_path):
    notebook(
        "a.ipynb",
        "%load_ext lazynb\nimport jax.numpy as jnp",
        "x = jnp.arange(4.0)\nx",
        "%%bash\necho from bash",
        "",
        "!echo from a shell",
        ("print('left out')", "skip-execution"),
        ("1 / 0", "raises-exception"),
        "import os\nprint(__name__, os.getcwd())\nget_ipython().run_line_magic('matplotlib', 'inline')",
        "print(float(x.sum()))",
        "await __import__('asyncio').sleep(0)\n%lazy",
    )
    done = lazynb_run("a.ipynb", "--report", "out.html")
    assert done.returncode == 0, done.stderr
    for part in (
        "arange",
        "from bash\n",
        "from a shell",
        f"__main__ {tmp_path}\n",
        "6.0\n",
        "lazy mode is on",
    ):
        assert part in done.stdout
    assert "left out" not in done.stdout and "already loaded" not in done.stdout
    assert "ZeroDivisionError" in done.stderr  # that cell may
    assert "LNB103 float ×1  cell 7, line 1: print(float(x.sum()))" in done.stderr
    page = (tmp_path / "out.html").read_text()
    assert "cell 7, line 1" in page and "LNB103 float" in page


def test_a_notebook_runs_in_its_own_folder(notebook, lazynb_run, tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "beside.py").write_text("HERE = 3")
    notebook("notebooks/a.ipynb", "import beside\nprint(beside.HERE, open('beside.py').read())")
    assert lazynb_run("notebooks/a.ipynb").stdout == "3 HERE = 3\n"


def test_a_failing_cell_is_named_and_ends_the_run(notebook, lazynb_run):
    notebook("a.ipynb", "import jax.numpy as jnp", "x = jnp.ones(3) + 1\nfloat(x)", "print('never')")
    done = lazynb_run("a.ipynb", "--max-breaks", "0")
    assert done.returncode == 1 and "never" not in done.stdout
    assert "lazynb: cell 2 of a.ipynb failed: TypeError: Only scalar arrays can be converted" in done.stderr
    assert "/lazynb/" not in done.stderr


def test_a_cell_that_does_not_compile_is_named(notebook, lazynb_run):
    notebook("a.ipynb", "1", "if x\n    pass")
    done = lazynb_run("a.ipynb")
    assert done.returncode == 1 and "lazynb: cell 2 of a.ipynb failed: SyntaxError: " in done.stderr


def test_a_notebook_over_its_budget_exits_with_status_three_and_names_the_line(notebook, lazynb_run):
    notebook(
        "a.ipynb",
        "import jax.numpy as jnp\nx = jnp.ones(3)",
        "for n in range(3):\n    print(float(x.sum()) + n)",
    )
    done = lazynb_run("a.ipynb", "--max-compiles", "9", "--max-breaks", "2")
    assert done.returncode == 3
    assert "over budget: 3 trace breaks where 2 are allowed\n" in done.stderr
    assert "cell 2, line 2: print(float(x.sum()) + n)" in done.stderr


def test_sys_exit_in_a_cell_gives_its_status(notebook, lazynb_run):
    notebook("a.ipynb", "import sys\nsys.exit(4)", "print('never')")
    done = lazynb_run("a.ipynb")
    assert done.returncode == 4 and "never" not in done.stdout
