"""``generate()`` with a static cache: PyTorch's tokens, and a few executables, however many tokens there are."""

from __future__ import annotations

import copy

import pytest
import torch

import lazynb

transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 50, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16}
FEW_HEADS = {**SIZES, "num_key_value_heads": 1, "intermediate_size": 32}
ENDS = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
MODELS = {
    "GPT2LMHeadModel": {"vocab_size": 50, "n_embd": 16, "n_layer": 1, "n_head": 2},
    "LlamaForCausalLM": FEW_HEADS,
    "Qwen2ForCausalLM": FEW_HEADS,
    "OPTForCausalLM": {**SIZES, "ffn_dim": 32, "word_embed_proj_dim": 16},
    "GPTNeoXForCausalLM": {**SIZES, "intermediate_size": 32},
}


MOST = 4  # of a trace so long that it is divided: the prompt with the first turns, a turn, the last, the end


def made(name):
    """The model on the CPU, and on device ``jax``."""
    cls = getattr(transformers, name)
    plain = cls(cls.config_class(**MODELS[name], **ENDS)).eval()
    return plain, copy.deepcopy(plain).to("jax")


def generated(model, ids, count, **options):
    mask = torch.ones_like(ids)
    fixed = {"cache_implementation": "static", "pad_token_id": 0, "do_sample": False}
    return model.generate(ids, attention_mask=mask, max_new_tokens=count, **fixed, **options).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_with_an_end_token_two_programs_are_compiled(name):
    plain, lazy = made(name)
    ids = torch.randint(1, 49, (2, 5))
    ends = {"eos_token_id": 49, "min_new_tokens": 24}
    with lazynb.lazy():
        got = generated(lazy, ids.to("jax"), 24, **ends)
    assert lazynb.cache_info().misses == 2
    assert [(one.kind, one.count) for one in lazynb.breaks()] == [("bool", 24)]
    assert got == generated(plain, ids, 24, **ends)


@pytest.mark.parametrize("name", MODELS)
def test_without_an_end_token_nothing_runs_before_the_tokens_are_read(name):
    plain, lazy = made(name)
    ids = torch.randint(1, 49, (2, 5))
    for count in (16, 40):
        lazynb.clear_cache()
        with lazynb.lazy():
            got = generated(lazy, ids.to("jax"), count)
        assert lazynb.cache_info().misses <= MOST
        assert [(one.kind, one.count) for one in lazynb.breaks()] == [("tolist", 1)]
        assert got == generated(plain, ids, count)


def test_an_argmax_index_is_checked_only_if_it_can_be_out_of_range():
    plain = torch.randn(6, 4)
    table, scores = plain.to("jax"), torch.tensor([[0.0, 1.0, 0.0, 5.0, 0.0, 0.0]], device="jax")
    with lazynb.lazy():
        chosen = torch.nn.functional.embedding((scores * 2).argmax(-1), table)
        assert not chosen.jax()._pending.checks
        assert chosen.tolist() == [plain[3].tolist()]
        too_many = torch.cat([scores * 2, scores * 3], -1).argmax(-1)
        assert torch.nn.functional.embedding(too_many - 6, table).tolist() == [plain[3].tolist()]
        with pytest.raises(IndexError, match="index out of range"):
            torch.nn.functional.embedding(too_many, table).tolist()
