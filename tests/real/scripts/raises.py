import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters())
for step in range(40):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    own(loss)
    if step == 2:
        raise RuntimeError("out of data")
