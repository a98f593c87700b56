"""The tree of ARCHITECTURE.md is the tree that is there: every package is listed, and every name in a row exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "homarus"


def rows() -> dict[str, list[str]]:
    """Return the names of each package's row: what stands after the widest gap, without plain words behind a `+`."""
    tree = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    found = {}
    for line in re.findall(r"^  (\w+/ .*)$", tree, re.MULTILINE):
        package, _, *names = re.split(r"\s{2,}", line.partition(" + ")[0], maxsplit=2)
        words = " ".join(names)
        found[package.rstrip("/ ")] = [] if words.startswith("a ") else words.split()
    return found


def test_every_package_has_a_row() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(rows())


def test_every_name_exists() -> None:
    missing = []
    for package, names in rows().items():
        for name in names:
            pattern = name if "." in name else name.rstrip("/*") + ("" if "/" in name else ".py")
            if not list((SOURCE / package).glob(pattern)):
                missing.append(f"{package}/{name}")
    assert missing == []
