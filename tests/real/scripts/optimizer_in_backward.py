import torch
from tiny import loss_of, model, own

net = model()
optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in net.parameters()}


def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    own(loss)
