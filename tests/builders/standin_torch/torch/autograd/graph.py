"""The engine of a backward pass."""

import torch

if not torch.IS_OLD:

    def _engine_run_backward(outputs, *args, **kwargs):
        return run(outputs)


def run(outputs):
    """Calls back what was put on the outputs, as hooks on gradients would be."""
    for output in outputs:
        for called in output.in_backward:
            called()
    return tuple(torch.Tensor(1.0) for _ in outputs)
