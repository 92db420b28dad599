import torch
from tiny import loss_of, model, own

torch._dynamo.config.compiled_autograd = True
net = model()
opt = torch.optim.AdamW(net.parameters())


@torch.compile
def train():
    loss = loss_of(net)
    loss.backward()
    return loss


for _ in range(40):
    loss = train()
    opt.step()
    opt.zero_grad()
    own(loss)
