"""Unmodified scripts with the real torch, each held against its own count of steps."""
