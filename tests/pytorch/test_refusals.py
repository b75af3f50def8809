"""Wrong calls raise what PyTorch's CPU raises, also where its rules for shapes let them pass."""

from __future__ import annotations

import pytest
import torch

import lazynb

F = torch.nn.functional

WRONG = {
    "view beyond the memory": lambda there: torch.ones(4, device=there).as_strided((3,), (2,)),
    "scatter beyond the memory": lambda there: torch.as_strided_scatter(
        torch.ones(4, device=there), torch.ones(3, device=there), (3,), (2,), 0
    ),
    "complex number among whole ones": lambda there: torch.ones(
        2, dtype=torch.int64, device=there
    ).masked_fill(torch.tensor(True, device=there), torch.tensor(1j, device=there)),
    "negative padding": lambda there: F.conv3d(
        torch.ones(1, 1, 4, 4, 4, device=there), torch.ones(1, 1, 1, 1, 1, device=there), padding=-1
    ),
    "too many samples": lambda there: torch.multinomial(torch.zeros(2, device=there), 3),
    "negative weight": lambda there: torch.multinomial(torch.tensor([1.0, -1.0], device=there), 2, True),
    "endless weight": lambda there: torch.multinomial(torch.tensor([1.0, torch.inf], device=there), 2, True),
    "sections of floats": lambda there: torch.tensor_split(
        torch.ones(4, device=there), torch.tensor([1.0], device=there)
    ),
    "more axes than there may be": lambda there: torch.ones([1] * 65).to(there).amax(0),
    "pools of whole numbers": lambda there: F.max_pool1d(torch.arange(6, device=there).view(1, 1, 6), 2),
    "truth value taken away": lambda there: torch.ones(2, device=there) - True,
    "truth value as a factor": lambda there: torch.add(torch.ones(2, device=there), 1, alpha=True),
    "no values": lambda there: torch.ones(2, device="meta").to(there),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_the_error_of_the_cpu(name):
    with pytest.raises(Exception) as wanted:
        WRONG[name]("cpu")
    with pytest.raises(type(wanted.value)) as got, lazynb.lazy():
        WRONG[name]("jax").cpu()
    assert str(got.value).partition("\n")[0] == str(wanted.value).partition("\n")[0]


def test_a_tensor_that_was_moved_can_be_resized():
    x = torch.zeros(2)
    x.to("jax")
    assert x.resize_(5).shape == (5,)


def test_tensor_split_takes_sections_from_either_device():
    x = torch.arange(6, device="jax")
    for sections in (torch.tensor([1, 4]), torch.tensor([1, 4], device="jax")):
        assert [part.tolist() for part in torch.tensor_split(x, sections)] == [[0], [1, 2, 3], [4, 5]]


def test_out_arguments_are_written_through_reshaped_results():
    x, y = torch.randn(2, 3), torch.randn(3, 2)
    out = torch.zeros(6, 6, device="jax")
    torch.kron(x.to("jax"), y.to("jax"), out=out)
    torch.testing.assert_close(out.cpu(), torch.kron(x, y))
    out = torch.zeros(2, 2, device="jax")
    torch.matmul(x.repeat(2, 1, 1).to("jax"), y[:, 0].to("jax"), out=out)
    torch.testing.assert_close(out.cpu(), x.repeat(2, 1, 1) @ y[:, 0])
    rank = torch.zeros((), dtype=torch.int64, device="jax")
    assert torch.linalg.matrix_rank(x.to("jax"), out=rank).item() == rank.item() == 2
    parts = [torch.zeros(3, device="jax") for _ in range(2)]
    torch.unbind_copy(x.to("jax"), 0, out=parts)
    torch.testing.assert_close(torch.stack(parts).cpu(), x)
