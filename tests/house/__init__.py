"""Tests of the house itself: its plan, its documents."""
