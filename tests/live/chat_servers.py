"""Real chat and mail servers on loopback: each is started from an empty folder, waited for, and ended by its pid."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Self

import pytest
from tests.ports import own_port

PLACES = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin", "/sbin"])


def program(name: str, package: str) -> str:
    """Return where a program lies, or skip the test with the package that brings it."""
    found = shutil.which(name, path=PLACES)
    if found is None:
        pytest.skip(f"needs {package}")
    return found


@contextlib.asynccontextmanager
async def running(line: Sequence[str], port: int, log: Path, env: dict[str, str] | None = None) -> AsyncIterator[int]:
    """Start a server, wait until it takes connections, and end it with whatever it started."""
    with log.open("ab") as out:
        process = subprocess.Popen(list(line), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True)  # fmt: skip
    try:
        async with asyncio.timeout(90):
            while not await _answers(port):
                assert process.poll() is None, f"{line[0]} ended: {log.read_text(errors='replace')[-2000:]}"
                await asyncio.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost and 127.0.0.1, signed by itself; return the files of it and of its key."""
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return cert_file, key_file


@contextlib.asynccontextmanager
async def ngircd(folder: Path, *, tls: bool = False) -> AsyncIterator[int]:
    binary = program("ngircd", "ngircd (Debian)")
    port, secure = own_port(), own_port()
    cert, key = certificate(folder)
    config = folder / "ngircd.conf"
    config.write_text(
        f"[Global]\nName = irc.example.net\nInfo = test\nListen = 127.0.0.1\nPorts = {port}\nAdminInfo1 = a\nAdminInfo2 = b\nAdminEMail = a@b.example\n"
        f"[Limits]\nMaxConnectionsIP = 0\nMaxPenaltyTime = 0\n[Options]\nPAM = no\nIdent = no\nDNS = no\nChrootDir =\n"
        f"[SSL]\nCertFile = {cert}\nKeyFile = {key}\nPorts = {secure}\n"
    )
    config.chmod(0o644)
    async with running([binary, "-n", "-f", str(config)], port, folder / "ngircd.log"):
        yield secure if tls else port


@contextlib.asynccontextmanager
async def inspircd(folder: Path, *, services: bool = False) -> AsyncIterator[int]:
    """Start a server that speaks IRCv3: ids, times, echoes, tags of clients, marks of bots; with services also logins."""
    binary = program("inspircd", "inspircd (Debian)")
    port, link = own_port(), own_port()
    modules = "cap ircv3 ircv3_echomessage ircv3_msgid ircv3_servertime ircv3_ctctags ircv3_accounttag botmode services_account spanningtree sasl"
    config = folder / "inspircd.conf"
    config.write_text(
        '<config format="xml">\n<server name="irc.example.net" description="t" network="Test" id="001">\n<admin name="a" nick="a" email="a@b.example">\n'
        f'<bind address="127.0.0.1" port="{port}" type="clients">\n<bind address="127.0.0.1" port="{link}" type="servers">\n'
        f'<link name="services.example.net" ipaddr="127.0.0.1" port="{link}" allowmask="127.0.0.1" sendpass="x" recvpass="x">\n'
        '<uline server="services.example.net" silent="yes">\n<sasl target="services.example.net">\n'
        '<connect allow="*" resolvehostnames="no" useident="no" fakelag="no" limit="100" localmax="100" globalmax="100" threshold="1000" commandrate="100000">\n'
        f'<pid file="{folder}/inspircd.pid">\n<log method="file" type="*" level="default" target="{folder}/inspircd.log">\n'
        + "".join(f'<module name="{name}">\n' for name in modules.split())
    )
    line = [binary, "--nofork", "--config", str(config), *(["--runasroot"] if os.getuid() == 0 else [])]
    async with running(line, port, folder / "inspircd.out"):
        if not services:
            yield port
            return
        async with running(_atheme(folder, link), port, folder / "atheme.out"):
            yield port


def _atheme(folder: Path, link: int) -> list[str]:
    """Return how the services of a network are started: those that know who is logged in."""
    binary = program("atheme-services", "atheme-services (Debian)")
    modules = "backend/opensex protocol/inspircd nickserv/main nickserv/register nickserv/identify nickserv/ghost saslserv/main saslserv/plain saslserv/external"
    config = folder / "atheme.conf"
    config.write_text(
        "".join(f'loadmodule "modules/{name}";\n' for name in modules.split())
        + 'serverinfo { name = "services.example.net"; desc = "s"; numeric = "00A"; recontime = 1; netname = "Test"; hidehostsuffix = "x";\n'
        'adminname = "a"; adminemail = "a@b.example"; registeremail = "a@b.example"; mta = "/bin/true"; loglevels = { all; }; maxlogins = 5;\n'
        "maxusers = 0; mdlimit = 30; emaillimit = 10; emailtime = 300; auth = none; casemapping = rfc1459; };\n"
        f'uplink "irc.example.net" {{ host = "127.0.0.1"; port = {link}; send_password = "x"; receive_password = "x"; }};\n'
        'nickserv { nick = "NickServ"; user = "n"; host = "services.example.net"; real = "n"; };\n'
        'saslserv { nick = "SaslServ"; user = "s"; host = "services.example.net"; real = "s"; };\n'
        "general { };\n"
    )
    (folder / "atheme").mkdir(exist_ok=True)
    files = [
        "-c",
        str(config),
        "-l",
        str(folder / "atheme.log"),
        "-p",
        str(folder / "atheme.pid"),
        "-D",
        str(folder / "atheme"),
    ]
    return [binary, "-n", *files]


@contextlib.asynccontextmanager
async def miniircd(folder: Path) -> AsyncIterator[int]:
    binary = program("miniircd", "miniircd (PyPI)")
    port = own_port()
    line = [binary, "--listen", "127.0.0.1", "--ports", str(port), *(["--setuid", "root"] if os.getuid() == 0 else [])]
    async with running(line, port, folder / "miniircd.log"):
        yield port


@contextlib.asynccontextmanager
async def synapse(folder: Path, *, limited: bool = False) -> AsyncIterator[str]:
    """Start a homeserver with open registration and yield its address."""
    python = Path(os.environ.get("HOMARUS_SYNAPSE_PYTHON", Path.home() / ".cache/homarus-tests/synapse/bin/python"))
    if not python.exists():
        pytest.skip("needs matrix-synapse (PyPI) in a venv of its own: scripts/install_programs.sh")
    port = own_port()
    made = [python, "-m", "synapse.app.homeserver", "-c", folder / "hs.yaml", "--generate-config", "--server-name", "test.example", "--report-stats", "no"]  # fmt: skip
    done = await asyncio.to_thread(
        subprocess.run, [str(word) for word in made], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    fast = {"per_second": 1000, "burst_count": 1000}
    rates = {
        "rc_message": {"per_second": 0.5, "burst_count": 2} if limited else fast,
        "rc_registration": fast,
        "rc_login": {"address": fast, "account": fast, "failed_attempts": fast},
        "rc_joins": {"local": fast, "remote": fast},
        "rc_invites": {"per_room": fast, "per_user": fast, "per_issuer": fast},
        "rc_room_creation": fast,
    }
    config = {
        "listeners": [
            {"port": port, "type": "http", "bind_addresses": ["127.0.0.1"], "resources": [{"names": ["client"]}]}
        ],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "hs.db")}},
        "enable_registration": True,
        "enable_registration_without_verification": True,
        "trusted_key_servers": [],
        "media_store_path": str(folder / "media"),
        **rates,
    }
    (folder / "more.yaml").write_text(json.dumps(config))
    line = [str(python), "-m", "synapse.app.homeserver", "-c", str(folder / "hs.yaml"), "-c", str(folder / "more.yaml")]
    async with running(line, port, folder / "synapse.log"):
        yield f"http://127.0.0.1:{port}"


class Wire:
    """A wire to a server that can be cut: `async with Wire(port) as wire`, then connect to `wire.port`."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, out = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._open |= {writer, out}
        await asyncio.gather(self._upward(reader, out, writer), self._pass(there, writer))

    async def _upward(
        self, reader: asyncio.StreamReader, out: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        await self._pass(reader, out)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        self._open.discard(writer)
        writer.close()


@contextlib.asynccontextmanager
async def dovecot(folder: Path) -> AsyncIterator[tuple[int, int, Path]]:
    """Start an IMAP server where every password is `secret`; yield its plain and its TLS port, and its mailboxes."""
    binary = program("dovecot", "dovecot-imapd (Debian)")
    plain, secure = own_port(), own_port()
    cert, key = certificate(folder)
    # Its processes that talk to strangers refuse to be root, and must reach its folder.
    root = os.getuid() == 0
    user = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(os.getgid()).gr_name
    run = Path(tempfile.mkdtemp(prefix="dovecot-"))
    run.chmod(0o755)
    mail = run / "mail"
    mail.mkdir()
    owner = (65534, 65534) if root else (os.getuid(), os.getgid())
    os.chown(mail, *owner)
    config = folder / "dovecot.conf"
    config.write_text(f"""
base_dir = {run}
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{cert}
ssl_key = <{key}
disable_plaintext_auth = no
mail_location = maildir:{mail}/%u
first_valid_uid = 1
mail_uid = {owner[0]}
mail_gid = {owner[1]}
default_internal_user = {"dovecot" if root else user}
default_internal_group = {"dovecot" if root else group}
default_login_user = {"dovenull" if root else user}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {plain}
  }}
  inet_listener imaps {{
    port = {secure}
    ssl = yes
  }}
}}
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = home={mail}/%u
}}
""")
    try:
        async with running([binary, "-F", "-c", str(config)], plain, folder / "dovecot.out"):
            yield plain, secure, mail
    finally:
        shutil.rmtree(run, ignore_errors=True)


@contextlib.asynccontextmanager
async def smtp_server(folder: Path, mail: Path) -> AsyncIterator[int]:
    """Start a mail server that takes letters over STARTTLS and puts them into mailboxes; see `mail_server.py`."""
    pytest.importorskip("aiosmtpd", reason="needs aiosmtpd (PyPI)")
    port = own_port()
    cert, key = folder / "cert.pem", folder / "key.pem"
    line = [sys.executable, str(Path(__file__).parent / "mail_server.py"), str(port), str(mail), str(cert), str(key)]
    async with running(line, port, folder / "smtp.log"):
        yield port


_REFUSALS = """
local st = require "util.stanza";
local path, whose = module:get_option_string("refusals_file"), module:get_option_string("refusals_of");
local function refuse(event)
    local stanza = event.stanza;
    local file = stanza:get_child("body") and stanza.attr.from:match("^[^/]*") == whose and io.open(path);
    if not file then return; end
    local first, rest = file:read("*l"), file:read("*a");
    file:close();
    if not first then return; end
    file = io.open(path, "w");
    file:write(rest or "");
    file:close();
    event.origin.send(st.error_reply(stanza, "wait", first));
    return true;
end
module:hook("pre-message/bare", refuse, 1000);
module:hook("pre-message/full", refuse, 1000);
"""


@contextlib.asynccontextmanager
async def prosody(folder: Path, *people: str, anonymous: bool = False) -> AsyncIterator[int]:
    """Start an XMPP server for `localhost` with rooms, an archive and file uploads; every password is `secret`.

    Each line of the file `refusals` in the folder is a condition with which it sends back one message of the first person.
    """
    binary = program("prosody", "prosody (Debian)")
    control = program("prosodyctl", "prosody (Debian)")
    cert, key = certificate(folder)
    port, http = own_port(), own_port()
    (folder / "data").mkdir(exist_ok=True)
    config = folder / "prosody.cfg.lua"
    whois = "moderators" if anonymous else "anyone"
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins/mod_refusals.lua").write_text(_REFUSALS)
    config.write_text(f"""
run_as_root = true
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
plugin_paths = {{ "{folder}/plugins" }}
refusals_file = "{folder}/refusals"
refusals_of = "{people[0]}@localhost"
log = {{ info = "{folder}/prosody.log" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
s2s_ports = {{ }}
http_ports = {{ {http} }}
https_ports = {{ }}
http_interfaces = {{ "127.0.0.1" }}
modules_enabled = {{ "roster", "saslauth", "tls", "disco", "ping", "carbons", "mam", "offline", "presence", "message", "iq", "refusals" }}
modules_disabled = {{ "s2s" }}
c2s_require_encryption = true
authentication = "internal_hashed"
storage = "internal"
archive_expires_after = "1d"
limits = {{ }}
ssl = {{ certificate = "{cert}", key = "{key}" }}
VirtualHost "localhost"
Component "rooms.localhost" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_room_default_public_jids = {"false" if anonymous else "true"}
  muc_room_default_whois = "{whois}"
  muc_room_locking = false
Component "upload.localhost" "http_file_share"
  http_host = "localhost"
  http_external_url = "http://localhost:{http}/"
""")
    for who in people:
        done = await asyncio.to_thread(
            subprocess.run,
            [control, "--config", str(config), "register", who, "localhost", "secret"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    async with running([binary, "-F", "--config", str(config)], port, folder / "prosody.out"):
        (folder / "uploads").write_text(f"localhost:{http}")
        yield port
