import torch
from tiny import loss_of, model, own

net = model()
opt = torch.optim.AdamW(net.parameters())
for _ in range(40):
    loss = loss_of(net)
    for parameter, grad in zip(
        net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True
    ):
        parameter.grad = grad
    opt.step()
    own()
