"""`homarus sessions rename|delete|resume`: name a conversation, put it away, go on with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from homarus.cli import complete
from homarus.cli.app import App
from homarus.cli.options import filled, with_json
from homarus.cli.output import age, hushed
from homarus.cli.sessions_show import home_of, last_words
from homarus.core.errors import Locked, Unknown
from homarus.sessions.entry import MessageEntry
from homarus.sessions.home import SessionHome
from homarus.sessions.log import load_tail
from homarus.sessions.places import Kind, Place, owner_of, visit
from homarus.sessions.store import HEX_ID, short_id

if TYPE_CHECKING:
    from homarus.cli.chat_picker import Choice

OFFERED = 15  # conversations to choose from

_agent = click.option(
    "--agent", metavar="ID", default="", help="Whose session.", shell_complete=complete.agents, callback=filled
)


@click.command()
@click.argument("session", shell_complete=complete.sessions, callback=filled)
@click.argument("name", nargs=-1, required=True)
@_agent
@with_json
def rename(app: App, session: str, name: tuple[str, ...], agent: str, as_json: bool) -> None:
    """Give a session a name, by which it can be called from then on; '' takes it away."""
    home = home_of(app)
    info = home.resolve(session, agent)
    done = app.ask_gateway("home.rename", session=info.name, label=" ".join(name))
    label = done["label"] if done else home.store(info.agent_id).rename(info.key, " ".join(name)).entry.label
    said = f"{info.name} is now called “{label}”." if label else f"{info.name} has no name any more."
    app.out.answer({"key": info.name, "label": label}, said, as_json=as_json)


@click.command()
@click.argument("session", shell_complete=complete.conversations, callback=filled)
@click.option("--yes", is_flag=True, help="Do not ask before an archive is deleted for good.")
@_agent
@with_json
def delete(app: App, session: str, yes: bool, agent: str, as_json: bool) -> None:
    """Take a session off the list; its transcript becomes an archive. An archive is deleted for good.

    'homarus sessions resume' brings back what only became an archive.
    """
    home = home_of(app)
    place = home.place(session, agent)
    if place.kind is Kind.FILE and place.agent_id:
        info = home.resolve(session, agent)
        # A gateway that has it open ends what runs there first.
        done = app.ask_gateway("home.delete", session=info.name)
        if done is None and (pid := owner_of(place.path)) is not None:
            raise Locked(f"{info.name} is open in process {pid}", pid=pid, cure="leave the chat there first")
        put = None if done else home.store(info.agent_id).delete(info.key)
        path = done["archive"] if done else str(put.path) if put else None
        again = f" 'homarus sessions resume {short_id(info.entry.session_id)}' brings it back." if path else ""
        found = {"key": info.name, "archive": path}
        app.out.answer(found, f"{info.name} is off the list.{again}", as_json=as_json)
        return
    if place.kind is Kind.DATABASE or not place.agent_id:
        raise Unknown(f"{place.path} is only read", cure="delete it where it was made")
    if not _is_exact(session, place):
        # The same command twice must not delete for good what it only put away.
        it = short_id(place.session_id) if HEX_ID.fullmatch(place.session_id.lower()) else place.path.name
        cure = f"'homarus sessions resume {it}' brings it back, 'homarus sessions delete {it}' deletes it for good"
        raise Unknown(f"'{session}' was put away already", cure=cure)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise click.UsageError(f"{place.label} would be gone for good; add --yes")
        with hushed():
            click.confirm(f"Delete {place.label} for good?", abort=True, err=True)
    place.path.unlink()
    app.out.answer({"key": None, "deleted": str(place.path)}, f"{place.label} is gone.", as_json=as_json)


def _is_exact(text: str, place: Place) -> bool:
    """Say whether somebody named what was put away by its id or its file, and not by what it was called."""
    ident, wanted = place.session_id.lower(), text.strip().lower()
    made = HEX_ID.fullmatch(ident) is not None
    return text in {place.path.name, str(place.path)} or (made and ident.startswith(wanted))


@click.command()
@click.argument("session", required=False, default="", shell_complete=complete.conversations, callback=filled)
@_agent
@with_json
def resume(app: App, session: str, agent: str, as_json: bool) -> int:
    """Go on with a conversation, also with one that was put away. Without SESSION: choose from a list.

    One that was put away goes on as a session of its own, under its old name; the archive stays as it is. With --json only
    its key is printed.
    """
    home = home_of(app)
    person = sys.stdin.isatty() and app.out.out.isatty()
    if not session and (as_json or not person):
        raise click.UsageError("say which session; 'homarus sessions list --all' shows them")
    place = home.place(session, agent) if session else _picked(app, home, agent)
    info = home.revive(place)
    if as_json:
        app.out.json({"key": info.name, "sessionId": info.entry.session_id})
        return 0
    if not person:  # a chat shows them itself
        last_words(app, info.place)
        app.out.hint(f"homarus chat --session {info.name}")
        return 0
    from homarus.cli.chat import talk_with

    return asyncio.run(talk_with(app, "", info.name))


class Archives:
    """What was put away in this home, as the list of a chat offers it, and what was said in all its conversations."""

    def __init__(self, app: App) -> None:
        self._home = home_of(app)
        self._own_dir = app.paths.own_dir
        self.places: dict[str, Place] = {}

    def choices(self, agent: str, now: float) -> list[Choice]:
        """Return an agent's conversations that were ended, the newest first."""
        away = self._ended([agent])
        away.sort(key=lambda place: place.path.stat().st_mtime if place.path.exists() else 0, reverse=True)
        self.places |= {str(place.path): place for place in away[:OFFERED]}
        return [_choice(str(place.path), place, self._name(place), now, is_away=True) for place in away[:OFFERED]]

    def _ended(self, agents: Sequence[str]) -> list[Place]:
        """Return what was put away and did not go on since."""
        revived = {(info.row.get("forkedFrom") or {}).get("sessionId") for info in self._home.list(agents)}
        return [place for place in self._home.archives(agents) if place.session_id not in revived]

    def _name(self, place: Place) -> str:
        return f"{self._home.title(place) or short_id(place.session_id)} (put away)"

    def holding(self, words: str, agents: Sequence[str], now: float) -> list[Choice]:
        from homarus.cli.chat_picker import Choice
        from homarus.sessions.search import SessionSearch, name_of

        every = self._home.list(orphans=True)
        with SessionSearch.of_home(self._own_dir) as index:
            index.refresh([*(info.place for info in every), *self._home.archives()])
            hits = index.conversations(words, agents=agents)
        living = {name_of(info.place): info for info in every}
        ended = {name_of(place): place for place in self._ended(agents)}
        found = []
        for hit in hits:
            when = age(now - hit.time / 1000) if hit.time else ""
            if info := living.get(hit.place):
                name = info.title or info.name.removeprefix(f"agent:{info.agent_id}:")
                found.append(Choice(info.name, name, when, hit.snippet))
            elif place := ended.get(hit.place):
                self.places[str(place.path)] = place
                found.append(Choice(str(place.path), self._name(place), when, hit.snippet, is_away=True))
        return found

    def revive(self, choice: Choice) -> str:
        return self._home.revive(self.places[choice.key]).name


def _picked(app: App, home: SessionHome, agent: str) -> Place:
    """Let the person choose from the list that the chat shows, with what was put away below what lives."""
    from homarus.cli.chat_picker import Picker

    agents, now, archives = home.agents(agent), app.clock.now().timestamp(), Archives(app)
    living = {info.name: info for info in home.list(agents, orphans=True)}
    choices = [_choice(name, info.place, info.title or name, now) for name, info in [*living.items()][:OFFERED]]
    for each in agents:
        choices += archives.choices(each, now)
    if not choices:
        raise Unknown("there is no conversation yet", cure="'homarus chat' begins one")
    picker = Picker(choices, color=app.out.color, look=lambda words: archives.holding(words, agents, now))
    chosen = asyncio.run(picker.run())
    if chosen is None:
        raise click.Abort
    return archives.places[chosen.key] if chosen.is_away else living[chosen.key].place


def _choice(key: str, place: Place, name: str, now: float, *, is_away: bool = False) -> Choice:
    from homarus.cli.chat_picker import Choice, newest_words

    with visit(place) as source:
        messages = [entry.message for entry in load_tail(source).entries if isinstance(entry, MessageEntry)]
        said = newest_words([message for message in messages if message])
    when = age(now - place.path.stat().st_mtime) if place.path.exists() else ""
    return Choice(key, name, when, said, is_away)
