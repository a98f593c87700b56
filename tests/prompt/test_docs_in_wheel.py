"""An installed wheel brings the documentation that the prompt points at."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_holds_every_page(tmp_path):
    pytest.importorskip("flit_core", reason="the build backend is not installed here")
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_backend; print(build_backend.build_wheel(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.strip()) as wheel:
        names = set(wheel.namelist())
        record = wheel.read(next(name for name in names if name.endswith("RECORD"))).decode()
    pages = {f"homarus/docs/{page.relative_to(ROOT / 'docs')}" for page in (ROOT / "docs").rglob("*.md")}
    assert "homarus/docs/prompt.md" in pages
    assert pages <= names
    assert all(f"{page},sha256=" in record for page in pages)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", "docs/"))]
    assert [path.name for path in tmp_path.iterdir()] == [done.stdout.strip()]
