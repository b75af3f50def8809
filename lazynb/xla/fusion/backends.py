"""The backends whose rules lazynb knows, by the platform that JAX names."""

from __future__ import annotations

from lazynb.xla.fusion.backend_rules import BackendRules, NoRules
from lazynb.xla.fusion.cpu_rules import CpuRules
from lazynb.xla.fusion.gpu_rules import GpuRules
from lazynb.xla.fusion.tpu_rules import TpuRules
from lazynb.xla.hlo.module import Module

BACKENDS: dict[str, type[BackendRules]] = {
    "cpu": CpuRules,
    "cuda": GpuRules,
    "gpu": GpuRules,
    "tpu": TpuRules,
}


def rules_of(platform: str, module: Module) -> BackendRules:
    """The rules by which XLA made clusters of ``module`` on ``platform``; :class:`NoRules` if lazynb does not
    know them."""
    return BACKENDS.get(platform, NoRules)(module)
