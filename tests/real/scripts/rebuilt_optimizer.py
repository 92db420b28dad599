import torch
from tiny import loss_of, model, own

net = model()
for _ in range(60):
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(10):
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        own(loss)
