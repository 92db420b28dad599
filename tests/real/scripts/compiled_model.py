import torch
from tiny import loss_of, model, own
from torch._dynamo.utils import counters

net = torch.compile(model(), backend="aot_eager")
opt = torch.optim.AdamW(net.parameters())
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    opt.zero_grad()
    own(loss)
    print("graphs", counters["stats"]["unique_graphs"], counters["frames"]["total"], flush=True)
