"""What goes into the wheel, built or editable, besides the package.

- The JupyterLab extension. Without it the wheel works too, less marks, status and panel. What is built lies
  in the repository (extension/labextension), so no install needs Node.
- The accelerator (two modules in C, :data:`MODULES`), where a C compiler is found. Without one the wheel is
  pure Python and says nothing. ``LAZYNB_PURE=1`` asks for that.
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

MODULES = {
    "lazynb.recording._fast": "lazynb/recording/_fast.c",
    "lazynb.frontends.torch._short": "lazynb/frontends/torch/_short.c",
}
"""The accelerator's modules, and their sources."""
SHARED = "lazynb/_native.h"
"""What all of them include."""


class Parts(BuildHookInterface):
    """Hatchling calls ``initialize`` before each wheel, and ``finalize`` after it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        self._add_labextension(root, build_data)
        self._folder = tempfile.TemporaryDirectory(prefix="lazynb-")
        folder = Path(self._folder.name)
        built = accelerator(root, folder)
        if version == "editable":
            put(built, folder, root)
        elif built:
            build_data["force_include"].update({str(folder / name): name for name in built})
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


def accelerator(root: Path, folder: Path) -> list[str]:
    """Compiles the accelerator for the running Python into ``folder``.

    Returns the names of its files there, which are their names in a checkout; none where it is not wanted or
    cannot be built.
    """
    if os.environ.get("LAZYNB_PURE", "0") not in ("", "0") or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []
    try:
        from setuptools import Distribution, Extension

        shared = (root / SHARED).read_bytes()
        extensions = [
            Extension(
                module,
                [source],
                define_macros=[("SOURCE_DIGEST", digest(shared, (root / source).read_bytes()))],
            )
            for module, source in MODULES.items()
        ]
        command: Any = Distribution({"name": "lazynb", "ext_modules": extensions}).get_command_obj(
            "build_ext"
        )
        command.build_temp, command.build_lib = str(folder / "objects"), str(folder)
        command.ensure_finalized()
        with contextlib.chdir(root):
            command.run()
        return [Path(command.get_ext_filename(module)).as_posix() for module in MODULES]
    except (
        Exception
    ):  # no compiler, no headers, no setuptools, flags that do not suit it: each raises its own
        return []


def put(built: list[str], folder: Path, root: Path) -> None:
    """Puts what was built in ``folder``, or nothing, into the checkout, from which an editable install runs.

    A process that starts meanwhile finds the one or the other whole.
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    for source in MODULES.values():
        place = (root / source).with_suffix(suffix)
        name = place.relative_to(root).as_posix()
        if name in built:
            beside = place.with_suffix(".new")
            shutil.copy2(folder / name, beside)
            beside.replace(place)
        else:
            place.unlink(missing_ok=True)


def digest(*sources: bytes) -> str:
    """As :func:`lazynb.recording.replay.native_replay.source_digest`, which compares the two."""
    return "d" + hashlib.sha256(b"".join(sources).replace(b"\r\n", b"\n")).hexdigest()[:16]
