from __future__ import annotations

import pytest

from homarus.core.errors import installing


@pytest.mark.parametrize(
    ("prefix", "base", "command"),
    [
        ("/home/ann/.local/share/pipx/venvs/homarus", "/usr", "pipx runpip homarus install 'homarus[mcp]'"),
        ("/home/ann/.local/share/uv/tools/homarus", "/usr", "uv pip install --python /home/ann/.local/share/uv/tools/homarus 'homarus[mcp]'"),
        ("/home/ann/.venv", "/usr", "/home/ann/.venv/bin/pip install 'homarus[mcp]'"),
        ("/usr", "/usr", "pip install 'homarus[mcp]'"),
    ],
)  # fmt: skip
def test_a_cure_installs_where_this_program_looks(prefix: str, base: str, command: str) -> None:
    assert installing("homarus[mcp]", prefix, base) == command
    assert installing("-U neonize", prefix, base).endswith("-U neonize")
