"""One browser and one served home for all tests of the page. Where Chromium or Playwright is missing they are skipped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN

ROOT = Path(__file__).parents[2]
DESKTOP = {"width": 1280, "height": 820}
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
        context.set_default_timeout(15_000)
        self.contexts.append(context)
        return context

    def page(self, where: str = "", *, context: Any = None, link: str | None = None) -> Any:
        """Open the page and go somewhere in it. Without a context of its own it is in a browser that was let in before."""
        if context is None:
            link = "" if self.known else None
            context = self.known = self.known or self.browser.new_context(viewport=DESKTOP, locale="en-US")
        page = context.new_page()
        page.set_default_timeout(15_000)
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
        return subprocess.run(line, env=env, capture_output=True, text=True, check=True, timeout=60).stdout


def until(page: Any, script: str, most: int = 200) -> None:
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
    if "site" not in pyfuncitem.fixturenames:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    THREAD.submit(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}).result()
    return True


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    if CHROMIUM is None:
        pytest.skip("needs the Debian package chromium")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="h") as short:  # a socket's path holds a hundred bytes
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        line = [sys.executable, "-m", "tests.web.serve", short]
        with subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                port = json.loads(process.stdout.readline())["port"]
                started = THREAD.submit(lambda: playwright.sync_playwright().start()).result()
                launched = THREAD.submit(lambda: started.chromium.launch(executable_path=CHROMIUM, args=arguments))
                yield Site(launched.result(), port, Path(short))
                THREAD.submit(lambda: (launched.result().close(), started.stop())).result()
            finally:
                process.stdin.close()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


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
