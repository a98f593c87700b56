"""Build docs/*.md and the pages at the root into a small static site in site/, and fail if a link leads nowhere.

No script, no font and no request to anybody: the pages are plain HTML with one style sheet.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/homarus/homarus/blob/main/"
# README is the first page; then how to work with the project; then one page per package.
FRONT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --paper: #fdfdfb; --faint: #6b727b; --line: #dcdfe3; --code: #f2f3f0; --link: #a3341f }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6e8; --paper: #16181b; --faint: #969da6; --line: #33373c; --code: #202327; --link: #f08a70 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.6 system-ui, sans-serif }
.frame { display: grid; grid-template-columns: 13rem minmax(0, 46rem); gap: 3rem; max-width: 66rem; margin: 0 auto; padding: 2rem 1.25rem }
nav { font-size: .9rem; line-height: 1.9 } nav strong { display: block; margin-top: 1rem; color: var(--faint); font-weight: 600 }
nav a { display: block; color: inherit; text-decoration: none } nav a:hover, nav a[aria-current] { color: var(--link) }
a { color: var(--link) } h1, h2, h3 { line-height: 1.25; margin: 2em 0 .6em } h1 { margin-top: 0 }
pre, code { font-family: ui-monospace, monospace; font-size: .87em } code { background: var(--code); padding: .1em .3em; border-radius: 3px }
pre { background: var(--code); padding: 1rem; overflow-x: auto; border-radius: 6px; line-height: 1.45 } pre code { padding: 0; font-size: 1em }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: .92em } th, td { border: 1px solid var(--line); padding: .35em .7em; text-align: left; vertical-align: top }
blockquote { margin: 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--faint) } img { max-width: 100% }
@media (max-width: 50rem) { .frame { grid-template-columns: minmax(0, 1fr); gap: 1rem } }
"""


def markdown() -> MarkdownIt:
    """Return the one parser that the site and the tests of the documentation use."""
    return MarkdownIt("commonmark", {"html": True}).enable("table")


def pages(root: Path = ROOT) -> list[Path]:
    """Return every page in the order of the navigation."""
    front = [root / name for name in FRONT if (root / name).exists()]
    return [*front, *sorted((root / "docs").glob("*.md")), *sorted((root / "docs" / "channels").glob("*.md"))]


class Page:
    """One parsed page: its title, the anchors it offers and the links it makes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens = markdown().parse(path.read_text(encoding="utf-8"))
        self.title = path.stem
        self.anchors: set[str] = set()
        self.links: list[tuple[int, Token, str]] = []  # line, token, which attribute
        for index, token in enumerate(self.tokens):
            if token.type == "heading_open":
                self._heading(token, self.tokens[index + 1])
            line = (token.map or [0])[0] + 1
            for child in token.children or ():
                line += child.type in ("softbreak", "hardbreak")
                name = {"link_open": "href", "image": "src"}.get(child.type)
                if name:
                    self.links.append((line, child, name))

    def _heading(self, opening: Token, inline: Token) -> None:
        text = "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
        base = anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = 0
        while anchor in self.anchors:
            number += 1
            anchor = f"{base}-{number}"
        if not self.anchors:
            self.title = text
        self.anchors.add(anchor)
        opening.attrSet("id", anchor)


def _target(page: Page, link: str) -> tuple[Path | None, str]:
    """Return the file a link leads to and its anchor; None for what is outside the repository's files."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None, ""
    path = page.path if not parts.path else page.path.parent / unquote(parts.path)
    return Path(os.path.normpath(path)), unquote(parts.fragment)


def broken_links(found: list[Page]) -> list[str]:
    """Return a line for every link whose file or heading does not exist."""
    by_path = {page.path: page for page in found}
    problems = []
    for page in found:
        for line, token, name in page.links:
            link = str(token.attrGet(name))
            target, anchor = _target(page, link)
            if target is None:
                continue
            where = f"{page.path}:{line}: {link}"
            if not target.exists():
                problems.append(f"{where}: no such file")
            elif anchor and target in by_path and anchor not in by_path[target].anchors:
                problems.append(f"{where}: no such heading")
    return problems


def _site_name(path: Path, root: Path) -> str:
    if path == root / "README.md":
        return "index.html"
    folder = "" if path.parent in {root, root / "docs"} else f"{path.parent.name}-"
    return f"{folder}{path.stem.lower()}.html"


def _rewrite(page: Page, names: dict[Path, str], root: Path) -> None:
    """Point links at pages of the site, and links to other files of the project at the repository."""
    for _line, token, name in page.links:
        target, anchor = _target(page, str(token.attrGet(name)))
        if target is None:
            continue
        place = names.get(target) or REPOSITORY + target.relative_to(root).as_posix()
        token.attrSet(name, place + (f"#{anchor}" if anchor else ""))


def _navigation(found: list[Page], names: dict[Path, str], here: Page) -> str:
    groups = (
        ("Start", [p for p in found if p.path.name in FRONT]),
        ("Pages", [p for p in found if p.path.name not in FRONT and p.path.parent.name != "channels"]),
        ("Channels", [p for p in found if p.path.parent.name == "channels"]),
    )
    parts = []
    for heading, members in groups:
        if members:
            parts.append(f"<strong>{heading}</strong>")
        for page in members:
            current = ' aria-current="page"' if page is here else ""
            label = page.path.stem if heading == "Pages" else page.title
            parts.append(
                f'<a href="{names[page.path]}"{current} title="{html.escape(page.title)}">{html.escape(label)}</a>'
            )
    return "\n".join(parts)


def build(root: Path, out: Path) -> list[str]:
    """Write the site; return the broken links, in which case nothing is written."""
    found = [Page(path) for path in pages(root)]
    problems = broken_links(found)
    if problems:
        return problems
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    (out / "style.css").write_text(STYLE.lstrip(), encoding="utf-8")
    names = {page.path: _site_name(page.path, root) for page in found}
    for picture in sorted(path for path in (root / "docs" / "pictures").glob("*") if path.suffix in {".svg", ".png"}):
        (out / "pictures").mkdir(exist_ok=True)
        shutil.copyfile(picture, out / "pictures" / picture.name)
        names[picture] = f"pictures/{picture.name}"
    renderer = markdown().renderer
    for page in found:
        _rewrite(page, names, root)
        body = renderer.render(page.tokens, markdown().options, {})
        (out / names[page.path]).write_text(
            "<!doctype html>\n"
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<title>{html.escape(page.title)} · homarus</title><link rel="stylesheet" href="style.css"></head>\n'
            f'<body><div class="frame"><nav aria-label="Pages">\n{_navigation(found, names, page)}\n</nav>\n'
            f"<main>\n{body}</main></div></body></html>\n",
            encoding="utf-8",
        )
    return []


def main() -> int:
    """Build the site of this repository."""
    problems = build(ROOT, ROOT / "site")
    for problem in problems:
        print(problem.removeprefix(f"{ROOT}/"), file=sys.stderr)
    if not problems:
        print(f"site: {len(pages())} pages in {ROOT / 'site'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
