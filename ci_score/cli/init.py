"""`ci-score init`: a workflow and a policy for the repository in the current folder."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from contextlib import chdir
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import click

from ci_score.cli import execute
from ci_score.cli.console import say
from ci_score.cli.machine import Machine
from ci_score.cli.policy import DEFAULT_FILE, starter
from ci_score.cli.session import WithOptionalCommand
from ci_score.errors import WrongUseError
from ci_score.files.disk import write_atomically
from ci_score.files.repository import Repository, look_at
from ci_score.model.lists import listed, plural, some_of

WORKFLOW = Path(".github/workflows/performance.yml")
POLICY = Path(DEFAULT_FILE)
MARK = "CHANGE ME"
GIT_SECONDS, CLONE_SECONDS = 10, 600
# What the sample workflow has in the places that depend on the repository.
BRANCHES, COMMAND = ("main", "master"), "python train.py"
SETUP = "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"
WITHOUT_SETUP = f"""\
          # {MARK}: nothing here says what the training needs. Where the machine's own Python
          # lacks it, take the # from this line:
          # setup: python3 -m venv .venv && .venv/bin/python -m pip install torch
"""
# Lines of the starting policy, and what becomes of them beside this workflow.
POLICY_LINES = {
    '#enforce = "shadow"': f'#enforce = "shadow" # {MARK}: without the first # it blocks nobody',
    '#design = "interleaved"': 'design = "interleaved"',
    "#[budgets]": f"#[budgets] # {MARK}: what your card has, and no # at the start of both lines",
    "#[model]": f"#[model] # {MARK}: those of your model, and no # at the start of the lines",
}
# A pair is two launches; each side has an untimed launch before them and a profiled one after them.
LAUNCHES_OF_AB, LAUNCHES_OF_MEASURE = 2 * (1 + 12 + 1), 1 + 2
# Not where `ab` keeps a session, which may be there.
MEASURED = "perf-once"


@click.command("init", cls=WithOptionalCommand)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--no-measure", is_flag=True, help="Only write the files.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def command(machine: Machine, /, force: bool, no_measure: bool, **given: tuple[str, ...]) -> int:
    """Write a workflow and a policy for the repository in the current folder, and measure it once.

    It looks for the framework, the training script and the default branch in the text of the files,
    and executes none of them but the training command, which may also be given after `--`: in a
    fresh clone, because CI has no more. Lines that need a decision say CHANGE ME. Existing files
    stay as they are.

    \b
    Examples:
      ci-score init
      ci-score init -- torchrun --nproc-per-node 2 train.py --config small.yaml
      ci-score init --no-measure --force
    """
    words = given["command"]
    _refuse_unwritable(words)
    _refuse_below_the_top()
    found, branch = look_at(Path()), _default_branch()
    training = words or found.command
    for line in _what_was_found(found, branch, words):
        say(line)
    plan = Plan(branch, training, found.install)
    for file, text in ((WORKFLOW, workflow_of(plan)), (POLICY, policy_text())):
        _write(file, text, force)
    code = 0
    if training and not no_measure:
        code = _measured(machine, training)
    left = [f"{name}/" for name in ("perf", MEASURED, "ci-score")]
    ignored = (_git("check-ignore", *(f"{name}x" for name in left)) or "").split()
    if len(ignored) < len(left):
        say(f"do not commit what is measured: put {listed(left)} into .gitignore")
    say(
        f"then commit {WORKFLOW} and {POLICY}. The first pull request gets the check `performance`:"
        " whether the change makes a step slower, by how much, and which op is the reason. It needs"
        " no earlier run, because both sides are measured there. The rules in the policy hold from"
        " the next pull request on: a change is judged by the policy of the branch that it goes to."
    )
    return code


# --- what is there ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What the workflow needs to know; None where it was not found.

    As it comes, the workflow is the sample.
    """

    branch: str | None = BRANCHES[0]
    training: tuple[str, ...] | None = None
    setup: str | None = SETUP


def _what_was_found(found: Repository, branch: str | None, words: tuple[str, ...]) -> list[str]:
    lines = [f"frameworks: {', '.join(found.frameworks) or 'none that ci-score knows'}"]
    if words:
        lines.append(f"training command: {shlex.join(words)}")
    elif found.command:
        lines.append(f"training command: {shlex.join(found.command)}")
        others = found.scripts[1:]
        if others:
            lines.append(
                f"other scripts that may train: {some_of([one.path for one in others], 3)}; to take"
                f" the first of them: ci-score init --force -- {shlex.join(others[0].command)}"
            )
    else:
        lines.append(
            "training command: no script that trains was found; give the command after `--`, or"
            f" write it into {WORKFLOW}"
        )
        if found.notebooks:
            lines.append(
                f"{some_of(found.notebooks, 3)}: what trains in a notebook can be measured as a"
                f" script; to make one: jupyter nbconvert --to script {found.notebooks[0]}"
            )
    lines.append(f"environment of a side: {found.install or f'not known; see {MARK}'}")
    lines.append(f"default branch: {branch or f'not known; see {MARK}'}")
    if not found.is_whole:
        lines.append("the repository has more files than are looked at; not all were")
    return lines


def _refuse_unwritable(words: tuple[str, ...]) -> None:
    """A workflow can hold the command only in one line, and without an expression of GitHub's."""
    for word in words:
        if "${{" in word or not word.isprintable():
            raise WrongUseError(
                f"{word!r} cannot stand in a workflow; put the command into a script of your own"
            )


def _refuse_below_the_top() -> None:
    """GitHub reads workflows only from the top folder."""
    if which("git") is None:
        raise WrongUseError("git is not on PATH, and a workflow belongs into a git repository")
    # Within a bare repository, or in the folder .git, there are no files to look at.
    prefix = _git("rev-parse", "--show-prefix")
    top = _git("-c", "safe.directory=*", "rev-parse", "--show-toplevel")
    if prefix is None and top:
        raise WrongUseError(
            "the repository is another user's, which git does not trust; if you do, run:"
            f" git config --global --add safe.directory {shlex.quote(top)}"
        )
    if prefix is None or _git("rev-parse", "--is-inside-work-tree") != "true":
        raise WrongUseError(
            "this folder is not a git repository; run `git init` first, or go to your clone"
        )
    if prefix:
        raise WrongUseError(
            f"{prefix} lies within a repository, and GitHub reads workflows only from its top"
            f" folder; go there: cd {'../' * prefix.count('/')}"
        )


def _fresh_clone(folder: Path) -> Path | None:
    """The folder as a clone of what is committed, if there is something."""
    if _git("rev-parse", "--verify", "--quiet", "HEAD") is None:
        say("nothing is committed yet, so what lies here is measured")
        return None
    if _git("clone", "--quiet", "--shared", ".", str(folder), seconds=CLONE_SECONDS) is None:
        say("git cannot clone the repository, so what lies here is measured")
        return None
    say("measuring a fresh clone of what is committed: that is what CI has")
    return folder


def _lacking() -> str:
    """What a clone lacks of this folder, which the command may have needed."""
    listed = _git("ls-files", "--others", "--directory", "--no-empty-directory", "-z") or ""
    changed = _git("diff", "--name-only", "-z", "HEAD") or ""
    ours = (".github/", ".venv/", "perf/", "ci-score/", f"{MEASURED}/")
    names = [one for one in (listed + changed).split("\0") if one and one not in ours]
    how = "commit them, or let `setup` in the workflow bring them"
    return f": a clone lacks {some_of(names)}; {how}" if names else ""


def _default_branch() -> str | None:
    """The remote's, else main or master; only a name that is plain text in a workflow."""
    remote = _git("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    name = (remote or "").removeprefix("origin/")
    if not name:
        places = ("refs/heads", "refs/remotes/origin")
        refs = (_git("for-each-ref", "--format=%(refname)", *places) or "").split()
        heads = [ref.removeprefix(f"{place}/") for place in places for ref in refs]
        # A repository without a commit has no branch yet, but a name for it.
        heads += [_git("symbolic-ref", "--quiet", "--short", "HEAD") or ""]
        name = next((name for name in BRANCHES if name in heads), "")
    return name if re.fullmatch(r"[A-Za-z][\w./-]*", name, re.ASCII) else None


def _git(*words: str, seconds: float = GIT_SECONDS) -> str | None:
    """What git prints; None where it cannot say."""
    try:
        done = subprocess.run(  # noqa: S603 - git, with words of ours
            ["git", *words],  # noqa: S607 - the one on PATH
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


# --- what is written ----------------------------------------------------------------------------


def workflow_of(plan: Plan) -> str:
    """The sample workflow (examples/performance.yml) with this repository's branch and commands."""
    text = (files("ci_score.cli") / "samples" / "performance.yml").read_text(encoding="utf-8")
    branches = f"branches: [{', '.join(BRANCHES)}]"
    if plan.branch is None:
        text = re.sub(r"^(on: .*)$", rf"\1 # {MARK}: your default branch", text, flags=re.MULTILINE)
    elif plan.branch not in BRANCHES:  # in quotes, because YAML has words of its own, such as `on`
        text = text.replace(branches, f'branches: ["{plan.branch}"]')
    if plan.training:
        text = text.replace(f"command: {COMMAND} ", f"command: {_scalar(plan.training)} ")
    if plan.setup is None:
        return re.sub(r"^ +setup: .*\n", lambda _: WITHOUT_SETUP, text, flags=re.MULTILINE)
    return text.replace(SETUP, plan.setup)


def _scalar(words: tuple[str, ...]) -> str:
    """A command as a value of YAML: in quotes where it has a character that could mean more."""
    line = shlex.join(words)
    return (
        line
        if re.fullmatch(r"[A-Za-z][\w ./=@+-]*", line, re.ASCII)
        else json.dumps(line, ensure_ascii=False)
    )


def policy_text() -> str:
    """The starting policy, for pairs of launches."""
    text = starter()
    for line, ours in POLICY_LINES.items():
        text = text.replace(f"\n{line}\n", f"\n{ours}\n")
    return text


def _write(file: Path, text: str, force: bool) -> None:
    if file.exists() and not force:
        say(f"kept: {file} exists already; --force replaces it")
        return
    write_atomically(file, text)
    rows = [str(row) for row, line in enumerate(text.splitlines(), 1) if MARK in line]
    say(f"written: {file}; lines {listed(rows)} say {MARK}")


# --- what is measured ---------------------------------------------------------------------------


def _measured(machine: Machine, training: tuple[str, ...]) -> int:
    """Measures the command as CI will have it, and says how long an A/B of it would take."""
    here, python = Path.cwd(), Path(".venv/bin/python").absolute()
    own = ("--python", str(python)) if python.exists() else ()
    begin = time.monotonic()
    with TemporaryDirectory(prefix="ci-score-") as folder:
        clone = _fresh_clone(Path(folder) / here.name)
        # Not by --dir: the command would find files of the current folder, which CI lacks.
        with chdir(clone or here):
            words = ("measure", "--out", str(here / MEASURED), "--fresh", *own, "--", *training)
            code = execute(words, machine)
    if code:
        lacks = _lacking() if clone else ""
        again = ("measure", "--out", MEASURED, "--fresh", "--", *training)
        say(
            f"the files are written, and the measurement failed{lacks}. In this folder:"
            f" ci-score {shlex.join(again)}. If you train by another command: ci-score init --force"
            " -- COMMAND"
        )
        return code
    launch = (time.monotonic() - begin) / LAUNCHES_OF_MEASURE
    minutes = max(1, round(LAUNCHES_OF_AB * launch / 60))
    seconds = f"about {launch:.0f} s" if launch >= 1 else "less than a second"
    say(
        f"here a launch took {seconds}, so a pull request would measure for up to"
        f" {plural(minutes, 'minute')} on a machine like this one"
    )
    return 0
