import torch
from accelerate import Accelerator
from tiny import loss_of, model, own
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net = model()
opt = torch.optim.AdamW(net.parameters())
net, opt, loader = accelerator.prepare(net, opt, DataLoader(torch.randn(320, 64), batch_size=4))
for x in loader:
    with accelerator.accumulate(net):
        accelerator.backward(loss_of(net, x))
        opt.step()
        opt.zero_grad()
    if accelerator.sync_gradients:
        own()
