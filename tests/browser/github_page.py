"""Markdown as GitHub shows it: its dialect, what its sanitiser lets through, a page around it."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

# What GitHub documents of its sanitiser: elements, attributes of all and of some, and schemes.
ELEMENTS = frozenset(
    re.findall(
        r"\S+",
        """a abbr b bdo blockquote br caption cite code dd del details dfn div dl dt em figcaption
        figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p picture pre q rp rt ruby s samp small
        source span strike strong sub summary sup table tbody td tfoot th thead time tr tt ul var
        wbr""",
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"\S+",
        """align alt aria-describedby aria-hidden aria-label aria-labelledby colspan datetime dir
        height hreflang label lang open rel rowspan scope span start summary title valign width""",
    )
)
OWN_ATTRIBUTES = {"a": {"href"}, "img": {"src", "alt"}, "pre": {"lang"}, "code": {"lang"}}
SCHEMES = ("http:", "https:", "mailto:", "#", "/")
# These go with all that is in them.
DROPPED = frozenset({"script", "style", "iframe", "object", "noscript", "template", "title"})
VOID = frozenset({"br", "hr", "img", "source", "wbr"})

STYLE = (Path(__file__).parent / "github.css").read_text(encoding="utf-8")


def as_github_shows_it(markdown: str) -> str:
    """A whole page with a comment."""
    body = sanitised(rendered(markdown))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A pull request</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main class=comment>"
        '<div class="author"><b>github-actions</b> bot commented</div>'
        f'<article class="markdown-body">{body}</article></main></body></html>'
    )


def rendered(markdown: str) -> str:
    """GitHub's dialect: tables, raw HTML, and `lang` on fenced blocks."""
    import cmarkgfm
    from cmarkgfm.cmark import Options

    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_GITHUB_PRE_LANG
    text: str = cmarkgfm.github_flavored_markdown_to_html(markdown, options)
    return text


def sanitised(html: str) -> str:
    """What is left of it after the sanitiser."""
    sanitiser = Sanitiser()
    sanitiser.feed(html)
    sanitiser.close()
    return "".join(sanitiser.kept)


class Sanitiser(HTMLParser):
    """Keeps what is allowed; of other elements the text stays."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.kept: list[str] = []
        self.within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps an element that is allowed, with the attributes that are."""
        if tag in DROPPED:
            self.within.append(tag)
        if self.within or tag not in ELEMENTS:
            return
        allowed = ATTRIBUTES | OWN_ATTRIBUTES.get(tag, set())
        kept = "".join(
            f' {name}="{escape(value or "")}"'
            for name, value in attrs
            if name in allowed and _is_harmless(name, value or "")
        )
        self.kept.append(f"<{tag}{kept}>")

    def handle_endtag(self, tag: str) -> None:
        """Ends what was kept."""
        if self.within:
            if tag == self.within[-1]:
                self.within.pop()
        elif tag in ELEMENTS and tag not in VOID:
            self.kept.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Text stays text."""
        if not self.within:
            self.kept.append(escape(data))


def _is_harmless(name: str, value: str) -> bool:
    return name not in ("href", "src") or value.strip().lower().startswith(SCHEMES)


def mentions(html: str) -> list[str]:
    """The people and issues that GitHub would link in what is no code."""
    outside = re.sub(r"<(code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", outside)
    return re.findall(r"(?<![\w/])@[a-zA-Z\d]|(?<![\w/&])#\d|\bGH-\d", text)
