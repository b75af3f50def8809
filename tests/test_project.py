"""The project itself: what it depends on, what make offers, what an import drags in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
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


def test_no_dependency_is_pinned_without_a_reported_reason():
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
    from suite import SUPPORTED

    named = {
        line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: Python :: 3." in line
    }
    assert named == set(SUPPORTED)
    assert PROJECT["project"]["requires-python"] == f">={min(SUPPORTED)}"


OFFERED = (
    "lab demo notebooks docs smoke test test-all browser full endurance peers faults lint bench clean".split()
)


@pytest.mark.parametrize("target", OFFERED)
def test_each_make_target_exists(target):
    run = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_scripts_need_no_package():
    """The scripts that make the environments run before anything is installed."""
    for name in ("environment", "suite", "torch_cpu", "chip_compilers", "progress"):
        text = (ROOT / "scripts" / f"{name}.py").read_text()
        imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
        assert imported <= sys.stdlib_module_names | {
            "environment",
            "torch_cpu",
            "chip_compilers",
            "progress",
        }


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


def test_blocked_imports_raise_import_error():
    assert (
        python(BLOCKED + "try:\n    import IPython\nexcept ImportError as e: print(e.name)").strip()
        == "IPython"
    )


def test_a_python_that_does_not_work_is_skipped_with_its_reason(tmp_path, monkeypatch):
    import suite

    broken = tmp_path / "python3.99"
    broken.write_text("#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found, why = suite.find("3.99")
    assert found is None
    assert "command not found" in why


def test_the_running_python_is_found_as_what_it_is():
    import suite

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found, full = suite.find(version)
    assert found is not None, full
    assert full.startswith(version)


@pytest.mark.parametrize(
    "line",
    ["1 passed in 4.65s", "== 2 failed, 3 passed, 1 skipped in 61.20s (0:01:01) ==", "no tests ran in 0.01s"],
)
def test_closing_lines_are_recognised(line):
    from suite import CLOSING

    assert CLOSING.search(line)


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


TIERS = """
import pytest

def test_one():
    pass

@pytest.mark.full
def test_full():
    pass

@pytest.mark.browser
def test_browser():
    pass

@pytest.mark.parametrize("case", range(5))
def test_many(case):
    pass

@pytest.mark.parametrize("case", ["a", "b"])
def test_few(case):
    pass
"""


@pytest.mark.parametrize(
    ("tier", "named", "expected"),
    [
        ("", "", {"one", "many[0]", "many[3]", "few[b]"}),
        ("default", "", {"one", "many[0]", "many[3]", "few[b]"}),
        ("browser", "", {"browser"}),
        ("full", "", {"one", "full", "browser", "few[a]", "few[b]", *(f"many[{case}]" for case in range(5))}),
        ("default", "::test_full", {"full"}),
        ("default", "::test_many[1]", {"many[1]"}),
    ],
)
def test_each_tier_collects_its_tests(tmp_path, tier, named, expected):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "tiers.py").write_text((ROOT / "tests" / "tiers.py").read_text())
    (tmp_path / "tiers.toml").write_text(
        'full = []\n[every]\n"test_file.py::test_many" = 3\n[keep]\n"test_file.py::test_few" = ["b"]\n'
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers =\n    full\n    browser\n")
    (tmp_path / "test_file.py").write_text(TIERS)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", f"test_file.py{named}"]
    listed = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "LAZYNB_TIER": tier}, capture_output=True, text=True
    )
    assert set(re.findall(r"::test_(\S+)", listed.stdout)) == expected, listed.stdout + listed.stderr


def test_progress_reports_the_last_line_of_long_work(capsys):
    from progress import Progress

    with Progress("starting", every=0.01) as progress:
        progress.write("reading ... 10%\rreading ... 20%\n")
        deadline = time.monotonic() + 20
        while "20%" not in (said := capsys.readouterr().err) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert re.search(r"^ +0 s: reading \.\.\. 20%$", said, re.MULTILINE)


def made_up_pythons(monkeypatch, *versions, pytorch="3.11"):
    """Pythons of a machine that has ``versions``."""
    import suite

    paths = {version: Path(version) for version in versions}
    monkeypatch.setattr(suite, "find", lambda version: (paths.get(version), f"no python{version}"))
    pythons = suite.Pythons()
    pythons.with_pytorch = lambda: (pytorch, "") if pytorch in versions else (None, "pip finds none")
    return suite, pythons


def test_each_suite_command_selects_its_pythons_and_variants(monkeypatch):
    for name in ("LAZYNB_PURE", "LAZYNB_PYTHONS"):
        monkeypatch.delenv(name, raising=False)
    suite, pythons = made_up_pythons(monkeypatch, "3.11", "3.12", "3.13")

    def runs(command, *arguments):
        found, skipped = suite.runs(command, pythons, arguments)
        return [(one.version, one.title, one.variables.get("LAZYNB_PURE")) for one in found], skipped

    assert runs("smoke") == ([("3.13", "smoke", None)], [])
    assert runs("test") == ([("3.13", "test", ""), ("3.11", "test, PyTorch code", "")], [])
    assert runs("test-all") == (
        [("3.13", "test-all", ""), ("3.11", "test-all", "1"), ("3.11", "test-all, PyTorch code", "")],
        [],
    )
    assert runs("browser") == ([("3.13", "browser", "")], [])
    assert runs("test", "tests/pytorch/test_views.py", "-x")[0] == [("3.11", "test, PyTorch code", "")]
    assert runs("test", "tests/record")[0] == [("3.13", "test", "")]


def test_missing_pythons_are_skipped_with_a_reason(monkeypatch):
    for name in ("LAZYNB_PURE", "LAZYNB_PYTHONS"):
        monkeypatch.delenv(name, raising=False)
    suite, pythons = made_up_pythons(monkeypatch, "3.12")
    found, skipped = suite.runs("test-all", pythons, [])
    assert [(one.version, one.variables["LAZYNB_PURE"]) for one in found] == [("3.12", "")]
    assert skipped == [
        "Python 3.13: skipped, no python3.13",
        "Python 3.11: skipped, no python3.11",
        "PyTorch code: skipped, pip finds none",
    ]


def test_the_table_of_tiers_names_tests():
    """A function that is renamed would be in the default tier again."""
    table = tomllib.loads((ROOT / "tests" / "tiers.toml").read_text())
    for test in [*table["full"], *table["browser"], *table["every"], *table["keep"]]:
        path, _, name = test.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        assert (f"def {function}(" if function else "def test_") in (ROOT / path).read_text(), test


def test_the_smoke_list_has_a_test_for_each_promise():
    """The promises are the rows of the README's table."""
    listed = tomllib.loads((ROOT / "tests" / "smoke.toml").read_text())["promise"]
    table = (ROOT / "README.md").read_text().partition("## What there is")[2]
    rows = re.findall(r"^\| ([^|\s].*?) \|", table, re.MULTILINE)
    assert [one["row"] for one in listed] == [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row) for row in rows]
    for one in listed:
        assert one["tests"]
        for test in one["tests"]:
            path, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), test


def test_tests_that_share_a_server_or_a_notebook_stay_together(request):
    """Else each worker makes its own. pytest-xdist says it by what it appends to the names of the tests."""
    if request.config.getoption("loadgroup", False):
        grouped = [item for item in request.session.items if item.get_closest_marker("xdist_group")]
        assert all(
            item.nodeid.endswith(f"@{item.get_closest_marker('xdist_group').args[0]}") for item in grouped
        )
