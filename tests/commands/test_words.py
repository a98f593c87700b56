"""Small words of commands: stop words, counts, names, the table."""

import pytest

from homarus.commands.command import split_command
from homarus.commands.settings import CommandSettings
from homarus.commands.table import ALL, active, reserved
from homarus.commands.wording import ago, money, short_count
from homarus.commands.words import is_stop


@pytest.mark.parametrize(
    "text",
    [
        "stop",
        " STOP! ",
        "Esc",
        "abort.",
        "exit",
        "interrupt",
        "停止。",
        "Arrête",
        "please stop",
        "Stop, please!",
        "detén",
        "hör  auf",
        "stop don’t do anything",
        "остановись?",
        "やめて…",
    ],
)
def test_a_stop_word_stops(text: str) -> None:
    assert is_stop(text)


@pytest.mark.parametrize(
    "text", ["stop it", "don't stop", "", "!", "nonstop", "/stop", "please stop the music at nine", "para mañana"]
)
def test_other_words_do_not(text: str) -> None:
    assert not is_stop(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/status", ("status", "")),
        ("/New Opus hi", ("new", "Opus hi")),
        ("/name: My Trip", ("name", "My Trip")),
        ("/new\nline", ("new", "line")),
        ("/export-session md", ("export-session", "md")),
        ("/tmp/x", None),
        ("see /status", None),
        ("/", None),
        ("//x", None),
        ("/1", None),
    ],
)
def test_a_whole_message_is_split(text: str, found: tuple[str, str] | None) -> None:
    assert split_command(text) == found


def test_every_name_belongs_to_one_command_and_the_switched_off_ones_are_reserved() -> None:
    names = [name for command in ALL for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
    table = active(CommandSettings())
    assert "config" not in table
    assert "config" in active(CommandSettings(config=True))
    assert {"config", "bash", "t"} <= reserved()
    assert all(command.help and not command.help.endswith(".") for command in ALL)


def test_numbers_as_people_say_them() -> None:
    assert [short_count(number) for number in (0, 999, 1000, 12_340, 200_000, 1_048_576)] == [
        "0", "999", "1k", "12.3k", "200k", "1.0M",
    ]  # fmt: skip
    assert [money(sum_) for sum_ in (0.0, 0.0012, 3.456)] == ["$0.00", "$0.0012", "$3.46"]
    assert [ago(seconds) for seconds in (5, 600, 7200, 400_000)] == ["5 s ago", "10 min ago", "2 h ago", "5 days ago"]
