"""What git, in the current folder, knows of the code that was measured: a diff of two commits.

It only reads. Hooks, other programs for a diff, and what would watch the files stay off: a
repository may have come with settings of a stranger's.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from ci_score.files.unified_diff import MOST_BYTES, code_diff_of
from ci_score.model.code_diff import CodeDiff, CodeState

GIT_SECONDS = 30.0
MOST_TRACKED, LARGEST_LIST = 100_000, 16 * 1024 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Where git is called from a hook of its own, these name another repository or index.
_GITS_OWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX",
             "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_OBJECT_DIRECTORY")  # fmt: skip
_QUIET = ("--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
          "-c", "diff.orderFile=/dev/null")  # fmt: skip
_FILTERS = r"^filter\..*\.(clean|process|required)$"
# As GitHub words a diff, whatever the user's settings say.
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--find-renames",
         "--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
         "--ignore-submodules=all")  # fmt: skip


@dataclass(slots=True)
class LocalCode:
    """The repository that a folder lies in, if it does; nothing is asked for twice."""

    folder: Path
    environment: Mapping[str, str]
    _known: dict[tuple[CodeState, CodeState], CodeDiff] = field(default_factory=dict)

    def between(self, base: CodeState, head: CodeState) -> CodeDiff:
        """What head changes; of edited files what they are now, while head is checked out."""
        if not _COMMIT.fullmatch(base.commit) or not _COMMIT.fullmatch(head.commit):
            return CodeDiff(state="not found")
        if (base, head) not in self._known:
            self._known[base, head] = self._asked(base.commit, head)
        return self._known[base, head]

    def _asked(self, base: str, head: CodeState) -> CodeDiff:
        is_here = head.edited is not False and self._is_checked_out(head.commit)
        if head.edited and not is_here:
            return CodeDiff(state="other commit")
        further = self._without_filters() if is_here else {}
        data = self._said(*_DIFF, base, *(() if is_here else (head.commit,)), "--", **further)
        if data is None:
            return CodeDiff(state="not found")
        return code_diff_of(data, self.tracked(head.commit))

    def _is_checked_out(self, commit: str) -> bool:
        return self._said("rev-parse", "--verify", "--quiet", "HEAD") == commit.encode() + b"\n"

    def tracked(self, commit: str) -> frozenset[str]:
        """The files of the commit; none where there are too many to be looked through."""
        if not _COMMIT.fullmatch(commit):
            return frozenset()
        listed = self._said("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        names = (listed or b"").split(b"\0")[:-1]
        if len(names) > MOST_TRACKED or len(listed or b"") > LARGEST_LIST:
            return frozenset()
        return frozenset(name.decode("utf-8", "replace") for name in names)

    def _without_filters(self) -> dict[str, str]:
        """Settings without the programs that make a checked out file what git keeps of it."""
        listed = self._said("config", "--name-only", "-z", "--get-regexp", _FILTERS)
        names = [os.fsdecode(name) for name in (listed or b"").split(b"\0")[:-1]]
        told = self.environment.get("GIT_CONFIG_COUNT", "")
        first = int(told) if told.isdecimal() else 0
        settings = {"GIT_CONFIG_COUNT": str(first + len(names))}
        for place, name in enumerate(names, first):
            settings[f"GIT_CONFIG_KEY_{place}"] = name
            is_required = name.endswith(".required")
            settings[f"GIT_CONFIG_VALUE_{place}"] = "false" if is_required else ""
        return settings

    def _said(self, *words: str, **further: str) -> bytes | None:
        """What git prints, and not much more than is read of it; None where it fails."""
        known = {name: text for name, text in self.environment.items() if name not in _GITS_OWN}
        known |= further
        try:
            process = subprocess.Popen(  # noqa: S603 - git with our own words
                ["git", "-C", str(self.folder), *_QUIET, *words],  # noqa: S607 - the one on PATH
                env={**known, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Of its own group, so that what it starts ends with it.
                process_group=0,
            )
        except OSError:
            return None
        return _read(process, max(MOST_BYTES, LARGEST_LIST) + 1)


def _read(process: subprocess.Popen[bytes], limit: int) -> bytes | None:
    """The output up to a limit, beyond which nothing is read; None for a failure or a hang."""
    alarm = threading.Timer(GIT_SECONDS, _end, (process,))
    alarm.start()
    try:
        with cast("IO[bytes]", process.stdout) as stream:
            data = stream.read(limit)
        is_whole = len(data) < limit
        if not is_whole:
            _end(process)
        return data if process.wait() == 0 or not is_whole else None
    finally:
        alarm.cancel()


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
