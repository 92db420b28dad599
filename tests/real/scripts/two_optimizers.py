import torch
from tiny import loss_of, model, own

net = model()
first = torch.optim.SGD(net[0].parameters(), lr=0.1)
last = torch.optim.AdamW(net[2].parameters())
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    for opt in (first, last):
        opt.step()
        opt.zero_grad()
    own(loss)
