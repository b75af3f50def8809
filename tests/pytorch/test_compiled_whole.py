"""A compiled model is one recorded operation for each call, with PyTorch's values."""

from __future__ import annotations

import copy
import gc
import inspect
import weakref

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional

import lazynb


@pytest.fixture(autouse=True)
def forgotten():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def recorded(*tensors):
    """The operations of the trace, each compiled graph one."""
    found = {}
    for node in lazynb.graph(*tensors).nodes:
        if node.kind != "input":
            found[node.calls[0].id if node.calls else ("node", node.id)] = (
                node.calls[0].name if node.calls else node.name
            )
    return list(found.values())


def compiled(model):
    return torch.compile(copy.deepcopy(model).to("jax"), backend="lazynb")


def close(ours, theirs, **options):
    assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), **options)


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(x)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.places = nn.Parameter(torch.randn(8, 16))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 20)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.first(x))), 2)
        x = functional.relu(x + self.norm2(self.second(x)))
        return self.head(x.mean((2, 3)))


def test_a_forward_pass_is_one_operation():
    model, x = mlp(), torch.rand(4, 6)
    ours = compiled(model)
    with lazynb.lazy(), torch.no_grad():
        for _ in range(3):
            y = ours(x.to("jax"))
            assert recorded(y) == ["forward"]
            close(y, model(x))


def test_a_training_step_is_one_forward_and_one_backward_operation():
    model, x = mlp(), torch.rand(4, 6)
    ours = compiled(model)
    with lazynb.lazy():
        y = ours(x.to("jax"))
        y.sum().backward()
        names = recorded(*[p.grad for p in ours.parameters()])
        assert names.count("forward") == names.count("backward") == 1
    model(x).sum().backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        close(p.grad, q.grad)


def train(model, loss, device, steps=4, **options):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)  # gradients of rounding count little
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return [float(value) for value in losses]


def both(model, loss, **options):
    """Trains ``model`` on the CPU and, compiled, on device ``jax``."""
    ours = compiled(model)
    with lazynb.lazy():
        found = train(ours, loss("jax"), "jax")
    expected = train(model, loss("cpu"), "cpu")
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    for (name, p), q in zip(ours.state_dict().items(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=2e-3, atol=2e-3, msg=lambda text: f"{name}: {text}")
    return ours


def test_training_an_mlp_equals_the_cpu():
    x, target = torch.rand(4, 6), torch.tensor([0, 2, 1, 1])

    def loss(device):
        a, b = x.to(device), target.to(device)
        return lambda model: functional.cross_entropy(model(a), b)

    both(mlp(), loss)


def test_training_a_transformer_equals_the_cpu():
    tokens = torch.randint(0, 20, (2, 8))

    def loss(device):
        a = tokens.to(device)
        return lambda model: functional.cross_entropy(model(a).flatten(0, 1), a.flatten())

    both(Transformer(), loss)


def test_batch_normalisation_equals_the_cpu_in_training_and_evaluation():
    x, target = torch.rand(6, 3, 8, 8), torch.randint(0, 5, (6,))

    def loss(device):
        a, b = x.to(device), target.to(device)
        return lambda model: functional.cross_entropy(model(a), b)

    model = Residual()
    ours = both(model, loss)
    ours.eval(), model.eval()
    with lazynb.lazy(), torch.no_grad():
        y = ours(x.to("jax"))
        assert recorded(y) == ["forward"]
        close(y, model(x), rtol=1e-3, atol=1e-3)


def test_bert_with_a_loss_equals_the_cpu():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=16,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    tokens, mask = torch.randint(0, 50, (2, 8)), torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    labels = torch.tensor([1, 0])

    def loss(device):
        a, b, c = tokens.to(device), mask.to(device), labels.to(device)
        return lambda model: model(input_ids=a, attention_mask=b, labels=c).loss

    ours = both(model, loss)
    with lazynb.lazy():
        value = loss("jax")(ours)
        assert recorded(value) == ["forward"]


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        y = torch.tanh(self.layer(x))
        return torch.softmax(y, -1)


def test_the_lines_inside_are_those_of_the_model():
    first = inspect.getsourcelines(Two.forward)[1]
    ours = compiled(Two())
    with lazynb.lazy():
        y = ours(torch.rand(4, 6, device="jax"))
        (y * y).sum().backward()
        nodes = lazynb.graph(y, *[p.grad for p in ours.parameters()]).nodes
        for name, line in (("tanh", first + 1), ("dot_general", first + 1), ("exp", first + 2)):
            places = {node.place.line for node in nodes if node.primitive == name and node.calls}
            assert line in places, (name, places)
        assert any(node.scope.endswith("layer") for node in nodes if node.primitive == "dot_general")


def test_kernels_hold_the_lines_of_the_model():
    first = inspect.getsourcelines(Two.forward)[1]
    ours = compiled(Two())
    with lazynb.lazy(), torch.no_grad():
        found = lazynb.compile(ours(torch.rand(4, 6, device="jax")))
        (tanh,) = [node for node in found.snapshot.nodes if node.primitive == "tanh"]
        assert tanh.place.line == first + 1 and found.fates[tanh.id].clusters


def test_dropout_draws_the_same_as_without_compilation():
    model = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 32), nn.Dropout(0.3))
    x = torch.rand(4, 6)
    plain, ours = copy.deepcopy(model).to("jax"), compiled(model)
    with lazynb.lazy():
        a = x.to("jax")
        torch.manual_seed(5)
        expected = [plain(a) for _ in range(3)] + [torch.rand(3, device="jax")]
        torch.manual_seed(5)
        found = [ours(a) for _ in range(3)] + [torch.rand(3, device="jax")]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.detach().cpu(), other.detach().cpu())
        assert not torch.equal(found[0].cpu(), found[1].cpu())
        found[1].sum().backward()
        expected[1].sum().backward()
    for p, q in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad.cpu())


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + torch.randn_like(x),
        lambda x: torch.empty_like(x).normal_(1, 2),
        lambda x: torch.empty_like(x).exponential_(),
        lambda x: torch.empty_like(x).bernoulli_(0.3),
        lambda x: functional.rrelu(x - 0.5, training=True),
        lambda x: functional.alpha_dropout(x, 0.4, training=True),
        lambda x: functional.gumbel_softmax(x, hard=True),
        lambda x: torch.randint(0, 9, (4,), device=x.device),
        lambda x: torch.multinomial(x + 1, 3),
    ],
)
def test_random_functions_draw_the_same_as_without_compilation(draw):
    ours = torch.compile(draw, backend="lazynb")
    with lazynb.lazy():
        x = torch.rand(6).to("jax")
        drawn = []
        for function in (draw, ours):
            torch.manual_seed(3)
            drawn.append([function(x) for _ in range(3)] + [torch.rand(2, device="jax")])
        assert recorded(drawn[1][2]).count("forward") == 1
        for one, other in zip(*drawn, strict=True):
            torch.testing.assert_close(one.cpu(), other.cpu())


def test_an_index_out_of_range_that_is_known_raises_at_the_call():
    ours = compiled(Transformer())
    with lazynb.lazy():
        with pytest.raises(IndexError, match="index out of range in self"):
            ours(torch.full((2, 8), 20).to("jax"))
        assert ours(torch.full((2, 8), 19).to("jax")).shape == (2, 8, 20)


def test_an_index_out_of_range_that_is_pending_raises_at_the_flush():
    ours = compiled(Transformer())
    with lazynb.lazy():
        tokens = torch.full((2, 8), 20).to("jax") * torch.rand(2, 8, device="jax").ceil().long()
        y = ours(tokens)
        with pytest.raises(IndexError, match="index out of range in self") as raised:
            y.sum().item()
        line = inspect.getsourcelines(Transformer.forward)[1] + 1
        assert any(f"test_compiled_whole.py:{line}" in note for note in raised.value.__notes__)
        good = ours(tokens.clamp(max=19))
        assert recorded(good)[-1] == "forward" and good.sum().item()


def test_targets_out_of_range_raise_an_index_error():
    loss = torch.compile(lambda x, y: functional.cross_entropy(x, y), backend="lazynb")
    with lazynb.lazy():
        x = torch.rand(2, 3, device="jax")
        with pytest.raises(IndexError, match="Target 3 is out of bounds"):
            loss(x, torch.tensor([0, 3]).to("jax")).item()
        pending = (torch.rand(2, device="jax").ceil() * 3).long()
        with pytest.raises(IndexError, match="Target 3 is out of bounds"):
            loss(x, pending).item()


def test_a_singular_matrix_raises_a_linalg_error():
    inverse = torch.compile(torch.linalg.inv, backend="lazynb")
    with lazynb.lazy():
        y = inverse((torch.eye(3) * 2).to("jax"))
        assert recorded(y) == ["forward"]
        close(y, torch.linalg.inv(torch.eye(3) * 2))
        with pytest.raises(torch.linalg.LinAlgError, match="singular"):
            inverse(torch.zeros(3, 3).to("jax")).cpu()


def test_constants_made_inside_the_function_are_part_of_one_operation():
    def scaled(x):
        return x * torch.tensor([1.0, 2.0], device=x.device) + torch.arange(2, device=x.device)

    ours = torch.compile(scaled, backend="lazynb", fullgraph=True)
    with lazynb.lazy():
        for _ in range(2):
            x = torch.rand(3, 2)
            y = ours(x.to("jax"))
            assert recorded(y) == ["forward"]
            close(y, scaled(x))


def test_writes_to_inputs_that_share_memory_equal_the_cpu():
    def step(x, part):
        part.mul_(2)
        return x + 1

    ours = torch.compile(step, backend="lazynb")
    a = torch.rand(3, 4)
    with lazynb.lazy():
        b = a.to("jax")
        for x, y in ((b, a), (b.t(), a.t()), (b, a)):
            close(ours(x, x[1:]), step(y, y[1:]))
        close(b, a)


def test_hooks_and_checkpoints_equal_the_cpu():
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.layer.register_forward_hook(lambda module, given, result: result * 2)
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

        def forward(self, x):
            y = self.layer(x)
            if y.requires_grad:
                y.register_hook(lambda gradient: gradient * 3)
            return torch.utils.checkpoint.checkpoint(self.inner, y, use_reentrant=False)

    model, x = Hooked(), torch.rand(2, 3)
    ours = compiled(model)
    with lazynb.lazy():
        y = ours(x.to("jax"))
        y.sum().backward()
        close(y, model(x))
    model(x).sum().backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        close(p.grad, q.grad)


def test_writes_to_inputs_equal_the_cpu():
    def step(x, y):
        x.add_(y)
        y[1] = 7
        return x * 2

    ours = torch.compile(step, backend="lazynb")
    a, b = torch.rand(3, 2), torch.rand(3, 2)
    with lazynb.lazy():
        c, d = a.to("jax"), b.to("jax")
        seen = c[1]
        for _ in range(2):
            close(ours(c, d), step(a, b))
        close(c, a), close(d, b), close(seen, a[1])


def test_returned_views_share_memory_with_their_bases():
    def looks(x):
        y = x + 1
        return x.T, x[1:], y[:, 1], y.view(-1), y

    ours = torch.compile(looks, backend="lazynb")
    a = torch.rand(3, 2)
    with lazynb.lazy():
        b = a.to("jax")
        found, expected = ours(b), looks(a)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
            assert one.storage_offset() == other.storage_offset()
            assert one._is_view() == other._is_view()
        for x, parts in ((b, found), (a, expected)):
            x.mul_(3)
            parts[4].mul_(2)
            parts[1].zero_()
        for one, other in zip((b, *found), (a, *expected), strict=True):
            close(one, other)


def test_results_that_are_no_tensors_are_returned_unchanged():
    @torch.compile(backend="lazynb")
    def several(x, factor):
        return {"y": x * factor, "n": x.shape[0], "none": None, "word": "a"}, x

    with lazynb.lazy():
        x = torch.ones(2, device="jax")
        found, same = several(x, 3)
        assert same is x and found["n"] == 2 and found["none"] is None and found["word"] == "a"
        assert found["y"].tolist() == [3, 3]


def test_a_cpu_input_moved_inside_equals_the_cpu():
    """As the length that a cache of Transformers begins with."""

    def shifted(x, length):
        return x.roll(2) + length.to(x.device), length.to(x.device, torch.float32)

    @torch.compile(backend="lazynb", fullgraph=True)
    def ours(x, length):
        return shifted(x, length)

    x, length = torch.arange(6.0), torch.tensor(3)
    with lazynb.lazy():
        first, moved = ours(x.to("jax"), length)
        wanted = shifted(x, length)[0]
        length += 1
        second, _ = ours(x.to("jax"), length)
        assert len(recorded(first)) == len(recorded(second)) == 1 and not lazynb.breaks()
        close(first, wanted)
        close(second, shifted(x, length)[0])
    assert moved.dtype is torch.float32 and length.device.type == "cpu" and length.item() == 4


def test_an_untraceable_function_runs_uncompiled_with_a_break():
    @torch.compile(backend="lazynb", fullgraph=True)
    def least(x):
        return torch.special.airy_ai(x + 1) * 2  # an operation that the CPU alone has

    x = torch.rand(4)
    with lazynb.lazy():
        close(least(x.to("jax")), torch.special.airy_ai(x + 1) * 2)
        assert lazynb.breaks()


def test_another_input_shape_is_still_one_operation():
    model = mlp()
    ours = compiled(model)
    with lazynb.lazy():
        for count in (2, 3, 5, 3, 7, 2):
            x = torch.rand(count, 6)
            y = ours(x.to("jax"))
            assert recorded(y) == ["forward"]
            close(y, model(x))
            y.sum().backward()
            model(x).sum().backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        close(p.grad, q.grad)


def test_a_second_backward_pass_needs_retain_graph():
    model, x = mlp(), torch.rand(4, 6)
    ours = compiled(model)
    with lazynb.lazy():
        y = ours(x.to("jax")).sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
    y = model(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        close(p.grad, q.grad)


def test_writing_a_weight_before_the_backward_pass_raises():
    ours = compiled(mlp())
    with lazynb.lazy():
        y = ours(torch.rand(4, 6, device="jax")).sum()
        with torch.no_grad():
            ours.get_submodule("_orig_mod.3").weight.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_a_compiled_model_runs_at_once_outside_lazy_mode():
    model, x = mlp(), torch.rand(4, 6)
    ours = compiled(model)
    y = ours(x.to("jax"))
    assert "pending" not in repr(y)
    close(y, model(x))
    y.sum().backward()
    model(x).sum().backward()
    close(ours.get_submodule("_orig_mod.0").weight.grad, model[0].weight.grad)
    embed = torch.compile(nn.Embedding(3, 2).to("jax"), backend="lazynb")
    with pytest.raises(IndexError, match="index out of range in self"):
        embed(torch.tensor([3]).to("jax"))


def test_other_backends_do_not_compile_device_jax():
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    with lazynb.lazy():
        y = torch.compile(mlp().to("jax"), backend=backend)(torch.rand(4, 6, device="jax"))
        assert len(recorded(y)) > 3 and not seen


def test_the_compiled_programs_are_freed_with_the_model():
    from lazynb.frontends.torch.graphs import aot_graph

    ours = compiled(mlp())
    before = {id(x) for x in gc.get_objects() if type(x) is aot_graph.TracedProgram}
    with lazynb.lazy():
        ours(torch.rand(4, 6, device="jax")).sum().backward()
    programs = [
        weakref.ref(x) for x in gc.get_objects() if type(x) is aot_graph.TracedProgram and id(x) not in before
    ]
    assert programs
    del ours
    torch._dynamo.reset()
    gc.collect()
    assert not any(one() for one in programs)
