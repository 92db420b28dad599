import torch
from tiny import loss_of, model, own
from torch._dynamo.utils import counters

net = model()
opt = torch.optim.AdamW(net.parameters())
step = torch.compile(opt.step, backend="aot_eager")
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    step()
    opt.zero_grad()
    own(loss)
    print("graphs", counters["stats"]["unique_graphs"], counters["frames"]["total"], flush=True)
