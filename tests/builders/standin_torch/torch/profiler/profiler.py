"""Writes a trace of the host in torch's form, with one operator a step."""

import enum
import json
import time

from torch import autograd


class ProfilerAction(enum.Enum):
    """What it does in a step."""

    NONE = 0
    RECORD = 2


def supported_activities():
    return {"cpu"}


class profile:
    """Marks steps where a schedule was given."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None,
                 record_shapes=False, profile_memory=False, with_stack=False):  # fmt: skip
        self._marks = schedule is not None
        self._step = 0
        self._began = 0.0
        self._events = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self):
        if autograd._profiler_running:
            raise RuntimeError("Profiler is already enabled on this thread")
        autograd._profiler_running = True
        self._began = time.perf_counter() * 1e6

    def _close(self):
        now = time.perf_counter() * 1e6
        if self._marks:
            self._add("ProfilerStep#" + str(self._step), "user_annotation", now)
        self._add("aten::mm", "cpu_op", now)
        self._began = now

    def _add(self, name, category, now):
        self._events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1,
             "ts": self._began, "dur": now - self._began, "args": {}}
        )  # fmt: skip

    def step(self):
        self._close()
        self._step += 1

    def stop(self):
        self._close()
        autograd._profiler_running = False

    def export_chrome_trace(self, path):
        trace = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": self._events}
        with open(path, "w") as stream:
            json.dump(trace, stream)

    def key_averages(self):
        return self._events
