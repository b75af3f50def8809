"""Runs a notebook without a browser, writes what it shows as HTML, and tells what happened.

    python scripts/demo.py [--store] NOTEBOOK HTML

With --store, the notebook itself is replaced by the executed one. The figures come from the run: a cell that
is added after the notebook's last one, and taken away again, asks lazynb for them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent

QUESTION = """
import json, sys
import lazynb
info, breaks = lazynb.cache_info(), lazynb.breaks()
figures = {"executables": info.to_dicts(), "hits": info.hits, "misses": info.misses}
figures["breaks"] = breaks.to_dicts()
figures |= {"prefix": sys.prefix}
if "accuracy" in globals():
    figures |= {"accuracy": float(accuracy), "tested": len(y_test)}
print(json.dumps(figures, default=str))
"""


@dataclass
class Run:
    """A notebook that was executed: with its outputs, the seconds it took, and what lazynb counted in it."""

    notebook: nbformat.NotebookNode
    seconds: float
    figures: dict


class NotebookFailed(Exception):
    """A cell raised; the text is its traceback."""


def execute(
    path: Path, timeout: int = 600, prepare: Callable[[nbformat.NotebookNode], None] | None = None
) -> Run:
    """Executes the notebook in the environment that this runs in. Raises NotebookFailed when a cell does.

    Arguments:
      timeout: seconds that one cell may take.
      prepare: changes the notebook before it runs; the file stays as it is.
    """
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ["LAZYNB_STORED_DATA"] = "1"  # the pages of the documentation make inspectors of it
    notebook = nbformat.read(path, as_version=4)
    if prepare is not None:
        prepare(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell(QUESTION))
    where = {"metadata": {"path": path.parent}}
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", record_timing=False, resources=where
    )
    client.coalesce_streams = True
    client.extra_arguments = ["--IPKernelApp.log_level=40"]  # errors; the rest is not about the notebook
    began = time.monotonic()
    try:
        client.execute()
    except CellExecutionError as error:
        raise NotebookFailed(str(error)) from None
    seconds = time.monotonic() - began
    answer = notebook.cells.pop()
    figures = json.loads("".join(output.text for output in answer.outputs if output.get("name") == "stdout"))
    if Path(figures["prefix"]).resolve() != Path(sys.prefix).resolve():
        raise NotebookFailed(f"the notebook ran in {figures['prefix']}, not in {sys.prefix}")
    return Run(notebook, seconds, figures)


def to_html(notebook: nbformat.NotebookNode, target: Path) -> None:
    """Writes the notebook as one HTML file."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter().from_notebook_node(notebook, {"metadata": {"name": f"lazynb: {target.stem}"}})
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(body, encoding="utf-8")


def summary(run: Run) -> list[str]:
    """What happened, a line for each thing."""
    figures = run.figures
    cells = sum(cell.cell_type == "code" for cell in run.notebook.cells)
    compiled = [one["seconds"] for one in figures["executables"] if one["origin"] == "compiled"]
    loaded = [one["seconds"] for one in figures["executables"] if one["origin"] != "compiled"]
    from_disk = f", {len(loaded)} from an earlier run loaded in {sum(loaded):.1f} s" if loaded else ""
    lines = {json.dumps(one["location"]) for one in figures["breaks"]}
    learned = figures.get("accuracy")
    return [
        f"ran           {cells} cells in {run.seconds:.1f} s, without an error",
        *(
            [f"accuracy      {learned:.1%} on {figures['tested']} digits that were not trained on"]
            if learned is not None
            else []
        ),
        f"compiled      {len(compiled)} executables in {sum(compiled):.1f} s{from_disk}",
        f"cache hits    {figures['hits']} runs of an executable that was there already",
        f"trace breaks  {len(figures['breaks'])}, on {len(lines)} lines that asked for a value",
    ]


def store(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Writes the executed notebook, without what changes from machine to machine."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    nbformat.write(notebook, path)


def main(arguments: list[str]) -> int:
    keep = "--store" in arguments
    source, target = (Path(one).resolve() for one in arguments if not one.startswith("--"))
    print(f"running {_short(source)} ...", flush=True)
    try:
        run = execute(source)
    except NotebookFailed as error:
        print(error, file=sys.stderr)
        return 1
    to_html(run.notebook, target)
    if keep:
        store(run.notebook, source)
    print(f"what it showed: {_short(target)}")
    print(*summary(run), sep="\n")
    return 0


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
