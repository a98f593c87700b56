/** A conversation: what was said, what is being said, what the agent does meanwhile, and what one says to it. */
import { View } from "./base.js";
import { cited, coloured, loadColours, markdown } from "./markdown.js";
import { act, base64, button, bytes, chip, choose, clock, confirm, deciding, diff, explain, h, hint, icon, money, number, short, small, store, t, to, toast, visible, wire } from "./parts.js";
import { go, manage, newSession } from "./app.js";
import "./list.js";

/** @typedef {import("./base.js").Kid} Kid */
/** @typedef {{key: string, kind: string, line: any, results: Map<string, any>, version: number}} Entry */

const MAX_FILES = 20, MAX_BYTES = 18_000_000, PICTURES = /^image\/(png|jpeg|gif|webp)$/;
const EARLIER = 1000, AT_ONCE = 6000; // lines of one step back, and how many are fetched before somebody wants them

/** What a tool is about, in a few words. */
function about(call) {
  const args = call.arguments ?? {};
  const word = args.command ?? args.cmd ?? args.path ?? args.file_path ?? args.query ?? args.url ?? args.text ?? args.pattern ?? "";
  return String(typeof word === "string" ? word : JSON.stringify(word)).replace(/\s+/g, " ").slice(0, 120);
}

class ChatView extends View {
  session = "";
  lines = [];
  /** @type {any} */ live = null;
  /** @type {any} */ info = null;
  notices = [];
  files = [];
  sending = [];
  /** @type {Set<string>} */ folds = new Set();
  /** @type {Entry[]} */ entries = [];
  editing = "";
  searching = false;
  query = "";
  match = 0;
  later = false;
  more = false;
  problem = "";
  ready = false;
  /** The line that the address names. */ at = "";
  #open = "";
  #seq = 0;
  #back = false;
  /** @type {any} */ #early = null;
  /** @type {WeakMap<any, {version: string, item: Kid}>} */ #drawn = new WeakMap();
  /** @type {Set<string>} */ #runs = new Set();

  start() {
    this.hear(wire, "state", () => { if (wire.state === "open") void this.#load(true); this.update(); });
    this.hear(wire, "page.event", (event) => this.#heard(event.detail));
    this.hear(wire, "chat", (event) => this.#replied(event.detail));
    this.hear(store, "change", () => this.update());
    this.hear(window, "keydown", (event) => this.#key(event));
    this.hear(window, "language", () => { this.#drawn = new WeakMap(); this.update(); });
    void loadColours().then(() => { this.#drawn = new WeakMap(); this.update(); });
    this.until(() => { if (this.#open && wire.state === "open") void wire.call("page.close", { session: this.#open }).catch(() => {}); this.#open = ""; });
  }

  update() {
    if (this.session !== this.#open && wire.state === "open") {
      const before = this.#open;
      this.#open = this.session;
      [this.lines, this.live, this.notices, this.entries, this.editing, this.query, this.searching, this.ready, this.more] = [[], null, [], [], "", "", false, false, false];
      if (before) void wire.call("page.close", { session: before }).catch(() => {});
      void this.#load(false);
    }
    super.update();
  }

  connectedCallback() { super.connectedCallback(); this.update(); }

  /** Read the session, or only what came after the last line that is here. @param {boolean} again */
  async #load(again) {
    const session = this.session;
    const after = again && this.ready ? this.lines.at(-1)?.id ?? "" : "";
    this.#early = [];
    try {
      const found = await wire.call("page.open", after ? { session, after } : { session });
      if (session !== this.session) return;
      this.#seq = found.seq;
      this.info = { ...found.session, window: found.defaults.contextTokens };
      this.lines = found.continued ? [...this.lines, ...found.lines.filter((line) => !this.lines.some((one) => one.id === line.id))] : found.lines;
      if (!found.continued) this.more = found.more;
      this.live = found.live ? { ...found.live, tools: new Map(found.live.tools.map((tool) => [tool.id, tool])) } : null;
      this.problem = "";
      this.ready = true;
      const early = this.#early ?? [];
      this.#early = null;
      for (const told of early) if (told.kind === "line" || told.seq > this.#seq) this.#take(told);
      this.#rebuild();
      if (!found.continued) void this.#earlier(AT_ONCE);
    } catch (problem) {
      this.#early = null;
      if (problem.code !== "LOST") this.problem = problem.message;
      this.update();
    }
  }

  /** Fetch what was said before, also before a summary, so that it can be searched and scrolled to. @param {number} wanted how many lines there shall be */
  async #earlier(wanted) {
    const session = this.session;
    if (this.#back) return;
    this.#back = true;
    while (this.more && this.lines.length && (this.lines.length < wanted || this.at) && wire.state === "open") {
      const found = await wire.call("page.earlier", { session, before: this.lines[0].id, limit: EARLIER }).catch(() => null);
      if (!found || session !== this.session) break;
      this.more = found.more && found.lines.length > 0;
      this.lines = [...found.lines, ...this.lines];
      this.#rebuild();
    }
    this.#back = false;
    if (session !== this.session) void this.#earlier(AT_ONCE);
    else if (this.at) this.update();
  }

  /** Bring the line into view that the address names. */
  #reach() {
    const entry = this.at && this.entries.find((each) => each.key === this.at || [...each.results.values()].some((result) => result.id === this.at));
    if (!this.at || !this.ready || !this.list) return;
    if (!entry && this.more) { void this.#earlier(0); return; }
    this.at = "";
    if (entry) this.list.show(entry.key);
  }

  #heard(told) {
    if (told.session !== this.info?.key && told.session !== this.session) return;
    if (this.#early) { this.#early.push(told); return; }
    if (told.seq > this.#seq + 1) { void this.#load(true); return; } // something was missed
    this.#take(told);
  }

  #take(told) {
    this.#seq = Math.max(this.#seq, told.seq);
    const live = this.live;
    switch (told.kind) {
      case "run": this.live = { run: told.run, model: told.model, text: "", thinking: "", tools: new Map() }; this.#runs.add(told.run); break;
      case "text": case "thinking": if (live) live[told.kind] = live[told.kind].slice(0, told.at) + told.text; break;
      case "again": if (live) live.text = live.thinking = ""; break;
      case "tool": live?.tools.set(told.tool.id, told.tool); break;
      case "progress": if (live?.tools.has(told.id)) live.tools.get(told.id).text = told.text; break;
      case "line": this.#line(told.line); break;
      case "notice": this.#notice(told.text, told.level === "error" ? "bad" : ""); break;
      case "compaction": if (!told.ended) this.#notice(t("Older messages are being summarised …"), ""); break;
      case "child": this.#notice(t("Helper {name}: {status}", { name: told.name, status: told.status }), ""); break;
      case "reset": this.ready = false; void this.#load(false); return;
      case "end":
        if (told.status !== "ok" && told.status !== "aborted") this.#notice(told.problem || told.status, "bad");
        this.live = null;
        break;
    }
    this.#rebuild();
  }

  #line(line) {
    if (this.lines.some((one) => one.id === line.id)) return;
    this.lines.push(line);
    if (line.role === "user") this.sending = this.sending.filter((one) => one.id !== line.sent);
    if (line.role === "assistant" && this.live) this.live.text = this.live.thinking = "";
    if (line.role === "tool") this.live?.tools.delete(line.call);
  }

  /** What the program itself answers, as to a command, is in no transcript. */
  #replied(told) {
    if (told.sessionKey !== this.info?.key || told.state !== "final") return;
    const mine = this.sending.some((one) => one.id === told.runId);
    this.sending = this.sending.filter((one) => one.id !== told.runId);
    const text = told.message?.content?.map((part) => part.text ?? "").join("");
    if (text && mine && !this.#runs.has(told.runId)) this.#notice(text, "reply");
    else if (text && told.runId.startsWith("inject-")) void this.#load(true);
    this.#rebuild();
  }

  /** @param {string} text @param {string} kind */
  #notice(text, kind) {
    this.notices.push({ id: `notice-${this.notices.length}`, role: "notice", text, kind, after: this.lines.at(-1)?.id ?? "", time: Date.now() });
    this.#rebuild();
  }

  #rebuild() {
    /** @type {Entry[]} */ const out = [];
    /** @type {Map<string, Entry>} */ const calls = new Map();
    const known = new Map(this.entries.map((each) => [each.line, each]));
    const add = (line) => {
      const entry = known.get(line) ?? { key: line.id, kind: line.role, line, results: new Map(), version: 0 };
      out.push(entry);
      return entry;
    };
    const byPlace = new Map();
    for (const notice of this.notices) byPlace.set(notice.after, [...(byPlace.get(notice.after) ?? []), notice]);
    for (const notice of byPlace.get("") ?? []) add(notice);
    for (const line of this.lines) {
      if (line.role === "tool" && calls.has(line.call)) {
        const owner = /** @type {Entry} */ (calls.get(line.call));
        if (!owner.results.has(line.call)) { owner.results.set(line.call, line); owner.version++; }
      } else {
        const entry = add(line);
        for (const call of line.calls ?? []) calls.set(call.id, entry);
      }
      for (const notice of byPlace.get(line.id) ?? []) add(notice);
    }
    this.entries = out;
    this.update();
  }

  get busy() { return Boolean(this.live) || Boolean(store.session(this.info?.key)?.hasActiveRun); }

  // What one does.

  /** @param {string} text */
  async #send(text) {
    const files = this.files.splice(0);
    if (!text.trim() && !files.length) return;
    const id = crypto.randomUUID();
    const message = { id, text, files: files.map((file) => file.name) };
    const unnamed = this.ready && !this.lines.length && /:dashboard:/.test(this.session) && !this.info?.label && text.trim() && !text.startsWith("/");
    this.sending.push(message);
    this.list?.toEnd();
    this.update();
    try {
      const sent = await Promise.all(files.map(async (file) => ({ name: file.name, mimeType: PICTURES.test(file.type) ? file.type : "", data: await base64(file) })));
      const mode = this.busy && this.later ? { queueMode: "followup" } : {};
      await wire.call("page.send", { session: this.session, message: text, id, files: sent, ...mode }, { again: true });
      if (unnamed) await wire.call("sessions.patch", { key: this.session, label: text.trim().replace(/\s+/g, " ").slice(0, 48) });
    } catch (problem) {
      this.sending = this.sending.filter((one) => one.id !== id);
      const box = this.box;
      if (box && !box.value) box.value = text;
      this.files.push(...files);
      toast(problem.message, "bad");
      this.update();
    }
  }

  /** @returns {HTMLTextAreaElement | null} */ get box() { return this.querySelector("textarea.say"); }
  /** @returns {any} */ get list() { return this.querySelector("long-list"); }

  #stop() { void act(() => wire.call("chat.abort", { sessionKey: this.session })); }

  /** Say a message otherwise: the conversation goes on from right before it. @param {string} text */
  async #resay(line, text) {
    this.editing = "";
    try {
      await wire.call("page.goBack", { session: this.session, entry: line.id });
      await this.#send(text);
    } catch (problem) {
      if (problem.details?.code !== "FIRST_MESSAGE") throw problem;
      const made = await wire.call("sessions.create", { agentId: this.info?.agentId ?? "", message: text });
      go("chat", made.key);
    }
  }

  /** @param {Iterable<File>} files */
  #attach(files) {
    for (const file of files) {
      const size = this.files.reduce((sum, one) => sum + one.size, file.size);
      if (this.files.length >= MAX_FILES || size > MAX_BYTES) { toast(t("At most {n} files with {size} in all.", { n: MAX_FILES, size: bytes(MAX_BYTES) }), "bad"); break; }
      this.files.push(file);
    }
    this.update();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape" && this.busy && !document.querySelector("dialog[open]") && document.activeElement === this.box) { event.preventDefault(); this.#stop(); }
    if ((event.ctrlKey || event.metaKey) && event.shiftKey && event.key.toLowerCase() === "f") { event.preventDefault(); this.#seek(); }
    if (event.altKey && event.key === "/") { event.preventDefault(); this.box?.focus(); }
  }

  // Searching.

  #seek() {
    [this.searching, this.query] = [!this.searching, ""];
    if (this.searching) void this.#earlier(Infinity);
    this.update();
  }

  get hits() {
    const text = this.query.toLowerCase();
    return text ? this.entries.filter((each) => words(each).includes(text)) : [];
  }

  /** @param {number} step */
  #find(step) {
    const found = this.hits;
    if (!found.length) return;
    this.match = (this.match + step + found.length) % found.length;
    this.list?.show(found[this.match].key);
    this.update();
  }

  drawn() {
    this.#reach();
    const highlights = /** @type {any} */ (CSS).highlights;
    if (!highlights) return;
    highlights.delete("found");
    if (!this.query || !this.searching) return;
    const ranges = [];
    const walk = document.createTreeWalker(this.list ?? this, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const text = walk.currentNode.textContent?.toLowerCase() ?? "";
      for (let at = text.indexOf(this.query.toLowerCase()); at >= 0; at = text.indexOf(this.query.toLowerCase(), at + 1)) {
        const range = new Range();
        range.setStart(walk.currentNode, at);
        range.setEnd(walk.currentNode, at + this.query.length);
        ranges.push(range);
      }
    }
    highlights.set("found", new Highlight(...ranges));
  }

  // Drawing.

  render() {
    const questions = store.approvals.filter((each) => each.session === this.info?.key);
    const items = [...this.entries, ...this.sending.map((one) => ({ key: `sending-${one.id}`, kind: "sending", line: one })), ...(this.live ? [{ key: "live", kind: "live", line: this.live }] : [])];
    const drop = (event) => { event.preventDefault(); this.#attach(event.dataTransfer?.files ?? []); };
    return h("div", { class: "chat", ondragover: (event) => event.preventDefault(), ondrop: drop },
      this.#top(), this.searching ? this.#search() : null,
      this.problem ? h("p", { class: "problem", role: "alert" }, this.problem) : null,
      h("long-list", { key: `list-${this.session}`, class: "said", role: "list", "aria-label": t("Messages"), tabindex: 0, items, row: (item) => this.#row(item), guess: guess, onmoved: () => { if (this.list.scrollTop < 900) void this.#earlier(this.lines.length + 1); this.update(); }, ref: (el) => el.belongsTo(this.session) }),
      this.list && !this.list.follows ? icon("↓", t("To the newest message"), () => { this.list.toEnd(); this.update(); }, { class: "to-end" }) : null,
      this.ready && !items.length ? h("div", { class: "greeting" }, h("p", null, t("Say something to begin.")), hint(t("Enter sends, Esc stops the agent, Ctrl K finds everything."))) : null,
      questions.length ? h("div", { class: "questions", role: "region", "aria-label": t("Questions") }, questions.map((each) => approval(each))) : null,
      this.#composer());
  }

  #top() {
    const row = { ...this.info, ...store.session(this.info?.key) };
    const share = row.totalTokens && row.contextTokens ? Math.min(1, row.totalTokens / row.contextTokens) : 0;
    return h("header", { class: "chat-top" },
      h("h1", null, h("bdi", null, store.title(row.key ? row : { isMain: true }))), this.busy ? chip("busy", t("at work")) : null,
      h("span", { class: "grow" }),
      row.model ? h("small", { class: "model", title: row.modelProvider }, row.model) : null,
      share ? h("a", { href: to("context", this.session), class: "meter", title: t("{used} of {all} tokens", { used: number(row.totalTokens), all: number(row.contextTokens) }) },
        h("meter", { value: share, "aria-label": t("Context window") }), small(`${Math.round(100 * share)} %`)) : null,
      icon("⌕", t("Search in this conversation"), () => this.#seek()),
      icon("⋯", t("More"), () => this.#menu(row)));
  }

  #menu(row) {
    const [admin, session] = [!wire.may("admin"), this.session];
    return manage(row, [[t("Model"), async () => {
      const { models } = await wire.call("models.list");
      const model = await choose(t("Model"), [["", t("default")], ...models.map((each) => [`${each.provider}/${each.id}`, `${each.provider}/${each.id}`])]);
      if (model !== null) await wire.call("sessions.patch", { key: session, model: model || null });
    }], [t("Branches"), () => this.#branches()], [t("New conversation"), () => newSession(row.agentId)],
    [t("Summarise older messages now"), async () => { const done = await wire.call("sessions.compact", { key: session }); toast(done.compacted ? t("Older messages were summarised.") : done.result?.reason ?? done.reason); }, admin],
    [t("Start this conversation over"), async () => { if (await confirm(t("Start this conversation over"), t("What was said is put into the archive."), t("Start over"))) { await wire.call("sessions.reset", { key: session }); this.ready = false; await this.#load(false); } }, admin]]);
  }

  async #branches() {
    const { branches } = await wire.call("page.branches", { session: this.session });
    const leaf = await choose(t("Branches"), branches.map((each) => [each.leaf, [h("bdi", null, each.said || "–"), small(` ${t("{n} messages", { n: each.count })} · ${clock(each.time)}${each.active ? ` · ${t("in view")}` : ""}`)], each.active]), t("Each edit of a message begins a branch; none is lost."));
    if (leaf) await wire.call("page.goBack", { session: this.session, entry: leaf });
  }

  #search() {
    const found = this.hits.length;
    return h("search", { class: "find" }, h("input", { type: "search", "aria-label": t("Search in this conversation"), placeholder: t("Search in this conversation"), autofocus: true, value: this.query, ref: (el) => setTimeout(() => el.focus()),
      oninput: (event) => { this.query = event.target.value; this.match = 0; this.#find(0); this.update(); },
      onkeydown: (event) => { if (event.key === "Enter") this.#find(event.shiftKey ? -1 : 1); if (event.key === "Escape") { this.searching = false; this.update(); } } }),
    h("span", { role: "status" }, this.query ? t("{n} found", { n: found }) : ""),
    icon("↑", t("Previous"), () => this.#find(-1)), icon("↓", t("Next"), () => this.#find(1)));
  }

  /** @returns {Kid} */
  #row(entry) {
    const line = entry.line;
    if (entry.kind === "live") return this.#live(line);
    if (entry.kind === "sending") return h("article", { class: "message user pending" }, h("div", { class: "bubble" }, line.text, line.files.map((name) => chip("", name))), h("small", { role: "status" }, wire.state === "open" ? t("sending …") : t("waits for the connection …")));
    const working = (line.calls ?? []).map((call) => this.live?.tools.get(call.id)?.text ?? "").join("").length;
    const version = `${working} ${entry.version} ${this.editing === line.id} ${entry.kind === "user" ? this.busy : ""} ${[...entry.results.keys()].length}`;
    const known = this.#drawn.get(line);
    if (known?.version === version) return known.item;
    const item = this.#message(entry);
    this.#drawn.set(line, { version, item });
    return item;
  }

  /** @returns {Kid} */
  #message(entry) {
    const line = entry.line;
    if (line.role === "notice") return h("aside", { class: `notice ${line.kind}` }, line.kind === "reply" ? markdown(line.text) : line.text);
    if (line.role === "summary") return h("article", { class: "message summary" }, this.#fold(`sum-${line.id}`, t("Older messages were summarised here"), () => markdown(line.text)));
    if (line.role === "reset") return h("aside", { class: "notice" }, t("A new conversation begins here"));
    if (line.role === "tool") return h("article", { class: "message assistant" }, this.#tool({ id: line.call, name: line.name, arguments: {} }, line));
    if (line.role === "user") return this.#user(line);
    return h("article", { class: "message assistant" },
      line.thinking ? this.#thinking(line.id, line.thinking) : null,
      line.text ? h("div", { class: "prose" }, markdown(line.text)) : null,
      (line.calls ?? []).map((call) => this.#tool({ ...call, text: this.live?.tools.get(call.id)?.text }, entry.results.get(call.id))),
      line.problem ? h("p", { class: "problem" }, line.problem) : null,
      line.text && !line.calls ? h("footer", null, h("time", null, clock(line.time)), line.model ? h("span", null, line.model) : null,
        line.usage ? h("span", { title: t("read {in}, from the cache {cache}, written {out}", { in: number(line.usage.input), cache: number(line.usage.cacheRead), out: number(line.usage.output) }) }, `${short(line.usage.totalTokens)} ${t("tokens")}${line.usage.cost?.total ? ` · ${money(line.usage.cost.total)}` : ""}`) : null,
        copyButton(line.text)) : null);
  }

  /** @returns {Kid} */
  #user(line) {
    if (this.editing === line.id) {
      const save = (event) => { event.preventDefault(); void act(() => this.#resay(line, String(new FormData(event.target).get("text")))); };
      return h("form", { class: "message user edit", onsubmit: save }, h("label", null, h("span", { class: "sr" }, t("Say it otherwise")), h("textarea", { name: "text", rows: 4, value: shownText(line.text), ref: (el) => setTimeout(() => el.focus()) })),
        deciding(() => { this.editing = ""; this.update(); }, t("Send as a new branch")));
    }
    return h("article", { class: "message user" }, h("div", { class: "bubble" }, shownText(line.text), attachedNames(line.text).map((name) => chip("", `📎 ${name}`)), pictures(line.images)),
      line.context ? this.#fold(`ctx-${line.id}`, t("What rode on this message"), () => [h("pre", { tabindex: "0" }, cited(line.context)), this.#why(line)], "rode") : null,
      h("footer", null, h("time", null, clock(line.time)), copyButton(line.text),
        wire.may("write") ? h("button", { type: "button", class: "quiet small", disabled: this.busy, onclick: () => { this.editing = line.id; this.update(); } }, t("Edit")) : null));
  }

  /** Why a passage was recalled for a message. @returns {Kid} */
  #why(line) {
    const passages = [...new Set([...line.context.matchAll(/(?:[\w@.-]+\/)*[\w@.-]+\.md#L\d+/g)].map((found) => found[0]))].slice(0, 12);
    return passages.length ? h("p", { class: "whys" }, t("Why was it recalled?"), " ", passages.map((place) => button(place, () => explain(line.text, place, this.info?.agentId ?? ""), { class: "quiet small" }))) : null;
  }

  /** @returns {Kid} */
  #live(live) {
    return h("article", { class: "message assistant live", "aria-busy": "true" },
      live.thinking ? this.#thinking("live", live.thinking) : null,
      live.text ? h("div", { class: "prose" }, markdown(live.text)) : null,
      [...live.tools.values()].filter((tool) => !this.lines.at(-1)?.calls?.some((call) => call.id === tool.id)).map((tool) => this.#tool(tool, null)),
      h("p", { class: "working", role: "status" }, h("span", { class: "dot busy" }), live.tools.size ? t("uses tools …") : live.text ? t("writes …") : t("thinks …")));
  }

  /** @param {string} key @param {string} text */
  #thinking(key, text) { return this.#fold(`think-${key}`, t("Thoughts"), () => h("div", { class: "prose" }, markdown(text)), "thinking"); }

  /** Something that can be opened; what is inside is drawn when it is. @param {string} key @param {Kid} title @param {() => Kid} body @param {string} [kind] */
  #fold(key, title, body, kind = "") {
    return h("details", { key, class: `fold ${kind}`, open: this.folds.has(key), ontoggle: (event) => {
      if (event.target.open === this.folds.has(key)) return;
      event.target.open ? this.folds.add(key) : this.folds.delete(key);
      this.#drawn = new WeakMap();
      this.list?.update();
    } }, h("summary", null, title), this.folds.has(key) ? h("div", { class: "fold-body" }, body()) : null);
  }

  /** @returns {Kid} */
  #tool(call, result) {
    const state = !result ? chip("busy", t("runs")) : result.error ? chip("bad", t("failed")) : chip("ok", t("done"));
    const title = [h("strong", null, call.name), " ", h("code", null, visible(about(call))), h("span", { class: "grow" }), result?.seconds >= 0.1 ? small(`${result.seconds.toFixed(1)}\u00a0s`) : null, state];
    return this.#fold(`tool-${call.id}`, title, () => [
      Object.keys(call.arguments ?? {}).length ? [h("h3", null, t("Arguments")), h("pre", { tabindex: "0" }, coloured(JSON.stringify(call.arguments, null, 2), "json"))] : null,
      result?.details?.diff ? [h("h3", null, t("Changes")), diff(result.details.diff)] : null,
      result ? [h("h3", null, t("Result")), h("pre", { class: "result", tabindex: "0" }, cited(result.text.slice(0, 50_000))), pictures(result.images)] : call.text ? h("pre", { class: "result", tabindex: "0" }, visible(call.text)) : null,
    ], "tool");
  }

  #composer() {
    const send = (event) => {
      event.preventDefault();
      const box = this.box;
      if (!box) return;
      const text = box.value;
      box.value = "";
      box.style.setProperty("height", "auto");
      void this.#send(text);
    };
    const grow = (event) => { event.target.style.setProperty("height", "auto"); event.target.style.setProperty("height", `${Math.min(240, event.target.scrollHeight + 2)}px`); };
    const key = (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event); };
    const paste = (event) => { if (event.clipboardData?.files.length) { event.preventDefault(); this.#attach(event.clipboardData.files); } };
    const off = !wire.may("write");
    return h("form", { class: `composer${this.busy ? " busy" : ""}`, onsubmit: send },
      this.files.length ? h("ul", { class: "files" }, this.files.map((file, place) => h("li", { key: `${file.name}${place}` }, preview(file), h("bdi", null, file.name), small(` ${bytes(file.size)}`),
        icon("×", t("Remove {name}", { name: file.name }), () => { this.files.splice(place, 1); this.update(); }, { class: "quiet small" })))) : null,
      h("div", { class: "line" },
        h("label", { class: "clip quiet", title: t("Add files") }, h("span", { class: "sr" }, t("Add files")), "+", h("input", { type: "file", multiple: true, class: "sr", onchange: (event) => { this.#attach(event.target.files); event.target.value = ""; } })),
        h("textarea", { class: "say", rows: 1, "aria-label": t("Message"), disabled: off, placeholder: off ? t("This browser may only read") : this.busy ? t("Steer the agent while it works …") : t("Say something …"), oninput: grow, onkeydown: key, onpaste: paste }),
        this.busy ? [h("label", { class: "later", title: t("Otherwise it steers what runs now") }, h("input", { type: "checkbox", checked: this.later, onchange: (event) => { this.later = event.target.checked; } }), t("afterwards")),
          h("button", { type: "button", class: "stop", onclick: () => this.#stop() }, t("Stop"))] : null,
        h("button", { class: "primary", disabled: off }, this.busy ? t("Steer") : t("Send"))));
  }
}
customElements.define("chat-view", ChatView);

/** Everything in a row that can be searched. */
function words(entry) {
  const line = entry.line;
  line.searched ??= `${line.text ?? ""} ${(line.calls ?? []).map((call) => `${call.name} ${JSON.stringify(call.arguments)}`).join(" ")}`.toLowerCase();
  return `${line.searched} ${[...(entry.results?.values() ?? [])].map((result) => result.text.toLowerCase()).join(" ")}`;
}

function guess(entry) {
  const line = entry.line;
  return 46 + Math.min(1200, Math.ceil((line.text?.length ?? 0) / 80) * 23) + (line.calls?.length ?? 0) * 44;
}

const FILE = /<file name="([^"\n]*)">\n[\s\S]*?\n<\/file>/g;
const shownText = (text) => text.replace(FILE, "").trim();
const attachedNames = (text) => [...text.matchAll(FILE)].map((found) => found[1]);

/** @param {string} text */
const copyButton = (text) => h("button", { type: "button", class: "quiet small", onclick: (event) => { void navigator.clipboard?.writeText(text); event.currentTarget.textContent = t("Copied"); } }, t("Copy"));

/** @param {any[] | undefined} images */
const pictures = (images) => (images ?? []).filter((each) => PICTURES.test(each.mimeType)).map((each) => h("img", { class: "picture", src: `data:${each.mimeType};base64,${each.data}`, alt: t("Picture") }));

function preview(file) {
  if (!PICTURES.test(file.type)) return "📄 ";
  file.address ??= URL.createObjectURL(file);
  return h("img", { src: file.address, alt: "" });
}

/** A question of the agent: exactly what would happen, and the answers that there are. */
export function approval(request) {
  const answer = (decision) => act(async () => { await wire.call("exec.approval.resolve", { id: request.id, decision }); await store.loadApprovals(); });
  const facts = request.details ?? {};
  const rows = [[t("Why it asks"), request.reason], [t("Folder"), facts.cwd], [t("Sandbox"), facts.sandbox], [t("Variables"), facts.env?.join(", ")], [t("Files"), facts.files?.join("\n")], [t("Session"), request.session]].filter(([, value]) => value);
  return h("section", { key: request.id, class: "question", "aria-label": t("May it do this?") },
    h("h2", null, t("May it do this?"), " ", chip("", request.kind)),
    h("pre", { class: "exact", tabindex: "0" }, visible(facts.whole ?? request.summary)),
    facts.argv?.length && !facts.shell ? h("ol", { class: "argv", "aria-label": t("Arguments") }, facts.argv.map((each) => h("li", null, h("code", null, visible(each))))) : null,
    h("dl", null, rows.map(([name, value]) => [h("dt", null, name), h("dd", null, visible(value))])),
    h("div", { class: "buttons" },
      small(t("until {time}", { time: clock(request.expires) })),
      h("button", { type: "button", class: "danger", onclick: () => answer("deny") }, t("No")),
      request.lasting ? h("button", { type: "button", onclick: () => answer("allow-always") }, t("Always")) : null,
      h("button", { type: "button", class: "primary", onclick: () => answer("allow-once") }, t("Yes, once"))));
}

