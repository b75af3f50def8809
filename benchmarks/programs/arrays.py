"""The nine arrays of Torchy's microbenchmark."""

from __future__ import annotations

import numpy as np

SEED = 2023


def letters(side: int, names: str) -> list[np.ndarray]:
    """Those of ``a`` to ``i`` in ``names``: float32, ``side`` x ``side``, near 1, so that nothing overflows.

    What they hold makes no difference to the time, so large ones repeat a few random numbers instead of
    drawing as many.
    """
    generators = [np.random.default_rng((SEED, ord(name))) for name in names]
    return [np.resize(rng.uniform(0.9, 1.1, 99_991).astype(np.float32), (side, side)) for rng in generators]
