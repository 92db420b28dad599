"""What is trained, as a policy's `[model]` table says it. MFU needs the work of a token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ci_score.model.values import Value

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4"]


class Table(Value):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Model(Table):
    """What is trained: with it the work of a token is known, which MFU needs."""

    parameters: Annotated[
        float | None, Field(gt=0, description="All parameters: 6 FLOPs per parameter and token.")
    ] = None
    active_parameters: Annotated[
        float | None,
        Field(gt=0, description="The parameters that one token uses, in a mixture of experts."),
    ] = None
    layers: Annotated[
        int | None,
        Field(ge=1, description="With `hidden` and `sequence`: adds the work of attention."),
    ] = None
    hidden: Annotated[int | None, Field(ge=1, description="The model's width.")] = None
    sequence: Annotated[int | None, Field(ge=1, description="Tokens in a sequence.")] = None
    precision: Annotated[
        Precision | None, Field(description="Which peak of the accelerator MFU is a share of.")
    ] = None
    flops_per_token: Annotated[
        float | None,
        Field(
            gt=0,
            description="The work of a token, instead of the number that follows from the other"
            " keys.",
        ),
    ] = None
    recomputed_flops_per_token: Annotated[
        float | None,
        Field(gt=0, description="The same with recomputed activations, for HFU."),
    ] = None
