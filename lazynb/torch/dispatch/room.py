"""Whether a view fits into the memory that it looks at."""

from __future__ import annotations

from lazynb.torch.dispatch.layout import Layout


def check_room(memory: Layout, wanted: Layout) -> None:
    """Raises PyTorch's error for a view of layout ``wanted`` that ends after the memory does."""
    if 0 in wanted.shape:
        return
    there = 0 if 0 in memory.shape else memory.end * memory.dtype.itemsize
    bytes_wanted = wanted.end * wanted.dtype.itemsize
    if bytes_wanted > there:
        raise RuntimeError(
            f"setStorage: sizes {list(wanted.shape)}, strides {list(wanted.stride)}, storage offset "
            f"{wanted.offset}, and itemsize {wanted.dtype.itemsize} requiring a storage size of "
            f"{bytes_wanted} are out of bounds for storage of size {there}"
        )
