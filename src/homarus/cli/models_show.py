"""What `homarus models` gathers and how it looks; the commands themselves are in `cli/models.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from homarus.cli.output import Output
    from homarus.config.view import AgentConfig
    from homarus.models.access import Models
    from homarus.models.discover import Found
    from homarus.models.info import ModelInfo


async def model_rows(models: Models, provider: str | None, *, everything: bool) -> list[dict[str, Any]]:
    """Return the models that can be used, or all that are known."""
    from homarus.models.discover import discover
    from homarus.models.gguf import find_models
    from homarus.models.ref import ModelRef, normalize_provider

    servers = await discover(models.http, models.catalog)
    await models.aclose()
    wanted = normalize_provider(provider) if provider else None
    rows = []
    for name in models.catalog.providers():
        if wanted not in {None, name}:
            continue
        usable = _usable(models, name)
        if usable or everything or wanted:
            rows += [_row(info, usable=usable) for info in models.catalog.models(name)]
    for server in servers:
        for served in server.models:
            models.catalog.learn(ModelRef(server.provider, served.id), served.window)
            if wanted in {None, server.provider}:
                rows.append(_row(models.info(ModelRef(server.provider, served.id)), usable=True))
    for path in find_models(models.config.paths.models_dir) if wanted in {None, "local"} else ():
        rows.append(_row(models.info(ModelRef("local", path.stem)), usable=True))
    return list({row["model"]: row for row in rows}.values())


def _usable(models: Models, provider: str) -> bool:
    known = models.catalog.provider(provider)
    if provider == "builtin":
        return True
    if known.local or provider == "local":
        return False
    agent = models.config.default_agent
    own = models.catalog.own_settings(provider)
    return bool(models.bare_keys(provider) or models.store(agent).credentials(provider) or own.base_url)


def _row(info: ModelInfo, *, usable: bool) -> dict[str, Any]:
    price = info.price
    return {
        "model": f"{info.provider}/{info.id}",
        "name": info.name,
        "contextWindow": info.context_window,
        "contextTokens": info.window,
        "maxOutput": info.max_output,
        "input": list(info.input),
        "thinking": list(info.levels),
        "price": {"input": price.input, "output": price.output, "cacheRead": price.cache_read, "cacheWrite": price.cache_write}
        if price
        else None,
        "usable": usable,
    }  # fmt: skip


def show_models(out: Output, rows: list[dict[str, Any]], *, hint: bool) -> None:
    """Print models as a table."""
    shown = []
    for row in rows:
        price = row["price"]
        money = f"{price['input']:g} / {price['output']:g}" if price else ""
        kinds = "text, image" if "image" in row["input"] else "text"
        levels = f"{row['thinking'][0]}…{row['thinking'][-1]}" if len(row["thinking"]) > 1 else "".join(row["thinking"])
        shown.append(
            (row["model"], _tokens(row["contextTokens"]), kinds, levels, money, "" if row["usable"] else "no key")
        )
    out.table(shown, ["MODEL", "CONTEXT", "TAKES", "THINKING", "$ / M IN / OUT", ""])
    if hint:
        out.line(out.style("`--all` shows every known model, `--pullable` what can be fetched to this machine.", "dim"))


def _tokens(count: int) -> str:
    return f"{count / 1_000_000:g}M" if count >= 1_000_000 else f"{count // 1000}k"


def pullable_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the models that can be fetched by name, and whether they are here."""
    from homarus.models.pull import known

    return [
        {"name": name, "about": source.about, "url": source.url, "sha256": source.sha256, "present": (folder / source.name).is_file()}
        for name, source in known().items()
    ]  # fmt: skip


async def status_report(models: Models, agent: AgentConfig) -> dict[str, Any]:
    """Return which model answers for an agent, why, and with what."""
    from homarus.core.clock import epoch_ms
    from homarus.models.discover import discover
    from homarus.models.gguf import find_models
    from homarus.models.select import AUTO

    chain = await models.chain(agent)
    why = (await models.auto(agent)).why if chain.source == AUTO else "it is configured"
    servers = await discover(models.http, models.catalog)
    await models.aclose()
    now = epoch_ms(models.registry.clock.now())
    client = models.client(agent)
    rows = []
    for ref in chain.models:
        info = models.info(ref)
        keys = []
        for credential in client.credentials(ref):
            stats = models.store(agent).stats(credential.id)
            until = stats.resting_until(ref.model, now)
            keys.append({
                "id": credential.id,
                "kind": credential.kind,
                "key": mask(credential.secret),
                "restsSeconds": max(0, (until - now) // 1000) if until else 0,
                "reason": (stats.disabled_reason or stats.cooldown_reason) if until else "",
            })  # fmt: skip
        needs = models.registry.needs_key(ref.provider)
        capped = {"contextTokens": models.window(agent, ref)}
        rows.append(
            {**_row(info, usable=bool(keys)), **capped, "known": info.known, "credentials": keys, "needsKey": needs}
        )
    return {
        "agent": agent.id,
        "model": chain.primary.key,
        "source": chain.source,
        "why": why,
        "thinking": models.level(agent, chain.primary),
        "chain": rows,
        "strict": chain.strict,
        "warnings": list(chain.warnings),
        "servers": [_server(found) for found in servers],
        "files": [str(path) for path in find_models(models.config.paths.models_dir)],
        "catalog": models.catalog.updated,
    }


def _server(found: Found) -> dict[str, Any]:
    return {"provider": found.provider, "url": found.base_url, "models": [model.id for model in found.models]}


def mask(secret: str) -> str:
    """Return enough of a key to recognise it, and never enough to use it."""
    return f"{secret[:3]}…{secret[-4:]}" if len(secret) > 16 else "…" if secret else ""


def show_status(out: Output, report: dict[str, Any]) -> None:
    """Print the status for people."""
    first = report["chain"][0]
    out.line(f"{out.style(report['model'], 'bold')} answers for agent '{report['agent']}': {report['why']}.")
    out.line(f"  window {_tokens(first['contextTokens'])} tokens, thinking {report['thinking']}")
    for row in report["chain"]:
        if row is not first:
            out.line(f"  then {row['model']}")
        for key in row["credentials"]:
            rest = f", rests for {key['restsSeconds']} s ({key['reason']})" if key["restsSeconds"] else ""
            if key["kind"] != "none":
                out.line(f"    key {key['id']} {key['key']}{rest}")
        if row["needsKey"] and not row["credentials"]:
            out.line("    " + out.style("no key", "yellow"))
    for warning in report["warnings"]:
        out.warn(warning)
    for server in report["servers"]:
        out.line(f"  server {server['url']} offers {', '.join(server['models'][:5])}")
    for path in report["files"]:
        out.line(f"  file {path}")
    if report["model"] == "builtin/notebook":
        out.line()
        out.line("This is the built-in notebook. For a real model: put a key into the environment (ANTHROPIC_API_KEY,")
        out.line("OPENAI_API_KEY …), start Ollama or LM Studio, or fetch one: homarus models list --pullable")


async def try_model(models: Models, agent: AgentConfig, model: str | None, seconds: float) -> dict[str, Any]:
    """Ask one model one question and return what happened."""
    from homarus.core.cancel import Cancel
    from homarus.core.events import TextDelta
    from homarus.core.messages import Text, User
    from homarus.core.prompt import SystemPrompt
    from homarus.models.provider import ModelRequest, Stop
    from homarus.models.select import Chain, Override

    chain = await models.chain(agent, override=Override(model) if model else None)
    only = Chain(chain.models[:1], chain.source, strict=True)
    request = ModelRequest("", SystemPrompt("Greet back in one word."), (User((Text("Hello"),)),), max_tokens=256)
    clock, cancel = models.registry.clock, Cancel()
    started, first = clock.monotonic(), None
    timer = asyncio.get_running_loop().call_later(seconds, cancel.cancel, f"no answer within {seconds:g} s")
    stop: Stop | None = None
    stream = models.client(agent).stream(request, only, cancel=cancel, deadline=started + seconds)
    async for event in stream:
        if isinstance(event, TextDelta) and first is None:
            first = clock.monotonic() - started
        elif isinstance(event, Stop):
            stop = event
    timer.cancel()
    await models.aclose()
    assert stop is not None, "a stream ends with one Stop"
    usage, error = stop.message.usage, stop.error
    return {
        "model": only.primary.key,
        "ok": error is None,
        "reply": stop.message.text.strip(),
        "firstTokenSeconds": round(first, 3) if first is not None else None,
        "seconds": round(clock.monotonic() - started, 3),
        "tokens": {"input": usage.input, "output": usage.output, "cacheRead": usage.cache_read},
        "cost": round(usage.cost.total, 6),
        "kind": error.kind.value if error else "",
        "error": error.message if error else "",
        "cure": error.cure if error else "",
    }


def show_test(out: Output, report: dict[str, Any]) -> None:
    """Print the outcome of a test; its failure is the command's own."""
    if not report["ok"]:
        return
    first = f", first word after {report['firstTokenSeconds']:.2f} s" if report["firstTokenSeconds"] is not None else ""
    money = f", {report['cost']:.6f} $" if report["cost"] else ""
    tokens = report["tokens"]
    out.line(f"{report['model']} answered “{report['reply'][:80]}” in {report['seconds']:.2f} s{first}.")
    out.line(f"  {tokens['input'] + tokens['cacheRead']} tokens in, {tokens['output']} out{money}")
