"""The short way in C (lazynb/frontends/torch/_short.c) beside that in Python: the same states, lines, tensors and errors."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys

import pytest
import torch

import lazynb
from lazynb.frontends.torch import native_dispatch, torch_tensor
from lazynb.frontends.torch.dispatch import replay_context
from lazynb.frontends.torch.torch_tensor import Tensor
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.replay import native_replay

F = torch.nn.functional
built = pytest.mark.skipif(native_dispatch._fast_dispatch is None, reason=native_dispatch.why_not or "")


def in_python(monkeypatch):
    """Has everything go the way in Python."""

    monkeypatch.setattr(Tensor, "__torch_dispatch__", staticmethod(torch_tensor.dispatch_in_python))
    monkeypatch.setattr(replay_context, "in_c", None)


@pytest.fixture
def long_calls(monkeypatch):
    """The operations that did not go the way in C."""
    found = []
    own = torch_tensor._dispatch
    monkeypatch.setattr(torch_tensor, "_dispatch", lambda *call: found.append(call[0]) or own(*call))
    return found


# ---- random programs ---------------------------------------------------------------------------------------

NUMBERS = (2, 0.5, 0.0, -0.0, True, 3.25, -1)
STEPS = (
    lambda x, y, n: x + y,
    lambda x, y, n: x * n,
    lambda x, y, n: torch.sub(x, y, alpha=n + 0),  # PyTorch takes no truth value here
    lambda x, y, n: (n + 0) - x,
    lambda x, y, n: x.t(),
    lambda x, y, n: x.t().t() + y,
    lambda x, y, n: x.reshape(2, 8).reshape(4, 4) * y,
    lambda x, y, n: x.split(2)[0].repeat(2, 1) + n,
    lambda x, y, n: torch.cat([x, y], 1)[:, ::2],
    lambda x, y, n: torch.stack([x, y, x]).sum(0),
    lambda x, y, n: F.layer_norm(x, (4,)),
    lambda x, y, n: torch.where(x > n, x, y),
    lambda x, y, n: x.clamp(-1.0, float(n) + 2),
    lambda x, y, n: x.max(1).values[:, None] + y,
    lambda x, y, n: F.linear(x, y),
    lambda x, y, n: x.to(torch.float64).to(torch.float32),
    lambda x, y, n: x.clone().add_(y),
    lambda x, y, n: [z := x.t().contiguous().mul_(n), z[1:].sub_(y[1:], alpha=2)][0],
    lambda x, y, n: F.batch_norm(x, y[0], y[1].exp(), y[2], y[3]),
    lambda x, y, n: x.relu_() + x.t().clone().div_(3),
    lambda x, y, n: F.embedding(torch.tensor([1, 0, 3, 2], device="jax"), x),
    lambda x, y, n: x.sum(1, keepdim=True).expand(4, 4) - y,
)


def program(seed):
    """A function of two tensors: some of the steps, in an order of its own."""
    chance = random.Random(seed)
    plan = [
        (chance.choice(STEPS), chance.randrange(3), chance.randrange(3), chance.choice(NUMBERS))
        for _ in range(12)
    ]

    def run(x, y):
        values = [x, y, x + y]
        for step, first, second, number in plan:
            values[first] = step(values[first], values[second], number)
        return values

    return run


def recorded(run, x, y):
    """What a program records: the end of its trace, where each operation was, and the tensors."""
    with lazynb.lazy():
        thread_trace().cut()
        results = run(x, y)
        arrays = [one.jax() for one in results]
        pending = next(one._pending for one in arrays if isinstance(one, LazyTensor) and one.is_pending)
        places = [(origin.place.file, origin.place.line) if origin else None for origin in pending.origins()]
        tensors = [(one._layout, one._steps, one.stride(), one.dtype, one.requires_grad) for one in results]
        state = pending.state
        lazynb.sync(results)  # what ran stays in the trie, and is recalled
        return state, places, tensors


@built
@pytest.mark.parametrize("seed", range(16))
def test_c_and_python_record_the_same(seed, monkeypatch):
    run = program(seed)
    x, y = torch.rand(4, 4, device="jax"), torch.rand(4, 4, device="jax")
    for _ in range(2):
        recorded(run, x, y)
    in_c = recorded(run, x, y)
    with monkeypatch.context() as patch:
        in_python(patch)
        before = recorded(run, x, y)
    assert in_c[0] is before[0] and in_c[1:] == before[1:]


KNOWN = (
    lambda x, y, n: x + y,
    lambda x, y, n: torch.sub(x, y, alpha=n),
    lambda x, y, n: x * n - 1,
    lambda x, y, n: (x > y) | (x == n),
    lambda x, y, n: ~(x <= y),
    lambda x, y, n: torch.cat([x, y], 1)[:, 1:4],
    lambda x, y, n: torch.stack([x, y]).sum(0),
    lambda x, y, n: x.t().clone(),
    lambda x, y, n: x.t().clone(memory_format=torch.contiguous_format),
    lambda x, y, n: x.to(torch.int32),
    lambda x, y, n: x.to(torch.bool),
    lambda x, y, n: x.max() + y.min(),
    lambda x, y, n: torch.where(x > n, x, y),
    lambda x, y, n: x.cumsum(1).masked_fill(y > 1, n),
    lambda x, y, n: [z := x.clone(), z.t()[1:].add_(n), z[0].fill_(n)][0],
    lambda x, y, n: [z := torch.zeros(3, 3, dtype=torch.long, device=x.device), z[1].copy_(y[0]), z.mul_(2)][
        0
    ],
    lambda x, y, n: torch.full((3, 3), n, device=x.device).add_(x.int()),
    lambda x, y, n: torch.arange(n + 3, device=x.device)[-3:].expand(3, 3) // 2,
    lambda x, y, n: x.new_ones(3, 0).sum() + x,
    lambda x, y, n: x.sort(1).values.flip(0),
    lambda x, y, n: torch.add(x, y) if x.equal(y) else x - y,
)


@built
@pytest.mark.parametrize("seed", range(24))
def test_known_numbers_are_those_of_the_cpu(seed, monkeypatch):
    """By both ways, with the same strides, and without a run."""
    chance = random.Random(seed)
    plan = [
        (chance.choice(KNOWN), chance.randrange(3), chance.randrange(3), chance.randrange(4))
        for _ in range(12)
    ]

    def run(device):
        values = [
            torch.arange(9, device=device).reshape(3, 3),
            torch.ones(3, 3, dtype=torch.long, device=device).tril(),
        ]
        values.append(values[0] % 4)
        seen = []
        for step, first, second, number in plan:
            new = step(values[first], values[second], number)
            seen.append((new.dtype, new.stride(), new.tolist()))
            if new.shape == (3, 3) and new.dtype is torch.long:
                values[first] = new
        return seen

    with monkeypatch.context() as patch:
        in_python(patch)
        before = run("jax")
    wanted = run("cpu")
    with lazynb.lazy(), torch.inference_mode(seed % 2 == 0):
        in_c = run("jax")
        assert not lazynb.breaks()
    assert in_c == wanted and before == wanted


@built
def test_operations_on_known_numbers_avoid_the_long_path(long_calls):
    x, y = torch.arange(4, device="jax"), torch.ones(4, dtype=torch.long, device="jax")
    with lazynb.lazy():
        for _ in range(2):  # views are learned
            long_calls.clear()
            found = [x + y, x[1:] == 2, torch.cat([x, y]), x.clone(), y.fill_(3), y[1:].add_(x[1:]), ~(x > 1)]
    assert all(one._storage.host is not None for one in found) and not long_calls


ASKED = """
import torch, lazynb, lazynb.torch
lazynb.torch.enable()
from lazynb.frontends.torch import native_dispatch
from lazynb.frontends.torch.dispatch import replay_context
asked, x = [], torch.rand(4, 4, device="jax")
ask = lambda: asked.append(1) or replay_context.current_trace()
native_dispatch._fast_dispatch.configure({**native_dispatch._native_arguments(), "open": ask})
with lazynb.lazy():
    for _ in range(200):  # small numbers are one object each
        with replay_context.in_64_bit():
            pass
    for _ in range(3):
        results = [x * 2, x * 5]  # the first opens it, the second finds that nothing has changed
        count = replay_context.config_change_count()
        with replay_context.in_64_bit():
            pass
        replay_context.keep_after_x64(count)
        asked.clear()
        results += [x + 1, x * 3, results[0] - x]
        lazynb.sync(results)
print(len(asked))
"""


@built
def test_the_open_trace_is_not_asked_for_anew():
    """JAX's configuration came and went: the number of its changes is equal, if another object. On one device."""
    assert int(subprocess.run([sys.executable, "-c", ASKED], capture_output=True, check=True).stdout) == 0


@built
def test_errors_of_known_numbers_are_those_of_the_cpu_and_change_nothing():
    x, there = torch.arange(4), torch.arange(4, device="jax")
    new = torch.empty(2, dtype=torch.long, device="jax")
    with lazynb.lazy():
        for call in (
            lambda x: x + x[:3],
            lambda x: torch.cat([x, x[None]]),
            lambda x: x[:2].add_(x.clone()),
            lambda x: x.gather(0, x + 9),
            lambda x: torch.bincount(x - 2),
        ):
            with pytest.raises((RuntimeError, IndexError)) as wanted:
                call(x)
            with pytest.raises(type(wanted.value)) as found:
                call(there)
            assert str(found.value) == str(wanted.value)
        with pytest.raises(RuntimeError):
            new.add_(there)
        assert there.tolist() == x.tolist() and new.tolist() == [0, 0]


@built
def test_repeated_operations_avoid_the_long_path(long_calls):
    x, y = torch.rand(4, 4, device="jax"), torch.rand(4, 4, device="jax")

    def run():
        z = torch.cat([x + y, x * 2.5], 1).t()
        return F.layer_norm(z[:4], (4,)) - F.linear(x, y)

    with lazynb.lazy():
        for _ in range(3):
            lazynb.sync(run())
        lazynb.sync(x + 1)
        long_calls.clear()
        result = run()
        assert not long_calls, "nor does the first of a trace"
    torch.testing.assert_close(result.cpu(), run().cpu())


@built
def test_tensors_made_in_c_have_the_same_storage_attributes(long_calls):
    x = torch.rand(4, 4, device="jax")
    with lazynb.lazy():
        for _ in range(3):
            lazynb.sync(x * 2 + 1)
        before = x * 2
        long_calls.clear()
        z = before + 1
        assert not long_calls
    new = torch.empty(4, 4, device="jax")._storage
    for name in type(new).__slots__:
        assert type(getattr(z._storage, name)) is type(getattr(new, name)) or name == "value", name


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))

    def forward(self, x):
        inner = self.inner(x)
        return inner + self.inner[0](x)


@built
def test_operations_of_modules_have_the_users_lines_and_calls(monkeypatch):
    model, x = Layer().to("jax"), torch.rand(2, 4, device="jax")

    def origins():
        with lazynb.lazy(), torch.no_grad():
            results = [model(x), model(x)]
            found = results[0].jax()._pending.origins()
            lazynb.sync(results)
        calls: list[int] = []
        for one in filter(None, found):
            calls += [one.call_id] * (one.call_id not in calls)
        return [
            (one.place.line, one.callee and one.callee.co_name, one.scope, calls.index(one.call_id))
            for one in filter(None, found)
        ]

    for _ in range(2):
        origins()
    in_c = origins()
    with monkeypatch.context() as patch:
        in_python(patch)
        before = origins()
    assert in_c == before and len({line for line, *_ in in_c}) == 2


# ---- what is left ------------------------------------------------------------------------------------------


def whole():
    return torch.arange(4, device="jax").reshape(2, 2)


def blocks_of(repeat, times):
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(times):
        repeat()
    gc.collect()
    return sys.getallocatedblocks() - before


@built
@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: x * 2.5,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: x.t()[1:] * 1,
        lambda x, y: x.split(1),
        lambda x, y: F.layer_norm(x, (4,)),
        lambda x, y: torch.sub(x, y, alpha=2),
        lambda x, y: F.embedding(torch.tensor([1], device="jax"), x),
        lambda x, y: pytest.raises(RuntimeError, lambda: x + torch.ones(3, device="jax")),
        lambda x, y: x.argmax(1) + 1,
        lambda x, y: whole() + whole()[1:],
        lambda x, y: torch.cat([whole(), whole()]).bool(),
        lambda x, y: whole().clone()[1:].fill_(3),
        lambda x, y: torch.full((2,), 3, device="jax").max(),
        lambda x, y: pytest.raises(RuntimeError, lambda: whole() + torch.arange(3, device="jax")),
        lambda x, y: x.clone().t().clone(),
    ],
)
def test_repeated_calls_leak_no_memory(call):
    x, y = torch.rand(4, 4, device="jax"), torch.rand(4, 4, device="jax")

    def repeat():
        with lazynb.lazy():
            for _ in range(20):
                call(x, y)

    for _ in range(5):
        repeat()
    few, many = (min(blocks_of(repeat, times) for _ in range(3)) for times in (5, 25))
    assert many - few < 100, (few, many)  # 400 calls more


@built
def test_an_error_in_a_view_that_was_written_to_is_raised(monkeypatch):
    """What Python raises in between is not taken for a call that is new."""
    x = torch.rand(4, 4, device="jax")
    row = x[0]
    with lazynb.lazy():
        for _ in range(3):
            lazynb.sync(row + 1)
        x.mul_(2)

        def interrupted(self):
            raise KeyboardInterrupt

        monkeypatch.setattr(Tensor, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            row + 1
        monkeypatch.undo()
        assert torch.equal((row + 1).cpu(), x[0].cpu() + 1)


@built
def test_wrong_configuration_raises_and_keeps_the_former_one():
    with pytest.raises(TypeError, match="dispatch"):
        native_dispatch._fast_dispatch.dispatch()
    parts = native_dispatch._native_arguments()
    with pytest.raises(KeyError, match="Tensor"):
        native_dispatch._fast_dispatch.configure({})
    with pytest.raises(TypeError, match=r"Storage\.value is no slot"):
        native_dispatch._fast_dispatch.configure({**parts, "Storage": object})
    assert float(torch.ones((), device="jax") + 1) == 2, "what was configured stays"


@pytest.mark.parametrize("environment", [{"LAZYNB_PURE": "1"}])
def test_lazynb_pure_turns_the_c_path_off(environment):
    code = (
        "import torch, lazynb.torch; lazynb.torch.enable()\n"
        "from lazynb.frontends.torch import native_dispatch\n"
        "x = torch.ones(2, device='jax')\n"
        "print(native_dispatch.why_not, float((x + x).sum()))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert run.stdout.splitlines()[-1] == "LAZYNB_PURE is set 4.0", run.stderr


def test_a_pytorch_without_the_mode_functions_disables_the_c_path(monkeypatch):
    monkeypatch.setattr(native_dispatch, "_INTERCEPTORS", ("_len_torch_dispatch_stack", "_no_such_name"))
    found, why = native_dispatch._loaded()
    assert found is None and ("_no_such_name" in why or why == native_replay.unavailable_reason)


# ---- user code during a call ---------------------------------------------------------------------------------


class Spy(type):
    """The class of an argument, which runs code while the key of its call is made."""

    meanwhile = staticmethod(lambda: None)

    def __hash__(self):
        Spy.meanwhile()
        return 1


class Argument(metaclass=Spy):
    pass


@built
def test_user_code_sees_no_incomplete_key(monkeypatch):
    x, incomplete = torch.ones(3, device="jax"), []

    def look():
        tuples = [one for one in gc.get_objects() if type(one) is tuple]
        incomplete.extend([len(one) for one in tuples if len(gc.get_referents(one)) < len(one)])

    monkeypatch.setattr(Spy, "meanwhile", staticmethod(look))
    with torch.no_grad():
        for args, kwargs in [
            ((x, Argument()), {}),
            ((x, [x, Argument()]), {}),
            ((x,), {"alpha": Argument()}),
        ]:
            with pytest.raises((TypeError, RuntimeError, ValueError)):
                native_dispatch._fast_dispatch.dispatch(torch.ops.aten.add.Tensor, (), args, kwargs)
    assert incomplete == []


class Clearing:
    """A keyword argument that is freed while it is hashed."""

    def __init__(self, kwargs):
        self.kwargs = kwargs

    def __hash__(self):
        self.kwargs.clear()
        return 1


@built
def test_a_keyword_argument_is_freed_while_it_is_looked_at():
    known, kwargs = torch.tensor([1, 2, 3], device="jax"), {}
    kwargs["alpha"] = Clearing(kwargs)
    with torch.no_grad():
        found = native_dispatch._fast_dispatch.dispatch(torch.ops.aten.add.Tensor, (), (known, 1), kwargs)
    assert found.tolist() == [2, 3, 4]


@built
def test_methods_of_methods_are_freed():
    method = print
    for _ in range(1_000_000):
        method = native_dispatch._fast_dispatch.Method(method)
    del method
