"""The example workflow, run from end to end by act."""
