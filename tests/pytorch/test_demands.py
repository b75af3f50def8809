"""What PyTorch demands of values and raises for: at the call where the value is known, else at the flush."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import lazynb
from lazynb.frontends.torch.dispatch.value_checks import IndexRange, check_known_range


def number(device, *values):
    """A tensor of whole numbers that is pending on device ``jax``."""
    return (torch.tensor(values, device=device, dtype=torch.float64) * 1).long()


BAD = {
    "embedding": lambda d: F.embedding(number(d, 7), torch.ones(3, 2, device=d)),
    "embedding, negative": lambda d: F.embedding(number(d, -1), torch.ones(3, 2, device=d)),
    "gather": lambda d: torch.arange(3.0, device=d).gather(0, number(d, 7)),
    "gather, negative": lambda d: torch.arange(3.0, device=d).gather(0, number(d, -1)),
    "index": lambda d: torch.arange(3.0, device=d)[number(d, 7)],
    "index, negative": lambda d: torch.arange(3.0, device=d)[number(d, -4)],
    "index, second": lambda d: torch.ones(3, 4, device=d)[:, number(d, 4)],
    "index_select": lambda d: torch.arange(3.0, device=d).index_select(0, number(d, 7)),
    "index_select of a matrix": lambda d: torch.ones(3, 4, device=d).index_select(1, number(d, -1)),
    "cross entropy": lambda d: F.cross_entropy(torch.ones(2, 3, device=d), number(d, 1, 3)),
    "scatter": lambda d: torch.zeros(3, device=d).scatter(0, number(d, 5), 1.0),
    "scatter_": lambda d: torch.zeros(3, device=d).scatter_(0, number(d, 5), torch.ones(1, device=d)),
    "scatter_add": lambda d: torch.zeros(3, device=d).scatter_add(0, number(d, -1), torch.ones(1, device=d)),
    "scatter_reduce": lambda d: torch.zeros(3, device=d).scatter_reduce(
        0, number(d, 3), torch.ones(1, device=d), "amax"
    ),
    "index_add": lambda d: torch.zeros(3, device=d).index_add(0, number(d, 3), torch.ones(1, device=d)),
    "index_copy": lambda d: torch.zeros(3, device=d).index_copy(0, number(d, 3), torch.ones(1, device=d)),
    "index_fill": lambda d: torch.zeros(3, device=d).index_fill(0, number(d, 3), 1.0),
    "index_put": lambda d: torch.zeros(3, device=d).index_put_((number(d, 3),), torch.ones(1, device=d)),
    "take": lambda d: torch.ones(3, device=d).take(number(d, 3)),
    "put": lambda d: torch.ones(3, device=d).put(number(d, 3), torch.ones(1, device=d)),
    "one_hot": lambda d: F.one_hot(number(d, 3), 3),
    "masked_scatter": lambda d: torch.ones(3, device=d).masked_scatter(
        number(d, 1, 1, 1) > 0, torch.ones(2, device=d)
    ),
    "floor_divide": lambda d: number(d, 3) // number(d, 0),
    "floor_divide by a number": lambda d: number(d, 3) // 0,
    "remainder": lambda d: number(d, 3) % number(d, 0),
    "fmod": lambda d: torch.fmod(number(d, 3), number(d, 0)),
    "div": lambda d: torch.div(number(d, 3), number(d, 0), rounding_mode="trunc"),
    "multinomial": lambda d: torch.multinomial(-number(d, 1, 2).float(), 1),
    "inv": lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d) * 1),
    "inv of several": lambda d: torch.linalg.inv(torch.stack([torch.eye(2), torch.zeros(2, 2)]).to(d) * 1),
    "solve": lambda d: torch.linalg.solve(torch.zeros(2, 2, device=d) * 1, torch.ones(2, device=d)),
    "cholesky": lambda d: torch.linalg.cholesky(-torch.eye(2, device=d)),
    "cholesky_inverse": lambda d: torch.cholesky_inverse(torch.zeros(2, 2, device=d) * 1),
    "cholesky_inverse of several": lambda d: torch.cholesky_inverse(
        torch.stack([torch.eye(2), torch.zeros(2, 2)]).to(d) * 1
    ),
    "index_add to a matrix": lambda d: torch.ones(3, 4, device=d).index_add(
        0, number(d, -1), torch.ones(1, 4, device=d)
    ),
    "max_unpool": lambda d: F.max_unpool1d(torch.ones(1, 2, device=d), number(d, 0, 9)[None], 2),
    "index_select of columns": lambda d: torch.ones(3, 4, device=d).index_select(1, number(d, 7)),
    "index_select of rows": lambda d: torch.ones(3, 4, device=d).index_select(0, number(d, 7)),
    "bags": lambda d: F.embedding_bag(number(d, 0, 7, 1), torch.ones(3, 2, device=d), number(d, 0, 2)),
    "bags, negative": lambda d: F.embedding_bag(number(d, -1)[None], torch.ones(3, 2, device=d)),
    "largest of bags": lambda d: F.embedding_bag(number(d, 7)[None], torch.ones(3, 2, device=d), mode="max"),
    "first bag": lambda d: F.embedding_bag(number(d, 0, 1), torch.ones(3, 2, device=d), number(d, 1)),
    "last bag": lambda d: F.embedding_bag(number(d, 0, 1), torch.ones(3, 2, device=d), number(d, 0, 3)),
    "renormalised": lambda d: F.embedding(number(d, 7), torch.ones(3, 2, device=d), max_norm=1.0),
    "labels": lambda d: F.multilabel_margin_loss(torch.ones(3, device=d), number(d, 3, 0, 0)),
    "binary cross entropy": lambda d: F.binary_cross_entropy(number(d, 2).float(), torch.ones(1, device=d)),
    "its target": lambda d: F.binary_cross_entropy(torch.ones(1, device=d), number(d, 2).float()),
    "bernoulli": lambda d: torch.bernoulli(number(d, 2).float()),
    "normal": lambda d: torch.normal(0.0, number(d, -1).float()),
    "poisson": lambda d: torch.poisson(number(d, -1).float()),
    "histc": lambda d: torch.histc(torch.tensor([1.0, float("inf")], device=d) * 1),
    "svd": lambda d: torch.linalg.svd(torch.full((2, 2), float("nan"), device=d)),
}


@pytest.mark.parametrize("name", BAD)
def test_the_error_is_pytorchs_and_names_the_users_line(name):
    with pytest.raises(Exception) as wanted:
        BAD[name]("cpu")
    with lazynb.lazy():
        with pytest.raises(type(wanted.value)) as got:
            BAD[name]("jax")
            assert not lazynb.breaks(), "it costs no run"
            lazynb.sync()
        notes = "".join(getattr(got.value, "__notes__", []))
        assert not notes or "test_demands.py" in notes
    assert str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]


@pytest.mark.parametrize("name", ["embedding", "gather", "index", "floor_divide", "inv"])
def test_outside_lazy_mode_the_error_is_raised_at_the_call(name):
    with pytest.raises((IndexError, RuntimeError)):
        BAD[name]("jax")


def test_an_index_that_is_known_raises_at_the_call():
    indices, weight = torch.tensor([7], device="jax"), torch.ones(3, 2, device="jax")
    with lazynb.lazy():
        with pytest.raises(IndexError, match="out of range in self") as found:
            F.embedding(indices, weight)
        assert not hasattr(found.value, "__notes__"), "it is raised on its line"


def test_only_what_depends_on_the_failed_operation_has_no_value():
    with lazynb.lazy():
        weight = torch.ones(3, 2, device="jax")
        good = weight * 2
        bad = F.embedding(number("jax", 7), weight)
        with pytest.raises(IndexError):
            good.sum().item()
        assert good.sum().item() == 12
        later = bad + 1
        for one in (bad, later, bad):
            with pytest.raises(IndexError, match="out of range"):
                one.tolist()
        assert (good + 1).tolist() == [[3, 3]] * 3
        del bad, later
        lazynb.sync()


def test_sound_indices_give_what_they_give_on_the_cpu_without_a_break():
    def program(d):
        x = torch.arange(12.0, device=d).reshape(3, 4)
        at = number(d, 0, 2)
        return [
            x[at],
            x[:, -at - 1],
            x.gather(1, number(d, 3, 0, 1)[:, None]),
            F.embedding(at, x),
            F.cross_entropy(x, number(d, 1, -100, 3)),
            x.index_fill(1, -at - 1, 9.0),
            x.index_fill(1, -at - 1, torch.tensor(9.0, device=d, dtype=torch.float64)),
            number(d, 7, -7) // number(d, 2, 3),
        ]

    wanted = program("cpu")
    with lazynb.lazy():
        got = program("jax")
        assert not lazynb.breaks()
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b)


MIXED = {
    "matmul": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d).double(),
    "matmul of integers": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d).long(),
    "linear": lambda d: F.linear(torch.ones(2, 2, device=d), torch.ones(2, 2, device=d).bfloat16()),
    "bias": lambda d: F.linear(
        torch.ones(2, 2, device=d), torch.ones(2, 2, device=d), torch.ones(2, device=d).bfloat16()
    ),
    "bmm": lambda d: torch.bmm(torch.ones(1, 2, 2, device=d), torch.ones(1, 2, 2, device=d).double()),
    "mv": lambda d: torch.mv(torch.ones(2, 2, device=d), torch.ones(2, device=d).double()),
    "convolution": lambda d: F.conv1d(torch.ones(1, 1, 3, device=d), torch.ones(1, 1, 2, device=d).double()),
    "layer_norm": lambda d: F.layer_norm(torch.ones(2, 2, device=d), (2,), torch.ones(2, device=d).double()),
    "batch_norm": lambda d: F.batch_norm(
        torch.ones(2, 2, device=d), torch.ones(2, device=d).double(), torch.ones(2, device=d).double()
    ),
    "index_add": lambda d: torch.zeros(3, device=d).index_add(
        0, number(d, 0), torch.ones(1, device=d).double()
    ),
    "index_add of another shape": lambda d: torch.zeros(3, 4, device=d).index_add(
        0, number(d, 0, 1), torch.ones(2, 1, device=d)
    ),
    "a float as an index": lambda d: torch.ones(3, device=d)[torch.ones(2, device=d)],
    "bounds of random numbers": lambda d: torch.empty(3, device=d).uniform_(2, -1),
    "whole bounds": lambda d: torch.empty(3, device=d).random_(3, 1),
    "heaviside": lambda d: torch.heaviside(torch.ones(2, device=d), torch.ones(2, device=d).half()),
    "a difference of truth values": lambda d: torch.ones(2, device=d) - (number(d, 1, 0) > 0),
    "a comparison of complex numbers": lambda d: torch.ones(2, device=d) < torch.ones(2, device=d) + 1j,
    "their largest": lambda d: torch.maximum(torch.ones(2, device=d), torch.ones(2, device=d) + 1j),
    "their sign": lambda d: (torch.ones(2, device=d) + 1j).sign(),
    "their argmax": lambda d: (torch.ones(2, device=d) + 1j).argmax(),
    "written to integers": lambda d: number(d, 1).mul_(1.5),
    "written to real numbers": lambda d: torch.ones(2, device=d).add_(torch.ones(2, device=d) + 1j),
    "out": lambda d: torch.add(torch.ones(1, device=d), 1, out=number(d, 1)),
    "eigenvalues of integers": lambda d: torch.linalg.eigvalsh(number(d, 1, 0, 0, 1).reshape(2, 2)),
    "a determinant of small floats": lambda d: torch.eye(2, device=d).bfloat16().det(),
    "index_select by a matrix": lambda d: torch.ones(3, 4, device=d).index_select(0, number(d, 1)[None]),
    "select_scatter": lambda d: torch.ones(3, 4, device=d).select_scatter(torch.ones(3, device=d), 1, 4),
    "slice_scatter": lambda d: torch.ones(3, 4, device=d).slice_scatter(torch.ones(1, 4, device=d), 0, 1),
    "diagonal_scatter": lambda d: torch.ones(3, 4, device=d).diagonal_scatter(torch.ones(1, device=d)),
    "one_hot": lambda d: F.one_hot(number(d, 1).int(), 3),
    "alpha": lambda d: torch.add(number(d, 1), number(d, 1), alpha=0.5),
}


@pytest.mark.parametrize("name", MIXED)
def test_errors_about_dtypes_are_those_of_the_cpu(name):
    with pytest.raises(Exception) as wanted:
        MIXED[name]("cpu")
    with lazynb.lazy(), pytest.raises(type(wanted.value)) as got:
        MIXED[name]("jax")
    assert str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]


def test_factorisation_info_values_equal_the_cpu():
    def program(d):
        x = torch.tensor([[1.0, 2.0], [2.0, 4.0]], device=d)
        y = torch.tensor([[2.0, 1.0], [1.0, -3.0]], device=d)
        stack = torch.stack([torch.eye(2, device=d), torch.zeros(2, 2, device=d)])
        return [
            torch.linalg.inv_ex(x).info,
            torch.linalg.cholesky_ex(y).info,
            torch.linalg.lu_factor_ex(stack).info,
            torch.linalg.inv(y),
            torch.linalg.solve(y, x),
            torch.linalg.solve(y, x, left=False),
            torch.linalg.cholesky(y @ y.T, upper=True),
        ]

    wanted = program("cpu")
    with lazynb.lazy():
        got = program("jax")
        assert not lazynb.breaks()
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_transposed_convolutions_have_the_gradients_of_the_cpu(groups):
    torch.manual_seed(0)
    module = torch.nn.ConvTranspose2d(4, 8, 3, groups=groups, stride=2, padding=1, output_padding=1)
    x = torch.randn(2, 4, 5, 5)
    wanted = module(x)
    wanted.square().sum().backward()
    gradient = module.weight.grad.clone()
    module.zero_grad()
    module.to("jax")
    with lazynb.lazy():
        got = module(x.to("jax"))
        got.square().sum().backward()
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.weight.grad.cpu(), gradient, rtol=1e-4, atol=1e-3)


def test_integer_factors_are_truncated_and_resized_views_keep_their_memory():
    def program(d):
        x = number(d, 1, 2, 3, 4).reshape(2, 2)
        return [
            torch.addmm(x, x, x, beta=0.6, alpha=0.2),
            torch.addcmul(x, x, x, value=0.5),
            x / 0,
            x / torch.zeros_like(x),
            F.multilabel_margin_loss(x.float(), x % 2 - 1),
            (x * 100.5).to(torch.int8),
            torch.kaiser_window(5, device=d),
            torch.fft.fftfreq(4, device=d),
            torch.fft.fftfreq(5, 0.5, device=d),
            torch.fft.rfftfreq(5, device=d),
        ]

    wanted = program("cpu")
    with lazynb.lazy():
        got = program("jax")
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b)


def test_known_numbers_that_are_allowed_need_no_check(device):
    demand = IndexRange(0, 3, lambda found: IndexError(f"{int(found)} at {found.place}"), ignored=-100)
    for where in ("cpu", device):
        assert check_known_range(torch.tensor([0, 2, -100], device=where), demand)
    with pytest.raises(IndexError, match="3 at 1"):
        check_known_range(torch.tensor([0, 3]), demand)
