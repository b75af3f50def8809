"""Makes an assignment for nbgrader of a notebook of the course: without its solutions and what it showed.

    python scripts/assignment.py notebooks/21-slice.ipynb source/week1

The folder gets the notebook and the modules beside it. Its exercises have nbgrader's metadata already: one
point each, graded by hand, by what the cell said ("Right.", "Not yet"). Then, in the folder of the course:

    nbgrader generate_assignment week1 --create --ClearSolutions.enabled=False
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import nbformat

_SOLUTION = re.compile(r"\n*<details>\s*<summary>(?:Solution|Answer).*?(?:</details>|\Z)", re.DOTALL)


def assignment(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without the folded solutions, without the answers in the metadata of its exercises, and
    without outputs. Changes it in place."""
    for cell in notebook.cells:
        cell.metadata.pop("lazynb", None)
        if cell.cell_type == "markdown":
            cell.source = _SOLUTION.sub("", cell.source)
        elif cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    source, folder = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(assignment(nbformat.read(source, as_version=4)), folder / source.name)
    for module in source.parent.glob("*.py"):
        shutil.copy(module, folder)
    print(f"written to {folder / source.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
