"""The page for browsers: plain files that the gateway serves as they are. Nothing here runs in this process.

`page/` is what a browser gets. The gateway finds it by the package's name, because it may not import what stands above it.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("page")
