"""Every view written through: what shares memory sees the write, whatever numbers it sees the memory as."""

from __future__ import annotations

import copy

import pytest
import torch

import lazynb


def complexes(d):
    return torch.complex(torch.arange(6.0), torch.arange(6.0, 12.0)).reshape(2, 3).to(d)


def floats(d):
    return torch.arange(1.0, 7.0).reshape(2, 3).to(d)


# The base, its view, and the write to the view. After the write both have to be PyTorch's.
VIEWS = {
    "imag": (complexes, lambda x: x.imag, lambda v: v.mul_(2)),
    "real": (complexes, lambda x: x.real, lambda v: v.__setitem__(0, 7)),
    "imag of a row": (complexes, lambda x: x[0].imag[1:], lambda v: v.zero_()),
    "real of a transpose": (complexes, lambda x: x.t().real, lambda v: v.add_(1)),
    "view_as_real": (complexes, torch.view_as_real, lambda v: v[:, 0].zero_()),
    "view_as_real, parts": (complexes, torch.view_as_real, lambda v: v[..., 0].zero_()),
    "view_as_complex": (
        lambda d: torch.arange(12.0).reshape(2, 3, 2).to(d),
        torch.view_as_complex,
        lambda v: v.mul_(1j),
    ),
    "view_as_real, strided": (
        complexes,
        lambda x: torch.view_as_real(x).as_strided((2, 2), (6, 1), 1),
        lambda v: v.zero_(),
    ),
    "conj": (complexes, lambda x: x.conj(), lambda v: v.mul_(2j)),
    "imag of conj": (complexes, lambda x: x.conj().imag, lambda v: v.add_(1)),
    "mH": (complexes, lambda x: x.mH, lambda v: v.mul_(1j)),
    "negative": (complexes, torch._neg_view, lambda v: v.add_(1)),
    "int32": (floats, lambda x: x.view(torch.int32), lambda v: v.add_(1 << 23)),
    "int16": (floats, lambda x: x.view(torch.int16), lambda v: v[:, 1].zero_()),
    "uint8": (floats, lambda x: x.view(torch.uint8), lambda v: v[0, 3].fill_(0xC0)),
    "int64": (lambda d: torch.arange(4.0).to(d), lambda x: x.view(torch.int64), lambda v: v[1].zero_()),
    "complex64": (lambda d: torch.arange(4.0).to(d), lambda x: x.view(torch.complex64), lambda v: v.mul_(1j)),
    "bool": (
        lambda d: torch.tensor([1, 0, 1], dtype=torch.uint8).to(d),
        lambda x: x.view(torch.bool),
        lambda v: v.logical_not_(),
    ),
    "bfloat16 as int16": (
        lambda d: floats(d).bfloat16(),
        lambda x: x.view(torch.int16),
        lambda v: v.bitwise_or_(1),
    ),
    "int32 of a transpose": (floats, lambda x: x.t().view(torch.int32), lambda v: v.add_(1)),
    "int32 of a number": (
        lambda d: torch.tensor(1.0).to(d),
        lambda x: x.view(torch.int32),
        lambda v: v.add_(1),
    ),
    "diagonal": (floats, lambda x: x.diagonal(), lambda v: v.zero_()),
    "unfold": (floats, lambda x: x.unfold(1, 2, 1), lambda v: v[0, 0].fill_(9)),
    "mT": (floats, lambda x: x.mT, lambda v: v[0].fill_(1)),
    "movedim": (floats, lambda x: x.movedim(0, 1), lambda v: v[0].fill_(5)),
    "swapaxes": (floats, lambda x: x.swapaxes(0, 1), lambda v: v[1].fill_(5)),
    "narrow": (floats, lambda x: x.narrow(1, 1, 2), lambda v: v.zero_()),
    "tensor_split": (floats, lambda x: x.tensor_split(2, 1)[0], lambda v: v.zero_()),
    "hsplit": (floats, lambda x: x.hsplit(3)[1], lambda v: v.zero_()),
    "unbind": (floats, lambda x: x.unbind(1)[2], lambda v: v.zero_()),
    "ravel": (floats, lambda x: x.ravel(), lambda v: v[2].zero_()),
    "reshape": (floats, lambda x: x.reshape(3, 2), lambda v: v[2].zero_()),
    "select": (floats, lambda x: x.select(1, -1), lambda v: v.zero_()),
    "squeeze": (floats, lambda x: x[None].squeeze(0), lambda v: v.mul_(2)),
    "data": (floats, lambda x: x.data, lambda v: v.zero_()),
    "detach": (floats, lambda x: x.detach(), lambda v: v.zero_()),
    "copy.copy": (floats, copy.copy, lambda v: v.zero_()),
    "one of many at the same place": (floats, lambda x: x.expand(3, 2, 3)[1], lambda v: v[0].zero_()),
    "along an axis": (floats, lambda x: x[:, :1].expand(2, 4)[:, 2], lambda v: v.mul_(2)),
    "resolve_conj": (complexes, lambda x: x.conj().resolve_conj(), lambda v: v.zero_()),
    "resize_as_": (floats, lambda x: x[1], lambda v: v.resize_as_(v[:2]).zero_()),
    "set_": (floats, lambda x: torch.empty(0, device=x.device).set_(x[1]), lambda v: v.zero_()),
    "as_strided": (floats, lambda x: x.as_strided((2, 2), (3, 1), 1), lambda v: v.zero_()),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("first", ["view", "base"])
def test_a_write_is_seen_on_both_sides(name, first):
    make, view, write = VIEWS[name]

    def program(d):
        base = make(d)
        seen = view(base)
        if first == "view":
            write(seen)
        else:
            base.mul_(2) if base.dtype is not torch.uint8 else base.zero_()
        return base, seen

    wanted = program("cpu")
    with lazynb.lazy():
        got = program("jax")
        assert not lazynb.breaks()
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(
            a.cpu(), b.resolve_conj().resolve_neg(), equal_nan=True, check_stride=False
        )


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (lambda y: (y.imag.mul_(3), (y.abs() ** 2).sum())[1])(x.clone()),
        lambda x: (torch.view_as_real(x) * torch.arange(2.0, device=x.device)).sum(),
        lambda x: (x.conj() * x.mH.sum()).abs().sum(),
    ],
)
def test_gradients_through_views_of_complex_numbers(program):
    def gradient(d):
        x = complexes(d).requires_grad_()
        program(x).backward()
        return x.grad

    wanted = gradient("cpu")
    with lazynb.lazy():
        got = gradient("jax")
    torch.testing.assert_close(got.cpu(), wanted.resolve_conj())


LOOKS = {
    "transpose": lambda x: x.t(),
    "view": lambda x: x.view(9),
    "slice": lambda x: x[1:],
    "several": lambda x: x.split(2)[1],
    "strided": lambda x: x.as_strided((2, 2), (1, 3)),
    "detached": lambda x: x.detach(),
    "written to": lambda x: x[0].add_(2),
    "computed": lambda x: x + 1,
    "of what is computed": lambda x: (x * 2).t()[1],
    "embedded": lambda x: torch.nn.functional.embedding(x[0].long() % 3, x),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_views_made_in_inference_mode_of_an_outside_tensor_are_no_inference_tensors(look, dtype):
    plain = torch.arange(9, dtype=dtype).reshape(3, 3)
    there = plain.to("jax")
    with lazynb.lazy():
        for _ in range(3):  # at once, too
            found = []
            for x in (plain, there):
                with torch.inference_mode():
                    seen = LOOKS[look](x)
                found.append((seen.is_inference(), seen.tolist(), x.is_inference(), x.tolist()))
                x.add_(1)
            assert found[0] == found[1]
