"""Each rank's optimizer holds another one, for its own part of the parameters."""

import torch
import torch.distributed as dist
from tiny import loss_of, model, own
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(model())
opt = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    opt.zero_grad()
    if dist.get_rank() == 0:
        own(loss)
