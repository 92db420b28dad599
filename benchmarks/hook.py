"""What `make bench-hook` prints: the start-up hook's own time a step, over 10,000 of them.

A step is one backward pass and one optimizer's step. Their time with the hook minus their time
without it is the hook's: on the host, on the path of a device (only the stand-in for torch has
one), and with the real torch where `CI_SCORE_FRAMEWORKS` names a Python that has it. With `--short`
the real one is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import show
from tests.builders.hooked import HOOK, Asked
from tests.builders.standin_torch import FOLDER as STANDIN

CALLS = 10_000
WANTED = 25.0
SCRIPT = f"""
import time, torch
from torch import optim
from torch.autograd import graph
from torch.optim import optimizer

parameter = torch.tensor([0.0], requires_grad=True) if {{real}} else torch.tensor(0.0, True)
opt = optim.AdamW([parameter])
(hook,) = optimizer._global_optimizer_post_hooks.values()
watched = graph._engine_run_backward
engine = watched.__wrapped__
# The engine without any work: what is left of a call is ours.
watched.__closure__[[cell.cell_contents is engine for cell in watched.__closure__].index(True)
    ].cell_contents = empty = lambda *args, **kwargs: ()
for _ in range(100):
    watched(()); hook(opt, (), {{{{}}}})
begin = time.perf_counter()
for _ in range({CALLS}):
    watched((), accumulate_grad=True); hook(opt, (), {{{{}}}})
middle = time.perf_counter()
for _ in range({CALLS}):
    empty((), accumulate_grad=True)
end = time.perf_counter()
print(((middle - begin) - (end - middle)) / {CALLS} * 1e6, flush=True)
"""


def microseconds(python: str | Path, *imports: Path, real: bool = False, device: str = "") -> float:
    """Of one step."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, [HOOK, *imports])),
            "CI_SCORE_HOOK": Asked("settle", 10 * CALLS).variable(Path(folder)),
            "OMP_NUM_THREADS": "1",
            **({"STANDIN_TORCH_DEVICE": device} if device else {}),
        }
        words = [str(python), "-c", SCRIPT.format(real=real)]
        done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def main() -> None:
    """Prints every way that it can be measured here."""
    host = microseconds(sys.executable, STANDIN)
    show("the hook's own time a step, with a stand-in for torch", host, WANTED, "µs")
    device = microseconds(sys.executable, STANDIN, device="cuda")
    show("the same with a stand-in for a device's events", device, WANTED, "µs")
    real = os.environ.get("CI_SCORE_FRAMEWORKS")
    if real and "--short" not in sys.argv:
        show("the same with the real torch", microseconds(real, real=True), WANTED, "µs")
    elif not real:
        print("not measured: the real torch (CI_SCORE_FRAMEWORKS names no Python with it)")


if __name__ == "__main__":
    main()
