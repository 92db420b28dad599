"""What is trained, as a policy's `[model]` table says it: the work of a token is for MFU."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ci_score.model.values import Value

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4"]


class Table(Value):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Model(Table):
    """What is trained: MFU needs the work of a token."""

    parameters: Annotated[
        float | None, Field(gt=0, description="All parameters: 6 FLOPs for each and token.")
    ] = None
    active_parameters: Annotated[
        float | None, Field(gt=0, description="Those that a token meets, in a mixture of experts.")
    ] = None
    layers: Annotated[
        int | None,
        Field(ge=1, description="With `hidden` and `sequence`: adds the work of attention."),
    ] = None
    hidden: Annotated[int | None, Field(ge=1, description="The model's width.")] = None
    sequence: Annotated[int | None, Field(ge=1, description="Tokens in a sequence.")] = None
    precision: Annotated[
        Precision | None, Field(description="Which of the accelerator's peaks MFU is a share of.")
    ] = None
    flops_per_token: Annotated[
        float | None,
        Field(gt=0, description="The work of a token, instead of what follows from the rest."),
    ] = None
    recomputed_flops_per_token: Annotated[
        float | None,
        Field(gt=0, description="The same with recomputed activations, for HFU."),
    ] = None
