/** Memory: search with reasons, notes to read and edit, who is known, what is thought of them, and how it hangs together. */
import { markdown } from "./markdown.js";
import { Page, act, ask, button, bytes, card, chip, choose, compare, curve, deciding, diff, explain, h, head, hint, needs, number, percent, small, store, t, to, toast, visible, whose, wire } from "./parts.js";


const MOST_NODES = 60;
const KINDS = () => /** @type {Record<string, string>} */ ({ world: t("fact"), experience: t("experience"), opinion: t("opinion"), observation: t("observation") });
const noteLink = (place) => h("a", { href: to("memory", "note", place), class: "cite" }, place);

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
    const tabs = [["search", t("Search")], ["note", t("Notes")], ["people", t("People and things")], ["opinions", t("Opinions")], ["graph", t("Graph")]];
    return [
      head(t("Memory"), t("Markdown files are the truth; everything here is read from them."),
        whose(this, () => { this.notes = this.known = this.note = this.answer = null; }),
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
      h("label", { class: "inline" }, t("As of"), h("input", { type: "date", value: this.asOf, title: t("What was known on that day"), onchange: (event) => { this.asOf = event.target.value; } })),
      h("button", { class: "primary" }, t("Search"))),
    status?.exists ? hint(t("{files} notes, {lines} lines, {facts} facts", { files: number(status.files), lines: number(status.lines), facts: number(status.facts) }), ` · ${status.provider}`) : null,
    this.answer ? this.#answer(this.answer) : null];
  }

  #answer(answer) {
    return card("", h("p", { class: "hint", role: "status" }, t("{n} found", { n: answer.count }), ` · ${answer.searchMs ?? 0} ms · ${answer.mode}`, answer.verdict === "unknown" ? [" ", chip("warn", t("the notes probably do not say"))] : null, answer.degraded ? ` · ${answer.degraded}` : "", answer.stale ? ` · ${answer.stale}` : ""),
      answer.results.map((hit, place) => h("article", { class: "hit", key: place }, noteLink(hit.source), " ", small([hit.timestamp, hit.score.toFixed(2), hit.kind].filter(Boolean).join(" · ")), hit.confidence !== undefined ? chip("", `${percent(hit.confidence)} ${t("sure")}`) : null, hit.supersededBy ? [" ", chip("warn", t("replaced")), " ", noteLink(hit.supersededBy)] : null, hit.origin ? chip("warn", t("words of others: {who}", { who: hit.origin.join(", ") })) : null,
        h("p", null, visible(hit.content)), small(hit.why.join(" · ")), " ", button(t("Why?"), () => explain(answer.query, hit.source, this.agent), { class: "quiet small" }))));
  }

  // Notes.

  #notes() {
    const words = this.name.toLowerCase();
    const list = (this.notes?.notes ?? []).filter((each) => each.path.toLowerCase().includes(words));
    return h("div", { class: "two" },
      h("div", null, this.filter(t("Filter by name"), "name"),
        h("ul", { class: "notes-list" }, list.slice(0, 500).map((each) => h("li", { key: each.path }, h("a", { href: to("memory", "note", each.path), "aria-current": this.note?.path === each.path ? "page" : null }, each.path), small(` ${bytes(each.size)}`))))),
      this.note ? this.#note(this.note) : card("", hint(t("Choose a note."))));
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
    this.editing ? h("form", { onsubmit: (event) => { event.preventDefault(); void act(() => save(String(new FormData(event.target).get("text")).replaceAll("\r\n", "\n"))); } }, h("textarea", { class: "editor", name: "text", "aria-label": note.path, value: note.text }), deciding(() => { this.editing = false; this.update(); }, t("Save")))
      : first ? h("div", { class: "note-lines", tabindex: "0" }, note.text.split("\n").map((line, place) => h("div", { key: place, class: place + 1 >= first && place + 1 <= last ? "here" : "" }, h("span", { "aria-hidden": "true" }, String(place + 1)), h("span", null, visible(line) || " "))))
      : h("div", { class: "prose" }, markdown(note.text.replace(/<!--[\s\S]*?-->/g, ""))));
  }

  /** @param {(text: string) => Promise<void>} save */
  async #history(note, save) {
    const pick = await choose(t("History"), note.versions.map((each) => [each, each.replace(/t(\d\d)-(\d\d)-(\d\d)-\d+$/, " $1:$2:$3")]));
    if (!pick) return;
    const old = await wire.call("page.memory.version", { path: note.path, agent: this.agent, version: pick });
    const back = await ask(pick, (done) => [hint(t("What changed from then to now:")), diff(compare(old.text, note.text)), deciding(done, t("Bring this version back"), { disabled: !wire.may("admin") || !note.editable, onclick: () => done(true) })]);
    if (back) await save(old.text);
  }

  // What is known.

  #fact(fact) {
    return h("li", { key: `${fact.id}${fact.source}` }, h("time", null, fact.day || "–"), " ", visible(fact.text), " ", chip("", KINDS()[fact.kind] ?? fact.kind), fact.inferred ? chip("", t("inferred")) : null, fact.gone ? chip("warn", t("taken back")) : null, fact.replacedBy ? [chip("warn", t("replaced")), " ", noteLink(fact.replacedBy)] : null, " ", noteLink(fact.source));
  }

  #people() {
    if (!this.known) return this.wait;
    const { entities, facts } = this.known;
    const open = this.args[1];
    const chosen = entities.find((each) => each.slug === open);
    const about = facts.filter((fact) => fact.entities.includes(open));
    return h("div", { class: "two" },
      h("ul", { class: "notes-list" }, entities.map((each) => h("li", { key: each.slug }, h("a", { href: to("memory", "people", each.slug), "aria-current": each.slug === open ? "page" : null }, h("bdi", null, each.name), small(` ${facts.filter((fact) => fact.entities.includes(each.slug)).length}`))))),
      chosen ? card(chosen.name, chosen.page ? h("p", null, noteLink(chosen.page)) : null, h("h3", null, t("Timeline")), h("ul", null, about.map((fact) => this.#fact(fact)))) : card("", hint(entities.length ? t("Choose somebody.") : t("Nobody is known yet. Facts stand below “## Retain” in a note."))));
  }

  #opinions() {
    if (!this.known) return this.wait;
    const rows = this.known.opinions;
    if (!rows.length) return card("", hint(t("No opinions yet.")));
    return rows.map((each) => h("section", { class: "card", key: each.id }, h("h2", null, visible(each.text)), h("p", null, chip(each.status === "active" ? "ok" : "warn", each.status), " ", `${percent(each.confidence)} ${t("sure")}`, each.trend ? ` (${each.trend > 0 ? "+" : ""}${Math.round(100 * each.trend)} %)` : "", ` · ${each.subject} · ${each.first} – ${each.last}`),
      each.points.length > 1 ? curve(each.points, t("How sure, over time")) : null,
      h("div", { class: "grid" }, h("div", null, h("h3", null, t("Speaks for it")), h("ul", null, each.supports.map((fact) => this.#fact(fact)))), each.contradicts.length ? h("div", null, h("h3", null, t("Speaks against it")), h("ul", null, each.contradicts.map((fact) => this.#fact(fact)))) : null)));
  }

  #graph() {
    if (!this.known) return this.wait;
    const { nodes, links, box } = layout(this.known);
    if (!nodes.length) return card("", hint(t("Nobody is known yet. Facts stand below “## Retain” in a note.")));
    return card("", hint(t("Who is spoken of together.")), h("svg", { class: "graph", viewBox: box, role: "group", "aria-label": t("Graph") },
      links.map((link) => h("line", { key: link.key, x1: link.a.x, y1: link.a.y, x2: link.b.x, y2: link.b.y, "stroke-width": Math.min(6, 1 + link.count) })),
      nodes.map((node) => h("a", { key: node.slug, href: to("memory", "people", node.slug), "aria-label": node.name }, h("circle", { cx: node.x, cy: node.y, r: 5 + Math.min(14, Math.sqrt(node.count) * 2) }), h("text", { x: node.x + 12, y: node.y + 4 }, node.name)))));
  }
}
customElements.define("memory-view", MemoryView);

/** Places for those who are spoken of most: together when they are spoken of together; and the part of the plane that they take. */
function layout(known) {
  const nodes = known.entities.map((each) => ({ ...each, count: known.facts.filter((fact) => fact.entities.includes(each.slug)).length, x: 0, y: 0 })).sort((a, b) => b.count - a.count).slice(0, MOST_NODES);
  nodes.forEach((node, at) => { const far = 60 * Math.sqrt(at); [node.x, node.y] = [far * Math.cos(at * 2.4), far * Math.sin(at * 2.4)]; });
  const by = new Map(nodes.map((node) => [node.slug, node]));
  /** @type {Map<string, any>} */ const links = new Map();
  for (const { entities } of known.facts) for (const one of entities) for (const other of entities) {
    const [a, b, key] = [by.get(one), by.get(other), `${one} ${other}`];
    if (one < other && a && b) links.set(key, { a, b, key, count: 1 + (links.get(key)?.count ?? 0) });
  }
  for (let step = 0; step < 150; step++) {
    for (const node of nodes) {
      let [dx, dy] = [-node.x * 0.01, -node.y * 0.02];
      const pull = (other, force) => { dx += (other.x - node.x) * force; dy += (other.y - node.y) * force; };
      for (const other of nodes) if (other !== node) pull(other, -300 / ((node.x - other.x) ** 2 + (node.y - other.y) ** 2 + 1));
      for (const { a, b } of links.values()) if (a === node) pull(b, 0.03); else if (b === node) pull(a, 0.03);
      const slow = Math.min(1, 12 * (1 - step / 150) / (Math.hypot(dx, dy) || 1));
      [node.x, node.y] = [node.x + dx * slow, node.y + dy * slow];
    }
  }
  const [xs, ys] = [nodes.map((node) => node.x), nodes.map((node) => node.y)];
  const [left, top] = [Math.min(...xs, -250) - 30, Math.min(...ys, -130) - 30];
  return { nodes, links: [...links.values()], box: [left, top, Math.max(...xs, 160) + 120 - left, Math.max(...ys, 130) + 30 - top].map(Math.round).join(" ") };
}
