"""A copy of the project, a fault in it, and the tests that notice it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
LEFT_OUT = (".git", ".venv*", "build", "node_modules", "__pycache__", ".*_cache", ".hypothesis", "dist")
BEGUN = re.compile(r"^(tests/\S+\.py::.*?)(?: (?:PASSED|SKIPPED|XFAIL)\b.*)?$", re.MULTILINE)
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::[^\[\s]+(?:\[.*?\])?)?)(?: - .*)?$", re.MULTILINE)
BUILD = "import hatch_build, pathlib, sys, tempfile\nroot = pathlib.Path('.').resolve()\n"
BUILD += "folder = pathlib.Path(tempfile.mkdtemp())\n"
BUILD += (
    "built = hatch_build.accelerator(root, folder)\nhatch_build.put(built, folder, root)\nsys.exit(not built)"
)


@dataclass(frozen=True)
class Fault:
    """A text of a file, and what stands there instead.

    Attributes:
      file: its path in the project.
      line: where the text began when the fault was chosen; of several places the nearest counts.
      kind: what was changed: a cosmic-ray operator, ``remove-call``, or ``by-hand``.
    """

    file: str
    line: int
    kind: str
    was: str
    becomes: str

    @property
    def folder(self) -> str:
        """The folder of the package; in C, that and the language."""
        parts = self.file.split("/")
        return f"{parts[1]} (C)" if self.is_in_c else parts[1]

    @property
    def is_in_c(self) -> bool:
        return self.file.endswith(".c")

    @property
    def is_of_pytorch(self) -> bool:
        return self.file.startswith("lazynb/frontends/torch/")

    def lines(self, text: str) -> range | None:
        """The lines, from 1, where the fault belongs in the file's ``text``; None where it is gone."""
        starts = [
            text.count("\n", 0, match.start()) + 1
            for match in re.finditer(rf"^{re.escape(self.was)}$", text, re.MULTILINE)
        ]
        if not starts:
            return None
        first = min(starts, key=lambda start: abs(start - self.line))
        return range(first, first + self.was.count("\n") + 1)

    def planted(self, text: str) -> str:
        place = self.lines(text)
        assert place is not None
        lines = text.split("\n")
        lines[place.start - 1 : place.stop - 1] = self.becomes.split("\n")
        return "\n".join(lines)


def faults() -> list[Fault]:
    return [Fault(**one) for one in tomllib.loads(FAULTS.read_text())["fault"]]


@dataclass(frozen=True)
class Verdict:
    """What a run of tests came to: the test that failed first, or None.

    ``why`` says how, where it was not an ordinary failure: the process died, or hung.
    """

    test: str | None
    why: str = ""


class Copy:
    """A copy of the project in which faults are planted and tests are run."""

    def __init__(self, root: Path):
        self.root = root

    @contextmanager
    def with_fault(self, fault: Fault, python: str) -> Iterator[bool]:
        """The fault is there within the block. Yields whether it can be: C may not compile."""
        file = self.root / fault.file
        text = file.read_text()
        file.write_text(fault.planted(text))
        try:
            yield not fault.is_in_c or self._build(python)
        finally:
            file.write_text(text)
            if fault.is_in_c:
                self._build(python)

    def _build(self, python: str) -> bool:
        return subprocess.run([python, "-c", BUILD], cwd=self.root, capture_output=True).returncode == 0

    def run(self, python: str, tests: Sequence[str], seconds: float, tier: str) -> Verdict:
        """Runs these tests until one fails, one after the other; killed after ``seconds``. In ``tier``, which says
        how many samples a test has."""
        with tempfile.TemporaryDirectory(prefix="lazynb-faults-") as folder:
            listed = Path(folder, "tests.txt")
            listed.write_text("\n".join(tests))
            command = [python, "-m", "pytest", "-x", "-v", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
            command += ["-p", "no:rerunfailures", f"--basetemp={folder}/tmp", f"@{listed}"]
            with subprocess.Popen(
                command,
                cwd=self.root,
                env=self._environment(tier),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            ) as process:
                try:
                    output, _ = process.communicate(timeout=seconds)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    begun = BEGUN.findall(process.communicate()[0])
                    return Verdict(begun[-1].strip() if begun else tests[0], "it hangs")
        if process.returncode in (0, 5):
            return Verdict(None)
        if process.returncode == 4:
            raise RuntimeError(
                f"pytest knows a test no longer, note which lines they run anew: {output[-500:]}"
            )
        failed = FAILED.search(output)
        if failed:
            return Verdict(failed[1])
        return Verdict(tests[0], f"exit status {process.returncode}: {output.strip()[-200:]}")

    def _environment(self, tier: str) -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": ""}
        environment.setdefault("LAZYNB_COMPILERS", str(ROOT / ".venvs" / "compilers"))
        environment.pop("LAZYNB_REACH", None)
        environment["LAZYNB_TIER"] = tier
        return environment


@contextmanager
def copied() -> Iterator[Copy]:
    """A copy of the project's files, which goes at the end."""
    with tempfile.TemporaryDirectory(prefix="lazynb-faults-") as folder:
        root = Path(folder, "lazynb")
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        yield Copy(root)
