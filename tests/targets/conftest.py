"""The compilers of other chips: where one is not installed, its tests are skipped."""

from __future__ import annotations

import pytest

from lazynb.xla.targets.compiler_packages import compiler_of
from lazynb.xla.targets.target_chip import parse_target


@pytest.fixture
def needs():
    """Skips the test unless there is a compiler for the target of that name."""

    def needs(name):
        target = parse_target(name)
        if target is not None:
            compiler = compiler_of(target.chip.platform)
            if not compiler.is_installed:
                pytest.skip(f"lazynb targets install {compiler.name}: not done here")
        return name

    return needs
