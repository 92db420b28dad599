"""A stand-in for torch, for suites without it: just as much as the start-up hook touches.

Tensors are plain numbers, a backward pass runs the callbacks that were put on its loss, and an
optimizer subtracts. Where `STANDIN_TORCH_DEVICE` names a device (`cuda`), there is an accelerator
with a queue of work and a clock of its own: `torch.work(ms)` returns at once, events see the queue,
and `torch.synchronized()` counts how often somebody waited for it. No machine of this project has a
GPU, so only this stand-in shows what the hook does on one.

`STANDIN_TORCH_OLD=1` hides what torch 2.0 lacked (`torch.autograd.graph._engine_run_backward`,
`torch._disable_dynamo`, `torch.amp.GradScaler`).
"""

import os
import time

__version__ = "2.13.0+standin"
IS_OLD = os.environ.get("STANDIN_TORCH_OLD") == "1"
DEVICE = os.environ.get("STANDIN_TORCH_DEVICE", "cpu")


class version:
    """What it was built for."""

    cuda = "13.0" if DEVICE == "cuda" else None


class device:
    """Where a tensor lies."""

    def __init__(self, kind, index=None):
        self.type = kind
        self.index = index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """A number that may have a gradient; `size` is how many elements it pretends to have."""

    def __init__(self, value, requires_grad=False, size=1):
        self.value = float(value)
        self.requires_grad = requires_grad
        self.grad = None
        self.size = size
        self.device = device(DEVICE, 0 if DEVICE != "cpu" else None)
        self.in_backward = []  # called by a backward pass of this tensor

    def numel(self):
        return self.size

    def is_complex(self):
        return False

    def detach(self):
        return Tensor(self.value, size=self.size)

    clone = detach

    def item(self):
        synchronize()
        return self.value

    def __float__(self):
        return self.item()

    def __add__(self, other):
        return Tensor(self.value + float(getattr(other, "value", other)))

    __radd__ = __add__

    def __mul__(self, other):
        out = Tensor(self.value * float(getattr(other, "value", other)))
        out.in_backward = list(self.in_backward)
        return out

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self * (1.0 / float(getattr(other, "value", other)))

    def backward(self, retain_graph=None):
        autograd.backward(self, retain_graph=retain_graph)


def tensor(value, requires_grad=False, size=1):
    return Tensor(value, requires_grad, size)


# --- a device with a queue ------------------------------------------------------------------------

_busy_until = 0.0
_waits = 0


def work(ms):
    """Work of that many milliseconds: on a device it is only queued, a CPU does it now."""
    global _busy_until
    if DEVICE == "cpu":
        time.sleep(ms / 1000)
    else:
        _busy_until = max(_busy_until, time.perf_counter()) + ms / 1000


def synchronize(device=None):
    """Waits until the device is idle."""
    global _waits
    if DEVICE != "cpu":
        _waits += 1
        time.sleep(max(0.0, _busy_until - time.perf_counter()))


def synchronized():
    """How often somebody waited for the device."""
    return _waits


class Event:
    """A place in the queue of the device."""

    def __init__(self, device=None, enable_timing=False, blocking=False):
        self._timed = enable_timing
        self._at = None

    def record(self, stream=None):
        self._at = max(_busy_until, time.perf_counter())

    def query(self):
        return self._at is None or time.perf_counter() >= self._at

    def synchronize(self):
        synchronize()

    def elapsed_time(self, later):
        if not (self._timed and later._timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if not later.query():
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (later._at - self._at) * 1000


if not IS_OLD:

    def _disable_dynamo(fn=None, recursive=True):
        return fn if fn is not None else lambda function: function


from torch import autograd
from torch import accelerator, cuda, distributed, optim, profiler
from torch import amp
