/** Markdown as descriptions of elements. Markup inside of it is shown as text, and only addresses that lead somewhere are links. */
import { h, safeAddress } from "./base.js";
import { lexer } from "../vendor/marked.js";
import { t, to, visible } from "./parts.js";

/** @typedef {import("./base.js").Kid} Kid */

const MAX_COLOURED = 30_000;
const CITED = /(?:[\w@.-]+\/)*[\w@.-]+\.md#L\d+(?:-L?\d+)?/g;
const ENTITIES = /** @type {Record<string, string>} */ ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: "\u00a0" });
/** @type {any} */ let colours = null;

/** Load the highlighter; what is drawn afterwards has colours. @returns {Promise<void>} */
export async function loadColours() {
  colours ??= (await import("../vendor/highlight.js")).default;
}

/** Return code with colours as far as its language is known. @param {string} code @param {string} language @returns {Kid} */
export function coloured(code, language) {
  if (!colours || code.length > MAX_COLOURED || !language || !colours.getLanguage(language)) return visible(code);
  const walk = (node) => typeof node === "string" ? visible(node) : h("span", { class: `hl-${String(node.scope ?? "").split(".")[0]}` }, node.children.map(walk));
  return colours.highlight(code, { language, ignoreIllegals: true })._emitter.rootNode.children.map(walk);
}

/** Return text in which citations such as memory/2026-01-31.md#L12 open the note. @param {string} text @returns {Kid} */
export function cited(text) {
  /** @type {Kid[]} */ const out = [];
  let at = 0;
  for (const found of text.matchAll(CITED)) {
    out.push(visible(text.slice(at, found.index)), h("a", { href: to("memory", "note", found[0]), class: "cite" }, found[0]));
    at = found.index + found[0].length;
  }
  return [...out, visible(text.slice(at))];
}

/** @param {string} text */
function plain(text) {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name) => ENTITIES[name]);
}

/** @param {string} code @param {string} language */
export function codeBlock(code, language) {
  const copy = (event) => {
    void navigator.clipboard?.writeText(code);
    event.currentTarget.textContent = t("Copied");
  };
  return h("div", { class: "code" },
    h("div", { class: "code-head" }, h("span", null, language || t("text")), h("button", { type: "button", class: "quiet small", onclick: copy }, t("Copy"))),
    h("pre", { tabindex: "0" }, h("code", null, coloured(code, language))));
}

/** @param {any[] | undefined} tokens @returns {Kid[]} */
function inline(tokens) { return (tokens ?? []).map(one); }

/** @returns {Kid} */
function one(token) {
  switch (token.type) {
    case "space": case "def": return null;
    case "text": return token.tokens ? inline(token.tokens) : cited(plain(token.text));
    case "escape": return token.text;
    case "paragraph": return h("p", null, inline(token.tokens));
    case "heading": return h(`h${Math.min(6, token.depth + 1)}`, null, inline(token.tokens));
    case "strong": case "em": case "del": return h(token.type, null, inline(token.tokens));
    case "codespan": return h("code", null, cited(token.text));
    case "br": return h("br");
    case "hr": return h("hr");
    case "blockquote": return h("blockquote", null, inline(token.tokens));
    case "code": return codeBlock(token.text, (token.lang ?? "").split(/[\s{,:]/)[0].toLowerCase());
    case "list": return h(token.ordered ? "ol" : "ul", token.ordered && token.start > 1 ? { start: token.start } : null,
      token.items.map((item) => h("li", item.task ? { class: "task" } : null, inline(item.tokens))));
    case "checkbox": return h("input", { type: "checkbox", checked: token.checked, disabled: true, "aria-label": t("Task") });
    case "table": return h("div", { class: "scroll-x", tabindex: "0" }, h("table", null,
      h("thead", null, h("tr", null, token.header.map((cell) => h("th", { class: cell.align && `to-${cell.align}` }, inline(cell.tokens))))),
      h("tbody", null, token.rows.map((row) => h("tr", null, row.map((cell) => h("td", { class: cell.align && `to-${cell.align}` }, inline(cell.tokens))))))));
    case "link": case "image": return link(token);
    default: return token.raw ?? ""; // markup, and whatever a later parser knows: shown as it was written
  }
}

/** Pictures from elsewhere are links: looking at an answer must not tell anybody that it was looked at. @returns {Kid} */
function link(token) {
  const address = safeAddress(token.href ?? "");
  const words = token.type === "image" ? [`🖼 ${token.text || token.href}`] : inline(token.tokens);
  if (token.type === "image" && address.startsWith("data:image/")) return h("img", { src: address, alt: token.text });
  if (!address || !/^(https?:|mailto:|#\/)/i.test(address)) return [words, address ? "" : ` (${token.href})`];
  return h("a", address.startsWith("#") ? { href: address } : { href: address, target: "_blank", rel: "noopener noreferrer" }, words);
}

/** Return Markdown as elements. @param {string} text @returns {Kid[]} */
export function markdown(text) {
  try {
    return lexer(text).map(one);
  } catch {
    return [h("p", { class: "raw" }, text)];
  }
}
