"""The path of a module in drawings: what its parent calls it, however the model was put together or changed."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch

import lazynb
from lazynb import jax_compat as jc
from lazynb.frontends.torch import module_calls
from lazynb.user_code.call_stack import cached_call_stacks

nn = torch.nn


class Scale(nn.Module):
    def forward(self, x):
        return x * 3.0


class Deep(nn.Module):
    """Calls a module of its own, one in a list, one in a dict, one deeper down, and one that is no part of it."""

    def __init__(self, other):
        super().__init__()
        self.first = Scale()
        self.many = nn.ModuleList([Scale(), nn.ModuleList([Scale()])])
        self.named = nn.ModuleDict({"one": Scale()})
        self.inner = nn.Sequential(Scale(), Scale())
        self.other = [other]

    def forward(self, x):
        x = self.many[0](self.first(x))
        x = self.named["one"](self.many[1][0](x))
        return self.other[0](self.inner[1](x))


def paths(module, *args):
    """The scopes of what is recorded, in order."""
    with lazynb.lazy():
        return [node.scope for node in lazynb.graph(module(*args)).nodes if node.scope]


@pytest.fixture
def x():
    return torch.ones(2, device="jax")


def test_each_kind_of_container_gives_its_module_path(x):
    model, expected = Deep(Scale()), ["first", "many.0", "many.1.0", "named.one", "1", "Scale"]
    for _ in range(2):
        assert paths(model, x) == [f"Deep/{name}" for name in expected]


def test_paths_follow_changes_of_the_model(x):
    model = nn.Sequential(Scale(), nn.Sequential(Scale()))
    assert paths(model, x) == ["Sequential/0", "Sequential/1/0"]
    model[1], model[0] = model[0], model[1]
    assert paths(model, x) == ["Sequential/0/0", "Sequential/1"]
    alone = model[1]
    assert paths(alone, x) == ["Scale"]
    assert paths(nn.Sequential(nn.Sequential(alone)), x) == ["Sequential/0/0"]


def test_a_module_in_two_places_has_the_name_of_one(x):
    shared = Scale()
    assert paths(nn.Sequential(shared, shared), x) == ["Sequential/0", "Sequential/0"]


def test_an_error_in_forward_closes_all_scopes(x):
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = nn.Sequential(Scale(), nn.Sequential(Fails()))
    before = jc.source_context.context
    with lazynb.lazy():
        with pytest.raises(ValueError):
            model(x)
        assert (
            jc.source_context.context is before
            and not cached_call_stacks
            and not module_calls.module_stack.modules
        )
        assert [node.scope for node in lazynb.graph(x * 2.0).nodes if node.scope] == []


def test_the_call_has_the_name_of_the_model(x):
    with lazynb.lazy():
        y = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh()))(x)
        assert [node.call for node in lazynb.graph(y).nodes if node.scope] == ["Sequential"] * 2
        leaf = nn.Tanh()(x)
        assert [node.call for node in lazynb.graph(leaf).nodes if node.scope] == ["Tanh"]


def test_hooks_of_the_user_are_called_and_copies_keep_their_paths(x):
    model, seen = nn.Sequential(Scale()), []
    handle = model[0].register_forward_hook(lambda module, args, result: seen.append(result.shape))
    assert paths(model, x) == ["Sequential/0"]
    handle.remove()
    assert seen == [(2,)]
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert paths(copy.deepcopy(model), x) == paths(pickle.loads(pickle.dumps(model)), x) == ["Sequential/0"]


def test_uninstall_restores_module_call():
    ours = nn.Module.__call__
    own = inspect.unwrap(ours)
    assert ours is module_calls._scoped_call and own is nn.Module._wrapped_call_impl
    module_calls.uninstall()
    try:
        assert nn.Module.__call__ is own
    finally:
        module_calls.install()
    assert nn.Module.__call__ is module_calls._scoped_call


def test_a_forgotten_model_is_freed(x):
    import gc
    import weakref

    model = Deep(Scale())
    paths(model, x)
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None


def test_a_module_is_looked_for_once_in_a_call_of_the_model(x, monkeypatch):
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.hidden = Scale(), [Scale()]

        def forward(self, x):
            for _ in range(3):
                x = self.hidden[0](self.part(x))
            return x

    model, walks, searched = Several(), [], module_calls._searched
    monkeypatch.setattr(module_calls, "_searched", lambda *args: walks.append(1) or searched(*args))
    assert paths(model, x) == ["Several/part", "Several/Scale"] * 3
    assert len(walks) == 2
    walks.clear()
    model.found = model.hidden[0]
    assert paths(model, x) == ["Several/part", "Several/found"] * 3
    assert len(walks) == 1
