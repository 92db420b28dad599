from tiny import loss_of, model

net = model()
for _ in range(10):
    loss_of(net)
