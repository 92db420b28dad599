"""Mixed precision under its old name."""

from torch.cuda.amp.grad_scaler import GradScaler
