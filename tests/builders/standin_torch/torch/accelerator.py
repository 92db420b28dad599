"""The device of this machine, whichever it is."""

import torch


def is_available():
    return torch.DEVICE != "cpu"


def current_accelerator(check_available=False):
    return torch.device(torch.DEVICE) if is_available() else None


def device_count():
    return 1 if is_available() else 0


def synchronize(device=None):
    torch.synchronize(device)
