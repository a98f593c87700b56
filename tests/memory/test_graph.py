"""The page of what is known: complete, the same each time, and harmless whatever the notes say."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from homarus.cli.main import run
from homarus.memory.bank.graph import HEIGHT, MARK, WIDTH, page, places
from homarus.memory.memory import Memory

NOTES = {
    "memory/2026-01-05.md": "## Retain\n- O(c=0.6) @Ada: Ada prefers tea in the morning\n- W @Ada @Berlin: Ada lives in Berlin\n",
    "memory/2026-02-10.md": "## Retain\n- O @Ada: Ada prefers tea in the morning, she said again\n",
    "memory/2026-03-01.md": "## Retain\n- O @Ada: Ada no longer prefers tea in the morning\n- W @Ada @Paris: Ada lives in Paris\n",
    "memory/2026-03-02.md": "## Retain\n- W @{<script>x</script>}: <img src=x onerror=alert(1)> stands \"here\" & 'there'\n",
}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.odd: list[tuple[str, str | None]] = []
        self.text = ""
        self.anchors, self.links = set[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        self.odd += [(name, value) for name, value in attrs if name.startswith("on") or name in {"src", "style"}]
        self.anchors |= {value or "" for name, value in attrs if name == "id"}
        self.links |= {(value or "")[1:] for name, value in attrs if name == "href"}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in NOTES.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "notes"


def test_everything_known_is_on_the_page_and_nothing_runs(workspace: Path) -> None:
    with Memory.open(workspace, provider="none") as memory:
        known = memory.knowledge()
    text = page(known, "What <we> know")
    assert text == page(known, "What <we> know")
    tags = Tags()
    tags.feed(text)
    assert (tags.odd, tags.seen["script"], tags.seen["img"]) == ([], 0, 0)
    assert all(fact.text in tags.text and fact.citation in tags.text for fact in known.facts)
    assert tags.links <= tags.anchors
    assert f"{len(known.spoken_of)} names" in text
    tall = int(re.search(r'viewBox="0 \d+ 960 (\d+)"', text)[1])
    assert 0 < tall <= HEIGHT
    assert 'class="gone">Ada lives in Berlin' in text
    assert tags.seen["polyline"] >= 1
    assert "default-src 'none'" in text


def test_a_command_writes_it_and_no_other_file(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, other = tmp_path / "page.html", tmp_path / "mine.html"
    other.write_text("my own page")
    for _ in range(2):
        assert run(["memory", "graph", "--workspace", str(workspace), "--to", str(made)]) == 0
    assert str(made) in capsys.readouterr().out
    assert MARK in made.read_text()
    assert run(["memory", "graph", "--workspace", str(workspace), "--to", str(other)]) != 0
    assert other.read_text() == "my own page"


def test_names_stand_apart_and_inside() -> None:
    names = [f"n{i}" for i in range(40)]
    spots = places(names, Counter({("n0", "n1"): 9}))
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in spots.values())
    far = {name: abs(spots["n0"][0] - spots[name][0]) + abs(spots["n0"][1] - spots[name][1]) for name in names[1:]}
    assert far["n1"] < sorted(far.values())[len(far) // 2]
