"""Plain Python for an agent: a function becomes a tool, a type becomes the form of an answer."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, get_args, get_type_hints

import msgspec

from homarus.core.beside import beside_the_loop
from homarus.core.errors import HomarusError, ToolError
from homarus.core.text import single_line
from homarus.core.tools import Risk, RiskName, ToolSpec
from homarus.runtime.forms import Forms, as_json, whole
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

GROUP = "program"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):[ \t]*$", re.MULTILINE)
_RETURNS = re.compile(r"^Returns:[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"[A-Z]\w*:\s*")
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s+(\S.*)")
MOST_BRACKETS = 200  # that are looked at in an answer: each may be read to the end of the text
_BRACKET = re.compile(r"[{\[]")
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def function_tool(
    function: Callable[..., Any], *, name: str = "", risk: RiskName = "write", trusted: bool = False, ask: bool = False
) -> Tool:
    """Return a function as a tool: its name, its docstring and its annotations are what the model is told.

    A parameter that is annotated `ToolContext` is filled in by us and not shown. What the function returns counts as
    written by strangers unless it is `trusted`; with `ask` a person is asked before each call.
    """
    if not callable(function):
        raise TypeError(f"a tool must be a function, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("a tool must return its result, and a generator yields it; return a list")
    if risk not in set(Risk):
        raise HomarusError(f"risk={risk!r} is no risk of a tool", cure=f"there are {', '.join(Risk)}")
    called = name or getattr(function, "__name__", type(function).__name__)
    if not _NAME.fullmatch(called):
        raise HomarusError(f"'{called}' is no name for a tool", cure="letters, digits, _ and -; a lambda needs name=")
    summary, described = _docstring(function)
    takes = _Parameters(function, called)
    schema = takes.schema
    for each, text in described.items():
        if each in schema["properties"]:
            schema["properties"][each].setdefault("description", text)

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        values = takes.values(arguments)
        if takes.context:
            values[takes.context] = context
        with context.cancel.interrupting():
            result = await _called(function, values)
        return said(_text(result))

    spec = ToolSpec(called, summary, schema, single_line(summary, 100))
    return Tool(spec=spec, risk=Risk(risk), run=run, group=GROUP, taints=not trusted, asks=ask)


class _Parameters:
    """What a function takes: what a model is told of it, and how its arguments become the function's."""

    def __init__(self, function: Callable[..., Any], called: str) -> None:
        self._called = called
        self.context = ""  # the parameter that we fill in
        hints, known = dict[str, Any](), _annotations(function, called)
        defaults = dict[str, Any]()
        for parameter in _signature(function, called):
            if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
                raise HomarusError(f"{called}: a model gives arguments by name, so '{parameter}' cannot be filled")
            hint = known.get(parameter.name, Any)
            if ToolContext in (hint, *get_args(hint)):
                self.context = parameter.name
                continue
            hints[parameter.name] = hint
            if parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
            if type(parameter.default).__name__ == "FieldInfo":
                cure = f"write {parameter.name}: Annotated[…, Field(…)], and the default behind it"
                raise HomarusError(f"{called}: '{parameter.name}' has a Field of pydantic as its default", cure=cure)
        self._forms = Forms(hints, where=called)
        # What a model is told of the defaults. One that no JSON is stays untold, and holds all the same.
        self._told = dict[str, Any]()
        for name, default in defaults.items():
            with suppress(ValueError):
                self._told[name] = self._forms.plain(name, default)
        properties = {name: dict(schema) for name, schema in self._forms.schemas.items()}
        for name, default in self._told.items():
            properties[name]["default"] = default
        self._required = [name for name in hints if name not in defaults]
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: properties[name] for name in hints},
            "required": self._required,
            "additionalProperties": False,
        }
        if self._forms.shared:
            self.schema["$defs"] = self._forms.shared

    def values(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return what the function is called with. What a model leaves out is the function's own default."""
        values = {}
        for name, given in arguments.items():
            if name in self._told and repr(given) == repr(self._told[name]):
                continue
            try:
                values[name] = self._forms.convert(name, given)
            except ValueError as problem:
                raise ToolError(f"{self._called}: '{name}': {problem}") from None
        return values


async def _called(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    try:
        result = await beside_the_loop(partial(function, **values))
        return await result if inspect.isawaitable(result) else result
    except RuntimeError as problem:
        if isinstance(problem.__cause__, KeyboardInterrupt | SystemExit):
            raise problem.__cause__ from None  # here it is caught as that of an async function is
        raise


def _signature(function: Callable[..., Any], called: str) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except ValueError:
        cure = "call it from a function of your own, whose parameters are annotated"
        raise HomarusError(f"{called}: nobody says which parameters it takes", cure=cure) from None


def _annotations(function: Callable[..., Any], called: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as problem:
        cure = "import it when the program runs, at the top of the module that has the function"
        raise HomarusError(f"{called}: an annotation cannot be read: {problem}", cure=cure) from None
    except TypeError as problem:
        raise HomarusError(
            f"{called}: its annotations cannot be read: {problem}", cure="give a plain function"
        ) from None


class OutputType:
    """The form that an answer must have: what the model is told of it, and how its text becomes a value."""

    def __init__(self, wanted: Any) -> None:
        self._forms = Forms({"": wanted})
        schema = whole(self._forms.schemas[""], self._forms.shared)
        self.schema = msgspec.json.encode(schema, order="deterministic").decode()

    def parse(self, text: str) -> Any:
        """Return the value that a text holds; raises `ValueError` that tells the model what is wrong with it."""
        problem = ""
        for value in _found(text):
            try:
                return self._forms.convert("", value)
            except ValueError as failed:
                problem = problem or str(failed)
        try:
            return self._forms.convert("", text.strip())  # words that stand for themselves: a text, one of a choice
        except ValueError as failed:
            raise ValueError(problem or f"there is no JSON in it, and of the text: {failed}") from None


def _found(text: str) -> Iterator[Any]:
    """Yield the values that a text may mean, likeliest first: all of it, what is fenced, and what stands in the prose."""
    for whole_text in dict.fromkeys([text, *reversed(_FENCE.findall(text))]):
        with suppress(msgspec.DecodeError, ValueError):
            yield msgspec.json.decode(whole_text.strip())
    pieces, at, tries = list[str](), 0, 0
    reader = json.JSONDecoder()
    while tries < MOST_BRACKETS and (bracket := _BRACKET.search(text, at)):
        at, tries = bracket.end(), tries + 1
        with suppress(ValueError, RecursionError):
            _, at = reader.raw_decode(text, bracket.start())
            pieces.append(text[bracket.start() : at])
    pieces.reverse()
    for piece in sorted(pieces, key=len, reverse=True):
        with suppress(msgspec.DecodeError, ValueError):
            yield msgspec.json.decode(piece)


def _text(result: Any) -> str:
    if result is None:
        return "done"
    if isinstance(result, str):
        return result
    return msgspec.json.encode(result, enc_hook=as_json).decode()


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what a docstring says about a function, and what its `Args:` say about each parameter."""
    text = inspect.getdoc(function) or ""
    heading = _ARGUMENTS.search(text)
    body, listed = (text[: heading.start()], text[heading.end() :]) if heading else (text, "")
    described: dict[str, str] = {}
    newest, depth = "", -1
    for line in filter(str.strip, listed.splitlines()):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth < 0 else depth
        # Where a docstring begins with the heading, nothing is left of the indentation of what stands below it.
        if indent < depth or _HEADING.fullmatch(line) or (not indent and body):
            break
        found = _PARAMETER.fullmatch(line.strip()) if indent == depth else None
        if found:
            newest = found[1]
            described[newest] = found[2].strip()
        elif newest:
            described[newest] += f" {line.strip()}"
    return _RETURNS.split(body)[0].strip(), described
