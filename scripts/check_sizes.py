"""The size ratchet: files of at most 500 lines, functions of at most 60 lines and six parameters.

An exception stands below with its reason and its size today. It may shrink, never grow, and goes away when it fits.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 500, 60, 6

# path or path:function -> (allowed, reason)
EXCEPTIONS: dict[str, tuple[int, str]] = {}


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count what a caller must think about; `self`, and options of a command line function, do not count."""
    if any("option" in ast.dump(d) or "argument" in ast.dump(d) for d in node.decorator_list):
        return 0
    args = node.args
    names = [a.arg for a in [*args.posonlyargs, *args.args] if a.arg not in {"self", "cls"}]
    # Keyword-only parameters with a default name themselves at the call and may be left out.
    required = sum(default is None for default in args.kw_defaults)
    return len(names) + required


def measure(path: Path) -> list[tuple[str, str, int, int]]:
    """Return (key, what, size, limit) for everything in one file that the limits speak of."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    found = [(name, "lines", text.count("\n"), MAX_FILE)]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            key = f"{name}:{node.name}"
            found.append((key, "lines", (node.end_lineno or node.lineno) - node.lineno + 1, MAX_FUNCTION))
            found.append((key + "()", "parameters", parameters(node), MAX_PARAMETERS))
    return found


def main() -> int:
    """Print every breach and return 1 if there is one."""
    seen: dict[str, tuple[str, int, int]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for key, what, size, limit in measure(path):
            if key not in seen or seen[key][1] < size:
                seen[key] = (what, size, limit)
    problems = []
    for key, (what, size, limit) in seen.items():
        allowed, reason = EXCEPTIONS.get(key, (limit, ""))
        if size > allowed:
            problems.append(f"{key}: {size} {what}, at most {allowed}" + (f" ({reason})" if reason else ""))
        elif key in EXCEPTIONS and size <= limit:
            problems.append(f"{key}: fits again ({size} {what}); remove its exception")
        elif key in EXCEPTIONS and size < allowed:
            problems.append(f"{key}: shrank to {size} {what}; lower its exception from {allowed}")
    problems += [f"{key}: has an exception but is gone" for key in EXCEPTIONS if key not in seen]
    print("\n".join(problems) if problems else f"sizes: {len(seen)} files and functions within limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
