"""Architectures of Transformers', unmodified: values and gradients of the CPU, with no breaks but true ones."""

from __future__ import annotations

import pytest
from pytorch_architectures import MODELS, run

pytest.importorskip("transformers")

# They ask for values themselves: whether all are valid, the costs of a matching for SciPy, counts.
TRUE_BREAKS = {
    "detr": {"bool", "asarray", "item"},
    "yolos": {"bool", "asarray", "item"},
    "longformer": {"item"},
    "time_series": {"bool"},
}


@pytest.mark.parametrize("name", MODELS)
def test_an_architecture_is_one_graph_and_has_the_gradients_of_the_cpu(name):
    found = run(name)
    assert found["differ"] < 1e-4 and found["gradients"] < 2e-3
    others = set(found["breaks"] + found["breaks of a step"]) - {"sync"} - TRUE_BREAKS.get(name, set())
    assert not others
    if name not in TRUE_BREAKS:
        assert found["graphs"] == found["executables"] == 1
