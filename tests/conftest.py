"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# Timing belongs into benchmarks: a slow machine must not fail a test.
settings.register_profile("suite", deadline=None, max_examples=60)
# Half a minute of damaged files, other ones each time: `.ci/run` asks for it.
settings.register_profile(
    "long", settings.get_profile("suite"), max_examples=400, derandomize=False
)
settings.load_profile("suite")
