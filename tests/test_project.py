"""The project itself: what it depends on, what make offers, what an import drags in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from wheels import hatch

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[^]]*\])?(?P<bounds>.*)")

# Refuses what `import lazynb` must do without, as a machine would that does not have it.
BLOCKED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"IPython", "ipywidgets", "ipykernel", "graphviz", "matplotlib", "flax", "wasmtime"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def requirements(extra: str | None = None) -> dict[str, str]:
    """The names of what is required, with their bounds."""
    project = PROJECT["project"]
    listed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    matches = [REQUIREMENT.fullmatch(line) for line in listed]
    return {match["name"]: match["bounds"] for match in matches if match}


def python(code: str) -> str:
    """What a fresh Python prints for this code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_core_needs_jax_and_numpy_only():
    assert set(requirements()) == {"jax", "jaxlib", "numpy"}


def test_nothing_is_pinned():
    """What a user installs is not; a tool of the tests may be held back, with the report of what is wrong
    beside it."""
    held_back = set(
        re.findall(
            r'^    "([\w-]+)[^"]*<[^"]*", # .*\(\S+#\d+\)$', (ROOT / "pyproject.toml").read_text(), re.M
        )
    )
    for extra in (None, *PROJECT["project"]["optional-dependencies"]):
        for name, bounds in requirements(extra).items():
            if extra == "dev" and name in held_back:
                continue
            assert "==" not in bounds and "<" not in bounds and "~" not in bounds, (
                f"{name} is pinned: {bounds}"
            )


def test_lab_extra_has_what_the_notebooks_import():
    tour = (ROOT / "notebooks" / "01-tour.ipynb").read_text()
    imported = set(re.findall(r'^ *"(?:import|from) (\w+)', tour, re.MULTILINE))
    known = {"sklearn": "scikit-learn"}
    beside = {one.stem for one in (ROOT / "notebooks").glob("*.py")}
    have = {*requirements(), *requirements("lab"), *sys.stdlib_module_names, "lazynb", *beside}
    assert {known.get(name, name) for name in imported} <= have


def test_installed_version_is_the_projects():
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("lazynb")
    except PackageNotFoundError:
        pytest.skip("lazynb is not installed here")
    assert installed == PROJECT["project"]["version"]


def test_supported_pythons_agree():
    from test_matrix import SUPPORTED

    named = {
        line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: Python :: 3." in line
    }
    assert named == set(SUPPORTED)
    assert PROJECT["project"]["requires-python"] == f">={min(SUPPORTED)}"


@pytest.mark.parametrize("target", ["lab", "demo", "notebooks", "docs", "test", "lint", "bench", "clean"])
def test_make_offers(target):
    run = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_scripts_need_no_package():
    """The scripts that make the environments run before anything is installed."""
    for name in ("environment", "test_matrix", "torch_cpu", "chip_compilers"):
        text = (ROOT / "scripts" / f"{name}.py").read_text()
        imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
        assert imported <= sys.stdlib_module_names | {"environment", "torch_cpu", "chip_compilers"}


def test_ci_runs_the_readmes_commands():
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert "make test" in run.read_text() and "make lint" in run.read_text()


def merge_marks(text: str) -> list[str]:
    """Lines that git writes where two branches disagree."""
    return [line for line in text.splitlines() if re.match(r"<{7} |>{7} ", line)]


def test_no_text_has_the_marks_of_a_merge():
    written = [
        path
        for pattern in ("*.md", "*.toml", "Makefile", ".ci/run", "docs/**/*.md", "tests/**/*.txt")
        for path in ROOT.glob(pattern)
    ]
    assert len(written) > 30
    marked = [path.relative_to(ROOT) for path in written if merge_marks(path.read_text(encoding="utf-8"))]
    assert marked == []
    assert merge_marks("a\n" + "<" * 7 + " HEAD\nb\n" + ">" * 7 + " main\n") != []


def test_license_is_apache():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_binder_installs_the_lab():
    build = ROOT / "binder" / "postBuild"
    assert os.access(build, os.X_OK) and '".[lab]"' in build.read_text()
    assert (ROOT / "binder" / "apt.txt").read_text().split() == ["graphviz"]
    asked = (ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"Programming Language :: Python :: {asked}" in PROJECT["project"]["classifiers"]


def test_import_without_notebook_packages():
    code = """
import lazynb, jax.numpy as jnp
with lazynb.lazy():
    total = jnp.arange(4.0).sum() + 1
print(float(total))
print(len(repr(lazynb.breaks())) > 0)
"""
    assert python(BLOCKED + code).split() == ["7.0", "True"]


def test_import_drags_in_no_notebook_package():
    loaded = python("import lazynb, sys; print(*sys.modules)").split()
    assert not {"IPython", "ipywidgets", "ipykernel", "graphviz", "matplotlib"} & set(loaded)


def test_the_blocking_blocks():
    assert (
        python(BLOCKED + "try:\n    import IPython\nexcept ImportError as e: print(e.name)").strip()
        == "IPython"
    )


def test_a_python_that_does_not_work_is_skipped_with_its_reason(tmp_path, monkeypatch):
    import test_matrix

    broken = tmp_path / "python3.99"
    broken.write_text("#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found, why = test_matrix.find("3.99")
    assert found is None
    assert "command not found" in why


def test_the_running_python_is_found_as_what_it_is():
    import test_matrix

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found, full = test_matrix.find(version)
    assert found is not None, full
    assert full.startswith(version)


@pytest.mark.parametrize(
    "line",
    ["1 passed in 4.65s", "== 2 failed, 3 passed, 1 skipped in 61.20s (0:01:01) ==", "no tests ran in 0.01s"],
)
def test_closing_lines_are_recognised(line):
    from test_matrix import CLOSING

    assert CLOSING.search(line)


@pytest.mark.slow
def test_wheel_holds_the_package_and_its_templates(tmp_path):
    pytest.importorskip("hatchling.build", reason="hatchling is not installed here")
    import zipfile

    wheel, _ = hatch("build_wheel", ROOT, tmp_path)
    inside = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "lazynb").rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.suffix not in (".c", ".h", ".so", ".pyd")
    }
    assert sources <= inside  # tests/test_accelerator_build.py says when the accelerator is
    assert "pytest_lazynb.py" in inside  # the plugin: pytest loads it without the package
    assert all(one.startswith(("lazynb/", "lazynb-", "pytest_lazynb.py")) for one in inside)


def test_matrix_leaves_out_what_another_python_has_had(monkeypatch):
    import test_matrix

    for name in ("LAZYNB_FULL", "LAZYNB_REST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LAZYNB_TURN", "1/2")
    assert test_matrix.leave_out("0.10.2", {}) == ([], "tests")
    assert test_matrix.leave_out("0.12", {"0.10.2": "3.11"})[0] == ["once"]
    assert test_matrix.leave_out("0.12", {"0.12": "3.12"})[0] == ["slow", "once"]
    monkeypatch.setenv("LAZYNB_REST", "1")
    assert test_matrix.leave_out("0.10.2", {})[1] == "part 1/2 of what `make test` leaves out"
    monkeypatch.setenv("LAZYNB_FULL", "1")
    assert test_matrix.leave_out("0.12", {"0.12": "3.12"})[0] == ["once"]


def test_the_two_jaxs_and_the_rest_have_every_test_between_them(monkeypatch, request):
    """Each JAX leaves out parts that the other one has; a long test is in the rest of both, unless it is one
    of many samples."""
    import parts

    def runs(share, rest, turn="0/1"):
        monkeypatch.setenv("LAZYNB_SHARE", share)
        monkeypatch.setenv("LAZYNB_REST", rest)
        monkeypatch.setenv("LAZYNB_TURN", turn)
        return {item for item in request.session.items if parts.taken(item)}

    every = set(request.session.items)
    had = {}
    for share in ("0/14", "1/14"):
        assert not runs(share, "") & runs(share, "1")
        had[share] = runs(share, "") | runs(share, "1")
        thirds = [runs(share, "1", turn) for turn in ("0/3", "1/3", "2/3")]
        assert set.union(*thirds) == runs(share, "1") and sum(map(len, thirds)) == len(runs(share, "1"))
        long = {item for item in every if item.get_closest_marker("long")}
        assert {item for item in long if not item.get_closest_marker("sample")} <= had[share]
    assert had["0/14"] | had["1/14"] == every
    alone = every - (had["0/14"] & had["1/14"])
    assert all(any(parts.in_share(item, f"{number}/14") for number in range(14)) for item in alone - long)
    assert runs("0/1", "") | runs("0/1", "1") == every  # of one JAX alone


def test_tests_that_share_a_server_or_a_notebook_stay_together(request):
    """Else each worker makes its own. pytest-xdist says it by what it appends to the names of the tests."""
    if request.config.getoption("loadgroup", False):
        grouped = [item for item in request.session.items if item.get_closest_marker("xdist_group")]
        assert all(
            item.nodeid.endswith(f"@{item.get_closest_marker('xdist_group').args[0]}") for item in grouped
        )
