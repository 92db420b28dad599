import sys

import lightning
import torch
from tiny import loss_of, model, own
from torch.utils.data import DataLoader


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = model()
        self.automatic_optimization = "manual" not in sys.argv

    def training_step(self, x, index):
        loss = loss_of(self.net, x)
        if not self.automatic_optimization:
            opt = self.optimizers()
            opt.zero_grad()
            self.manual_backward(loss)
            opt.step()
        return loss

    def on_train_batch_end(self, *args):
        if self.global_rank == 0:
            own()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    strategy = next((one for one in ("ddp", "ddp_spawn") if one in sys.argv), "auto")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1 if strategy == "auto" else 2,
        strategy=strategy,
        max_steps=40,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(torch.randn(512, 64), batch_size=4))
