/** A list of any length of which only the part in view is in the document. Rows may change their height at any time. */
import { View, h } from "./base.js";

/** @typedef {import("./base.js").Kid} Kid */

const AROUND = 700; // pixels above and below the view that are drawn, too
const BOTTOM = 60; // how near to the end counts as being there

export class LongList extends View {
  /** @type {{key: string}[]} */ items = [];
  /** @type {(item: any) => Kid} */ row = () => null;
  /** @type {(item: any) => number} */ guess = () => 80;
  label = "";
  /** Whether new rows are followed. */ follows = true;
  /** @type {Map<string, number>} */ #heights = new Map();
  /** @type {ResizeObserver | null} */ #sizes = null;
  /** @type {Map<string, Element>} */ #shown = new Map();
  /** @type {string} */ #wanted = "";
  #top = 0;
  #first = 0;
  #last = 0;
  #owner = "";

  start() {
    this.#sizes = new ResizeObserver((seen) => this.#measured(seen));
    this.until(() => this.#sizes?.disconnect());
    this.hear(this, "scroll", () => this.#scrolled());
    const own = new ResizeObserver(() => { if (this.follows) this.#toEnd(); else this.update(); });
    own.observe(this);
    this.until(() => own.disconnect());
  }

  /** Begin anew, at the end, with the rows of somebody else. @param {string} owner */
  belongsTo(owner) {
    if (owner === this.#owner) return;
    this.#owner = owner;
    this.#heights.clear();
    this.follows = true;
  }

  #height(item) { return this.#heights.get(item.key) ?? this.guess(item); }

  /** Bring a row into view. @param {string} key */
  show(key) {
    this.follows = false;
    this.#wanted = key;
    this.update();
  }

  toEnd() { this.follows = true; this.update(); }

  #toEnd() { this.scrollTop = this.scrollHeight; this.#top = this.scrollTop; }

  #scrolled() {
    const top = this.scrollTop;
    if (top < this.#top - 2) this.follows = false;
    if (this.scrollHeight - top - this.clientHeight < BOTTOM) this.follows = true;
    this.#top = top;
    const [first, last] = this.#range();
    if (first < this.#first || last > this.#last) this.draw();
    this.dispatchEvent(new Event("moved"));
  }

  /** @returns {[number, number]} */
  #range() {
    const end = this.#wanted ? this.items.findIndex((item) => item.key === this.#wanted) : this.items.length;
    const from = this.follows || this.#wanted ? this.items.slice(0, end).reduce((sum, item) => sum + this.#height(item), 0) - this.clientHeight : this.scrollTop;
    let [first, last, y] = [this.items.length, 0, 0];
    for (let place = 0; place < this.items.length; place++) {
      const next = y + this.#height(this.items[place]);
      if (next > from - AROUND && y < from + this.clientHeight + AROUND) { first = Math.min(first, place); last = place + 1; }
      y = next;
    }
    return [Math.min(first, last), last];
  }

  /** @param {ResizeObserverEntry[]} seen */
  #measured(seen) {
    let moved = 0;
    const edge = this.getBoundingClientRect().top;
    for (const each of seen) {
      const row = /** @type {HTMLElement} */ (each.target);
      const key = row.dataset.key ?? "";
      if (!row.isConnected) continue;
      const place = row.getBoundingClientRect();
      const before = this.#heights.get(key);
      // A row above the view that grows would push what is read; one that was never measured has its place already.
      if (before !== undefined && place.bottom < edge + place.height - before) moved += place.height - before;
      this.#heights.set(key, place.height);
    }
    if (this.follows) this.#toEnd();
    else if (moved) { this.scrollTop += moved; this.#top = this.scrollTop; }
    const [first, last] = this.#range();
    if (first < this.#first || last > this.#last) this.draw();
  }

  /** Draw, and keep the row that is read where it is. */
  draw() {
    const edge = this.getBoundingClientRect().top;
    const read = this.follows || this.#wanted ? undefined : [...this.#shown].find(([, row]) => row.getBoundingClientRect().bottom > edge);
    const before = read?.[1].getBoundingClientRect().top ?? 0;
    super.draw();
    const now = read && this.#shown.get(read[0]);
    if (!now) return;
    const moved = now.getBoundingClientRect().top - before;
    if (Math.abs(moved) > 0.5) { this.scrollTop += moved; this.#top = this.scrollTop; }
  }

  render() {
    const [first, last] = this.#range();
    [this.#first, this.#last] = [first, last];
    const space = (items) => items.reduce((sum, item) => sum + this.#height(item), 0);
    return [
      h("div", { key: ":above", style: { height: `${space(this.items.slice(0, first))}px` } }),
      this.items.slice(first, last).map((item) => h("div", { key: item.key, class: "long-row", "data-key": item.key, role: "listitem" }, this.row(item))),
      h("div", { key: ":below", style: { height: `${space(this.items.slice(last))}px` } }),
    ];
  }

  drawn() {
    /** @type {Map<string, Element>} */ const now = new Map();
    for (const row of this.querySelectorAll(":scope > .long-row")) {
      const key = /** @type {HTMLElement} */ (row).dataset.key ?? "";
      now.set(key, row);
      if (this.#shown.get(key) !== row) this.#sizes?.observe(row);
    }
    for (const [key, row] of this.#shown) if (now.get(key) !== row) this.#sizes?.unobserve(row);
    this.#shown = now;
    if (this.follows) this.#toEnd();
    const wanted = this.#wanted && now.get(this.#wanted);
    if (wanted) { this.#wanted = ""; wanted.scrollIntoView({ block: "center" }); this.#top = this.scrollTop; }
  }
}
customElements.define("long-list", LongList);
