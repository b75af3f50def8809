"""What training code asks of a device: pinned memory, other dtypes, autocast."""

from __future__ import annotations

import pytest
import torch

import lazynb


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def test_a_data_loader_pins_memory_also_for_code_on_the_cpu():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(4, 3))
    batches = [batch for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)]
    assert torch.cat(batches).tolist() == torch.arange(12.0).reshape(4, 3).tolist()
    assert not batches[0].is_pinned()


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.double])
def test_a_model_on_the_device_changes_its_dtype(dtype):
    moved = model().to("jax").to(dtype)
    with lazynb.lazy():
        result = moved(torch.ones(2, 3, device="jax", dtype=dtype))
        result.sum().backward()
    wanted = model().to(dtype)(torch.ones(2, 3, dtype=dtype))
    assert moved[0].weight.dtype == moved[0].weight.grad.dtype == dtype
    torch.testing.assert_close(result.detach().cpu(), wanted.detach(), rtol=2e-2, atol=2e-2)


def test_autocast_lowers_products_and_keeps_parameters_and_gradients():
    moved, x = model().to("jax"), torch.ones(2, 3, device="jax")
    with lazynb.lazy(), torch.autocast("jax", dtype=torch.bfloat16):
        result = moved(x)
        assert result.dtype == torch.bfloat16 and torch.softmax(result, -1).dtype == torch.float32
        with torch.autocast("jax", enabled=False):
            assert moved(x).dtype == torch.float32
        result.float().sum().backward()
        assert moved[0].weight.grad.dtype == torch.float32
    torch.testing.assert_close(
        result.detach().float().cpu(), model()(torch.ones(2, 3)).detach(), rtol=2e-2, atol=2e-2
    )


def test_lists_against_a_number_and_indices_of_a_triangle():
    (got,) = torch._foreach_maximum([torch.tensor([-1.0, 1.0], device="jax")], 0.0)
    assert got.tolist() == [0, 1]
    assert torch.triu_indices(3, 3, 1, device="jax").tolist() == torch.triu_indices(3, 3, 1).tolist()
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4, device="jax"), torch.tensor([3, 2]))
    assert packed.data.shape == (5, 4) and packed.batch_sizes.tolist() == [2, 2, 1]
