/**
 * The page's own small base: elements are described, and the document is made to look like the description.
 * Text becomes text nodes and attributes are set one by one, so nothing that anybody wrote can become markup.
 */

/** @typedef {{tag: string, text: string, props: Record<string, any>, kids: Item[], key: any, el: any}} Item */
/** @typedef {Item | string | number | boolean | null | undefined | Kid[]} Kid */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "open", "selected", "hidden", "readOnly", "indeterminate"]);
const FORBIDDEN = /^(on.*|style|srcdoc|action|formaction|innerhtml|outerhtml|ping|http-equiv)$/;
const ADDRESSES = new Set(["href", "src", "xlink:href", "poster", "data"]);

/** Describe an element. @param {string} tag @param {Record<string, any> | null} [props] @param {...Kid} kids @returns {Item} */
export function h(tag, props, ...kids) {
  return { tag, text: "", props: props ?? {}, kids: flat(kids, []), key: props?.key, el: null };
}

/** @param {Kid[]} kids @param {Item[]} out @returns {Item[]} */
function flat(kids, out) {
  for (const kid of kids) {
    if (Array.isArray(kid)) flat(kid, out);
    else if (kid === null || kid === undefined || typeof kid === "boolean") continue;
    else if (typeof kid === "object") out.push(kid);
    else out.push({ tag: "", text: String(kid), props: {}, kids: [], key: undefined, el: null });
  }
  return out;
}

/** Return an address that can only lead somewhere, never run anything; empty for any other. @param {unknown} value */
export function safeAddress(value) {
  const text = String(value).replace(/[\u0000-\u0020\u007f-\u009f]/g, "");
  if (/^(https?:|mailto:|blob:|data:image\/(png|jpeg|gif|webp);base64,|[#/?.])/i.test(text)) return text;
  return /^[^:]*$/.test(text) ? text : "";
}

/** @param {any} el @param {string} name @param {any} value @param {any} old */
function setProp(el, name, value, old) {
  if (value === old && !PROPERTIES.has(name)) return;
  if (name === "key" || name === "ref") return;
  if (name.startsWith("on") && (typeof value === "function" || typeof old === "function")) {
    const type = name.slice(2);
    el.heard ??= {};
    if (!(type in el.heard)) el.addEventListener(type, (event) => el.heard[type]?.call(el, event));
    el.heard[type] = value;
  } else if (name === "style") {
    for (const part of Object.keys(old ?? {})) if (!(part in (value ?? {}))) el.style.removeProperty(part);
    for (const [part, set] of Object.entries(value ?? {})) el.style.setProperty(part, String(set));
  } else if (el.localName.includes("-") && name !== "class" && name !== "id" && !name.startsWith("aria-") && name !== "role") el[name] = value;
  else if (PROPERTIES.has(name)) { if (el[name] !== (value ?? false)) el[name] = value ?? (name === "value" ? "" : false); }
  else if (FORBIDDEN.test(name.toLowerCase())) throw new Error(`${name} may not be set`);
  else if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else if (ADDRESSES.has(name)) {
    const address = safeAddress(value);
    if (address) el.setAttribute(name, address); else el.removeAttribute(name);
  } else el.setAttribute(name, value === true ? "" : String(value));
}

/** @param {Item} item @param {boolean} svg @returns {any} */
function create(item, svg) {
  if (!item.tag) return document.createTextNode(item.text);
  const inside = svg || item.tag === "svg";
  const el = /** @type {any} */ (inside ? document.createElementNS(SVG, item.tag) : document.createElement(item.tag));
  for (const kid of item.kids) el.append((kid.el = create(kid, inside)));
  for (const [name, value] of Object.entries(item.props)) setProp(el, name, value, undefined);
  item.props.ref?.(el);
  return el;
}

/** @param {Item} old @param {Item} next @param {boolean} svg */
function renew(old, next, svg) {
  const el = (next.el = old.el);
  if (!next.tag) { if (old.text !== next.text) el.data = next.text; return; }
  for (const name of Object.keys(old.props)) if (!(name in next.props)) setProp(el, name, undefined, old.props[name]);
  if (!next.tag.includes("-")) patch(el, old.kids, next.kids, svg || next.tag === "svg");
  for (const [name, value] of Object.entries(next.props)) setProp(el, name, value, old.props[name]);
  if (next.tag.includes("-")) el.update?.();
}

/** Make the children of an element look like their description. @param {any} parent @param {Item[]} old @param {Item[]} next @param {boolean} [svg] */
export function patch(parent, old, next, svg = false) {
  /** @type {Map<any, Item>} */ const keyed = new Map();
  /** @type {Item[]} */ const loose = [];
  for (const item of old) item.key !== undefined ? keyed.set(item.key, item) : loose.push(item);
  const used = new Set();
  let at = 0;
  for (const item of next) {
    let before = item.key !== undefined ? keyed.get(item.key) : undefined;
    if (item.key === undefined) {
      const found = loose.findIndex((each, place) => place >= at && each.tag === item.tag);
      if (found >= 0) { before = loose[found]; at = found + 1; }
    }
    if (before && before.tag === item.tag && !used.has(before)) {
      used.add(before);
      if (before !== item) renew(before, item, svg);
    } else item.el = create(item, svg);
  }
  for (const item of old) if (!used.has(item)) item.el.remove();
  let cursor = parent.firstChild;
  for (const item of next) {
    if (item.el === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(item.el, cursor);
  }
}

/** An element that draws itself from `render` whenever `update` was called. */
export class View extends HTMLElement {
  /** @type {Item[]} */ #items = [];
  #due = false;
  /** @type {(() => void)[]} */ #undo = [];
  /** Called when the element comes into the document. */
  start() {}
  /** Called after each drawing. */
  drawn() {}
  /** @returns {Kid} */ render() { return null; }
  connectedCallback() { this.start(); this.draw(); }
  disconnectedCallback() { for (const undo of this.#undo.splice(0)) undo(); }
  /** Do something when the element goes. @param {() => void} undo */
  until(undo) { this.#undo.push(undo); }
  /** Hear something for as long as the element is there. @param {EventTarget} target @param {string} type @param {(event: any) => void} heard */
  hear(target, type, heard) {
    target.addEventListener(type, heard);
    this.until(() => target.removeEventListener(type, heard));
  }
  update() {
    if (this.#due || !this.isConnected) return;
    this.#due = true;
    queueMicrotask(() => { if (this.#due) this.draw(); });
  }
  draw() {
    this.#due = false;
    if (!this.isConnected) return;
    const next = flat([this.render()], []);
    patch(this, this.#items, next);
    this.#items = next;
    this.drawn();
  }
}
