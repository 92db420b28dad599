"""A file of the repository as it is at a commit, without a checkout."""

from __future__ import annotations

import base64
from urllib.parse import quote

from ci_score.errors import BadInputError
from ci_score.github.api import Api, as_expected


def file_at(api: Api, repository: str, path: str, sha: str, limit: int) -> bytes:
    """The bytes of a file at a commit; NotThereError says that there is none, or no right to it.

    BadInputError says that it is no file, or too large. A link to a file is followed by GitHub.
    """
    answer = api.get(f"/repos/{repository}/contents/{quote(path)}", ref=sha)
    source = f"{path} at {sha[:12]}"
    with as_expected():
        kind = "directory" if isinstance(answer, list) else str(answer["type"])[:40]
        if kind != "file":
            raise BadInputError(source, found=f"a {kind}", expected="a file")
        # Of more than 1 MiB GitHub sends no content; base64 is longer than what it stands for.
        size, text = int(answer["size"]), "".join(str(answer["content"]).split())
        if size > limit or len(text) > 2 * limit:
            raise BadInputError(
                source, found=f"{size} bytes", expected=f"at most {limit // 1024} KiB"
            )
        return base64.b64decode(text, validate=True)
