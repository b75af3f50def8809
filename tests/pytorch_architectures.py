"""Architectures of Transformers', each as a tiny model with random weights, made from its configuration.

A line says the class of the model, the kind of inputs and what its configuration has besides the sizes. Sizes
are tried under every name that configurations have for them.
"""

from __future__ import annotations

from typing import Any

TEXT, MASKED, CLASSES, VISION, PIXELS, SOUND, OTHER = (
    "text",
    "masked",
    "classes",
    "vision",
    "pixels",
    "sound",
    "other",
)

# Of any configuration that has the attribute.
SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "d_model": 32,
    "dim": 32,
    "hidden_dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "ffn_dim": 64,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "d_inner": 64,
    "head_dim": 8,
    "embedding_size": 32,
    "word_embed_proj_dim": 32,
    "image_size": 32,
    "patch_size": 8,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}

_STAGES = {"hidden_sizes": [16, 32], "depths": [1, 1], "embed_dim": 16, "embedding_size": 16}
_CONV = {"conv_dim": [16, 16], "conv_kernel": [5, 3], "conv_stride": [4, 2], "num_feat_extract_layers": 2}
_SOUND = {
    **_CONV,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_length": 2,
    "apply_spec_augment": False,
    "ctc_loss_reduction": "mean",
}
_RESNET = {
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "num_queries": 5,
    "num_labels": 3,
}

# Sizes that a configuration has under another name, or cannot be given.
_NOT = {
    "FalconConfig": {"head_dim"},
    "XLNetConfig": {"max_position_embeddings"},
    "FunnelConfig": {"num_hidden_layers", "n_layer"},
    "SwinConfig": {"num_attention_heads", "num_hidden_layers", "num_layers", "hidden_size"},
}
# They have gradients in training mode alone.
_TRAINED = ("rwkv", "reformer")

# By name: the class, what it is given, and its configuration besides the sizes.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # tokens to the next tokens
    "gpt2": ("GPT2LMHeadModel", TEXT, {}),
    "gptj": ("GPTJForCausalLM", TEXT, {"rotary_dim": 4}),
    "gpt_neox": ("GPTNeoXForCausalLM", TEXT, {}),
    "codegen": ("CodeGenForCausalLM", TEXT, {"rotary_dim": 4}),
    "opt": ("OPTForCausalLM", TEXT, {}),
    "bloom": ("BloomForCausalLM", TEXT, {}),
    "falcon": ("FalconForCausalLM", TEXT, {}),
    "llama": ("LlamaForCausalLM", TEXT, {}),
    "mistral": ("MistralForCausalLM", TEXT, {"sliding_window": 8}),
    "qwen2": ("Qwen2ForCausalLM", TEXT, {}),
    "qwen3": ("Qwen3ForCausalLM", TEXT, {}),
    "phi": ("PhiForCausalLM", TEXT, {}),
    "stablelm": ("StableLmForCausalLM", TEXT, {}),
    "gemma2": ("Gemma2ForCausalLM", TEXT, {"sliding_window": 8}),
    "gemma3": ("Gemma3ForCausalLM", TEXT, {"sliding_window": 8}),
    "mixtral": ("MixtralForCausalLM", TEXT, {"num_local_experts": 4}),
    "qwen2_moe": (
        "Qwen2MoeForCausalLM",
        TEXT,
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
    ),
    "mamba": ("MambaForCausalLM", TEXT, {"state_size": 4, "time_step_rank": 4}),
    "rwkv": ("RwkvForCausalLM", TEXT, {"context_length": 64, "attention_hidden_size": 32}),
    "xlnet": ("XLNetLMHeadModel", TEXT, {"d_inner": 64}),
    "reformer": (
        "ReformerModelWithLMHead",
        TEXT,
        {
            "is_decoder": True,
            "attn_layers": ["local", "local"],
            "axial_pos_embds": False,
            "feed_forward_size": 64,
            "attention_head_size": 8,
            "local_attn_chunk_length": 4,
            "hidden_dropout_prob": 0.0,
            "local_attention_probs_dropout_prob": 0.0,
        },
    ),
    # tokens to tokens in their place
    "albert": ("AlbertForMaskedLM", MASKED, {}),
    "roberta": ("RobertaForMaskedLM", MASKED, {}),
    "electra": ("ElectraForMaskedLM", MASKED, {}),
    "distilbert": ("DistilBertForMaskedLM", MASKED, {}),
    "mpnet": ("MPNetForMaskedLM", MASKED, {}),
    "squeezebert": (
        "SqueezeBertForMaskedLM",
        MASKED,
        {f"{name}_groups": 2 for name in ("q", "k", "v", "post_attention", "intermediate", "output")},
    ),
    "mobilebert": (
        "MobileBertForMaskedLM",
        MASKED,
        {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    ),
    "deberta_v2": (
        "DebertaV2ForMaskedLM",
        MASKED,
        {
            "relative_attention": True,
            "max_relative_positions": 8,
            "position_buckets": 4,
            "pos_att_type": ["p2c", "c2p"],
        },
    ),
    "big_bird": (
        "BigBirdForMaskedLM",
        MASKED,
        {"attention_type": "original_full"},
    ),
    "funnel": (
        "FunnelForMaskedLM",
        MASKED,
        {"block_sizes": [1, 1], "d_head": 8, "d_inner": 64, "num_decoder_layers": 1},
    ),
    "longformer": ("LongformerForMaskedLM", MASKED, {"attention_window": 4}),
    "layoutlm": ("LayoutLMForMaskedLM", MASKED, {}),
    "data2vec": ("Data2VecTextForMaskedLM", MASKED, {}),
    "modernbert": (
        "ModernBertForMaskedLM",
        MASKED,
        {"local_attention": 8, "cls_token_id": 0, "sep_token_id": 1},
    ),
    # from one text, or sound, to another
    "t5": ("T5ForConditionalGeneration", "pair", {"decoder_start_token_id": 0}),
    "bart": ("BartForConditionalGeneration", "pair", {}),
    "whisper": (
        "WhisperForConditionalGeneration",
        "spectrum",
        {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 32},
    ),
    # images
    "vit": ("ViTForImageClassification", VISION, {}),
    "beit": ("BeitForImageClassification", VISION, {}),
    "swin": (
        "SwinForImageClassification",
        VISION,
        {**_STAGES, "patch_size": 4, "num_heads": [2, 4], "window_size": 2},
    ),
    "convnext": ("ConvNextForImageClassification", VISION, _STAGES),
    "mobilenet_v2": ("MobileNetV2ForImageClassification", VISION, {"depth_multiplier": 0.25}),
    "resnet": ("ResNetForImageClassification", VISION, {**_STAGES, "layer_type": "basic"}),
    "poolformer": (
        "PoolFormerForImageClassification",
        VISION,
        {
            "num_encoder_blocks": 2,
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "strides": [4, 2],
            "padding": [2, 1],
            "patch_sizes": [7, 3],
        },
    ),
    "segformer": (
        "SegformerForImageClassification",
        VISION,
        {
            "num_encoder_blocks": 2,
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "strides": [4, 2],
            "patch_sizes": [7, 3],
            "sr_ratios": [2, 1],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
        },
    ),
    "vit_mae": (
        "ViTMAEForPreTraining",
        PIXELS,
        {
            "decoder_hidden_size": 16,
            "decoder_num_hidden_layers": 1,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 32,
        },
    ),
    "detr": ("DetrForObjectDetection", "boxes", _RESNET),
    "yolos": (
        "YolosForObjectDetection",
        "boxes",
        {"num_detection_tokens": 5, "num_labels": 3, "image_size": [32, 32]},
    ),
    "clip": ("CLIPModel", "clip", {"projection_dim": 16}),
    # sound, series
    "wav2vec2": ("Wav2Vec2ForCTC", SOUND, _SOUND),
    "hubert": ("HubertForCTC", SOUND, _SOUND),
    "time_series": (
        "TimeSeriesTransformerForPrediction",
        "series",
        {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1},
    ),
}


def make(name: str) -> tuple[Any, dict[str, Any]]:
    """The model in evaluation mode, on the CPU; its inputs, with labels: it returns a loss."""
    import torch
    import transformers

    kind_name, kind, more = MODELS[name]
    kind_of_model = getattr(transformers, kind_name)
    torch.manual_seed(1)
    config = _config(kind_of_model.config_class, more)
    model = kind_of_model(config).train(name in _TRAINED)
    return model, _INPUTS[kind](torch, config)


def _config(kind: Any, more: dict[str, Any]) -> Any:
    """A configuration of small sizes."""
    default = kind()
    if kind.__name__ == "CLIPConfig":
        from transformers import CLIPTextConfig, CLIPVisionConfig

        return kind(
            text_config=_config(CLIPTextConfig, {}).to_dict(),
            vision_config=_config(CLIPVisionConfig, {}).to_dict(),
            **more,
        )
    if kind.__name__ == "DetrConfig":
        from transformers import ResNetConfig

        more = more | {"backbone_config": ResNetConfig(**_STAGES, out_features=["stage2"])}
    left_out = _NOT.get(kind.__name__, ())
    sizes = {name: size for name, size in SIZES.items() if hasattr(default, name) and name not in left_out}
    return kind(**sizes | more)


def _ids(torch: Any) -> Any:
    return torch.randint(2, 90, (2, 12))


def _with_mask(torch: Any, config: Any) -> dict[str, Any]:
    ids = _ids(torch)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def _images(torch: Any, config: Any) -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}


def _boxes(torch: Any, config: Any) -> dict[str, Any]:
    one = {"class_labels": torch.tensor([1, 2]), "boxes": torch.rand(2, 4) * 0.3 + 0.3}
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": [one, dict(one)]}


def _pair(torch: Any, config: Any) -> dict[str, Any]:
    return _with_mask(torch, config) | {"labels": torch.randint(2, 90, (2, 7))}


def _spectrum(torch: Any, config: Any) -> dict[str, Any]:
    return {"input_features": torch.randn(2, 8, 40), "labels": torch.randint(2, 90, (2, 7))}


def _sound(torch: Any, config: Any) -> dict[str, Any]:
    labels = torch.tensor([[3, 5, 7], [4, 4, -100]])
    return {"input_values": torch.randn(2, 400), "labels": labels}


def _series(torch: Any, config: Any) -> dict[str, Any]:
    def numbers(length: int) -> dict[str, Any]:
        return {"values": torch.rand(2, length) + 1, "time_features": torch.randn(2, length, 1)}

    given = {f"past_{name}": value for name, value in numbers(10).items()}
    given["past_observed_mask"] = torch.ones(2, 10)
    return given | {f"future_{name}": value for name, value in numbers(4).items()}


def _clip(torch: Any, config: Any) -> dict[str, Any]:
    return {"input_ids": _ids(torch), "pixel_values": torch.randn(2, 3, 32, 32), "return_loss": True}


_INPUTS: dict[str, Any] = {
    TEXT: lambda torch, config: {"input_ids": (ids := _ids(torch)), "labels": ids.clone()},
    MASKED: _with_mask,
    VISION: _images,
    PIXELS: lambda torch, config: {
        "pixel_values": torch.randn(2, 3, 32, 32),
        "noise": torch.rand(2, 16),
    },
    SOUND: _sound,
    "pair": _pair,
    "spectrum": _spectrum,
    "boxes": _boxes,
    "clip": _clip,
    "series": _series,
}


def moved(x: Any) -> Any:
    """``x`` with tensors on device ``jax``."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.to("jax")
    if isinstance(x, dict):
        return {name: moved(item) for name, item in x.items()}
    return [moved(item) for item in x] if isinstance(x, list) else x


def numbers(output: Any) -> list[Any]:
    """The results of a model, its tensors of floats."""
    import torch

    leaves = torch.utils._pytree.tree_leaves(dict(output))
    return [x.detach() for x in leaves if isinstance(x, torch.Tensor) and x.is_floating_point()]


def apart(found: list[Any], wanted: list[Any], least: float = 1e-9) -> float:
    """The largest difference, as a share of the largest number of each tensor (at least ``least``)."""
    each = [
        float((a.cpu() - b).abs().max() / max(float(b.abs().max()), least))
        for a, b in zip(found, wanted, strict=True)
    ]
    return max(each)


def run(name: str) -> dict[str, Any]:
    """One model forward, and forward and backward, on the CPU and lazily.

    Returns programs that ran forward, trace breaks by kind, executables, and how far results and gradients
    are from the CPU's.
    """
    import copy

    import torch

    import lazynb

    plain, inputs = make(name)
    lazy, there = copy.deepcopy(plain).to("jax"), moved(inputs)
    wanted = plain(**inputs)
    wanted.loss.backward()
    lazynb.clear_cache()
    with lazynb.lazy():
        ran = len(lazynb.events())
        with torch.no_grad():
            output = lazy(**there)
        breaks = [one.kind for one in lazynb.breaks()]
        lazynb.sync(output)
        programs, executables = len(lazynb.events()) - ran, lazynb.cache_info().misses
        differ = apart(numbers(output), numbers(wanted))
    lazynb.clear_cache()
    with lazynb.lazy():
        before = _counts(lazynb)
        lazy(**there).loss.backward()
        added = _counts(lazynb) - before
        lazynb.sync()
    compiled = lazynb.cache_info().misses
    pairs = [(a.grad, b.grad) for a, b in zip(lazy.parameters(), plain.parameters(), strict=True)]
    assert all((a is None) == (b is None) for a, b in pairs)
    gradients = [(a, b) for a, b in pairs if b is not None]
    return {
        "model": type(plain).__name__,
        "graphs": programs,
        "breaks": sorted(breaks),
        "executables": executables,
        "differ": differ,
        "breaks of a step": sorted(added.elements()),
        "executables of a step": compiled,
        "gradients": apart([a for a, _ in gradients], [b for _, b in gradients], least=1e-4),
    }


def _counts(lazynb: Any) -> Any:
    import collections

    return collections.Counter({one.kind: one.count for one in lazynb.breaks()})
