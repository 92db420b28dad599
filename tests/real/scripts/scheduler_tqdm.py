import torch
from tiny import loss_of, model, own
from tqdm import tqdm

net = model()
opt = torch.optim.AdamW(net.parameters())
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 40)
for _ in tqdm(range(40)):
    loss = loss_of(net)
    loss.backward()
    opt.step()
    scheduler.step()
    opt.zero_grad()
    own(loss)
