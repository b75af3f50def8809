"""The compilers' packages: where they lie, what is said when they are not there."""

from __future__ import annotations

import subprocess

import jax
import jaxlib
import pytest

import lazynb
from lazynb.cli.main import main
from lazynb.xla.targets import compiler_packages
from lazynb.xla.targets.compiler_packages import COMPILERS, CompilerMissing, InstallError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path / "compilers"))


def test_a_missing_compiler_is_named_and_nothing_is_lost(nowhere):
    with lazynb.lazy():
        x = jax.numpy.ones(4) + 1
        for target, name in (("v5e", "tpu"), ("h100", "gpu")):
            with pytest.raises(CompilerMissing, match=f"lazynb targets install {name}"):
                lazynb.compile(x, target=target)
        assert len(lazynb.graph(x)) > 0
        assert x.tolist() == [2, 2, 2, 2]


def test_the_version_fits_the_installed_jaxlib(nowhere):
    assert COMPILERS["gpu"].packages == (
        f"jax-cuda12-plugin=={jaxlib.__version__}",
        f"jax-cuda12-pjrt=={jaxlib.__version__}",
    )
    [libtpu] = COMPILERS["tpu"].packages
    assert libtpu.startswith("libtpu==")  # what JAX's own extra asks for
    assert jaxlib.__version__ in COMPILERS["tpu"].directory.name


@pytest.mark.parametrize(
    "status, stderr, words",
    [
        (
            1,
            "WARNING: old\nERROR: No matching distribution found for libtpu\n[notice] new pip",
            "No matching",
        ),
        (1, "No module named pip", "No module named pip"),
        (0, "", "pip said nothing"),
    ],
)
def test_a_failed_install_reports_the_error_of_pip(nowhere, monkeypatch, capsys, status, stderr, words):
    def run(command, **_):
        assert "--no-deps" in command and "--target" in command
        return subprocess.CompletedProcess(command, status, "", stderr)

    monkeypatch.setattr(compiler_packages.subprocess, "run", run)
    with pytest.raises(InstallError, match=words):
        COMPILERS["tpu"].install()
    assert not COMPILERS["tpu"].is_installed
    assert main(["targets", "install", "tpu"]) == 2
    assert words in capsys.readouterr().err


def test_the_command_lists_installs_and_removes(nowhere, monkeypatch, capsys):
    def run(command, **_):
        target = command[command.index("--target") + 1]
        metadata = compiler_packages.Path(target) / "libtpu-1.2.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text("Metadata-Version: 2.1\nName: libtpu\nVersion: 1.2\n")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(compiler_packages.subprocess, "run", run)
    assert main(["targets", "install", "tpu"]) == 0
    assert "installed libtpu 1.2" in capsys.readouterr().out
    assert main(["targets"]) == 0
    assert "libtpu 1.2" in capsys.readouterr().out
    assert main(["targets", "remove", "tpu"]) == 0
    assert not COMPILERS["tpu"].is_installed
    assert main(["targets", "install", "abacus"]) == 2
