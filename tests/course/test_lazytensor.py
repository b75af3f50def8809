"""LazyTensor, with a Transformer and a ResNet: what the text states is in what the cells show. Times are the
reader's own."""

from __future__ import annotations

import importlib.util
import re

import pytest

from course import NOTEBOOKS, cell_with, check_exercises, check_quiet, executed, shown

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("lazytensor")]

TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchax"))


@pytest.fixture(scope="module")
def lazytensor(tmp_path_factory):
    return executed(NOTEBOOKS / "07-lazytensor.ipynb", tmp_path_factory)


def text(run, source: str) -> str:
    return shown(cell_with(run.notebook, source))


def accounts(shown_text: str) -> list[tuple[int, int, int, str]]:
    """Runs, compiled, hits, and what asked, of each line that ``account`` printed."""
    found = re.findall(r"(\d+) runs: (\d+) compiled \([\d.]+ s\), (\d+) hits; asked for by (.+)", shown_text)
    return [(int(runs), int(made), int(hits), asked) for runs, made, hits, asked in found]


def test_the_notebook_runs_without_error_or_warning(lazytensor):
    check_quiet(lazytensor)


def test_each_model_learns_with_one_program_a_step(lazytensor):
    """Sections 1 and 2: the first step is compiled, the others are hits, and the barrier alone asked."""
    for source in ("transformer_events = ", "resnet_events = "):
        said = text(lazytensor, source)
        ((runs, made, hits, asked),) = accounts(said)
        assert (made, hits, asked) == (1, runs - 1, f"sync {runs} times")
        first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+)", said).groups())
        assert last < 0.7 * first
    assert int(re.match(r"(\d+) operations are pending", text(lazytensor, "traced, loss")).group(1)) > 100


def test_jit_lazy_and_eager_are_timed_for_both_models(lazytensor):
    rows = re.findall(
        r"^(\w+) +jax.jit ([\d.]+) ms +lazy ([\d.]+) ms +eager ([\d.]+) ms",
        text(lazytensor, "def compare"),
        re.M,
    )
    assert [name for name, *_ in rows] == ["Transformer", "ResNet"]
    assert all(float(ms) > 0 for _, *times in rows for ms in times)


def test_recording_overlaps_with_running_unless_each_loss_is_awaited(lazytensor):
    """Section 4: with waiting no moment belongs to both."""
    assert len(re.findall(r"operations recorded in [\d.]+ ms", text(lazytensor, "def recording"))) == 2
    shares = dict(
        re.findall(r"^(.+?) +[\d.]+ ms a step; .+ records for (\d+)%", text(lazytensor, "def timeline"), re.M)
    )
    assert shares["waiting for each loss"] == "0"
    assert int(shares["not waiting"]) > 0


def test_a_trace_without_barriers_grows(lazytensor):
    """Section 5: a longer program, one for all rounds of the loop, that takes longer to compile."""
    rows = re.findall(
        r"every (\d) steps: (\d) x the same program with +(\d+) operations, compiled in ([\d.]+) s",
        text(lazytensor, "barriers = {}"),
    )
    every, runs, operations, seconds = zip(*(map(float, row) for row in rows))
    assert every == (1, 2, 4, 8)
    assert [a * b for a, b in zip(every, runs)] == [8] * 4
    assert list(operations) == sorted(set(operations))
    assert seconds[-1] > seconds[0]


def test_a_smaller_batch_is_compiled_and_a_filled_one_is_not(lazytensor):
    """Section 6."""
    said = text(lazytensor, "def epoch")
    plain, filled = accounts(said)
    assert plain[1] == 1 and filled[1] == 0 and plain[0] == filled[0]
    assert re.search(r"because: .*\(5, .*was \(256, ", said)


def test_pytorch_code_gives_pytorchs_losses(lazytensor):
    """Section 7: one program a model; the loop's own ``item`` asks and nothing else."""
    if not TORCH:
        assert "PyTorch is not installed here" in text(lazytensor, "class TorchTransformer")
        assert not text(lazytensor, "torch.manual_seed(0)")
        return
    said = text(lazytensor, "torch.manual_seed(0)")
    found = re.findall(r"(\w+): loss ([\d.]+) -> ([\d.]+), at most (\S+) \(relative\)", said)
    assert [name for name, *_ in found] == ["TorchTransformer", "TorchResNet"]
    for _, first, last, apart in found:
        assert float(last) < float(first) and float(apart) < 1e-3
    for runs, made, _, asked in accounts(said):
        assert made == 1 and asked == f"item {runs} times"


def test_the_exercises_accept_right_answers_and_reject_wrong_ones(lazytensor):
    check_exercises(lazytensor, 3)
