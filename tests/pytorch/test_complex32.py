"""Complex numbers of two float16 (``torch.complex32``), which JAX does not have: as on PyTorch's CPU."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.utils._pytree as tree

import lazynb

HALF = torch.complex32


def saved(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


def imaginary(x, new):
    x.imag = new
    return x


def mask(x):
    return torch.tensor([True, False, True], device=x.device)


LAZY = {
    "rounded": lambda x, y, wide: x,
    "sizes": lambda x, y, wide: (x.element_size(), x.nbytes, x.dtype, x.is_complex()),
    "complex64": lambda x, y, wide: x.to(torch.complex64),
    "complex128": lambda x, y, wide: x.cdouble(),
    "float64": lambda x, y, wide: x.double(),
    "whole": lambda x, y, wide: y.to(torch.uint8),
    "truth": lambda x, y, wide: x.bool(),
    "of truth": lambda x, y, wide: (x.real > 0).chalf(),
    "of whole": lambda x, y, wide: torch.arange(5000, 5003, device=x.device).chalf(),
    "of float64": lambda x, y, wide: torch.linspace(0, 1, 99, dtype=torch.float64, device=x.device).chalf(),
    "parts": lambda x, y, wide: (x.real, x.imag, torch.view_as_real(x)),
    "bits": lambda x, y, wide: (x.view(torch.int32), x.view(torch.float16)),
    "of parts": lambda x, y, wide: torch.view_as_complex(torch.view_as_real(x) + 1),
    "conjugate": lambda x, y, wide: x.conj().clone(),
    "negative": lambda x, y, wide: torch._neg_view(x).clone(),
    "copy": lambda x, y, wide: x.clone(),
    "deep copy": lambda x, y, wide: copy.deepcopy(x),
    "part": lambda x, y, wide: x[1:].view(2, 1).t().contiguous(),
    "every other": lambda x, y, wide: x.as_strided((2,), (2,)),
    "written": lambda x, y, wide: (x.copy_(wide), x),
    "written from real": lambda x, y, wide: (x.copy_(y.real), x),
    "written to complex64": lambda x, y, wide: (wide.copy_(x), wide),
    "written to the conjugate": lambda x, y, wide: (x.conj().copy_(y), x),
    "written to a part": lambda x, y, wide: (x[1:].copy_(wide[1:]), x),
    "written to the real parts": lambda x, y, wide: (x.real.add_(1), x),
    "written to the imaginary parts": lambda x, y, wide: imaginary(x, torch.ones_like(x.imag)),
    "filled": lambda x, y, wide: (x.fill_(1.0001 + 2j), x),
    "zeros": lambda x, y, wide: (x.zero_(), torch.zeros(2, dtype=HALF, device=x.device)),
    "like": lambda x, y, wide: (torch.ones_like(x), torch.full_like(x, 2.3j), x.new_full((2,), 0.1)),
    "new": lambda x, y, wide: torch.full((2,), 0.1j, dtype=HALF, device=x.device),
    "of a list": lambda x, y, wide: torch.tensor([1j, 2.1], dtype=HALF, device=x.device),
    "no view": lambda x, y, wide: x.view(2),
}
ON_CPU = {
    "filled with a tensor": lambda x, y, wide: (x.fill_(wide[0]), y.fill_(y[1]), wide.fill_(x[0])),
    "number": lambda x, y, wide: (x[0].item(), x.tolist()),
    "saved": lambda x, y, wide: saved(x),
    "added": lambda x, y, wide: (x + y, wide + x, x + wide.real),
    "multiplied": lambda x, y, wide: (x * y, x * 2.5, -x),
    "made of float16": lambda x, y, wide: (x.real * 1j, torch.complex(x.real, y.imag)),
    "absolute": lambda x, y, wide: (x.abs(), x.isnan(), x == y),
    "chosen": lambda x, y, wide: (torch.where(mask(x), x, y), x.masked_fill(mask(x), 1j), x[mask(x)]),
    "joined": lambda x, y, wide: (torch.cat([x, y]), torch.stack([x, y]), torch.cat([x, wide])),
    "in place": lambda x, y, wide: (x.add_(wide), y.mul_(2.5), wide.add_(x), x),
    "assigned": lambda x, y, wide: (x.__setitem__(0, 1j), y.__setitem__(mask(y), 1j), x, y),
    "to out": lambda x, y, wide: (
        torch.add(x, y, out=torch.zeros_like(wide)),
        torch.add(wide, wide, out=torch.zeros_like(x)),
        torch.add(x, y, out=x.new_empty(0)),
    ),
    "each": lambda x, y, wide: torch._foreach_add([x, y], 1),
    "close": lambda x, y, wide: (torch.allclose(x, x, equal_nan=True), torch.allclose(x, y)),
}
REFUSED = {
    "divided": lambda x, y, wide: x / y,
    "divided in place": lambda x, y, wide: x.div_(2.5),
    "exponential": lambda x, y, wide: x.exp(),
    "sum": lambda x, y, wide: x.sum(),
    "product": lambda x, y, wide: x.view(1, 3) @ y.view(3, 1),
    "linear": lambda x, y, wide: torch.nn.functional.linear(x.view(1, 3), y.view(1, 3)),
    "compared": lambda x, y, wide: torch.equal(x, y),
    "sorted": lambda x, y, wide: x.sort(),
    "to an out of floats": lambda x, y, wide: torch.add(x, y, out=torch.zeros_like(wide.real)),
    "to what is expanded": lambda x, y, wide: x[:1].expand(3).add_(y),
    "an array of NumPy's": lambda x, y, wide: x.numpy(),
}


def numbers(there):
    """Numbers to be rounded, also below the normal ones and beyond the largest."""
    wide = torch.tensor([1.0897 - 0.2076j, -1.54e-5 + 3.99e-6j, 9e4 - 1e5j])
    other = torch.tensor([0.2851 + 0.5927j, 0.5087 + 0.2853j, 100.4 + 0.1287j])
    wide, other = wide.to(there), other.to(there)
    return wide.chalf(), other.chalf(), other.clone()


def plain(result):
    """What can be compared: bits, as a sum of no number is one."""

    def of_one(x):
        if not isinstance(x, torch.Tensor):
            return x
        here = x.detach().cpu().resolve_conj().resolve_neg()
        parts = torch.view_as_real(here).double() if here.is_complex() else here.double()
        return x.dtype, x.shape, x.stride(), parts.nan_to_num(7).tolist()

    return [of_one(x) for x in tree.tree_leaves(result)]


def outcome(code, there):
    try:
        return plain(code(*numbers(there)))
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


@pytest.mark.parametrize("name", [*LAZY, *ON_CPU, *REFUSED])
def test_complex32_operations_give_values_and_errors_of_the_cpu(name, device):
    code = {**LAZY, **ON_CPU, **REFUSED}[name]
    wanted = outcome(code, "cpu")
    assert (wanted[0] is not None and isinstance(wanted[0], type)) == (name in {*REFUSED, "no view"})
    assert outcome(code, device) == wanted
    for _ in range(2):  # recorded, and recalled
        with lazynb.lazy():
            assert outcome(code, device) == wanted


@pytest.mark.parametrize("name", [name for name in LAZY if name != "no view"])
def test_conversions_views_and_copies_are_recorded(name, device):
    with lazynb.lazy():
        result = LAZY[name](*numbers(device))
        assert not lazynb.breaks()
        plain(result)


def test_arithmetic_runs_on_the_cpu_as_a_break_with_its_name(device):
    with lazynb.lazy():
        x, y, _ = numbers(device)
        x * y
        assert {(one.kind, one.detail) for one in lazynb.breaks()} == {("unrecordable", "aten.mul.Tensor")}


def test_a_rounded_number_is_rounded_in_the_program_too(device):
    """XLA leaves a conversion to float16 and back out, where it sees one."""
    x = torch.tensor([1.0001 + 3.0003j], device=device)
    with lazynb.lazy():
        back = (x * 3).chalf().to(torch.complex64) + 1e-3
        here = (x.cpu() * 3).chalf().to(torch.complex64) + 1e-3
        assert back.tolist() == here.tolist()


def gradient(code, there, dtype=torch.complex64):
    x = (torch.arange(1, 4) / 3).to(dtype).to(there).requires_grad_()
    return plain(torch.autograd.grad(code(x), x))


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        (lambda x: x.chalf().real.sum(), torch.float32),
        (lambda x: x.chalf().to(torch.complex64).abs().sum(), torch.complex64),
        (lambda x: (x.chalf() * x.chalf()).real.sum(), torch.complex64),
        (lambda x: torch.view_as_real(x * x).float().sum(), HALF),
    ],
)
def test_gradients_equal_the_cpu(code, dtype, device):
    wanted = gradient(code, "cpu", dtype)
    assert gradient(code, device, dtype) == wanted
    with lazynb.lazy():
        assert gradient(code, device, dtype) == wanted


def test_complex32_tensors_are_printed_as_by_pytorch(device):
    x = torch.tensor([0.5 + 2j, 1.0], dtype=HALF)
    there = x.to(device)
    assert repr(there).replace("device='jax:0', ", "") == repr(x).replace("\n      ", "")
    assert str(there) == repr(there)
    with lazynb.lazy():
        assert "pending" in repr(there.conj().clone()) and not lazynb.breaks()


def test_conversion_to_jax_gives_complex64(device):
    x = torch.tensor([0.5 + 2j], dtype=HALF).to(device)
    assert x.jax().dtype == "complex64" and x.jax().tolist() == [0.5 + 2j]
    assert complex(x) == 0.5 + 2j and bool(x) and not bool(x - x)
