"""What an annotation is called as a phase: alike in each run, whatever a framework adds to it."""

from __future__ import annotations

import re

# What PyTorch annotates by itself, by what everybody calls it.
_PHASES_OF_PYTORCH = (
    ("optimizer", re.compile(r"Optimizer\.step#")),
    ("zero_grad", re.compile(r"Optimizer\.zero_grad#")),
    ("data_loading", re.compile(r"enumerate\(DataLoader\)")),
    ("forward", re.compile(r"(Distributed|FullySharded)DataParallel\.forward$")),
)
# The key of a compiled graph in the compiler's cache: `f` and a hash in base 32.
_GRAPH_HASH = re.compile(r"(Call CompiledFxGraph)\s+(?:f[a-z2-7]{10,}|None)(?:…|\.\.\.)?$")


def phase_name(name: str) -> str:
    """`## forward ##` is `forward`, and so is what PyTorch calls `DistributedDataParallel.forward`.

    Whose step of the optimizer it is tells the optimizer's name, and not what the phase is. The
    hash of a compiled graph changes with the code, so that base and change would have no phase in
    common.
    """
    for phase, pattern in _PHASES_OF_PYTORCH:
        if pattern.match(name):
            return phase
    # `## forward ##`, as `record_function` is often called.
    bare = (name.strip("#").strip() if name.startswith("#") else name) or name
    return _GRAPH_HASH.sub(r"\1", bare)
