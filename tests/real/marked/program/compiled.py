"""Compiled code in every form; prints graphs, breaks and results, which marks must not change."""

import threading

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

RANDOM = torch.Generator().manual_seed(0)
torch.manual_seed(0)
WEIGHT = nn.Parameter(torch.rand(8, 8, generator=RANDOM))
CASES = []


def case(function):
    CASES.append(function)
    return function


def compile_(function, **options):
    return torch.compile(function, backend="aot_eager", **options)


def body(x):
    return (x @ WEIGHT).tanh().relu()


class Through(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Through.calls += 1
        return func(*args, **(kwargs or {}))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return body(y)


def raises(x):
    y = body(x)
    torch._dynamo.graph_break()
    if y.shape[0] > 2:
        raise ValueError("as it shall")
    return y


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


whole = compile_(body)
full = compile_(body, fullgraph=True)
with_break = compile_(broken)
failing = compile_(raises)
inner = compile_(lambda x: whole(x) + full(x))
dynamic = compile_(lambda x: body(x).sum(), dynamic=True)
changing = compile_(lambda x: body(x[: x.shape[0]]).sum())
full_cond = compile_(branches, fullgraph=True)
custom = compile_(lambda x: Doubled.apply(body(x)))
encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
compiled_encoder = compile_(encoder)
own_module = nn.Linear(8, 8)
own_module.compile(backend="aot_eager")
flex = compile_(lambda x: flex_attention(x, x, x), fullgraph=True)
per_sample = compile_(torch.func.vmap(torch.func.grad(lambda x: (x.sin() ** 2).sum())))
attention = compile_(lambda x: scaled_dot_product_attention(x, x, x))


@case
def case_model(x):
    return whole(x)  # compiled


@case
def case_fullgraph(x):
    return full(x)  # compiled


@case
def case_break(x):
    return with_break(x)  # compiled


@case
def case_nested(x):
    return inner(x)  # compiled


@case
def case_dynamic(x):
    return dynamic(x)  # compiled


@case
def case_recompiles(x):
    case_recompiles.size = getattr(case_recompiles, "size", 1) + 1
    return changing(x.repeat(case_recompiles.size, 1))  # compiled


@case
def case_cond(x):
    return branches(x)


@case
def case_cond_in_graph(x):
    return full_cond(x)  # compiled


@case
def case_custom(x):
    return custom(x)  # compiled


@case
def case_module(x):
    return compiled_encoder(x[None])  # compiled


@case
def case_own_module(x):
    return own_module(x)  # compiled


@case
def case_flex(x):
    y = x.detach()[None, None]
    return flex_attention(y, y, y) + x


@case
def case_flex_in_graph(x):
    return flex(x.detach()[None, None]) + x  # compiled


@case
def case_vmap(x):
    return per_sample(x)  # compiled


@case
def case_attention(x):
    return attention(x[None])  # compiled


@case
def case_checkpoint(x):
    return checkpoint(whole, x, use_reentrant=False)  # compiled


@case
def case_reentrant(x):
    return checkpoint(whole, x, use_reentrant=True)  # compiled


@case
def case_raises(x):
    try:
        failing(x)  # compiled
    except ValueError as error:
        return x * len(str(error))


@case
def case_own_mode(x):
    with Through():
        return whole(x)  # compiled


@case
def case_own_mode_inside(x):
    with Through(), torch.device("cpu"):
        y = whole(x.sin())  # compiled
        Through.calls = 0
        z = y.cos() + torch.ones(8)
        print("seen by the script's own mode", Through.calls)
    return z


@case
def case_thread(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(whole(x)))
    thread.start()
    thread.join()
    return found[0]


def main():
    torch.manual_seed(0)
    opt = torch.optim.SGD([WEIGHT], lr=0.01)
    decay = nn.Parameter(torch.ones(8))
    other = torch.optim.Adam([decay])
    step_of_other = compile_(other.step)
    for number in range(40):
        opt.zero_grad()
        generator = torch.Generator().manual_seed(number)
        losses = []
        for one in CASES:
            counters.clear()
            x = torch.rand(8, 8, generator=generator, requires_grad=True)
            loss = one(x).mean()
            loss.backward()
            found = [
                (name, sorted(counters[name].items()))
                for name in sorted(counters)
                if name in ("stats", "frames", "graph_break")
            ]
            modes = [type(mode).__name__ for mode in _get_current_function_mode_stack()]
            modes = [name for name in modes if name != "LineMode"]
            print("case", one.__name__, loss.item().hex(), found, modes, x.grad.sum().item().hex())
            losses.append(loss.item())
        counters.clear()
        decay.grad = torch.ones(8)
        step_of_other()  # compiled
        print("case other.step", dict(counters["stats"]), decay.sum().item().hex())
        opt.step()
        print("own", number, 0.0, sum(losses), flush=True)


main()
