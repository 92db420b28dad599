import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters())
for _ in range(40):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(net)
    loss.backward()
    opt.step()
    opt.zero_grad()
    own(loss)
