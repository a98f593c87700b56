"""Who sees which file: the table of sessions, and nothing private where others read along."""

from __future__ import annotations

import pytest

from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.workspace import names
from homarus.workspace.audience import Audience

ALL = set(names.LOADED)
NO_MEMORY = ALL - {names.MEMORY, names.MEMORY_LOWER}
RULES = {names.AGENTS, names.TOOLS}
SHARED = NO_MEMORY - {names.HEARTBEAT}


def seen(key: str | None, **facts) -> set[str]:
    session = SessionKey.parse(key) if key is not None else None
    facts = {"trust": Trust.OWNER, "chat_type": "direct", **facts}
    return {name for name in names.LOADED if Audience(session=session, **facts).may_see(name)}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("main", ALL),
        ("agent:main:main", ALL),
        ("agent:main:direct:anna", ALL),
        ("agent:main:telegram:direct:42", ALL),
        ("agent:main:explicit:work", ALL),
        ("agent:main:telegram:group:-100", SHARED),
        ("agent:main:telegram:group:-100:topic:7", SHARED),
        ("agent:main:discord:channel:99:thread:1", SHARED),
        ("agent:main:matrix:room:!x:example.org", SHARED),
        ("agent:main:subagent:7f", RULES),
        ("agent:main:cron:job1", RULES),
        ("agent:main:cron:job1:run:2", RULES),
        ("cron:job1", RULES),
        ("agent:main:hook:abc", NO_MEMORY),
        ("agent:main:boot:1", NO_MEMORY),
        ("agent:main:heartbeat:1", NO_MEMORY),
        ("agent:main:something:odd", NO_MEMORY),
        ("global", NO_MEMORY),
        (None, NO_MEMORY),
    ],
)
def test_the_session_decides(key, expected):
    assert seen(key) == expected


@pytest.mark.parametrize("key", ["main", "agent:main:direct:anna", "agent:main:explicit:work"])
@pytest.mark.parametrize("trust", [Trust.PAIRED, Trust.GROUP, Trust.EXTERNAL, None])
def test_nobody_but_the_owner_is_shown_what_is_private(key, trust):
    assert seen(key, trust=trust) == SHARED
    assert not Audience(SessionKey.parse(key), trust, "direct").sees_memory


def test_what_is_not_known_gives_fewer_rights():
    assert seen("main", chat_type="") == SHARED
    assert seen("main", chat_type="supergroup") == SHARED
    assert not Audience(SessionKey.parse("main")).sees_memory
    assert not Audience(None, Trust.OWNER, "direct").sees_memory


@pytest.mark.parametrize("chat", ["group", "channel", "room"])
def test_a_group_that_speaks_into_the_main_session_is_still_a_group(chat):
    assert seen("main", chat_type=chat) == SHARED


def test_a_cron_job_can_be_given_the_persona():
    assert seen("cron:1", cron_persona=True) == RULES | {names.SOUL, names.IDENTITY, names.USER}
    assert seen("agent:main:subagent:1", cron_persona=True) == RULES


def test_light_context_is_the_heartbeat_list_or_nothing():
    assert seen("main", light=True, heartbeat=True) == {names.HEARTBEAT}
    assert seen("cron:1", light=True) == set()
    assert seen("main", light=True) == set()


def test_case_and_folders_do_not_hide_the_memory():
    group = Audience(session=SessionKey.parse("agent:main:x:group:1"))
    assert not group.may_see("Memory.MD")
    assert not group.may_see("packages/a/MEMORY.md")
    assert group.may_see("notes.md")
