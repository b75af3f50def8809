"""What is carried out whole without a gradient gives what PyTorch's parts give, and steps aside where it must."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import lazynb
from lazynb.frontends.torch.dispatch import dispatcher, result_layouts

ATTENTION = [
    {},
    {"is_causal": True},
    {"scale": 0.3},
    {"attn_mask": torch.rand(5, 7) > 0.4},
    {"attn_mask": torch.zeros(2, 1, 5, 7, dtype=torch.bool)},
    {"attn_mask": torch.randn(2, 4, 5, 7)},
    {"scale": -0.3},
]


def same(plain, there, call, **tolerances):
    """``call`` gives the same of tensors on the CPU and on device jax, eagerly and lazily."""
    wanted = call(*plain)
    for context in (lazynb.lazy(), lazynb.eager()):
        with context:
            got = call(*there)
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
            torch.testing.assert_close(got.cpu(), wanted, **tolerances)


@pytest.mark.parametrize("options", ATTENTION, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.parametrize("grads", [False, True])
def test_attention_equals_the_cpu_with_and_without_gradients(options, grads):
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    moved = {name: x.to("jax") if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    plain = [x.clone().requires_grad_(grads) for x in (q, k, v)]
    there = [x.to("jax").requires_grad_(grads) for x in (q, k, v)]

    def call(*args):
        own = moved if args[0].device.type == "jax" else options
        result = F.scaled_dot_product_attention(*args, **own)
        if not grads:
            return result
        return torch.cat([x.reshape(-1) for x in torch.autograd.grad(result.square().sum(), args)])

    same(plain, there, call, rtol=1e-4, atol=1e-5)


def test_attention_with_a_mask_that_is_causal_too():
    """The CPU applies both, and since PyTorch 2.14 refuses it; its parts always did, so no gradient is asked for."""
    q, mask = torch.randn(2, 4, 5, 8), torch.rand(5, 5) > 0.3
    moved = mask.to("jax")

    def call(q):
        return F.scaled_dot_product_attention(
            q, q, q, moved if q.device.type == "jax" else mask, is_causal=True
        )

    try:
        call(q)
    except RuntimeError as refusal:
        with pytest.raises(RuntimeError, match=re.escape(str(refusal))):
            call(q.to("jax"))
    else:
        same((q,), (q.to("jax"),), call, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64])
def test_softmax_is_computed_in_the_dtype_that_is_asked_for(dtype):
    x = torch.randn(3, 64).mul(4).bfloat16()
    x[1] = -torch.inf
    wide = {"rtol": 2e-2, "atol": 1e-3} if dtype is None else {"rtol": 1e-5, "atol": 1e-7}
    same((x,), (x.to("jax"),), lambda x: torch.ops.aten._safe_softmax(x, -1, dtype), **wide)


def test_fmod_by_infinity_equals_the_cpu():
    x = torch.tensor([-3.0, 0.0, 2.5])
    same((x,), (x.to("jax"),), lambda x: torch.fmod(x, torch.inf))
    same((x,), (x.to("jax"),), lambda x: torch.fmod(x, x.new_full((3,), 2.0)))


def test_equal_views_have_equal_steps():
    x = torch.arange(12.0).to("jax")
    first, second = (x.as_strided((2, 3), (1, 4), 1) for _ in range(2))
    assert first._steps == second._steps


class Mine(torch.nn.Module):
    """A module of the user's inside of PyTorch's."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)  # here
        return x * 2  # and here


def test_the_line_is_that_of_the_user_s_module_inside_of_pytorch_s():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Mine(), torch.nn.Tanh()).to("jax")
    with lazynb.lazy(), torch.no_grad():
        result = model(torch.ones(2, 4, device="jax"))  # called here
        nodes = lazynb.graph(result).snapshot.nodes
        lines = [node.place.text for node in nodes if node.place is not None and node.kind == "op"]
    assert {line.partition("#")[2].strip() for line in lines} == {"here", "and here", "called here"}


def test_grouped_query_and_half_precision_attention_equal_the_cpu():
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    there = [x.to("jax") for x in (q, k, v)]
    same(
        (q, k, v),
        there,
        lambda *args: F.scaled_dot_product_attention(*args, enable_gqa=True),
        rtol=1e-4,
        atol=1e-5,
    )
    narrow = [x.bfloat16() for x in (q, q, q)]
    same(narrow, [x.to("jax") for x in narrow], F.scaled_dot_product_attention, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64]
)
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (4,)), ((2, 5, 3, 4), None)], ids=str
)
def test_linear_equals_the_cpu_for_each_shape_and_dtype(dtype, shapes):
    lead, bias = shapes
    x, w = (torch.randn(shape).mul(3).to(dtype) for shape in (lead, (5, 4)))
    b = None if bias is None else torch.randn(5).mul(3).to(dtype)
    args = [x, w] if b is None else [x, w, b]
    wide = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    same(args, [one.to("jax") for one in args], F.linear, **wide)


def test_matmul_of_every_rank_equals_the_cpu():
    shapes = [(4,), (4, 4), (2, 4, 4), (3, 2, 4, 4)]
    for one, other in itertools.product(shapes, shapes):
        args = [torch.randn(one), torch.randn(other)]
        same(args, [x.to("jax") for x in args], torch.matmul, rtol=1e-4, atol=1e-5)
    empty = [torch.randn(0, 4), torch.randn(4, 2)]
    same(empty, [x.to("jax") for x in empty], torch.matmul)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.linear(x, x.new_ones(2, 9)),
        lambda x: F.linear(x, x.new_ones(2, 4), x.new_ones(3)),
        lambda x: F.linear(x, x.new_ones(2, 4).double()),
        lambda x: x @ x.new_ones(3, 5),
        lambda x: x @ x.new_ones(4, 5).double(),
        lambda x: F.scaled_dot_product_attention(x[None], x[None].double(), x[None]),
        lambda x: F.scaled_dot_product_attention(x[None], x.new_ones(1, 3, 5), x[None]),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], x.new_ones(7, 7)),
    ],
)
def test_errors_are_those_of_pytorch(call):
    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError) as wanted:
        call(x)
    with lazynb.lazy(), torch.no_grad(), pytest.raises(RuntimeError) as got:
        call(x.to("jax"))
    assert type(got.value) is type(wanted.value)


def test_a_recalled_call_uses_its_own_numbers_and_masks():
    """Two learning rates, two exponents, two masks: none is taken for the one before."""
    x = torch.arange(1.0, 5.0)
    there = x.to("jax")
    for number in (0.5, 2.0, 0.5, 3.0, 1.0, 2.0):
        for call in (
            lambda x, n: x * n,
            lambda x, n: x**n,
            lambda x, n: torch.add(x, x, alpha=n),
            lambda x, n: torch.addcmul(x, x, x, value=n),
            lambda x, n: torch.lerp(x, -x, n / 4),
            lambda x, n: x.clamp(min=n),
            lambda x, n: F.leaky_relu(-x, n),
            lambda x, n: x.masked_fill(x > 2, n),
            lambda x, n: F.layer_norm(x, (4,), eps=n),
            lambda x, n: torch.full_like(x, n),
            lambda x, n: x.roll(int(n)),
            lambda x, n: F.pad(x, (1, 1), value=n),
        ):
            with lazynb.lazy():
                torch.testing.assert_close(call(there, number).cpu(), call(x, number))


def test_positive_and_negative_zero_are_told_apart():
    x = torch.ones(2)
    there = x.to("jax")
    for zero in (0.0, -0.0, 0.0):
        for call in (
            lambda x: F.pad(x, (1, 1), value=zero),
            lambda x: torch.full_like(x, zero),
            lambda x: x * zero,
            lambda x: F.threshold(x, 2.0, zero),
            lambda x: (x * torch.nan).nan_to_num(zero),
        ):
            with lazynb.lazy():
                assert torch.equal(call(there).cpu().signbit(), call(x).signbit())


def test_an_exponent_with_a_rule_of_its_own_is_not_taken_for_another():
    x = torch.tensor([-torch.inf, -0.0, 3.0])
    there = x.to("jax")
    for exponent in (1.5, 2.5, 3.5, 0.5, 2.0, 0.5):
        with lazynb.lazy():
            same_bits = (there**exponent).cpu()
        torch.testing.assert_close(same_bits, x**exponent, equal_nan=True)
        assert torch.equal(
            same_bits.signbit() & (same_bits == 0), (x**exponent).signbit() & (x**exponent == 0)
        )


def test_dropout_draws_anew_each_time():
    there = torch.ones(64).to("jax")
    q = torch.randn(1, 1, 8, 8).to("jax")
    with lazynb.lazy():
        first, second = F.dropout(there).cpu(), F.dropout(there).cpu()
        one, other = (F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).cpu() for _ in range(2))
    assert not torch.equal(first, second) and not torch.equal(one, other)


def test_calls_that_draw_have_no_name():
    there = torch.ones(4).to("jax")
    aten = torch.ops.aten
    assert result_layouts.expected_results(aten.bernoulli.default, (there,), {}).name is None
    assert result_layouts.expected_results(aten.native_dropout.default, (there, 0.5, True), {}).name is None
    named = result_layouts.expected_results(aten.exp.default, (there,), {}).name
    assert (
        named is not None
        and result_layouts.expected_results(aten.exp.default, (there + 1,), {}).name is named
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.bernoulli(x / 2),
        lambda x: torch.rand_like(x),
        lambda x: torch.randn_like(x),
        lambda x: torch.native_dropout(x, 0.5, True)[0],
        lambda x: torch.multinomial(x, 32, replacement=True),
        lambda x: torch.randperm(64, device=x.device),
    ],
)
def test_random_draws_differ_on_each_call(draw):
    there = torch.ones(64).to("jax")
    with lazynb.lazy():
        drawn = [draw(there).cpu() for _ in range(3)]
        at_once = draw(there), draw(there)
        drawn += [x.cpu() for x in at_once]
    assert len({tuple(x.tolist()) for x in drawn}) == len(drawn)


def test_jvp_vmap_and_jacrev_equal_the_cpu():
    w, x = torch.randn(3, 4), torch.randn(2, 4)
    for call in (
        lambda w, x: torch.func.jvp(lambda x: F.linear(x, w), (x,), (x,))[1],
        lambda w, x: torch.func.grad(lambda w: F.linear(x, w).square().sum())(w),
        lambda w, x: torch.func.vmap(lambda row: F.linear(row, w))(x),
        lambda w, x: torch.func.vmap(torch.matmul)(x[:, None], x[:, :, None]),
        lambda w, x: torch.func.jacrev(lambda x: x @ w.T)(x),
    ):
        torch.testing.assert_close(call(w.to("jax"), x.to("jax")).cpu(), call(w, x))

    with forward_ad.dual_level():
        moved, wanted = (
            forward_ad.unpack_dual(
                F.linear(forward_ad.make_dual(x.to(device), x.to(device)), w.to(device))
            ).tangent
            for device in ("jax", "cpu")
        )
        torch.testing.assert_close(moved.cpu(), wanted)


def test_a_mode_sees_every_operation():
    w, x, bias = (one.to("jax") for one in (torch.randn(3, 4), torch.randn(2, 4), torch.ones(3)))
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if any(isinstance(one, torch.Tensor) and one.device.type == "jax" for one in args):
                seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watch(), torch.no_grad():
        F.linear(x, w, bias)
    assert "aten.addmm.default" in seen


LAYERS = [
    ((2, 3), (4, 3), (4,)),
    ((2, 5, 3), (4, 3), (4,)),
    ((2, 2, 2, 3), (4, 3), None),
    ((3,), (4, 3), (4,)),
    ((2, 3), (3,), None),
    ((2, 5, 3), (4, 3), (1,)),
    ((0, 3), (4, 3), (4,)),
]


@pytest.mark.parametrize(("x", "weight", "bias"), LAYERS)
@pytest.mark.parametrize("wanted", [(1, 1, 1), (0, 1, 0), (1, 0, 0), (0, 0, 1), (0, 1, 1)])
def test_first_and_second_gradients_of_linear_equal_the_cpu(x, weight, bias, wanted):
    numbers = [None if s is None else torch.rand(s, dtype=torch.float64) for s in (x, weight, bias)]

    def results(d):
        tensors = [
            None if x is None else x.to(d).requires_grad_(bool(w))
            for x, w in zip(numbers, wanted, strict=True)
        ]
        given = [x for x in tensors if x is not None and x.requires_grad]
        y = F.linear(*tensors)
        if not given:
            return [y]
        first = torch.autograd.grad(y.square().sum(), given, create_graph=True)
        total = sum(x.square().sum() for x in first)
        return [y, *first, *torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)]

    expected = results("cpu")
    for _ in range(2):
        with lazynb.lazy():
            got = [x.detach().cpu() for x in results("jax")]
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b.detach())


def test_a_layer_and_its_gradient_are_an_operation_each():
    layer = torch.nn.Linear(3, 4).to("jax")
    x = torch.rand(2, 5, 3, device="jax")
    called = []
    real = dispatcher.dispatch

    def counted(func, args, kwargs):
        called.append(str(func))
        return real(func, args, kwargs)

    from lazynb.frontends.torch import torch_tensor

    torch_tensor.set_dispatch(counted)
    try:
        y = layer(x)
        torch.autograd.grad(y, [layer.weight, layer.bias], torch.ones_like(y))
    finally:
        torch_tensor.set_dispatch(real)
    assert [name for name in called if "linear" in name] == [
        "aten.linear.default",
        "aten.linear_backward.default",
    ]
    assert not any("mm" in name for name in called)
