"""Plain Python for an agent: a function becomes a tool, a type becomes the form of an answer.

Types are those of msgspec (dataclasses, structs, typed dicts, enums, lists …) and pydantic's models.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import msgspec

from homarus.core.beside import beside_the_loop
from homarus.core.errors import HomarusError, ToolError
from homarus.core.text import single_line
from homarus.core.tools import Risk, RiskName, ToolSpec
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

GROUP = "program"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_PARAMETER = re.compile(r"\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s+(\S.*)")
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
    hints = _annotations(function, called)
    fields: list[Any] = []
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            raise HomarusError(f"{called}: a model gives arguments by name, so '{parameter}' cannot be filled")
        hint = hints.get(parameter.name, Any)
        if hint is ToolContext:
            context_name = parameter.name
            continue
        default = () if parameter.default is parameter.empty else (parameter.default,)
        fields.append((parameter.name, hint, *default))
    arguments_type = msgspec.defstruct(called, sorted(fields, key=len), forbid_unknown_fields=True, kw_only=True)
    schema = _schema(arguments_type)
    for each, text in described.items():
        if each in schema["properties"]:
            schema["properties"][each].setdefault("description", text)

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        try:
            values = msgspec.structs.asdict(_convert(arguments, arguments_type))
        except (msgspec.ValidationError, ValueError) as problem:
            raise ToolError(f"{called}: {single_line(str(problem), 400)}") from None
        if context_name:
            values[context_name] = context
        with context.cancel.interrupting():
            result = await _called(function, values)
        return said(_text(result))

    spec = ToolSpec(called, summary, schema, single_line(summary, 100))
    return Tool(spec=spec, risk=Risk(risk), run=run, group=GROUP, taints=not trusted, asks=ask)


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
        self._wanted = wanted
        self.schema = msgspec.json.encode(_schema(wanted), order="deterministic").decode()

    def parse(self, text: str) -> Any:
        """Return the value that a text holds; raises `ValueError` that tells the model what is wrong with it."""
        fenced = _FENCE.findall(text)
        bare = fenced[-1] if fenced else text
        start = min((at for at in (bare.find("{"), bare.find("[")) if at >= 0), default=0)
        end = max(bare.rfind("}"), bare.rfind("]")) + 1
        problem: Exception | None = None
        for candidate in dict.fromkeys((bare.strip(), bare[start:end])):
            try:
                return _convert(msgspec.json.decode(candidate), self._wanted)
            except (msgspec.DecodeError, ValueError) as failed:
                problem = problem or failed
        raise ValueError(single_line(str(problem), 400))


def _is_pydantic(wanted: Any) -> bool:
    pydantic = sys.modules.get("pydantic")  # whoever passes a model of it has imported it
    return pydantic is not None and isinstance(wanted, type) and issubclass(wanted, pydantic.BaseModel)


def _schema(wanted: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, the outermost object written out and not as a reference."""

    def foreign(kind: Any) -> dict[str, Any]:
        if _is_pydantic(kind):
            found: dict[str, Any] = kind.model_json_schema()
            return found
        raise NotImplementedError

    try:
        schema = foreign(wanted) if _is_pydantic(wanted) else msgspec.json.schema(wanted, schema_hook=foreign)
    except (TypeError, NameError) as problem:
        cure = "take a dataclass, a msgspec struct, a typed dict or a pydantic model whose annotations can be read"
        raise HomarusError(f"a model cannot be told about this type: {problem}", cure=cure) from None
    rest = dict(schema)
    outer = rest.pop("$ref", "").rpartition("/")[2]
    if outer:
        shared = dict(rest.pop("$defs"))
        rest = {**shared.pop(outer), **({"$defs": shared} if shared else {})}
    rest.pop("title", None)
    return rest


def _convert(value: Any, wanted: Any) -> Any:
    def foreign(kind: Any, given: Any) -> Any:
        if _is_pydantic(kind):
            return kind.model_validate(given)
        raise NotImplementedError

    return foreign(wanted, value) if _is_pydantic(wanted) else msgspec.convert(value, wanted, dec_hook=foreign)


def _text(result: Any) -> str:
    if result is None:
        return "done"
    if isinstance(result, str):
        return result

    def foreign(value: Any) -> Any:
        return value.model_dump(mode="json") if _is_pydantic(type(value)) else str(value)

    return msgspec.json.encode(result, enc_hook=foreign).decode()


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what a docstring says about a function, and what its `Args:` say about each parameter."""
    body, _, listed = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    described: dict[str, str] = {}
    newest = ""
    for line in listed.splitlines():
        if line and not line[0].isspace():
            break  # the next heading
        if found := _PARAMETER.fullmatch(line):
            newest = found[1]
            described[newest] = found[2].strip()
        elif newest and line.strip():
            described[newest] += f" {line.strip()}"
    return body.partition("\nReturns:\n")[0].strip(), described
