"""Checks of the machine: the sandbox is really tried, and optional parts are named with what they are for."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec

from homarus.admin.doctor.finding import Finding, Home, Severity, ok
from homarus.config.view import AgentConfig
from homarus.core.errors import Denied, HomarusError, installing
from homarus.core.routes import main_session
from homarus.models.access import Models
from homarus.models.named import doubt
from homarus.models.notebook.minilm import lacking
from homarus.models.ready import missing
from homarus.models.ref import ModelRef
from homarus.models.select import AUTO, choice
from homarus.sandbox.probe import try_out
from homarus.sandbox.process import available
from homarus.sandbox.resolve import Place, resolve
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import SandboxSpec
from homarus.workspace.agents import resolve_workspace

_EXTRAS = {
    "memory": ("wordllama", "recall by meaning, offline"),
    "local": ("xllamacpp", "a local model in this process"),
}


# Programs that are used where they are there: the package that brings each, and what is missing without it.
_PROGRAMS = {
    "bwrap": ("bubblewrap", "commands run in a weaker sandbox, or not at all"),
    "git": ("git", "workspaces have no history"),
    "rg": ("ripgrep", "commands of your agent that search files must do without it"),
}
_INSTALL = {
    "apt-get": "apt install",
    "dnf": "dnf install",
    "pacman": "pacman -S",
    "apk": "apk add",
    "brew": "brew install",
}


def check_programs(home: Home) -> list[Finding]:
    """Programs that are not installed, each with the package that brings it."""
    path = home.env.get("PATH", "")
    how = next((line for tool, line in _INSTALL.items() if shutil.which(tool, path=path)), "install the package")
    return [
        Finding("programs", Severity.INFO, f"{name} is not installed: {without}", cure=f"{how} {package}")
        for name, (package, without) in _PROGRAMS.items()
        if shutil.which(name, path=path) is None
    ] or ok("programs", "the programs that help are installed")


def check_models(home: Home) -> list[Finding]:
    """Each agent's configured models: that nothing is missing to ask them, and how their last calls ended. And the notebook's reader.

    None is called. A name that means no model is told with the configuration: there it is mended.
    """
    models, findings, fine, doubtful = (
        Models(home.config, home.env, clock=home.clock),
        list[Finding](),
        list[str](),
        False,
    )
    if problem := lacking(home.config.paths.models_dir):
        findings.append(Finding("models", Severity.WARNING, problem, cure="homarus memory export-minilm"))
    for agent in home.config.agents:
        named, names = choice(agent.get("model")), models.names(agent)
        for text in (named.primary, *(named.fallbacks or ())):
            if text in {"", AUTO}:
                continue
            if doubt(home.config, names, models.catalog, text):
                doubtful = True
                continue
            found = _model(models, agent, names.resolve(text).ref)
            if found is not None and found.severity is not Severity.OK:
                findings.append(found)
            elif found is not None and found.message not in fine:
                fine.append(found.message)
    if fine or findings or doubtful:
        return findings + (ok("models", "; ".join(fine)) if fine else [])
    return ok("models", "no model is named that has to be called: 'homarus models' says which one answers")


def _model(models: Models, agent: AgentConfig, ref: ModelRef) -> Finding | None:
    """Return what is known of a model that an agent names; nothing where it is built in."""
    if problem := missing(models, agent, ref):
        said, cure = f"agent '{agent.id}': {problem}", "homarus configure model"
        return Finding("models", Severity.WARNING, said, cure=cure)
    if not models.is_called(ref):
        return None
    call, cure = models.calls.of(ref.key), f"homarus models test {ref}"
    if call is None:
        said = f"agent '{agent.id}': nothing is missing to ask {ref}, but nobody has asked it yet"
        return Finding("models", Severity.INFO, said, cure=cure)
    if call.failure:
        return Finding("models", Severity.WARNING, f"agent '{agent.id}': {ref}: {call}", cure=cure)
    return Finding("models", Severity.OK, f"{ref} {call}")


def check_python(_home: Home) -> list[Finding]:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    return ok("python", f"Python {version}")


def check_sandbox(home: Home) -> list[Finding]:
    """Each agent's sandbox: a command is really run inside, because a sandbox in name only is worse than none."""
    findings = []
    paths = home.config.paths
    for agent in home.config.agents:
        workspace = resolve_workspace(home.config, agent.id, home.env)
        place = Place(main_session(agent.id), workspace, paths.home, paths.state_dir)
        try:
            spec = resolve(agent.block("sandbox", SandboxSettings), place, available)
        except Denied as problem:
            findings.append(
                Finding("sandbox.missing", Severity.ERROR, f"agent '{agent.id}': {problem.message}", cure=problem.cure)
            )
            continue
        except HomarusError as problem:
            findings.append(
                Finding("sandbox.config", Severity.ERROR, f"agent '{agent.id}': {problem.message}", cure=problem.cure)
            )
            continue
        if spec.enforced:
            findings += _probed(home, agent.id, spec)
        else:
            message = f"agent '{agent.id}' runs commands on this machine without a sandbox"
            findings.append(
                Finding("sandbox.off", Severity.WARNING, message, cure="remove sandbox.mode, or set it to 'all'")
            )
    return findings or ok("sandbox", "commands run in a sandbox; a probe inside it was held")


def _probed(home: Home, agent_id: str, spec: SandboxSpec) -> list[Finding]:
    """Look from inside of an agent's own sandbox: what it promises is not what counts."""
    found = try_out(spec, home.env)
    if found.failure:
        message = f"agent '{agent_id}': no command can run in its sandbox: {found.failure}"
        return [Finding("sandbox.probe", Severity.ERROR, message, cure="see: homarus sandbox probe")]
    return [
        Finding("sandbox.leak", Severity.ERROR, f"agent '{agent_id}': {leak}", cure="see: homarus sandbox explain")
        for leak in found.leaks
    ]


def check_extras(_home: Home) -> list[Finding]:
    """Optional parts that are not installed."""
    return [
        Finding(
            "extras",
            Severity.INFO,
            f"the extra '{name}' is not installed: {use}",
            cure=installing(f"homarus[{name}]"),
        )
        for name, (module, use) in _EXTRAS.items()
        if find_spec(module) is None
    ] or ok("extras", "optional parts are installed")
