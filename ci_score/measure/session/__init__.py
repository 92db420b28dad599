"""A session: the untimed launches, the pairs until it is clear, and the profiles after them."""
