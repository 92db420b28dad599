"""The warning at the line of the change that costs the time, and the one request that it takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ci_score import github
from ci_score.files.strict_json import dump
from ci_score.files.unified_diff import MOST_BYTES
from ci_score.github import Api, commits
from ci_score.github.commits import DIFF, MOST_DIFFS
from ci_score.model.code_diff import CodeState
from ci_score.model.profile import Profile
from ci_score.model.step_code import StepCode
from ci_score.traces.formats.reference import normalised
from tests.act import pairs
from tests.builders import profile, write
from tests.builders.code import At, step_code
from tests.builders.scene import (
    Outcome,
    Scene,
    on_pull_request,
    record_for,
    record_in,
    run_of_fork,
    tip,
)
from tests.loopback_github import FORK_PERMISSIONS, events, faults
from tests.loopback_github.diffs import diff
from tests.loopback_github.messages import Reply, json_reply
from tests.loopback_github.state import Commit, PullRequest

Out = pytest.CaptureFixture[str]

FILE = "model/attention.py"
BEFORE = """\
class Attention:
    def forward(self, x):
        q = self.query(x)
        return self.out(q)
"""
AFTER = """\
class Attention:
    def forward(self, x):
        q = self.query(x)
        q = normalised(
            q.float(),
        )
        return self.out(q)
"""
LINE = 4
COMPARED = re.compile(r"/repos/team/model/compare/(\w+)\.\.\.(\w+)")


def fast() -> StepCode:
    return step_code({FILE: BEFORE}, At("self.query", 60.0), At("self.out", 35.0))


def slow(file: str = FILE, text: str = AFTER, name: str = "normalised(") -> StepCode:
    return step_code({file: text}, At("self.query", 60.0), At("self.out", 35.0), At(name, 30.0))


def timed(ms: float, code: StepCode | None) -> Profile:
    return profile(ms, tokens_per_step=1000, code=code)


def branch(scene: Scene, text: str = BEFORE, code: StepCode | None = None) -> Commit:
    """A branch with the code, and a record of it."""
    made = scene.state.commit(scene.repository, "main", files={FILE: text})
    scene.leave_record(made, timed(100.0, code or fast()))
    return made


def change(scene: Scene, file: str = FILE, text: str = AFTER) -> PullRequest:
    """A pull request that changes the code."""
    parents = [tip(scene).sha]
    scene.state.commit(scene.repository, "slower", parents=parents, files={file: text})
    return scene.state.pull_request(scene.repository, "slower")


def measure(scene: Scene, ms: float, code: StepCode | None, case: str = "") -> None:
    """The profile as it was converted beside the accelerator, with its lines."""
    folder = scene.workspace / "profiles" / case
    write(folder / "profile.json", normalised(timed(ms, code)))


def compared(scene: Scene) -> list[tuple[str, str]]:
    """The pairs of commits that GitHub was asked for."""
    found = [COMPARED.fullmatch(row.path) for row in scene.github.exchanges]
    return [(one[1], one[2]) for one in found if one]


def slower(scene: Scene, pull: PullRequest, **inputs: str) -> Outcome:
    """A run of the pull request that is 30 ms slower, in the new statement."""
    measure(scene, 130.0, slow())
    return on_pull_request(scene, pull, **inputs)


def warnings(out: Out) -> list[str]:
    """What a runner would show at a line."""
    return [line for line in out.readouterr().out.splitlines() if "file=" in line]


# --- the warning ----------------------------------------------------------------------------------


def test_warning__stands_at_the_first_changed_line_of_the_statement(
    scene: Scene, capsys: Out
) -> None:
    """The line of the diff that costs the time, and how much of the slowdown it is."""
    branch(scene)
    assert slower(scene, change(scene)).code == 1
    (line,) = warnings(capsys)
    assert line == (
        f"::warning file={FILE},line={LINE},title=ci-score training::'Attention.forward': this line"
        " takes 30.0 ms of a step, 30.0 ms more than before, all of the slowdown of 'training'."
    )


def test_warning__none_of_a_change_that_passes(scene: Scene, capsys: Out) -> None:
    """What the verdict does not mind is said in the report alone."""
    branch(scene)
    pull = change(scene)
    measure(scene, 105.0, slow())
    assert on_pull_request(scene, pull).code == 0
    assert len(compared(scene)) == 1
    assert warnings(capsys) == []


def test_warning__none_where_the_line_was_not_changed(scene: Scene, capsys: Out) -> None:
    """A change of another file is not to blame at a line."""
    branch(scene, AFTER)
    pull = change(scene, "other.py", "x = 1\n")
    assert slower(scene, pull).code == 1
    assert warnings(capsys) == []


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd.py", "/etc/x.py", "-rf.py", "a::b.py", "a,line=1.py", "##[error]x.py"],
)
def test_warning__a_lying_file_is_never_one(scene: Scene, capsys: Out, name: str) -> None:
    """A fork may say that its time is spent anywhere; only its own diff has lines."""
    branch(scene)
    pull = change(scene)
    measure(scene, 130.0, slow(name))
    assert on_pull_request(scene, pull).code == 1
    assert warnings(capsys) == []
    assert "##[" not in capsys.readouterr().out


def test_warning__a_line_of_another_state_is_never_one(scene: Scene, capsys: Out) -> None:
    """The files on the machine were not those of the commit."""
    branch(scene)
    pull = change(scene, text=AFTER.replace("q.float(),", "q.double(),"))
    assert slower(scene, pull).code == 1
    assert warnings(capsys) == []


def test_warning__its_path_is_escaped(scene: Scene, capsys: Out) -> None:
    """A comma or a percent sign in a path begins no other property."""
    name = "model/50%,line=1.py"
    branch(scene)
    pull = change(scene, name)
    measure(scene, 130.0, slow(name))
    assert on_pull_request(scene, pull).code == 1
    (line,) = warnings(capsys)
    assert line.startswith(f"::warning file=model/50%25%2Cline=1.py,line={LINE},title=")


# --- the commit that is shown ---------------------------------------------------------------------


def test_warning__stands_where_the_pull_request_has_the_line(scene: Scene, capsys: Out) -> None:
    """The test merge has two more lines above it, which the branch got meanwhile."""
    branch(scene)
    pull = change(scene)
    above = "# one\n# two\n"
    moved = scene.state.commit(scene.repository, "main", files={FILE: above + BEFORE})
    scene.leave_record(moved, timed(100.0, step_code({FILE: above + BEFORE}, At("self.out", 95.0))))
    merge = merged(scene, pull, above + AFTER)
    code = slow(text=above + AFTER)
    measure(scene, 130.0, code)
    assert on_pull_request(scene, pull).code == 1
    assert compared(scene) == [(moved.sha, merge.sha), (pull.head_sha, merge.sha)]
    (line,) = warnings(capsys)
    assert f"file={FILE},line={LINE}," in line


def test_warning__none_on_a_line_that_only_the_merge_has(scene: Scene, capsys: Out) -> None:
    """What the pull request's own commit lacks is shown nowhere in its files."""
    branch(scene)
    pull = change(scene, text=BEFORE + "\n# said\n")
    moved = scene.state.commit(scene.repository, "main", files={"x.py": "x = 1\n"})
    scene.leave_record(moved, timed(100.0, fast()))
    merged(scene, pull, AFTER)
    assert slower(scene, pull).code == 1
    assert warnings(capsys) == []


def merged(scene: Scene, pull: PullRequest, text: str) -> Commit:
    """The test merge with the branch's newest commit, and what the file is there."""
    made = scene.state.commit(
        scene.repository, parents=[tip(scene).sha, pull.head_sha], files={FILE: text}
    )
    pull.merge_commit_sha = made.sha
    return made


# --- a fork ---------------------------------------------------------------------------------------


def of_a_fork(scene: Scene) -> PullRequest:
    """A fork's pull request with the slow change, whose run may only read."""
    branch(scene)
    fork = scene.state.fork(scene.repository, "stranger/model")
    scene.state.commit(fork, "patch", parents=[tip(scene).sha], files={FILE: AFTER})
    return scene.state.pull_request(scene.repository, "patch", head_repository=fork)


def test_fork__its_own_run_warns_without_a_right_to_write(scene: Scene, capsys: Out) -> None:
    """A line that is printed needs no right."""
    scene.state.token("ghs_of_a_fork", permissions=FORK_PERMISSIONS)
    pull = of_a_fork(scene)
    scene.token = "ghs_of_a_fork"
    assert slower(scene, pull).code == 1
    assert scene.comments(pull) == []
    (line,) = warnings(capsys)
    assert f"file={FILE},line={LINE}," in line


def test_fork__the_job_that_posts_for_it_warns_of_no_line(scene: Scene, capsys: Out) -> None:
    """Its run is of another commit; what it knows of the diff it has asked for itself."""
    pull = of_a_fork(scene)
    base = tip(scene)
    producer = run_of_fork(scene, pull)
    record = record_for("d" * 40, timed(130.0, slow()), producer)
    scene.state.artifact(producer, "ci-score-pr", {"ci-score.json": dump(record).encode()})
    assert scene.act(events.workflow_run(scene.github, producer)).code == 0
    assert compared(scene) == [(base.sha, pull.head_sha)]
    assert state_of(scene) == "known"
    assert "30 % slower" in scene.comments(pull)[0]
    assert warnings(capsys) == []


# --- the request ----------------------------------------------------------------------------------


def test_diff__is_one_request_for_a_pull_request(scene: Scene) -> None:
    """The base that was tested, and the test merge that was measured."""
    base = branch(scene)
    pull = change(scene)
    slower(scene, pull)
    assert len(scene.asked()) == 10
    assert compared(scene) == [(base.sha, pull.merge_commit_sha)]


def test_diff__is_asked_for_once_for_all_cases(scene: Scene) -> None:
    """Ten cases of one pair of commits are one request."""
    base = branch(scene)
    scene.leave_record(base, timed(100.0, fast()), case="case-0")
    pull = change(scene)
    for number in range(10):
        measure(scene, 130.0, slow(), f"case-{number}")
    on_pull_request(scene, pull)
    assert compared(scene).count((base.sha, pull.merge_commit_sha)) == 1


def test_diff__is_not_asked_for_where_nothing_changed(scene: Scene) -> None:
    """A run as fast as its base has nothing to explain."""
    branch(scene)
    pull = change(scene)
    measure(scene, 100.0, fast())
    assert on_pull_request(scene, pull).code == 0
    assert compared(scene) == []


def test_diff__is_not_asked_for_where_no_line_is_known(scene: Scene) -> None:
    """A base without lines needs no request."""
    base = scene.state.commit(scene.repository, "main", files={FILE: BEFORE})
    scene.leave_record(base, timed(100.0, None))
    assert slower(scene, change(scene)).code == 1
    assert compared(scene) == []
    assert record_in(scene).cases[0].code is not None


def test_diff__of_a_push_is_against_the_record_before_it(scene: Scene, capsys: Out) -> None:
    """The branch's own run warns at its line, too, where somebody has merged it all the same."""
    base = branch(scene)
    head = scene.state.commit(scene.repository, "main", files={FILE: AFTER})
    measure(scene, 130.0, slow())
    assert scene.act(events.push(scene.github, scene.repository)).code == 0
    assert compared(scene) == [(base.sha, head.sha)]
    (line,) = warnings(capsys)
    assert f"file={FILE},line={LINE}," in line


@pytest.mark.parametrize("commit", ["main", "HEAD", "../../user", "1" * 39, "1" * 40 + "?page=2"])
def test_diff__what_is_no_commit_is_asked_of_nobody(scene: Scene, commit: str) -> None:
    """A record in a folder may say anything of its commit."""
    made = commits.BaseLine(Api(scene.github.url, None), read_event_of(scene))
    known = commits.Differences(made)
    assert known.between(CodeState(commit), CodeState("1" * 40)).state == "not found"
    assert known.between(CodeState("1" * 40), CodeState(commit)).state == "not found"
    assert scene.asked() == []


def read_event_of(scene: Scene) -> github.Event:
    """The event of a pull request."""
    made = events.pull_request(scene.github, change(scene))
    return github.read_event(made.environment, made.payload)


def state_of(scene: Scene) -> str | None:
    """What the record says of the diff."""
    explanation = record_in(scene).cases[0].explanation
    return explanation.code.diff if explanation and explanation.code else None


def text(body: bytes, kind: str = DIFF) -> faults.Fault:
    """An answer that GitHub would not give."""
    return faults.Fault("another diff", Reply(200, {"content-type": kind}, body))


WHOLE = diff({FILE: BEFORE}, {FILE: AFTER}).encode()
ODD = {
    "larger than is read": (text(WHOLE + b" " * MOST_BYTES), "too large"),
    "too large for GitHub": (faults.Fault("406", json_reply({"message": "x"}, 406)), "too large"),
    "too long to make": (faults.Fault("422", json_reply({"message": "x"}, 422)), "too large"),
    "gone": (faults.Fault("404", json_reply({"message": "Not Found"}, 404)), "not found"),
    "no right": (faults.Fault("403", json_reply({"message": "no"}, 403)), "not found"),
    "broken": (faults.Fault("502", Reply(502, {}, b"")), "not found"),
    "a page of a proxy": (text(b"<html>", "text/html"), "not found"),
    "JSON": (text(b"{}", "application/json"), "not found"),
    "no diff": (text(b"hello"), "not found"),
    "half a diff": (text(WHOLE[:-60]), "not found"),
    "elsewhere": (
        faults.Fault("302", Reply(302, {"location": "http://127.0.0.1:9/"}, b"")), "not found"
    ),
    "moved to another host": (
        faults.Fault("301", Reply(301, {"location": "http://127.0.0.1:9/"}, b"")), "not found"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "state"), ODD.values(), ids=ODD.keys())
def test_diff__one_that_cannot_be_had_changes_no_verdict(
    scene: Scene, capsys: Out, fault: faults.Fault, state: str
) -> None:
    """The report says why there is no diff; it has its comment, and no line is warned of."""
    branch(scene)
    pull = change(scene)
    scene.github.interference.inject(faults.Match("api", "GET", "/compare/", 9), fault)
    assert slower(scene, pull).code == 1
    assert len(compared(scene)) <= 2
    assert state_of(scene) == state
    assert "30 % slower" in scene.comments(pull)[0]
    assert warnings(capsys) == []


@pytest.mark.parametrize(
    "fault",
    [faults.secondary_limit(), faults.server_error(), faults.connection_reset()],
    ids=lambda fault: fault.name,
)
def test_diff__a_server_that_is_down_is_asked_once(scene: Scene, fault: faults.Fault) -> None:
    """The waiting that a run may do is left for its report."""
    branch(scene)
    pull = change(scene)
    for number in range(3):
        session(scene, f"case-{number}", base=f"{number:040x}", head=pull.head_sha)
    scene.github.interference.inject(faults.Match("api", "GET", "/compare/", 9), fault)
    assert on_pull_request(scene, pull, profiles="none", measurements="perf").code == 1
    assert len(compared(scene)) == 1
    assert state_of(scene) == "not found"
    assert len(scene.comments(pull)) == 1


def test_diff__no_more_are_asked_for_than_leave_room_for_the_report(scene: Scene) -> None:
    """Sessions of many bases would use up the requests of a run."""
    branch(scene)
    pull = change(scene)
    for number in range(9):
        session(scene, f"case-{number}", base=f"{number:040x}", head=pull.head_sha)
    assert on_pull_request(scene, pull, profiles="none", measurements="perf").code == 1
    assert len(compared(scene)) == MOST_DIFFS
    assert len(scene.comments(pull)) == 1


def test_diff__is_of_the_commits_that_a_session_measured(scene: Scene, capsys: Out) -> None:
    """The workflow checked out the head and another base than the branch's newest commit."""
    base = branch(scene)
    pull = change(scene)
    scene.commits(2)
    session(scene, "training", base=base.sha, head=pull.head_sha)
    assert on_pull_request(scene, pull, profiles="none", measurements="perf").code == 1
    assert compared(scene) == [(base.sha, pull.head_sha)]
    (line,) = warnings(capsys)
    assert f"file={FILE},line={LINE}," in line


def session(scene: Scene, case: str, base: str, head: str) -> None:
    """What `ci-score ab` leaves: both sides' launches and profiles, and what it measured."""
    folder = scene.workspace / "perf" / case
    rows = [
        {"schema": 1, "side": side, "launch": number, "order": 2 * number + place,
         "step_ms": [ms + number % 3 / 10] * 20, "tokens_per_step": 1000}
        for number in range(12)
        for place, (side, ms) in enumerate((("base", 100.0), ("head", 130.0)))
    ]  # fmt: skip
    write(folder / "measurements.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    told = {"schema": 1, "git": {"commit": head}, "base_git": {"commit": base}}
    write(folder / "environment.json", json.dumps(told))
    for side, ms, code in (("base", 100.0, fast()), ("head", 130.0, slow())):
        write(folder / "profiles" / side / "profile.json", normalised(timed(ms, code)))


def test_warning__of_what_the_workflow_s_test_measures(
    scene: Scene, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/act plants that slowdown, and looks for the warning in the log of a real workflow."""
    scene.state.commit(scene.repository, "main", files={pairs.FILE: pairs.BASE})
    pull = change(scene, pairs.FILE, pairs.HEAD)
    event = events.pull_request(scene.github, pull)
    told = event.write(scene.folder / "measuring")
    environment = {"PATH": os.environ["PATH"], **told, "STEP_MS": "140"}
    command = [sys.executable, str(Path(pairs.__file__)), "training"]
    scene.workspace.mkdir()
    subprocess.run(command, env=environment, cwd=scene.workspace, check=True)
    scene.act(event, profiles="none", measurements="perf")
    (line,) = warnings(capsys)
    assert f"file={pairs.FILE},line=2," in line


# --- a checkout -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("producer", "file"), [("", FILE), ("measure=success", None)])
def test_tracked__files_of_a_checkout_tell_the_paths_of_a_trace(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, producer: str, file: str | None
) -> None:
    """Of a file that the diff lacks, too; where another job measures, no checkout counts."""
    tool = scene.folder / "bin" / "git"
    write(tool, f"#!/bin/sh\ncase $* in *ls-tree*) printf '{FILE}\\0' ;; *) exit 1 ;; esac\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    traced = {"found_by": "stacks", "paths": "trace"}
    there = f"/srv/job/{FILE}"
    base = step_code({there: BEFORE}, At("self.out", 95.0), **traced)
    head = step_code({there: BEFORE}, At("self.out", 125.0), **traced)
    branch(scene, code=base)
    pull = change(scene, "other.py", "x = 1\n")
    measure(scene, 130.0, head)
    assert on_pull_request(scene, pull, producer=producer).code == 1
    explanation = record_in(scene).cases[0].explanation
    assert explanation is not None
    assert explanation.code is not None
    (one,) = [row for row in explanation.code.definitions if row.name == "Attention.forward"]
    assert one.file == file
