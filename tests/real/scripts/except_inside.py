import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters())
for _ in range(10**9):
    try:
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        own(loss)
    except:
        print("caught", flush=True)
