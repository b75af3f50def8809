"""What a measurement is worth nothing without: the machine, the versions, how busy it was."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.environments import ROOT


def facts() -> dict[str, str]:
    """The machine and the moment, in words."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "processor": f"{_processor()}, {cores()} cores",
        "memory": f"{_memory('MemTotal') / 2**30:.0f} GiB, {available() / 2**30:.0f} GiB of it free",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "load average at the beginning": f"{load():.2f}",
    }


def load() -> float:
    """How many processes wanted a core in the last minute, on average; none where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def cores() -> int:
    """The processor cores that a process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy(seconds: float = 0.1) -> float:
    """How many cores all processes together keep busy for so long from now; none where the system does not
    say."""
    before = _spent()
    time.sleep(seconds)
    return (_spent() - before) / seconds


def _spent() -> float:
    """Seconds that the cores have worked since the machine started."""
    try:
        user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    except OSError:
        return 0.0
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def available() -> int:
    """Bytes of memory that a process could have now; plenty where the system does not say."""
    return _memory("MemAvailable") or 2**40


def _memory(name: str) -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _commit() -> str:
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
        )
    except OSError:
        return "unknown"
    return run.stdout.strip().replace("-dirty", ", with changes") or "unknown"
