import sys

import torch
from tiny import loss_of, model, own
from torch.utils.data import DataLoader

if __name__ == "__main__":
    context = "spawn" if "spawn" in sys.argv else "fork"
    net = model()
    opt = torch.optim.AdamW(net.parameters())
    loader = DataLoader(
        torch.randn(160, 64), batch_size=4, num_workers=2, multiprocessing_context=context
    )
    for x in loader:
        loss = loss_of(net, x)
        loss.backward()
        opt.step()
        opt.zero_grad()
        own(loss)
