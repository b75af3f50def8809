"""What goes into the wheel, built or editable, besides the package.

- The JupyterLab extension. Without it the wheel works too, less marks, status and panel. What is built lies
  in the repository (extension/labextension), so no install needs Node.
- The accelerator (lazynb/record/_fast.c), where a C compiler is found. Without one the wheel is pure Python
  and says nothing. ``LAZYNB_PURE=1`` asks for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "extension/labextension"
INSTALL = "extension/install.json"
PLACE = "share/jupyter/labextensions/@lazynb/extension"

SOURCE = "lazynb/record/_fast.c"
MODULE = "lazynb.record._fast"


class Parts(BuildHookInterface):
    """Hatchling calls ``initialize`` before each wheel, and ``finalize`` after it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        self._add_labextension(root, build_data)
        self._folder = tempfile.TemporaryDirectory(prefix="lazynb-")
        built = accelerator(root, Path(self._folder.name))
        if version == "editable":
            put(built, root)
        elif built is not None:
            build_data["force_include"][str(built)] = str(Path(SOURCE).with_name(built.name))
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()

    def _add_labextension(self, root: Path, build_data: dict[str, Any]) -> None:
        if not (root / BUILT / "package.json").is_file():
            self.app.display_warning(
                f"{BUILT} is absent: this wheel has no JupyterLab extension (marks on lines, status item, "
                "panel); "
                "%load_ext lazynb works without it. To build it: npm ci && npm run build in extension/"
            )
            return
        build_data["shared_data"][str(root / BUILT)] = PLACE
        build_data["shared_data"][str(root / INSTALL)] = f"{PLACE}/install.json"


def accelerator(root: Path, folder: Path) -> Path | None:
    """Compiles the accelerator for the running Python into ``folder``.

    Returns its path, or None where it is not wanted or cannot be built.
    """
    if os.environ.get("LAZYNB_PURE", "0") not in ("", "0") or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    source = root / SOURCE
    try:
        from setuptools import Distribution, Extension

        extension = Extension(
            MODULE, [SOURCE], define_macros=[("SOURCE_DIGEST", digest(source.read_bytes()))]
        )
        command: Any = Distribution({"name": "lazynb", "ext_modules": [extension]}).get_command_obj(
            "build_ext"
        )
        command.build_temp, command.build_lib = str(folder / "objects"), str(folder)
        command.ensure_finalized()
        with contextlib.chdir(root):
            command.run()
        return Path(folder, command.get_ext_filename(MODULE))
    except (
        Exception
    ):  # no compiler, no headers, no setuptools, flags that do not suit it: each raises its own
        return None


def put(built: Path | None, root: Path) -> None:
    """Puts the accelerator, or none, into the checkout, from which an editable install runs.

    A process that starts meanwhile finds the one or the other whole.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    place = (root / SOURCE).with_suffix(suffix)
    if built is None:
        place.unlink(missing_ok=True)
    else:
        beside = place.with_suffix(".new")
        shutil.copy2(built, beside)
        beside.replace(place)


def digest(source: bytes) -> str:
    """As :func:`lazynb.record.fast.accelerator.digest`, which compares the two."""
    return "d" + hashlib.sha256(source.replace(b"\r\n", b"\n")).hexdigest()[:16]
