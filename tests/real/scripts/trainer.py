import sys
import tempfile

import torch
from tiny import model, own
from transformers import Trainer, TrainerCallback, TrainingArguments


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = model()

    def forward(self, x, labels=None):
        out = self.net(x)
        return {"loss": (out - x).square().mean(), "logits": out}


class Own(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        own()


data = [{"x": torch.randn(64), "labels": torch.zeros(1)} for _ in range(256)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    max_steps=40,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4 if "accumulate" in sys.argv else 1,
    eval_strategy="steps" if "evaluate" in sys.argv else "no",
    eval_steps=3,
    save_strategy="steps" if "checkpoints" in sys.argv else "no",
    save_steps=3,
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
)
trainer = Trainer(Net(), arguments, train_dataset=data, eval_dataset=data[:16], callbacks=[Own()])
trainer.train()
