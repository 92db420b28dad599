"""Speed as ratios, measured in one run on this machine; printed, never asserted."""
