"""What is loaded and made when it is first used."""

import subprocess
import sys

import pytest

from homarus.core.later import later, made_later


def test_a_module_is_loaded_with_its_first_use() -> None:
    code = (
        "import sys; from homarus.core.later import later; late = later('homarus.core.text'); "
        "print('homarus.core.text' in sys.modules, late.single_line('a\\nb', 9), 'homarus.core.text' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "a", "b", "True"]


def test_it_hands_out_what_the_module_has_now() -> None:
    from homarus.core import text

    assert later("homarus.core.text").single_line is text.single_line
    with pytest.raises(AttributeError):
        later("homarus.core.text").not_there  # noqa: B018 - asking is the point
    with pytest.raises(ModuleNotFoundError):
        later("homarus.core.not_there").anything  # noqa: B018


def test_a_service_is_made_once_and_only_when_it_is_asked() -> None:
    made: list[str] = []

    def make() -> str:
        made.append("made")
        return "a text"

    service = made_later(make)
    assert made == []
    assert service.upper() == "A TEXT"
    assert service.title() == "A Text"
    assert made == ["made"]
