"""Mixed precision."""

import torch

if not torch.IS_OLD:
    from torch.amp.grad_scaler import GradScaler
