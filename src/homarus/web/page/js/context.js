// @ts-check
/** What fills the window of a session, section by section; what a provider keeps of it; what a compaction would cut. */
import { h } from "./base.js";
import { wire } from "./wire.js";
import { store } from "./store.js";
import { t } from "./words.js";
import { Page, bars, button, card, chip, confirm, head, number, percent, picker, short, table, toast } from "./parts.js";
import { go } from "./app.js";

const TIERS = () => /** @type {Record<string, string>} */ ({ stable: t("same for every session"), session: t("same for every turn"), volatile: t("rides on the newest message") });
const SAID = () => /** @type {Record<string, string>} */ ({ user: t("Your messages"), assistant: t("Answers"), thinking: t("Thoughts"), toolCalls: t("Calls of tools"), toolResults: t("Results of tools"), turnContext: t("What rode on messages"), summary: t("Summary of older messages") });

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
        picker(t("Session"), this.session, [...(rows.some((row) => row.key === this.session) ? [] : [/** @type {[string, string]} */ ([this.session, this.session])]), ...rows.map((row) => /** @type {[string, string]} */ ([row.key, store.title(row)]))], (key) => go("context", key)),
        button(t("Look again"), () => this.reload())),
      this.trouble, this.found ? this.#body(this.found) : this.problem ? null : h("p", { class: "empty" }, "…"),
    ];
  }

  #body(found) {
    const { report } = found;
    const parts = [
      { name: t("Instructions"), value: report.systemPrompt.tokens, kept: true }, { name: t("Descriptions of tools"), value: Math.ceil(report.tools.schemaChars / 4), kept: true },
      ...Object.entries(found.messages).map(([name, value]) => ({ name: SAID()[name] ?? name, value: Number(value), kept: false })),
    ].filter((part) => part.value);
    const total = parts.reduce((sum, part) => sum + part.value, 0);
    const scale = total > found.used ? total : found.used;
    const window = Math.max(found.window, scale, 1);
    return [
      card(t("Window"),
        h("div", { class: "figures" }, figure(t("used"), `${short(found.used)} ${t("tokens")}`), figure(t("of"), found.window ? short(found.window) : "–"), figure(t("share"), found.window ? percent(found.used / found.window) : "–"),
          found.cache ? figure(t("last request from the cache"), percent(found.cache.read / Math.max(1, found.cache.prompt))) : null),
        h("div", { class: "window-bar", role: "img", "aria-label": parts.map((part) => `${part.name} ${number(part.value)}`).join(", ") }, parts.map((part, place) => h("span", { key: part.name, class: `c${place % 10}`, style: { width: `${100 * part.value / window}%` }, title: `${part.name}: ${number(part.value)}` }))),
        table([t("Part"), t("Tokens"), t("Share"), ""], parts.map((part, place) => ({ key: part.name, cells: [[h("span", { class: `swatch c${place % 10}` }), part.name], number(part.value), percent(part.value / window), part.kept ? chip("ok", t("kept in the cache")) : null] }))),
        h("p", { class: "hint" }, found.compactAbove ? t("Older messages are summarised above {n} tokens; memory is saved from {m} on.", { n: number(found.compactAbove), m: number(found.flushAt) }) : "")),
      card(t("What a summary would replace"), typeof found.cut === "string" ? h("p", { class: "hint" }, found.cut) : [
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
        card(t("Files of the workspace"), table([t("File"), t("Characters"), ""], report.injectedWorkspaceFiles.map((row) => ({ key: row.path, cells: [row.name, number(row.injectedChars), row.missing ? chip("", t("missing")) : row.truncated ? chip("warn", t("cut")) : row.unreadable ? chip("bad", t("unreadable")) : chip("ok", t("whole"))] })))),
        card(t("Tools"), table([t("Tool"), t("Characters")], report.tools.entries.map((row) => ({ key: row.name, cells: [h("code", null, row.name), number(row.schemaChars + row.summaryChars)] })))),
        card(t("Skills"), table([t("Skill"), t("Characters")], report.skills.entries.map((row) => ({ key: row.name, cells: [row.name, number(row.blockChars)] }))))),
    ];
  }
}
customElements.define("context-view", ContextView);

/** @param {string} name @param {string} value */
const figure = (name, value) => h("div", null, h("strong", null, value), h("small", null, name));
