"""What a command needs of the machine, and a test replaces."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Built once, where the process begins."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
