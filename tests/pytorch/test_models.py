"""Whole models, unmodified: forward is one pending graph, training steps match PyTorch's own, both compile
once."""

from __future__ import annotations

import copy

import pytest
import torch
from pytorch_models import MODELS, make

import lazynb

pytest.importorskip("transformers")


def moved(inputs):
    return {name: value.to("jax") for name, value in inputs.items()}


@pytest.fixture(params=MODELS)
def model(request):
    return make(request.param)


def test_forward_is_one_graph_without_a_break(model):
    plain, inputs, _ = model
    with torch.no_grad():
        wanted = plain(**inputs).logits
    lazy, there = copy.deepcopy(plain).to("jax"), moved(inputs)
    misses = lazynb.cache_info().misses
    with torch.no_grad(), lazynb.lazy():
        output = lazy(**there)
        assert "pending" in repr(output.logits)
        assert not lazynb.breaks() and not lazynb.events()
        lazynb.sync(output)
        assert len(lazynb.events()) == 1, "one program"
    assert lazynb.cache_info().misses == misses + 1
    got = output.logits.cpu()
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert (got - wanted).abs().max() <= 1e-4 * wanted.abs().max()

    with torch.no_grad(), lazynb.lazy():
        again = lazy(**there)
        lazynb.sync(again)
    assert lazynb.cache_info().misses == misses + 1, "the second forward of the same shape compiles nothing"
    assert not [one for one in lazynb.breaks() if one.kind != "sync"]


STEPS = 20


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_training_steps_match_and_compile_at_most_twice(optimizer):
    train("bert", optimizer)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "bert"])
def test_every_model_trains(name):
    train(name, torch.optim.AdamW)


def train(name, optimizer):
    plain, inputs, labels = make(name)
    lazy, there = copy.deepcopy(plain).to("jax"), moved({**inputs, **labels})
    own = optimizer(plain.parameters(), lr=1e-3)
    other = optimizer(lazy.parameters(), lr=1e-3)
    wanted, got = [], []
    for _ in range(STEPS):
        loss = plain(**inputs, **labels).loss
        own.zero_grad()
        loss.backward()
        own.step()
        wanted.append(loss.item())
    with lazynb.lazy():
        for _ in range(STEPS):
            loss = lazy(**there).loss
            other.zero_grad()
            loss.backward()
            other.step()
            got.append(loss.item())
    assert [one.kind for one in lazynb.breaks()] == ["item"], "the loop's own"
    assert lazynb.cache_info().misses <= 2
    torch.testing.assert_close(torch.tensor(got), torch.tensor(wanted), rtol=1e-3, atol=1e-4)
    assert wanted[-1] != wanted[0]


def test_shared_parameters_stay_shared():
    plain, _, _ = make("gpt2")
    lazy = copy.deepcopy(plain).to("jax")
    assert lazy.lm_head.weight is lazy.transformer.wte.weight
    assert len(list(lazy.parameters())) == len(list(plain.parameters()))


def test_the_module_path_groups_the_graph():
    plain, inputs, _ = make("bert")
    lazy, there = plain.to("jax"), moved(inputs)
    with torch.no_grad(), lazynb.lazy():
        output = lazy(**there)
        scopes = {node.scope for node in lazynb.graph(output).nodes}
        assert lazynb.compile(output).operations == len(lazynb.graph(output))
    assert any("bert/encoder/layer.1/attention" in scope for scope in scopes), sorted(scopes)


def test_two_layers_of_one_kind_share_their_program():
    first, second = torch.nn.Linear(4, 4).to("jax"), torch.nn.Sequential(torch.nn.Linear(4, 4)).to("jax")
    x = torch.ones(2, 4, device="jax")
    with torch.no_grad():
        for module in (first, second):
            with lazynb.lazy():
                lazynb.sync(module(x))
    assert lazynb.cache_info().misses == 1, "what a module is called enters no key"


def test_gradients_flow_through_views_and_writes():
    def program(device):
        torch.manual_seed(0)
        x = torch.randn(4, 6).to(device).requires_grad_()
        y = x * 2
        y[0, 1:3] = 5.0
        part = y[:, 2]
        part.mul_(3)
        y.t()[0].add_(x[:, 1] * x[:, 0])
        z = torch.cat([y[:2], torch.relu(y[2:])]).unfold(1, 2, 2).std(-1).sum()
        z.backward()
        return x.grad

    wanted = program("cpu")
    with lazynb.lazy():
        got = program("jax")
        assert not lazynb.breaks()
    torch.testing.assert_close(got.cpu(), wanted)


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3, padding=1, stride=2)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.out(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def test_a_convolutional_net_trains_and_keeps_its_running_statistics():
    torch.manual_seed(0)
    plain = Cell()
    lazy = copy.deepcopy(plain).to("jax")
    x, target = torch.randn(4, 2, 8, 8), torch.tensor([0, 1, 2, 0])
    for module, device in ((plain, "cpu"), (lazy, "jax")):
        own = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
        with lazynb.lazy():
            for _ in range(3):
                own.zero_grad()
                torch.nn.functional.cross_entropy(module(x.to(device)), target.to(device)).backward()
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                own.step()
    assert not lazynb.breaks()
    for (name, a), b in zip(plain.state_dict().items(), lazy.state_dict().values(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-3, atol=1e-4, msg=name)


def test_an_optimizer_made_before_the_move_trains_the_model():
    plain, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    own = torch.optim.SGD(plain.parameters(), 0.5)
    plain(x).sum().backward()
    before, weight = plain.weight.detach().clone(), plain.weight
    lazy = plain.to("jax")
    assert lazy.weight is weight and weight.device.type == "jax"
    assert isinstance(weight, torch.nn.Parameter) and weight.grad.device.type == "jax"
    with lazynb.lazy():
        lazy(x.to("jax")).sum().backward()
        own.step()
    torch.testing.assert_close(lazy.weight.detach().cpu(), before - 1)
    assert lazy.cpu().weight is weight and weight.device.type == "cpu"
