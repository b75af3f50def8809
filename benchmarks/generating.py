"""What ``generate()`` of tiny models with a static cache takes on device ``jax``, beside PyTorch eager.

    python -m benchmarks.generating

Processor time (of all threads) of 16 tokens, warm, the median of 15 rounds with a turn for each: PyTorch
eager on the CPU; recorded; and with the model compiled (``torch.compile(model.forward, backend="lazynb")``).
Each with the tokens read at the end, and where Transformers asks after each token whether all have ended. In
brackets, the ratio to eager.
"""

from __future__ import annotations

import copy
import functools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers

import lazynb
import lazynb.torch
from lazynb.frontends.torch.torch_tensor import Tensor

TOKENS, WARM, ROUNDS = 16, 4, 15
_SIZES = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
_LLAMA = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
MODELS: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=128, **_SIZES)
    ),
    "Llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_key_value_heads=1, max_position_embeddings=128, **_LLAMA, **_SIZES)
    ),
}
_ENDING = {"eos_token_id": 49, "min_new_tokens": TOKENS}


def _tokens(model: Any, ids: Any, options: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=TOKENS,
            do_sample=False,
            cache_implementation="static",
            pad_token_id=0,
            **options,
        ).tolist()


def _lazily(model: Any, ids: Any, options: dict[str, Any]) -> Any:
    with lazynb.lazy():
        return _tokens(model, ids, options)


def medians(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Processor time of warm calls in milliseconds, the median of rounds in which each has its turn."""
    for _ in range(WARM):
        for call in calls.values():
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(found) for name, found in times.items()}


def measured(name: str) -> dict[str, float]:
    """The figures of a model by what is done: with and without an end that is asked for."""
    torch.manual_seed(0)
    plain, ids = MODELS[name]().eval(), torch.randint(1, 49, (2, 5))
    ours, given = copy.deepcopy(plain).to("jax"), ids.to("jax")
    compiled = copy.deepcopy(ours)
    compiled.forward = torch.compile(compiled.forward, backend="lazynb")
    wanted = _tokens(plain, ids, {})
    for model in (ours, compiled):
        if _lazily(model, given, {}) != wanted:
            raise RuntimeError(f"{name}: other tokens than PyTorch's")
    calls: dict[str, Callable[[], Any]] = {}
    for kind, options in (("", {}), ("ending", _ENDING)):
        calls[f"eager{kind}"] = functools.partial(_tokens, plain, ids, options)
        calls[f"recorded{kind}"] = functools.partial(_lazily, ours, given, options)
        calls[f"compiled{kind}"] = functools.partial(_lazily, compiled, given, options)
    return medians(calls)


def operations(name: str) -> tuple[float, float]:
    """How many of PyTorch's operations a token is on device ``jax``, and the milliseconds in all of them.

    What goes to its operation without PyTorch between is not among them.
    """
    torch.manual_seed(0)
    ours, given = MODELS[name]().eval().to("jax"), torch.randint(1, 49, (2, 5)).to("jax")
    for _ in range(3):
        _lazily(ours, given, {})
    own, times = Tensor.__torch_dispatch__, []

    def timed(*call: Any) -> Any:
        start = time.thread_time()
        result = own(*call)
        times.append(1e3 * (time.thread_time() - start))
        return result

    Tensor.__torch_dispatch__ = staticmethod(timed)  # type: ignore[method-assign]
    try:
        _lazily(ours, given, {})
    finally:
        Tensor.__torch_dispatch__ = staticmethod(own)  # type: ignore[method-assign]
    return len(times) / TOKENS, sum(times)


def main() -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    lazynb.torch.enable()
    print(f"PyTorch {torch.__version__}, Transformers {transformers.__version__}, one thread\n")
    print("| model | end token tested | PyTorch eager | recorded | compiled |\n|---|---|---|---|---|")
    for name in MODELS:
        found = measured(name)
        for kind, said in (("", "no"), ("ending", "yes")):
            eager = found[f"eager{kind}"]
            cells = [
                f"{one:.1f} ms ({one / eager:.2f})"
                for one in (found[f"recorded{kind}"], found[f"compiled{kind}"])
            ]
            print(f"| {name} | {said} | {eager:.1f} ms | {' | '.join(cells)} |", flush=True)
    for name in MODELS:
        count, inside = operations(name)
        print(f"\n{name}, recorded: {count:.0f} operations a token, {inside:.1f} ms in them")


if __name__ == "__main__":
    main()
