"""The peers' environments, made under ``.venvs/bench-*`` when they are first needed. Standard library
only."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ("-q", "--no-compile", "--disable-pip-version-check", "--only-binary", ":all:")
LINUX = sys.platform == "linux"
# On Linux, pip's default build of PyTorch brings gigabytes of CUDA. Where pip is told of the CPU builds, they
# are named so.
TORCH = "torch==2.13.0+cpu" if LINUX else "torch==2.13.0"


class NoEnvironment(Exception):
    """A peer cannot be had here; the text is the reason, in one line."""


@dataclass(frozen=True)
class Recipe:
    """How an environment is made.

    Attributes:
      installs: arguments of ``pip install``, one call after the other.
      check: code that fails where the environment is of no use.
      finish: what is done in the environment's package folder after the installs.
      advice: what may help where it cannot be made.
    """

    installs: tuple[tuple[str, ...], ...]
    check: str
    finish: Callable[[Path], None] | None = None
    advice: str = ""


# What the CUDA build of PyTorch 2.9 is linked against. It calls none of it on a CPU, so files with nothing in
# them do, and gigabytes need not be fetched. (PyTorch/XLA fits the one PyTorch it was built with, and that
# has no CPU build in pip's index.)
CUDA_LIBRARIES = (
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcudnn.so.9",
    "libcufft.so.11",
    "libcufile.so.0",
    "libcupti.so.12",
    "libcurand.so.10",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvshmem_host.so.3",
)


def empty_libraries(packages: Path) -> None:
    """Puts an empty shared library beside PyTorch's own for each that it is linked against and never calls
    here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise NoEnvironment("needs a C compiler, for what stands in for the CUDA libraries")
    for name in CUDA_LIBRARIES:
        place = packages / "torch" / "lib" / name
        call([compiler, "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-o", str(place)])


_ADVICE = "pip has to be told where PyTorch's CPU builds are"

RECIPES = {
    "torch": Recipe(((TORCH, "numpy"), ("transformers",)), "import torch", advice=_ADVICE),
    "torch-jax": Recipe(
        ((TORCH, "numpy"), ("-e", str(ROOT), "torchax==0.0.13", "transformers")),
        "import lazynb.torch",
        advice=_ADVICE,
    ),
    "torch-xla": Recipe(
        (
            (
                "torch_xla==2.9.0",
                "numpy",
                "filelock",
                "fsspec",
                "jinja2",
                "networkx",
                "sympy",
                "typing_extensions",
            ),
            ("transformers",),
            ("--no-deps", "torch==2.9.0", "nvidia-cuda-runtime-cu12==12.8.90"),
        ),
        "import benchmarks.ways.torch_xla_way",
        empty_libraries,
    ),
    "mlx": Recipe((("mlx[cpu]" if LINUX else "mlx", "numpy"),), "import mlx.core"),
}


def python_of(environment: str) -> Path:
    """The Python that has this peer's packages, its environment made when it is not there; without a name,
    the running one.

    Raises:
      NoEnvironment: it cannot be made here.
    """
    if not environment:
        return Path(sys.executable)
    folder = ROOT / ".venvs" / f"bench-{environment}"
    inside = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = folder / "bench.stamp"
    recipe = RECIPES[environment]
    wanted = hashlib.sha256(
        repr((recipe.installs, recipe.check, sys.version, CUDA_LIBRARIES)).encode()
    ).hexdigest()
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"making .venvs/{folder.name} (once; a minute or two) ...", file=sys.stderr, flush=True)
        try:
            _make(folder, inside, recipe)
        except NoEnvironment as error:
            raise NoEnvironment(f"{error} ({recipe.advice})" if recipe.advice else str(error)) from error
        stamp.write_text(wanted)
    return inside


def _make(folder: Path, inside: Path, recipe: Recipe) -> None:
    # The Python that the running one's environment was made with: an environment made inside another is not
    # one of its own.
    base = getattr(sys, "_base_executable", None) or sys.executable
    call([base, "-m", "venv", "--clear", str(folder)])
    for install in recipe.installs:
        call([str(inside), "-m", "pip", "install", *OPTIONS, *install])
    if recipe.finish:
        where = "import sysconfig; print(sysconfig.get_path('platlib'))"
        recipe.finish(Path(call([str(inside), "-c", where]).strip()))
    call([str(inside), "-c", recipe.check])


def call(command: list[str]) -> str:
    """What a command prints.

    Raises:
      NoEnvironment: it failed; with its last line that says why.
    """
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError as error:
        raise NoEnvironment(f"{Path(command[0]).name}: {error.strerror}") from error
    if done.returncode:
        raise NoEnvironment(
            last_line(done.stderr) or f"{Path(command[0]).name} failed with status {done.returncode}"
        )
    return done.stdout


def last_line(text: str) -> str:
    """The line of an error message that says most: the last ERROR of pip's, else the last one; without this
    machine's paths."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    line = (errors or lines or [""])[-1]
    return line.removeprefix("ERROR: ").replace(f"{ROOT}/", "")[:200]
