import threading

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


thread = threading.Thread(target=train)
thread.start()
thread.join()
