"""Masks among indices, with gradients: places stand for those whose values are known."""

from __future__ import annotations

import pytest
import torch

import lazynb

ROWS = torch.tensor([True, False, True, False])
ALL = torch.tensor([[True, False, True], [False] * 3, [True] * 3, [False, True, False]])


def written(x, mask, values):
    z = x * 1
    z[mask] = values
    return z


# Of a matrix, a mask of its rows and one of all its elements.
PROGRAMS = {
    "rows": lambda x, rows, all_of: x[rows],
    "elements": lambda x, rows, all_of: x[all_of],
    "columns": lambda x, rows, all_of: x[:, all_of[0]],
    "rows and places": lambda x, rows, all_of: x[rows, [0, -1]],
    "of whole numbers": lambda x, rows, all_of: x[rows.to(torch.uint8)],
    "masked_select": lambda x, rows, all_of: x.masked_select(all_of) + x.masked_select(rows[:, None])[0],
    "written to rows": lambda x, rows, all_of: written(x, rows, x[1:3] * 2),
    "written to elements": lambda x, rows, all_of: written(x, all_of, x[all_of] * 2),
    "a number": lambda x, rows, all_of: written(x, all_of, 3.0),
    "added": lambda x, rows, all_of: x.index_put((rows,), x[1:3], accumulate=True),
}


def value_and_gradient(program, device, where):
    x = torch.arange(12.0).reshape(4, 3).to(device).requires_grad_()
    result = program(x, ROWS.to(where), ALL.to(where))
    (result**2).sum().backward()
    return result.detach(), x.grad


HERE = [(name, "jax") for name in PROGRAMS]
THERE = [(name, "cpu") for name in PROGRAMS if name != "masked_select"]  # which takes none of another device


@pytest.mark.parametrize(("name", "where"), HERE + THERE)
def test_a_mask_that_is_known_is_recorded(name, where):
    wanted = value_and_gradient(PROGRAMS[name], "cpu", "cpu")
    with lazynb.lazy():
        got = value_and_gradient(PROGRAMS[name], "jax", where)
        assert not lazynb.breaks()
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize(
    "program", [lambda x, mask: x[mask], lambda x, mask: written(x, mask, x[mask] * 2), torch.masked_select]
)
def test_a_mask_that_is_pending_is_asked_for_once(program):
    def run(device):
        x = torch.arange(12.0).reshape(4, 3).to(device).requires_grad_()
        result = program(x, (x.detach() * 1) % 3 > 1)
        (result**2).sum().backward()
        return result.detach(), x.grad

    with lazynb.lazy():
        got = run("jax")
        assert [one.detail for one in lazynb.breaks()] == ["aten.index.Tensor"]
    for a, b in zip(got, run("cpu"), strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[ALL[0].to(x.device)],
        lambda x: written(x, ROWS.to(x.device), x[:3]),
        lambda x: x.masked_select(ROWS.to(x.device)),
    ],
)
def test_shapes_that_do_not_go_together_are_pytorchs_errors(program):
    x = torch.ones(4, 3)
    with pytest.raises(Exception) as wanted:
        program(x)
    with lazynb.lazy(), pytest.raises(type(wanted.value)) as got:
        program(x.to("jax"))
    assert str(got.value) == str(wanted.value)
