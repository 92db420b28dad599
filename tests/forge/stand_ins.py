"""The stand-ins of `.ci/act` beside GitHub's own artifact actions: they leave the same files.

act's artifact server refuses today's actions, so the story there has stand-ins; here is the real
server.
"""

from __future__ import annotations

from pathlib import Path

STAND_INS = Path(__file__).parent.parent / "act"
UPLOADS = ("upload-artifact@v6", "upload-artifact@v7")
DOWNLOADS = ("download-artifact@v7", "download-artifact@v8")
# What is asked for: a pattern, and whether all matches go into one folder.
ASKED = (
    ("perf-*", "true"),
    ("perf-*", "false"),
    ("perf-a~1", "false"),
    ("none-*", "true"),
)
HEAD = """name: stand-ins
on: [push]
jobs:
  compare:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v6
      - run: |
          mkdir -p /artifacts from/a/a~1/logs from/b/b~1
          echo one > from/a/a~1/measurements.jsonl
          echo two > from/a/a~1/logs/01.log
          echo three > from/b/b~1/measurements.jsonl
"""


def files() -> dict[str, str]:
    """The workflow, and the stand-ins beside it."""
    return {
        ".gitea/workflows/compare.yml": _workflow(),
        **{
            f"stand-ins/{name}/action.yml": (STAND_INS / name / "action.yml").read_text("utf-8")
            for name in ("upload-artifact", "download-artifact")
        },
    }


def _workflow() -> str:
    text = HEAD
    for action, name in zip(UPLOADS, ("a", "b"), strict=True):
        for uses in (f"gitea/{action}", "./stand-ins/upload-artifact"):
            text += f"      - uses: {uses}\n"
            text += f"        with: {{name: 'perf-{name}~1', path: 'from/{name}/'}}\n"
    checks = []
    for action in DOWNLOADS:
        for number, (pattern, merge) in enumerate(ASKED):
            folder = f"{action.replace('@', '-')}/{number}"
            for uses, place in (
                (f"gitea/{action}", "real"),
                ("./stand-ins/download-artifact", "ours"),
            ):
                text += f"      - uses: {uses}\n"
                text += "        continue-on-error: true\n"
                text += f"        with: {{pattern: '{pattern}', path: '{place}/{folder}',"
                text += f" merge-multiple: {merge}}}\n"
            checks.append(f"diff -r real/{folder} ours/{folder}")
    text += "      - run: |\n          mkdir -p real ours; find real ours | sort; code=0\n"
    for check in checks:
        folder = check.split(" ")[-1]
        text += f"          mkdir -p {check.split(' ')[-2]} {folder}\n"
        text += f"          {check} || code=1\n"
    return text + "          exit $code\n"
