"""Lightning's Trainer finds device ``jax``."""

from __future__ import annotations

import pytest
import torch

import lazynb

lightning = pytest.importorskip("lightning")


class Line(lightning.LightningModule):
    """A linear model that remembers where its batches lay."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(3, 1)
        self.devices = set()

    def training_step(self, batch, index):
        inputs, targets = batch
        self.devices.add(inputs.device.type)
        return (self.line(inputs) - targets).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


def trained(folder, **options):
    numbers = torch.arange(32.0).reshape(8, 4) / 32
    data = torch.utils.data.TensorDataset(numbers[:, :3], numbers[:, 3:])
    model = Line()
    quiet = dict.fromkeys(
        ("enable_progress_bar", "logger", "enable_checkpointing", "enable_model_summary"), False
    )
    trainer = lightning.Trainer(max_epochs=2, default_root_dir=folder, **quiet, **options)
    trainer.fit(model, torch.utils.data.DataLoader(data, 4, pin_memory=True))
    return model


@pytest.mark.parametrize("options", [{}, {"accelerator": "auto", "devices": 1}, {"accelerator": "jax"}])
def test_the_trainer_trains_on_device_jax_with_the_parameters_of_the_cpu(options, tmp_path):
    wanted = trained(tmp_path, accelerator="cpu")
    with lazynb.lazy():
        got = trained(tmp_path, **options)
    assert got.devices == {"jax"} and wanted.devices == {"cpu"}
    for a, b in zip(got.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach())
