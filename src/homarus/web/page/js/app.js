/** The shell: the way in, navigation, the palette, light and dark, and the state of the connection. */
import { View } from "./base.js";
import { language, setLanguage } from "./words.js";
import { act, ask, button, choose, closing, confirm, h, hint, icon, prompt, small, store, t, to, toast, wire } from "./parts.js";
import "./chat.js";


/** The views: name, title, module that draws it. Chat is there from the start. */
const VIEWS = /** @type {[string, () => string, string][]} */ ([
  ["chat", () => t("Chat"), ""], ["sessions", () => t("Sessions"), "sessions"], ["context", () => t("Context"), "context"],
  ["memory", () => t("Memory"), "memory"], ["automation", () => t("Automation"), "automation"], ["skills", () => t("Skills"), "skills"],
  ["agents", () => t("Agents and channels"), "agents"], ["devices", () => t("Devices"), "devices"], ["cost", () => t("Cost"), "cost"],
  ["health", () => t("Logs and health"), "health"], ["config", () => t("Settings"), "config"],
]);
const THEME = "homarus.theme";

/** @returns {{view: string, args: string[]}} */
export function route() {
  const [view, ...args] = location.hash.replace(/^#\/?/, "").split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { view: VIEWS.some(([name]) => name === view) ? view : "chat", args };
}

/** @param {...string} parts */
export function go(...parts) { location.hash = to(...parts); }

/** Begin a conversation. @param {string} [agent] */
export async function newSession(agent) {
  const made = await wire.call("sessions.create", agent ? { agentId: agent } : {});
  go("chat", made.key);
}

/** What one does with a conversation, and what else a view offers: label, what happens, whether it cannot be chosen. @param {any[][]} more */
export async function manage(row, more) {
  const [key, off] = [row.key, !wire.may("write")];
  const patch = (wish) => wire.call("sessions.patch", { key, ...wish });
  const acts = [...more, [t("Rename"), async () => { const label = await prompt(t("Rename"), t("Name"), row.label ?? ""); if (label !== null) await patch({ label: label || null }); }, off],
    [row.pinned ? t("Unpin") : t("Pin"), () => patch({ pinned: !row.pinned }), off], [row.archived ? t("Bring back") : t("Put into the archive"), () => wire.call("page.archive", { session: key, archived: !row.archived }), off],
    [t("Copy to a new conversation"), async () => go("chat", (await wire.call("sessions.create", { parentSessionKey: key, fork: true, agentId: row.agentId ?? "" })).key), off], [t("Show the context"), () => go("context", key)],
    [t("Delete"), async () => { if (await confirm(t("Delete"), t("“{name}” leaves this list. Its transcript is kept in the archive folder.", { name: store.title(row) }), t("Delete"))) { await wire.call("sessions.delete", { key }); toast(t("Deleted.")); if (route().args[0] === key) go("sessions"); } }, !wire.may("admin") || row.isMain]];
  const pick = await choose(store.title(row), acts.map(([label, , no], place) => [place === acts.length - 1 ? "delete" : String(place), label, no]));
  if (pick === null) return;
  await acts.at(pick === "delete" ? -1 : Number(pick))?.[1]();
  await store.loadSessions();
}

function theme() { return localStorage.getItem(THEME) ?? "system"; }

/** @param {string} name */
function setTheme(name) {
  localStorage.setItem(THEME, name);
  document.documentElement.dataset.theme = name;
}

class HomeApp extends View {
  drawer = false;
  /** @type {Set<string>} */ #there = new Set(["chat"]);

  start() {
    this.replaceChildren(); // what stood there until this script was read
    document.documentElement.dataset.theme = theme();
    document.documentElement.lang = language();
    this.hear(wire, "state", () => this.update());
    this.hear(store, "change", () => this.update());
    this.hear(window, "hashchange", () => { this.drawer = false; for (const box of document.querySelectorAll("dialog")) box.close(); this.update(); });
    this.hear(window, "keydown", (event) => this.#key(event));
    this.hear(window, "language", () => { document.documentElement.lang = language(); this.update(); });
    void wire.start();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); palette(); }
    else if (event.altKey && /^[1-9]$/.test(event.key) && VIEWS[Number(event.key) - 1]) { event.preventDefault(); go(VIEWS[Number(event.key) - 1][0]); }
    else if (event.altKey && event.key.toLowerCase() === "n") { event.preventDefault(); void act(() => newSession()); }
    else if (event.key === "?" && !(/** @type {Element} */ (event.target)).closest("input, textarea, select, dialog")) void keys();
    else if (event.key === "Escape" && this.drawer) { this.drawer = false; this.update(); }
  }

  render() {
    if (!wire.hello) return [h("main", { class: "way-in" }, h("way-in")), h("div", { id: "toasts", role: "status" })];
    const { view, args } = route();
    const place = VIEWS.find(([name]) => name === view);
    document.title = `${view === "chat" ? store.title(store.session(args[0] || store.mainKey) ?? { isMain: true }) : place?.[1]()} · homarus`;
    return [
      h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("main")?.focus(); } }, t("Skip to content")),
      h("div", { class: `frame${this.drawer ? " open" : ""}` },
        h("div", { class: "veil", onclick: () => { this.drawer = false; this.update(); } }),
        h("nav", { class: "side", "aria-label": t("Navigation") }, this.#side(view, args[0] || store.mainKey)),
        h("div", { class: "body" }, this.#bar(view === "chat" ? args[0] || store.mainKey : ""),
          h("main", { id: "main", tabindex: "-1" }, this.#view(view, place?.[2] ?? "", args)))),
      h("div", { id: "toasts", role: "status" }),
    ];
  }

  /** @param {string} open */
  #bar(open) {
    const others = store.approvals.filter((each) => each.session !== open);
    return h("div", { class: "bar-top" },
      icon("☰", t("Menu"), () => { this.drawer = !this.drawer; this.update(); }, { class: "quiet menu", "aria-expanded": String(this.drawer) }),
      wire.state !== "open" ? h("span", { class: "state", role: "status" }, h("span", { class: "dot" }), t("Connection lost; trying again …")) : null,
      others.length ? h("button", { type: "button", class: "asks", onclick: () => go("chat", others[0].session) }, others.length === 1 ? t("A question waits for you") : t("{n} questions wait for you", { n: others.length })) : null);
  }

  /** @param {string} view @param {string} module @param {string[]} args */
  #view(view, module, args) {
    if (view === "chat") return h("chat-view", { key: "chat", session: args[0] || store.mainKey, at: args[1] ?? "" });
    if (this.#there.has(view)) return h(`${view}-view`, { key: view, args });
    void import(`./${module}.js`).then(() => { this.#there.add(view); this.update(); }, () => toast(t("This view could not be loaded."), "bad"));
    return h("p", { class: "empty", key: "wait" }, "…");
  }

  /** @param {string} view @param {string} open */
  #side(view, open) {
    const rows = store.sessions.filter((row) => !row.archived && !/:(cron|hook|subagent|heartbeat|boot):/.test(row.key)).sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updatedAt - a.updatedAt).slice(0, 40);
    return [
      h("div", { class: "brand" }, h("img", { src: "icon.svg", alt: "", width: 24, height: 24 }), h("strong", null, "homarus"),
        h("button", { type: "button", class: "quiet small", onclick: palette }, h("span", { class: "sr" }, t("Commands")), " Ctrl K")),
      button(t("New conversation"), () => newSession(), { class: "primary wide", disabled: !wire.may("write") }),
      h("ul", { class: "views" }, VIEWS.map(([name, title]) => h("li", { key: name },
        h("a", { href: `#/${name}`, "aria-current": view === name ? "page" : null }, title())))),
      h("h2", null, t("Conversations")),
      h("ul", { class: "recent" }, rows.map((row) => h("li", { key: row.key }, h("a", { href: to("chat", row.key), "aria-current": view === "chat" && row.key === open ? "page" : null },
        row.hasActiveRun ? h("span", { class: "dot busy", role: "img", "aria-label": t("at work") }) : null, h("bdi", null, store.title(row)))))),
      h("div", { class: "foot" },
        h("label", null, h("span", { class: "sr" }, t("Appearance")), h("select", { value: theme(), onchange: (event) => setTheme(event.target.value) },
          h("option", { value: "system" }, t("System")), h("option", { value: "light" }, t("Light")), h("option", { value: "dark" }, t("Dark")))),
        h("label", null, h("span", { class: "sr" }, t("Language")), h("select", { value: language(), onchange: (event) => setLanguage(event.target.value) },
          h("option", { value: "en", lang: "en" }, "English"), h("option", { value: "de", lang: "de" }, "Deutsch")))),
    ];
  }
}
customElements.define("home-app", HomeApp);

/** What is shown before the gateway knows who this is. */
class WayIn extends View {
  start() { this.hear(wire, "state", () => this.update()); }
  render() {
    const code = wire.problem?.code ?? "";
    if (wire.state === "waiting") {
      return h("section", { class: "card narrow" }, h("h1", null, t("Waiting for approval")), h("p", null, t("This browser is not known yet. Approve it on the gateway's machine:")),
        h("pre", null, `homarus devices approve ${wire.problem?.details?.requestId ?? ""}`), hint(t("The page goes on by itself afterwards.")));
    }
    if (wire.state !== "locked") return h("p", { class: "empty", role: "status" }, wire.state === "lost" ? t("The gateway does not answer; trying again …") : t("Connecting …"));
    const send = (event) => { event.preventDefault(); wire.unlock(String(new FormData(event.target).get("secret") ?? "").trim()); };
    return h("form", { class: "card narrow", onsubmit: send }, h("h1", null, "homarus"),
      h("p", null, t("Open this page with “homarus dashboard”, or type the gateway's token (gateway.auth.token in openclaw.json).")),
      code && code !== "AUTH_REQUIRED" ? h("p", { class: "problem", role: "alert" }, code === "AUTH_RATE_LIMITED" ? t("Too many wrong tries; wait a few minutes.") : /BOOTSTRAP|DEVICE/.test(code) ? t("That link was used already or is too old.") : t("That is not the gateway's token.")) : null,
      h("label", null, t("Token or password"), h("input", { name: "secret", type: "password", autocomplete: "current-password", required: true })),
      h("button", { class: "primary" }, t("Connect")));
  }
}
customElements.define("way-in", WayIn);

/** @returns {{label: string, hint: string, run: () => any}[]} */
function commands() {
  const views = VIEWS.map(([name, title], place) => ({ label: title(), hint: place < 9 ? `Alt ${place + 1}` : "", run: () => go(name) }));
  const sessions = store.sessions.slice(0, 200).map((row) => ({ label: store.title(row), hint: row.key, run: () => go("chat", row.key) }));
  const own = [
    { label: t("New conversation"), hint: "Alt N", run: () => newSession() },
    { label: t("Keys"), hint: "?", run: keys },
    { label: t("Light or dark"), hint: "", run: () => setTheme(theme() === "dark" ? "light" : "dark") },
    { label: language() === "de" ? "English" : "Deutsch", hint: "", run: () => setLanguage(language() === "de" ? "en" : "de") },
    { label: t("Forget this browser's rights"), hint: "", run: () => wire.forget() },
  ];
  return [...own, ...views, ...sessions];
}

/** What the keyboard does. */
function keys() {
  const rows = [["Ctrl K", t("Commands")], ["Alt N", t("New conversation")], ["Alt 1 … 9", t("Change the view")], ["Alt /", t("Write a message")], ["Enter", t("Send")], ["Shift Enter", t("Begin a new line")], ["Esc", t("Stop the agent, close a dialog")], ["Ctrl Shift F", t("Search in this conversation")], ["?", t("Keys")]];
  return ask(t("Keys"), (done) => [h("dl", { class: "keys" }, rows.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)])), closing(done)]);
}

/** The palette: everything one can go to or do, by typing a part of its name. */
export function palette() {
  if (document.querySelector("dialog.palette")) return;
  const box = document.createElement("dialog");
  box.className = "palette";
  box.setAttribute("aria-label", t("Commands"));
  box.append(document.createElement("command-palette"));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

class CommandPalette extends View {
  text = "";
  chosen = 0;
  get found() {
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    return commands().filter((each) => words.every((word) => `${each.label} ${each.hint}`.toLowerCase().includes(word))).slice(0, 12);
  }
  /** @param {number} place */
  run(place) {
    const chosen = this.found[place];
    this.closest("dialog")?.close();
    if (chosen) void act(chosen.run);
  }
  /** @param {KeyboardEvent} event */
  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); this.chosen = (this.chosen + step + this.found.length) % Math.max(1, this.found.length); this.update(); }
    if (event.key === "Enter") { event.preventDefault(); this.run(this.chosen); }
  }
  render() {
    const found = this.found;
    return [h("input", { role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-activedescendant": found.length ? `found-${this.chosen}` : null, "aria-label": t("What do you want to do?"), placeholder: t("What do you want to do?"), autofocus: true,
      oninput: (event) => { this.text = event.target.value; this.chosen = 0; this.update(); }, onkeydown: (event) => this.key(event) }),
    h("ul", { id: "found", role: "listbox", "aria-label": t("Commands") }, found.map((each, place) => h("li", { id: `found-${place}`, role: "option", "aria-selected": String(place === this.chosen), onclick: () => this.run(place) }, h("bdi", null, each.label), small(each.hint))))];
  }
}
customElements.define("command-palette", CommandPalette);
