"""Tests of the search for a commit."""
