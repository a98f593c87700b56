from __future__ import annotations

import json
import os
import resource
import stat
from pathlib import Path

import pytest

from homarus.config.secrets import parse_ref, resolve_secret
from homarus.core.errors import ConfigError

ANSWER = """#!/bin/sh
read -r request
printf '%s' '{"protocolVersion":1,"values":{"db/pass#k":"from-program"}}'
"""


def program(folder: Path, text: str, name: str = "resolver") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o700)
    return path


def providers(**entries: dict) -> dict:
    return {"providers": entries}


def get(home, value: object, settings: dict | None = None, **env: str) -> str:
    return resolve_secret(value, env, home.paths, settings=settings)


def test_plain_text_is_itself(home) -> None:
    assert get(home, "sk-plain") == "sk-plain"


@pytest.mark.parametrize(
    "value",
    ["$TOKEN", "${TOKEN}", {"source": "env", "id": "TOKEN"}, {"source": "env", "provider": "default", "id": "TOKEN"}],
)
def test_environment(home, value: object) -> None:
    assert get(home, value, TOKEN="t") == "t"
    with pytest.raises(ConfigError, match="TOKEN is not set"):
        get(home, value, TOKEN="")


def test_an_allowlist_of_the_environment_is_kept(home) -> None:
    settings = providers(few={"source": "env", "allowlist": ["OTHER"]})
    with pytest.raises(ConfigError, match="allowlist"):
        get(home, {"source": "env", "provider": "few", "id": "TOKEN"}, settings, TOKEN="t")


@pytest.mark.parametrize(
    "value",
    [
        {"source": "store", "id": "X"},
        {"source": "env"},
        {"source": "env", "id": ""},
        {"source": "env", "id": "X", "provider": "Bad Name"},
        {"source": "what", "id": "X"},
        5,
        None,
        ["x"],
    ],
)
def test_broken_references_are_refused(home, value: object) -> None:
    with pytest.raises(ConfigError):
        get(home, value)


def test_a_reference_in_text_is_only_one_as_a_whole() -> None:
    assert parse_ref("Bearer ${TOKEN}") is None
    assert parse_ref("$lower") is None


@pytest.fixture
def secrets_file(home) -> Path:
    path = home.write(json.dumps({"a": {"b/c": "pointed", "~t": "tilde", "l": ["zero"]}, "n": 5}), "secrets.json")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(("pointer", "value"), [("/a/b~1c", "pointed"), ("/a/~0t", "tilde"), ("/a/l/0", "zero")])
def test_file_by_pointer(home, secrets_file: Path, pointer: str, value: str) -> None:
    assert get(home, {"source": "file", "id": pointer}) == value
    settings = providers(main={"source": "file", "path": "~/secrets.json"})
    assert get(home, {"source": "file", "provider": "main", "id": pointer}, settings) == value
    assert get(home, {"source": "file", "id": pointer}, settings | {"defaults": {"file": "main"}}) == value


@pytest.mark.parametrize("pointer", ["/a", "/n", "/missing", "/a/l/9", "/a/l/x"])
def test_a_pointer_must_lead_to_text(home, secrets_file: Path, pointer: str) -> None:
    with pytest.raises(ConfigError, match="no text"):
        get(home, {"source": "file", "id": pointer})


def test_file_with_one_value(home) -> None:
    home.write("line\n", "key.txt").chmod(0o600)
    settings = providers(one={"source": "file", "path": str(home.folder / "key.txt"), "mode": "singleValue"})
    assert get(home, {"source": "file", "provider": "one", "id": "value"}, settings) == "line"
    with pytest.raises(ConfigError, match="one value"):
        get(home, {"source": "file", "provider": "one", "id": "/x"}, settings)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(home, secrets_file: Path, mode: int) -> None:
    secrets_file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        get(home, {"source": "file", "id": "/a/b~1c"})
    settings = providers(default={"source": "file", "path": str(secrets_file), "allowInsecurePath": True})
    assert get(home, {"source": "file", "id": "/a/b~1c"}, settings) == "pointed"


def test_odd_files_are_refused_without_their_content(home, tmp_path: Path) -> None:
    ref = {"source": "file", "id": "/x"}
    with pytest.raises(ConfigError, match="cannot read"):
        get(home, ref)
    os.mkfifo(home.folder / "secrets.json", 0o600)
    with pytest.raises(ConfigError):
        get(home, ref)
    os.unlink(home.folder / "secrets.json")
    home.write("not json but secret", "secrets.json").chmod(0o600)
    with pytest.raises(ConfigError, match="no JSON") as caught:
        get(home, ref)
    assert "secret" not in str(caught.value).replace("secrets.json", "").replace("secret file", "")
    home.write(b'{"x": "' + b"y" * (1024 * 1024) + b'"}', "secrets.json").chmod(0o600)
    with pytest.raises(ConfigError, match="too large"):
        get(home, ref)


def run(home, script: str, **more: object) -> str:
    settings = providers(vault={"source": "exec", "command": str(program(home.folder, script)), **more})
    return get(
        home,
        {"source": "exec", "provider": "vault", "id": "db/pass#k"},
        settings,
        PATH=os.environ["PATH"],
        LEAK="leaked",
        KEEP="kept",
    )


def test_program(home) -> None:
    assert run(home, ANSWER) == "from-program"


def test_program_beside_a_thousand_open_files(home) -> None:
    """As a gateway with many clients has them."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2_000:
        pytest.skip("fewer files may be open here")
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        assert run(home, ANSWER) == "from-program"
    finally:
        for each in opened:
            os.close(each)


def test_program_gets_the_request_the_arguments_and_a_clean_environment(home) -> None:
    script = '#!/bin/sh\nread -r r\nprintf "%s|%s|%s|%s|%s" "$r" "$1" "$LEAK" "$KEEP" "$FIXED"'
    seen = run(home, script, jsonOnly=False, args=["$HOME; rm"], passEnv=["KEEP", "GONE"], env={"FIXED": "f"})
    request, argument, leaked, kept, fixed = seen.rsplit("|", 4)
    assert json.loads(request) == {"protocolVersion": 1, "provider": "vault", "ids": ["db/pass#k"]}
    assert (argument, leaked, kept, fixed) == ("$HOME; rm", "", "kept", "f")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\nexit 3", "code 3"),
        ("#!/bin/sh\necho hello", "did not answer JSON"),
        ("#!/bin/sh\necho '{\"values\":{}}'", "no such secret"),
        ('#!/bin/sh\necho \'{"values":{"db/pass#k":5}}\'', "no such secret"),
        ("#!/bin/sh\necho '\"text\"'", "no such secret"),
        ("#!/bin/sh\nexec sleep 30", "too long"),
        ("#!/bin/sh\nsleep 30 & echo '{}'", "too long"),
        ("#!/bin/sh\nhead -c 3000 /dev/zero", "said too much"),
        ("no interpreter", "cannot run"),
    ],
)
def test_a_program_that_fails_says_nothing_of_its_answer(home, script: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        run(home, script, timeoutMs=600, maxOutputBytes=2000)
    assert "hello" not in str(caught.value)


def test_programs_that_others_could_replace_are_refused(home, tmp_path: Path) -> None:
    real = program(tmp_path, ANSWER, "real")
    link = tmp_path / "link"
    link.symlink_to(real)
    ref = {"source": "exec", "provider": "p", "id": "db/pass#k"}
    for entry, words in [
        ({"command": "real"}, "absolute"),
        ({"command": str(tmp_path / "gone")}, "cannot find"),
        ({"command": str(link)}, "no regular file"),
        ({"command": str(tmp_path)}, "no regular file"),
        ({"command": str(real), "args": "x"}, "args of its provider must be a list"),
        ({"command": str(real), "trustedDirs": ["/usr/bin"]}, "trustedDirs"),
    ]:
        with pytest.raises(ConfigError, match=words):
            get(home, ref, providers(p={"source": "exec", **entry}))
    linked = providers(
        p={"source": "exec", "command": str(link), "allowSymlinkCommand": True, "trustedDirs": [str(tmp_path)]}
    )
    assert get(home, ref, linked) == "from-program"
    real.chmod(stat.S_IRWXU | stat.S_IWOTH)
    with pytest.raises(ConfigError, match="go-w"):
        get(home, ref, providers(p={"source": "exec", "command": str(real)}))


@pytest.mark.parametrize("name", ["../up", "a/../b", ".", "-x", "a b", "x" * 300, "a;b"])
def test_ids_for_programs_are_narrow(home, name: str) -> None:
    settings = providers(p={"source": "exec", "command": "/bin/true"})
    with pytest.raises(ConfigError, match="not allowed"):
        get(home, {"source": "exec", "provider": "p", "id": name}, settings)


def test_a_provider_must_exist_and_have_the_source(home) -> None:
    for ref in ({"source": "exec", "id": "x"}, {"source": "file", "provider": "nope", "id": "/x"}):
        with pytest.raises(ConfigError, match=r"secrets\.providers"):
            get(home, ref, providers(nope={"source": "env"}))


def test_nothing_is_fetched_at_load_and_a_program_is_asked_once(home) -> None:
    script = f"#!/bin/sh\necho x >> {home.folder}/calls\nread -r r\n" + ANSWER.split("\n", 2)[2]
    command = program(home.folder, script)
    config = home.load(
        f"""{{ secrets: {{ providers: {{ v: {{ source: "exec", command: "{command}" }} }} }},
             gateway: {{ auth: {{ token: {{ source: "exec", provider: "v", id: "db/pass#k" }}, password: "$PW" }} }} }}"""
    )
    assert not (home.folder / "calls").exists()
    assert [config.secret("gateway.auth.token") for _ in range(3)] == ["from-program"] * 3
    assert (home.folder / "calls").read_text() == "x\n"
    assert config.secret("gateway.auth.missing") is None
    with pytest.raises(ConfigError, match="PW is not set"):
        config.secret("gateway.auth.password")


def test_variables_of_the_home_are_secrets_too(home) -> None:
    home.write("FROM_DOTENV=1\n", ".env")
    config = home.load('{ env: { vars: { FROM_FILE: "2" } }, a: "$FROM_DOTENV", b: "${FROM_FILE}", c: "$FROM_FILE" }')
    assert [config.secret(key) for key in "abc"] == ["1", "2", "2"]
