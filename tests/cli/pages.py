"""Read a page as a browser would: tags that are closed, text that is seen, pictures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """A page, taken apart; `problems` are tags that do not fit together."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source, self.tags, self.ids, self.problems = text, [], [], []
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.seen.append(data)

    @property
    def text(self) -> str:
        """What is seen, on one line."""
        return " ".join(" ".join(self.seen).split())

    @property
    def pictures(self) -> dict[str, ET.Element]:
        """The pictures by their title; each must be whole XML."""
        found = re.findall(r"<figure>\s*<h3>(.*?)</h3>\s*(<svg.*?</svg>)", self.source, flags=re.S)
        names = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
        return {title: ET.fromstring(svg.replace("<svg ", f"<svg {names} ", 1)) for title, svg in found}
