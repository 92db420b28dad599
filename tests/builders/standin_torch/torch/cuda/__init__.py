"""CUDA, if `STANDIN_TORCH_DEVICE` says so."""

import torch
from torch import Event
from torch.cuda.graphs import CUDAGraph, graph, is_current_stream_capturing


def is_available():
    return torch.DEVICE == "cuda"


is_initialized = is_available


def device_count():
    return 1 if is_available() else 0


def current_device():
    return 0


def current_stream(device=None):
    return None


def synchronize(device=None):
    torch.synchronize(device)


def max_memory_allocated(device=None):
    return 123_000_000 if is_available() else 0
