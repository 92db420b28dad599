"""The harness: some steps of whichever side's model, timed without a profiler."""

from __future__ import annotations

from contextlib import nullcontext

from model import TOKENS, Model

from ci_score.measure import Recorder

WARMUP, TIMED = 3, 30

model = Model()
with Recorder(tokens_per_step=TOKENS, warmup_steps=WARMUP) as recorder:
    for _ in range(WARMUP + TIMED):
        with recorder.step():
            loss = model.step(lambda *_names: nullcontext())
    recorder.loss(loss)
