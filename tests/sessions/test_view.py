from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.lines import entry, result, says, user

from homarus.sessions.codec import SYNTHETIC
from homarus.sessions.entry import to_entry
from homarus.sessions.repair import OPENAI, STRICT, repair
from homarus.sessions.view import History, View, project

CALLS = st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=2)


@st.composite
def turns(draw):
    rows = []
    for number in range(draw(st.integers(0, 12))):
        ident, parent = f"e{number}", f"e{number - 1}" if number else None
        kind = draw(
            st.sampled_from(
                ["user", "says", "says", "result", "result", "missing", "nameless", "note", "carrier", "failed"]
            )
        )
        if kind == "user":
            rows.append(user(ident, parent))
        elif kind == "says":
            rows.append(says(ident, parent, calls=draw(CALLS)))
        elif kind == "result":
            rows.append(result(ident, parent, draw(st.sampled_from(["c1", "c2", "c3", "zz"]))))
        elif kind == "missing":
            rows.append(result(ident, parent, draw(st.sampled_from(["c1", "c2"]))))
            rows[-1]["message"] |= {"isError": True, "details": {SYNTHETIC: True}}
        elif kind == "nameless":
            rows.append(result(ident, parent, ""))
        elif kind == "note":
            rows.append(entry("custom", ident, parent, customType="x"))
        elif kind == "carrier":
            rows.append(entry("custom_message", ident, parent, customType="openclaw.runtime-context", content="ctx"))
        else:
            rows.append(says(ident, parent, calls=draw(CALLS), stopReason=draw(st.sampled_from(["error", "aborted"]))))
    return [to_entry(row) for row in rows]


@given(turns(), st.integers(0, 12), st.sampled_from([STRICT, OPENAI]), st.sets(st.integers(0, 12)))
def test_growing_equals_repairing_all_of_it(entries, split, rules, unasked):
    history = History(View(None, (), tuple(entries[:split])), rules)
    for place, one in enumerate(entries[split:], start=min(split, len(entries)) + 1):
        if not history.extend(one):
            history = History(View(None, (), tuple(entries[:place])), rules)
        if place not in unasked:
            assert history.messages == repair(project(View(None, (), tuple(entries[:place]))), rules)
    assert history.messages == repair(project(View(None, (), tuple(entries))), rules)


def test_a_settled_turn_is_not_touched_again():
    rows = []
    for i in range(50):
        rows += [
            user(f"u{i}", None),
            says(f"a{i}", None, calls=(f"c{i}",)),
            result(f"r{i}", None, f"c{i}"),
            says(f"b{i}", None),
        ]
    history = History(View(None, (), tuple(to_entry(row) for row in rows)))
    before = history.messages
    history.extend(to_entry(user("next", None)))
    after = history.messages
    assert all(old is new for old, new in zip(before[:-4], after, strict=False))
