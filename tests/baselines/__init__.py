"""Tests of the room baselines."""
