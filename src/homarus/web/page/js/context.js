/** What fills the window of a session, section by section; what a provider keeps of it; what a compaction would cut. */
import { Page, bars, button, card, chip, confirm, h, head, hint, number, percent, picker, short, small, store, t, table, toast, wire } from "./parts.js";
import { go } from "./app.js";

const TIERS = () => /** @type {Record<string, string>} */ ({ stable: t("same for every session"), session: t("same for every turn"), volatile: t("rides on the newest message") });
const SAID = () => /** @type {Record<string, string>} */ ({ instructions: t("Instructions"), tools: t("Descriptions of tools"), user: t("Your messages"), assistant: t("Answers"), thinking: t("Thoughts"), toolCalls: t("Calls of tools"), toolResults: t("Results of tools"), turnContext: t("What rode on messages"), summary: t("Summary of older messages") });

class ContextView extends Page {
  /** @type {any} */ found = null;

  start() { super.start(); this.hear(store, "change", () => this.update()); }

  get session() { return this.args[0] || store.mainKey; }

  get key() { return this.session; }
  async load() { this.found = null; this.found = await wire.call("page.context", { session: this.session }); }

  render() {
    const rows = store.sessions.filter((row) => !row.archived);
    return [
      head(t("Context"), t("What the model is sent with the next message of this session."),
        picker(t("Session"), this.session, [...(rows.some((row) => row.key === this.session) ? [] : [[this.session, this.session]]), ...rows.map((row) => [row.key, store.title(row)])], (key) => go("context", key)),
        button(t("Look again"), () => this.reload())),
      this.trouble, this.found ? this.#body(this.found) : this.wait,
    ];
  }

  #body(found) {
    const { report } = found;
    const parts = found.parts.map((part) => ({ ...part, name: SAID()[part.name] ?? part.name }));
    const window = Math.max(found.window, found.used, 1);
    const kept = parts.reduce((sum, part) => sum + part.cached, 0);
    return [
      card(t("Window"),
        h("div", { class: "figures" }, figure(t("used"), `${short(found.used)} ${t("tokens")}`), figure(t("of"), found.window ? short(found.window) : "–"), figure(t("share"), found.window ? percent(found.used / found.window) : "–"),
          found.cache ? figure(t("last request from the cache"), percent(found.cache.read / Math.max(1, found.cache.prompt))) : null),
        h("div", { class: "window-bar", role: "img", "aria-label": parts.map((part) => `${part.name} ${number(part.tokens)}`).join(", ") }, parts.map((part, place) => h("span", { key: part.name, class: `c${place % 10}`, style: { width: `${100 * part.tokens / window}%` }, title: `${part.name}: ${number(part.tokens)}` }))),
        kept ? h("div", { class: "window-bar kept", role: "img", "aria-label": t("kept in the cache"), title: number(kept) }, h("span", { style: { width: `${100 * kept / window}%` } })) : null,
        table([t("Part"), t("Tokens"), t("Share"), t("kept in the cache")], parts.map((part, place) => ({ key: part.name, cells: [[h("span", { class: `swatch c${place % 10}` }), part.name], number(part.tokens), percent(part.tokens / Math.max(1, found.used)), part.cached ? chip("ok", percent(part.cached / part.tokens)) : "–"] }))),
        hint(t("The provider counts the whole; parts are shares by length."), " ", found.compactAbove ? t("Older messages are summarised above {n} tokens; memory is saved from {m} on.", { n: number(found.compactAbove), m: number(found.flushAt) }) : "")),
      card(t("What a summary would replace"), typeof found.cut === "string" ? hint(found.cut) : [
        h("p", null, t("{n} messages with about {m} tokens would become a summary:", { n: number(found.cut.messages), m: number(found.cut.tokens) })),
        h("ul", null, found.cut.said.map((text, place) => h("li", { key: place }, text)), found.cut.more ? h("li", null, "…") : null),
        wire.may("admin") ? button(t("Summarise older messages now"), async () => {
          if (!await confirm(t("Summarise older messages now"), t("The transcript keeps every word; the model is sent a summary instead."), t("Summarise"))) return;
          const done = await wire.call("sessions.compact", { key: this.session });
          toast(done.compacted ? t("Older messages were summarised.") : done.result?.reason ?? done.reason ?? "");
          await this.reload();
        }) : null]),
      card(t("Sections of the instructions"), bars(report.sections.map((row) => ({ name: row.name, value: row.size.tokens, label: `${number(row.size.tokens)} · ${TIERS()[row.tier] ?? row.tier}` })), t("Sections of the instructions"))),
      h("div", { class: "grid" },
        list(t("Files of the workspace"), report.injectedWorkspaceFiles.map((row) => [row.name, row.injectedChars, row.missing ? chip("", t("missing")) : row.truncated ? chip("warn", t("cut")) : row.unreadable ? chip("bad", t("unreadable")) : ""])),
        list(t("Tools"), report.tools.entries.map((row) => [row.name, row.schemaChars + row.summaryChars])), list(t("Skills"), report.skills.entries.map((row) => [row.name, row.blockChars]))),
    ];
  }
}
customElements.define("context-view", ContextView);

/** @param {string} name @param {string} value */
const figure = (name, value) => h("div", null, h("strong", null, value), small(name));

/** @param {string} title @param {any[][]} rows */
const list = (title, rows) => card(title, table([t("Name"), t("Characters")], rows.map(([name, size, more]) => ({ key: name, cells: [[name, " ", more], number(size)] }))));
