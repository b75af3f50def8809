"""What XLA makes of each program of the table: clusters by kind, boundaries by reason, fates of the
operations of each line.

Worked out from the optimised HLO by hand and held against it by ``test_programs.py``, which reads the text by
other means. A line is named by what it assigns to. ``NEWER`` is what releases after JAX 0.10 do otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import jax


class Expected(NamedTuple):
    clusters: str
    boundaries: str
    fates: dict[str, str]


EXPECTED = {
    "chain": Expected("loop", "result", {"a": "fused 4"}),
    "bias": Expected("loop", "result", {"h": "own kernel"}),
    "softmax": Expected(
        "loop 4",
        "expensive-reused, expensive-several-users 2, reduction-reused, result",
        {"s": "cancelled, fused 4, own kernel"},
    ),
    "log_softmax": Expected("loop 3", "expensive-reused, reduction-reused 2, result", {"s": "own kernel"}),
    "layer_norm": Expected(
        "loop 3",
        "expensive-reused, reduction-reused 2, result",
        {"mean": "fused", "var": "fused 2, merged", "y": "fused 6"},
    ),
    "rms_norm": Expected("loop 2", "expensive-reused, result", {"y": "fused 6"}),
    "reduction_of_reduction": Expected(
        "library, loop", "library-producer, result", {"rows": "library", "total": "own kernel"}
    ),
    "normalise": Expected("loop 2", "expensive-reused, result", {"y": "fused 2"}),
    "cumulative": Expected(
        "loop 4", "consumer-not-fusible, producer-not-fusible 3, result", {"y": "fused 2"}
    ),
    "max_pool": Expected(
        "loop 3",
        "consumer-not-fusible, producer-not-fusible, result",
        {"y": "own kernel 2", "z": "own kernel"},
    ),
    "matmul_bias_gelu": Expected(
        "library, loop", "library-producer, result", {"h": "fused, library", "g": "fused 8"}
    ),
    "mlp": Expected(
        "library 2, loop 2",
        "library-consumer, library-producer 2, result",
        {"h": "fused 2, library", "y": "library, own kernel"},
    ),
    "attention": Expected(
        "library 2, loop 4",
        "expensive-reused, expensive-several-users 2, library-consumer, library-producer 2, reduction-reused, "
        "result",
        {"scores": "cancelled, fused, library", "weights": "cancelled, fused 5", "y": "library"},
    ),
    "attention_heads": Expected(
        "library 3, loop 8",
        "expensive-reused, expensive-several-users 2, library-consumer 4, library-producer 6, "
        "reduction-reused, result",
        {
            "q, k, v": "cancelled, fused 4, library",
            "weights": "cancelled, fused 6, library",
            "y": "cancelled, own kernel",
        },
    ),
    "matvec": Expected("loop, single", "producer-not-fusible, result", {"y": "fused, own kernel"}),
    "convolution": Expected(
        "loop, single", "producer-not-fusible, result", {"y": "own kernel", "z": "fused 2"}
    ),
    "concat_one_user": Expected("loop", "result", {"c": "fused 3", "z": "fused"}),
    "concat_several_users": Expected(
        "loop 4", "recomputed, result 3", {"c": "fused 3", "a": "fused", "b": "fused 2", "m": "fused"}
    ),
    "concat_many_parts": Expected(
        "loop 11, single", "concatenate 11, result", {"c": "own kernel 11", "z": "own kernel"}
    ),
    "concat_last_axis": Expected("loop", "result", {"c": "fused 3", "z": "fused"}),
    "slice_of_concat": Expected("loop", "result", {"c": "cancelled", "z": "cancelled, own kernel"}),
    "stacked": Expected("loop", "result", {"s": "fused 3"}),
    "transposes_cancel": Expected("loop", "result", {"t": "cancelled", "y": "cancelled, own kernel"}),
    "transpose_real": Expected("loop", "result", {"y": "fused 2"}),
    "reshape_back": Expected("loop", "result", {"f": "cancelled", "y": "cancelled, own kernel"}),
    "gather": Expected("loop", "result", {"y": "cancelled 3, fused 5"}),
    "take": Expected("loop", "result", {"y": "own kernel"}),
    "scatter": Expected(
        "loop 4",
        "consumer-not-fusible 3, result",
        {"y": "cancelled 3, fused 3, own kernel 2", "z": "own kernel"},
    ),
    "dynamic_slice": Expected(
        "loop, single",
        "copy, result",
        {"part": "folded 2, fused 5", "y": "folded 2, fused, merged 3"},
    ),
    "sort": Expected(
        "loop 2, single 2", "consumer-not-fusible 2, result 2", {"s": "own kernel 2", "o": "own kernel"}
    ),
    "vmapped": Expected("loop", "result", {"y": "fused 3"}),
    "integers": Expected("loop", "result", {"a": "fused 3", "b": "fused 5"}),
    "complex_numbers": Expected("loop", "result", {"w": "fused 3", "r": "fused 3"}),
    "bfloat16": Expected(
        "library, loop 3",
        "library-consumer 2, library-producer, result",
        {"y": "folded, fused 2, library"},
    ),
    "bits": Expected("loop", "result", {"y": "fused 5"}),
    "scan": Expected("control 2, loop 5, single 4", "copy 5, loop-carry 3, result", {"last, ys": "fused 4"}),
    "while_loop": Expected(
        "control 2, loop 3, single", "loop-carry 2, result", {"y": "fused 4, own kernel", "z": "own kernel"}
    ),
    "fori_loop": Expected(
        "control 2, loop 3, single 3",
        "copy 2, loop-carry 2, result",
        {"y": "cancelled, fused 3, own kernel"},
    ),
    "cond": Expected("control, loop 3", "loop-carry, result", {"z": "fused 3, own kernel 3"}),
    "loop_invariant": Expected(
        "control, library, loop 3, single 2",
        "loop-carry 3, result",
        {"y": "cancelled, library, own kernel 2"},
    ),
    "dead_loop_output": Expected(
        "control 2, loop 3, single 2", "loop-carry 2, result", {"a, b": "cancelled 2, own kernel 2"}
    ),
    "fft": Expected(
        "loop 2, single",
        "consumer-not-fusible, producer-not-fusible, result",
        {"y": "cancelled 2, own kernel", "z": "own kernel"},
    ),
    "cholesky": Expected(
        "library 2, loop 2",
        "library-consumer, library-producer 2, result",
        {"a": "cancelled 3, folded 3, fused 3, library", "c": "fused"},
    ),
    "solve": Expected(
        "control 2, library 3, loop 13, single 4",
        "copy 4, in-place 2, library-consumer 4, library-producer 4, loop-carry 4, result, several-users 5",
        {"x": "own kernel"},
    ),
    "normal": Expected("control, loop 10, single 16", "copy 15, loop-carry 9, result", {"x": "own kernel"}),
    "uniform_noise": Expected(
        "control, loop 10, single 16", "copy 15, loop-carry 9, result", {"y": "fused 3"}
    ),
    "cross_entropy": Expected(
        "loop 3", "expensive-reused, reduction-reused 2, result", {"loss": "cancelled, fused 5"}
    ),
    "cartpole": Expected(
        "loop 5",
        "result 4, several-users 2",
        {
            "cos, sin": "fused 2",
            "push": "fused 5",
            "theta_acc": "cancelled, fused 8",
            "x_acc": "fused 4",
            "x": "fused 2",
            "x_dot": "fused 2",
            "theta": "fused 2",
            "theta_dot": "fused 2",
            "fell": "fused 5",
            "x, x_dot, theta, theta_dot": "fused 5",
        },
    ),
    "train_step": Expected(
        "library, loop 8, single 3",
        "consumer-not-fusible 3, expensive-reused 2, expensive-several-users, library-producer, "
        "producer-not-fusible 5, result 4, several-users",
        {
            "return ((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2).mean()": "cancelled 2, fused 7, library, own kernel",
            "loss, grads": "cancelled 4, folded 2, fused 8, own kernel",
            "w1, b1, w2": "fused 6",
        },
    ),
    "batch_norm": Expected(
        "loop 3", "expensive-reused, expensive-several-users, reduction-reused, result", {"y": "own kernel"}
    ),
    "custom_jvp": Expected(
        "loop 2",
        "result 2",
        {
            "return jnp.log1p(jnp.exp(x))": "dead 2, fused 2",
            "softplus.defjvp(lambda primals, tangents: (softplus(*primals), tangents[0] * jax.nn.sigmoid(primals[0])))": "own kernel",
            "g": "cancelled, dead 2, folded 2",
        },
    ),
    "kept_alive": Expected("loop 2", "kept-alive, result", {"h": "own kernel", "y": "fused 2"}),
    "not_kept": Expected("loop", "result", {"h": "fused", "y": "fused 2"}),
    "kept_product": Expected(
        "library, loop", "library-producer, result", {"h": "library", "y": "own kernel"}
    ),
    "kept_from_library": Expected("library, loop", "kept-alive, result", {"h": "own kernel", "y": "library"}),
    "not_kept_from_library": Expected("library", "result", {"h": "library", "y": "library"}),
    "shared_with_library": Expected(
        "library, loop 2",
        "expensive-several-users, library-shared, result 2",
        {"h": "own kernel", "y, z": "library, own kernel"},
    ),
    "dead": Expected("loop", "result", {"unused": "dead", "y": "own kernel"}),
    "common_subexpression": Expected("loop", "result", {"a": "fused 2", "b": "fused, merged", "c": "fused"}),
    "common_chains": Expected("loop, single", "copy, result", {"a": "fused 3", "b": "merged 3"}),
    "folding": Expected("loop", "result", {"ones": "cancelled, fused 2", "y": "fused"}),
    "arange": Expected("loop", "result", {"n": "folded", "m": "own kernel"}),
    "identities": Expected(
        "loop", "result", {"a": "cancelled", "b": "cancelled", "c": "cancelled 2", "d": "own kernel"}
    ),
    "two_factors": Expected(
        "loop 2", "result 2", {"a": "cancelled", "b": "own kernel", "c": "cancelled, own kernel"}
    ),
    "log_of_exp": Expected("single", "result", {"a": "cancelled", "b": "cancelled"}),
    "powers": Expected(
        "loop 2, single", "copy, result 2", {"a": "own kernel", "b": "own kernel", "c": "merged"}
    ),
    "converts_cancel": Expected("loop", "result", {"a": "fused", "b": "fused", "y": "fused"}),
    "constant_select": Expected(
        "loop 2", "result 2", {"z": "cancelled, fused 2", "w": "cancelled, own kernel"}
    ),
    "broadcast_twice": Expected("loop", "result", {"y": "cancelled, fused 2"}),
    "dot_of_transpose": Expected(
        "library 2", "result 2", {"y": "cancelled, library", "z": "cancelled 2, library"}
    ),
    "sort_twice": Expected(
        "single 3", "producer-not-fusible, result 2", {"y": "own kernel 2", "z": "cancelled 3"}
    ),
    "constant_factors": Expected("loop", "result", {"a": "cancelled", "b": "own kernel"}),
    "constant_sums": Expected("loop", "result", {"a": "cancelled", "b": "own kernel"}),
    "neutral": Expected("loop", "result", {"a": "cancelled", "b": "cancelled", "c": "own kernel"}),
    "neutral_alone": Expected("single", "result", {"a": "cancelled"}),
    "constant_powers": Expected("loop", "result", {"a": "fused", "b": "fused"}),
    "constant_choice": Expected("loop", "result", {"a": "cancelled", "b": "cancelled 2", "c": "own kernel"}),
    "folded": Expected("loop", "result", {"two": "folded 2", "y": "own kernel"}),
    "folded_sum": Expected("loop", "result", {"total": "folded 2", "y": "own kernel"}),
    "integer_factors": Expected(
        "loop", "result", {"a": "cancelled", "b": "fused", "c": "cancelled", "d": "fused"}
    ),
    "folded_alone": Expected("loop", "result", {"two": "folded, own kernel"}),
    "merged": Expected(
        "loop", "result", {"a": "fused", "b": "merged", "c": "fused 2", "d": "merged 2", "e": "fused 3"}
    ),
    "merged_and_kept": Expected("loop, single", "copy, result", {"a": "own kernel", "b": "merged"}),
    "reversed_twice": Expected("loop", "result", {"y": "cancelled 2, own kernel"}),
    "rounding_trip": Expected("loop", "result", {"y": "cancelled 2, own kernel"}),
    "padded_and_cut": Expected("loop", "result", {"y": "cancelled 2, own kernel"}),
    "rng": Expected("loop, single", "producer-not-fusible, result", {"x": "cancelled 2, fused 2"}),
    "shifted_exponential": Expected("loop 2", "reduction-reused, result", {"t": "fused", "e": "fused 3"}),
    "many_reductions": Expected("loop 4", "many-reductions 3, result", {"y": "fused 14, own kernel 3"}),
}

NEWER = {
    "attention": Expected(
        "library 2, loop 5",
        "expensive-reused, expensive-several-users 2, library-consumer, library-producer, reduction-reused, "
        "result, shifted-exponential 2",
        {
            "scores": "cancelled, library, own kernel",
            "weights": "cancelled, fused 4, own kernel",
            "y": "library",
        },
    ),
    "attention_heads": Expected(
        "library 3, loop 9",
        "expensive-reused, expensive-several-users 2, library-consumer 4, library-producer 5, "
        "reduction-reused, result, shifted-exponential 2",
        {
            "q, k, v": "cancelled, fused 4, library",
            "weights": "cancelled, fused 4, library, own kernel 2",
            "y": "cancelled, own kernel",
        },
    ),
    "cartpole": EXPECTED["cartpole"]._replace(fates={**EXPECTED["cartpole"].fates, "theta_acc": "fused 9"}),
    "two_factors": Expected("loop 2", "result 2", {"a": "fused", "b": "fused", "c": "fused 2"}),
    "concat_last_axis": Expected(
        "loop 3, single", "concatenate 3, result", {"c": "own kernel 3", "z": "own kernel"}
    ),
    "complex_numbers": Expected("loop", "result", {"w": "fused 3", "r": "fused 2, merged"}),
    "bfloat16": Expected("library, loop", "library-producer, result", {"y": "folded, fused 2, library"}),
    "loop_invariant": Expected(
        "control 2, library, loop 3, single 2",
        "loop-carry 3, result",
        {"y": "cancelled, library, own kernel 2"},
    ),
    "normal": Expected("control 2, loop 10, single 16", "copy 15, loop-carry 9, result", {"x": "own kernel"}),
    "uniform_noise": Expected(
        "control 2, loop 10, single 16", "copy 15, loop-carry 9, result", {"y": "fused 3"}
    ),
    "train_step": Expected(
        "library, loop 8, single 3",
        "consumer-not-fusible 3, expensive-reused 2, expensive-several-users, "
        "library-producer, producer-not-fusible 5, result 4, several-users",
        {
            "return ((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2).mean()": "cancelled, fused 8, library, own kernel",
            "loss, grads": "cancelled 3, folded 3, fused 6, own kernel",
            "w1, b1, w2": "fused 6",
        },
    ),
    "log_of_exp": Expected("loop", "result", {"a": "fused", "b": "fused"}),
    "constant_factors": Expected("loop", "result", {"a": "fused", "b": "fused"}),
    "constant_sums": Expected("loop", "result", {"a": "fused", "b": "fused"}),
    "shifted_exponential": Expected(
        "loop 3",
        "reduction-reused, result, shifted-exponential 2",
        {"t": "own kernel", "e": "fused 2, own kernel"},
    ),
    "rng": Expected(
        "library, loop 3, single",
        "library-producer 2, producer-not-fusible, result, size-limit 2",
        {"x": "cancelled 2, fused 2"},
    ),
}

if jax.__version_info__ >= (0, 11):
    EXPECTED.update(NEWER)
