/** What views are made of: numbers and times, tables, dialogs, charts, differences, files. */
import { View, h, patch } from "./base.js";
import { store } from "./store.js";
import { language, t } from "./words.js";
import { wire } from "./wire.js";
export { h, store, t, wire };

/** @typedef {import("./base.js").Kid} Kid */

export const number = (value) => new Intl.NumberFormat(language()).format(value ?? 0);
export const short = (value) => new Intl.NumberFormat(language(), { notation: "compact", maximumFractionDigits: 1 }).format(value ?? 0);
export const money = (value) => new Intl.NumberFormat(language(), { style: "currency", currency: "USD", maximumFractionDigits: value && value < 1 ? 4 : 2 }).format(value ?? 0);
export const percent = (value) => new Intl.NumberFormat(language(), { style: "percent", maximumFractionDigits: 0 }).format(value || 0);
export const bytes = (value) => value < 1024 ? `${value} B` : value < 1 << 20 ? `${(value / 1024).toFixed(1)} kB` : `${(value / (1 << 20)).toFixed(1)} MB`;
export const moment = (value) => value ? new Date(value).toLocaleString(language(), { dateStyle: "medium", timeStyle: "short" }) : "–";
export const clock = (value) => value ? new Date(value).toLocaleTimeString(language(), { hour: "2-digit", minute: "2-digit" }) : "";

/** Return how long ago something was. @param {number} time */
export function ago(time) {
  if (!time) return "–";
  const seconds = (time - Date.now()) / 1000;
  const steps = /** @type {[number, Intl.RelativeTimeFormatUnit][]} */ ([[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [1e9, "year"]]);
  let value = seconds;
  for (const [size, unit] of steps) {
    if (Math.abs(value) < size) return new Intl.RelativeTimeFormat(language(), { numeric: "auto" }).format(Math.round(value), unit);
    value /= size;
  }
  return "";
}

const ODD = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb])/;

/** Return text in which no character can hide: what has no shape of its own is written as its number. @param {string} text @returns {Kid} */
export function visible(text) {
  if (!ODD.test(text ?? "")) return text ?? "";
  return String(text).split(ODD)
    .map((piece, place) => place % 2 ? h("mark", { class: "odd" }, `U+${piece.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`) : piece);
}

/** @param {...Kid} kids */
export const small = (...kids) => h("small", null, ...kids);

/** A button that is a sign. @param {string} sign @param {string} label @param {() => any} onclick @param {Record<string, any>} [more] */
export const icon = (sign, label, onclick, more) => button(sign, onclick, { class: "quiet", "aria-label": label, title: label, ...more });

/** @param {...Kid} kids */
export const hint = (...kids) => h("p", { class: "hint" }, ...kids);

/** The address of a view. @param {...string} parts */
export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** @param {string} kind @param {...Kid} kids */
export const chip = (kind, ...kids) => h("span", { class: `chip ${kind}` }, ...kids);

/** A difference as text, each line in its colour. @param {string} text */
export function diff(text) {
  return h("pre", { class: "diff", tabindex: "0" }, text.split("\n").slice(0, 2000).map((line) => {
    const kind = /^(\+\+\+|---|@@)/.test(line) ? "head" : line.startsWith("+") ? "added" : line.startsWith("-") ? "gone" : "";
    return h("span", { class: kind }, visible(line), "\n");
  }));
}

/** The difference of two texts by lines, as people read it. @param {string} before @param {string} after */
export function compare(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const around = (lines) => lines.map((line) => `  ${line}`);
  return [`@@ ${head + 1} @@`, ...around(a.slice(Math.max(0, head - 3), head)), ...changes(x, y), ...around(a.slice(a.length - tail, a.length - tail + 3))].join("\n");
}

/** @param {string[]} x @param {string[]} y */
function changes(x, y) {
  if (x.length * y.length > 400_000) return [...x.map((line) => `- ${line}`), ...y.map((line) => `+ ${line}`)];
  const size = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) size[i][j] = x[i] === y[j] ? size[i + 1][j + 1] + 1 : Math.max(size[i + 1][j], size[i][j + 1]);
  const out = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) { out.push(`  ${x[i++]}`); j++; }
    else if (j >= y.length || (i < x.length && size[i + 1][j] >= size[i][j + 1])) out.push(`- ${x[i++]}`);
    else out.push(`+ ${y[j++]}`);
  }
  return out;
}

/** @param {string[]} heads @param {{key?: any, cells: Kid[]}[]} rows @param {string} [empty] */
export function table(heads, rows, empty = "") {
  if (!rows.length) return h("p", { class: "empty" }, empty || t("Nothing here yet."));
  return h("div", { class: "scroll-x", tabindex: "0" }, h("table", { class: "data", role: "table" },
    h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head || h("span", { class: "sr" }, t("Actions")))))),
    h("tbody", null, rows.map((row, place) => h("tr", { key: row.key ?? place, role: "row" }, row.cells.map((cell, at) => h("td", { role: "cell", "data-head": heads[at] }, cell)))))));
}

/** @param {string} title @param {Kid} about @param {...Kid} actions */
export const head = (title, about, ...actions) => h("header", { class: "view-head" }, h("div", null, h("h1", null, title), about && hint(about)), h("div", { class: "actions" }, ...actions));

/** @param {string} title @param {...Kid} kids */
export const card = (title, ...kids) => h("section", { class: "card" }, title && h("h2", null, title), ...kids);

/** @param {Kid} label @param {() => any} onclick @param {Record<string, any>} [more] */
export const button = (label, onclick, more = {}) => h("button", { type: "button", onclick: () => { void act(onclick); }, ...more }, label);

/** Do something, and say what went wrong. @param {() => any} work */
export async function act(work) {
  try {
    return await work();
  } catch (problem) {
    toast(problem.message ?? String(problem), "bad");
  }
}

/** Say something for a moment. @param {string} text @param {string} [kind] @param {{label: string, run: () => any}} [offer] */
export function toast(text, kind = "", offer) {
  const place = document.querySelector("#toasts");
  if (!place) return;
  const box = document.createElement("div");
  const gone = () => box.remove();
  box.className = `toast ${kind}`;
  patch(box, [], [h("span", null, text), ...(offer ? [h("button", { type: "button", onclick: () => { gone(); void act(offer.run); } }, offer.label)] : []),
    h("button", { type: "button", class: "quiet", "aria-label": t("Close"), onclick: gone }, "×")]);
  place.append(box);
  setTimeout(gone, kind === "bad" || offer ? 12_000 : 5000);
}

/** Ask something in a dialog; the answer is what a button gave, or null. @param {string} title @param {(done: (value: any) => void) => Kid} body @returns {Promise<any>} */
export function ask(title, body) {
  return new Promise((resolve) => {
    const box = document.createElement("dialog");
    let answer = /** @type {any} */ (null);
    const done = (value) => { answer = value; box.close(); };
    box.setAttribute("aria-label", title);
    patch(box, [], [h("h2", null, title), h("div", null, body(done))]);
    box.addEventListener("close", () => { box.remove(); resolve(answer); });
    document.body.append(box);
    box.showModal();
  });
}

/** The end of a dialog that only shows something. @param {(value: any) => void} done @param {...Kid} more */
export const closing = (done, ...more) => h("div", { class: "buttons" }, ...more, h("button", { type: "button", onclick: () => done(null) }, t("Close")));

/** The end of a dialog or form in which something is decided. @param {(value: any) => void} done @param {string} yes @param {Record<string, any>} [more] */
export const deciding = (done, yes, more) => h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => done(null) }, t("Cancel")), h("button", { class: "primary", ...more }, yes));

/** @param {string} title @param {Kid} text @param {string} yes @returns {Promise<boolean>} */
export async function confirm(title, text, yes) {
  return Boolean(await ask(title, (done) => [h("p", null, text), deciding(done, yes, { class: "danger", onclick: () => done(true) })]));
}

/** @param {string} title @param {string} label @param {string} value @returns {Promise<string | null>} */
export const prompt = async (title, label, value) => (await form(title, h("label", null, label, h("input", { name: "value", value, autofocus: true, maxlength: 200 }))))?.value ?? null;

/** Bars that print: one for each row, with its value beside it. @param {{name: string, value: number, label: string, part?: number}[]} rows @param {string} title */
export function bars(rows, title) {
  const top = Math.max(...rows.map((row) => row.value), 1e-12);
  return h("div", { class: "bars", role: "img", "aria-label": `${title}: ${rows.map((row) => `${row.name} ${row.label}`).join(", ").slice(0, 900)}` },
    rows.map((row) => h("div", { class: "bar", key: row.name }, h("span", { class: "bar-name", title: row.name }, row.name),
      h("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        h("rect", { class: "track", width: 100, height: 8 }), h("rect", { class: "fill", width: Math.max(row.value ? 0.6 : 0, 100 * row.value / top), height: 8 }),
        row.part ? h("rect", { class: "part", width: 100 * row.part / top, height: 8 }) : null),
      h("span", { class: "bar-value" }, row.label))));
}

/** Columns over time. @param {{name: string, value: number, label: string}[]} points @param {string} title */
export function columns(points, title) {
  const top = Math.max(...points.map((point) => point.value), 1e-12);
  const width = 100 / Math.max(1, points.length);
  return h("figure", { class: "columns" }, h("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": title },
    points.map((point, place) => h("rect", { key: point.name, class: "fill", x: place * width + width * 0.12, width: width * 0.76, y: 40 - 38 * point.value / top, height: Math.max(point.value ? 0.4 : 0, 38 * point.value / top) },
      h("title", null, `${point.name}: ${point.label}`)))),
    h("figcaption", null, h("span", null, points[0]?.name ?? ""), h("span", null, t("highest: {value}", { value: points.reduce((best, point) => point.value > best.value ? point : best, points[0])?.label ?? "" })), h("span", null, points.at(-1)?.name ?? "")));
}

/** A line from 0 to 1 over days. @param {{day: string, confidence: number}[]} points @param {string} title */
export function curve(points, title) {
  const x = (place) => points.length > 1 ? 10 + 580 * place / (points.length - 1) : 300;
  const y = (value) => 95 - 90 * value;
  const path = points.map((point, place) => `${place ? "L" : "M"}${x(place).toFixed(1)} ${y(point.confidence).toFixed(1)}`).join("");
  return h("figure", { class: "columns" }, h("svg", { viewBox: "0 0 600 100", role: "img", "aria-label": title },
    [0, 0.5, 1].map((value) => h("line", { class: "grid", x1: 0, x2: 600, y1: y(value), y2: y(value) })), h("path", { class: "stroke", d: path }),
    points.map((point, place) => h("circle", { class: "fill", cx: x(place), cy: y(point.confidence), r: 4 }, h("title", null, `${point.day}: ${percent(point.confidence)}`)))),
    h("figcaption", null, h("span", null, points[0]?.day ?? ""), h("span", null, points.at(-1)?.day ?? "")));
}

/** A view that reads something first: again after each connection, when `key` changes, and when one of `hears` is told. */
export class Page extends View {
  /** @type {string[]} */ args = [];
  /** @type {string[]} */ hears = [];
  problem = "";
  #known = /** @type {string | null} */ (null);
  /** What is read depends on this. */ get key() { return ""; }
  async load() {}
  start() {
    this.hear(wire, "state", () => { if (wire.state === "open") this.reload(); });
    for (const name of this.hears) this.hear(wire, name, () => this.reload());
  }
  connectedCallback() { super.connectedCallback(); this.update(); }
  /** Read anew. */ reload() { this.#known = this.key; return this.read(() => this.load()); }
  /** Do something that the view needs; what goes wrong stands in the view. @param {() => Promise<any>} work */
  async read(work) {
    this.problem = "";
    try {
      await work();
    } catch (problem) {
      if (problem.code !== "LOST") this.problem = problem.message;
    }
    super.update();
  }
  update() {
    if (this.#known !== this.key && wire.state === "open") void this.reload();
    super.update();
  }
  get trouble() { return this.problem ? h("p", { class: "problem", role: "alert" }, this.problem) : null; }
  get wait() { return this.problem ? null : h("p", { class: "empty" }, "…"); }
  /** A field that filters what the view shows. @param {string} label @param {string} name */
  filter(label, name = "text") {
    return h("input", { type: "search", "aria-label": label, placeholder: label, value: /** @type {any} */ (this)[name], oninput: (event) => { /** @type {any} */ (this)[name] = event.target.value; this.update(); } });
  }
  /** Links to the parts of a view. @param {string} view @param {string} now @param {string[][]} tabs */
  tabs(view, now, tabs) {
    return h("nav", { class: "tabs", "aria-label": t("Sections") }, tabs.map(([name, title]) => h("a", { key: name, href: `#/${view}/${name}`, "aria-current": now === name ? "page" : null }, title)));
  }
}

/** A choice. @param {string} label @param {string} value @param {any[][]} options @param {(value: string) => any} set */
export const picker = (label, value, options, set) => h("label", null, h("span", { class: "sr" }, label), h("select", { value, onchange: (event) => set(event.target.value) }, options.map(([name, title]) => h("option", { key: name, value: name }, title))));

/** Whose things a view shows, where there are several agents. @param {any} view @param {() => void} [before] */
export const whose = (view, before) => store.agents.length > 1 ? picker(t("Agent"), view.agent, store.agents.map((each) => [each.id, each.name ?? each.id]), (agent) => { view.agent = agent; before?.(); view.update(); }) : null;

/** A form in a dialog; the answer is what was typed. @param {string} title @param {...Kid} fields @returns {Promise<any>} */
export const form = (title, ...fields) => ask(title, (done) => h("form", { onsubmit: (event) => { event.preventDefault(); done(Object.fromEntries(new FormData(event.target))); } }, ...fields, deciding(done, t("Save"))));

/** Choose one of several. @param {string} title @param {any[][]} choices name, label, whether it cannot be chosen @param {Kid} [about] @returns {Promise<string | null>} */
export const choose = (title, choices, about) => ask(title, (done) => [about && hint(about), h("div", { class: "menu-list" }, choices.map(([name, label, off]) => h("button", { type: "button", key: name, class: name === "delete" ? "danger" : "", disabled: Boolean(off), onclick: () => done(name) }, label)))]);

/** Say what spoke for a line of a note, signal by signal. @param {string} query @param {string} citation @param {string} agent */
export async function explain(query, citation, agent) {
  const found = await wire.call("page.memory.explain", { query, citation: citation.replace(/-L?\d+$/, ""), agent });
  await ask(citation, (done) => [h("p", null, found.rank ? t("rank {rank} of {all}", { rank: found.rank, all: found.candidates }) : t("not among {all} candidates", { all: found.candidates })), found.text ? h("blockquote", null, visible(found.text)) : null,
    table([t("Signal"), t("Value"), t("Adds")], found.parts.map((part) => ({ key: part[0], cells: [part[0], part[1].toFixed(3), part[2].toFixed(3)] }))), closing(done)]);
}

/** Show what would change and ask whether it shall. @param {string} before @param {string} after @returns {Promise<boolean>} */
export const reviewed = (before, after) => ask(t("Save these changes?"), (done) => [diff(compare(before, after)), deciding(done, t("Save"), { onclick: () => done(true) })]);

/** Say that this browser lacks a right. @param {string} scope @returns {Kid} */
export const needs = (scope) => wire.may(scope) ? null : h("p", { class: "note" }, t("This browser may look, but not change this. On the gateway's machine, “homarus devices approve” gives it the right."),
  " ", h("button", { type: "button", class: "quiet small", onclick: () => wire.again() }, t("Look again")));

/** @param {File} file @returns {Promise<string>} */
export async function base64(file) {
  const data = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < data.length; at += 0x8000) text += String.fromCharCode(...data.subarray(at, at + 0x8000));
  return btoa(text);
}
