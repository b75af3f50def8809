"""Opens JupyterLab on a notebook, with the environment that this runs in as its kernel."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> None:
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
    command = [sys.executable, "-m", "jupyterlab", *arguments]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in arguments:
        command.append("--allow-root")  # in a container there is often nobody else
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main(sys.argv[1:])
