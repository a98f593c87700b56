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


def test_only_the_methods_of_a_service_are_kept() -> None:
    class Service:
        found: str | None = None

        def find(self) -> None:
            self.found = "it"

    service = made_later(Service)
    assert service.found is None
    service.find()
    service.find()
    assert service.found == "it"


def in_a_fresh_process(code: str) -> list[str]:
    start = (
        "import sys; from homarus.core.later import postpone; kind = lambda name: type(sys.modules[name]).__name__; "
    )
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_postponed_module_is_loaded_with_its_first_use_by_anybody() -> None:
    seen = in_a_fresh_process(
        "postpone('colorsys'); import colorsys; print(kind('colorsys')); "
        "print(colorsys.ONE_THIRD < 1, kind('colorsys')); import colorsys as again; print(again is colorsys)"
    )
    assert seen == ["_Postponed", "True", "module", "False"]
    assert in_a_fresh_process("postpone('colorsys'); from colorsys import ONE_SIXTH; print(kind('colorsys'))") == [
        "module"
    ]


def test_what_is_set_on_a_postponed_module_everybody_sees() -> None:
    assert in_a_fresh_process(
        "postpone('colorsys'); import colorsys as early; early.ONE_THIRD = 3; import colorsys; print(colorsys.ONE_THIRD)"
    ) == ["3"]


def test_what_is_loaded_already_is_left_alone() -> None:
    assert in_a_fresh_process("import colorsys; postpone('colorsys'); print(kind('colorsys'))") == ["module"]


def test_a_part_of_a_package_can_be_postponed() -> None:
    code = "postpone('msgspec.toml'); import msgspec; print(kind('msgspec.toml')); print(msgspec.toml.decode('a = 1')['a'])"
    assert in_a_fresh_process(code) == ["_Postponed", "1"]
