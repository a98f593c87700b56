"""A configuration that restricts never restricts less because something in it was written wrong."""

import copy
import random
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from homarus.agent.channel_rules import channel_layers
from homarus.config.env import substitute
from homarus.config.paths import Paths
from homarus.config.view import Config, Content
from homarus.core.messages import Trust
from homarus.core.routes import Route, SessionKey
from homarus.tools.policy import ALIASES, PROFILES, PatchSwitch, PolicySettings, Who, allowed_tools, layers_for
from homarus.tools.registry import every_tool

TOOLS = tuple(every_tool().values())
PATHS = Paths(Path("/home/ann"), Path("/home/ann/.openclaw"), Path("/home/ann/.openclaw/openclaw.json"))
GROUP = Route("main", SessionKey.parse("agent:main:irc:group:den"), "irc", to="den")
# What is a restriction wherever it stands; deleting one of these keys takes the restriction away, nothing else may.
RULES = ("profile", "allow", "deny")

WORD = st.sampled_from(
    ["read", "exec", "ls", "process", "memory_*", "sessions_*", "group:fs", "group:web", "bash", "apply_patch", "cron"]
)
LIST = st.lists(WORD, min_size=1, max_size=3, unique=True)
BLOCK = st.one_of(
    st.fixed_dictionaries({"allow": LIST}),
    st.fixed_dictionaries({"deny": LIST}),
    st.fixed_dictionaries({"profile": st.sampled_from(["minimal", "coding", "messaging"])}),
    st.fixed_dictionaries({"profile": st.just("messaging"), "deny": LIST}),
)
NESTED = st.one_of(
    BLOCK,
    BLOCK.map(lambda rules: {"byProvider": {"zai": rules}}),
    BLOCK.map(lambda rules: {"subagents": {"tools": rules}}),
    BLOCK.map(lambda rules: {"sandbox": {"tools": rules}}),
    st.sampled_from([False, {"enabled": False}, {"allowModels": ["other"]}]).map(
        lambda on: {"exec": {"applyPatch": on}}
    ),
)
DOCUMENT = st.one_of(
    NESTED.map(lambda tools: {"tools": tools}),
    NESTED.map(lambda tools: {"agents": {"entries": {"main": {"tools": tools}}}}),
    BLOCK.map(lambda rules: {"channels": {"irc": {"tools": rules}}}),
    BLOCK.map(lambda rules: {"channels": {"irc": {"groups": {"den": {"tools": rules}}}}}),
    BLOCK.map(lambda rules: {"channels": {"irc": {"groups": {"*": {"toolsBySender": {"ann": rules}}}}}}),
    BLOCK.map(lambda rules: {"channels": {"irc": {"accounts": {"default": {"tools": rules}}}}}),
)
# A name in these places chooses whom a rule is for, or is the home of all rules: without it there is another rule, or none.
NAMES = frozenset(
    {"tools", "zai", "main", "irc", "den", "ann", "*", "default", "agents", "entries", "channels", "accounts", "groups"}
)


def left(document: dict[str, Any]) -> set[str]:
    """Return the tools of a child, in a sandbox, in a group chat: every kind of layer has its say."""
    content = Content(PATHS, None, document, {})
    content.raw = substitute(document, {}, lambda _path, _name: None)
    config = Config(content)
    agent = config.agent("main")
    who = Who(Trust.OWNER, "zai", "glm", depth=1, max_depth=2)
    layers = layers_for(
        config.block("tools", PolicySettings),
        agent.block("tools", PolicySettings),
        who,
        channel_layers(config.document.get("channels"), GROUP, ("ann",), "group"),
    )
    switches = [scope.block("tools.exec", PatchSwitch) for scope in (config, agent)]
    found = set(allowed_tools(TOOLS, layers).names)
    return found if all(switch.admits("zai", "glm") for switch in switches) else found - {"apply_patch"}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything at or below `tools`, where the rules stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [found for key, each in inner for found in places(each, (*path, key))]
    return below + ([path] if {"tools", "toolsBySender"} & set(path) else [])


def misspelt(word: str, dice: random.Random) -> str:
    at = dice.randrange(len(word))
    kind = dice.randrange(6)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + dice.choice("abexyz_-") + word[at:]
    if kind == 2:
        return word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
    if kind == 3:
        return word[:at] + dice.choice("abexyz_-") + word[at + 1 :]
    return [word.upper(), f" {word} "][kind - 4]


def mutated(document: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Return the document with one thing in it written wrong."""
    made = copy.deepcopy(document)
    path = dice.choice(places(made))
    holder: Any = made
    for step in path[:-1]:
        holder = holder[step]
    key, value = path[-1], holder[path[-1]]
    if isinstance(value, str) and dice.random() < 0.6:
        holder[key] = misspelt(value, dice)
    elif isinstance(value, list) and dice.random() < 0.5:
        value.insert(dice.randrange(len(value) + 1), dice.choice(["nosuch", "", "group:nosuch", 7, None, ["read"]]))
    elif isinstance(key, str) and key not in NAMES and dice.random() < 0.4:
        holder[misspelt(key, dice)] = holder.pop(key)
    else:
        holder[key] = dice.choice([7, 1.5, [7], [None], [{}], "${NOSUCH}"])
    return made


def is_another_rule(before: Any, after: Any) -> bool:
    """Say whether the slip gave a word that means something else, and so is no slip any more."""
    known = {*every_tool(), *ALIASES, *PROFILES, *(f"group:{tool.group}" for tool in TOOLS)}
    words = {str(word).strip().lower() for word in _words(after)} - {str(word) for word in _words(before)}
    return any(fnmatchcase(name, word) for word in words for name in known)


def _words(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [word for each in value.values() for word in _words(each)]
    return [word for each in value for word in _words(each)] if isinstance(value, list) else [value]


def check(document: dict[str, Any], seed: int) -> None:
    after = mutated(document, random.Random(seed))
    assume(not is_another_rule(document, after))
    assert left(after) <= left(document), after


@settings(max_examples=400)
@given(DOCUMENT, st.integers(0, 1 << 30))
def test_a_slip_never_opens_what_was_closed(document: dict[str, Any], seed: int) -> None:
    check(document, seed)


@pytest.mark.deep
@settings(max_examples=5_000)
@given(DOCUMENT, st.integers(0, 1 << 30))
def test_a_slip_never_opens_what_was_closed_deep(document: dict[str, Any], seed: int) -> None:
    check(document, seed)


@pytest.mark.parametrize(
    "document",
    [
        {"tools": {"allow": ["message_", "nosuch"]}},
        {"tools": {"allow": ["${NOSUCH}"]}},
        {"tools": {"profile": "${NOSUCH}"}},
        {"tools": {"deny": ["exec", "${NOSUCH}"]}},
        {"tools": {"Allow": ["read"]}},
        {"tools": {"alow": ["read"]}},
        {"tools": "read"},
        {"tools": ["read"]},
        {"tools": {"byProvider": ["zai"]}},
        {"tools": {"by_provider": {"zai": {"allow": ["read"]}}}},
        {"tools": {"subagents": {"tools": {"alow": ["read"]}}}},
        {"agents": {"entries": {"main": {"tools": {"allow": "read"}}}}},
        {"channels": {"irc": {"groups": ["den"]}}},
        {"channels": {"irc": {"groups": {"den": "read"}}}},
        {"channels": {"irc": {"groups": {"den": {"toolsBySender": ["ann"]}}}}},
        {"channels": {"irc": {"groups": {"den": {"toolsBySendr": {"ann": {"allow": ["read"]}}}}}}},
        {"channels": {"irc": "read"}},
    ],
)
def test_rules_that_cannot_be_read_leave_no_tool(document: dict[str, Any]) -> None:
    assert left(document) == set()


def test_the_rooms_that_irc_joins_are_no_rules() -> None:
    rules = {"groups": {"den": {"tools": {"deny": ["exec"]}}}}
    joining = {"channels": {"irc": {"channels": ["#den"], **rules}}}
    assert left(joining) == left({"channels": {"irc": rules}}) == left({}) - {"exec"}
