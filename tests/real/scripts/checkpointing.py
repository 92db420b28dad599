import sys

import torch
from tiny import batch, model, own
from torch.utils.checkpoint import checkpoint

net = model()
opt = torch.optim.AdamW(net.parameters())
for _ in range(40):
    x = batch().requires_grad_()
    loss = checkpoint(net, x, use_reentrant="reentrant" in sys.argv).square().mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    own(loss)
