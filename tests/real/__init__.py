"""Tests with real frameworks, which a Python that CI_SCORE_FRAMEWORKS names has."""
