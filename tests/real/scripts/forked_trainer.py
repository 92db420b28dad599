import multiprocessing

import torch
from tiny import loss_of, model, own


def train():
    net = model()
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(40):
        loss = loss_of(net)
        loss.backward()
        opt.step()
        opt.zero_grad()
        own(loss)


torch.set_num_threads(1)
process = multiprocessing.get_context("fork").Process(target=train)
process.start()
process.join()
