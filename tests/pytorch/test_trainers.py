"""Tools that train: they find device ``jax`` by themselves, and come to what they come to on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch

import lazynb


def test_the_accelerator_tells_its_memory_and_synchronizes():
    accelerator = torch.accelerator
    with lazynb.lazy():
        kept = torch.ones(1000, device="jax") * 2
        accelerator.synchronize()
        assert len(lazynb.events()) == 1
    assert accelerator.memory_allocated() >= 4000
    assert accelerator.max_memory_allocated() >= accelerator.memory_reserved() // 2 > 0
    free, total = accelerator.get_memory_info()
    assert 0 < free < total
    accelerator.empty_cache()
    accelerator.reset_peak_memory_stats()
    assert kept.sum().item() == 2000


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, 0.1, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.1, amsgrad=True, maximize=True, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_fused_step_is_part_of_the_program(name):
    torch.manual_seed(0)
    plain = torch.nn.Linear(3, 2)
    lazy, x = copy.deepcopy(plain).to("jax"), torch.randn(4, 3)
    for module, given in ((plain, x), (lazy, x.to("jax"))):
        optimizer = OPTIMIZERS[name](module.parameters())
        with lazynb.lazy():
            for _ in range(3):
                optimizer.zero_grad()
                module(given).square().sum().backward()
                optimizer.step()
            assert not lazynb.breaks()
    for a, b in zip(lazy.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)


def batches(**options):
    x = torch.arange(24.0).reshape(8, 3) / 24
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1)), batch_size=4, **options)


def test_a_data_loader_with_workers_and_pinned_memory_gives_all_batches():
    with lazynb.lazy():
        found = [x.to("jax", non_blocking=True) for x, _ in batches(num_workers=1, pin_memory=True)]
        assert torch.cat(found).tolist() == torch.cat([x for x, _ in batches()]).tolist()


@pytest.mark.parametrize("largest", [1.0, torch.inf])
def test_gradients_that_were_scaled_are_unscaled_in_the_program(largest):
    def run(device):
        x = torch.tensor([0.5, largest], device=device).requires_grad_()
        optimizer = torch.optim.SGD([x], 0.1)
        scaler = torch.amp.GradScaler(device)
        scaler.scale((x * x).sum()).backward()
        scaler.unscale_(optimizer)
        unscaled = not lazynb.breaks()
        scaler.step(optimizer)
        scaler.update()
        return unscaled, x.detach().cpu(), x.grad.cpu(), scaler.get_scale()

    with lazynb.lazy():
        got = run("jax")
    wanted = run("cpu")
    assert got[0] and got[3] == wanted[3]
    torch.testing.assert_close(got[1:3], wanted[1:3])


@pytest.fixture
def accelerate():
    """The package, which decides upon a device once in a process."""
    package = pytest.importorskip("accelerate")
    package.state.AcceleratorState._reset_state(True)
    yield package
    package.state.AcceleratorState._reset_state(True)


def test_accelerate_trains_on_the_device(accelerate):
    accelerator = accelerate.Accelerator()
    assert accelerator.device.type == "jax"
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, batches())
    losses = []
    with lazynb.lazy():
        for _ in range(3):
            for x, y in loader:
                assert x.device.type == "jax"
                loss = (model(x).squeeze(-1) - y).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    torch.manual_seed(0)
    plain = torch.nn.Linear(3, 1)
    own = torch.optim.SGD(plain.parameters(), 0.1)
    wanted = []
    for _ in range(3):
        for x, y in batches():
            loss = (plain(x).squeeze(-1) - y).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            own.step()
            own.zero_grad()
            wanted.append(loss.item())
    assert losses == pytest.approx(wanted, rel=1e-4)


def test_the_trainer_of_transformers_trains_on_the_device(accelerate, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "resid_pdrop": 0, "embd_pdrop": 0}
    config = transformers.GPT2Config(
        vocab_size=50, bos_token_id=0, eos_token_id=0, attn_pdrop=0, **sizes, loss_type="ForCausalLM"
    )
    data = [{"input_ids": ids, "labels": ids} for ids in torch.randint(1, 50, (8, 6))]

    def losses(use_cpu):
        accelerate.state.AcceleratorState._reset_state(True)
        torch.manual_seed(0)
        options = {"learning_rate": 1e-2, "logging_steps": 1, "torch_empty_cache_steps": 1, "report_to": []}
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=4,
            max_steps=3,
            use_cpu=use_cpu,
            disable_tqdm=True,
            save_strategy="no",
            **options,
        )
        model = transformers.GPT2LMHeadModel(config)
        trainer = transformers.Trainer(model, arguments, train_dataset=data)
        with lazynb.lazy():
            trainer.train()
        assert next(model.parameters()).device.type == ("cpu" if use_cpu else "jax")
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    found = losses(False)
    assert "unrecordable" not in {one.kind for one in lazynb.breaks()}
    assert found == pytest.approx(losses(True), rel=1e-3)
