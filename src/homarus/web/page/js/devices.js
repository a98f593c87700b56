/** Who may come in: browsers, phones and programs that are paired, those that wait, nodes, and an invitation to scan. */
import { Page, ago, ask, button, card, chip, closing, confirm, h, head, hint, needs, prompt, small, t, table, toast, visible, wire } from "./parts.js";
import { qrcode } from "../vendor/qrcode.js";

class DevicesView extends Page {
  /** @type {any} */ found = null;
  nodes = [];
  asking = [];

  hears = ["device.pair.requested", "device.pair.resolved", "node.pair.requested", "node.pair.resolved", "node.presence"];

  async load() {
    const may = wire.may("pairing");
    const [nodes, devices] = await Promise.all([may ? wire.call("node.pair.list") : wire.call("node.list"), may ? wire.call("device.pair.list") : null]);
    [this.nodes, this.asking, this.found] = [nodes.paired ?? nodes.nodes, nodes.pending ?? [], devices];
  }

  /** @param {string} method @param {object} params */
  async #do(method, params) { await wire.call(method, params); await this.reload(); }

  /** @param {string} kind @param {string} requestId */
  #waiting(kind, requestId) {
    return h("div", { class: "actions" }, button(t("Let in"), () => this.#do(`${kind}.pair.approve`, { requestId }), { class: "small primary" }), button(t("Refuse"), () => this.#do(`${kind}.pair.reject`, { requestId }), { class: "small danger" }));
  }

  /** What one does with a device or node that was let in. @param {object} id @param {string} rename @param {string} remove */
  #known(each, id, rename, remove) {
    const disabled = !wire.may("pairing");
    return h("div", { class: "actions" }, button(t("Rename"), async () => { const displayName = await prompt(t("Rename"), t("Name"), each.displayName ?? ""); if (displayName) await this.#do(rename, { ...id, displayName }); }, { class: "small", disabled }),
      button(t("Remove"), async () => { if (await confirm(t("Remove"), t("“{name}” has to be let in anew afterwards.", { name: each.displayName || Object.values(id)[0].slice(0, 12) }), t("Remove"))) await this.#do(remove, id); }, { class: "small danger", disabled }));
  }

  render() {
    return [
      head(t("Devices"), t("Nothing comes in without a key that you let in."), button(t("Invite a device"), () => this.#invite(), { class: "primary", disabled: !wire.may("admin") })),
      needs("pairing"), this.trouble,
      this.found?.pending.length ? card(t("Waiting for you"), table([t("Who"), t("From"), t("Wants"), ""], this.found.pending.map((each) => ({ key: each.requestId, cells: [h("bdi", null, visible(each.displayName || each.clientId || each.deviceId.slice(0, 12))), each.remoteIp ?? "", scopes(each.scopes),
        this.#waiting("device", each.requestId)] })))) : null,
      this.found ? card(t("Paired"), table([t("Device"), t("May"), t("Last here"), ""], this.found.paired.map((each) => ({ key: each.deviceId, cells: [[h("bdi", null, visible(each.displayName || each.clientId || each.deviceId.slice(0, 12))), h("br"), small(`${each.deviceId.slice(0, 12)} · ${each.platform ?? ""} · ${each.approvedVia ?? ""}`)], scopes(each.scopes), ago(each.lastSeenAtMs),
        this.#known(each, { deviceId: each.deviceId }, "device.pair.rename", "device.pair.remove")] })))) : null,
      card(t("Nodes"), this.asking.length ? table([t("Node"), t("Wants"), ""], this.asking.map((each) => ({ key: each.requestId, cells: [h("bdi", null, visible(each.displayName || each.nodeId)), visible((each.commands ?? []).join(", ")),
        this.#waiting("node", each.requestId)] }))) : null,
        this.nodes.length ? table([t("Node"), t("State"), t("Can do"), ""], this.nodes.map((each) => ({ key: each.nodeId, cells: [h("bdi", null, visible(each.displayName || each.nodeId)), chip(each.connected ? "ok" : "", each.connected ? t("connected") : t("off")), visible((each.commands ?? []).join(", ")),
          this.#known(each, { nodeId: each.nodeId }, "node.rename", "node.pair.remove")] }))) : hint(t("No other machine lends its abilities."))),
    ];
  }

  async #invite() {
    const made = await wire.call("device.pair.setupCode", { publicUrl: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}` });
    await ask(t("Invite a device"), (done) => [h("p", null, t("Scan this with the app, or paste the code there. It works once, within ten minutes.")), code(made.setupCode), h("pre", { tabindex: "0" }, made.setupCode),
      closing(done, button(t("Copy"), async () => { await navigator.clipboard.writeText(made.setupCode); toast(t("Copied")); }))]);
  }
}
customElements.define("devices-view", DevicesView);

/** @param {string[]} list */
const scopes = (list) => list.includes("operator.admin") ? chip("warn", t("everything")) : list.map((each) => [chip("", each.replace("operator.", "")), " "]);

/** A text as a picture that a phone reads. @param {string} text */
function code(text) {
  const made = qrcode(0, "M");
  made.addData(text);
  made.make();
  const size = made.getModuleCount();
  let path = "";
  for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) if (made.isDark(y, x)) path += `M${x} ${y}h1v1h-1z`;
  return h("svg", { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": t("The code as a picture") }, h("path", { d: path }));
}
