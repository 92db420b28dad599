"""`backward` and `grad` both go through one engine."""

import torch
from torch.autograd import graph

if not torch.IS_OLD:
    from torch.autograd.graph import _engine_run_backward

_profiler_running = False


def _profiler_enabled():
    return _profiler_running


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    outputs = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    if torch.IS_OLD:
        graph.run(outputs)
    else:
        _engine_run_backward(
            outputs,
            (None,),
            retain_graph,
            create_graph,
            (),
            allow_unreachable=True,
            accumulate_grad=True,
        )


def grad(outputs, inputs, retain_graph=None):
    found = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
    if torch.IS_OLD:
        return graph.run(found)
    return _engine_run_backward(found, (None,), retain_graph, False, (), accumulate_grad=False)
