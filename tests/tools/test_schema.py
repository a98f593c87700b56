import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.errors import ToolError
from homarus.tools.schema import fit, usage

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "edits": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]},
        },
        "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
    },
    "required": ["path"],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def good(arguments: object) -> dict[str, object]:
    return fit(arguments, SCHEMA, aliases={"file_path": "path", "filename": "path"}, tool="t")


@pytest.mark.parametrize(
    ("arguments", "fitted"),
    [
        ({"path": "a"}, {"path": "a"}),
        ({"file_path": "a"}, {"path": "a"}),
        ('{"path": "a"}', {"path": "a"}),
        ({"path": "a", "limit": "5"}, {"path": "a", "limit": 5}),
        ({"path": "a", "limit": 5.0}, {"path": "a", "limit": 5}),
        ({"path": "a", "ratio": "0.5"}, {"path": "a", "ratio": 0.5}),
        ({"path": "a", "deep": "true"}, {"path": "a", "deep": True}),
        ({"path": "a", "limit": None}, {"path": "a"}),
        ({"path": "a", "edits": '[{"old": "x"}]'}, {"path": "a", "edits": [{"old": "x"}]}),
        ({"path": "a", "edits": {"old": "x"}}, {"path": "a", "edits": [{"old": "x"}]}),
        ({"path": "a", "either": ["x"]}, {"path": "a", "either": ["x"]}),
    ],
)
def test_what_has_one_reading_is_read_so(arguments: object, fitted: dict[str, object]) -> None:
    assert good(arguments) == fitted


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "'path' is missing"),
        ({"path": ""}, "'path' must not be empty"),
        ({"path": 5}, "'path' must be a text"),
        ({"path": "a", "limit": 0}, "at least 1"),
        ({"path": "a", "limit": 101}, "at most 100"),
        ({"path": "a", "limit": "many"}, "a whole number"),
        ({"path": "a", "limit": True}, "a whole number"),
        ({"path": "a", "mode": "c"}, "one of a, b"),
        ({"path": "a", "edits": [{}]}, "'edits[0].old' is missing"),
        ({"path": "a", "edits": [{"old": "1"}] * 3}, "at most 2 items"),
        ({"path": "a", "pth": "b"}, "no argument 'pth'"),
        ({"path": "a", "either": {}}, "'either"),
        ({"path": "a", "limit": 10**400}, "no number that means anything"),
        ({"path": "a", "ratio": float("nan")}, "no number that means anything"),
        ({"path": "a", "ratio": "-inf"}, "no number that means anything"),
        ({"path": "a\ud800"}, "half a character"),
        ({"path": "a", "edits": [{"old": "\udfff"}]}, "half a character"),
        ({"path": "a", "edits": '[{"old": "\\udfff"}]'}, "half a character"),
        ({"path": "a", "either": [{"\udfff": 1}]}, "half a character"),
        ({"path": "a", "\ud800": 1}, "there is no argument '?'"),
        ({"file_path": "a", "filename": "b"}, "given twice"),
        (["path"], "must be an object"),
        ("not json", "must be an object"),
        (None, "must be an object"),
    ],
)
def test_a_wrong_call_is_told_how_to_call_right(arguments: object, says: str) -> None:
    with pytest.raises(ToolError) as caught:
        good(arguments)
    assert says in caught.value.message
    assert caught.value.cure.startswith("call t(path: string, limit?: integer")


def test_the_first_items_of_a_list_may_have_forms_of_their_own() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}
    schema = {"type": "object", "properties": {"pair": pair}}
    assert fit({"pair": ["1", "a"]}, schema, aliases={}, tool="t") == {"pair": [1, "a"]}
    with pytest.raises(ToolError, match=r"'pair\[0\]' must be a whole number"):
        fit({"pair": ["a", "b"]}, schema, aliases={}, tool="t")


@pytest.mark.parametrize("default", [None, 10**16, [1, 2]])
def test_a_default_is_right_as_it_is_also_when_it_is_looked_at_again(default: object) -> None:
    schema = {"type": "object", "properties": {"it": {"type": "string", "default": default}}}
    once = fit({}, schema, aliases={}, tool="t")
    assert once == fit(once, schema, aliases={}, tool="t") == {"it": default}


def test_null_is_a_kind() -> None:
    either = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema = {"type": "object", "properties": {"it": either}, "required": ["it"]}
    assert fit({"it": None}, schema, aliases={}, tool="t") == {"it": None}


@given(JSON)
def test_any_json_fits_or_helps(arguments: object) -> None:
    try:
        good(arguments)
    except ToolError as problem:
        assert usage(SCHEMA, "t") == problem.cure


@pytest.mark.parametrize("given", [{}, {"path": ""}, {"path": " "}, {"path": None}])
def test_a_default_stands_for_what_is_not_given(given: dict[str, object]) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "default": "."}}}
    assert fit(given, schema, aliases={}, tool="t") == {"path": "."}
    assert fit({"path": "a"}, schema, aliases={}, tool="t") == {"path": "a"}
