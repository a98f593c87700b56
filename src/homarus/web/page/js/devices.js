// @ts-check
/** Who may come in: browsers, phones and programs that are paired, those that wait, nodes, and an invitation to scan. */
import { h } from "./base.js";
import { wire } from "./wire.js";
import { t } from "./words.js";
import { Page, ago, ask, button, card, chip, confirm, head, needs, prompt, table, toast, visible } from "./parts.js";
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

  render() {
    const off = !wire.may("pairing");
    return [
      head(t("Devices"), t("Nothing comes in without a key that you let in."), button(t("Invite a device"), () => this.#invite(), { class: "primary", disabled: !wire.may("admin") })),
      needs("pairing"), this.trouble,
      this.found?.pending.length ? card(t("Waiting for you"), table([t("Who"), t("From"), t("Wants"), ""], this.found.pending.map((each) => ({ key: each.requestId, cells: [h("bdi", null, visible(each.displayName || each.clientId || each.deviceId.slice(0, 12))), each.remoteIp ?? "", scopes(each.scopes),
        h("div", { class: "actions" }, button(t("Let in"), () => this.#do("device.pair.approve", { requestId: each.requestId }), { class: "small primary" }), button(t("Refuse"), () => this.#do("device.pair.reject", { requestId: each.requestId }), { class: "small danger" }))] })))) : null,
      this.found ? card(t("Paired"), table([t("Device"), t("May"), t("Last here"), ""], this.found.paired.map((each) => ({ key: each.deviceId, cells: [[h("bdi", null, visible(each.displayName || each.clientId || each.deviceId.slice(0, 12))), h("br"), h("small", null, `${each.deviceId.slice(0, 12)} · ${each.platform ?? ""} · ${each.approvedVia ?? ""}`)], scopes(each.scopes), ago(each.lastSeenAtMs),
        h("div", { class: "actions" }, button(t("Rename"), async () => { const name = await prompt(t("Rename"), t("Name"), each.displayName ?? ""); if (name) await this.#do("device.pair.rename", { deviceId: each.deviceId, displayName: name }); }, { class: "small", disabled: off }),
          button(t("Remove"), async () => { if (await confirm(t("Remove"), t("“{name}” has to be let in anew afterwards.", { name: each.displayName || each.deviceId.slice(0, 12) }), t("Remove"))) await this.#do("device.pair.remove", { deviceId: each.deviceId }); }, { class: "small danger", disabled: off }))] })))) : null,
      card(t("Nodes"), this.asking.length ? table([t("Node"), t("Wants"), ""], this.asking.map((each) => ({ key: each.requestId, cells: [h("bdi", null, visible(each.displayName || each.nodeId)), visible((each.commands ?? []).join(", ")),
        h("div", { class: "actions" }, button(t("Let in"), () => this.#do("node.pair.approve", { requestId: each.requestId }), { class: "small primary" }), button(t("Refuse"), () => this.#do("node.pair.reject", { requestId: each.requestId }), { class: "small danger" }))] }))) : null,
        this.nodes.length ? table([t("Node"), t("State"), t("Can do"), ""], this.nodes.map((each) => ({ key: each.nodeId, cells: [h("bdi", null, visible(each.displayName || each.nodeId)), chip(each.connected ? "ok" : "", each.connected ? t("connected") : t("off")), visible((each.commands ?? []).join(", ")),
          h("div", { class: "actions" }, button(t("Rename"), async () => { const name = await prompt(t("Rename"), t("Name"), each.displayName ?? ""); if (name) await this.#do("node.rename", { nodeId: each.nodeId, displayName: name }); }, { class: "small", disabled: off }),
            button(t("Remove"), async () => { if (await confirm(t("Remove"), t("“{name}” has to be let in anew afterwards.", { name: each.displayName || each.nodeId }), t("Remove"))) await this.#do("node.pair.remove", { nodeId: each.nodeId }); }, { class: "small danger", disabled: off }))] }))) : h("p", { class: "hint" }, t("No other machine lends its abilities."))),
    ];
  }

  async #invite() {
    const made = await wire.call("device.pair.setupCode", { publicUrl: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}` });
    await ask(t("Invite a device"), (done) => [h("p", null, t("Scan this with the app, or paste the code there. It works once, within ten minutes.")), code(made.setupCode), h("pre", { tabindex: "0" }, made.setupCode),
      h("div", { class: "buttons" }, button(t("Copy"), async () => { await navigator.clipboard.writeText(made.setupCode); toast(t("Copied")); }), h("button", { type: "button", onclick: () => done(null) }, t("Close")))]);
  }
}
customElements.define("devices-view", DevicesView);

/** @param {string[]} list */
const scopes = (list) => list.map((each) => [chip("", each.replace("operator.", "")), " "]);

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
