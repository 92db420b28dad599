"""What a launcher of jobs told a process of itself, in variables: its rank, and how many there are.

No other variable of the process is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RANKS = {
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
}
VARIABLES = tuple(variable for variables in _RANKS.values() for variable in variables)


def place_in_job(told: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a Profile that the variables tell, with their sources."""
    fields: dict[str, Any] = {"sources": {}}
    for name, variables in _RANKS.items():
        variable = next((key for key in variables if told.get(key, "").isdecimal()), None)
        value = int(told[variable][:9]) if variable else 0
        if variable and (name == "rank" or value):
            fields[name] = value
            fields["sources"][name] = f"{variable} of the profiled process"
    return fields
