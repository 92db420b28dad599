"""Tests of the room launches."""
