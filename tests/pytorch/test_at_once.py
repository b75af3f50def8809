"""What goes to its operation at once, in C: operators of tensors, and PyTorch's own modules without parts.

Nothing that a user changes in between may be overlooked.
"""

from __future__ import annotations

import copy
import functools
import gc
import random

import jax
import jax.numpy as jnp
import pytest
import torch
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

import lazynb
from lazynb.frontends.torch import module_calls, native_dispatch
from lazynb.frontends.torch.torch_tensor import Tensor

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.skipif(native_dispatch._fast_dispatch is None, reason=native_dispatch.why_not or "")


@pytest.fixture
def through_pytorch(monkeypatch):
    """The operations that came through PyTorch."""
    found = []
    own = Tensor.__torch_dispatch__

    def noted(func, types, args=(), kwargs=None):
        found.append(str(func))
        return own(func, types, args, kwargs)

    monkeypatch.setattr(Tensor, "__torch_dispatch__", staticmethod(noted))
    return found


def warm(call):
    """Calls often enough that it is known, in traces of its own."""
    for _ in range(4):
        lazynb.sync(call())


# ---- operators ---------------------------------------------------------------------------------------------

OPERATORS = [
    lambda x, y: x + y,
    lambda x, y: 2 + x,
    lambda x, y: x - 0.5,
    lambda x, y: 0.5 * x,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x / 3,
    lambda x, y: -x,
    lambda x, y: abs(x),
    lambda x, y: x @ y,
    lambda x, y: x**2,
    lambda x, y: x**y,
    lambda x, y: x < y,
    lambda x, y: x != 0.5,
    lambda x, y: x.relu(),
    lambda x, y: x.add(y).tanh().exp(),
]


@pytest.mark.parametrize("call", OPERATORS)
def test_operators_reach_their_operation_without_the_pytorch_dispatcher(call, through_pytorch):
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    there, other = x.to("jax"), y.to("jax")
    with lazynb.lazy():
        warm(lambda: call(there, other))
        through_pytorch.clear()
        result = call(there, other)
        assert not through_pytorch
    wanted = call(x, y)
    torch.testing.assert_close(result.cpu(), wanted)
    assert type(result) is Tensor and result.dtype == wanted.dtype and result.is_leaf and result._version == 0


@pytest.mark.parametrize(
    "between",
    [
        lambda: torch.autocast("jax", dtype=torch.bfloat16),
        lambda: torch.profiler.profile(),
        lambda: FlopCounterMode(display=False),
        lambda: torch.device("cpu"),
    ],
)
def test_modes_and_autocast_still_apply_to_every_operation(between, through_pytorch):
    x = torch.rand(4, 4).to("jax")
    with lazynb.lazy():
        warm(lambda: x @ x)
        through_pytorch.clear()
        with between() as mode:
            result = x @ x
        assert through_pytorch
    if isinstance(mode, FlopCounterMode):
        assert mode.get_total_flops() == 2 * 4**3
    assert result.dtype == (torch.bfloat16 if isinstance(mode, torch.autocast) else torch.float32)


def test_backward_and_forward_gradients_are_kept():
    x = torch.rand(3, 3).to("jax")
    weight = torch.rand(3, 3)
    with lazynb.lazy():
        warm(lambda: (x * x) @ x)
        wanting = weight.to("jax").requires_grad_()
        ((x * wanting) @ x).sum().backward()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            tangent = forward_ad.unpack_dual(dual * x).tangent
        mapped = torch.func.grad(lambda v: (v * v).sum())(x)
        batched = torch.func.vmap(lambda row: row * row)(x)
    plain = x.cpu()
    reference = weight.clone().requires_grad_()
    ((plain * reference) @ plain).sum().backward()
    torch.testing.assert_close(wanting.grad.cpu(), reference.grad)
    torch.testing.assert_close(tangent.cpu(), plain)
    torch.testing.assert_close(mapped.cpu(), 2 * plain)
    torch.testing.assert_close(batched.cpu(), plain * plain)


def test_wrong_arguments_raise_the_errors_of_pytorch():
    x = torch.rand(3, 3).to("jax")
    with lazynb.lazy():
        warm(lambda: x + x)
        with pytest.raises(RuntimeError, match="must match the size"):
            x + torch.ones(2, device="jax")
        with pytest.raises(TypeError):
            x + "one"
        assert x.__add__("one") is NotImplemented
        assert torch.equal((x + True).cpu(), x.cpu() + True)
        assert torch.equal(x.add(x, alpha=3).cpu(), x.cpu().add(x.cpu(), alpha=3))
        assert (x + torch.ones(3, 3, dtype=torch.float64, device="jax")).dtype == torch.float64
    assert Tensor.__add__.__name__ == "__add__" and Tensor.relu.__doc__ == torch.Tensor.relu.__doc__


def test_in_inference_mode_results_are_inference_tensors():
    x = torch.rand(3).to("jax")
    with lazynb.lazy():
        warm(lambda: x * 2)
        with torch.inference_mode():
            inside = x * 2
        outside = x * 2
    assert inside.is_inference() and not outside.is_inference()
    with pytest.raises(RuntimeError, match="[Ii]nference tensor"):
        inside.requires_grad_()


# ---- arrays that other code may delete ---------------------------------------------------------------------


def deleted_before(x):
    array = x.jax()
    result = x * 2 + 1
    array.delete()
    return result


def deleted_after(x):
    result = x * 2 + 1
    x.jax().delete()
    return result


def deleted_as_tree(x):
    result = x * 2 + 1
    jax.tree.leaves(x)[0].delete()
    return result


def donated(x):
    result, array = x * 2 + 1, x.jax()
    with lazynb.eager():
        jax.jit(lambda v: v + 1, donate_argnums=0)(array)
    return result


def from_outside(x):
    array = jnp.asarray(x.cpu().numpy())
    other = jax.tree.unflatten(jax.tree.structure(x), [array])
    result = other * 2 + 1
    array.delete()
    return result


@pytest.mark.parametrize("call", [deleted_before, deleted_after, deleted_as_tree, donated, from_outside])
def test_pending_values_survive_arrays_that_were_exported(call):
    plain = torch.rand(4, 4)
    x = plain.to("jax")
    with lazynb.lazy():
        warm(lambda: x * 2 + 1)
        result = call(x)
    torch.testing.assert_close(result.cpu(), plain * 2 + 1)


# ---- modules -----------------------------------------------------------------------------------------------


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 8),
        nn.LayerNorm(8),
        nn.Dropout(0.5),
        nn.GELU(),
    ).eval()


@pytest.fixture
def both():
    """A model on the CPU, its copy on device ``jax``, and an input of each."""
    plain, x = model(), torch.rand(2, 2, 4, 4)
    there, given = copy.deepcopy(plain).to("jax"), x.to("jax")
    with torch.no_grad(), lazynb.lazy():
        warm(lambda: there(given))
        yield plain, there, x, given


def same(both):
    plain, there, x, given = both
    torch.testing.assert_close(there(given).cpu(), plain(x), rtol=1e-4, atol=1e-5)


def test_modules_reach_their_operation_without_the_pytorch_dispatcher(both, through_pytorch):
    _, there, _, given = both
    through_pytorch.clear()
    result = there(given)
    assert through_pytorch == ["aten.view.default"]  # a view shares memory, which is PyTorch's to know
    same(both)
    assert type(result) is Tensor and not result.requires_grad


def change_number(m):
    m[5].eps = 0.5


def change_parameter(m):
    m[4].weight = nn.Parameter(m[4].weight * 2)


def change_data(m):
    m[4].weight.data = m[4].weight.data * 3


def write_to_parameter(m):
    with torch.no_grad():
        m[4].bias.add_(1)


def add_bias(m):
    m[0].bias = nn.Parameter(torch.ones(4, device=m[0].weight.device))


def lose_parameter(m):
    m[5].bias = None


def train(m):
    m[1].train()


def hook(m):
    m[2].register_forward_hook(lambda module, args, output: output + 1)


def hook_before(m):
    m[2].register_forward_pre_hook(lambda module, args: (args[0] - 0.5,))


def own_forward(m):
    m[7].forward = lambda x: x * 2


def add_part(m):
    m[2].add_module("part", nn.Identity())


def another_class(m):
    class Double(nn.ReLU):
        def forward(self, x):
            return super().forward(x) * 2

    m[2] = Double()


def move_part(m):
    m[2], m[7] = m[7], m[2]


def parametrized(m):
    nn.utils.parametrizations.weight_norm(m[4])


def write_to_buffer(m):
    m[1].running_mean.add_(1)


CHANGES = [
    change_number,
    change_parameter,
    change_data,
    write_to_parameter,
    add_bias,
    lose_parameter,
    train,
    hook,
    hook_before,
    own_forward,
    add_part,
    another_class,
    move_part,
    parametrized,
    write_to_buffer,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_to_a_module_take_effect(change, both):
    for m in both[:2]:
        change(m)
    for _ in range(4):
        same(both)


def test_global_hooks_and_patched_forwards_take_effect(both, monkeypatch):
    plain, there, x, given = both
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, output: seen.append(type(m)))
    there(given)
    handle.remove()
    assert seen == [type(one) for one in there] + [nn.Sequential]
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x + 3)
    same(both)
    monkeypatch.setattr(F, "layer_norm", lambda x, *rest: x * 2)
    same(both)
    monkeypatch.setattr(
        nn.Conv2d, "_conv_forward", lambda self, x, weight, bias: F.conv2d(x, weight * 2, bias, padding=1)
    )
    same(both)
    monkeypatch.undo()
    same(both)


def test_other_memory_layouts_and_dtypes_take_effect(both):
    plain, there, _, _ = both
    for x in (torch.rand(3, 2, 4, 4), torch.rand(2, 4, 4, 2).permute(0, 3, 1, 2)):
        for _ in range(3):
            same((plain, there, x, x.to("jax")))
    plain.double(), there.double()
    x = torch.rand(2, 2, 4, 4, dtype=torch.float64)
    for _ in range(3):
        assert there(x.to("jax")).dtype == torch.float64
        same((plain, there, x, x.to("jax")))
    with pytest.raises(RuntimeError, match="dtype|type"):
        there(x.float().to("jax"))
    with pytest.raises(RuntimeError, match="channels"):
        there(torch.rand(2, 3, 4, 4, dtype=torch.float64).to("jax"))


def test_gradients_are_computed_when_grad_mode_is_enabled_later(both):
    plain, there, x, given = both
    with torch.enable_grad():
        there(given).sum().backward()
        plain(x).sum().backward()
    torch.testing.assert_close(there[0].weight.grad.cpu(), plain[0].weight.grad, rtol=1e-3, atol=1e-4)


def test_operations_in_modules_have_their_lines_and_scopes(both):
    _, there, _, given = both
    origins = there(given).jax()._pending.origins()
    found = [(one.scope, one.place.line) for one in filter(None, origins)]
    assert {line for _, line in found} == {max(line for _, line in found)}
    scopes = [scope for scope, _ in found]
    assert [scope.split("/")[-1] for scope in dict.fromkeys(scopes)][:2] == ["0", "1"]
    assert all(scope.startswith("Sequential") for scope in scopes)


def test_the_forward_of_a_user_module_is_called_each_time(through_pytorch):
    calls = []

    class Mine(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x + len(calls)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.mine = Mine()

        def forward(self, x):
            return self.mine(x)

    m, x = Outer(), torch.zeros((), device="jax")
    with torch.no_grad(), lazynb.lazy():
        assert [int(m(x)) for _ in range(5)] == [1, 2, 3, 4, 5]


def test_random_modules_draw_each_time(both):
    _, there, _, given = both
    drop = nn.Sequential(nn.Dropout(0.5)).train().to("jax")
    first, second = drop(given), drop(given)
    assert not torch.equal(first.cpu(), second.cpu())


def test_modules_that_are_gone_are_forgotten():
    gc.collect()
    before = len(module_calls.leaf_modules)
    m, x = model().to("jax"), torch.rand(2, 2, 4, 4).to("jax")
    with torch.no_grad(), lazynb.lazy():
        warm(functools.partial(m, x))
    assert len(module_calls.leaf_modules) > before
    del m
    gc.collect()
    assert len(module_calls.leaf_modules) == before


def test_random_changes_between_calls_are_those_of_the_cpu():
    """Programs of calls and changes, as long as a session of somebody who tries things."""
    chance = random.Random(7)
    for _ in range(6):
        plain, x = model(), torch.rand(2, 2, 4, 4)
        there, given = copy.deepcopy(plain).to("jax"), x.to("jax")
        changes = [one for one in CHANGES if one not in (parametrized, move_part, add_part)]
        with torch.no_grad(), lazynb.lazy():
            for _ in range(14):
                if chance.random() < 0.35:
                    change = chance.choice(changes)
                    try:
                        change(plain)
                    except (AttributeError, TypeError):  # there is no bias any more to be written to
                        continue
                    change(there)
                same((plain, there, x, given))
