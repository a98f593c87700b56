/** Who lives here and by which ways one reaches them: agents, their files, models, channels, and what is bound to whom. */
import { Page, act, ago, ask, button, card, chip, choose, closing, confirm, deciding, form, h, head, hint, needs, number, reviewed, small, store, t, table, toast, visible, wire } from "./parts.js";
import { newSession } from "./app.js";

class AgentsView extends Page {
  agents = [];
  models = [];
  /** @type {any} */ channels = null;
  /** @type {any} */ config = null;
  /** @type {any} */ rules = null;

  hears = ["config.changed"];

  async load() {
    const [agents, models, channels, config] = await Promise.all([wire.call("agents.list"), wire.call("models.list"), wire.call("channels.status"), wire.call("config.get")]);
    [this.agents, this.models, this.channels, this.config] = [agents.agents, models.models, channels, config];
    store.agents = agents.agents;
    this.rules = wire.may("admin") ? await wire.call("exec.approvals.get") : null;
  }

  render() {
    const off = !wire.may("admin");
    const accounts = Object.entries(this.channels?.channelAccounts ?? {}).flatMap(([channel, rows]) => /** @type {any[]} */ (rows).map((row) => ({ channel, ...row })));
    const bindings = this.config?.config?.bindings ?? [];
    return [
      head(t("Agents and channels"), "", button(t("New agent"), () => this.#create(), { disabled: off })), needs("admin"), this.trouble,
      card(t("Agents"), table([t("Agent"), t("Model"), t("Workspace"), ""], this.agents.map((each) => ({ key: each.id, cells: [[each.identity?.emoji ?? "", " ", h("strong", null, h("bdi", null, each.name ?? each.id)), each.id === store.defaultAgent ? [" ", chip("", t("default"))] : null], each.model?.primary ?? "–", h("code", null, each.workspace ?? ""),
        h("div", { class: "actions" }, button(t("Talk"), () => newSession(each.id), { class: "small", disabled: !wire.may("write") }), button(t("Files"), () => this.#files(each), { class: "small" }), button(t("Model"), () => this.#model(each), { class: "small", disabled: off }),
          each.id === store.defaultAgent ? null : button(t("Delete"), async () => { if (await confirm(t("Delete"), t("“{name}” answers no more; its folder stays.", { name: each.name ?? each.id }), t("Delete"))) { await wire.call("agents.delete", { agentId: each.id, deleteFiles: false }); await this.reload(); } }, { class: "small danger", disabled: off }))] })))),
      card(t("Channels"), accounts.length ? table([t("Channel"), t("Account"), t("State"), t("Last message"), ""], accounts.map((row) => ({ key: `${row.channel} ${row.accountId}`, cells: [this.channels.channelLabels?.[row.channel] ?? row.channel, [h("bdi", null, row.self?.name ?? row.name ?? row.accountId), h("br"), small(row.self?.handle ?? row.accountId)],
        [chip(row.connected ? "ok" : row.lastError ? "bad" : "", row.connected ? t("connected") : row.running ? t("runs") : row.configured ? t("off") : t("not set up")), row.lastError ? h("p", null, visible(row.lastError)) : null, row.cure ? small(visible(row.cure)) : null], row.lastInboundAt ? ago(row.lastInboundAt) : "–",
        h("div", { class: "actions" }, button(row.running ? t("Stop") : t("Start"), async () => { await wire.call(row.running ? "channels.stop" : "channels.start", { channel: row.channel, accountId: row.accountId }); await this.reload(); }, { class: "small", disabled: off }),
          row.channel === "whatsapp" && !row.connected ? button(t("Pair"), () => this.#pair(row), { class: "small", disabled: off }) : null)] })))
        : hint(t("No channel is set up.")), h("p", null, h("a", { href: "#/config/channels" }, t("Settings of the channels")))),
      card(t("Who answers where"), hint(t("The first rule that fits decides; everything else goes to the default agent.")), table([t("Where"), t("Agent"), ""], bindings.map((rule, place) => ({ key: place, cells: [h("code", null, JSON.stringify(rule.match ?? {})), rule.agentId, button(t("Delete"), () => this.#bind(bindings.filter((_, at) => at !== place)), { class: "small danger", disabled: off })] }))), button(t("Add a rule"), () => this.#add(bindings), { disabled: off })),
      this.rules?.exists ? card(t("What may always run"), table([t("Agent"), t("What"), t("Last used"), ""], Object.entries(this.rules.file.agents).flatMap(([agent, held]) => held.allowlist.map((rule) => ({ key: rule.id, cells: [agent, h("code", null, visible(rule.pattern)), ago(rule.lastUsedAt),
        button(t("Take back"), () => this.#revoke(rule.id), { class: "small danger" })] }))))) : null,
      card(t("Models"), table([t("Model"), t("Provider"), t("Window")], this.models.map((each) => ({ key: `${each.provider}/${each.id}`, cells: [each.name ?? each.id, each.provider, each.contextWindow ? number(each.contextWindow) : "–"] })))),
    ];
  }

  /** @param {string} id */
  async #revoke(id) {
    const agents = Object.fromEntries(Object.entries(this.rules.file.agents).map(([agent, held]) => [agent, { ...held, allowlist: held.allowlist.filter((rule) => rule.id !== id) }]));
    await wire.call("exec.approvals.set", { file: { ...this.rules.file, agents }, baseHash: this.rules.hash });
    await this.reload();
  }

  async #create() {
    const wish = await form(t("New agent"), h("label", null, t("Name"), h("input", { name: "name", required: true, maxlength: 60 })), h("label", null, t("Workspace"), h("input", { name: "workspace", placeholder: "~/.openclaw/workspace-…" })));
    if (!wish) return;
    await wire.call("agents.create", wish);
    await this.reload();
  }

  /** Pair a phone with a channel: its code is a picture. */
  async #pair(row) {
    const made = await wire.call("web.login.start", { channel: row.channel, accountId: row.accountId, force: true });
    void ask(t("Pair"), (done) => [h("p", null, made.message ?? ""), made.qrDataUrl ? h("img", { src: made.qrDataUrl, alt: t("The code as a picture") }) : null, closing(done)]);
    const done = await wire.call("web.login.wait", { channel: row.channel, accountId: row.accountId, timeoutMs: 120_000 });
    toast(done.message ?? "");
    await this.reload();
  }

  async #bind(rules) {
    await wire.call("config.patch", { raw: JSON.stringify({ bindings: rules.length ? rules : null }), baseHash: this.config.hash });
    await this.reload();
  }

  async #add(rules) {
    const wish = await form(t("Add a rule"),
      h("label", null, t("Channel"), h("input", { name: "channel", required: true, placeholder: "telegram" })), h("label", null, t("Account (may be empty)"), h("input", { name: "accountId" })), h("label", null, t("Chat or person (may be empty)"), h("input", { name: "peer" })),
      h("label", null, t("Agent"), h("select", { name: "agentId" }, this.agents.map((each) => h("option", { value: each.id }, each.name ?? each.id)))));
    if (!wish) return;
    const match = { channel: wish.channel, ...(wish.accountId ? { accountId: wish.accountId } : {}), ...(wish.peer ? { peer: { kind: "direct", id: wish.peer } } : {}) };
    await this.#bind([...rules, { agentId: wish.agentId, match }]);
  }

  async #model(agent) {
    const chosen = await choose(t("Model of {name}", { name: agent.name ?? agent.id }), this.models.map((each) => [`${each.provider}/${each.id}`, `${each.provider}/${each.id}`]));
    if (!chosen) return;
    const list = this.config.config.agents?.list;
    const place = Array.isArray(list) ? list.findIndex((each) => each.id === agent.id) : -1;
    const wish = place >= 0 ? { agents: { list: list.map((each, at) => at === place ? { ...each, model: chosen } : each) } } : { agents: { defaults: { model: chosen } } };
    await wire.call("config.patch", { raw: JSON.stringify(wish), baseHash: this.config.hash });
    toast(t("Saved."));
    await this.reload();
  }

  /** The files that an agent is made of. */
  async #files(agent) {
    const { files } = await wire.call("agents.files.list", { agentId: agent.id });
    const name = await choose(t("Files"), files.map((file) => [file.name, [file.name, file.missing ? small(` ${t("missing")}`) : null]]));
    if (!name) return;
    const { file } = await wire.call("agents.files.get", { agentId: agent.id, name });
    const text = await ask(name, (done) => h("form", { onsubmit: (event) => { event.preventDefault(); done(String(new FormData(event.target).get("text")).replaceAll("\r\n", "\n")); } }, h("textarea", { class: "editor", name: "text", "aria-label": name, value: file.content ?? "", readOnly: !wire.may("admin") }),
      deciding(done, t("Save"), { disabled: !wire.may("admin") })));
    if (text === null || text === (file.content ?? "")) return;
    const yes = await reviewed(file.content ?? "", text);
    if (yes) await act(async () => { await wire.call("agents.files.set", { agentId: agent.id, name, content: text, expectedHash: file.hash ?? "" }); toast(t("Saved.")); });
  }
}
customElements.define("agents-view", AgentsView);
