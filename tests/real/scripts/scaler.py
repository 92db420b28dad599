import sys

import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters(), fused="fused" in sys.argv)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(40):
    loss = loss_of(net)
    scaled = scaler.scale(loss)
    if step % 2:
        net[0].weight.register_hook(lambda grad: grad * float("inf") if grad is not None else grad)
    scaled.backward()
    if step % 2:
        net[0].weight._backward_hooks.clear()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    own(loss)
