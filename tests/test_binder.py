"""What Binder would build: repo2docker reads `binder/` as it is meant, and nothing in it needs Node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BINDER = ROOT / "binder"


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """The Dockerfile that repo2docker writes for the repository; it needs no docker for that."""
    pytest.importorskip("repo2docker", reason="jupyter-repo2docker is not installed here")
    # Only what Binder looks at: `.` would also be copied, with whatever lies in a working tree.
    root = tmp_path_factory.mktemp("clone")
    (root / "binder").mkdir()
    for file in BINDER.iterdir():
        copied = root / "binder" / file.name
        copied.write_bytes(file.read_bytes())
        copied.chmod(file.stat().st_mode)
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_the_python_is_one_that_lazynb_supports_and_repo2docker_has(steps):
    dockerfile, said = steps
    asked = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"Building conda environment for python={asked}" in said
    assert (
        f"environment-2epy-2d{asked.replace('.', '-2e')}-2dlinux" in dockerfile
    )  # the locked environment of just this version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {asked}" in project["classifiers"]


def test_the_packages_of_the_system_are_installed(steps):
    for package in (BINDER / "apt.txt").read_text().split():
        assert re.search(rf"apt-get install .*\b{package}\b", steps[0])


def test_post_build_runs_in_the_repository_after_it_was_copied(steps):
    dockerfile, _ = steps
    assert dockerfile.index("COPY --chown=0:0 src/") < dockerfile.index("RUN ./binder/postBuild")
    assert (BINDER / "postBuild").stat().st_mode & 0o111


def test_nothing_is_built_that_needs_node(steps):
    """The repository holds the built JupyterLab extension, and `pip install` puts it where JupyterLab
    looks."""
    installs = [line for line in steps[0].splitlines() if "apt-get" in line and "install" in line]
    assert not any(re.search(r"\b(nodejs|npm)\b", line) for line in installs)
    script = (BINDER / "postBuild").read_text()
    assert "pip install" in script and '".[lab]"' in script and not re.search(r"\b(npm|node|jlpm)\b", script)
    built = json.loads((ROOT / "extension" / "labextension" / "package.json").read_text())
    assert (ROOT / "extension" / "labextension" / built["jupyterlab"]["_build"]["load"]).exists()


def test_a_link_to_binder_opens_the_tour():
    """Wherever a text of the repository links to Binder."""
    texts = [path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
    links = [link for text in texts for link in re.findall(r"https://mybinder\.org/v2/[^\s)\"']+", text)]
    if not links:
        pytest.skip("no text links to Binder")
    for link in links:
        [place] = re.findall(r"[?&]urlpath=([^&]+)", link)
        assert place == "lab/tree/notebooks/01-tour.ipynb"
    assert (ROOT / "notebooks" / "01-tour.ipynb").exists()
