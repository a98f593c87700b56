// @ts-check
/** All conversations: find, open, rename, pin, archive, copy and delete them, and what each took. */
import { h } from "./base.js";
import { wire } from "./wire.js";
import { store } from "./store.js";
import { t } from "./words.js";
import { Page, act, ago, button, chip, choose, confirm, head, money, needs, picker, prompt, short, table, toast } from "./parts.js";
import { go, newSession } from "./app.js";

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
      head(t("Sessions"), t("Every conversation with your agents, also those that nobody typed."), button(t("New conversation"), () => newSession(), { class: "primary", disabled: !wire.may("write") })),
      this.trouble,
      h("search", { class: "actions" },
        this.filter(t("Filter by name")),
        picker(t("Which"), this.kind, [["talk", t("Conversations")], ["auto", t("By automation and helpers")], ["archive", t("Archive")], ["all", t("All")]], (kind) => { this.kind = kind; this.update(); }),
        button(t("Search in what was said"), () => this.read(async () => { this.found = (await wire.call("sessions.search", { query: this.text, limit: 25 })).results; }), { disabled: !this.text.trim() })),
      this.found ? this.#places(this.found) : null,
      h("p", { class: "hint", role: "status" }, t("{n} sessions", { n: rows.length })),
      table([t("Name"), t("Last used"), t("Model"), t("Tokens"), t("Cost"), ""], rows.slice(0, 500).map((row) => ({ key: row.key, cells: [
        [h("a", { href: `#/chat/${encodeURIComponent(row.key)}` }, h("bdi", null, store.title(row))), " ", row.pinned ? chip("", t("pinned")) : null, row.hasActiveRun ? chip("busy", t("at work")) : null, h("br"), h("small", null, row.key)],
        ago(row.updatedAt), row.model ?? "–", row.totalTokens ? short(row.totalTokens) : "–", row.estimatedCostUsd ? money(row.estimatedCostUsd) : "–",
        h("button", { type: "button", class: "quiet", "aria-label": t("More about {name}", { name: store.title(row) }), onclick: () => void act(() => this.#menu(row)) }, "⋯"),
      ] }))),
      needs("admin"),
    ];
  }

  #places(found) {
    return h("section", { class: "card" }, h("h2", null, t("{n} found", { n: found.length })), found.map((hit) => {
      const row = store.sessions.find((each) => each.sessionId === hit.session_id);
      return h("div", { class: "hit", key: hit.entry_id }, row ? h("a", { href: `#/chat/${encodeURIComponent(row.key)}` }, h("bdi", null, store.title(row))) : h("span", null, t("in the archive")), h("small", null, ` ${ago(hit.time)}`), h("p", null, hit.snippet));
    }));
  }

  async #menu(row) {
    const off = !wire.may("write");
    const pick = await choose(store.title(row), [["open", t("Open")], ["rename", t("Rename"), off], ["pin", row.pinned ? t("Unpin") : t("Pin"), off], ["archive", row.archived ? t("Bring back") : t("Archive"), off],
      ["fork", t("Copy to a new conversation"), off], ["context", t("Show the context")], ["delete", t("Delete"), !wire.may("admin") || row.isMain]]);
    const key = row.key;
    if (pick === "open") go("chat", key);
    else if (pick === "context") go("context", key);
    else if (pick === "fork") go("chat", (await wire.call("sessions.create", { parentSessionKey: key, fork: true, agentId: row.agentId })).key);
    else if (pick === "pin") await wire.call("sessions.patch", { key, pinned: !row.pinned });
    else if (pick === "archive") await wire.call("page.archive", { session: key, archived: !row.archived });
    else if (pick === "rename") {
      const label = await prompt(t("Rename"), t("Name"), row.label ?? "");
      if (label !== null) await wire.call("sessions.patch", { key, label: label || null });
    } else if (pick === "delete" && await confirm(t("Delete"), t("“{name}” leaves this list. Its transcript is kept in the archive folder.", { name: store.title(row) }), t("Delete"))) {
      await wire.call("sessions.delete", { key });
      toast(t("Deleted."));
    }
    await store.loadSessions();
  }
}
customElements.define("sessions-view", SessionsView);
