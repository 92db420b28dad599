"""Every input and output of the Action, once.

Tests compare action.yml, the options of `ci-score run` and the tables of docs/action.md with these
rows, so that all of them say the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Input:
    """One input: `name` in action.yml, `--name` on the command line, INPUT_NAME in a container."""

    name: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """What the runner calls it in a container's environment: hyphens stay."""
        return f"INPUT_{self.name.upper()}"

    @property
    def is_token(self) -> bool:
        """Whether it is the secret, whose default is the workflow's own token."""
        return self.name == TOKEN


@dataclass(frozen=True, slots=True)
class Output:
    """One output that later steps of a workflow can use."""

    name: str
    help: str


_INPUTS: tuple[Input, ...] = (
    Input(
        "profiles",
        "Profiler files, globs or folders, one per line; `name=glob` names a case, and in a folder"
        " of folders each subfolder is a case.",
        default="profiles",
    ),
    Input(
        "measurements",
        "Step times without a profiler (JSON lines, one object per process launch), in the same"
        " form as `profiles`; they give the numbers, and profiles explain them.",
    ),
    Input(
        "profile-artifact",
        "Name or pattern of artifacts of this run to read instead of `profiles`; with a pattern"
        " each artifact is a case.",
    ),
    Input(
        "step-name",
        "What your ranges call a step, as a regular expression that is found in their names, where"
        " a trace marks steps in a way that ci-score does not know.",
    ),
    Input(
        "parity",
        "`case=glob`, one per line: the partner runtime's profile to compare a case with.",
    ),
    Input(
        "throughput",
        "Tokens per second of the whole job, for the scorecard; the gate does not pass by it."
        " Default: from the profile.",
    ),
    Input("tokens-per-step", "Tokens of one step over all devices; default: from the profile."),
    Input("hardware", "Accelerator or preset by name; default: from the profile."),
    Input(
        "peak-bandwidth-gb-s",
        "Peak memory bandwidth of one device, for an accelerator that ci-score does not know.",
    ),
    Input(
        "bytes-per-token", "Bytes that one device moves per token; without it nothing is graded."
    ),
    Input(
        "producer",
        "The measuring job and its result, `measure=success`, from the `needs` context; several"
        " jobs are a line each, and the worst result counts: only `success` lets anything be"
        " judged.",
    ),
    Input(
        "not-needed",
        "Why nothing had to be measured, such as `only documentation changed`, from a job that"
        " succeeded: a skipped `producer` then passes, and the report says why.",
    ),
    Input(
        "pr-number",
        "The pull request that gets the comment, for `workflow_dispatch` and `push`; its head must"
        " be the commit of this run. On another branch an open one of that commit is found"
        " without it.",
    ),
    Input(
        "baseline-artifact",
        "Name of the artifact that holds baseline records; default: `ci-score`, and with a title"
        " `ci-score-TITLE`.",
    ),
    Input("baseline-branch", "Branch whose records are baselines; default: the default branch."),
    Input("baseline-workflow", "Workflow file that leaves the records; default: this workflow's."),
    Input("baseline", "A local record or folder of records to compare with, instead of GitHub."),
    Input(
        "fail-on",
        "Which regressions fail the check.",
        "critical",
        choices=("critical", "warning", "never"),
    ),
    Input(
        "fail-on-branch",
        "Whether a regression fails on the default branch too; by default it is only reported"
        " there.",
        "false",
        choices=("true", "false"),
    ),
    Input(
        "on-inconclusive",
        "What happens to a run that could not be judged; `auto` decides by the reason.",
        "auto",
        choices=("auto", "fail", "pass"),
    ),
    Input(
        "comment",
        "When to write the pull request comment: `changes` for any change beyond a limit,"
        " `problems` for any verdict but a pass.",
        "always",
        choices=("always", "changes", "problems", "never"),
    ),
    Input(
        "check-run",
        "Whether to add a check run on the pull request's head, beside the job's own result.",
        "false",
        choices=("true", "false"),
    ),
    Input(
        "issue-on-drift",
        "Whether lasting changes for the worse on the default branch open an issue, and keep it up"
        " to date; needs `issues: write`.",
        "false",
        choices=("true", "false"),
    ),
    Input("title", "Distinguishes several reports of one pull request."),
    Input(
        "config",
        "The policy file, as a path in the repository; in a job it is read at the tested base.",
        ".github/ci-score.toml",
    ),
    Input("output-dir", "Folder in the workspace for the record and the report.", "ci-score"),
    Input(
        "github-token",
        "Token for baselines and the comment: `actions: read`, `contents: read`,"
        " `pull-requests: write`.",
        "${{ github.token }}",
    ),
)

OUTPUTS: tuple[Output, ...] = (
    Output("verdict", "`pass`, `warn`, `inconclusive` or `fail`."),
    Output("grade", "Grade of the worst case, empty if not graded."),
    Output(
        "efficiency", "Its efficiency against the memory roofline (0 to 1), empty if not graded."
    ),
    Output("bottleneck", "Its bottleneck, empty if not known."),
    Output("throughput", "Its tokens per second and device."),
    Output("step-time-ms", "Its step time in milliseconds."),
    Output("critical", "How many critical regressions there are over all cases."),
    Output("warnings", "How many warnings there are over all cases."),
    Output("regressions", "All regressions as JSON: case, metric, delta, severity."),
    Output("cases", "All cases as JSON: name, verdict, headline, grade, step time, throughput."),
    Output("parity-achieved", "`true`, `false`, or empty if nothing was compared."),
    Output("baseline-sha", "Commit of the baseline that the worst case was compared with."),
    Output("comment-url", "Address of the comment, empty if none was written."),
    Output("record", "The record, relative to the workspace."),
    Output("report", "The report in markdown, relative to the workspace."),
    Output(
        "page",
        "The report for a browser, one file with a name of its own for the upload, relative to the"
        " workspace.",
    ),
    Output(
        "record-artifact",
        "What to call the artifact with the record: as `baseline-artifact` says, and with `-pr`"
        " behind it where the run is not one of the default branch.",
    ),
    Output(
        "exit-code", "The exit code, also where ci-score broke; a runner can lose a container's."
    ),
)

TOKEN = "github-token"
INPUTS = {row.name: row for row in _INPUTS}
