import os

import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters())
for _ in range(6):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    own(loss)
os._exit(0)
