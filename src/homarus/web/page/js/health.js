/** How the gateway is, what it logs, who did what, and what is wrong with the home. */
import { Page, ago, button, bytes, card, chip, h, head, hint, moment, needs, picker, small, t, table, visible, wire } from "./parts.js";

const KINDS = /** @type {Record<string, string>} */ ({ error: "bad", critical: "bad", warning: "warn", warn: "warn", ok: "ok", info: "" });

class HealthView extends Page {
  /** @type {any} */ status = null;
  rows = [];
  audit = [];
  /** @type {any} */ findings = null;
  level = "";
  text = "";
  looking = false;
  #place = /** @type {number | null} */ (null);

  start() {
    super.start();
    const timer = setInterval(() => { if (this.tab === "logs" && !document.hidden) void this.#more(); }, 2000);
    this.until(() => clearInterval(timer));
  }

  get tab() { return this.args[0] || "state"; }

  get key() { return this.tab; }

  async load() {
    if (this.tab === "state") this.status = { ...await wire.call("status"), info: await wire.call("system.info"), presence: await wire.call("system-presence") };
    else if (this.tab === "audit") this.audit = (await wire.call("page.audit", { limit: 1000 })).rows.reverse();
    else if (this.tab === "logs") { this.#place = null; this.rows = []; await this.#more(); }
  }

  async #more() {
    if (wire.state !== "open") return;
    const found = await wire.call("logs.tail", this.#place === null ? { limit: 500 } : { cursor: this.#place, limit: 500 }).catch(() => null);
    if (!found) return;
    this.#place = found.cursor;
    if (found.reset) this.rows = [];
    const fresh = found.lines.flatMap((line) => { try { return [JSON.parse(line)]; } catch { return []; } });
    if (fresh.length) { this.rows = [...this.rows, ...fresh].slice(-2000); this.update(); }
  }

  render() {
    const tabs = [["state", t("State")], ["doctor", t("Doctor")], ["logs", t("Log")], ["audit", t("Who did what")]];
    return [head(t("Logs and health"), ""), this.tabs("health", this.tab, tabs),
      this.trouble, this.tab === "doctor" ? this.#doctor() : this.tab === "logs" ? this.#logs() : this.tab === "audit" ? this.#audit() : this.#state()];
  }

  #state() {
    const now = this.status;
    if (!now) return this.wait;
    const facts = [[t("Version"), now.runtimeVersion], [t("Runs since"), moment(Date.now() - now.uptimeMs)], [t("Memory in use"), bytes(now.processMemory.rss)], [t("Machine"), `${now.info.hostname} · ${now.info.platform} ${now.info.arch}`], [t("Process"), String(now.pid)], [t("Sessions"), String(now.sessions.count)]];
    return [card(t("Gateway"), h("dl", null, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
      card(t("Connected now"), table([t("Who"), t("Kind"), t("From"), t("Since")], now.presence.map((each, place) => ({ key: place, cells: [h("bdi", null, each.host), each.mode ?? "", each.ip ?? "", each.onlineSince ? ago(each.onlineSince) : "–"] }))))];
  }

  #doctor() {
    const look = button(this.looking ? t("looking …") : t("Examine this home"), async () => {
      this.looking = true;
      this.update();
      await this.read(async () => { this.findings = (await wire.call("page.doctor")).findings; });
      this.looking = false;
      this.update();
    }, { class: "primary", disabled: this.looking || !wire.may("admin") });
    const rows = this.findings ?? [];
    return [needs("admin"), h("p", null, look), this.findings ? card(t("{n} findings", { n: rows.length }), table([t("How bad"), t("What"), t("What helps")], rows.map((each, place) => ({ key: place, cells: [chip(KINDS[each.severity] ?? "", each.severity), [small(each.checkId), h("br"), each.message, each.path ? [h("br"), h("code", null, each.path)] : null], each.cure ?? ""] })))) : hint(t("Looks over this home as “homarus doctor” and “homarus security audit” do. Nothing is changed."))];
  }

  #logs() {
    const rows = this.rows.filter((row) => (!this.level || row.level === this.level) && `${row.message} ${row.logger}`.toLowerCase().includes(this.text.toLowerCase()));
    return [h("search", { class: "actions" }, this.filter(t("Filter")), picker(t("Level"), this.level, ["", "debug", "info", "warning", "error"].map((level) => [level, level || t("every level")]), (level) => { this.level = level; this.update(); })),
      h("section", { class: "card log", role: "log", "aria-label": t("Log"), tabindex: "0" }, rows.length ? rows.slice(-500).reverse().map((row, place) => h("div", { key: `${row.time}${place}` }, h("time", null, row.time), chip(KINDS[row.level] ?? "", row.level), h("span", null, visible(row.message)))) : h("p", { class: "empty" }, t("Nothing here yet.")))];
  }

  #audit() {
    const rows = this.audit.map(({ time, what, ...rest }) => [time, what, Object.entries(rest).map(([name, value]) => `${name}: ${value}`).join(" · ")]).filter((row) => row.join(" ").toLowerCase().includes(this.text.toLowerCase()));
    return [h("search", { class: "actions" }, this.filter(t("Filter"))), card("", table([t("When"), t("What"), t("Details")], rows.map(([time, what, rest], place) => ({ key: place, cells: [h("time", null, moment(time)), what, small(visible(rest))] }))))];
  }
}
customElements.define("health-view", HealthView);
