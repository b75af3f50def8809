"""A share of PyTorch's own samples of its operations. All of them: ``python scripts/torch_suite.py``."""

from __future__ import annotations

import pytest
import torch
from torchsuite.aspects import ASPECTS
from torchsuite.operations import name_of, operations
from torchsuite.table import Table

SHARE = 60
"""Of so many operations one is tried; ``scripts/torch_suite.py`` tries all."""

SHARES = [
    ("values", torch.float32),
    ("values", torch.int64),
    ("values", torch.complex64),
    ("values", torch.bfloat16),
    ("values", torch.bool),
    ("gradients", torch.float32),
    ("gradients", torch.complex64),
    ("errors", torch.float32),
    ("inplace", torch.float32),
    ("out", torch.float32),
]


def share(dtype):
    return [one for one in operations()[7::SHARE] if one.supports_dtype(dtype, "cpu")]


@pytest.mark.parametrize(("aspect", "dtype"), SHARES, ids=lambda one: str(one).removeprefix("torch."))
def test_a_share_of_the_pytorch_samples_has_no_unexplained_difference(aspect, dtype):
    table = Table.load()
    kind = f"{aspect}-{str(dtype).removeprefix('torch.')}"
    for operation in share(dtype):
        name = name_of(operation)
        if table.reason(name, kind) is None:
            found = ASPECTS[aspect](operation, dtype, 3, table.comparison(name))
            assert not found.failures, f"{name}: {found.failures[0]}"


def test_the_comparison_reports_each_kind_of_difference():
    """The comparison sees another value, dtype, shape, exception, and stride, and a break."""
    from torchsuite.aspects import Outcome, _difference
    from torchsuite.comparing import difference, strides

    x = torch.randn(2, 3)
    assert difference(x, x) is None
    for other in (x + 1, x.double(), x[:1], [x, x], 3):
        assert difference(other, x) is not None
    assert difference(x + 1, x, "shapes") is None
    assert strides(x.t(), x.t().contiguous()) is not None and strides(x, x.clone()) is None
    failed, other = Outcome(error=ValueError("a")), Outcome(error=TypeError("a"))
    assert _difference(failed, Outcome(x), "values") and _difference(failed, other, "values")
    assert _difference(failed, failed, "values") is None and _difference(Outcome(x), failed, "values")


def test_each_listed_difference_names_an_existing_operation():
    names = {name_of(one) for one in operations()}
    table = Table.load()
    import fnmatch

    patterns = (
        [pattern for pattern, _, why in table.reasons if why] + list(table.undetermined) + table.choices
    )
    assert all(fnmatch.filter(names, pattern) for pattern in patterns)
