"""Small whole numbers: what is known of them is computed at once, what grows waits, and no program has them."""

from __future__ import annotations

import copy

import pytest
import torch

import lazynb


def masks(d):
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]], device=d)
    positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    mask = torch.cat([mask, mask.new_ones(2, 1)], dim=-1)
    rows = torch.arange(2, device=d)[:, None, None]
    allowed = torch.arange(4, device=d)[None, :] <= torch.arange(3, device=d)[:, None]
    return [positions, mask, allowed & mask.bool()[rows, torch.arange(4, device=d)], mask.sum(), ~mask]


def written(d):
    x = torch.zeros(2, 3, dtype=torch.long, device=d)
    row, column = x[1], x.t()[2]
    x.add_(1)
    row += torch.arange(3, device=d)
    column[0] = 9
    x[x == 9] = 7
    row.copy_(torch.tensor([4, 5, 6]))
    other = x.clone()
    other.fill_(2.0)
    return [x, row, column, other, x.expand(2, 2, 3).contiguous(), torch.full((2,), 3, device=d)]


def chosen(d):
    x = torch.tensor([5, 0, 3, 0, 5], device=d)
    return [
        x.nonzero(),
        x[x > 2],
        torch.isin(x, torch.tensor([5, 3], device=d)),
        *torch.sort(x),
        x.max(),
        torch.where(x > 2, x, -x),
        x.repeat(2),
        torch.nn.functional.pad(x, (0, 2), value=8),
        x.unique(),
        torch.stack([x, x * 2]).flip(0),
        x.new_zeros(2, 2),
        torch.zeros_like(x, dtype=torch.bool),
        x.to(torch.int32),
        x[1:4:2] + 3,
        x.view(torch.int32),
        x // 2,
    ]


@pytest.mark.parametrize("program", [masks, written, chosen])
def test_known_numbers_are_computed_at_once(program):
    wanted = program("cpu")
    with lazynb.lazy():
        got = program("jax")
        assert "pending" not in repr(got)
        if program is not chosen:  # which asks for numbers as others, an array
            assert not lazynb.events() and not lazynb.breaks()
        for a, b in zip(got, wanted, strict=True):
            assert (a.dtype, a.shape, a.stride(), a.tolist()) == (b.dtype, b.shape, b.stride(), b.tolist())
        arrays = [a.float() + 1 for a in got]
    for a, b in zip(arrays, wanted, strict=True):
        assert a.tolist() == (b.float() + 1).tolist()


def test_a_wrong_call_with_known_numbers_raises_at_the_call():
    with lazynb.lazy():
        x = torch.tensor([3], device="jax") + 4
        for call in (lambda: x // 0, lambda: torch.ones(2, device="jax")[x], lambda: x.add_(1.5)):
            with pytest.raises((RuntimeError, IndexError)) as found:
                call()
            assert not hasattr(found.value, "__notes__"), "it is raised on its line"


def test_large_and_floating_point_tensors_are_recorded():
    with lazynb.lazy():
        large = torch.arange(1 << 17, device="jax") + 1
        floats = torch.arange(3, device="jax") * 0.5
        wide = torch.arange(1 << 9, device="jax")
        table = wide[:, None] == wide
        assert all("pending" in repr(x) for x in (large, floats, table))
    assert (int(large[-1]), floats.tolist(), int(table.sum())) == (1 << 17, [0, 0.5, 1], 1 << 9)


def grown(d, turns, weight):
    ids = torch.tensor([[1, 2]], device=d)
    for _ in range(turns):
        scores = weight[ids[:, -1]] * 1.5
        ids = torch.cat([ids, scores.argmax(-1)[:, None]], dim=-1)
        if (ids[:, -1] == 99).all():
            break
    return ids


def test_a_growing_integer_tensor_enters_no_compiled_program():
    torch.manual_seed(0)
    weight = torch.randn(10, 10)
    wanted, there = grown("cpu", 12, weight), weight.to("jax")
    with lazynb.lazy():
        for turns in (4, 12):
            got = grown("jax", turns, there)
            assert lazynb.cache_info().misses == 1
        assert [(one.kind, one.count) for one in lazynb.breaks()] == [("bool", 16)]
        assert got.tolist() == wanted.tolist()


def waiting():
    """Numbers of which some are pending."""
    pending = (torch.tensor([1.0, 3.0], device="jax") * 2).argmax()[None]
    return torch.cat([torch.tensor([5, 6], device="jax"), pending])


def test_printing_a_deferred_tensor_runs_nothing_and_its_graph_shows_it():
    with lazynb.lazy():
        x = waiting()
        assert "pending: " in repr(x) and not lazynb.events()
        assert "concatenate" in lazynb.graph(x).to_dot()
        lazynb.sync(x)
        assert [one.kind for one in lazynb.breaks()] == ["sync"]
        assert x.tolist() == [5, 6, 1]


def test_deferred_values_are_those_before_later_writes_and_recorded_when_used():
    with lazynb.lazy():
        x = waiting()
        y, part = x + 1, x[1:]
        x.add_(10)  # recorded
        x[0] = 7
        embedded = torch.nn.functional.embedding(y % 4, torch.arange(4.0, device="jax")[:, None])
        assert not lazynb.breaks()
        assert (x.tolist(), y.tolist(), part.tolist()) == ([7, 16, 11], [6, 7, 2], [16, 11])
        assert embedded.flatten().tolist() == [2, 3, 2]


def test_ten_thousand_deferred_operations_give_the_right_value():
    with lazynb.lazy():
        x = waiting()
        for _ in range(10_000):
            x = x + 1
        assert x.tolist() == [10_005, 10_006, 10_001]


def test_an_array_of_a_deferred_tensor_is_int64_and_joins_its_trace():
    """Who asks for it need not be an operation, around which JAX has 64-bit types."""
    with lazynb.lazy():
        scores = torch.tensor([1.0, 3.0], device="jax") * 2
        ids = torch.cat([torch.tensor([1, 2], device="jax"), scores.argmax()[None]])
        assert ids.jax().dtype == "int64"
        lazynb.sync(ids, scores + ids[2])
    assert lazynb.cache_info().misses == 1


def appended(d, count):
    """What was appended last to numbers of another length at each turn, seen in several ways."""
    ids, found = torch.tensor([[1, 2, 3], [4, 5, 6]], device=d), []
    table = torch.arange(10.0, device=d)
    for turn in range(count):
        ids = torch.cat([ids, (table[:6].reshape(2, 3) * (turn + 1)).argmax(-1)[:, None]], dim=-1)
        found += [table[ids[:, -1:]], table[ids[:, -1]], table[ids[1, -1:].clone()], table[ids.t()[-1]]]
        found += [table[ids[:, 1]], table[ids[:, -2:] % 10], table[ids[::2, 1:3]]]
    return found, ids


def test_views_of_a_growing_tensor_give_the_values_of_the_cpu():
    wanted, grown = appended("cpu", 3)
    with lazynb.lazy():
        got, ids = appended("jax", 3)
        assert [x.tolist() for x in got] == [x.tolist() for x in wanted]
        assert ids.tolist() == grown.tolist()


def test_indexing_with_the_last_token_compiles_once():
    table = torch.arange(10.0, device="jax")
    with lazynb.lazy():
        ids, last = torch.tensor([[1, 2]], device="jax"), torch.ones(1, 10, device="jax")
        for _ in range(6):
            ids = torch.cat([ids, last.argmax(-1)[:, None]], dim=-1)
            last = table[ids[:, -1:].clone()] * last
            lazynb.sync(last)
        assert lazynb.cache_info().misses == 2  # the first turn makes the token after the sync
        assert ids.tolist() == [[1, 2, 0, 0, 0, 0, 0, 0]]
        assert [one.kind for one in lazynb.breaks()] == ["sync"]


@pytest.mark.parametrize("sampling", [False, True])
def test_generation_compiles_at_most_four_programs_and_gives_the_cpu_tokens(sampling):
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    config = transformers.GPT2Config(vocab_size=50, bos_token_id=0, eos_token_id=0, **sizes)
    torch.manual_seed(0)
    plain = transformers.GPT2LMHeadModel(config).eval()
    lazy, ids = copy.deepcopy(plain).to("jax"), torch.randint(1, 50, (2, 5))
    options = {"cache_implementation": "static", "pad_token_id": 0, "do_sample": sampling, "max_length": 40}
    with lazynb.lazy():
        for count in (6, 14):
            moved = {"attention_mask": torch.ones_like(ids).to("jax"), "min_length": 5 + count}
            lazy.generate(ids.to("jax"), max_new_tokens=None, **moved, **options)
        found = lazy.generate(ids.to("jax"), **moved, **options).cpu()
    assert lazynb.cache_info().misses <= 4
    assert {one.kind for one in lazynb.breaks()} == {"bool"}
    if not sampling:
        wanted = plain.generate(ids, attention_mask=torch.ones_like(ids), min_length=19, **options)
        assert found.tolist() == wanted.tolist()
