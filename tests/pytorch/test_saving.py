"""Models on device ``jax`` are saved, and what a file holds is loaded to it."""

from __future__ import annotations

import pytest
import torch

import lazynb


def values(state):
    return {name: tensor.detach().cpu().float().tolist() for name, tensor in state.items()}


@pytest.fixture
def saved(tmp_path):
    x = torch.arange(12.0).reshape(3, 4)
    state = {
        "x": x,
        "transposed": x.t(),
        "part": x[1:, 2],
        "low": torch.ones(2, dtype=torch.bfloat16),
        "count": torch.tensor(3),
        "empty": torch.empty(0),
        "weight": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(state, tmp_path / "state.pt")
    return tmp_path / "state.pt", state


@pytest.mark.parametrize("where", ["jax", "jax:0", {"cpu": "jax"}], ids=repr)
@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"mmap": True}], ids=repr)
def test_a_state_is_loaded_to_the_device_with_shared_memory(saved, where, options):
    path, state = saved
    loaded = torch.load(path, map_location=where, **options)
    assert {tensor.device.type for tensor in loaded.values()} == {"jax"}
    assert values(loaded) == values(state)
    assert {name: tensor.dtype for name, tensor in loaded.items()} == {n: t.dtype for n, t in state.items()}
    loaded["x"][1, 2] = 100  # they share memory as they did
    assert loaded["transposed"][2, 1] == loaded["part"][0] == 100


def test_a_pending_state_is_saved_and_loaded_to_either_device(saved, tmp_path):
    _, state = saved
    with lazynb.lazy():
        moved = {name: tensor.detach().to("jax") + 1 for name, tensor in state.items()}
        torch.save(moved, tmp_path / "moved.pt")
    there, here = torch.load(tmp_path / "moved.pt"), torch.load(tmp_path / "moved.pt", map_location="cpu")
    assert {t.device.type for t in there.values()} == {"jax"} and {t.device.type for t in here.values()} == {
        "cpu"
    }
    assert values(there) == values(here) == values({name: tensor + 1 for name, tensor in state.items()})


def test_storages_and_data_pointers_show_shared_memory():
    x = torch.arange(12.0, device="jax").reshape(3, 4)
    part, other = x[1:, 2], x.clone()
    assert part.untyped_storage() == x.untyped_storage() != other.untyped_storage()
    assert part.data_ptr() - x.data_ptr() == (4 + 2) * 4 and other.data_ptr() != x.data_ptr()
    assert x.untyped_storage().nbytes() == 48 == len(part.untyped_storage())


def test_safetensors_saves_tensors_and_models_with_tied_parameters(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file({"x": torch.arange(3.0, device="jax")}, tmp_path / "x.safetensors")
    assert safetensors.load_file(tmp_path / "x.safetensors")["x"].tolist() == [0, 1, 2]

    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    wanted = values(model.state_dict())
    model.to("jax")
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
    safetensors.save_model(model, str(tmp_path / "model.safetensors"))
    with torch.no_grad():
        model[0].weight.zero_()
    safetensors.load_model(model, str(tmp_path / "model.safetensors"))
    assert model[0].weight.device.type == "jax" and values(model.state_dict()) == wanted


def test_files_of_safetensors_are_read_to_the_device(tmp_path):
    import safetensors
    import safetensors.torch

    kept = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2).bfloat16(), "c": torch.tensor(3)}
    path = tmp_path / "kept.safetensors"
    safetensors.torch.save_file(kept, path)
    for found in (safetensors.torch.load_file(path, device="jax"), safetensors.torch.load_file(path)):
        for name, x in kept.items():
            torch.testing.assert_close(found[name].cpu(), x)
    with safetensors.safe_open(path, "pt", device="jax:0") as file:
        assert sorted(file.keys()) == ["a", "b", "c"] and file.get_slice("a").get_shape() == [2, 3]
        assert file.get_tensor("a").device.type == "jax"
        assert file.get_slice("a")[:, 1:].tolist() == [[1, 2], [4, 5]]
    module = torch.nn.Linear(2, 3)
    safetensors.torch.save_model(module, str(path))
    copied = torch.nn.Linear(2, 3).to("jax")
    safetensors.torch.load_model(copied, path, device="jax")
    assert torch.equal(copied.weight.cpu(), module.weight)
