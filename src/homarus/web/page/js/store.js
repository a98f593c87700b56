/** What several views look at: the sessions, the agents, the questions that wait. Kept in step with the gateway. */
import { t } from "./words.js";
import { wire } from "./wire.js";

class Store extends EventTarget {
  sessions = [];
  agents = [];
  approvals = [];
  defaultAgent = "main";
  mainKey = "agent:main:main";
  #due = 0;

  changed() { this.dispatchEvent(new Event("change")); }

  /** Read everything, as after each connection. */
  async load() {
    const known = wire.hello?.snapshot?.sessionDefaults ?? {};
    this.defaultAgent = known.defaultAgentId ?? "main";
    this.mainKey = known.mainSessionKey ?? "agent:main:main";
    await Promise.allSettled([wire.call("sessions.subscribe"), this.loadSessions(), this.loadApprovals(),
      wire.call("agents.list").then((found) => { this.agents = found.agents; })]);
    this.changed();
  }

  async loadSessions() {
    this.sessions = (await wire.call("sessions.list", { limit: 1000, archived: "all" })).sessions;
    this.changed();
  }

  async loadApprovals() {
    this.approvals = wire.may("approvals") ? (await wire.call("page.approvals")).approvals : [];
    this.changed();
  }

  /** Take over what changed in one session. */
  take(told) {
    const row = told.session;
    this.sessions = this.sessions.filter((each) => each.key !== told.sessionKey);
    if (told.reason !== "delete" && row) this.sessions.unshift(row);
    clearTimeout(this.#due);
    this.#due = setTimeout(() => this.changed(), 30);
  }

  /** @param {string} key */
  session(key) { return this.sessions.find((each) => each.key === key); }

  /** How a session is called. */
  title(row) {
    if (row?.displayName) return row.displayName;
    if (!row || row.isMain) return row?.agentId && row.agentId !== this.defaultAgent ? row.agentId : t("Main");
    return row.key.split(":").slice(2).join(":").replace(/^(dashboard|explicit):/, "").replace(/([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "$1");
  }
}

export const store = new Store();
wire.addEventListener("state", () => { if (wire.state === "open") void store.load(); });
wire.addEventListener("sessions.changed", (event) => store.take(/** @type {CustomEvent} */ (event).detail));
for (const name of ["exec.approval.requested", "exec.approval.resolved"]) wire.addEventListener(name, () => void store.loadApprovals());
