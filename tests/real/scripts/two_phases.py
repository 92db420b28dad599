import torch
from tiny import loss_of, model, own

net = model()
for kind, steps in ((torch.optim.AdamW, 12), (torch.optim.Adam, 400)):
    opt = kind(net.parameters())
    for _ in range(steps):
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        own(loss)
