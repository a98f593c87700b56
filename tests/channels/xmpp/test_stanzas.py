"""Stanzas of XMPP: what strangers may send, and what goes out."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.channels.xmpp import stanzas
from homarus.core.errors import DeliveryFailure
from homarus.core.messages import Media


def read(inner="", **attributes):
    given = {"from": "ada@x.example/phone", "id": "m1", "type": "chat"} | attributes
    words = " ".join(f"{name}='{value}'" for name, value in given.items())
    return stanzas.read(ET.fromstring(f"<message xmlns='jabber:client' {words}>{inner}</message>"))


def test_a_message_and_its_ids():
    said = read(
        "<body>hi</body><stanza-id xmlns='urn:xmpp:sid:0' id='s1' by='Me@x.example'/><stanza-id xmlns='urn:xmpp:sid:0' id='evil' by='eve@x.example'/>"
    )
    assert (said.bare, said.nick, said.body, said.id, said.ids["me@x.example"]) == (
        "ada@x.example",
        "phone",
        "hi",
        "m1",
        "s1",
    )
    assert read("<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>", id="").id == "o1"


def test_an_answer_loses_the_words_that_it_quotes():
    reply = "<reply xmlns='urn:xmpp:reply:0' id='m0' to='me@x'/>"
    cut = "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='6'/></fallback>"
    assert (read(f"<body>&gt; old\nnew</body>{reply}{cut}").body, read(f"<body>x</body>{reply}").answers) == (
        "new",
        "m0",
    )
    for bad in ("start='9' end='2'", "start='-1' end='3'", "start='x'", "end='999'"):
        wrong = cut.replace("start='0' end='6'", bad)
        assert read(f"<body>&gt; old\nnew</body>{reply}{wrong}").body == "> old\nnew"
    assert read(f"<body>&gt; old\nnew</body>{cut}").body == "> old\nnew"


def test_corrections_retractions_and_reactions():
    assert read("<body>b</body><replace xmlns='urn:xmpp:message-correct:0' id='m0'/>").replaces == "m0"
    assert read("<retract xmlns='urn:xmpp:message-retract:1' id='m0'/>").retracts == "m0"
    said = read(
        "<reactions xmlns='urn:xmpp:reactions:0' id='m0'><reaction>👍</reaction><reaction> </reaction><reaction>❤</reaction></reactions>"
    )
    assert (said.reacts_to, said.reactions) == ("m0", {"👍", "❤"})


def test_a_file_and_the_words_beside_it():
    oob = "<x xmlns='jabber:x:oob'><url>https://up.example/a%20b.png</url></x>"
    said = read(f"<body>https://up.example/a%20b.png</body>{oob}")
    assert stanzas.text_of(said) == ""
    assert stanzas.media_of(said) == (Media("image", "image/png", "a b.png", ref="https://up.example/a%20b.png"),)
    assert stanzas.media_of(read("<x xmlns='jabber:x:oob'><url>file:///etc/passwd</url></x>")) == ()
    assert stanzas.media_of(read("<body>https://up.example/a.png</body>")) == ()


def test_an_error_says_why():
    error = "<error xmlns='jabber:client' type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>full</text></error>"
    assert read(error, type="error").error == "full (resource-constraint)"
    assert read("", type="error").error == "undefined-condition"
    assert read(error).error == ""


@pytest.mark.parametrize(
    ("condition", "kind", "failure"),
    [
        ("resource-constraint", "wait", DeliveryFailure.RATE_LIMIT),
        ("policy-violation", "wait", DeliveryFailure.RATE_LIMIT),
        ("policy-violation", "modify", DeliveryFailure.REFUSED),
        ("internal-server-error", "wait", DeliveryFailure.TRANSIENT),
        ("internal-server-error", "cancel", DeliveryFailure.TRANSIENT),
        ("remote-server-timeout", "wait", DeliveryFailure.TRANSIENT),
        ("service-unavailable", "cancel", DeliveryFailure.REFUSED),
    ],
)
def test_what_may_be_tried_again(condition, kind, failure):
    inner = f"<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
    xml = f"<message xmlns='jabber:client' type='error'><error type='{kind}'>{inner}</error></message>"
    assert stanzas.failure(ET.fromstring(xml)) is failure


def test_when_it_was_said():
    assert read("<delay xmlns='urn:xmpp:delay' stamp='2026-01-02T03:04:05Z'/>").delayed == 1767323045000
    assert read("<delay xmlns='urn:xmpp:delay' stamp='yesterday'/>").delayed == 0


_names = st.sampled_from(
    [
        "{jabber:client}body",
        "{jabber:client}error",
        "{jabber:client}subject",
        "{urn:xmpp:reply:0}reply",
        "{urn:xmpp:fallback:0}fallback",
        "{urn:xmpp:fallback:0}body",
        "{urn:xmpp:reactions:0}reactions",
        "{urn:xmpp:reactions:0}reaction",
        "{urn:xmpp:delay}delay",
        "{urn:xmpp:sid:0}stanza-id",
        "{jabber:x:oob}x",
        "{jabber:x:oob}url",
        "{urn:xmpp:message-correct:0}replace",
    ]
)
_attributes = st.dictionaries(
    st.sampled_from(["id", "by", "for", "start", "end", "stamp", "type", "from", "to"]),
    st.text(max_size=10),
    max_size=4,
)


@st.composite
def _elements(draw, depth=2):
    made = ET.Element(draw(_names), draw(_attributes))
    made.text = draw(st.none() | st.text(max_size=12))
    if depth:
        made.extend(draw(st.lists(_elements(depth=depth - 1), max_size=3)))
    return made


@given(_attributes, st.lists(_elements(), max_size=5))
def test_no_stanza_breaks_anything(attributes, children):
    xml = ET.Element("{jabber:client}message", attributes)
    xml.extend(children)
    said = stanzas.read(xml)
    stanzas.text_of(said)
    assert all("\n" not in one.name and one.ref.startswith("http") for one in stanzas.media_of(said))
    stanzas.failure(xml)


@given(st.text(), st.text(max_size=20))
def test_whatever_is_sent_is_xml(text, id_):
    for made in (
        stanzas.body(text),
        stanzas.reply(id_, text),
        stanzas.reactions(id_, [text]),
        stanzas.file_address(text),
    ):
        back = ET.fromstring(ET.tostring(made))
        assert back.tag == made.tag
    kept = ET.fromstring(ET.tostring(stanzas.body(text))).text or ""
    assert kept.replace("\n", "") == stanzas.sendable(text).replace("\r\n", "").replace("\r", "").replace("\n", "")


@pytest.mark.parametrize("letter", ["\x00", "\x0b", "\x1b", "\ud800", "\ufffe"])
def test_what_would_end_the_connection_is_left_out(letter):
    assert stanzas.sendable(f"a{letter}b") == "ab"
