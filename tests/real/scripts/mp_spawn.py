import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tiny import loss_of, model, own


def train(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    net = torch.nn.parallel.DistributedDataParallel(model())
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(40):
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if rank == 0:
            own(loss)


if __name__ == "__main__":
    mp.spawn(train, (os.path.join(tempfile.mkdtemp(), "store"),), nprocs=2)
    print("evaluating", flush=True)
    time.sleep(30)
