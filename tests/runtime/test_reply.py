from homarus.core.events import RunEnded
from homarus.runtime.reply import ReplyFold


def test_an_error_shows_no_key_to_programs_and_people() -> None:
    key = "sk-proj-" + "a1B2c3D4" * 5
    fold = ReplyFold()
    fold.take(RunEnded("r", "error", error=f"the server said: Authorization: Bearer {key} is not valid"))
    reply = fold.reply()
    assert key not in reply.error and "the server said" in reply.error
    assert reply.to_json("agent:main:main")["error"] == reply.error
