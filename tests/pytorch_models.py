"""Small models of Transformers', made from their configurations with random weights, each with inputs and
labels."""

from __future__ import annotations

from typing import Any

MODELS = ("bert", "gpt2", "llama", "vit", "resnet")


def make(name: str, **size: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The model in evaluation mode, on the CPU; its inputs; its labels. ``size`` changes the
    configuration."""
    import torch
    import transformers as t

    torch.manual_seed(1)
    ids = torch.randint(0, 90, (2, 12))
    images = torch.randn(2, 3, 32, 32)
    text = {"input_ids": ids}
    classes = {"labels": torch.tensor([0, 1])}
    if name == "bert":
        config = {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "max_position_embeddings": 32,
        }
        model = t.BertForSequenceClassification(t.BertConfig(**config | size))
        return model.eval(), text | {"attention_mask": torch.ones_like(ids)}, classes
    if name == "gpt2":
        config = {
            "vocab_size": 100,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 32,
            "bos_token_id": 0,
            "eos_token_id": 0,
        }
        return t.GPT2LMHeadModel(t.GPT2Config(**config | size)).eval(), text, {"labels": ids}
    if name == "llama":
        config = {
            "vocab_size": 100,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 32,
        }
        return t.LlamaForCausalLM(t.LlamaConfig(**config | size)).eval(), text, {"labels": ids}
    if name == "vit":
        config = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "image_size": 32,
            "patch_size": 8,
            "num_labels": 10,
        }
        return (
            t.ViTForImageClassification(t.ViTConfig(**config | size)).eval(),
            {"pixel_values": images},
            classes,
        )
    if name == "resnet":
        config = {
            "embedding_size": 8,
            "hidden_sizes": [8, 16],
            "depths": [2, 2],
            "num_labels": 10,
            "layer_type": "basic",
        }
        return (
            t.ResNetForImageClassification(t.ResNetConfig(**config | size)).eval(),
            {"pixel_values": images},
            classes,
        )
    raise ValueError(f"no model {name!r}: {', '.join(MODELS)}")
