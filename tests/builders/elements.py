"""A page as its elements, for tests of what it holds."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "input", "br", "link"}
# HTML lets these end where their parent or their neighbour says so.
OPTIONAL_END = {"td", "th", "tr", "tbody", "li"}


class Elements(HTMLParser):
    """Every element of a page, and whether all that must be closed is."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.data: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens an element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens and closes one."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Closes an element, and those within it that may stay open."""
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL_END:
            self.open.pop()
        assert self.open, f"</{tag}> ends nothing"
        assert self.open.pop() == tag, f"</{tag}> ends another element"

    def handle_data(self, data: str) -> None:
        """Text that a reader sees; what a script or a style says is none, and JSON is kept."""
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)
        elif self.tags[-1][1].get("type") == "application/json":
            self.data.append(data)
