"""Files of a profiler → one Profile of a training step."""
