"""What most commands declare: the invocation they run in, and `--json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from homarus.cli.app import App

F = TypeVar("F", bound=Callable[..., Any])
pass_app = click.make_pass_decorator(App)


def json_option(function: F) -> F:
    """Give a command `--json`, passed on as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def with_json(function: F) -> Callable[..., Any]:
    """Give a command what nearly every one takes: the invocation it runs in, first, and `--json`."""
    return json_option(pass_app(function))
