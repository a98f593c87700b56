// @ts-check
/** Memory: search with reasons, notes to read and edit, who is known, what is thought of them, and how it hangs together. */
import { h } from "./base.js";
import { wire } from "./wire.js";
import { store } from "./store.js";
import { t } from "./words.js";
import { markdown } from "./markdown.js";
import { Page, act, ask, button, bytes, card, chip, choose, compare, curve, diff, explain, head, needs, number, percent, picker, toast, visible } from "./parts.js";

/** @typedef {import("./base.js").Kid} Kid */

const MOST_NODES = 60;
const KINDS = () => /** @type {Record<string, string>} */ ({ world: t("fact"), experience: t("experience"), opinion: t("opinion"), observation: t("observation") });
const noteLink = (place) => h("a", { href: `#/memory/note/${encodeURIComponent(place)}`, class: "cite" }, place);

class MemoryView extends Page {
  agent = "";
  text = "";
  name = "";
  asOf = "";
  /** @type {any} */ answer = null;
  /** @type {any} */ notes = null;
  /** @type {any} */ note = null;
  /** @type {any} */ known = null;
  editing = false;

  start() {
    super.start();
    this.agent ||= store.defaultAgent;
    this.hear(store, "change", () => this.update());
  }

  get tab() { return this.args[0] || "search"; }
  get key() { return `${this.agent} ${this.tab} ${this.tab === "note" ? this.args[1] ?? "" : ""}`; }

  async load() {
    const agent = this.agent;
    if (this.tab === "note") {
      this.notes ??= await wire.call("page.memory.notes", { agent });
      this.editing = false;
      this.note = this.args[1] ? await wire.call("page.memory.note", { path: this.args[1], agent }) : null;
      requestAnimationFrame(() => this.querySelector(".here")?.scrollIntoView({ block: "center" }));
    } else if (this.tab === "search") this.notes ??= await wire.call("page.memory.notes", { agent });
    else this.known ??= await wire.call("page.memory.knowledge", { agent });
  }

  render() {
    const tabs = /** @type {[string, string][]} */ ([["search", t("Search")], ["note", t("Notes")], ["people", t("People and things")], ["opinions", t("Opinions")], ["graph", t("Graph")]]);
    return [
      head(t("Memory"), t("Markdown files are the truth; everything here is read from them."),
        store.agents.length > 1 ? picker(t("Agent"), this.agent, store.agents.map((each) => [each.id, each.name ?? each.id]), (agent) => { this.agent = agent; this.notes = this.known = this.note = this.answer = null; this.update(); }) : null,
        button(t("Put the bank in order"), async () => { const done = await wire.call("page.memory.reflect", { agent: this.agent }); toast(t("{n} pages changed.", { n: done.pages.filter((page) => page.changed).length })); this.notes = this.known = null; await this.reload(); }, { disabled: !wire.may("admin") })),
      this.tabs("memory", this.tab, tabs),
      this.trouble,
      this.tab === "note" ? this.#notes() : this.tab === "people" ? this.#people() : this.tab === "opinions" ? this.#opinions() : this.tab === "graph" ? this.#graph() : this.#search(),
    ];
  }

  // Search.

  #search() {
    const send = (event) => { event.preventDefault(); void this.read(async () => { this.answer = this.text.trim() ? { query: this.text, ...await wire.call("memory.search", { query: this.text, agentId: this.agent, maxResults: 25, ...(this.asOf ? { asOf: this.asOf } : {}) }) } : null; this.notes = await wire.call("page.memory.notes", { agent: this.agent }); }); };
    const status = this.notes?.status;
    return [h("form", { class: "actions", onsubmit: send, role: "search" },
      h("input", { type: "search", "aria-label": t("What do the notes say?"), placeholder: t("What do the notes say?"), value: this.text, oninput: (event) => { this.text = event.target.value; } }),
      h("label", null, h("span", { class: "sr" }, t("As of")), h("input", { type: "date", value: this.asOf, title: t("What was known on that day"), onchange: (event) => { this.asOf = event.target.value; } })),
      h("button", { class: "primary" }, t("Search"))),
    status?.exists ? h("p", { class: "hint" }, t("{files} notes, {lines} lines, {facts} facts", { files: number(status.files), lines: number(status.lines), facts: number(status.facts) }), ` · ${status.provider}`) : null,
    this.answer ? this.#answer(this.answer) : null];
  }

  #answer(answer) {
    return card("", h("p", { class: "hint", role: "status" }, t("{n} found", { n: answer.count }), ` · ${answer.searchMs ?? 0} ms · ${answer.mode}`, answer.verdict === "unknown" ? [" ", chip("warn", t("the notes probably do not say"))] : null, answer.degraded ? ` · ${answer.degraded}` : "", answer.stale ? ` · ${answer.stale}` : ""),
      answer.results.map((hit, place) => h("article", { class: "hit", key: place }, noteLink(hit.source), " ", h("small", null, [hit.timestamp, hit.score.toFixed(2), hit.kind].filter(Boolean).join(" · ")), hit.confidence !== undefined ? chip("", `${percent(hit.confidence)} ${t("sure")}`) : null, hit.supersededBy ? [" ", chip("warn", t("replaced")), " ", noteLink(hit.supersededBy)] : null, hit.origin ? chip("warn", t("words of others: {who}", { who: hit.origin.join(", ") })) : null,
        h("p", null, visible(hit.content)), h("small", null, hit.why.join(" · ")), " ", button(t("Why?"), () => explain(answer.query, hit.source, this.agent), { class: "quiet small" }))));
  }

  // Notes.

  #notes() {
    const words = this.name.toLowerCase();
    const list = (this.notes?.notes ?? []).filter((each) => each.path.toLowerCase().includes(words));
    return h("div", { class: "two" },
      h("div", null, this.filter(t("Filter by name"), "name"),
        h("ul", { class: "notes-list" }, list.slice(0, 500).map((each) => h("li", { key: each.path }, h("a", { href: `#/memory/note/${encodeURIComponent(each.path)}`, "aria-current": this.note?.path === each.path ? "page" : null }, each.path), h("small", null, ` ${bytes(each.size)}`))))),
      this.note ? this.#note(this.note) : card("", h("p", { class: "hint" }, t("Choose a note."))));
  }

  #note(note) {
    const cited = /#L(\d+)(?:-L?(\d+))?$/.exec(this.args[1] ?? "");
    const [first, last] = [Number(cited?.[1] ?? 0), Number(cited?.[2] ?? cited?.[1] ?? 0)];
    const save = async (text) => {
      const old = note.text;
      this.note = await wire.call("page.memory.save", { path: note.path, agent: this.agent, text, hash: note.hash });
      [this.editing, this.notes, this.known] = [false, null, null];
      this.update();
      toast(t("Saved."), "", { label: t("Undo"), run: async () => { this.note = await wire.call("page.memory.save", { path: note.path, agent: this.agent, text: old, hash: this.note.hash }); this.update(); } });
    };
    return h("section", { class: "card", key: note.path }, h("header", { class: "view-head" }, h("h2", null, note.path), h("div", { class: "actions" },
      note.versions.length ? button(t("History"), () => this.#history(note, save)) : null,
      note.editable && !this.editing ? button(t("Edit"), () => { this.editing = true; this.update(); }, { disabled: !wire.may("admin") }) : null)),
    needs("admin"),
    this.editing ? h("form", { onsubmit: (event) => { event.preventDefault(); void act(() => save(String(new FormData(event.target).get("text")).replaceAll("\r\n", "\n"))); } }, h("textarea", { class: "editor", name: "text", "aria-label": note.path, value: note.text }), h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => { this.editing = false; this.update(); } }, t("Cancel")), h("button", { class: "primary" }, t("Save"))))
      : first ? h("div", { class: "note-lines", tabindex: "0" }, note.text.split("\n").map((line, place) => h("div", { key: place, class: place + 1 >= first && place + 1 <= last ? "here" : "" }, h("span", { "aria-hidden": "true" }, String(place + 1)), h("span", null, visible(line) || " "))))
      : h("div", { class: "prose" }, markdown(note.text.replace(/<!--[\s\S]*?-->/g, ""))));
  }

  /** @param {(text: string) => Promise<void>} save */
  async #history(note, save) {
    const pick = await choose(t("History"), note.versions.map((each) => [each, each.replace(/t(\d\d)-(\d\d)-(\d\d)-\d+$/, " $1:$2:$3")]));
    if (!pick) return;
    const old = await wire.call("page.memory.version", { path: note.path, agent: this.agent, version: pick });
    const back = await ask(pick, (done) => [h("p", { class: "hint" }, t("What changed from then to now:")), diff(compare(old.text, note.text)), h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => done(false) }, t("Close")), h("button", { type: "button", class: "primary", disabled: !wire.may("admin") || !note.editable, onclick: () => done(true) }, t("Bring this version back")))]);
    if (back) await save(old.text);
  }

  // What is known.

  #fact(fact) {
    return h("li", { key: `${fact.id}${fact.source}` }, h("time", null, fact.day || "–"), " ", visible(fact.text), " ", chip("", KINDS()[fact.kind] ?? fact.kind), fact.inferred ? chip("", t("inferred")) : null, fact.gone ? chip("warn", t("taken back")) : null, fact.replacedBy ? [chip("warn", t("replaced")), " ", noteLink(fact.replacedBy)] : null, " ", noteLink(fact.source));
  }

  #people() {
    if (!this.known) return h("p", { class: "empty" }, "…");
    const { entities, facts } = this.known;
    const open = this.args[1];
    const chosen = entities.find((each) => each.slug === open);
    const about = facts.filter((fact) => fact.entities.includes(open));
    return h("div", { class: "two" },
      h("ul", { class: "notes-list" }, entities.map((each) => h("li", { key: each.slug }, h("a", { href: `#/memory/people/${encodeURIComponent(each.slug)}`, "aria-current": each.slug === open ? "page" : null }, h("bdi", null, each.name), h("small", null, ` ${facts.filter((fact) => fact.entities.includes(each.slug)).length}`))))),
      chosen ? card(chosen.name, chosen.page ? h("p", null, noteLink(chosen.page)) : null, h("h3", null, t("Timeline")), h("ul", null, about.map((fact) => this.#fact(fact)))) : card("", h("p", { class: "hint" }, entities.length ? t("Choose somebody.") : t("Nobody is known yet. Facts stand below “## Retain” in a note."))));
  }

  #opinions() {
    if (!this.known) return h("p", { class: "empty" }, "…");
    const rows = this.known.opinions;
    if (!rows.length) return card("", h("p", { class: "hint" }, t("No opinions yet.")));
    return rows.map((each) => h("section", { class: "card", key: each.id }, h("h2", null, visible(each.text)), h("p", null, chip(each.status === "active" ? "ok" : "warn", each.status), " ", `${percent(each.confidence)} ${t("sure")}`, each.trend ? ` (${each.trend > 0 ? "+" : ""}${Math.round(100 * each.trend)} %)` : "", ` · ${each.subject} · ${each.first} – ${each.last}`),
      each.points.length > 1 ? curve(each.points, t("How sure, over time")) : null,
      h("div", { class: "grid" }, h("div", null, h("h3", null, t("Speaks for it")), h("ul", null, each.supports.map((fact) => this.#fact(fact)))), each.contradicts.length ? h("div", null, h("h3", null, t("Speaks against it")), h("ul", null, each.contradicts.map((fact) => this.#fact(fact)))) : null)));
  }

  #graph() {
    if (!this.known) return h("p", { class: "empty" }, "…");
    const { nodes, links } = layout(this.known);
    if (!nodes.length) return card("", h("p", { class: "hint" }, t("Nobody is known yet. Facts stand below “## Retain” in a note.")));
    return card("", h("p", { class: "hint" }, t("Who is spoken of together. Choose somebody to see what is known.")), h("svg", { class: "graph", viewBox: "0 0 800 600", role: "group", "aria-label": t("Graph") },
      links.map((link) => h("line", { key: `${link.a.slug} ${link.b.slug}`, x1: link.a.x, y1: link.a.y, x2: link.b.x, y2: link.b.y, "stroke-width": Math.min(6, 1 + link.count) })),
      nodes.map((node) => h("a", { key: node.slug, href: `#/memory/people/${encodeURIComponent(node.slug)}`, "aria-label": node.name }, h("circle", { cx: node.x, cy: node.y, r: 5 + Math.min(14, Math.sqrt(node.count) * 2) }), h("text", { x: node.x + 12, y: node.y + 4 }, node.name)))));
  }
}
customElements.define("memory-view", MemoryView);

/** Places for those who are spoken of most: together when they are spoken of together. */
function layout(known) {
  const counts = new Map();
  const pairs = new Map();
  for (const fact of known.facts) {
    for (const one of fact.entities) counts.set(one, (counts.get(one) ?? 0) + 1);
    for (const one of fact.entities) for (const other of fact.entities) if (one < other) pairs.set(`${one}\n${other}`, (pairs.get(`${one}\n${other}`) ?? 0) + 1);
  }
  const nodes = known.entities.map((each) => ({ ...each, count: counts.get(each.slug) ?? 0, x: 0, y: 0 })).sort((a, b) => b.count - a.count).slice(0, MOST_NODES);
  nodes.forEach((node, at) => { const angle = at * 2.399963; const far = 30 * Math.sqrt(at + 0.5); node.x = 400 + far * Math.cos(angle); node.y = 300 + far * Math.sin(angle); });
  const by = new Map(nodes.map((node) => [node.slug, node]));
  const links = /** @type {any[]} */ ([]);
  for (const [pair, count] of pairs) { const [a, b] = pair.split("\n").map((name) => by.get(name)); if (a && b) links.push({ a, b, count }); }
  for (let step = 0; step < 200; step++) {
    const cool = 12 * (1 - step / 200);
    for (const node of nodes) {
      let [dx, dy] = [(400 - node.x) * 0.02, (300 - node.y) * 0.03];
      for (const other of nodes) {
        if (other === node) continue;
        const [x, y] = [node.x - other.x || 0.1, node.y - other.y || 0.1];
        const push = 5200 / (x * x + y * y);
        dx += x * push * 0.05; dy += y * push * 0.05;
      }
      for (const link of links) {
        const other = link.a === node ? link.b : link.b === node ? link.a : null;
        if (other) { dx += (other.x - node.x) * 0.03; dy += (other.y - node.y) * 0.03; }
      }
      const far = Math.hypot(dx, dy) || 1;
      node.x = Math.max(20, Math.min(720, node.x + dx / far * Math.min(far, cool)));
      node.y = Math.max(20, Math.min(580, node.y + dy / far * Math.min(far, cool)));
    }
  }
  return { nodes, links };
}
