"""Graphs that replay what was captured, without any Python."""

_capturing = False


def is_current_stream_capturing():
    return _capturing


class CUDAGraph:
    """Replays nothing."""

    def replay(self):
        pass


class graph:
    """While it is open, work is captured."""

    def __init__(self, cuda_graph):
        pass

    def __enter__(self):
        global _capturing
        _capturing = True

    def __exit__(self, *error):
        global _capturing
        _capturing = False
