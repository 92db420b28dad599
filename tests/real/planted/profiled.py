"""Runs a training script and leaves what a launch of `ci-score ab` does: its times, or a trace.

`python profiled.py times OUT SCRIPT …` appends a measurement line, `… trace OUT SCRIPT …` writes a
trace of three steps behind a warm-up of five. A step ends when an optimizer has made its own.
"""

import json
import runpy
import sys
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile, schedule

WARM_UP, TIMED, TRACED = 5, 20, 3


class _Timer:
    def __init__(self, out):
        self.out, self.ends = out, []

    def __call__(self, *_):
        self.ends.append(time.perf_counter())
        if len(self.ends) > WARM_UP + TIMED:
            pairs = zip(self.ends, self.ends[1:])
            times = [1000 * (end - begin) for begin, end in pairs]
            line = {
                "schema": 1,
                "step_ms": times,
                "warmup_steps": WARM_UP,
                "versions": {"torch": torch.__version__},
            }
            with open(self.out, "a") as stream:
                stream.write(json.dumps(line) + "\n")
            raise SystemExit(0)


class _Profiler:
    def __init__(self, out):
        self.out, self.steps, self.running = out, 0, None

    def __call__(self, *_):
        self.steps += 1
        if self.steps == WARM_UP:
            self.running = profile(
                activities=[ProfilerActivity.CPU],
                record_shapes=True,
                profile_memory=True,
                schedule=schedule(wait=0, warmup=0, active=TRACED),
            )
            self.running.start()
        elif self.running is not None and self.steps < WARM_UP + TRACED:
            self.running.step()
        elif self.running is not None:
            self.running.stop()
            self.running.export_chrome_trace(self.out)
            raise SystemExit(0)


if __name__ == "__main__":
    kind, out, script = sys.argv[1:4]
    sys.argv = sys.argv[3:]
    register_optimizer_step_post_hook({"times": _Timer, "trace": _Profiler}[kind](out))
    runpy.run_path(script, run_name="__main__")
