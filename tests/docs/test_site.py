"""The documentation as a whole: links lead somewhere, every package has its page, and the site builds."""

from html.parser import HTMLParser
from pathlib import Path

from scripts.build_docs import Page, broken_links, build, pages

ROOT = Path(__file__).parent.parent.parent


def test_every_internal_link_leads_somewhere():
    assert broken_links([Page(path) for path in pages(ROOT)]) == []


def test_every_package_has_its_page():
    # A package is there as soon as something lives in it besides its name.
    packages = sorted(
        {path.parent.name for path in (ROOT / "src" / "homarus").glob("*/*.py") if path.name != "__init__.py"}
    )
    missing = [name for name in packages if not (ROOT / "docs" / f"{name}.md").exists()]
    assert packages
    assert missing == [], f"write docs/<package>.md for: {', '.join(missing)}"


def test_every_chat_platform_has_its_page():
    folders = {path.parent.name for path in (ROOT / "src" / "homarus" / "channels").glob("*/channel.json")}
    pages_of = {path.stem for path in (ROOT / "docs" / "channels").glob("*.md")}
    assert folders
    assert folders - pages_of == set()


def test_broken_links_are_named_with_page_and_line(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "LICENSE").write_text("free")
    (tmp_path / "README.md").write_text("# Read me\n\n## Two words\n\n[a](docs/a.md#b-c) [no](docs/no.md)\n")
    (tmp_path / "docs" / "a.md").write_text(
        "# A\n\n## B & `c`\n\n[up](../README.md#two-words)\n[no](../README.md#three)\n[self](#b--c) [web](https://example.org/x)\n"
    )
    found = [problem.removeprefix(f"{tmp_path}/") for problem in broken_links([Page(path) for path in pages(tmp_path)])]
    assert found == [
        "README.md:5: docs/a.md#b-c: no such heading",
        "README.md:5: docs/no.md: no such file",
        "docs/a.md:6: ../README.md#three: no such heading",
    ]
    assert build(tmp_path, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_site(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "LICENSE").write_text("free")
    (tmp_path / "README.md").write_text("# Read & me\n\n[storage](docs/storage.md#how) [license](LICENSE)\n")
    (tmp_path / "docs" / "storage.md").write_text(
        "# Storage\n\n## How\n\n[home](../README.md)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    assert build(tmp_path, tmp_path / "site") == []
    assert build(tmp_path, tmp_path / "site") == [], "a second run replaces the first"
    site = tmp_path / "site"
    assert sorted(path.name for path in site.iterdir()) == ["index.html", "storage.html", "style.css"]
    index = (site / "index.html").read_text()
    assert "<title>Read &amp; me · homarus</title>" in index
    assert 'href="storage.html#how"' in index
    assert 'href="https://github.com/homarus/homarus/blob/main/LICENSE"' in index
    storage = (site / "storage.html").read_text()
    assert 'href="index.html"' in storage
    assert '<h2 id="how">' in storage
    assert "<table>" in storage


def test_the_site_asks_nobody_for_anything(tmp_path):
    """No script, no font, no picture from elsewhere: opening the documentation tells no one."""
    loaded = []

    class Loads(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag in {"script", "iframe"}:
                loaded.append((tag, attrs))
            if tag in {"link", "img"}:
                loaded.extend(
                    value for name, value in attrs if name in {"href", "src"} and value.startswith(("http", "//"))
                )

    assert build(ROOT, tmp_path / "site") == []
    for path in (tmp_path / "site").glob("*.html"):
        Loads().feed(path.read_text())
    assert loaded == []
    assert "url(" not in (tmp_path / "site" / "style.css").read_text()
