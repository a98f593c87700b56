"""The pictures of the documentation are made anew, from real commands."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[2]
SAID = {
    "first-steps": "Noted",
    "sessions": "at home",
    "memory": "barometer",
    "status": "workspace",
    "recording": "spare key?",
}


def text_of(path: Path) -> str:
    return "".join(ET.parse(path).getroot().itertext()).replace("\xa0", " ")


def test_pictures_are_drawn_from_what_commands_print(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make_pictures.py"), str(tmp_path)], check=True)
    assert {path.stem for path in tmp_path.glob("*.svg")} == SAID.keys()
    for name, words in SAID.items():
        assert words in text_of(tmp_path / f"{name}.svg"), name
    moving = (tmp_path / "recording.svg").read_text()
    assert "@keyframes" in moving and "@keyframes" not in (tmp_path / "memory.svg").read_text()


def test_the_pictures_that_are_kept_show_no_machine_and_fetch_nothing() -> None:
    kept = {path.stem: path for path in (ROOT / "docs" / "pictures").glob("*.svg")}
    assert kept.keys() == SAID.keys()
    for name, path in kept.items():
        assert SAID[name] in text_of(path)
        drawing = path.read_text()
        assert (
            "/tmp" not in drawing
            and "<script" not in drawing
            and "url(http" not in drawing
            and "@import" not in drawing
        )
