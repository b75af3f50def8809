"""The compilers for other chips: pip packages in a directory of lazynb, and the list of targets.

Installed in the environment itself, they would change the device that JAX chooses. Only the compiler process
can import them.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import jaxlib

from lazynb.config import user_data_dir
from lazynb.errors import LazynbError
from lazynb.running.record_table import Records
from lazynb.user_code.text_format import number, size
from lazynb.xla.targets.target_chip import chips


class CompilerMissing(LazynbError):
    """The compiler for a target is not installed; the message says how to get it."""


class InstallError(LazynbError):
    """A compiler could not be installed; the message quotes pip."""


@dataclasses.dataclass(frozen=True)
class Compiler:
    """The compiler for the chips of one platform.

    Attributes:
      name: its name for the user, ``tpu`` or ``gpu``.
      platform: its name in JAX's lowering.
      size: of the download, as text for the user.
    """

    name: str
    platform: str
    size: str

    @property
    def packages(self) -> tuple[str, ...]:
        """The pip requirements, in the versions that fit the installed jaxlib."""
        if self.platform == "tpu":
            return (f"libtpu{_libtpu_requirement()}",)
        version = jaxlib.__version__
        return (f"jax-cuda12-plugin=={version}", f"jax-cuda12-pjrt=={version}")

    @property
    def directory(self) -> Path:
        return (
            _compilers_directory()
            / f"{self.name}-jaxlib-{jaxlib.__version__}-py{sys.version_info[0]}{sys.version_info[1]}"
        )

    @property
    def is_installed(self) -> bool:
        return self.directory.is_dir()

    @property
    def version(self) -> str:
        """The installed versions: ``libtpu 0.0.52``; empty if none."""
        found = importlib.metadata.distributions(path=[str(self.directory)]) if self.is_installed else ()
        return ", ".join(sorted(f"{each.name} {each.version}" for each in found))

    def require(self) -> Path:
        """Returns the directory of the installation. Raises CompilerMissing if it is not installed."""
        if not self.is_installed:
            raise CompilerMissing(
                f"The compiler for {self.name.upper()}s is not installed. Install it ({self.size}) with:  "
                f"lazynb targets install {self.name}"
            )
        return self.directory

    def install(self, say: Callable[[str], object] = print) -> None:
        """Installs the packages with pip into ``directory``, replacing an older installation. Raises
        InstallError if pip failed or the directory cannot be written."""
        try:
            _compilers_directory().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InstallError(f"{error}. Set LAZYNB_COMPILERS to a directory that can be written.") from None
        say(f"installing {', '.join(self.packages)} ({self.size}) into {self.directory}")
        with tempfile.TemporaryDirectory(dir=_compilers_directory()) as place:
            inside = Path(place) / "packages"
            pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(inside)]
            command = [*pip, *self.packages]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode or not inside.is_dir():
                words = _last_error(done.stderr)
                raise InstallError(f"{', '.join(self.packages)} could not be installed: {words}")
            shutil.rmtree(self.directory, ignore_errors=True)
            inside.rename(self.directory)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def _last_error(text: str) -> str:
    """The last error of pip, without its notices about a newer pip."""
    lines = [line for line in text.splitlines() if line.strip() and "notice" not in line]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip said nothing"])[-1]


def _libtpu_requirement() -> str:
    """The version of libtpu that this JAX requires (its extra ``tpu``), in pip's notation; may be empty."""
    for line in importlib.metadata.requires("jax") or ():
        wanted, _, condition = line.partition(";")
        if wanted.startswith("libtpu") and "tpu" in condition and "nightly" not in wanted:
            return wanted.removeprefix("libtpu").strip()
    return ""


def _compilers_directory() -> Path:
    """``LAZYNB_COMPILERS``, or ``lazynb/compilers`` in the user's data directory."""
    if own := os.environ.get("LAZYNB_COMPILERS"):
        return Path(own)
    return user_data_dir() / "compilers"


COMPILERS = {
    "tpu": Compiler("tpu", "tpu", "137 MB"),
    "gpu": Compiler("gpu", "cuda", "182 MB"),
}


def compiler_of(platform: str) -> Compiler:
    return next(each for each in COMPILERS.values() if each.platform == platform)


# ---- List of targets ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TargetRow:
    """A chip in the list of targets.

    Attributes:
      name, title: of the chip.
      memory: bytes.
      bandwidth: bytes per second.
      peak: operations per second, by element type.
      compiler: the installed version; empty if none.
      install: the command that installs it.
    """

    name: str
    title: str
    memory: int
    bandwidth: int
    peak: dict[str, float]
    compiler: str
    install: str


def target_table() -> Records[TargetRow]:
    rows = []
    for chip in chips().values():
        compiler = compiler_of(chip.platform)
        install = f"lazynb targets install {compiler.name} ({compiler.size})"
        rows.append(
            TargetRow(
                chip.name, chip.title, chip.memory, chip.bandwidth, dict(chip.peak), compiler.version, install
            )
        )
    return Records(rows, "no chips", _table_row, ranked=True)


def _table_row(one: TargetRow) -> dict[str, str]:
    kind, most = next(iter(one.peak.items()))
    return {
        "target": one.name,
        "chip": one.title,
        "memory": size(one.memory),
        "bandwidth": f"{number(one.bandwidth)}B/s",
        "peak": f"{number(most)}/s {kind}",
        "compiler": one.compiler or f"not installed: {one.install}",
    }
