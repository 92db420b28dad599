"""Bytes from strangers: strict JSON, archives, limits. Whole files out.

Open: each module is imported by its name.
"""
