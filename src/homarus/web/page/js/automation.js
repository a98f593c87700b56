/** Turns that nobody typed: jobs, what became of them, heartbeats. See, make, switch, run now. */
import { Page, act, ago, button, card, chip, confirm, form, h, head, hint, moment, needs, prompt, small, store, t, table, to, toast, visible, wire } from "./parts.js";

/** When a job runs, in words. */
function rhythm(when) {
  if (when?.kind === "at") return moment(when.atMs ?? when.at);
  if (when?.kind === "every") return t("every {n} minutes", { n: Math.round((when.everyMs ?? 0) / 60_000) });
  return `${when?.expr ?? when?.cron ?? ""} ${when?.tz ?? ""}`.trim();
}

class AutomationView extends Page {
  jobs = [];
  runs = [];
  /** @type {any} */ status = null;

  hears = ["cron", "heartbeat"];

  async load() {
    const [jobs, runs, status] = await Promise.all([wire.call("cron.list", { includeDisabled: true, limit: 200 }), wire.call("cron.runs", { limit: 50 }), wire.call("cron.status")]);
    [this.jobs, this.runs, this.status] = [jobs.jobs, runs.entries, status];
  }

  render() {
    const off = !wire.may("admin");
    const beats = Object.entries(this.status?.heartbeats?.agents ?? {});
    return [
      head(t("Automation"), t("Jobs by the clock, and heartbeats."), button(t("New job"), () => this.#edit(null), { class: "primary", disabled: off }), button(t("Tell the agent of an event"), () => this.#wake(), { disabled: !wire.may("write") })),
      needs("admin"), this.trouble, this.status?.problem ? h("p", { class: "problem" }, this.status.problem) : null,
      card(t("Jobs"), table([t("Job"), t("When"), t("Next"), t("Last"), ""], this.jobs.map((job) => ({ key: job.id, cells: [
        [h("strong", null, visible(job.name || job.id)), job.enabled === false ? [" ", chip("", t("off"))] : null, h("br"), small(visible(String(job.payload?.message ?? job.payload?.text ?? "").slice(0, 160)))],
        rhythm(job.schedule), job.state?.nextRunAtMs ? ago(job.state.nextRunAtMs) : "–",
        job.state?.lastRunAtMs ? [ago(job.state.lastRunAtMs), " ", chip(job.state.lastStatus === "ok" ? "ok" : job.state.lastStatus === "error" ? "bad" : "", job.state.lastStatus ?? ""), job.state.lastError ? [h("br"), small(visible(job.state.lastError))] : null] : "–",
        h("div", { class: "actions" }, button(t("Run now"), async () => { await wire.call("cron.run", { id: job.id, mode: "force" }); toast(t("Started.")); }, { class: "small", disabled: off }),
          button(job.enabled === false ? t("Switch on") : t("Switch off"), async () => { await wire.call("cron.update", { id: job.id, patch: { enabled: job.enabled === false } }); await this.reload(); }, { class: "small", disabled: off }),
          button(t("Edit"), () => this.#edit(job), { class: "small", disabled: off }),
          button(t("Delete"), async () => { if (await confirm(t("Delete"), job.name || job.id, t("Delete"))) { await wire.call("cron.remove", { id: job.id }); await this.reload(); } }, { class: "small danger", disabled: off })),
      ] })))),
      card(t("What became of them"), table([t("When"), t("Job"), t("Outcome"), t("What was said")], this.runs.map((run, place) => ({ key: `${run.runId}${place}`, cells: [h("time", null, moment(run.runAtMs ?? run.ts)), this.jobs.find((job) => job.id === run.jobId)?.name ?? run.jobId, chip(run.status === "ok" ? "ok" : run.status === "error" ? "bad" : "", run.status ?? run.action ?? ""),
        [visible(run.summary ?? run.error ?? ""), run.sessionKey ? [" ", h("a", { href: to("chat", run.sessionKey) }, t("open"))] : null]] })))),
      card(t("Heartbeats"), hint(t("The agent looks around by itself.")), table([t("Agent"), t("Every"), t("Next"), t("Last")], beats.map(([agent, beat]) => { const it = /** @type {any} */ (beat); return { key: agent, cells: [agent, t("every {n} minutes", { n: Math.round(it.everyMs / 60_000) }), it.nextAtMs ? ago(it.nextAtMs) : "–", [it.last?.ts ? ago(it.last.ts) : "–", it.last?.status ? [" ", chip("", it.last.status)] : null, it.stopped ? [" ", chip("warn", it.stopped)] : null]] }; })),
        beats.length ? button(this.status.heartbeats.enabled ? t("Switch all off") : t("Switch on"), async () => { await wire.call("set-heartbeats", { enabled: !this.status.heartbeats.enabled }); await this.reload(); }, { disabled: off }) : null),
    ];
  }

  async #wake() {
    const text = await prompt(t("Tell the agent of an event"), t("What happened"), "");
    if (text) { await wire.call("wake", { text, mode: "now" }); toast(t("Told.")); }
  }

  /** Make a job, or change one. */
  async #edit(job) {
    const when = job?.schedule ?? { kind: "cron", expr: "0 8 * * 1-5" };
    const spoken = job?.payload?.kind === "systemEvent" ? "event" : "turn";
    const wish = await form(job ? t("Edit") : t("New job"),
      h("label", null, t("Name"), h("input", { name: "name", value: job?.name ?? "", required: true, maxlength: 80 })),
      h("label", null, t("When"), h("select", { name: "kind", value: when.kind }, h("option", { value: "cron" }, t("by a cron expression")), h("option", { value: "every" }, t("every so many minutes")), h("option", { value: "at" }, t("once, at a moment")))),
      h("label", null, t("Expression, minutes or moment (2026-05-01 09:00)"), h("input", { name: "value", required: true, value: when.kind === "cron" ? when.expr ?? "" : when.kind === "every" ? String(Math.round((when.everyMs ?? 3_600_000) / 60_000)) : new Date(when.atMs ?? when.at ?? Date.now()).toISOString() })),
      h("label", null, t("How"), h("select", { name: "how", value: spoken }, h("option", { value: "turn" }, t("a turn in a session of its own")), h("option", { value: "event" }, t("an event in the main session")))),
      store.agents.length > 1 ? h("label", null, t("Agent"), h("select", { name: "agentId", value: job?.agentId ?? store.defaultAgent }, store.agents.map((each) => h("option", { value: each.id }, each.name ?? each.id)))) : null,
      h("label", null, t("What it is told"), h("textarea", { name: "text", rows: 4, required: true, value: job?.payload?.message ?? job?.payload?.text ?? "" })));
    if (!wish) return;
    const schedule = wish.kind === "cron" ? { kind: "cron", expr: wish.value, ...(when.tz ? { tz: when.tz } : {}) } : wish.kind === "every" ? { kind: "every", everyMs: Number(wish.value) * 60_000 } : { kind: "at", at: new Date(wish.value).toISOString() };
    const told = wish.how === "event" ? { payload: { kind: "systemEvent", text: wish.text }, sessionTarget: "main" } : { payload: { kind: "agentTurn", message: wish.text }, sessionTarget: "isolated" };
    const fields = { name: wish.name, schedule, ...told, ...(wish.agentId ? { agentId: wish.agentId } : {}) };
    await act(async () => {
      await (job ? wire.call("cron.update", { id: job.id, patch: fields }) : wire.call("cron.add", { ...fields, enabled: true, wakeMode: "now" }));
      await this.reload();
    });
  }
}
customElements.define("automation-view", AutomationView);
