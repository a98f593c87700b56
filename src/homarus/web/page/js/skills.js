// @ts-check
/** Which skills an agent has, why one is missing, and the tools that it may use. */
import { h } from "./base.js";
import { wire } from "./wire.js";
import { store } from "./store.js";
import { t } from "./words.js";
import { Page, button, card, chip, head, needs, picker, table, visible } from "./parts.js";

class SkillsView extends Page {
  agent = "";
  text = "";
  skills = [];
  groups = [];

  hears = ["skills.changed"];

  start() { super.start(); this.agent ||= store.defaultAgent; }
  get key() { return this.agent; }

  async load() {
    const [skills, tools] = await Promise.all([wire.call("skills.status", { agentId: this.agent }), wire.call("tools.catalog", { agentId: this.agent })]);
    [this.skills, this.groups] = [skills.skills, tools.groups];
  }

  render() {
    const words = this.text.toLowerCase();
    const rows = this.skills.filter((each) => `${each.name} ${each.description}`.toLowerCase().includes(words));
    return [
      head(t("Skills"), t("Instructions that the agent reads when it needs them."),
        store.agents.length > 1 ? picker(t("Agent"), this.agent, store.agents.map((each) => [each.id, each.name ?? each.id]), (agent) => { this.agent = agent; this.update(); }) : null,
        this.filter(t("Filter"))),
      needs("admin"), this.trouble,
      card(t("{n} skills", { n: rows.length }), table([t("Skill"), t("From"), t("State"), ""], rows.map((each) => ({ key: each.skillKey + each.filePath, cells: [
        [h("strong", null, visible(each.name)), h("br"), h("small", null, visible(each.description))], each.source,
        each.disabled ? chip("", t("off")) : each.eligible ? chip("ok", t("ready")) : [chip("warn", t("not usable")), each.reason ? [h("br"), h("small", null, each.reason)] : null],
        button(each.disabled ? t("Switch on") : t("Switch off"), async () => { await wire.call("skills.update", { skillKey: each.skillKey, enabled: each.disabled }); await this.reload(); }, { class: "small", disabled: !wire.may("admin") }),
      ] })))),
      this.groups.map((group) => card(`${t("Tools")}: ${group.label}`, table([t("Tool"), t("What it does")], group.tools.filter((tool) => `${tool.id} ${tool.description}`.toLowerCase().includes(words)).map((tool) => ({ key: tool.id, cells: [h("code", null, tool.id), visible(tool.description)] }))))),
    ];
  }
}
customElements.define("skills-view", SkillsView);
