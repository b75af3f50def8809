"""The chain with control flow in PyTorch. TorchScript reads the annotations, so they are not postponed
here."""

from torch import Tensor


def chain(
    a: Tensor,
    way: int,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    e: Tensor,
    f: Tensor,
    g: Tensor,
    h: Tensor,
    i: Tensor,
) -> Tensor:
    """With methods, as in Torchy's paper."""
    a = a.add(b).mul(c).div(d).add(e).sub(f).mul(g).div(h).add(i)
    if way == 0:
        for _ in range(2):
            a = a.sub(b).mul(c).div(d).add(e).sub(f).mul(g).div(h).add(i)
    else:
        for _ in range(2):
            a = a.add(b).div(c).mul(d).sub(e).add(f).div(g).mul(h).sub(i)
    return a.add(b).mul(c).div(d).add(e).sub(f).mul(g).div(h).add(i)
