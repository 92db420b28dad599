"""The suite: seconds, no network, nothing outside a temporary folder."""
