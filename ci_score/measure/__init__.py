"""Beside the accelerator: measures, and knows no GitHub.

`Recorder` is all that a training script needs; it imports nothing but the standard library.
"""

from ci_score.measure.recorder import Recorder

__all__ = ["Recorder"]
