"""The JupyterLab extension as it is committed, packed and installed, and the messages that it and the kernel
agree on."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from wheels import checkout_without_extension, hatch

from lazynb.notebook import lab_messages

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "extension"
BUILT = EXTENSION / "labextension"
PLACE = "share/jupyter/labextensions/@lazynb/extension"
MESSAGES_TS = EXTENSION / "src" / "lab" / "messages.ts"
NAME = "@lazynb/extension"

needs_hatchling = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed here"
)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shared(wheel: Path) -> dict[str, bytes]:
    """What a wheel puts beside the packages, by its path in the environment."""
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if ".data/data/" in name]
        return {name.partition(".data/data/")[2]: archive.read(name) for name in inside}


# ---- what is committed -------------------------------------------------------------------------------------


def test_the_committed_build_has_all_parts():
    package = json.loads((BUILT / "package.json").read_text())
    assert package["name"] == NAME
    assert package["version"] == json.loads((EXTENSION / "package.json").read_text())["version"]
    for part in ("load",):
        assert (BUILT / package["jupyterlab"]["_build"][part]).is_file()
    assert package["jupyterlab"]["_build"].keys() >= {"extension", "mimeExtension"}
    schema = (BUILT / "schemas" / NAME / "plugin.json").read_text()
    assert json.loads(schema) == json.loads((EXTENSION / "schema" / "plugin.json").read_text())


def test_the_committed_build_names_no_machine_and_no_registry():
    for name, content in files(BUILT).items():
        text = content.decode()
        assert str(ROOT) not in text and "node_modules/" not in text and "sourceMappingURL" not in text, name
        assert not re.search(r"https?://(?!www\.w3\.org/)", text.replace("https://github.com", "")), name


def test_the_build_requires_no_newer_jupyterlab_than_declared():
    """JupyterLab's builder would write the versions that it was built beside."""
    wanted = json.loads((EXTENSION / "package.json").read_text())["dependencies"]
    assert wanted["@jupyterlab/notebook"] == "^4.4.0"
    (entry,) = (BUILT / "static").glob("remoteEntry.*.js")
    asked = set(re.findall(r'"\^?(\d+\.\d+\.\d+)"|\[1,(\d+),(\d+),(\d+)\]', entry.read_text()))
    versions = {one[0] or ".".join(one[1:]) for one in asked}
    assert versions and versions <= {one.removeprefix("^") for one in wanted.values()} | {"0.1.0"}


def test_the_files_loaded_at_start_are_small():
    """What is loaded with JupyterLab; the inspector comes when it is first looked at."""
    sizes = {name: len(content) for name, content in files(BUILT / "static").items()}
    assert sum(sizes.values()) < 325_000
    assert sum(size for name, size in sizes.items() if size < 100_000) < 100_000
    assert any(size > 100_000 for size in sizes.values()), "the heavy part is a file of its own"


def test_the_committed_build_equals_a_build_of_the_sources(tmp_path):
    """Built in a folder of its own, by the same tools."""
    if shutil.which("npm") is None or not (EXTENSION / "node_modules").is_dir():
        pytest.skip("npm or extension/node_modules is absent: run npm ci in extension/")
    copy = tmp_path / "extension"
    shutil.copytree(EXTENSION, copy, ignore=shutil.ignore_patterns("node_modules", "labextension", "lib"))
    (copy / "node_modules").symlink_to(EXTENSION / "node_modules", target_is_directory=True)
    run = subprocess.run(["npm", "run", "--silent", "build"], cwd=copy, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    built, committed = files(copy / "labextension"), files(BUILT)
    assert built.keys() == committed.keys(), "run npm run build in extension/"
    assert built == committed, "run npm run build in extension/"


# ---- what is packed ----------------------------------------------------------------------------------------


@needs_hatchling
def test_wheel_carries_the_extension(tmp_path):
    wheel, _ = hatch("build_wheel", ROOT, tmp_path)
    found = shared(wheel)
    expected = {f"{PLACE}/{name}": content for name, content in files(BUILT).items()}
    expected[f"{PLACE}/install.json"] = (EXTENSION / "install.json").read_bytes()
    assert found == expected


@needs_hatchling
def test_a_wheel_can_be_built_from_the_source_distribution(tmp_path):
    """As ``python -m build`` does: what it needs is in the source distribution, and nothing that was left
    behind."""
    source, _ = hatch("build_sdist", ROOT, tmp_path)
    with tarfile.open(source) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path, filter="data")
    assert not any("node_modules" in name or "/extension/lib/" in name for name in names)
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    wheel, _ = hatch("build_wheel", folder, tmp_path)
    assert f"{PLACE}/package.json" in shared(wheel)


@needs_hatchling
def test_wheel_without_the_extension_says_so_and_works(tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    wheel, said = hatch("build_wheel", checkout_without_extension(copy), tmp_path)
    assert shared(wheel) == {}
    assert "extension/labextension is absent" in said and "%load_ext lazynb works" in said
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = (
        "from IPython.testing.globalipapp import start_ipython; shell = start_ipython(); "
        "shell.run_line_magic('load_ext', 'lazynb'); import lazynb; print(lazynb.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "LAZYNB_PERSISTENT_CACHE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert run.returncode == 0 and str(tmp_path) in run.stdout, run.stdout + run.stderr


@needs_hatchling
def test_installed_wheel_is_an_enabled_extension(tmp_path):
    """Without Node, network or the checkout."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed here")
    wheel, _ = hatch("build_wheel", ROOT, tmp_path)
    for name, content in shared(wheel).items():
        (tmp_path / "env" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "env" / name).write_bytes(content)
    environment = {**os.environ, "JUPYTER_PATH": str(tmp_path / "env" / "share" / "jupyter"), "PATH": ""}
    command = [sys.executable, "-m", "jupyter", "labextension", "list"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    text = re.sub(r"\x1b\[\d*m", "", run.stdout + run.stderr)
    assert re.search(rf"{NAME} v[\d.]+ enabled OK \(python, lazynb\)", text), text
    assert str(tmp_path) in text


def test_environment_is_made_again_when_the_extension_changes(tmp_path, monkeypatch):
    import environment

    before = environment._fingerprint("lab", tmp_path)
    assert environment._fingerprint("lab", tmp_path) == before
    changed = tmp_path / "package.json"
    changed.write_text("{}")
    monkeypatch.setattr(environment, "LABEXTENSION", changed)
    assert environment._fingerprint("lab", tmp_path) != before
    monkeypatch.setattr(environment, "LABEXTENSION", tmp_path / "absent.json")
    assert environment._fingerprint("lab", tmp_path) != before, "an install without it is another one"


# ---- the messages ------------------------------------------------------------------------------------------

# TypeScript's word for Python's.
WORDS = {
    "str": "string",
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "Any": "unknown",
    "dict[str, Any]": "Record<string, unknown>",
}


def in_typescript(annotation: str) -> str:
    """``list[Kernel]`` as ``Kernel[]``, ``int | None`` as ``number | null``, ``Literal["state"]`` as
    ``"state"``."""
    if annotation in WORDS:
        return WORDS[annotation]
    if " | " in annotation:
        return " | ".join(
            "null" if part == "None" else in_typescript(part) for part in annotation.split(" | ")
        )
    if found := re.fullmatch(r"list\[(.*)\]", annotation):
        return f"{in_typescript(found[1])}[]"
    if found := re.fullmatch(r"Literal\[(.*)\]", annotation):
        return found[1].replace("'", '"')
    return annotation


def python_shapes() -> dict[str, dict[str, str]]:
    """By message, its fields with their types in TypeScript's words; ``?`` after a name that may be
    absent."""
    made = {}
    for name, kind in vars(lab_messages).items():
        if not (isinstance(kind, type) and hasattr(kind, "__required_keys__")):
            continue
        made[name] = {}
        for key, reference in kind.__annotations__.items():
            annotation = (
                reference.__forward_arg__ if hasattr(reference, "__forward_arg__") else str(reference)
            )
            inner = re.fullmatch(r"NotRequired\[(.*)\]", annotation)
            made[name][key + "?" * bool(inner)] = in_typescript(inner[1] if inner else annotation)
    return made


def typescript_shapes() -> dict[str, dict[str, str]]:
    text = re.sub(r"/\*\*.*?\*/", "", MESSAGES_TS.read_text(), flags=re.DOTALL)
    found = re.findall(r"export interface (\w+) \{(.*?)\n\}", text, re.DOTALL)
    return {name: dict(re.findall(r"(\w+\??): ([^;]+);", body)) for name, body in found}


def test_python_and_typescript_agree_on_the_messages():
    assert python_shapes() == typescript_shapes()
    assert len(python_shapes()) > 10 and python_shapes()["Marks"]["lines"] == "Line[]"


def test_python_and_typescript_agree_on_target_and_version():
    assert f'export const TARGET = "{lab_messages.TARGET}"' in MESSAGES_TS.read_text()
    assert f"version: {lab_messages.VERSION};" in MESSAGES_TS.read_text()


def test_every_message_is_read_by_the_other_side():
    """Each type of message is in one of the two unions, and each from the kernel has a case in the link."""
    text = MESSAGES_TS.read_text()
    unions = {
        name: set(re.findall(r"\w+", body)) for name, body in re.findall(r"export type (\w+) =([^;]+);", text)
    }
    messages = {name for name, fields in python_shapes().items() if "type" in fields}
    assert unions["FromKernel"] | unions["FromFrontEnd"] == messages
    link = (EXTENSION / "src" / "lab" / "link.ts").read_text()
    for name in unions["FromKernel"]:
        assert f"case {python_shapes()[name]['type']}:" in link, name


def test_python_and_typescript_agree_on_the_palette():
    from lazynb.report.drawing_style import CLUSTERS

    palette = re.search(r"(?s)PALETTE = \[(.*?)\]", (EXTENSION / "src" / "ui" / "palette.ts").read_text())
    assert palette and tuple(re.findall(r'"(#\w+)"', palette[1])) == CLUSTERS
