"""Every key that means something here: read by a typed block, read by hand, or known and without effect. One declaration for all.

A key that nothing reads must be named: a setting is used, or the program says that it has no effect. A test searches the
sources for a use of every field of every block; one that is not used needs a line in `NO_EFFECT`.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from homarus.config.blocks import BLOCKS, load_block, path_of
from homarus.config.keypath import KeyPath

# Read one by one, without a class. What stands below such a key is its reader's business.
BY_HAND = (
    "agents.defaults.cwd",
    "agents.defaults.identity",
    "agents.defaults.name",
    "agents.defaults.skills",
    "agents.entries.*.agentDir",
    "agents.entries.*.default",
    "bindings",
    "cron.sessionRetention",
    "memory.citations",
    "plugins.slots.contextEngine",
    "session.agentToAgent.maxPingPongTurns",
)
# What programs write into the file about themselves.
NOTES = frozenset({"$schema", "meta", "wizard"})

_GATEWAY = "no gateway runs here yet"
_CHANNELS = "no chat channel is served here yet; only the rules for tools in it count"
_TIMERS = "nothing runs by the clock here yet"
_PLUGINS = "no plugin is loaded here yet"
_NODE = "it belongs to OpenClaw's own process"
_STREAM = "no channel streams here yet"
_OTHER = "this program does it in its own way"

# Known to OpenClaw, and without effect here: why. A line covers everything below it that nothing else names.
NO_EFFECT: dict[str, str] = {
    **dict.fromkeys(("acp", "cli", "diagnostics", "nodeHost", "nodes", "ui", "update", "vault", "worktrees"), _NODE),
    **dict.fromkeys(("canvas", "canvasHost", "discovery", "gateway", "talk", "web"), _GATEWAY),
    **dict.fromkeys(("broadcast", "channels", "accessGroups", "routing"), _CHANNELS),
    **dict.fromkeys(("cron", "commitments"), _TIMERS),
    **dict.fromkeys(("mcp", "plugins"), _PLUGINS),
    "approvals": "approvals are asked where the turn runs",
    "attachments": "no attachment is understood here yet",
    "audio": "no audio is understood here yet",
    "browser": "there is no browser tool here yet",
    "hooks": "web hooks are not served here yet",
    "logging": "the level is chosen with --log-level",
    "memory": _OTHER,
    "messages": "no chat channel is served here yet",
    "proxy": "the proxy is taken from the environment",
    "tts": "nothing is spoken here yet",
    "env.shellEnv": "the login shell is never asked for variables",
    "secrets.egressProxy": _OTHER,
    "auth.cooldowns": "waiting times after a failure are fixed here",
    "models.bedrockDiscovery": "models of that service are not looked for here",
    "commands.activation": "no chat channel is served here yet",
    "commands.btw": "there is no such command here yet",
    "commands.native": "no chat channel is served here yet",
    "commands.nativeSkills": "no chat channel is served here yet",
    "commands.useAccessGroups": "no chat channel is served here yet",
    "commands.bashForegroundMs": _OTHER,
    "commands.mcp": _PLUGINS,
    "commands.plugins": _PLUGINS,
    "session.sendPolicy": "nothing is sent to channels yet",
    "session.store": "transcripts lie where the agent's folder is",
    "session.threadBindings": "no chat channel is served here yet",
    "session.typingIntervalSeconds": "no chat channel is served here yet",
    "session.typingMode": "no chat channel is served here yet",
    "session.parentForkMaxTokens": _OTHER,
    "session.writeLock": _OTHER,
    "skills.install": "skills are installed by hand here",
    "skills.load.watchDebounceMs": "folders are looked at when a turn begins, so nothing is waited for",
    "skills.limits.maxSkillsLoadedPerSource": _OTHER,
    "agents.defaults.subagents.announceTimeoutMs": _OTHER,
    "agents.defaults.subagents.requireAgentId": _OTHER,
    "agents.defaults.sandbox.scope": "every command gets a sandbox of its own",
    "agents.defaults.sandbox.workspaceRoot": "commands work in the workspace itself",
    "agents.defaults.sandbox.browser": "there is no browser tool here yet",
    "agents.defaults.sandbox.ssh": "that backend does not exist here",
    "agents.defaults.sandbox.openshell": "that backend does not exist here",
    "agents.defaults.sandbox.prune": "a sandbox ends with its command",
    **dict.fromkeys(
        (f"agents.defaults.sandbox.docker.{name}" for name in
         ("apparmorProfile", "binds", "capDrop", "containerPrefix", "cpus", "dns", "env", "extraHosts", "memory",
          "memorySwap", "network", "pidsLimit", "readOnlyRoot", "seccompProfile", "setupCommand", "tmpfs", "ulimits",
          "workdir")),
        "the container is set up by this program; see sandbox.network, binds, env and memoryMb",
    ),
    **dict.fromkeys(
        (f"agents.defaults.{name}" for name in
         ("blockStreamingBreak", "blockStreamingChunk", "blockStreamingCoalesce", "blockStreamingDefault",
          "humanDelay", "typingIntervalSeconds", "typingMode")),
        _STREAM,
    ),
    **dict.fromkeys(
        (f"agents.defaults.{name}" for name in
         ("bootstrapPromptTruncationWarning", "cliBackends", "contextLimits", "elevatedDefault", "embeddedAgent",
          "embeddedHarness", "envelopeElapsed", "envelopeTimestamp", "envelopeTimezone", "experimental",
          "fastModeDefault", "groupChat", "imageGenerationModel", "imageMaxDimensionPx", "llm", "localModelLean",
          "mediaGenerationAutoProviderFallback", "mediaMaxMb", "memory", "musicGenerationModel", "params",
          "pdfMaxMb", "pdfMaxPages", "pdfModel", "promptOverlays", "reasoningDefault", "runRetries", "runtime",
          "silentReply", "silentReplyRewrite", "systemPromptOverride", "additionalSystemPrompt", "timeFormat", "tts",
          "verboseDefault", "videoGenerationModel")),
        _OTHER,
    ),
    **dict.fromkeys(
        (f"agents.defaults.heartbeat.{name}" for name in
         ("accountId", "ackMaxChars", "activeHours", "directPolicy", "includeReasoning", "isolatedSession",
          "lightContext", "model", "session", "skipWhenBusy", "suppressToolErrorWarnings", "target",
          "timeoutSeconds", "to")),
        _TIMERS,
    ),
    **dict.fromkeys(
        (f"agents.defaults.compaction.{name}" for name in
         ("customInstructions", "identifierInstructions", "maxHistoryShare", "midTurnPrecheck", "mode", "model",
          "notifyUser", "postCompactionSections", "postIndexSync", "provider", "recentTurnsPreserve",
          "truncateAfterCompaction", "memoryFlush.model", "memoryFlush.systemPrompt")),
        _OTHER,
    ),
    **dict.fromkeys(
        (f"agents.defaults.memorySearch.{name}" for name in
         ("cache", "dimensions", "inputType", "local.modelCacheDir", "multimodal", "outputDimensionality",
          "queryInputType", "documentInputType", "rememberAcrossConversations", "store.cache", "store.driver",
          "store.fts", "store.vector.extensionPath", "remote.batch.wait", "sync.embeddingBatchTimeoutSeconds",
          "sync.sessions.postCompactionForce")),
        _OTHER,
    ),
    **dict.fromkeys(
        (f"tools.{name}" for name in
         ("codeMode", "experimental", "links", "media", "message", "sessions_spawn", "toolSearch", "updatePlan",
          "loopDetection.detectors", "loopDetection.postCompactionGuard", "subagents.model", "subagents.thinking",
          "web.fetch.cacheTtlMinutes", "web.fetch.firecrawl", "web.fetch.maxCharsCap", "web.fetch.provider",
          "web.fetch.readability", "web.search.cacheTtlMinutes", "web.search.brave", "web.search.gemini",
          "web.search.grok", "web.search.kimi", "web.search.openaiCodex", "web.search.perplexity", "web.x_search")),
        _OTHER,
    ),
    **dict.fromkeys(
        (f"tools.exec.{name}" for name in
         ("approvalRunningNoticeMs", "commandHighlighting", "host", "node", "pathPrepend", "reviewer",
          "safeBinProfiles", "safeBinTrustedDirs", "safeBins", "strictInlineEval")),
        "the sandbox and the gate decide it; see tools.exec.mode",
    ),
}  # fmt: skip


TOP = frozenset({text.partition(".")[0] for text in (*BLOCKS, *BY_HAND, *NO_EFFECT)} | NOTES)


class Node(msgspec.Struct):
    """What is known at one place. `free` means that whatever stands below belongs to the reader of this key."""

    children: dict[str, Node] = {}
    free: bool = False
    reason: str = ""

    def child(self, key: Any) -> Node | None:
        return self.children.get(str(key)) or self.children.get("*")


class Finding(msgspec.Struct, frozen=True):
    """A key that has no effect: because it is known to have none, or because nobody knows it (`near` may be what was meant)."""

    path: KeyPath
    reason: str = ""
    near: str = ""


def known_tree(lines: Collection[str] = BLOCKS) -> Node:
    """Return what is known, from these lines of the blocks table; each costs the import of its class."""
    root = Node()
    for name in lines:
        _grow(_at(root, path_of(name)), load_block(name))
    for text in BY_HAND:
        _at(root, tuple(text.split("."))).free = True
    for text, reason in NO_EFFECT.items():
        _at(root, tuple(text.split("."))).reason = reason
    for name in NOTES:
        _at(root, (name,)).free = True
    agents = _at(root, ("agents",))
    # The rules for tools hold for everyone or for one agent, and an entry holds whatever the defaults hold.
    _at(agents, ("defaults",)).children["tools"] = _at(root, ("tools",))
    entry = _at(agents, ("entries", "*"))
    entry.children = {**_at(agents, ("defaults",)).children, **entry.children}
    return root


def without_effect(document: Any, node: Node, path: KeyPath = (), *, named: bool = False) -> Iterator[Finding]:
    """Yield every key of a canonical document that nothing reads, the outermost of each.

    With `named` the whole is said to have no effect already: then only what looks mistyped is worth a word.
    """
    if isinstance(document, list):
        for index, inner in enumerate(document):
            yield from without_effect(inner, node, (*path, index), named=named)
    if not isinstance(document, dict) or node.free:
        return
    for key, value in document.items():
        child, where = node.child(key), (*path, key)
        if child is None:
            meant = near(key, node.children.keys() - document.keys())
            if meant or not named:
                yield Finding(where, near=meant)
            continue
        told = bool(child.reason) and (_holds_others(value, child) or not child.children)
        if told:
            yield Finding(where, reason=child.reason)
        yield from without_effect(value, child, where, named=named or told)


def is_named(path: KeyPath) -> bool:
    """Say whether a key, or one below it, has a line of its own in one of the tables, wherever an agent may repeat it."""
    steps = [str(step) for step in path]
    if steps[:2] == ["agents", "entries"]:
        steps[1:3] = ["defaults"]
    if steps[:3] == ["agents", "defaults", "tools"]:
        steps[:2] = []
    text = ".".join(steps)
    return any(f"{line}.".startswith(f"{text}.") for line in (*BLOCKS, *BY_HAND, *NO_EFFECT))


def near(word: str, names: Collection[str]) -> str:
    """Return the name that a mistyped word most likely means, or nothing."""
    plain = _plain(word)
    limit = 1 if len(plain) <= 5 else 2
    found = sorted((_distance(plain, _plain(name)), name) for name in names if name != "*")
    return found[0][1] if found and found[0][0] <= limit else ""


def _holds_others(value: Any, node: Node) -> bool:
    """Say whether a value is more than a way to keys that are read."""
    if node.free or not node.children or not isinstance(value, dict):
        return not node.free
    children = ((node.child(key), inner) for key, inner in value.items())
    return any(child is None or _holds_others(inner, child) for child, inner in children)


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "").replace(" ", "")


def _distance(one: str, other: str) -> int:
    """Return how many slips lie between two words: a letter too many, too few, another one, or two that changed places."""
    if abs(len(one) - len(other)) > 2:
        return 3
    rows = [list(range(len(other) + 1))]
    for i, char in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            best = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (char != wanted))
            if i > 1 and j > 1 and char == other[j - 2] and one[i - 2] == wanted:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def _at(node: Node, path: KeyPath) -> Node:
    for step in path:
        if str(step) not in node.children:
            node.children = {**node.children, str(step): Node()}
        node = node.children[str(step)]
    return node


def _grow(node: Node, into: Any) -> None:
    for field in msgspec.structs.fields(into):
        child = _at(node, (field.encode_name,))
        shapes = list(_structs(field.type))
        child.free = child.free or not shapes
        for shape, named in shapes:
            _grow(_at(child, ("*",)) if named else child, shape)


def _structs(into: Any, *, named: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the classes among the parts of a type, and whether they stand below names of the user's choice."""
    if isinstance(into, type) and issubclass(into, msgspec.Struct):
        yield into, named
    for part in typing.get_args(into):
        yield from _structs(part, named=named or typing.get_origin(into) is dict)
