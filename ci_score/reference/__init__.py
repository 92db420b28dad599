"""The reference model, frozen: tests hold every bit of its numbers and byte of its markdown."""
