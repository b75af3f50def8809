"""Operations that models need, beside those of PyTorch's own samples: values, gradients, and no break."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import lazynb


def both(program):
    """What a program of a device returns on the CPU and lazily, without a break before it is asked for."""
    torch.manual_seed(0)
    wanted = program("cpu")
    torch.manual_seed(0)
    with lazynb.lazy():
        found = program("jax")
        assert not lazynb.breaks()
        found = [x.cpu() for x in found]
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-6)


SHAPES = {
    "rows": ((6, 8), (3, 8, 16), [2, 2, 6]),
    "columns": ((3, 8, 8), (8, 8), [2, 2, 8]),
    "sum": ((8, 8), (8, 16), [2, 2, 8]),
    "batch": ((3, 6, 8), (3, 8, 16), None),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SHAPES)
def test_grouped_mm_has_values_and_gradients_of_the_cpu(name, dtype):
    first, second, ends = SHAPES[name]

    def program(d):
        x, y = (torch.randn(shape).to(d, dtype).requires_grad_() for shape in (first, second))
        offs = None if ends is None else torch.tensor(ends, dtype=torch.int32, device=d)
        result = F.grouped_mm(x, y, offs=offs)
        (result * 0.5).sum().backward()
        return [result.detach(), x.grad, y.grad]

    both(program)


POOLS = [
    (F.avg_pool1d, (2, 3, 9), {"stride": 2, "padding": 1, "count_include_pad": False}),
    (F.avg_pool1d, (2, 3, 9), {"stride": 2, "ceil_mode": True}),
    (F.avg_pool2d, (2, 3, 9, 8), {"stride": 1, "padding": 1, "count_include_pad": False}),
    (F.avg_pool2d, (3, 9, 8), {"stride": 3, "padding": 1, "ceil_mode": True}),
    (F.avg_pool2d, (2, 3, 9, 8), {"divisor_override": 5}),
    (F.avg_pool3d, (1, 2, 6, 5, 7), {"stride": (1, 2, 3), "padding": 1, "ceil_mode": True}),
]


@pytest.mark.parametrize(("pool", "shape", "options"), POOLS)
def test_pooling_has_values_and_gradients_of_the_cpu(pool, shape, options):
    def program(d):
        x = torch.randn(shape).to(d).requires_grad_()
        result = pool(x, 3, **options)
        (result * result).sum().backward()
        return [result.detach(), x.grad]

    both(program)


@pytest.mark.parametrize("dim", [0, 2, None])
def test_weight_norm_has_values_and_gradients_of_the_cpu(dim):
    def program(d):
        module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 6, 3), dim=dim).to(d)
        result = module(torch.randn(2, 4, 5).to(d))
        (result * result).sum().backward()
        return [result.detach(), *[p.grad for p in module.parameters()]]

    both(program)


def test_histc_and_all_true_give_the_values_of_the_cpu_without_a_break():
    x = torch.tensor([1.0, 5.0, 3.0, 3.0, 0.0, 9.0])
    with lazynb.lazy():
        there = x.to("jax") * 1
        counts = torch.histc(there.int(), bins=4, min=0, max=3)
        true = [torch._is_all_true(there > 0), torch._is_any_true(there > 0)]
        assert not lazynb.breaks()
        assert (counts.dtype, counts.tolist()) == (torch.int32, torch.histc(x, 4, 0, 3).tolist())
        assert [bool(one) for one in true] == [False, True]
