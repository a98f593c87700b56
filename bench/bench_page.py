"""How quick the page is in Chromium: the first paint, a conversation of 5,000 messages opened, and scrolled from end to end."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.measure import Ctx, Row

PAINT_MS, OPEN_MS, FRAME_MS = 500.0, 300.0, 50.0
TOKEN = "a-token-that-is-long-enough-for-everybody"
ROUNDS = 5
OPENED = """async () => {
  location.hash = "#/cost";
  await new Promise((done) => setTimeout(done, 300));
  const began = performance.now();
  location.hash = "#/chat/agent:main:explicit:long";
  while (![...document.querySelectorAll(".prose")].some((each) => each.textContent.includes("answer 2499"))) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
SCROLLED = """async () => {
  const list = document.querySelector("long-list");
  const frames = [];
  for (let at = list.scrollHeight; at > 0; at -= list.scrollHeight / 200) {
    const began = performance.now();
    list.scrollTop = at;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - began);
  }
  return frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.95)];
}"""


def run(ctx: Ctx) -> list[Row]:
    chromium = ctx.env.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("bench: the page needs the Debian package chromium")
    root = Path(__file__).parent.parent
    env = {**ctx.env, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    line = [sys.executable, "-m", "tests.web.serve", str(ctx.folder("h"))]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=root) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        try:
            return _measured(json.loads(served.stdout.readline())["port"], chromium)
        finally:
            served.stdin.close()


def _measured(port: int, chromium: str) -> list[Row]:
    from playwright.sync_api import sync_playwright

    paints, opened, frames = list[float](), list[float](), list[float]()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for _ in range(ROUNDS):
            page: Any = browser.new_context(viewport={"width": 1280, "height": 820}).new_page()
            page.goto(f"http://127.0.0.1:{port}/#token={TOKEN}")
            page.wait_for_selector("textarea.say")
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            opened.append(page.evaluate(OPENED))
            page.wait_for_timeout(1000)
            frames.append(page.evaluate(SCROLLED))
            page.context.close()
        browser.close()
    rows = (("page, first paint", paints, PAINT_MS), ("page, 5,000 messages opened", opened, OPEN_MS),
            ("page, 5,000 messages scrolled, p95 of a frame", frames, FRAME_MS))  # fmt: skip
    found = [(name, statistics.median(all_), most) for name, all_, most in rows]
    return [Row(name, value, "ms", f"{most:g} ms", value / most, 1.0) for name, value, most in found]
