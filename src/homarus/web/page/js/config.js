/** The configuration: every setting with what the schema says of it, a look at the difference before saving, and a way back. */
import { Page, button, card, chip, h, head, hint, needs, prompt, reviewed, small, t, to, toast, visible, wire } from "./parts.js";

const HIDDEN = "__OPENCLAW_REDACTED__";
const copy = (value) => JSON.parse(JSON.stringify(value ?? {}));
const plain = (value) => value && typeof value === "object" && !Array.isArray(value);
const shown = (value) => JSON.stringify(value, null, 2) ?? "";

/** What has to be laid over one document to get another; null takes a key away. */
function changes(before, after) {
  /** @type {Record<string, any>} */ const out = {};
  for (const name of new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])) {
    const [old, now] = [before?.[name], after?.[name]];
    if (JSON.stringify(old) === JSON.stringify(now)) continue;
    out[name] = now === undefined ? null : plain(old) && plain(now) ? changes(old, now) : now;
  }
  return out;
}

class ConfigView extends Page {
  /** @type {any} */ state = null;
  /** @type {any} */ schema = null;
  /** What takes the last change back. @type {any} */ back = null;
  /** @type {any} */ draft = {};
  text = "";
  /** @type {string[]} */ wrong = [];

  start() {
    this.hear(wire, "state", () => { if (wire.state === "open" && !this.changed) void this.reload(); });
    this.hear(wire, "config.changed", () => { if (!this.changed) void this.reload(); else toast(t("The file was changed elsewhere; saving will say so.")); });
  }

  async load() {
    this.schema ??= (await wire.call("config.schema")).schema;
    this.state = await wire.call("config.get");
    this.draft = copy(this.state.config);
    this.wrong = [];
  }

  get changed() { return Boolean(this.state) && JSON.stringify(this.state.config) !== JSON.stringify(this.draft); }

  /** @param {string[]} path */
  #set(path, value) {
    let place = this.draft;
    for (const step of path.slice(0, -1)) place = place[step] = plain(place[step]) ? place[step] : {};
    if (value === undefined) delete place[path[path.length - 1]];
    else place[path[path.length - 1]] = value;
    this.update();
  }

  async #review() {
    const before = this.state.config;
    const yes = await reviewed(shown(before), shown(this.draft));
    if (yes) await this.#write(changes(before, this.draft), changes(this.draft, before));
  }

  async #write(wish, back) {
    const done = await wire.call("config.patch", { raw: JSON.stringify(wish), baseHash: this.state.hash });
    this.back = back;
    await this.reload();
    const paths = done.changedPaths.join(", ");
    toast(t("Saved: {paths}", { paths }), "", back && { label: t("Undo"), run: async () => { await this.#write(back, null); } });
  }

  render() {
    const name = this.args[0] ?? "";
    const may = wire.may("admin");
    if (!this.state) return [head(t("Settings"), ""), this.trouble ?? this.wait];
    const sections = [...new Set([...Object.keys(this.schema.properties), ...Object.keys(this.draft)])].filter((each) => !each.startsWith("$")).sort();
    const words = this.text.toLowerCase();
    return [
      head(t("Settings"), h("code", null, this.state.path), this.changed ? chip("warn", t("not saved")) : null,
        this.back ? button(t("Undo"), () => this.#write(this.back, null), { disabled: this.changed || !may }) : null,
        button(t("Discard"), () => this.reload(), { disabled: !this.changed }), button(t("Review and save"), () => this.#review(), { class: "primary", disabled: !this.changed || !may || this.wrong.length > 0 })),
      needs("admin"), this.trouble,
      [...this.state.issues, ...this.state.warnings].map((each) => h("p", { class: "note", key: each.path + each.message }, each.path ? h("code", null, each.path) : null, " ", each.message)),
      h("search", null, this.filter(t("Find a setting"))),
      h("div", { class: "two" },
        h("ul", { class: "notes-list", "aria-label": t("Sections") }, sections.map((each) => h("li", { key: each }, h("a", { href: to("config", each), "aria-current": each === name ? "page" : null }, each, each in this.draft ? " •" : "")))),
        h("div", null, words ? card(t("Found"), this.#found(words)) : name ? [card(name, this.#tree(this.schema.properties[name] ?? {}, [name], 0)), this.#raw(name)] : card("", hint(t("Choose a section. A dot marks those that the file has."))))),
    ];
  }

  /** @param {string} words */
  #found(words) {
    /** @type {any[]} */ const out = [];
    const walk = (schema, path) => {
      for (const [name, inner] of Object.entries(schema.properties ?? {})) {
        const here = [...path, name];
        if (out.length < 60 && !(/** @type {any} */ (inner)).properties && `${here.join(".")} ${(/** @type {any} */ (inner)).description ?? ""}`.toLowerCase().includes(words)) out.push(h("li", { key: here.join(".") }, this.#leaf(inner, here, here.join("."))));
        if (path.length < 8) walk(inner, here);
      }
    };
    walk(this.schema, []);
    return out.length ? h("ul", { class: "tree" }, out) : h("p", { class: "empty" }, t("Nothing here yet."));
  }

  /** @param {string[]} path */
  #at(path) { return path.reduce((value, step) => value?.[step], this.draft); }

  /** @param {string[]} path @param {number} depth @returns {any} */
  #tree(schema, path, depth) {
    const value = this.#at(path);
    const names = new Set([...Object.keys(schema.properties ?? {}), ...(plain(value) ? Object.keys(value) : [])]);
    if (!names.size || depth > 8) return this.#leaf(schema, path, path[path.length - 1]);
    return [schema.description && !depth ? hint(schema.description) : null, h("ul", { class: "tree" }, [...names].map((name) => {
      const inner = schema.properties?.[name] ?? (plain(schema.additionalProperties) ? schema.additionalProperties : {});
      const here = [...path, name];
      const deep = inner.properties || (plain(this.#at(here)) && Object.keys(this.#at(here)).length);
      return h("li", { key: here.join(".") }, deep ? h("details", { class: "fold", open: depth === 0 && plain(this.#at(here)) }, h("summary", null, h("strong", null, name), inner.description ? small(inner.description) : null, this.#at(here) !== undefined ? chip("", t("set")) : null), h("div", { class: "fold-body" }, this.#tree(inner, here, depth + 1))) : this.#leaf(inner, here, name));
    }))];
  }

  /** One setting. @param {string[]} path @param {string} name */
  #leaf(schema, path, name) {
    const value = this.#at(path);
    const key = path.join(".");
    const off = !wire.may("admin");
    const hint = [schema.description, schema.type && [schema.type].flat().join(", "), schema.default !== undefined && schema.default !== null && schema.default !== "" ? t("default: {value}", { value: JSON.stringify(schema.default) }) : null].filter(Boolean).join(" · ");
    const set = (next) => this.#set(path, next);
    const label = { "aria-label": key, disabled: off };
    const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
    let field;
    if (value === HIDDEN) field = [chip("", t("a secret, not shown")), button(t("Replace"), async () => { const next = await prompt(t("Replace"), key, ""); if (next) set(next); }, { class: "quiet small", disabled: off })];
    else if (choices) field = h("select", { ...label, value: value === undefined ? "" : String(value), onchange: (event) => set(event.target.value === "" ? undefined : schema.type === "boolean" ? event.target.value === "true" : event.target.value) }, h("option", { value: "" }, t("default")), choices.map((each) => h("option", { value: String(each) }, String(each))));
    else if (["integer", "number"].includes(schema.type)) field = h("input", { ...label, type: "number", step: schema.type === "integer" ? 1 : "any", value: value ?? "", onchange: (event) => set(event.target.value === "" ? undefined : Number(event.target.value)) });
    else if (schema.type === "string" && (value === undefined || typeof value === "string")) field = h("input", { ...label, value: value ?? "", onchange: (event) => set(event.target.value === "" ? undefined : event.target.value) });
    else field = h("textarea", { ...label, rows: Math.min(8, shown(value).split("\n").length + 1), value: value === undefined ? "" : shown(value), onchange: (event) => this.#json(key, event.target.value, set) });
    return h("div", { class: "setting" }, h("div", null, h("bdi", null, name), h("br"), small(visible(hint))), h("div", null, field, this.wrong.includes(key) ? h("p", { class: "problem" }, t("This is no JSON.")) : null, value !== undefined && !off ? button(t("Back to the default"), () => set(undefined), { class: "quiet small" }) : null));
  }

  /** @param {string} key @param {string} text @param {(value: any) => void} set */
  #json(key, text, set) {
    this.wrong = this.wrong.filter((each) => each !== key);
    try {
      set(text.trim() ? JSON.parse(text) : undefined);
    } catch {
      this.wrong.push(key);
      this.update();
    }
  }

  /** A whole section as text, for what no form can say. @param {string} name */
  #raw(name) {
    return h("details", { class: "fold", key: `raw-${name}` }, h("summary", null, t("This section as JSON")), h("div", { class: "fold-body" },
      h("textarea", { class: "editor", "aria-label": t("This section as JSON"), disabled: !wire.may("admin"), value: shown(this.draft[name]), onchange: (event) => this.#json(name, event.target.value, (value) => this.#set([name], value)) })));
  }
}
customElements.define("config-view", ConfigView);

