/** All conversations: find, open, rename, pin, archive, copy and delete them, and what each took. */
import { Page, ago, button, chip, h, head, icon, money, needs, picker, short, small, store, t, table, to, visible, wire } from "./parts.js";
import { go, manage, newSession } from "./app.js";

class SessionsView extends Page {
  text = "";
  kind = "talk";
  /** @type {any} */ found = null;

  start() { this.hear(store, "change", () => this.update()); }

  get rows() {
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    const own = (row) => /:(cron|hook|subagent|heartbeat|boot):/.test(row.key);
    return store.sessions.filter((row) => words.every((word) => `${row.key} ${store.title(row)} ${row.model ?? ""}`.toLowerCase().includes(word)))
      .filter((row) => this.kind === "archive" ? row.archived : !row.archived && (this.kind === "all" || own(row) === (this.kind === "auto")))
      .sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updatedAt - a.updatedAt);
  }

  render() {
    const rows = this.rows;
    return [
      head(t("Sessions"), t("Every conversation, also those that nobody typed."), button(t("New conversation"), () => newSession(), { class: "primary", disabled: !wire.may("write") })),
      this.trouble,
      h("search", { class: "actions" },
        this.filter(t("Filter by name")),
        picker(t("Which"), this.kind, [["talk", t("Conversations")], ["auto", t("By automation and helpers")], ["archive", t("Archive")], ["all", t("All")]], (kind) => { this.kind = kind; this.update(); }),
        button(t("Search in what was said"), () => this.read(async () => { this.found = (await wire.call("sessions.search", { query: this.text, limit: 25 })).results; }), { disabled: !this.text.trim() })),
      this.found ? this.#places(this.found) : null,
      h("p", { class: "hint", role: "status" }, t("{n} sessions", { n: rows.length })),
      table([t("Name"), t("Last used"), t("Model"), t("Tokens"), t("Cost"), ""], rows.slice(0, 500).map((row) => ({ key: row.key, cells: [
        [h("a", { href: to("chat", row.key) }, h("bdi", null, store.title(row))), " ", row.pinned ? chip("", t("pinned")) : null, row.hasActiveRun ? chip("busy", t("at work")) : null, h("br"), small(row.key)],
        ago(row.updatedAt), row.model ?? "–", row.totalTokens ? short(row.totalTokens) : "–", row.estimatedCostUsd ? money(row.estimatedCostUsd) : "–",
        icon("⋯", t("More about {name}", { name: store.title(row) }), () => manage(row, [[t("Open"), () => go("chat", row.key)]])),
      ] }))),
      needs("admin"),
    ];
  }

  #places(found) {
    return h("section", { class: "card" }, h("h2", null, t("{n} found", { n: found.length })), found.map((hit) => {
      const row = store.sessions.find((each) => each.sessionId === hit.session_id);
      return h("div", { class: "hit", key: hit.entry_id }, row ? h("a", { href: to("chat", row.key, hit.entry_id) }, h("bdi", null, store.title(row))) : h("span", null, t("in the archive")), small(` ${ago(hit.time)}`), h("p", null, visible(hit.snippet)));
    }));
  }
}
customElements.define("sessions-view", SessionsView);
