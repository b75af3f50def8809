"""The peers: in which environment each lives, and which of :mod:`benchmarks.ways` runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """One of those compared.

    Attributes:
      name: what ``--peers`` calls it.
      title: what the tables call it.
      way: ``module:class`` in :mod:`benchmarks.ways`.
      environment: a key of :data:`benchmarks.environments.RECIPES`; empty for the one with lazynb in it.
      packages: those whose versions matter.
    """

    name: str
    title: str
    way: str
    environment: str
    packages: tuple[str, ...]


_JAX = ("jax", "jaxlib", "numpy", "flax", "optax", "scikit-learn")

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("lazynb", "lazynb", "jax_ways:Lazy", "", ("lazynb", *_JAX)),
        Peer("eager", "eager JAX", "jax_ways:Eager", "", _JAX),
        Peer("jit", "jax.jit", "jax_ways:Jit", "", _JAX),
        Peer("torch", "PyTorch eager", "torch_ways:Eager", "torch", ("torch", "numpy")),
        Peer("torchscript", "TorchScript", "torch_ways:Script", "torch", ("torch", "numpy")),
        Peer("torch-compile", "torch.compile", "torch_ways:Compile", "torch", ("torch", "numpy")),
        Peer(
            "lazynb-torch",
            "lazynb",
            "torch_jax_ways:Lazy",
            "torch-jax",
            ("lazynb", "torch", "torchax", "jax", "numpy"),
        ),
        Peer(
            "torchax", "torchax", "torch_jax_ways:Torchax", "torch-jax", ("torch", "torchax", "jax", "numpy")
        ),
        Peer("torch-xla", "PyTorch/XLA", "torch_xla_way:Lazy", "torch-xla", ("torch_xla", "torch", "numpy")),
        Peer("mlx", "MLX", "mlx_way:Lazy", "mlx", ("mlx", "numpy")),
    )
}
