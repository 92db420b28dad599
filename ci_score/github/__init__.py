"""GitHub: HTTP below (`api`), our verbs above; errors are translated at the border."""
