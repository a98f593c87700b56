/** The socket to the gateway (protocol 4): who this browser is, calls and events, and coming back after a loss. */

const SCOPES = ["operator.admin", "operator.approvals", "operator.pairing", "operator.questions", "operator.read", "operator.write"];
const CLIENT = { id: "homarus-web", mode: "ui", version: "1", platform: "web" };
const SECRET = "homarus.secret";
const LONGEST_WAIT = 8000;
const encode = (text) => new TextEncoder().encode(text);

/** A call that the gateway refused, or that got lost. */
export class Refused extends Error {
  /** @param {string} message @param {string} [code] @param {any} [details] */
  constructor(message, code = "", details = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {IDBRequest} request @returns {Promise<any>} */
const asked = (request) => new Promise((done, failed) => { request.onsuccess = () => done(request.result); request.onerror = () => failed(request.error); });

/** What this browser keeps of itself: its key, which cannot be taken out, and the token that the gateway gave it. @param {(store: IDBObjectStore) => IDBRequest} work */
async function kept(work) {
  const opening = indexedDB.open("homarus", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("device");
  return asked(work((await asked(opening)).transaction("device", "readwrite").objectStore("device")));
}

/** @typedef {{keys: CryptoKeyPair, id: string, publicKey: string}} Device */

export class Wire extends EventTarget {
  /** connecting, open, lost (it tries again), locked (a secret is wanted), waiting (for the owner's approval) */
  state = "connecting";
  /** @type {any} */ hello = null;
  /** @type {Refused | null} */ problem = null;
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {Map<string, {done: (value: any) => void, failed: (problem: Error) => void, frame: string, again: boolean}>} */
  #open = new Map();
  #count = 0;
  #tries = 0;
  #heard = 0;
  #timer = 0;
  /** @type {Device | null} */ #device = null;
  #deviceToken = "";
  #invitation = "";
  #secret = "";

  /** Read the credentials and connect. What stands in the fragment is taken and removed at once. */
  async start() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (given.has("token") || given.has("pair")) {
      history.replaceState(null, "", location.pathname);
      this.#invitation = given.get("pair") ?? "";
      if (given.has("token")) sessionStorage.setItem(SECRET, given.get("token") ?? "");
    }
    this.#secret = sessionStorage.getItem(SECRET) ?? "";
    this.#device = await this.#identify();
    setInterval(() => this.#watch(), 5000);
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.retry(); });
    this.#connect();
  }

  /** @returns {Promise<Device | null>} */
  async #identify() {
    try {
      let keys = await kept((store) => store.get("keys"));
      if (!keys) {
        keys = await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"]);
        await kept((store) => store.put(keys, "keys"));
      }
      this.#deviceToken = (await kept((store) => store.get("token"))) ?? "";
      const raw = new Uint8Array(await crypto.subtle.exportKey("raw", keys.publicKey));
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
      return { keys, id: [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join(""), publicKey: base64url(raw) };
    } catch {
      return null; // an old browser, or a page without TLS from another machine: the secret alone has to do
    }
  }

  /** Say who this is with a secret that somebody typed. @param {string} secret */
  unlock(secret) {
    this.#secret = secret;
    sessionStorage.setItem(SECRET, secret);
    this.problem = null;
    this.#connect();
  }

  /** Forget this browser's rights here. */
  async forget() {
    sessionStorage.removeItem(SECRET);
    this.#secret = this.#deviceToken = "";
    await kept((store) => store.delete("token"));
    this.#become("locked");
    this.#drop();
  }

  retry() {
    if (this.state === "lost" || this.state === "waiting") { clearTimeout(this.#timer); this.#connect(); }
  }

  /** Connect anew, as after rights were given. */
  again() { if (this.state === "open") this.#drop(); else this.retry(); }

  /** Give a socket up without waiting for its end: where the network is gone, that would take minutes. */
  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#lost();
  }

  /** @param {string} state */
  #become(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #connect() {
    if (this.#socket && this.#socket.readyState < 2) return;
    if (!this.#invitation && !this.#deviceToken && !this.#secret) { this.#become("locked"); return; }
    if (this.state !== "waiting") this.#become(this.hello ? "lost" : "connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`);
    this.#socket = socket;
    this.#heard = Date.now();
    socket.onmessage = (event) => { this.#heard = Date.now(); void this.#take(socket, JSON.parse(event.data)); };
    socket.onclose = () => { if (this.#socket === socket) this.#lost(); };
  }

  #watch() {
    const patience = 2.5 * (this.hello?.policy.tickIntervalMs ?? 15000);
    if (this.state === "open" && Date.now() - this.#heard > patience) this.#drop();
  }

  #lost() {
    this.#socket = null;
    for (const [id, call] of [...this.#open]) {
      if (!call.again) { this.#open.delete(id); call.failed(new Refused("the connection was lost", "LOST")); }
    }
    if (this.state === "locked") return;
    if (this.state !== "waiting") this.#become("lost");
    const wait = this.state === "waiting" ? 4000 : Math.min(LONGEST_WAIT, 300 * 2 ** this.#tries++);
    this.#timer = setTimeout(() => this.#connect(), wait * (0.8 + Math.random() * 0.4));
  }

  /** @param {WebSocket} socket @param {any} frame */
  async #take(socket, frame) {
    if (frame.type === "event" && frame.event === "connect.challenge") {
      socket.send(JSON.stringify({ type: "req", id: "hello", method: "connect", params: await this.#greeting(frame.payload) }));
    } else if (frame.type === "event") {
      this.dispatchEvent(new CustomEvent(frame.event, { detail: frame.payload }));
    } else if (frame.id === "hello") {
      frame.ok ? await this.#welcome(frame.payload) : await this.#refused(frame.error);
    } else {
      const call = this.#open.get(frame.id);
      this.#open.delete(frame.id);
      if (frame.ok) call?.done(frame.payload);
      else call?.failed(new Refused(frame.error.message, frame.error.code, frame.error.details));
    }
  }

  /** @param {{nonce: string, ts: number}} challenge */
  async #greeting(challenge) {
    const auth = this.#invitation ? { bootstrapToken: this.#invitation } : this.#deviceToken ? { deviceToken: this.#deviceToken } : { token: this.#secret };
    const hello = { minProtocol: 4, maxProtocol: 4, client: { ...CLIENT, displayName: browserName() }, role: "operator", scopes: SCOPES, caps: ["tool-events"], auth };
    if (!this.#device) return hello;
    const token = Object.values(auth)[0];
    const said = ["v3", this.#device.id, CLIENT.id, CLIENT.mode, "operator", SCOPES.join(","), challenge.ts, token, challenge.nonce, CLIENT.platform, ""];
    const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", this.#device.keys.privateKey, encode(said.join("|"))));
    const device = { id: this.#device.id, publicKey: this.#device.publicKey, signature: base64url(signature), signedAt: challenge.ts, nonce: challenge.nonce };
    return { ...hello, device };
  }

  /** @param {any} hello */
  async #welcome(hello) {
    this.hello = hello;
    this.problem = null;
    this.#tries = 0;
    this.#invitation = "";
    if (hello.auth.deviceToken) {
      this.#deviceToken = hello.auth.deviceToken;
      await kept((store) => store.put(this.#deviceToken, "token"));
      this.#secret = "";
      sessionStorage.removeItem(SECRET);
    }
    for (const call of this.#open.values()) this.#socket?.send(call.frame);
    this.#become("open");
  }

  /** @param {any} error */
  async #refused(error) {
    const code = error.details?.code ?? error.code;
    this.problem = new Refused(error.message, code, error.details);
    if (code === "PAIRING_REQUIRED") this.#become("waiting");
    else if (this.#invitation) this.#invitation = "";
    else if (this.#deviceToken) { this.#deviceToken = ""; await kept((store) => store.delete("token")); }
    else if (code !== "AUTH_RATE_LIMITED" && code !== "UNAVAILABLE") { this.#secret = ""; sessionStorage.removeItem(SECRET); }
    if (!this.#invitation && !this.#deviceToken && !this.#secret) this.#become("locked");
  }

  /** Say whether this browser may do something. @param {string} scope */
  may(scope) { return Boolean(this.hello?.auth.scopes.includes(`operator.${scope}`)); }

  /** Call a method. With `again` it is said anew after a loss: only for what may be said twice. @param {string} method @param {object} [params] @param {{again?: boolean}} [how] @returns {Promise<any>} */
  call(method, params = {}, { again = false } = {}) {
    return new Promise((done, failed) => {
      if (this.state !== "open" && !again) { failed(new Refused("not connected", "LOST")); return; }
      const id = `${++this.#count}:${crypto.randomUUID?.() ?? Math.random()}`;
      const frame = JSON.stringify({ type: "req", id, method, params });
      this.#open.set(id, { done, failed, frame, again });
      if (this.state === "open") this.#socket?.send(frame);
    });
  }
}

function browserName() {
  const name = /(Edg|OPR|Firefox|Chrome|Safari)\//.exec(navigator.userAgent)?.[1] ?? "Browser";
  const system = /(Android|iPhone|iPad|Windows|Mac OS X|Linux)/.exec(navigator.userAgent)?.[1] ?? "";
  return `${{ Edg: "Edge", OPR: "Opera" }[name] ?? name}${system ? ` · ${system}` : ""}`;
}

export const wire = new Wire();
