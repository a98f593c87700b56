"""homarus: a personal-agent runtime whose folders are its architecture.

Importing this package costs nothing: what it offers is looked up on first use.
"""

TYPE_CHECKING = False  # typing's own would have to be imported
if TYPE_CHECKING:
    from homarus.core.errors import HomarusError
    from homarus.core.messages import Image
    from homarus.models.scripted import ScriptedModel
    from homarus.runtime.client import RunOptions
    from homarus.runtime.library import Agent, ask
    from homarus.runtime.reply import Reply
    from homarus.tools.tool import ToolContext

__version__ = "0.1.0"
__all__ = ["Agent", "HomarusError", "Image", "Reply", "RunOptions", "ScriptedModel", "ToolContext", "ask"]

_PLACES = {
    "Agent": "runtime.library",
    "HomarusError": "core.errors",
    "Image": "core.messages",
    "Reply": "runtime.reply",
    "RunOptions": "runtime.client",
    "ScriptedModel": "models.scripted",
    "ToolContext": "tools.tool",
    "ask": "runtime.library",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"homarus.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'homarus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
