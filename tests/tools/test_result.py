from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.messages import Image, Text, ToolResult
from homarus.tools.result import MIN_CHARS, StepRoom, bound


def result(ident: str, text: str, **details: object) -> ToolResult:
    return ToolResult(ident, "read", (Text(text),), 1, details=dict(details) or None)


def test_several_middling_results_fit_the_step_together(tmp_path: Path) -> None:
    room = StepRoom(20_000, 8)
    texts = [f"first {n}\n" + f"{n} line\n" * 1_500 + f"last {n}" for n in range(8)]
    fitted = [room.fit(result(f"c{n}", text), tmp_path) for n, text in enumerate(texts)]
    assert sum(len(each.text) for each in fitted) <= 20_000
    for n, each in enumerate(fitted):
        assert each.text.startswith(f"first {n}\n") and each.text.endswith(f"last {n}")
        assert each.details == {"truncated": True, "fullOutputPath": str(tmp_path / f"c{n}.txt")}
        assert (tmp_path / f"c{n}.txt").read_text() == texts[n]
        assert str(tmp_path / f"c{n}.txt") in each.text


def test_small_results_are_the_same_objects(tmp_path: Path) -> None:
    room = StepRoom(200_000, 3)
    for n in range(3):
        small = result(f"c{n}", "x" * 60_000)
        assert room.fit(small, tmp_path) is small
    assert not list(tmp_path.iterdir())


def test_a_result_that_was_cut_before_keeps_its_file(tmp_path: Path) -> None:
    (whole := tmp_path / "c.txt").write_text("x" * 90_000)
    room = StepRoom(4_000, 2)
    cut = room.fit(result("c", "y" * 64_000, truncated=True, fullOutputPath=str(whole)), tmp_path)
    assert len(cut.text) <= 3_000
    assert f"the whole (88 kB) is in {whole}" in cut.text or str(whole) in cut.text
    assert [path.name for path in tmp_path.iterdir()] == ["c.txt"]
    assert whole.read_text() == "x" * 90_000


def test_an_id_that_comes_again_does_not_point_at_the_older_text(tmp_path: Path) -> None:
    (first,), _ = bound((Text("a" * 5_000),), 1_000, tmp_path, "call_1")
    (second,), path = bound((Text("b" * 5_000),), 1_000, tmp_path, "call_1")
    (again,), same = bound((Text("b" * 5_000),), 1_000, tmp_path, "call_1")
    assert path == same == tmp_path / "call_1-2.txt"
    assert path.read_text() == "b" * 5_000 and (tmp_path / "call_1.txt").read_text() == "a" * 5_000
    assert isinstance(second, Text) and second == again != first


def test_where_nothing_can_be_written_the_notice_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (text,), path = bound((Text("a" * 5_000),), 1_000, tmp_path / "file", "x")
    assert path is None and isinstance(text, Text) and "could not be kept" in text.text


@given(st.lists(st.integers(0, 90_000), min_size=1, max_size=12), st.integers(1_000, 250_000))
def test_the_room_is_never_passed_and_the_last_gets_something(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], window: int
) -> None:
    folder = tmp_path_factory.mktemp("room")
    room, other = StepRoom(window, len(sizes)), StepRoom(window, len(sizes))
    fitted = [room.fit(result(f"c{n}", "x" * size), folder) for n, size in enumerate(sizes)]
    assert sum(len(each.text) for each in fitted) <= max(window, len(sizes) * MIN_CHARS)
    assert all(len(each.text) >= min(size, MIN_CHARS - 300) for each, size in zip(fitted, sizes, strict=True))
    assert fitted == [other.fit(result(f"c{n}", "x" * size), folder) for n, size in enumerate(sizes)]


def test_pictures_do_not_count(tmp_path: Path) -> None:
    picture = ToolResult("c", "image", (Text("a"), Image("x" * 9_000, "image/png")))
    assert StepRoom(1_000, 1).fit(picture, tmp_path) is picture
