"""The values that travel through a run, and the facts they rest on.

Open: each module is imported by its name.
"""
