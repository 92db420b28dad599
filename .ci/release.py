"""What a release writes, in the folder of the project; release.yml and the tests call it.

python .ci/release.py image IMAGE@DIGEST   the actions name the published image by its digest
python .ci/release.py readme TAG           README.md has absolute links, as in the wheel
python .ci/release.py notes TAG            prints the changelog of that version, with absolute links
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# The actions that run in the image; a test holds that no other one names it.
ACTIONS = ("action.yml", "gate/action.yml")
IMAGE_LINE = re.compile(
    r"^( +(?:image|uses): )(?:Dockerfile|docker://ghcr\.io/ci-score/ci-score:v[0-9]+)$",
    re.MULTILINE,
)
BY_DIGEST = re.compile(r"[a-z0-9./_-]+@sha256:[0-9a-f]{64}")
# A link in markdown, or the source of a picture in HTML, that leads to a file of the project.
RELATIVE = re.compile(r"""(\]\(|\b(?:src|srcset)=")(?![a-z]+:|#)([^)"\s]+)""")


def name_image(image: str) -> None:
    """Each line that names our image names this one."""
    if not BY_DIGEST.fullmatch(image):
        sys.exit(f"{image} is not IMAGE@sha256:… with 64 hexadecimal digits")
    for name in ACTIONS:
        path = Path(name)
        text, count = IMAGE_LINE.subn(rf"\1docker://{image}", path.read_text(encoding="utf-8"))
        if not count:
            sys.exit(f"{name} has no line that names our image, as this script knows them")
        path.write_text(text, encoding="utf-8")


def absolute(text: str, tag: str) -> str:
    """The same text, whose links lead to the files of that tag."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]

    def linked(found: re.Match[str]) -> str:
        before, target = found.groups()
        view = "raw" if before != "](" else "tree" if Path(target).is_dir() else "blob"
        return f"{before}{source}/{view}/{tag}/{target}"

    return RELATIVE.sub(linked, text)


def rewrite_readme(tag: str) -> None:
    """README.md as the wheel carries it."""
    readme = Path("README.md")
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), tag), encoding="utf-8")


def print_notes(tag: str) -> None:
    """The section of the changelog; one that is still called unreleased is not found."""
    version = re.escape(tag.removeprefix("v"))
    changelog = Path("CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {version}\n(.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section “## {tag.removeprefix('v')}”")
    sys.stdout.write(absolute(found[1].strip(), tag) + "\n")


VERBS = {"image": name_image, "readme": rewrite_readme, "notes": print_notes}

if __name__ == "__main__":
    verb, value = sys.argv[1:]
    VERBS[verb](value)
