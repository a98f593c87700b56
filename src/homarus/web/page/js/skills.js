/** Which skills an agent has, why one is missing, and the tools that it may use. */
import { Page, act, ask, base64, button, card, chip, deciding, form, h, head, hint, needs, small, store, t, table, toast, visible, whose, wire } from "./parts.js";
import { codeBlock } from "./markdown.js";

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
        whose(this),
        this.filter(t("Filter")), button(t("Install a skill"), () => this.#install(), { class: "primary", disabled: !wire.may("admin") })),
      needs("admin"), this.trouble,
      card(t("{n} skills", { n: rows.length }), table([t("Skill"), t("From"), t("State"), ""], rows.map((each) => ({ key: each.skillKey + each.filePath, cells: [
        [h("strong", null, visible(each.name)), h("br"), small(visible(each.description))], each.source,
        each.disabled ? chip("", t("off")) : each.quarantined ? [chip("warn", t("in quarantine")), " ", button(t("Read and approve"), () => this.#read(each.name), { class: "small", disabled: !wire.may("admin") })] : each.eligible ? chip("ok", t("ready")) : [chip("warn", t("not usable")), each.reason ? [h("br"), small(each.reason)] : null],
        button(each.disabled ? t("Switch on") : t("Switch off"), async () => { await wire.call("skills.update", { skillKey: each.skillKey, enabled: each.disabled }); await this.reload(); }, { class: "small", disabled: !wire.may("admin") }),
      ] })))),
      this.groups.map((group) => card(`${t("Tools")}: ${group.label}`, table([t("Tool"), t("What it does")], group.tools.filter((tool) => `${tool.id} ${tool.description}`.toLowerCase().includes(words)).map((tool) => ({ key: tool.id, cells: [h("code", null, tool.id), visible(tool.description)] }))))),
    ];
  }

  /** Fetch a skill from git, or send an archive; either starts in quarantine. */
  async #install() {
    const wish = await form(t("Install a skill"), hint(t("It starts in quarantine: read it before you approve it.")),
      h("label", null, t("Address of a git repository (https://…#folder)"), h("input", { name: "url", type: "url" })), h("label", null, t("or an archive (.zip, .tar.gz)"), h("input", { name: "file", type: "file", accept: ".zip,.tgz,.gz" })));
    if (!wish || !(wish.url || wish.file.size)) return;
    await act(async () => {
      let from = /** @type {any} */ ({ source: "git", url: wish.url });
      if (wish.file.size) {
        const { uploadId } = await wire.call("skills.upload.begin", { kind: "skill-archive", slug: wish.file.name.replace(/\..*$/, ""), sizeBytes: wish.file.size });
        const data = await base64(wish.file);
        for (let at = 0; at < data.length; at += 1 << 20) await wire.call("skills.upload.chunk", { uploadId, offset: at / 4 * 3, dataBase64: data.slice(at, at + (1 << 20)) });
        await wire.call("skills.upload.commit", { uploadId });
        from = { source: "upload", uploadId };
      }
      const done = await wire.call("skills.install", from);
      toast(done.message, done.ok ? "" : "bad");
      await this.reload();
    });
  }

  /** Show what a skill says and asks for; whoever read it may let it work. @param {string} name */
  async #read(name) {
    const found = await wire.call("page.skill", { name });
    const wants = Object.entries(found.wants).filter(([, list]) => list.length);
    const yes = await ask(name, (done) => [hint(visible(found.source)), found.findings.map((each) => h("p", { class: "problem" }, `${each.file}:${each.line} `, visible(each.excerpt))),
      h("dl", null, wants.map(([what, list]) => [h("dt", null, what), h("dd", null, visible(list.join(", ")))])), codeBlock(found.text, "markdown"), deciding(done, t("Approve"), { onclick: () => done(true) })]);
    if (yes) { await wire.call("page.skill.approve", { name, sha256: found.sha256 }); await this.reload(); }
  }
}
customElements.define("skills-view", SkillsView);
