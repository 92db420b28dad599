"""Tests of the room github."""
