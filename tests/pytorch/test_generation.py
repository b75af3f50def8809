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


# Of a trace so long that it is divided: the prompt, a turn, two turns where numbers were constants before, the
# end. More than four is what is measured, not what is wanted.
MOST = 5


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
def test_with_an_end_token_there_are_the_prompt_and_one_token(name):
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
    with lazynb.lazy():
        got = generated(lazy, ids.to("jax"), 40)
    assert lazynb.cache_info().misses <= MOST
    assert [(one.kind, one.count) for one in lazynb.breaks()] == [("tolist", 1)]
    assert got == generated(plain, ids, 40)
