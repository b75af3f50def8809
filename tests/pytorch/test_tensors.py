"""What PyTorch code does to tensors: on device ``jax``, lazily, it comes to what it comes to on the CPU."""

from __future__ import annotations

import copy
import io
import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

import lazynb
import lazynb.torch


def same(program, *shapes, exact=False):
    """Runs ``program(device, *tensors)`` on the CPU, and lazily on device ``jax``: equal values, dtypes,
    shapes; or errors."""
    torch.manual_seed(0)
    tensors = [torch.randn(shape) for shape in shapes]
    try:
        wanted = program("cpu", *[one.clone() for one in tensors])
    except Exception as error:
        with lazynb.lazy(), pytest.raises(type(error)):
            program("jax", *[one.to("jax") for one in tensors])
        return
    with lazynb.lazy():
        got = program("jax", *[one.to("jax") for one in tensors])
        assert not lazynb.breaks(), "the program was recorded"
        for a, b in zip(_flat(got), _flat(wanted), strict=True):
            if isinstance(b, torch.Tensor):
                assert a.device.type == "jax"
                assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
                torch.testing.assert_close(
                    a.detach().cpu(), b.detach(), rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5
                )
            else:
                assert a == b


def _flat(result):
    if not isinstance(result, (list, tuple)):
        return [result]
    return [leaf for one in result for leaf in _flat(one)]


PROGRAMS = {
    "operators": lambda d, x, y: ((x + y) * 2 / (y * y + 1) - x**2, -x, x @ y.T, abs(x), 1 - x, 2**x),
    "comparisons": lambda d, x, y: (
        x > y,
        x == x,
        (x > 0) & (y > 0),
        torch.where(x > 0, x, y),
        x.argmax(),
        x.max(dim=1),
    ),
    "integers": lambda d, x, y: (
        torch.arange(5, device=d),
        torch.arange(5, device=d) // 2,
        torch.arange(5, device=d) / 2,
        (x * 100).long() % 7,
        torch.ones(3, dtype=torch.bool, device=d).sum(),
        (x * 1e12).long(),
    ),
    "promotion": lambda d, x, y: (
        x.double() + y,
        x.half() + 1.5,
        x.long() + x,
        x.int() + torch.tensor(2, device=d),
        x + torch.tensor(2.0, dtype=torch.float64, device=d),
        x.bool() + 1,
        x.long() * 1.5,
        x == torch.tensor(0.1, dtype=torch.float64, device=d),
    ),
    "reductions": lambda d, x, y: (
        x.sum(),
        x.mean(0),
        x.std(),
        x.var(1, keepdim=True),
        x.norm(),
        x.cumsum(1),
        x.prod(),
        x.amax(0),
    ),
    "shapes": lambda d, x, y: (
        x.view(-1),
        x.t(),
        x.reshape(4, 3),
        x.unsqueeze(0),
        x[None, :, 1:3],
        x.expand(2, 3, 4),
        x.permute(1, 0),
        torch.cat([x, y]),
        torch.stack([x, y]),
        *x.split(2),
        *x.chunk(2, 1),
        x.flatten(),
        x.repeat(2, 1),
    ),
    "indexing": lambda d, x, y: (
        x[0],
        x[-1, -1],
        x[::2, 1:],
        x[torch.tensor([0, 2], device=d)],
        x[[0, 1]],
        x[..., 0],
        x.gather(1, torch.zeros(3, 1, dtype=torch.long, device=d)),
        x.index_select(0, torch.tensor([1], device=d)),
        x[torch.tensor([0, 2])],
    ),
    "strides": lambda d, x, y: (
        x.t().stride(),
        x.t().is_contiguous(),
        x.t().contiguous().stride(),
        (x.t() + 1).stride(),
        x[:, 1:].stride(),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_on_the_cpu(name):
    same(PROGRAMS[name], (3, 4), (3, 4))


def in_place(d, x, y):
    x += y
    x.mul_(2).clamp_(-1, 1)
    x[0] = 7
    x[:, 1] += 3
    x[1:, ::2] = y[1:, ::2]
    x.index_put_((torch.tensor([0, 1], device=d),), torch.tensor(5.0, device=d))
    x[torch.tensor([2], device=d), 1] = -1.0
    x.masked_fill_(x > 4, 0.5)
    x.copy_(x * 2)
    return x, x.fill_(3) is x


def through_views(d, x, y):
    row, column = x[0], x[:, 1]
    row.add_(1)
    column.mul_(2)
    inner = x[1:][:, 1:].t()
    inner[0] = 9
    flat = x.view(-1)
    flat[3] = -4
    x.view(2, 6)[1, 2:4].zero_()
    x.transpose(0, 1).unsqueeze(0)[0, 2].sub_(1)
    x.diagonal().add_(10)
    taken = x.as_strided((2, 2), (4, 1), 5)
    taken.neg_()
    cloned = x.clone()
    cloned.zero_()
    detached = x.detach()
    detached[0, 0] = 100
    x.data.mul_(0.5)
    x.squeeze_().t_()
    return x, row, column, inner, flat, taken, cloned, detached


def outputs(d, x, y):
    out = torch.empty(3, 4, device=d)
    torch.add(x, y, out=out)
    torch.mul(out, 2, out=out[:, :])
    return out, torch.sum(x, dim=0, out=torch.empty(4, device=d))


@pytest.mark.parametrize("program", [in_place, through_views, outputs], ids=lambda p: p.__name__)
def test_writing_is_seen_by_all_that_share_the_memory(program):
    same(program, (3, 4), (3, 4))


@pytest.mark.parametrize(
    "program",
    [
        lambda d, x, y: x + y[:, :3],
        lambda d, x, y: x.long().add_(1.5),
        lambda d, x, y: x.t().view(-1),
        lambda d, x, y: x @ y,
        lambda d, x, y: x[5],
        lambda d, x, y: x.expand(2, 3, 4).sum(dim=7),
        lambda d, x, y: torch.cat([x, y[:, :2]]),
        lambda d, x, y: x[:1].expand(3, 4).add_(1),
        lambda d, x, y: bool(x),
        lambda d, x, y: x.requires_grad_().add_(1),
    ],
)
def test_errors_are_pytorchs_and_come_at_the_call(program):
    same(program, (3, 4), (3, 4))


def test_tensors_of_two_devices_do_not_mix_but_numbers_do():
    with lazynb.lazy():
        x = torch.ones(3, device="jax")
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3)
        assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]


STEPS = st.lists(
    st.tuples(
        st.sampled_from("slice select t view flip add set mul copy".split()),
        st.integers(0, 5),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


def walk(device, plan):
    """A random program of views and writes; all the tensors that it made."""
    base = torch.arange(24.0, device=device).reshape(4, 6)
    kept = [base]
    for what, at, by in plan:
        x = kept[at % len(kept)]
        if what == "slice" and x.dim():
            kept.append(x[by % x.shape[0] :] if x.shape[0] > 1 else x[:])
        elif what == "select" and x.dim() > 1:
            kept.append(x.select(by % x.dim(), 0))
        elif what == "t" and x.dim() == 2:
            kept.append(x.t())
        elif what == "view" and x.is_contiguous():
            kept.append(x.view(-1))
        elif what == "flip" and x.dim() == 2:
            kept.append(x.unsqueeze(0).transpose(1, 2))
        elif what == "add":
            x.add_(by)
        elif what == "mul":
            x.mul_(-by)
        elif what == "set" and x.dim() and x.shape[0] > 1:
            x[:: by + 1] = by * 10.0
        elif what == "copy":
            kept.append(x.clone())
    return kept


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_random_programs_of_views_and_writes(plan):
    wanted = walk("cpu", plan)
    got = walk("jax", plan)
    for a, b in zip(got, wanted, strict=True):
        assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
        assert a.tolist() == b.tolist()


def test_looking_runs_nothing_and_printing_is_pytorchs():
    with lazynb.lazy():
        x = torch.arange(6.0, device="jax").reshape(2, 3) * 2
        assert "pending" in repr(x) and "size=(2, 3)" in repr(x) and "torch.float32" in repr(x)
        x._repr_mimebundle_()
        assert not lazynb.breaks() and not lazynb.events()
        assert str(x) == "tensor([[ 0.,  2.,  4.],\n        [ 6.,  8., 10.]], device='jax:0')"
        y = x.clone().requires_grad_() * 1
        assert str(y).endswith("device='jax:0', grad_fn=<MulBackward0>)")
        assert str(x.long()).endswith("device='jax:0')")
        assert str(x.double()).endswith("device='jax:0', dtype=torch.float64)")
    assert [one.kind for one in lazynb.breaks()] == ["print"] * 4


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("bool", lambda x: bool(x.any())),
        ("float", lambda x: float(x.sum())),
        ("int", lambda x: int(x.sum())),
        ("item", lambda x: x.sum().item()),
        ("tolist", lambda x: x.tolist()),
        ("asarray", lambda x: x.numpy()),
        ("asarray", lambda x: x.cpu()),
        ("asarray", lambda x: x.to("cpu")),
        ("asarray", lambda x: np.asarray(x)),
        ("format", lambda x: f"{x.sum():.2f}"),
        ("print", lambda x: str(x)),
        ("contains", lambda x: 1.0 in x),
        ("index", lambda x: [1, 2, 3, 4][x.long()[0]]),
        ("pickle", lambda x: torch.save(x, io.BytesIO())),
        ("unrecordable", lambda x: x[x > 0]),
    ],
)
def test_each_use_of_a_value_is_a_break_of_its_kind_on_the_users_line(kind, use):
    x = torch.ones(3)
    wanted = use(x.clone())
    with lazynb.lazy():
        y = x.to("jax") * 1
        got = use(y)
    (found,) = lazynb.breaks()
    assert found.kind == kind
    assert found.location.file == __file__ and found.location.line == use.__code__.co_firstlineno
    if not isinstance(wanted, (torch.Tensor, type(None))):
        assert np.all(got == wanted) or kind == "print"


def test_the_line_of_an_operation_is_the_users():
    with lazynb.lazy():
        x = torch.ones(3, device="jax")
        y = torch.nn.functional.gelu(x)  # this line
        nodes = lazynb.graph(y).nodes
    lines = {node.place.text for node in nodes if node.place is not None}
    assert any("this line" in line for line in lines), lines


def test_random_numbers_are_reproducible_and_compile_once():
    def drawn():
        return [
            torch.randn(3, device="jax"),
            torch.rand(3, device="jax"),
            torch.randint(0, 10, (3,), device="jax"),
            torch.nn.functional.dropout(torch.ones(50, device="jax"), 0.5),
            torch.randperm(5, device="jax"),
        ]

    with lazynb.lazy():
        torch.manual_seed(5)
        first = [one.tolist() for one in drawn()]
        misses = lazynb.cache_info().misses
        second = [one.tolist() for one in drawn()]
        torch.manual_seed(5)
        third = [one.tolist() for one in drawn()]
        state = torch.jax.get_rng_state()
        fourth = torch.rand(2, device="jax").tolist()
        torch.jax.set_rng_state(state)
        assert torch.rand(2, device="jax").tolist() == fourth
    assert first == third and first != second
    assert lazynb.cache_info().misses <= misses + 1
    large = torch.randn(20_000, device="jax").cpu()
    assert abs(large.mean()) < 0.05 and abs(large.std() - 1) < 0.05


def test_a_generator_of_the_callers_says_what_is_drawn():
    def drawn(seed):
        return torch.empty(4, device="jax").normal_(generator=torch.Generator().manual_seed(seed)).tolist()

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_state_dict_round_trips_between_devices():
    torch.manual_seed(1)
    source = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    target = copy.deepcopy(source).to("jax")
    with lazynb.lazy():
        with torch.no_grad():
            target[0].weight.mul_(2)
        state = target.state_dict()
        source.load_state_dict(state)
        torch.testing.assert_close(source[0].weight, target[0].weight.cpu())
        other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to("jax")
        other.load_state_dict(source.state_dict())
        torch.testing.assert_close(other[0].weight.cpu(), source[0].weight)
        file = io.BytesIO()
        torch.save(target.state_dict(), file)
        file.seek(0)
        loaded = torch.load(file)
        assert loaded["0.weight"].device.type == "jax"
        torch.testing.assert_close(loaded["0.weight"].cpu(), source[0].weight.detach())


def test_operations_run_at_once_outside_lazy_mode():
    x = torch.ones(3, device="jax") + 1
    assert "pending" not in repr(x) and x.tolist() == [2, 2, 2]
    assert not lazynb.breaks()


def test_what_was_pending_can_be_used_after_lazy_mode():
    with lazynb.lazy():
        x = torch.ones(3, device="jax") + 1
    assert (x * 2).tolist() == [4, 4, 4]


def test_jax_and_pytorch_share_values():
    import jax.numpy as jnp

    with lazynb.lazy():
        x = torch.ones(3, device="jax") * 2
        total = jnp.sum(x.jax())
        assert isinstance(total, lazynb.LazyTensor) and total.is_pending
        assert float(total) == 6


def test_another_thread_records_and_differentiates_for_itself():
    found = []

    def work():
        with lazynb.lazy():
            x = torch.ones(2, device="jax", requires_grad=True)
            (x * 3).sum().backward()
            found.append(x.grad.tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [[3, 3]]


def test_a_deep_copy_shares_among_itself_what_was_shared():
    def program(device):
        x = torch.arange(12.0, device=device).reshape(3, 4)
        count = torch.arange(3, device=device)
        leaf = (x * 1).requires_grad_()
        leaf.grad = x * 2
        whole, row, turned, number, several = copy.deepcopy([x, x[1:], x.t(), count[1:], [count, leaf]])
        row += 10
        turned[0, 0] = 7
        number[0] = 9
        again = several[1].grad
        parameter = torch.nn.Parameter(leaf.detach())
        parameter.grad = x * 2
        assert copy.deepcopy(parameter).grad is None
        return [x, whole, row, turned, number, several[0], count, several[1].detach(), again, leaf.grad]

    with lazynb.lazy():
        got = program("jax")
    for a, b in zip(got, program("cpu"), strict=True):
        assert a.stride() == b.stride()
        torch.testing.assert_close(a.cpu(), b)


def test_foreach_operations_equal_single_operations():
    with lazynb.lazy():
        many = [torch.full((2,), float(n), device="jax") for n in range(3)]
        torch._foreach_add_(many, 1.0)
        torch._foreach_mul_(many, [1.0, 2.0, 3.0])
        assert [one.tolist() for one in torch._foreach_sqrt(many)] == [one.sqrt().tolist() for one in many]
        assert [one.tolist() for one in many] == [[1, 1], [4, 4], [9, 9]]


def test_enable_can_be_nested_and_disable_turns_the_device_off():
    was = lazynb.torch.is_enabled()
    with lazynb.torch.enable():
        assert was and lazynb.torch.is_enabled()
    assert lazynb.torch.is_enabled(), "the first one still holds"
    x = torch.ones(2, device="jax")
    lazynb.torch.disable()
    with pytest.raises(NotImplementedError):
        torch.ones(2, device="jax")
    assert (x + 1).tolist() == [2, 2], "what is there stays usable"
    lazynb.torch.enable()
    assert torch.ones(2, device="jax").tolist() == [1, 1]
