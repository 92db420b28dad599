import torch
from tiny import batch, model, own

generator, critic = model(64), torch.nn.Linear(64, 1)
opt_g = torch.optim.AdamW(generator.parameters())
opt_c = torch.optim.AdamW(critic.parameters())
for _ in range(40):
    for _ in range(3):
        opt_c.zero_grad()
        (critic(generator(batch()).detach()).mean() - critic(batch()).mean()).backward()
        opt_c.step()
    opt_g.zero_grad()
    (-critic(generator(batch())).mean()).backward()
    opt_g.step()
    own()
