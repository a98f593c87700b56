"""homarus: a personal-agent runtime whose folders are its architecture.

Importing this package costs nothing: what it offers is looked up on first use.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name in {"Agent", "Reply", "ask"}:
        from homarus.runtime import library

        return getattr(library, name)
    raise AttributeError(f"module 'homarus' has no attribute {name!r}")
