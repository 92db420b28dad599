"""One launch of a side: its process from start to end, and what it measured.

A script says itself how long its steps took, or the start-up hook in `measure/hook` counts them.
"""
