"""The build backend: flit, and the documentation inside the wheel, where an installed agent can read it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from flit_core.buildapi import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from flit_core.wheel import WheelBuilder

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# PEP 517 runs a backend in the root of the source tree.
DOCS = Path("docs")


class Builder(WheelBuilder):
    """flit's builder, which adds `docs/` as `homarus/docs/`."""

    def copy_module(self) -> None:
        """Add the package, then its documentation."""
        super().copy_module()
        # Photographs of screens are for people who look at the repository.
        for page in sorted(path for path in DOCS.rglob("*") if path.is_file() and path.suffix != ".png"):
            self._add_file(page, Path("homarus") / "docs" / page.relative_to(DOCS))


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel under a temporary name and give it its own when it is whole."""
    handle, temporary = tempfile.mkstemp(suffix=".whl", dir=wheel_directory)
    try:
        with os.fdopen(handle, "w+b") as file:
            builder = Builder.from_ini_path(Path("pyproject.toml"), file)
            builder.build()
        Path(temporary).chmod(0o644)
        return Path(temporary).replace(Path(wheel_directory) / builder.wheel_filename).name
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
