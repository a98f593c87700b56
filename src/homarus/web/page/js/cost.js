/** Tokens and money by day, model, session and cause, and what the budgets leave. */
import { Page, bars, button, card, columns, h, head, hint, money, number, percent, picker, short, small, store, t, table, to, wire } from "./parts.js";

const CAUSES = () => /** @type {Record<string, string>} */ ({ answer: t("Answers"), summary: t("Summaries"), compaction: t("Summaries"), flush: t("Saving memory"), "memory-flush": t("Saving memory"), heartbeat: t("Heartbeats"), cron: t("Jobs"), hook: t("Web hooks"), subagent: t("Helpers"), boot: t("Start"), vision: t("Looking at pictures") });

class CostView extends Page {
  days = 30;
  by = "cost";
  /** @type {any} */ found = null;

  get key() { return String(this.days); }
  async load() { this.found = await wire.call("page.costs", { days: this.days }); }

  #value(row) { return this.by === "cost" ? row.cost : row.tokens; }
  #label(row) { return this.by === "cost" ? money(row.cost) : short(row.tokens); }

  render() {
    return [
      head(t("Cost"), t("What every call of a model took, also those nobody typed."),
        picker(t("Days"), String(this.days), [7, 30, 90, 365].map((days) => [String(days), t("{n} days", { n: days })]), (days) => { this.days = Number(days); this.update(); }),
        picker(t("Show"), this.by, [["cost", t("Money")], ["tokens", t("Tokens")]], (by) => { this.by = by; this.update(); }),
        button(t("Print"), () => print())),
      this.trouble, this.found ? this.#body(this.found) : this.wait,
    ];
  }

  #body(found) {
    const names = CAUSES();
    const row = (name) => (each) => ({ name: name === "causes" ? names[each.name] ?? each.name : each.label || each.name, value: this.#value(each), label: this.#label(each) });
    return [
      card("", h("div", { class: "figures" }, ...[[t("in all"), money(found.total.cost)], [t("calls"), number(found.total.calls)], [t("tokens"), short(found.total.tokens)], [t("read from the cache"), percent(found.total.cacheShare)]].map(([name, value]) => h("div", null, h("strong", null, value), small(name))))),
      card(t("By day"), columns(found.days.map((each) => ({ name: each.name, value: this.#value(each), label: this.#label(each) })), t("By day"))),
      h("div", { class: "grid" }, card(t("By model"), bars(found.models.map(row("models")), t("By model"))), card(t("By cause"), bars(found.causes.map(row("causes")), t("By cause")))),
      card(t("By session"), table([t("Session"), t("Calls"), t("Tokens"), t("From the cache"), t("Money")], found.sessions.map((each) => ({ key: each.name, cells: [h("a", { href: to("chat", each.name) }, h("bdi", null, store.session(each.name) ? store.title(store.session(each.name)) : each.label || each.name)), number(each.calls), short(each.tokens), percent(each.cacheShare), money(each.cost)] })))),
      card(t("Budgets"), hint(t("Set under agents.defaults.budget; without one nothing is bounded.")), table([t("Agent"), t("Today"), t("A day may"), t("A run may")], found.budgets.map((each) => ({ key: each.agent, cells: [each.agent, spent(each.today), limits(each.day), limits(each.run)] })))),
    ];
  }
}
customElements.define("cost-view", CostView);

const spent = (today) => `${money(today.money)} · ${short(today.tokens)} ${t("tokens")} · ${number(today.calls)} ${t("calls")}`;
const limits = (rules) => [rules.money && money(rules.money), rules.tokens && `${short(rules.tokens)} ${t("tokens")}`, rules.calls && `${number(rules.calls)} ${t("calls")}`, rules.seconds && `${number(rules.seconds)} s`].filter(Boolean).join(" · ") || t("no bound");
