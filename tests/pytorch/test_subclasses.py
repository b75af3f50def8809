"""Tensors on device ``jax`` of the user's own class."""

from __future__ import annotations

import copy

import pytest
import torch

import lazynb


class Named(torch.Tensor):
    def greeting(self):
        return f"I have {self.numel()}"


class Watched(torch.Tensor):
    calls: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_operations_keep_the_subclass_and_its_gradient():
    with lazynb.lazy():
        x = torch.ones(3, device="jax", requires_grad=True)
        named = x.as_subclass(Named)
        assert isinstance(named, Named) and named.device == x.device and named.greeting() == "I have 3"
        result = named * 2
        assert isinstance(result, Named) and isinstance(result.sum(), Named)
        result.sum().backward()
        assert not lazynb.breaks()
    assert x.grad.tolist() == [2, 2, 2]


def test_as_subclass_shares_memory():
    x = torch.zeros(2, device="jax")
    x.as_subclass(Named).fill_(3)
    assert x.tolist() == [3, 3]


def test_torch_function_of_the_user_is_called_for_each_operation():
    Watched.calls.clear()
    result = torch.add(torch.ones(2, device="jax").as_subclass(Watched), 1)
    assert isinstance(result, Watched) and Watched.calls == ["add"]


def test_a_subclass_converts_to_a_plain_tensor_and_a_parameter():
    named = torch.ones(2, device="jax").as_subclass(Named)
    plain = named.as_subclass(torch.Tensor)
    assert not isinstance(plain, Named) and torch.equal(plain, torch.ones(2, device="jax"))
    assert isinstance(torch.nn.Parameter(named), torch.nn.Parameter)
    assert isinstance(copy.deepcopy(named), Named) and isinstance(named[:1], Named)


@pytest.mark.parametrize("wrong", [int, 3])
def test_a_class_that_is_no_tensor_subclass_is_refused_as_by_pytorch(wrong):
    with pytest.raises(TypeError) as wanted:
        torch.ones(1).as_subclass(wrong)
    with pytest.raises(TypeError) as got:
        torch.ones(1, device="jax").as_subclass(wrong)
    assert str(got.value) == str(wanted.value)
