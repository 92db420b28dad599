"""The story of a run: from its settings to a published record."""
