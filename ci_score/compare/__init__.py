"""What was measured × its baseline → what changed, where the time went and what caused it."""
