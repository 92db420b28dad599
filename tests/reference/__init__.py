"""Tests of the room reference."""
