"""One browser and one served home for all tests of the page. Where Chromium or Playwright is missing they are skipped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN

ROOT = Path(__file__).parents[2]
DESKTOP = {"width": 1280, "height": 820}
SIZES = pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
PATIENCE = 60_000  # milliseconds; machines that test are slow, and nothing here is about speed
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Site:
    """A served home and a browser. Each page that it opens keeps what went wrong in it."""

    def __init__(self, browser: Any, port: int, folder: Path) -> None:
        self.browser = browser
        self.port = port
        self.folder = folder
        self.state = folder / ".openclaw"
        self.problems: list[str] = []
        self.contexts: list[Any] = []
        self.known: Any = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def context(self, width: int = 1280, height: int = 820, **more: Any) -> Any:
        context = self.browser.new_context(viewport={"width": width, "height": height}, locale="en-US", **more)
        context.set_default_timeout(PATIENCE)
        self.contexts.append(context)
        return context

    def page(self, where: str = "", *, context: Any = None, link: str | None = None) -> Any:
        """Open the page and go somewhere in it. Without a context of its own it is in a browser that was let in before."""
        if context is None:
            link = "" if self.known else None
            context = self.known = self.known or self.browser.new_context(viewport=DESKTOP, locale="en-US")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda problem: self.problems.append(f"{problem} {problem.stack}"))
        page.on("request", lambda request: self._asked(request.url))
        page.goto(self.address + (f"#pair={self.link()}" if link is None else link))
        page.wait_for_selector("#main")
        if where:
            page.evaluate("where => { location.hash = where }", where)
        return page

    def tidy(self) -> None:
        """Close what a test opened."""
        for context in self.contexts:
            context.close()
        self.contexts.clear()
        for page in self.known.pages if self.known else ():
            page.evaluate("localStorage.clear()")
            page.close()

    def _asked(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.problems.append(f"asked {url}")

    def link(self) -> str:
        """Return a code that opens the page once, as `homarus dashboard` gets it."""
        made = self.homarus("dashboard", "--json")
        return str(json.loads(made)["url"].partition("#pair=")[2])

    def homarus(self, *words: str) -> str:
        env = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        line = [sys.executable, "-m", "homarus", *words]
        return subprocess.run(line, env=env, capture_output=True, text=True, check=True, timeout=120).stdout


def until(page: Any, script: str, most: int = PATIENCE // 50) -> None:
    """Wait until something holds in a page; its policy lets no text become script, so it is asked again and again."""
    for _ in range(most):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {script}")


# Playwright runs a loop of its own in the thread that uses it, and then no other test there could run one.
THREAD = ThreadPoolExecutor(1, "browser")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that uses the browser in the browser's own thread."""
    if "browser" not in pyfuncitem.fixturenames:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    THREAD.submit(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}).result()
    return True


@contextlib.contextmanager
def serving(folder: Path, *kind: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Serve the home in a folder from a process of its own, and give its port."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    line = [sys.executable, "-m", "tests.web.serve", str(folder), *kind]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["port"], process
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    if CHROMIUM is None:
        pytest.skip("needs the Debian package chromium")
    arguments = ["--disable-dev-shm-usage", "--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]

    def launch() -> tuple[Any, Any]:
        started = playwright.sync_playwright().start()
        try:
            return started, started.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE)
        except playwright.Error as problem:
            started.stop()
            return problem, None

    started, launched = THREAD.submit(launch).result()
    if launched is None:
        pytest.skip(f"chromium does not start here: {str(started)[:200]}")
    yield launched
    THREAD.submit(lambda: (launched.close(), started.stop())).result()


@pytest.fixture(scope="session")
def site(browser: Any) -> Iterator[Site]:
    # A socket's path holds a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="h") as short, serving(Path(short)) as (port, _process):
        yield Site(browser, port, Path(short))


class Door(socketserver.ThreadingTCPServer):
    """A port that stays while what answers behind it is replaced."""

    daemon_threads = True
    target = 0

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


class Carrier(socketserver.BaseRequestHandler):
    server: Door

    def handle(self) -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.target), 5) as inside:
            inside.settimeout(None)
            back = threading.Thread(target=_carry, args=(inside, self.request), daemon=True)
            back.start()
            _carry(self.request, inside)
            back.join()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    for each in (one, other):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def door() -> Iterator[Door]:
    with Door(("127.0.0.1", 0), Carrier) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def calm(site: Site) -> Iterator[Site]:
    """The site, for a test after which nothing may have gone wrong in any page."""
    site.problems.clear()
    yield site
    THREAD.submit(site.tidy).result()
    assert site.problems == []


@pytest.fixture
def token() -> str:
    return TOKEN
