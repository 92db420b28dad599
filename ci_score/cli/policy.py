"""`ci-score policy`: writes, checks and shows the rules of a team."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from ci_score.cli.console import say, screen, show_report
from ci_score.errors import WrongUseError
from ci_score.files.disk import read_bytes, write_atomically
from ci_score.files.strict_json import dump
from ci_score.judge.policy import (
    LARGEST_POLICY,
    CaseRules,
    GateRule,
    ParityRule,
    Policy,
    mistakes_in_file,
    passes,
    read_policy,
    rules_of,
)
from ci_score.model.lists import plural
from ci_score.model.metrics import Kind, Metric
from ci_score.model.verdict import Unjudged
from ci_score.report import UNJUDGED
from ci_score.run import INPUTS

DEFAULT_FILE = INPUTS["config"].default
EXIT_WRONG = 2
ANY_CASE = "every case"
ANY_OTHER_CASE = "every other case"
# By whether the sides are measured in pairs, where the policy names no rules.
EVIDENCE = {False: ", one run per side", True: ", pairs of head and base"}
VALID_FROM = "It judges pull requests once it is on the branch that they target."
IN_THE_SHADOW = "In the shadow: reports say how the check would have ended, and it exits 0."


@click.group("policy")
def command() -> None:
    """Write, check and show the rules of a team.

    The rules are in .github/ci-score.toml: what fails a pull request, how sure that must be, and
    what happens to a run that could not be judged. A pull request is judged by the policy of the
    branch that it targets.

    \b
    Examples:
      ci-score policy init
      ci-score policy check
      ci-score policy show
    """


@command.command("init")
@click.argument("file", default=DEFAULT_FILE, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(file: Path, force: bool) -> None:
    """Write FILE (.github/ci-score.toml) with the rules for training and comments.

    \b
    Examples:
      ci-score policy init
      ci-score policy init .github/nightly.toml --force
    """
    if file.exists() and not force:
        raise WrongUseError(f"{file} exists already; --force replaces it")
    write_atomically(file, starter())
    say(f"written: {file}. `ci-score policy show` prints the rules.")


def starter() -> str:
    """The policy that a team begins with."""
    return (files("ci_score.judge.policy") / "starter.toml").read_text(encoding="utf-8")


@command.command("check")
@click.argument("file", default=DEFAULT_FILE, type=click.Path(path_type=Path))
def check(file: Path) -> int:
    """Validate FILE (.github/ci-score.toml): print every mistake, or a summary of the rules.

    \b
    Examples:
      ci-score policy check
      ci-score policy check .github/nightly.toml
    """
    mistakes = mistakes_in_file(_read(file), file.name)
    for mistake in mistakes:
        say(f"ci-score: {mistake}")
    if mistakes:
        return EXIT_WRONG
    policy = _policy(file)
    lines = [f"{file} is valid: {_summary(policy)}.", VALID_FROM]
    if policy.enforce is not None:
        lines.append(IN_THE_SHADOW)
    show_report("\n".join(lines) + "\n")
    return 0


@command.command("show")
@click.argument("file", default=DEFAULT_FILE, type=click.Path(path_type=Path))
@click.option("--case", "case", metavar="NAME", help="Only the rules of this case.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(file: Path, case: str | None, as_json: bool) -> None:
    """Print the rules of FILE (.github/ci-score.toml) for each case.

    They combine the defaults, the general part and the [[case]] tables. Where the file names no
    `rules`, or where there is none, those of pairs and of one run per side differ.

    \b
    Examples:
      ci-score policy show
      ci-score policy show --case llama-8b@h100
      ci-score policy show .github/nightly.toml --json
    """
    missing = not file.exists() and str(file) == DEFAULT_FILE
    policy = Policy() if missing else _policy(file)
    names = [case] if case else _names(policy)
    of_evidence = {
        in_pairs: {name: rules_of(policy, name, in_pairs=in_pairs) for name in names}
        for in_pairs in ((False, True) if policy.rules is None else (False,))
    }
    if as_json:
        shown = {
            "in_pairs" if in_pairs else "cases": {
                name or "*": _as_json(rules) for name, rules in cases.items()
            }
            for in_pairs, cases in of_evidence.items()
        }
        fates = {reason.value: fate for reason, fate in _fates(policy).items()}
        known = {"rules": policy.rules, "enforce": policy.enforce}
        click.echo(dump({**known, "unjudged": fates, **shown}), nl=False)
        return
    if missing:
        words = f"There is no {file}: the defaults apply. `ci-score policy init` writes one."
        click.echo(f"{screen().message(words)}\n")
    blocks = [
        _block(name, rules, policy, "" if policy.rules else EVIDENCE[in_pairs])
        for in_pairs, cases in of_evidence.items()
        for name, rules in cases.items()
    ]
    if policy.enforce is not None:
        blocks.append(IN_THE_SHADOW)
    show_report("\n\n".join([*blocks, _unjudged_text(policy)]) + "\n")


def _read(file: Path) -> bytes:
    if not file.exists():
        raise WrongUseError(f"there is no {file}; `ci-score policy init` writes one")
    return read_bytes(str(file), LARGEST_POLICY)


def _policy(file: Path) -> Policy:
    return read_policy(_read(file), file.name).policy


def _names(policy: Policy) -> list[str]:
    """Every case (an empty name), then the cases and globs that the file names."""
    matches = (*(rule.match for rule in policy.case), *(rule.match for rule in policy.parity))
    return ["", *dict.fromkeys(glob for globs in matches for glob in globs if glob != "*")]


def _fates(policy: Policy) -> dict[Unjudged, str]:
    return {reason: "pass" if passes(policy, reason) else "fail" for reason in Unjudged}


# --- as text ------------------------------------------------------------------------------------


def _summary(policy: Policy) -> str:
    """The file in one line."""
    gates = [gate for gate in rules_of(policy, "", in_pairs=True).gates if gate.gate]
    parts = [f"{policy.rules or 'built-in'} rules", f"{len(gates)} metrics gated"]
    for count, word in (
        (len(policy.budgets), "budget"),
        (len(policy.case), "[[case]] table"),
        (len(policy.parity), "[[parity]] table"),
    ):
        if count:
            parts.append(plural(count, word))
    return ", ".join(parts)


def _block(name: str, rules: CaseRules, policy: Policy, evidence: str) -> str:
    other = ANY_OTHER_CASE if policy.case or policy.parity else ANY_CASE
    lines = [
        f"{name or other}{evidence}",
        _gates(rules),
        *(screen().text(line, first="  ", hang="    ") for line in _facts(name, rules, policy)),
    ]
    return "\n".join(lines)


def _gates(rules: CaseRules) -> str:
    rows = [_gate_row(gate, rules) for gate in rules.gates if gate.gate]
    return screen().table(rows, ("text", "text", "text", "text"), ("", "", "warns", "fails"))


def _gate_row(gate: GateRule, rules: CaseRules) -> tuple[str, str, str, str]:
    metric = gate.metric
    better = "higher is better" if metric.higher_is_better else "lower is better"
    fails = "–"
    if gate.fail is not None:
        fails = f"{_limit(metric, gate.fail)}{_condition(metric, rules)}"
    return metric.label, better, _limit(metric, gate.warn), fails


def _limit(metric: Metric, limit: float) -> str:
    return f"beyond {metric.show_limit(limit)}" if limit else "any worsening"


def _condition(metric: Metric, rules: CaseRules) -> str:
    if metric.kind is Kind.EXACT:
        return ""
    if rules.measure.design == "single" and rules.rules == "training":
        return ", but one run per side proves nothing"
    return ", if proven" if rules.rules == "training" or rules.measure.design else ""


def _facts(name: str, rules: CaseRules, policy: Policy) -> Iterator[str]:
    yield f"Reported but not gated: {_listed(g.metric.label for g in rules.gates if not g.gate)}"
    for metric, budget in rules.budgets.items():
        gate = rules.gate(metric)
        if gate is not None:
            word = "at least" if gate.metric.higher_is_better else "at most"
            yield f"Budget: {gate.metric.label} {word} {gate.metric.show(budget)}"
    yield f"Comparable with the same {_listed(rules.match)}"
    yield f"Not judged if {_listed(rules.environment.reject)}"
    yield from _measuring(rules)
    for parity in rules.parities:
        yield _parity(parity, name)
    if any(rule.required and rule.applies_to(name) for rule in policy.case):
        yield "Required: without it, a report is not judged"


def _measuring(rules: CaseRules) -> Iterator[str]:
    measure = rules.measure
    chance = _share(measure.false_fail)
    shared = f", shared by {measure.tests} tests" if measure.tests > 1 else ""
    yield f"The chance that a report without any slowdown fails: {chance}{shared}"
    if measure.looks:
        yield f"`ci-score ab` looks after {_listed(map(str, measure.looks))} pairs"
    if measure.design:
        yield f"Design: {measure.design}"
    if measure.timed_steps is not None:
        yield f"Nothing passes with fewer than {measure.timed_steps} timed steps per launch"
    if measure.warmup_steps is not None:
        yield f"Nothing passes with more than {measure.warmup_steps} warm-up steps per launch"
    if measure.qualified:
        yield "Times pass only on a qualified machine"


def _parity(rule: ParityRule, name: str) -> str:
    demands = [
        f"the same {_listed(rule.require_same)}" if rule.require_same else "",
        f"at most {rule.ms_per_1k_tokens:g}× the time per 1k tokens"
        if rule.ms_per_1k_tokens
        else "",
        f"at most {rule.op_ratio:g}× the time of an op of {_share(rule.min_share)} or more"
        if rule.op_ratio
        else "",
        "no op over 1.10×" if rule.reference_parity else "",
        f"{_share(rule.min_coverage)} of both sides' op time compared" if rule.compares_ops else "",
    ]
    partner = rule.partner_of(name) or "the file of the input parity"
    fate = "" if rule.gate else " (only warns)"
    return f"Parity with {partner}: {'; '.join(filter(None, demands))}{fate}"


def _unjudged_text(policy: Policy) -> str:
    fates = _fates(policy)
    passing = _listed(UNJUDGED[reason] for reason, fate in fates.items() if fate == "pass")
    failing = _listed(UNJUDGED[reason] for reason, fate in fates.items() if fate == "fail")
    lines = (f"pass, with a notice: {passing}", f"block: {failing}")
    shown = (screen().text(line, first="  ", hang="    ") for line in lines)
    return "\n".join(["If a case cannot be judged", *shown])


def _share(share: float) -> str:
    return f"{share * 100:.3g} %"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(word.replace("_", " ") for word in words) or "nothing"


# --- as JSON ------------------------------------------------------------------------------------


def _as_json(rules: CaseRules) -> dict[str, Any]:
    return {
        "measure": rules.measure.model_dump(),
        "environment": {**rules.environment.model_dump(), "match": rules.match},
        "model": rules.model.model_dump(exclude_none=True),
        "metrics": {
            gate.metric.name: {
                "gate": gate.gate,
                "warn": gate.warn,
                "fail": gate.fail,
                "direction": "higher" if gate.metric.higher_is_better else "lower",
                "scale": "relative" if gate.metric.relative else "absolute",
                "exact": gate.metric.kind is Kind.EXACT,
            }
            for gate in rules.gates
        },
        "budgets": dict(rules.budgets),
        "parity": [rule.model_dump() for rule in rules.parities],
    }
