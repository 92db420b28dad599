import torch
from tiny import batch, model, own
from torch._dynamo.utils import counters

net = model()
opt = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


@torch.compile(backend="aot_eager")
def train(x):
    loss = net(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    return loss


for _ in range(40):
    loss = train(batch())
    own(loss)
    print("graphs", counters["stats"]["unique_graphs"], flush=True)
