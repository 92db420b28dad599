import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters())
for _ in range(40):
    for _ in range(4):
        (loss_of(net) / 4).backward()
    opt.step()
    opt.zero_grad()
    own()
