"""PyTorch's own samples of its modules: a part that is called again and again gives what the CPU gives."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map
from torchsuite.operations import without_expecttest

import lazynb

SAMPLES = 2


def _modules():
    without_expecttest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    return list(module_db)


class Outer(torch.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, *args, **kwargs):
        return self.part(*args, **kwargs)


def there(x):
    return tree_map(lambda one: one.clone().to("jax") if isinstance(one, torch.Tensor) else one, x)


def tensors(x):
    return [one for one in tree_leaves(x) if isinstance(one, torch.Tensor)]


def _is_taken(plain, ours, given, moved):
    """Whether the CPU takes a sample: PyTorch's own of ``FractionalMaxPool`` raise. Ours then raises, too."""
    try:
        plain(*given[0], **given[1])
    except RuntimeError as error:
        with pytest.raises(type(error)):
            ours(*moved[0], **moved[1])
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", _modules(), ids=lambda info: info.name)
def test_each_pytorch_module_gives_the_values_of_the_cpu_on_repeated_calls(info):
    made = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    for sample in [one for one in made if one.forward_input is not None][:SAMPLES]:
        given, options = sample.forward_input.args, sample.forward_input.kwargs
        part = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
        if any(map(torch.nn.parameter.is_lazy, (*part.parameters(), *part.buffers()))):
            continue  # they are drawn when they are made: test_shapeless.py
        plain, ours = Outer(part).eval(), Outer(copy.deepcopy(part).to("jax")).eval()
        moved, moved_options = there(given), there(options)
        with torch.no_grad(), lazynb.lazy():
            if not _is_taken(plain, ours, (given, options), (moved, moved_options)):
                continue
            for turn in range(4):
                if turn == 3:
                    for model in (plain, ours):
                        for one in model.parameters():
                            one.mul_(0.5)
                wanted, got = tensors(plain(*given, **options)), tensors(ours(*moved, **moved_options))
                assert [one.stride() for one in got] == [one.stride() for one in wanted]
                for one, other in zip(got, wanted, strict=True):
                    torch.testing.assert_close(one.cpu(), other, rtol=1e-3, atol=1e-4, equal_nan=True)
