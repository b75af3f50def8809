"""A real JupyterLab with a real kernel, for the tests: the server, and a notebook in the browser."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60  # seconds for a server or a kernel to come up
OPTIONS = [
    "--no-browser",
    "--allow-root",
    "--IdentityProvider.token=",
    "--LabApp.expose_app_in_browser=True",
    "--JupyterNotebookApp.expose_app_in_browser=True",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]
NEWS = "jupyterlab-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"

# Lab's own view of the notebook in front.
NOTEBOOK = "window.jupyterapp?.shell.currentWidget"
KERNEL = f"{NOTEBOOK}?.sessionContext?.session?.kernel"
# Writes a cell and begins to run it.
START = f"""([at, source]) => {{
  const {{ content }} = {NOTEBOOK};
  content.activeCellIndex = at;
  content.activeCell.model.sharedModel.setSource(source);
  return {{ ended: window.jupyterapp.commands.execute('notebook:run-cell') }};
}}"""


@contextmanager
def serving(root: Path, app: str = "lab") -> Iterator[str]:
    """A server of its own, with settings and kernels of its own; gives its address. ``app``: ``lab`` or
    ``notebook``."""
    news = root / NEWS
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false"}')
    environment = {
        **os.environ,
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel is the interpreter that runs the tests
        "JUPYTER_CONFIG_DIR": str(root / "config"),
        "JUPYTER_DATA_DIR": str(root / "data"),
        "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(root / "jupyterlab-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(root / "workspaces"),
        "IPYTHONDIR": str(root / "ipython"),
        "PYTHONPATH": str(ROOT),
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = [
        *OPTIONS,
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
    ]
    with (root / "server.log").open("w") as log:
        command = [sys.executable, "-m", "jupyter", app, *options]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(f"{address}/api", server, root / "server.log")
            yield address
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the server did not come up:\n{log.read_text()[-3000:]}")


def write(path: Path, *sources: str) -> None:
    """A notebook with these cells."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{i}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for i, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))


class Notebook:
    """A notebook in the browser. Script errors of the page are collected in ``errors``."""

    def __init__(self, browser: Any, width: int = 1400, height: int = 1000):
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.page.set_default_timeout(60_000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, address: str, path: str, kernel: bool = True) -> None:
        """Opens a notebook by its path from the server's root, ``lab/tree/NAME.ipynb`` for example."""
        self.page.goto(f"{address}/{path}")
        self.page.wait_for_function(f"{NOTEBOOK}?.content?.widgets?.length > 0", timeout=1000 * PATIENCE)
        if kernel:
            self.wait_for_kernel()

    def wait_for_kernel(self) -> None:
        self.page.wait_for_function(f"{KERNEL}?.status === 'idle'", timeout=1000 * PATIENCE)

    def execute(self, command: str, arguments: str = "{}") -> None:
        """One of JupyterLab's commands, to its end."""
        self.page.evaluate(
            f"async () => {{ await window.jupyterapp.commands.execute('{command}', {arguments}); }}"
        )

    def run(self, cell: int, source: str) -> Any:
        """Writes and runs a cell; gives its output area once it has ended."""
        self.page.evaluate(f"async told => {{ await ({START})(told).ended; }}", [cell, source])
        return self.output(cell)

    def start(self, cell: int, source: str) -> None:
        """Writes a cell and lets it run: does not wait for its end."""
        self.page.evaluate(f"told => {{ ({START})(told); }}", [cell, source])

    def output(self, cell: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea").first

    def inspector(self, cell: int) -> Any:
        """The inspector below a cell, when it shows what was worked out."""
        found = self.output(cell).locator(".lazynb-inspector")
        until = time.monotonic() + PATIENCE / 3
        while not found.is_visible() or found.locator(".lz-reading").count():
            assert time.monotonic() < until, (
                f"no inspector; the cell gave:\n{self.output(cell).inner_text()[:2000]}"
            )
            self.page.wait_for_timeout(20)
        return found

    def sources(self) -> list[str]:
        return self.page.evaluate(
            f"{NOTEBOOK}.content.widgets.map(cell => cell.model.sharedModel.getSource())"
        )

    def save(self) -> None:
        self.execute("docmanager:save")
