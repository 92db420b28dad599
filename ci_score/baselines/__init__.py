"""Where a baseline comes from."""
