"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# Timing belongs into benchmarks: a slow machine must not fail a test.
settings.register_profile("suite", deadline=None, max_examples=60)
settings.load_profile("suite")
