import torch
from tiny import model, own

net = model()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(40):
    for parameter in net.parameters():
        parameter.grad = torch.randn_like(parameter)
    opt.step()
    own()
