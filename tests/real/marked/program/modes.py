"""What notices a mode that is on; prints results and modes, which marks must not change."""

import os
import sys
import threading

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, has_torch_function
from torch.utils._python_dispatch import TorchDispatchMode

if "default_device" in sys.argv:
    torch.set_default_device("cpu")


class Through(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Through.calls += 1
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Dispatched.calls += 1
        return func(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    pass


def modes():
    found = [type(mode).__name__ for mode in _get_current_function_mode_stack()]
    return [name for name in found if name != "LineMode"]


def in_thread(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(x.exp().sum() + torch.ones(1)))
    thread.start()
    thread.join()
    return found[0].item()


def in_child(x):
    """A child that is forked in the middle of a step; its answer comes by its exit code."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        is_plain = not _get_current_function_mode_stack() or modes()
        os._exit(7 if is_plain and float(x.new_ones(3).sum()) == 3.0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def inference(encoder, attention, x):
    """Both have kernels of their own, which they leave where a torch function is overridden."""
    with torch.inference_mode():
        return (encoder(x).sum() + attention(x, x, x, need_weights=False)[0].sum()).item()


def fails(x):
    try:
        x @ torch.ones(99, 99)
    except RuntimeError as error:
        return str(error)[:40]


@torch.library.custom_op("planted::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


torch.manual_seed(0)
scripted = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
per_sample = torch.func.vmap(torch.func.grad(lambda x: (x.sin() ** 2).sum()))


def step(model, x):
    with torch.autograd.profiler.record_function("a range of the script's own"):
        loss = model(x).pow(2).mean()
    loss.backward()
    with Dispatched():
        y = x.cos() + torch.ones(8)
    counted, Dispatched.calls = Dispatched.calls, 0
    with Through(), torch.device("meta"):
        Through.calls = 0
        where = torch.empty(3).device.type, torch.empty_like(x).device.type
    print(
        "case", loss.item().hex(), y.sum().item().hex(), counted, where, Through.calls,
        in_thread(x), in_child(x), fails(x),
        type(x.as_subclass(Sub).sin()).__name__, triple(x).sum().item(),
        scripted(x).sum().item(), per_sample(x).sum().item(),
        torch.autograd.grad(x.requires_grad_().sin().sum(), x)[0].sum().item(), modes(),
        [parameter.grad.sum().item().hex() for parameter in model.parameters()],
    )  # fmt: skip
    return loss


def main():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2
    ).eval()
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    opt = torch.optim.AdamW(model.parameters())
    for number in range(40):
        opt.zero_grad()
        # Entered before the profiler starts, and left in the steps that it sees.
        with torch.device("cpu"), Through():
            loss = step(model, torch.rand(4, 8))
            opt.step()
            seen = modes()
        x = torch.rand(4, 2, 8)
        questions = has_torch_function((x,)), has_torch_function((x.as_subclass(Sub),))
        print("own", number, 0.0, loss.item(), flush=True)
        print("case", seen, modes(), inference(encoder, attention, x), questions)


main()
