"""Types as JSON: who reads which, what is told of them, and that nothing that is told refers to what is not there."""

import datetime as dt
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

import homarus
from homarus import Agent, HomarusError, ScriptedModel, ToolContext
from homarus.core.messages import ToolResult
from homarus.runtime.functions import OutputType, function_tool

pydantic = pytest.importorskip("pydantic", reason="pip install pydantic would check this")


class Inner(pydantic.BaseModel):
    x: int


class Outer(pydantic.BaseModel):
    inner: Inner
    when: dt.date = dt.date(2026, 1, 1)


class Node(pydantic.BaseModel):
    name: str
    kids: list["Node"] = []


class A(pydantic.BaseModel):
    kind: Literal["a"] = "a"
    v: int


class B(pydantic.BaseModel):
    kind: Literal["b"] = "b"
    w: str


@pydantic.dataclasses.dataclass
class AtLeastThree:
    n: Annotated[int, pydantic.Field(ge=3)]


@dataclass
class Left:
    x: int


@dataclass
class Right:
    y: str


@dataclass
class Holder:
    outer: Outer
    many: list[Inner] = field(default_factory=list)


@dataclass
class Counts:
    of: dict[int, str] = field(default_factory=dict)


class Struct(msgspec.Struct):
    outer: Outer
    kids: list["Struct"] = []


class OddStruct(msgspec.Struct):
    n: Annotated[int, pydantic.Field(ge=3)]


class Colour(Enum):
    RED = "red"


def references(schema):
    if isinstance(schema, dict):
        return {schema["$ref"]} if "$ref" in schema else set().union(*map(references, schema.values()))
    return set().union(*map(references, schema)) if isinstance(schema, list) else set()


def dangling(schema):
    return references(schema) - {f"#/$defs/{name}" for name in schema.get("$defs", {})}


class TestWhatIsTold:
    @pytest.mark.parametrize(
        "wanted", [list[Outer], Outer | None, dict[str, Outer], Holder, Struct, list[Struct], Node, list[Node], A | B]
    )
    def test_no_reference_dangles(self, wanted):
        assert not dangling(json.loads(OutputType(wanted).schema))

        def take(one, other=None): ...

        take.__annotations__ = {"one": wanted, "other": Outer | None}
        told = function_tool(take).spec.parameters
        assert references(told)
        assert not dangling(told)

    def test_two_types_of_one_name_stay_two(self):
        class Place(msgspec.Struct):
            own: int

        theirs = pydantic.create_model("Place", theirs=(str, ...))

        def take(one: Place, other: theirs): ...

        take.__annotations__ = {"one": Place, "other": theirs}
        told = function_tool(take).spec.parameters
        properties = [set(each["properties"]) for each in told["$defs"].values()]
        assert sorted(map(sorted, properties)) == [["own"], ["theirs"]]

    @pytest.mark.parametrize(
        ("docstring", "said"),
        [
            ("Args:\n        a (int): the number\n          continued\n        b: letter: x\n    ", ""),
            (
                "Do it.\n\n    Arguments:\n        a: the number\n            continued\n        b: letter: x\n",
                "Do it.",
            ),
            (
                "Do it.\n\n    Args:\n        a: the number\n            continued\n        b: letter: x\n\n    Raises:\n",
                "Do it.",
            ),
        ],
    )
    def test_what_a_docstring_says_of_each_parameter(self, docstring, said):
        def take(a: int, b: str = ""): ...

        take.__doc__ = docstring
        spec = function_tool(take).spec
        told = {name: part["description"] for name, part in spec.parameters["properties"].items()}
        assert (spec.description, told) == (said, {"a": "the number continued", "b": "letter: x"})


class TestValues:
    @pytest.mark.parametrize(
        ("wanted", "text", "value"),
        [
            (list[Outer], '[{"inner": {"x": 1}}]', [Outer(inner=Inner(x=1))]),
            (Left | Right, '{"y": "s"}', Right("s")),
            (A | B, '{"kind": "b", "w": "q"}', B(w="q")),
            (Annotated[A | B, pydantic.Field(discriminator="kind")], '{"kind": "b", "w": "q"}', B(w="q")),
            (Struct, '{"outer": {"inner": {"x": 1}}}', Struct(Outer(inner=Inner(x=1)))),
            (Holder, '{"outer": {"inner": {"x": 1}}}', Holder(Outer(inner=Inner(x=1)))),
            (AtLeastThree, '{"n": 3}', AtLeastThree(3)),
            (Path, '"/x"', Path("/x")),
            (Counts, '{"of": {"1": "a"}}', Counts({1: "a"})),
            # Where it stands, and what stands for itself.
            (Left, 'See [1] and {it}: {"x": 3} as in [2].', Left(3)),
            (Left, 'The JSON: {"x": 3}. Hope {that} helps', Left(3)),
            (Left, "[" * 50 + ' {"x": 3}', Left(3)),
            (list[int], "In [1] it says [2, 3].", [2, 3]),
            (str, "hello world", "hello world"),
            (Colour, "red\n", Colour.RED),
            (Literal["good", "bad"], "good", "good"),
        ],
    )
    def test_an_answer(self, wanted, text, value):
        assert OutputType(wanted).parse(text) == value

    @pytest.mark.parametrize(
        ("wanted", "text", "says"),
        [
            (AtLeastThree, '{"n": 1}', "n: Input should be greater than or equal to 3"),
            (Left, 'I say [1]: {"x": "three"}', "Expected `int`"),
            (Left, "I think so", "no JSON"),
            (
                Struct,
                '{"outer": {"inner": {"x": "q"}}}',
                r"inner\.x: Input should be a valid integer, .*at `\$\.outer`",
            ),
        ],
    )
    def test_what_is_wrong_is_said_in_a_line(self, wanted, text, says):
        with pytest.raises(ValueError, match=says) as caught:
            OutputType(wanted).parse(text)
        assert "\n" not in str(caught.value)
        assert "https" not in str(caught.value)


async def called(tmp_path, function, **arguments):
    model = ScriptedModel((function.__name__, arguments), "fin")
    async with Agent.open(env={"HOME": str(tmp_path), "PATH": ""}, model=model, tools=[function]) as agent:
        await agent.ask("go")
    return [each for each in model.requests[-1].messages if isinstance(each, ToolResult)][-1]


NOTHING = object()


class TestDefaults:
    @pytest.mark.parametrize(
        ("hint", "default"),
        [
            (str, None),
            (tuple[int, int], (1, 2)),
            (tuple[int, ...], ()),
            (frozenset[str], frozenset({"a"})),
            (float, math.inf),
            (float, 1),
            (int, True),
            (int, 10**16),
            (Counts, Counts({1: "a"})),
            (Inner, Inner(x=3)),
            (Colour, Colour.RED),
            (list[str], ["a"]),
            (dt.date, dt.date(2026, 1, 1)),
            (Path, Path("/x")),
            (Any, NOTHING),
            (int | None, None),
        ],
    )
    async def test_what_the_model_leaves_out_is_the_functions_own_default(self, tmp_path, hint, default):
        seen = []

        def take(t=default):
            seen.append(t)

        take.__annotations__ = {"t": hint}
        result = await called(tmp_path, take)
        assert not result.is_error, result.text
        assert seen[0] is default

    async def test_a_model_may_say_the_default_or_something_else(self, tmp_path):
        seen = []

        def take(pair: tuple[int, int] = (1, 2), limit: int | None = None) -> None:
            seen.append((pair, limit))

        for given in ({"pair": [1, 2]}, {"pair": [3, 4], "limit": 5}):
            assert not (await called(tmp_path, take, **given)).is_error
        assert seen == [((1, 2), None), ((3, 4), 5)]

    async def test_null_is_a_value_where_it_is_one(self, tmp_path):
        seen = []

        def take(limit: int | None) -> None:
            seen.append(limit)

        assert not (await called(tmp_path, take, limit=None)).is_error
        assert seen == [None]


class TestConstraints:
    @pytest.mark.parametrize(
        ("hint", "wrong", "right"),
        [
            (AtLeastThree, {"n": 1}, {"n": 3}),
            (Annotated[int, pydantic.Field(ge=3)], 1, 3),
            (Annotated[str, pydantic.AfterValidator(lambda text: int(text) and text)], "q", "5"),
        ],
    )
    async def test_those_of_pydantic_hold_for_a_tool(self, tmp_path, hint, wrong, right):
        seen = []

        def take(it) -> None:
            seen.append(it)

        take.__annotations__ = {"it": hint}
        assert (await called(tmp_path, take, it=wrong)).is_error
        assert not (await called(tmp_path, take, it=right)).is_error
        assert len(seen) == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("wanted", "says"),
        [
            (OddStruct, "FieldInfo.*msgspec struct does not look at it"),
            (complex | Left | Right | time.struct_time, "cannot be told"),
        ],
    )
    def test_a_type_that_nobody_reads(self, wanted, says):
        with pytest.raises(HomarusError, match=says):
            OutputType(wanted)

    def test_a_parameter_that_nobody_can_fill_is_named(self):
        def order(thing: Callable[[int], int]) -> None: ...

        with pytest.raises(
            HomarusError, match=r"order: 'thing': a model cannot be told about the type .*Callable"
        ) as caught:
            function_tool(order)
        assert "schema_hook" not in str(caught.value)

    def test_a_function_that_does_not_say_what_it_takes(self):
        with pytest.raises(HomarusError, match="sleep: nobody says which parameters it takes"):
            function_tool(time.sleep)

    def test_a_field_as_a_default_is_refused_with_its_cure(self):
        def order(number: int = pydantic.Field(3, ge=1)) -> None: ...

        with pytest.raises(HomarusError, match=r"order: 'number' .*write number: Annotated"):
            function_tool(order)

    def test_a_context_may_be_optional_and_any_name_will_do(self):
        def order(_thing: str, context: ToolContext | None = None) -> None: ...

        assert list(function_tool(order).spec.parameters["properties"]) == ["_thing"]


def test_without_pydantic_what_it_would_make_possible_is_said():
    program = """
import sys
sys.modules["pydantic"] = None
from dataclasses import dataclass
from homarus import HomarusError
from homarus.runtime.functions import OutputType

@dataclass
class Left:
    x: int

@dataclass
class Right:
    y: str

assert OutputType(Left | None).parse('{"x": 1}') == Left(1)
try:
    OutputType(Left | Right)
except HomarusError as problem:
    print(problem)
"""
    env = {"PYTHONPATH": str(Path(homarus.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert "more than one dataclass" in done.stdout
    assert "pip install pydantic" in done.stdout
