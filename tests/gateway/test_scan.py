"""An account that is linked by scanning a code: who logs in gets the code, and nothing else of the account's folder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from homarus.channels.manager import Status
from homarus.channels.support import SCAN, Note
from homarus.gateway.methods.channels import _login


def test_the_code_is_part_of_the_answer_until_the_account_is_connected(tmp_path: Path) -> None:
    folder = tmp_path / "channels" / "whatsapp" / "default"
    Note(folder, SCAN).write({"qr": "2@abc", "qrDataUrl": "data:x", "terminal": "██", "token": "secret", "at": 1})
    paths = SimpleNamespace(own_dir=tmp_path)
    call = cast(
        "Any", SimpleNamespace(client=SimpleNamespace(home=SimpleNamespace(config=SimpleNamespace(paths=paths))))
    )
    waiting = Status("whatsapp", "default", last_error="not linked", cure="scan it")
    told = _login(call, waiting, "whatsapp", "default")
    assert told == {
        "connected": False,
        "message": "not linked scan it",
        "qr": "2@abc",
        "qrDataUrl": "data:x",
        "terminal": "██",
    }
    done = _login(call, Status("whatsapp", "default", connected=True), "whatsapp", "default")
    assert done == {"connected": True, "message": "whatsapp/default is connected"}
