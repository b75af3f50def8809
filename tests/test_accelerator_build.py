"""What an install builds: the accelerator where a compiler is found, and a pure package, silently, where none is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from wheels import checkout_without_extension, hatch

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

pytestmark = [
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("hatchling", "setuptools"))),
        reason="hatchling or setuptools is not installed here",
    )
]
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, (sysconfig.get_config_var("CC") or "cc").split()[:1])),
    reason="no C compiler here",
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what a wheel is built from."""
    return checkout_without_extension(tmp_path_factory.mktemp("checkout"))


def build(checkout, out, **environment):
    """The wheel that hatchling makes, and what was said."""
    return hatch("build_wheel", checkout, out, **{"LAZYNB_PURE": "", **environment})


def described(wheel, folder):
    """What lazynb out of a wheel says of its accelerator."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    code = "import lazynb; from lazynb.recording.replay.native_replay import describe; print(lazynb.__file__); print(describe())"
    environment = {**os.environ, "PYTHONPATH": str(folder), "LAZYNB_PURE": ""}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert run.returncode == 0 and str(folder) in run.stdout, run.stdout + run.stderr
    return run.stdout.splitlines()[-1]


@needs_compiler
def test_a_wheel_has_the_accelerator_where_a_compiler_is_found(checkout, tmp_path):
    wheel, _ = build(checkout, tmp_path)
    assert f"cp{sys.version_info.major}{sys.version_info.minor}" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {f"lazynb/recording/_fast{SUFFIX}", f"lazynb/frontends/torch/_short{SUFFIX}"} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".h"))]
    assert described(wheel, tmp_path / "installed") == "accelerated"
    assert not list(checkout.rglob(f"*{SUFFIX}")), "the checkout stays as it is"


@pytest.mark.parametrize(
    "environment",
    [{"PATH": "", "CC": ""}, {"CC": "false"}, {"LAZYNB_PURE": "1"}],
    ids=["none", "one that fails", "not wanted"],
)
def test_a_wheel_is_pure_where_none_is(checkout, tmp_path, environment):
    wheel, said = build(checkout, tmp_path, **environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "compiler" not in said and "rror" not in said
    assert "was not built: with a C compiler" in described(wheel, tmp_path / "installed")


@needs_compiler
def test_an_editable_install_builds_the_accelerator_in_the_checkout(checkout, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import hatch_build

    monkeypatch.delenv("LAZYNB_PURE", raising=False)
    places = [
        checkout / "lazynb" / "recording" / f"_fast{SUFFIX}",
        checkout / "lazynb" / "frontends" / "torch" / f"_short{SUFFIX}",
    ]
    one, other = tmp_path / "one", tmp_path / "other"
    hatch_build.put(hatch_build.accelerator(checkout, one), one, checkout)
    assert all(place.is_file() for place in places)
    monkeypatch.setenv("CC", "false")
    hatch_build.put(hatch_build.accelerator(checkout, other), other, checkout)
    assert not any(place.exists() for place in places), "one that an earlier install built may not fit"


def test_the_build_hook_and_the_package_compute_the_same_source_digest(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import hatch_build
    from lazynb.recording.replay.native_replay import SHARED_HEADER, SOURCE, source_digest

    sources = SHARED_HEADER.read_bytes(), SOURCE.read_bytes()
    elsewhere = [source.replace(b"\n", b"\r\n") for source in sources]
    assert hatch_build.digest(*sources) == source_digest(*sources) == source_digest(*elsewhere)
