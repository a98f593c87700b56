"""A home in a temporary folder, and a way to load it."""

from __future__ import annotations

from pathlib import Path

import pytest

from homarus.config.load import Config, inspect_config
from homarus.config.paths import Paths, resolve_paths


class Home:
    """A state folder with a configuration in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "openclaw.json"
        self.env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}

    def write(self, text: str | bytes, name: str = "openclaw.json") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    @property
    def paths(self) -> Paths:
        return resolve_paths(self.env)

    def load(self, text: str | bytes | None = None, **env: str) -> Config:
        if text is not None:
            self.write(text)
        self.env |= env
        return inspect_config(self.paths, self.env)

    def snapshot(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def load(home: Home):
    return home.load
