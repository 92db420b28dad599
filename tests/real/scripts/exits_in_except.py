import sys

import torch
import torch.distributed as dist
from tiny import loss_of, model, own

dist.init_process_group("gloo")
try:
    net = torch.nn.parallel.DistributedDataParallel(model())
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(40):
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if dist.get_rank() == 0:
            own(loss)
except BaseException:
    sys.exit(1)
