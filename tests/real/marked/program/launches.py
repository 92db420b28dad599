"""Work that no torch call launches, and code of no file: with stand-ins for what is not here."""

import sys
import types

import torch
from torch import nn
from torch.cuda.graphs import CUDAGraph

torch.manual_seed(0)
WORK = torch.rand(9, 1234)


class JITFunction:
    def __getitem__(self, grid):
        return self.run

    def run(self, *args):
        pass


class Graph(CUDAGraph):
    def __new__(cls):
        return object.__new__(cls)

    def __init__(self):
        pass


def cell(text, name):
    return types.FunctionType(compile(text, name, "exec"), globals())


CUDAGraph.replay = lambda self: None
triton = types.ModuleType("triton.runtime.jit")
triton.JITFunction = JITFunction
sys.modules["triton.runtime.jit"] = triton
shell = types.SimpleNamespace(
    compile=types.SimpleNamespace(_filename_map={"/tmp/ipykernel/7.py": 3}),
    user_ns={"__vsc_ipynb_file__": sys.argv[1]} if sys.argv[1:] else {},
)
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
in_cell = cell("def inner():\n    return WORK.cos()\n\ninner()", "/tmp/ipykernel/7.py")
generated = cell("WORK.tan()", "<string>")
kernel, graph = JITFunction(), object.__new__(Graph)


def main():
    weight = nn.Parameter(torch.rand(3))
    opt = torch.optim.SGD([weight])
    for number in range(40):
        opt.zero_grad()
        loss = weight.sum()
        kernel[(1,)](WORK)  # launches a kernel
        graph.replay()  # replays a graph
        in_cell()
        generated()  # runs generated code
        loss.backward()
        opt.step()
        print("own", number, 0.0, loss.item(), flush=True)


main()
