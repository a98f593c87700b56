"""What most commands declare: the invocation they run in, and `--json`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from homarus.cli.app import App

F = TypeVar("F", bound=Callable[..., Any])
# Commands that speak for themselves: a conversation, questions, a show, a protocol, an editor, what has no end.
TALKING = frozenset({
    ("chat",), ("agent",), ("demo",), ("onboard",), ("configure",), ("completion",), ("acp",), ("mcp", "serve"), ("config", "edit"),
    ("gateway", "run"), ("fleet", "worker"), ("fleet", "edge"), ("sessions", "resume"), ("sessions", "tail"), ("logs",),
})  # fmt: skip


NOT_TYPED = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def pass_app(function: F) -> F:
    """Give a command the invocation it runs in, first; at a terminal it is never silent for long."""

    @wraps(function)
    def called(ctx: click.Context, *args: Any, **kwargs: Any) -> Any:
        app = ctx.find_object(App)
        words = tuple(ctx.command_path.split()[1:])
        if app is None or words in TALKING:
            return ctx.invoke(function, app, *args, **kwargs)
        with app.out.waiting(" ".join(words)):
            return ctx.invoke(function, app, *args, **kwargs)

    return cast("F", click.pass_context(called))


class Number(click.FloatRange):
    """A number between bounds: what is no number, or has no end, lies between none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number. A word such as nan is one to Python, and smaller and larger than nothing."""
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value} is no number to reckon with.", param, ctx)


def filled(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Refuse words that say nothing, as the callback of an argument or an option that names something.

    A script's variable that is not set must not mean the main session, or every one.
    """
    typed = ctx.get_parameter_source(param.name or "") not in {None, *NOT_TYPED}
    several = isinstance(param, click.Option) and param.multiple
    if typed and value is not None and not all(each.strip() for each in (value if several else ["".join(value)])):
        raise click.BadParameter("it is empty")
    return value


def json_option(function: F) -> F:
    """Give a command `--json`, passed on as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def with_json(function: F) -> Callable[..., Any]:
    """Give a command what nearly every one takes: the invocation it runs in, first, and `--json`."""
    return json_option(pass_app(function))
