"""A training step in which each line has operators of its own: those behind it, after the `#`."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Custom(torch.autograd.Function):
    """An operator of one's own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.atan(x)  # aten::atan

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * torch.asinh(x)  # aten::asinh


def computed_again(x):
    y = torch.erf(x)  # aten::erf ErfBackward0
    return torch.erfc(y)  # aten::erfc ErfcBackward0


def computed_again_by_hooks(x):
    y = torch.log1p(torch.square(x))  # aten::log1p Log1PBackward0 aten::square
    return torch.expm1(y)  # aten::expm1 Expm1Backward0


class Net(nn.Module):
    """Every way in which a forward pass comes to its operators."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.convolution = nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, x):
        x = self.norm(self.first(x))  # aten::layer_norm NativeLayerNormBackward0 aten::linear
        x = checkpoint(computed_again, x, use_reentrant=True)
        x = checkpoint(computed_again_by_hooks, x, use_reentrant=False)
        x = Custom.apply(x)  # Custom CustomBackward
        x = nn.functional.softplus(x)  # aten::softplus SoftplusBackward0
        x[x > 2] = 0.5  # aten::index_put_ aten::gt IndexPutBackward0
        x = self.convolution(x[:, None])[:, 0]  # aten::conv1d ConvolutionBackward0
        with torch.no_grad():
            shift = torch.floor(x)  # aten::floor
        parts = [torch.tanh(part) for part in x.chunk(2)]  # aten::tanh TanhBackward0 aten::chunk
        return torch.cat(parts).sigmoid_() + shift  # CatBackward0 SigmoidBackward0


def slow(rounds):
    total = 0
    for number in range(rounds):
        total += number
    return total


def main():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(20):
        for _ in range(2):
            x = torch.randn(4, 16)  # aten::randn
            y = net(x)
            slow(30_000)
            loss = nn.functional.huber_loss(y, x)  # aten::huber_loss HuberLossBackward0
            loss.backward()
        weight = torch.sin(net.first.weight).sum()  # aten::sin SinBackward0
        (gradient,) = torch.autograd.grad(weight, net.first.weight, create_graph=True)
        torch.sinh(gradient).sum().backward()  # aten::sinh SinhBackward0
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # aten::clamp
        optimizer.step()  # aten::lerp_ aten::addcdiv_
        optimizer.zero_grad()
        loss.item()


if __name__ == "__main__":
    main()
