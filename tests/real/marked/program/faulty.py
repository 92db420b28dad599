"""Takes away what marks need, as an older torch or a fault of ours would: at once, or later."""

import sys

import torch
from torch import nn
from torch._C import _profiler
from torch.overrides import _get_current_function_mode_stack, has_torch_function

real = _profiler._RecordFunctionFast
made = 0


def later(name):
    global made
    made += 1
    if made > 5:
        raise ZeroDivisionError("a planted fault")
    return real(name)


if "later" in sys.argv:
    _profiler._RecordFunctionFast = later
else:
    del _profiler._RecordFunctionFast

weight = nn.Parameter(torch.ones(3))
opt = torch.optim.SGD([weight], lr=0.1)
for number in range(40):
    opt.zero_grad()
    loss = (weight.sin() * 2).sum()
    loss.backward()
    opt.step()
    print("own", number, 0.0, loss.item(), flush=True)
    seen = has_torch_function((weight,)), len(_get_current_function_mode_stack())
    print("case", loss.item().hex(), seen if number > 2 else "")
