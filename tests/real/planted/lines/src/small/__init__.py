"""A package in a `src` layout."""
