"""Puts the JupyterLab extension into the wheel, built or editable. Without it the wheel works too, less
marks, status and panel.

What is built lies in the repository (extension/labextension), so no install needs Node. Standard library and
hatchling only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "extension/labextension"
INSTALL = "extension/install.json"
PLACE = "share/jupyter/labextensions/@lazynb/extension"


class Labextension(BuildHookInterface):
    """Hatchling calls ``initialize`` before each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if not (root / BUILT / "package.json").is_file():
            self.app.display_warning(
                f"{BUILT} is absent: this wheel has no JupyterLab extension (marks on lines, status item, "
                "panel); "
                "%load_ext lazynb works without it. To build it: npm ci && npm run build in extension/"
            )
            return
        build_data["shared_data"][str(root / BUILT)] = PLACE
        build_data["shared_data"][str(root / INSTALL)] = f"{PLACE}/install.json"
