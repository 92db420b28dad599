"""A stand-in for torch: `FOLDER` goes onto PYTHONPATH, and `import torch` finds a small package."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
