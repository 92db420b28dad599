import torch
import torch.distributed as dist
from tiny import loss_of, model, own
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
net = model()
for layer in (net[0], net[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(net, mesh=mesh)
opt = torch.optim.AdamW(net.parameters())
for _ in range(40):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    opt.zero_grad()
    if dist.get_rank() == 0:
        own(loss)
dist.destroy_process_group()
