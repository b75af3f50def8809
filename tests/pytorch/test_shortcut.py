"""The short way of calls that were made before: it makes few calls of Python, and gives what the long way gives."""

from __future__ import annotations

import sys
import threading

import jax
import pytest
import torch

import lazynb
from lazynb.frontends.torch.dispatch import replay_context

F = torch.nn.functional


def calls_of_python(program):
    """The number of Python's functions that a program calls."""
    count = 0

    def count_call(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(count_call)
    try:
        program()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("operation", "most"),
    [
        (lambda x, y: x.add(y), 58),
        (lambda x, y: x * 2.5, 62),
        (lambda x, y: F.layer_norm(x, (8,)), 84),
        (lambda x, y: x.t(), 14),
        (lambda x, y: F.embedding(torch.tensor([1], device="jax"), x), 200),
    ],
    ids=["add", "number", "several results", "view", "checked"],
)
def test_a_known_call_makes_few_calls(operation, most):
    x, y = torch.rand(8, 8, device="jax"), torch.rand(8, 8, device="jax")

    def program():
        z = operation(x, y)
        return [operation(x, y), z]

    with lazynb.lazy():
        for _ in range(3):
            lazynb.sync(program())
        operation(x, y)
        assert calls_of_python(lambda: operation(x, y)) <= most


def each_way(program):
    """The results of a program that runs three times in lazy mode; the first is recorded through JAX."""
    results = []
    for _ in range(3):
        with lazynb.lazy():
            results.append([value.cpu() for value in program()])
    return results


def test_calls_with_other_arguments_are_told_apart():
    x = torch.arange(6.0).reshape(2, 3)

    def program(x):
        yield x + 1
        yield x + 1.5
        yield x + True
        yield x.t() + 1
        yield x.sum(0) + x.sum(0, keepdim=True)
        yield torch.cat([x, x], 0).flatten()[:6] - torch.cat([x, x + 1], 1).flatten()[:6]
        yield x.clamp(0.0, 2.0) + x.clamp(-0.0, 2)
        yield x.to(torch.int32) // 2 + x.to(torch.int32) // 3
        yield from x.split(1)
        yield from torch.max(x, 0)
        yield torch.add(x, x, alpha=2) - torch.add(x, x, alpha=3)

    wanted = list(program(x))
    for results in each_way(lambda: list(program(x.to("jax")))):
        for got, expected in zip(results, wanted, strict=True):
            torch.testing.assert_close(got, expected, check_stride=False)


def test_a_write_between_equal_calls_is_respected():
    def program():
        x = torch.ones(2, 3, device="jax")
        row = x[0]
        before = row * 2
        x.mul_(3)
        after = row * 2
        row.add_(1)
        return [before, after, x * 2]

    for before, after, x in each_way(program):
        assert before.tolist() == [2, 2, 2] and after.tolist() == [6, 6, 6]
        assert x.tolist() == [[8, 8, 8], [6, 6, 6]]


def test_a_changed_jax_configuration_is_respected():
    x, y = torch.rand(4, 4, device="jax"), torch.rand(4, 4, device="jax")

    def precisions(program):
        path = program().jax()._pending.state.path()
        return [str(state.operation.params) for state in path if state.operation is not None]

    with lazynb.lazy():
        for _ in range(3):
            plain = precisions(lambda: x @ y)
            lazynb.sync()
            with jax.default_matmul_precision("highest"):
                highest = precisions(lambda: x @ y)
                lazynb.sync()
            assert "HIGHEST" in highest[-1] and "HIGHEST" not in plain[-1]


def test_each_thread_records_for_itself():
    x = torch.rand(3, device="jax")
    found = {}

    def program(name):
        with lazynb.lazy():
            for number in range(50):
                y = x * 2 + number
                if number % 10 == 0:
                    lazynb.sync(y)
            found[name] = y.cpu()

    threads = [threading.Thread(target=program, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for value in found.values():
        torch.testing.assert_close(value, x.cpu() * 2 + 49)
    assert len(found) == 4


def test_eager_code_between_lazy_code_runs_at_once():
    x = torch.rand(3, device="jax")
    for _ in range(3):
        with lazynb.lazy():
            y = x * 2
            with lazynb.eager():
                z = x * 2
                assert "pending" not in repr(z)
            assert "pending" in repr(y) and torch.equal(y.cpu(), z.cpu())


def test_an_error_of_a_known_operation_is_raised_at_its_call():
    x = torch.ones(2, 3, device="jax")
    with lazynb.lazy():
        for _ in range(3):
            assert (x + x).shape == (2, 3)
            with pytest.raises(RuntimeError, match="size of tensor"):
                x + torch.ones(2, 2, device="jax")
            with pytest.raises(IndexError):
                F.embedding(torch.tensor([5], device="jax"), x)


def test_normalisation_without_training_records_its_empty_statistics_once():
    layer = torch.nn.BatchNorm2d(3).to("jax").eval()
    x = torch.rand(2, 3, 4, 4, device="jax", requires_grad=True)
    with lazynb.lazy():
        for _ in range(2):
            layer(x).sum().backward()
            path = x.grad.jax()._pending.state.path()
            names = [str(state.operation.primitive) for state in path if state.operation is not None]
            lazynb.sync()
            x.grad = None
    assert names.count("rsqrt") == 2 and names.count("broadcast_in_dim") <= 3


ONES, ZEROS = {}, {}


def normalised(x):
    ones, zeros = (memory[x.device.type] for memory in (ONES, ZEROS))
    return F.batch_norm(x, zeros, ones, ones, zeros)


def written(x):
    y = x.clone()
    y.add_(x).mul_(2.0)
    return y.sub_(x, alpha=0.5).relu_()


@pytest.mark.parametrize("program", [normalised, written])
def test_writing_and_handled_operations_take_the_short_path(program, monkeypatch):
    values = torch.rand(4, 3)
    x = values.to("jax")
    ONES.update({"cpu": torch.ones(3), x.device.type: torch.ones(3, device="jax")})
    ZEROS.update({"cpu": torch.zeros(3), x.device.type: torch.zeros(3, device="jax")})
    plain = program(values)
    with lazynb.lazy():
        for _ in range(3):
            program(x)
            torch.testing.assert_close(program(x).cpu(), plain)
        long_ways = []
        note = replay_context.context_to_save
        program(x)  # with several devices the first one says where the trace is
        monkeypatch.setattr(replay_context, "context_to_save", lambda: long_ways.append(1) or note())
        program(x)
        monkeypatch.undo()
    assert not long_ways
    torch.testing.assert_close(x.cpu(), values)


def test_a_write_that_needs_another_type_or_shape_is_as_on_the_cpu():
    def program(x, i):
        i.add_(i)
        x.add_(x[0].clone()).add_(i)
        x.mul_(i)
        return x, i

    whole, values = torch.arange(3), torch.rand(2, 3)
    plain = program(values.clone(), whole.clone())
    for _ in range(3):
        with lazynb.lazy():
            got = program(values.to("jax"), whole.to("jax"))
            for one, other in zip(got, plain, strict=True):
                torch.testing.assert_close(one.cpu(), other, check_dtype=True)
            with pytest.raises(RuntimeError):
                whole.to("jax").add_(values.to("jax")[0])
