"""Measurement lines and environment.json → the launches of a case, pooled over a run's attempts."""
