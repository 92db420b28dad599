"""Runs a composite action step by step, as the runner does; what foreign actions do is given."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any

import yaml

from tests.builders import PROJECT

_EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")
_OUTPUT = re.compile(r"(\w[\w-]*)=(.*)")
_BLOCK = re.compile(r"^(\S+)<<(\S+)\n(.*?)\n?\2$", re.DOTALL | re.MULTILINE)

# What `sh` is on Debian and Ubuntu, and elsewhere. Their `echo` and `printf` differ.
SHELLS = [shell for shell in ("dash", "bash") if which(shell)]
# What a workflow's runner splits a log at, and obeys: `::` after blanks, and `##[` anywhere.
_LINE = re.compile(r"\r\n|\r|\n")
_COMMAND = re.compile(r"\s*::[^:].*?::|.*##\[.*\]", re.DOTALL)

# What a foreign action does, given what stands under `with:`.
Foreign = Callable[[Mapping[str, str]], None]


def obeyed(log: str) -> list[str]:
    """The lines of a log that are commands to the runner which shows it."""
    return [line for line in _LINE.split(log) if _COMMAND.match(line)]


@dataclass
class Job:
    """One use of a composite: how each step ended, and what all of them printed."""

    workspace: Path
    environment: Mapping[str, str]
    foreign: Mapping[str, Foreign]
    instead: Mapping[str, str] = field(default_factory=dict)
    shell: str = "sh"
    outcomes: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    printed: str = ""
    failed: bool = False

    def run(self, name: str, /, **inputs: str) -> bool:
        """The steps of the action in that folder; whether it succeeded.

        `instead` has the scripts of steps that are not run as they stand.
        """
        action = yaml.safe_load((PROJECT / name / "action.yml").read_text(encoding="utf-8"))
        given = {key: row.get("default", "") for key, row in action["inputs"].items()}
        given |= {key.replace("_", "-"): text for key, text in inputs.items()}
        self.outcomes, self.outputs, self.failed = {}, {}, False
        for step in action["runs"]["steps"]:
            condition = str(step.get("if", ""))
            is_due = "always()" in condition or not self.failed
            wanted = condition.replace("always()", "").strip(" &")
            if not is_due or (wanted and not self._value(wanted, given)):
                self.outcomes[step["name"]] = "skipped"
                continue
            is_done = self._step(step, PROJECT / name, given)
            self.outcomes[step["name"]] = "success" if is_done else "failure"
            self.failed |= not is_done and not step.get("continue-on-error")
        return not self.failed

    def _step(self, step: Mapping[str, Any], action: Path, given: Mapping[str, str]) -> bool:
        def filled(text: str) -> str:
            return _EXPRESSION.sub(lambda found: self._value(found[1], given), text)

        if "uses" in step:
            self.foreign[step["uses"].partition("@")[0]](
                {key: filled(str(text)) for key, text in step["with"].items()}
            )
            return True
        written = self.workspace.parent / "output"
        written.write_text("", encoding="utf-8")
        variables = {key: filled(str(text)) for key, text in step.get("env", {}).items()}
        done = subprocess.run(
            [self.shell, "-e", "-c", self.instead.get(step.get("id", ""), step["run"])],
            cwd=self.workspace,
            env={
                "CI_SCORE_WAIT": "0",  # others are this suite
                **self.environment,
                "GITHUB_ACTION_PATH": str(action),
                "GITHUB_OUTPUT": str(written),
                **variables,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.printed += done.stdout + done.stderr
        text = written.read_text(encoding="utf-8")
        found = {key: value for key, _, value in _BLOCK.findall(text)}
        rows = _BLOCK.sub("", text).splitlines()
        found |= {row[1]: row[2] for row in map(_OUTPUT.fullmatch, rows) if row}
        self.outputs[step.get("id", "")] = found
        return done.returncode == 0

    def _value(self, expression: str, given: Mapping[str, str]) -> str:
        """Of the few expressions that our composites have."""
        if expression == "github.token":
            return self.environment.get("GITHUB_TOKEN", "")
        what, _, name = expression.partition(".")
        if what == "inputs":
            return given[name]
        step, _, output = name.partition(".outputs.")
        assert what == "steps", expression
        return self.outputs.get(step, {}).get(output, "")
