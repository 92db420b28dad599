"""The callbacks in the real Trainer and the real Lightning, by a clock that the scripts turn."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci_score.launches.lines import Launch, read_launches
from tests.builders import PROJECT

FRAMEWORKS = os.environ.get("CI_SCORE_FRAMEWORKS", "")
pytestmark = pytest.mark.skipif(
    not FRAMEWORKS, reason="CI_SCORE_FRAMEWORKS names no Python with transformers and Lightning"
)

# A batch takes 10 ms, an item of the data 1 ms, and what is no step a whole second.
COMMON = """
import sys
import torch
from ci_score.measure import recorder

NOW = 0
def passes(milliseconds):
    global NOW
    NOW += milliseconds * 1_000_000
recorder.perf_counter_ns = lambda: NOW

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        passes(1)
        return {"x": torch.full((4,), float(index)), "labels": torch.tensor([1.0])}
"""
TRAINER = """
from transformers import Trainer, TrainerCallback, TrainingArguments
from ci_score.measure.callbacks import trainer_callback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, labels):
        passes(10 if self.training else 1000)
        return {"loss": ((self.layer(x) - labels) ** 2).mean()}

class Saves(TrainerCallback):
    def on_save(self, *given, **more):
        passes(1000)

arguments = TrainingArguments(
    output_dir="out", max_steps=6, gradient_accumulation_steps=2, per_device_train_batch_size=2,
    eval_strategy="steps", eval_steps=2, save_steps=3, logging_steps=1, report_to=[],
    learning_rate=1e-6, disable_tqdm=True, use_cpu=True,
)
callback = trainer_callback(case="tiny", tokens_per_step=64, warmup_steps=1)
trainer = Trainer(Model(), arguments, train_dataset=Items(), eval_dataset=Items(),
                  callbacks=[Saves(), callback])
trainer.train()
# What a script trains later is another job: it is not measured.
trainer.train()
assert trainer.state.global_step == 6
"""
LIGHTNING = """
import {package} as pl
from ci_score.measure.callbacks import lightning_callback

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, number):
        passes(10)
        return ((self.layer(batch["x"]) - batch["labels"]) ** 2).mean()
    def validation_step(self, batch, number):
        passes(1000)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)
    def on_save_checkpoint(self, checkpoint):
        passes(1000)

saves = pl.callbacks.ModelCheckpoint(every_n_train_steps=2)
trainer = pl.Trainer(max_steps=6, accumulate_grad_batches=2, val_check_interval=3, logger=False,
                     callbacks=[saves, lightning_callback(warmup_steps=1)], accelerator="cpu",
                     enable_progress_bar=False, enable_model_summary=False)
load = lambda: torch.utils.data.DataLoader(Items(), batch_size=2)
trainer.fit(Model(), load(), load())
assert trainer.global_step == 6
"""


def measured(script: str, folder: Path) -> Launch:
    """The one line that the script wrote."""
    (folder / "train.py").write_text(COMMON + script, encoding="utf-8")
    done = subprocess.run(
        [FRAMEWORKS, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (launch,) = read_launches((folder / "measurements.jsonl").read_bytes(), "x")
    return launch


def test_trainer__a_step_is_an_optimizer_step_without_what_comes_between_two(
    tmp_path: Path,
) -> None:
    """Two batches and their items, no evaluation or checkpoint; the loader is one batch ahead."""
    launch = measured(TRAINER, tmp_path)
    assert launch.step_ms == (26.0, 24.0, 24.0, 24.0, 24.0, 22.0)
    assert (launch.case, launch.tokens_per_step, launch.warmup_steps) == ("tiny", 64.0, 1)
    assert launch.final_loss is not None
    assert {"torch", "transformers"} <= launch.versions.keys()


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning__a_step_is_as_many_batches_as_are_accumulated(
    tmp_path: Path, package: str
) -> None:
    """Also where a validation comes between two; without the loading that follows a checkpoint."""
    launch = measured(LIGHTNING.replace("{package}", package), tmp_path)
    assert launch.step_ms == (24.0, 24.0, 22.0, 24.0, 22.0, 24.0)
    assert launch.final_loss is not None
