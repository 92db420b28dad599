"""What is shown of a log: the error of the program, and not what its launcher says of it."""

from __future__ import annotations

import pytest

from ci_score.measure.launch.last_words import TAIL_LINES, last_words


def error(script: str, last: str, prefix: str = "", frames: int = 1) -> list[str]:
    """A traceback as Python prints it, and torch for a rank."""
    lines = ["Traceback (most recent call last):"]
    for number in range(frames):
        lines += [f'  File "{script}", line {number + 1}, in <module>', "    call()"]
    return [prefix + line for line in (*lines, last)]


MISSING = "ModuleNotFoundError: No module named 'tiktoken'"
PEER = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:8115."
TORCHRUN = [
    "W1120 08:57:46.4 19370 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process",
    "E1120 08:57:46 1937 torch/distributed/elastic/multiprocessing/api.py:1] failed (exitcode: -9)",
    *error("/lib/torch/distributed/run.py", "", frames=2)[:-1],
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "=" * 60,
    "train.py FAILED",
    *(f"  line {number} of its report" for number in range(14)),
    "=" * 60,
]
ACCELERATE = error(
    "/lib/accelerate/commands/launch.py",
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status",
    frames=4,
)
SRUN = ["srun: error: node1: task 0: Exited with exit code 1", "srun: Terminating StepId=1.0"]
DEEPSPEED = [
    "[2026-11-20 08:57:46,424] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 7",
    "[2026-11-20 08:57:46,425] [ERROR] [launch.py:325:sigkill_handler] ['python'] exits with 1",
]
OWN = error("train.py", MISSING)
QUIET = [f"step {number}" for number in range(40)]
CHAINED = [
    *error("train.py", "KeyError: 'lr'"),
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    *error("train.py", MISSING),
]
RANK_1 = error("train.py", "ValueError: bad batch", "[rank1]: ")
RANK_0 = error("torch/distributed/c10d_logger.py", PEER, "[rank0]: ", frames=4)
LOGS: dict[str, tuple[list[str], str]] = {
    "a script": ([*QUIET, *OWN], MISSING),
    "a script that says more": ([*OWN, "wandb: synced"], "wandb: synced"),
    "torchrun": ([*QUIET, *OWN, *OWN, *TORCHRUN], MISSING),
    "torchrun with lines of both ranks mixed": (
        [*QUIET, *(line for pair in zip(OWN, OWN, strict=True) for line in pair), *TORCHRUN],
        MISSING,
    ),
    "torchrun and a rank that lost its peer": (
        [*QUIET, *RANK_1, *RANK_0, *TORCHRUN],
        "[rank1]: ValueError: bad batch",
    ),
    "torchrun and an error that was handled": (
        [*error("train.py", "OSError: no cache"), *QUIET, *OWN, *TORCHRUN],
        MISSING,
    ),
    "torchrun and an error within an error": ([*QUIET, *CHAINED, *TORCHRUN], MISSING),
    "torchrun and a rank that only ended": ([*QUIET, *TORCHRUN], "step 39"),
    "torchrun and a module that is missing": (["python: No module named x"] * 2 + TORCHRUN,
                                              "python: No module named x"),
    "torchrun alone": (TORCHRUN, "=" * 60),
    "accelerate": ([*QUIET, *OWN, *ACCELERATE], MISSING),
    "deepspeed": ([*QUIET, *OWN, *DEEPSPEED], MISSING),
    "srun": ([*QUIET, *OWN, *SRUN], MISSING),
    "a script whose own command failed": ([*QUIET, *error("train.py", "CalledProcessError: x")],
                                          "CalledProcessError: x"),
    "nothing": ([], ""),
}  # fmt: skip


@pytest.mark.parametrize(("log", "last"), LOGS.values(), ids=LOGS)
def test_last_words__are_those_of_the_program(log: list[str], last: str) -> None:
    """The first rank that failed is the reason; the others fail because of it."""
    shown = last_words(log)
    assert shown[-1:] == ([last] if log else [])
    assert len(shown) <= TAIL_LINES


def test_last_words__of_a_rank_without_an_error_say_how_it_ended() -> None:
    """Whoever was killed could not say it."""
    assert "failed (exitcode: -9)" in last_words([*QUIET, *TORCHRUN])[0]
    assert "Exited with exit code 1" in last_words([*QUIET, *SRUN])[0]


def test_last_words__of_a_long_traceback_are_its_end() -> None:
    """The frames nearest to the error, and the error."""
    shown = last_words([*error("train.py", MISSING, frames=40), *TORCHRUN])
    assert shown[-1] == MISSING
    assert len(shown) == TAIL_LINES
