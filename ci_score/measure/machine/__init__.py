"""The machine: its accelerators, its load, and the processes that a launch leaves."""
