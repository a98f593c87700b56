"""May this call happen now? Risk times trust times taint, decided in one pure function, and the gate that acts on it.

The defaults are the safe ones: whoever is not the owner gets less, a command on the host asks, and a turn that has read
what strangers wrote loses the ways by which their words could act: new hosts, new recipients, files that shape the agent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import Denied, ToolError
from homarus.core.messages import Trust
from homarus.core.text import single_line
from homarus.core.tools import Risk
from homarus.sandbox.claims import Claim, Claims
from homarus.sandbox.spec import SandboxSpec
from homarus.tools import approval_text, command, protected
from homarus.tools.approval import Approvals, Approver, Nobody
from homarus.tools.exec import Granted
from homarus.tools.exec_settings import MODES, ExecSettings, stricter
from homarus.tools.target import Target, names, target_of, touched
from homarus.tools.tool import Tool, ToolContext

# What gives a running command something to do.
_INPUTS = frozenset({"write", "submit", "paste", "send-keys"})
# What the gateway tool may do without a question.
_LOOKS = frozenset({"config.get", "config.schema"})


class Allow(Struct, frozen=True):
    """It may happen."""


class Ask(Struct, frozen=True):
    """Only a human can say. `kind` and `subject` are what a lasting answer would be about, where one is possible."""

    reason: str
    kind: str = ""
    subject: str = ""
    lasting: bool = False


class Deny(Struct, frozen=True):
    """It may not happen, and asking again changes nothing."""

    reason: str


ALLOWED = Allow()
Objection = Ask | Deny
Verdict = Allow | Objection


class Case(Struct, frozen=True):
    tool: str
    risk: Risk
    trust: Trust
    tainted: bool
    sandbox: SandboxSpec
    # Whether nothing but commands brought the taint in: who lets a command run always is not asked because of the one before.
    by_commands: bool = False
    owner_only: bool = False
    # For exec: what would run. For file tools: which files. For egress: where to.
    plan: command.Plan | None = None
    paths: tuple[str, ...] = ()
    target: Target | None = None
    # Of a plugin or of a server.
    foreign: bool = False
    # For tools that can do several things: which one.
    action: str = ""
    workspace: str = ""
    mode: str = "ask"
    # What the session asked for and policy granted: see `wish`.
    elevated: str = "off"
    # Why the tool itself, or a plugin that looks at calls, wants a person asked.
    asks: str = ""

    @property
    def roots(self) -> tuple[str, ...]:
        return protected.roots_of(self.workspace, self.sandbox)


Known = Callable[[str, str], bool]


def decide(case: Case, known: Known) -> Verdict:
    """Return the verdict. `known(kind, subject)` says whether the owner has allowed something for good."""
    if case.owner_only and case.trust is not Trust.OWNER:
        return Deny(f"{case.tool} is for the owner only")
    if (
        case.risk is Risk.READ
        and case.trust is Trust.OWNER
        and not case.tainted
        and case.plan is None
        and case.tool != "gateway"
        and not case.asks
    ):
        return ALLOWED  # no rule has anything against it; most calls are such
    for rule in RULES:
        objection = rule(case, known)
        if objection is not None:
            return objection
    return ALLOWED


def _private(case: Case, _: Known) -> Objection | None:
    if case.trust not in {Trust.GROUP, Trust.EXTERNAL}:
        return None
    if any(protected.is_unseen(path, case.roots, case.trust) for path in case.paths):
        return Deny("the owner's notes are not for others to read or change")
    wholes = [PurePath(os.path.realpath(root)) for root in case.roots]
    asked = [os.path.realpath(path) for path in case.paths] if case.tool in {"grep", "find"} else []
    if any(whole.is_relative_to(path) for path in asked for whole in wholes):
        return Deny("a search of the whole workspace would show the owner's notes; search one of its folders")
    if case.tool.startswith(("memory_", "sessions_")):
        return Deny("the owner's notes and conversations are not for others to read")
    return None


def _by_trust(case: Case, _: Known) -> Objection | None:
    """What somebody other than the owner may do at most."""
    if case.trust is Trust.OWNER or case.risk is Risk.READ:
        return None
    if case.risk is Risk.SEND and case.target is not None and case.target.home:
        return None
    if case.trust is not Trust.PAIRED or case.risk is Risk.ADMIN:
        return Deny(f"{case.tool} is not available to {case.trust.value} senders")
    if case.plan is not None and case.plan.on_host:
        return Deny("commands on the host are for the owner only")
    return Ask(f"a {case.trust.value} sender wants to use {case.tool}")


def _on_host(case: Case, known: Known) -> Objection | None:
    plan = case.plan
    if plan is None or not plan.on_host:
        return None
    if case.mode == "deny":
        return Deny("commands on the host are switched off (tools.exec.mode)")
    subject, lasting = rule_subject(plan), command.may_last(plan)
    free = case.mode == "full" and (not case.sandbox.enforced or case.elevated == "full")
    chosen = free or (lasting and known("exec", subject))
    if chosen and (case.by_commands or not case.tainted):
        return None
    if case.mode == "allowlist" and not chosen:
        return Deny("this command is not on the list of allowed commands (tools.exec.mode is allowlist)")
    if case.tainted:
        return Ask("a command would run on the host after untrusted text was read")
    why = f"a shell command ({plan.shell})" if plan.shell else "a command"
    return Ask(f"{why} would run on the host", "exec", subject, lasting)


def _outside(case: Case, _: Known) -> Objection | None:
    """Without a sandbox a path can lead anywhere; changing what lies outside of the workspace is like a host command."""
    if case.risk is not Risk.WRITE or case.sandbox.enforced or (case.mode == "full" and not case.tainted):
        return None
    outside = [path for path in case.paths if not _inside(path, case.workspace)]
    if outside and case.mode == "deny":
        return Deny(f"{single_line(outside[0], 120)} lies outside of the workspace")
    return (
        Ask(f"{single_line(outside[0], 120)} lies outside of the workspace and would be changed") if outside else None
    )


def _programs(case: Case, _: Known) -> Objection | None:
    """What others run later, outside, is a command on the host that waits: git's settings and hooks, and our own hooks."""
    if case.risk is not Risk.WRITE or (case.mode == "full" and not case.sandbox.enforced and not case.tainted):
        return None
    named = [path for path in case.paths if protected.is_run(path, case.roots)]
    return Ask(f"{single_line(named[0], 120)} is run outside of the sandbox and would be changed") if named else None


def _inside(path: str, workspace: str) -> bool:
    roots = {workspace, os.path.realpath(workspace)}
    return all(any(PurePath(place).is_relative_to(root) for root in roots) for place in (path, os.path.realpath(path)))


def _identity(case: Case, _: Known) -> Objection | None:
    if case.risk is not Risk.WRITE or (case.trust is Trust.OWNER and not case.tainted):
        return None
    named = [path for path in case.paths if protected.is_protected(path, case.roots)]
    if not named:
        return None
    why = "after untrusted text was read" if case.tainted else "for somebody who is not the owner"
    return Ask(f"{single_line(named[0], 120)} shapes the agent and would be changed {why}")


def _egress(case: Case, known: Known) -> Objection | None:
    """A tainted turn reaches only hosts, pages and people that the owner has chosen."""
    target = case.target
    if target is None or target.home or not case.tainted:
        return None
    if known(target.kind, target.subject) or known("address", target.address):
        return None
    what = "a host" if target.kind == "host" else "somebody"
    return Ask(
        f"{what} new ({single_line(target.subject, 120)}) would be reached after untrusted text was read",
        target.kind,
        target.subject,
        lasting=True,
    )


def _foreign(case: Case, known: Known) -> Objection | None:
    """What a plugin's or a server's tool says of itself nobody has checked: it is the owner's, and a way out after taint."""
    if not case.foreign:
        return None
    if case.trust in {Trust.GROUP, Trust.EXTERNAL}:
        return Deny(f"{case.tool} is not available to {case.trust.value} senders")
    if case.trust is Trust.PAIRED:
        return Ask(f"a {case.trust.value} sender wants to use {case.tool}")
    if not case.tainted or case.risk is Risk.READ or known("tool", case.tool):
        return None
    return Ask(f"{case.tool} would be used after untrusted text was read", "tool", case.tool, lasting=True)


def _powers(case: Case, _: Known) -> Objection | None:
    if case.asks:
        return Ask(case.asks)
    if case.tool == "gateway" and case.action not in _LOOKS:
        # The configuration decides what else is asked; a model does not change it alone, whoever speaks to it.
        return Ask("the configuration would be changed")
    if not case.tainted or case.foreign:
        return None
    if case.risk is Risk.ADMIN or (case.risk is Risk.SEND and case.target is None):
        return Ask(f"{case.tool} would be used after untrusted text was read")
    if case.plan is not None and case.plan.spec.enforced and case.plan.spec.network:
        return Ask("a command with network access would run after untrusted text was read")
    return None


RULES = (_private, _by_trust, _on_host, _outside, _programs, _identity, _egress, _foreign, _powers)


def rule_subject(plan: command.Plan) -> str:
    """Return what a lasting rule for a command names: its program, exact arguments, folder, environment and files."""
    facts = (plan.argv, plan.cwd, sorted(plan.env.items()), plan.files)
    # Long enough that nobody finds a second command with the same words in front and the same number behind.
    return f"{' '.join(single_line(word, 80) for word in plan.argv)} #{hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]}"


class PolicyGate:
    """The gate of `execute`: decides, asks a human where it must, and hands exec the grant for exactly one plan."""

    def __init__(
        self,
        approvals: Approvals,
        granted: Granted,
        outer: Mapping[str, str],
        *,
        approver: Approver | None = None,
        settings: Callable[[str], ExecSettings] = lambda _agent_id: ExecSettings(),
        running: Callable[[str, str], command.Plan | None] = lambda _agent_id, _ident: None,
        claims: Claims | None = None,
    ) -> None:
        self._approvals = approvals
        self._granted = granted
        self._outer = outer
        self._approver = approver or Nobody()
        self._settings = settings
        self._running = running
        self._claims = claims or Claims()

    async def __call__(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
        """Admit one call, exactly as it will run, or raise `Denied`."""
        try:
            case = self._case(tool, arguments, context)
            verdict = decide(case, lambda kind, subject: self._permitted(kind, subject, context))
        except (OSError, ValueError, RecursionError) as problem:  # a name that no disk can have, links without end
            raise Denied(f"what {tool.name} names cannot be judged: {single_line(str(problem), 120)}") from None
        if isinstance(verdict, Ask) and case.asks not in verdict.reason:
            verdict = replace(verdict, reason=f"{verdict.reason}; {case.asks}")
        if isinstance(verdict, Deny):
            raise Denied(verdict.reason, cure="do without it, or ask the owner to do it")
        plan = case.plan if tool.name == "exec" and case.plan is not None and case.plan.on_host else None
        held = Claim()
        try:
            # Where no question is ever asked, nothing was approved that others could change.
            if plan is not None and (isinstance(verdict, Ask) or case.mode != "full"):
                held = self._claims.take("host", plan.uses(context.sandbox), plan.command)
                if command.make_plan(context, arguments, self._outer).digest != plan.digest:
                    raise ToolError("what the command names is changing", cure="call exec again")
            if isinstance(verdict, Ask):
                await self._ask(verdict, case, arguments, context)
        except BaseException:
            held.release()
            raise
        if plan is not None:
            self._granted.give(context.call_id, plan.digest, held)

    def _case(self, tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Case:
        name, plan = tool.name, None
        if name == "exec":
            plan = command.make_plan(context, arguments, self._outer)
        elif name == "process":
            plan = self._fed(arguments, context)
        # Commands and writes alone depend on the mode. For everything else it is the strictest, not worked out.
        asked = plan is not None or tool.risk is Risk.WRITE
        return Case(
            tool=name,
            risk=tool.risk,
            trust=context.trust,
            tainted=bool(context.taint),
            by_commands=set(context.taint.sources) <= {"exec"},
            sandbox=context.sandbox,
            owner_only=tool.owner_only,
            foreign=tool.foreign,
            plan=plan,
            paths=touched(name, arguments, context),
            target=target_of(name, arguments, context.route),
            action=str(arguments.get("action") or ""),
            workspace=str(context.workspace),
            mode=stricter(self._mode(context), context.wish) if asked else "deny",
            elevated=context.wish.elevated,
            asks=context.asks or (f"{name} wants to be asked for before each call" if tool.asks else ""),
        )

    def _fed(self, arguments: dict[str, Any], context: ToolContext) -> command.Plan | None:
        """Return the command that a call would give input to, on the host or with a network: what a shell is told later was
        not approved with it.
        """
        if arguments.get("action") not in _INPUTS:
            return None
        plan = self._running(context.agent_id, str(arguments.get("sessionId") or ""))
        if plan is None or not (plan.on_host or plan.spec.network):
            return None
        return replace(plan, command=f"input for: {plan.command}", pipeline=(), shell="input for it")  # noqa: S604

    def _mode(self, context: ToolContext) -> str:
        """Return the strictest mode of the agent and of those above it: a child may not do what its parent may not."""
        return min((self._settings(agent).effective for agent in _line(context)), key=MODES.index)

    def _permitted(self, kind: str, subject: str, context: ToolContext) -> bool:
        """Say whether the owner has chosen this: in a lasting answer, or by naming in this very turn a page or one with a
        link to it.
        """
        if kind == "address":
            return names(context.said, subject) or subject in context.links
        return all(self._approvals.permitted(kind, subject, agent) for agent in _line(context))

    async def _ask(self, verdict: Ask, case: Case, arguments: dict[str, Any], context: ToolContext) -> None:
        plan = case.plan
        body = msgspec.json.encode(
            (case.tool, arguments, context.agent_id, plan.digest if plan else ""), order="sorted"
        )
        text = (
            approval_text.of_command(plan, arguments, str(context.workspace))
            if plan
            else approval_text.of_call(case.tool, arguments)
        )
        details: dict[str, Any] = {"whole": text}
        if plan is not None:
            details |= {
                "argv": list(plan.argv),
                "cwd": plan.cwd,
                "env": sorted(plan.env),
                "sandbox": plan.spec.backend.value,
                "files": [path for path, _ in plan.files],
                "shell": plan.shell,
            }
        request = self._approvals.new_request(
            seconds=self._settings(context.agent_id).approval_timeout_sec,
            digest=hashlib.sha256(body).hexdigest(),
            kind=verdict.kind or case.tool,
            subject=verdict.subject,
            summary=approval_text.shortened(text),
            reason=verdict.reason,
            agent_id=context.agent_id,
            session=str(context.session),
            lasting=verdict.lasting,
            details=details,
        )
        context.progress(context.call_id, f"waits for approval {request.id}: {verdict.reason}")
        with context.waiting():
            decision = await self._approvals.ask(request, self._approver, context.cancel)
        if decision == "deny":
            reason = "" if self._approver.reachable(request) else ", and nobody is here who could allow it"
            raise Denied(f"{verdict.reason}{reason}", cure="go on without it; the owner can be asked in a chat")


def _line(context: ToolContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys((context.agent_id, *context.lineage)))
