"""Tests of the room traces."""
