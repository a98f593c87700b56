"""`homarus approvals`: what waits for an answer, what was answered, and what may always run."""

from __future__ import annotations

from typing import Any

import click
from msgspec import to_builtins

from homarus.cli.app import App
from homarus.cli.group import Group
from homarus.cli.options import with_json
from homarus.cli.output import clean
from homarus.core.clock import SystemIds
from homarus.core.errors import Denied
from homarus.tools.approval import Approvals, Decision, Request, approvals_path
from homarus.tools.approval_text import visible


@click.group("approvals", cls=Group, default="list")
def command() -> None:
    """Answer what the agent asks, and see what may always run. Without a word: the list."""


@command.command("list")
@with_json
def list_approvals(app: App, as_json: bool = False) -> None:
    """List open questions and lasting rules."""
    book = _book(app).read()
    if as_json:
        app.out.json(to_builtins(book))
        return
    now = _book(app).now()
    if not book.pending and not book.rules:
        app.out.line("Nothing waits for an answer, and nothing may always run.")
    if book.pending:
        rows = [
            (
                item.id,
                f"{(item.expires_ms - now) // 1000} s",
                item.agent_id,
                clean(item.summary, 300),
                clean(item.reason, 300),
            )
            for item in book.pending
        ]
        app.out.table(rows, ["id", "left", "agent", "what", "why"])
    if book.rules:
        rules = [(rule.id, rule.kind, rule.agent_id, clean(rule.subject, 300)) for rule in book.rules]
        app.out.table(rules, ["rule", "kind", "agent", "always allowed"])


@command.command("show")
@click.argument("ident")
@with_json
def show(app: App, ident: str, as_json: bool) -> None:
    """Show everything about one question."""
    book = _book(app).read()
    found = [*book.pending, *(item.request for item in reversed(book.decided))]
    request = next((item for item in found if item.id == ident), None)
    if request is None:
        raise Denied(f"there is no question '{clean(ident, 300)}'", cure="see: homarus approvals list")
    data: dict[str, Any] = to_builtins(request)
    answers = [item for item in book.decided if item.request.id == ident]
    data["decision"] = answers[-1].decision if answers else None
    if as_json:
        app.out.json(data)
        return

    for key, value in {**data, **data.pop("details")}.items():
        app.out.line(f"{key}: {visible(str(value))}")  # all of it: who says yes has read it


@command.command("allow")
@click.argument("ident")
@click.option("--always", is_flag=True, help="also for the next times, where that is possible")
@with_json
def allow(app: App, ident: str, always: bool, as_json: bool) -> None:
    """Allow what a question asks for: this once, or always."""
    _answer(app, ident, "allow-always" if always else "allow-once", as_json=as_json)


@command.command("deny")
@click.argument("ident")
@with_json
def deny(app: App, ident: str, as_json: bool) -> None:
    """Say no to a question."""
    _answer(app, ident, "deny", as_json=as_json)


@command.command("revoke")
@click.argument("rule")
@with_json
def revoke(app: App, rule: str, as_json: bool) -> None:
    """Take back a lasting rule."""
    gone = _book(app).revoke(rule)
    app.out.answer(
        {"revoked": gone.id, "kind": gone.kind, "subject": gone.subject},
        f"No longer allowed for good: {clean(gone.subject, 300)}",
        as_json=as_json,
    )


def _answer(app: App, ident: str, decision: Decision, *, as_json: bool) -> None:
    request: Request = _book(app).decide(ident, decision, "cli")
    app.out.answer(
        {"id": request.id, "decision": decision, "summary": request.summary},
        f"{decision}: {clean(request.summary, 300)}",
        as_json=as_json,
    )


def _book(app: App) -> Approvals:
    return Approvals(approvals_path(app.paths.state_dir), app.clock, SystemIds())
