"""What training code asks of a device: pinned memory, other dtypes, autocast, generators, DLPack, CTC."""

from __future__ import annotations

import pickle

import numpy as np
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


def test_foreach_maximum_triu_indices_and_packed_sequences_equal_the_cpu():
    (got,) = torch._foreach_maximum([torch.tensor([-1.0, 1.0], device="jax")], 0.0)
    assert got.tolist() == [0, 1]
    assert torch.triu_indices(3, 3, 1, device="jax").tolist() == torch.triu_indices(3, 3, 1).tolist()
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4, device="jax"), torch.tensor([3, 2]))
    assert packed.data.shape == (5, 4) and packed.batch_sizes.tolist() == [2, 2, 1]


def test_a_generator_for_the_device_reproduces_its_numbers():
    def numbers(generator):
        shape, given = (3,), {"device": "jax", "generator": generator}
        return torch.stack([torch.randn(shape, **given), torch.rand(shape, **given)]).tolist()

    generator = torch.Generator(device="jax").manual_seed(3)
    assert generator.device.type == "jax" and generator.initial_seed() == 3
    state, first = generator.get_state(), numbers(generator)
    other = generator.clone_state()
    assert numbers(generator) == numbers(other) != first
    for again in (generator.set_state(state), torch.Generator("jax:0").manual_seed(3)):
        assert numbers(pickle.loads(pickle.dumps(again))) == first
    plain = torch.Generator()
    assert plain.device.type == "cpu" and isinstance(plain, torch.Generator)
    assert pickle.loads(pickle.dumps(plain)).initial_seed() == plain.initial_seed()


def test_dlpack_exports_a_copy_on_the_cpu():
    with lazynb.lazy():
        x = torch.arange(3.0, device="jax") * 2
        there = torch.from_dlpack(x)
        there.add_(1)
        assert x.tolist() == [0, 2, 4] and there.tolist() == [1, 3, 5]
        assert np.from_dlpack(x > 0).tolist() == [False, True, True]
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(x.requires_grad_())
    with pytest.raises(BufferError, match="as a copy"):
        x.detach().__dlpack__(copy=False)


LENGTHS = torch.tensor([6, 5]), torch.tensor([3, 2])
CTC = {
    "on the CPU": (*LENGTHS, {}),
    "int32": (LENGTHS[0].int(), LENGTHS[1].int(), {"reduction": "sum"}),
    "lists": ((6, 5), (3, 2), {"reduction": "none", "blank": 4}),
    "no path": (torch.tensor([6, 2]), LENGTHS[1], {"reduction": "none"}),
    "no path, as zero": (torch.tensor([6, 2]), LENGTHS[1], {"zero_infinity": True}),
    "no labels": (LENGTHS[0], torch.tensor([3, 0]), {}),
    "too many steps": (torch.tensor([7, 5]), LENGTHS[1], {}),
    "too many labels": (LENGTHS[0], torch.tensor([4, 2]), {}),
    "another batch": (torch.tensor([6]), LENGTHS[1], {}),
}


@pytest.mark.parametrize(
    ("name", "lengths_at"),
    [*[(name, "cpu") for name in CTC], ("no labels", "jax"), ("too many steps", "jax")],
)
def test_ctc_loss_equals_the_cpu_with_lengths_on_either_device(name, lengths_at):
    given, wanted, options = CTC[name]
    scores = torch.randn(6, 2, 5, generator=torch.Generator().manual_seed(0))

    def program(d, *lengths):
        x = scores.to(d).detach().requires_grad_()
        targets = torch.tensor([[1, 2, 3], [2, 2, 0]], device=d)
        loss = torch.nn.functional.ctc_loss(x.log_softmax(-1), targets, *lengths, **options)
        loss.sum().backward()
        return loss.detach().cpu(), x.grad.cpu()

    def outcome(d, *lengths):
        try:
            return program(d, *lengths)
        except RuntimeError as error:
            return str(error).split("\n")[0]

    expected = outcome("cpu", given, wanted)
    moved = [x.to(lengths_at) if isinstance(x, torch.Tensor) else x for x in (given, wanted)]
    with lazynb.lazy():
        found = outcome("jax", *moved)
    if isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected, equal_nan=True)
