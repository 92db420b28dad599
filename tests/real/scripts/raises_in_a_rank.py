"""A rank that fails, and one that then loses its peer."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(3):
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 1:
        raise ValueError("a bad batch")
