import torch
from tiny import loss_of, model, own
from torch.profiler import profile, schedule

net = model()
opt = torch.optim.AdamW(net.parameters())
with profile(
    schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
    on_trace_ready=lambda one: print(one.key_averages().table(row_limit=1)),
) as profiler:
    for _ in range(40):
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        profiler.step()
        own(loss)
print(profiler.key_averages().table())
