// Requests to the server: each carries the token; what it refuses comes back as one sentence.

import { sharedStorage } from "./storage.js";

const KEY = "engram.token";
const ALIVE_MS = 2000;
const HANGS_MS = 10000;
let token = sharedStorage.getItem(KEY) ?? "";
addEventListener("storage", ({ key, newValue }) => { if (key === KEY && newValue) token = newValue; }); // from another tab
let trade; // of the code in the address for the token
let heardAt = 0; // when the server last sent anything

/** The fields after `#` in the address; a token, or the code for one, is taken out of it. */
export function addressFields() {
  const fields = new URLSearchParams(location.hash.slice(1));
  if (fields.has("token") || fields.has("code")) {
    token = fields.get("token") ?? token;
    if (fields.has("code")) trade = tokenFor(fields.get("code"));
    fields.delete("token");
    fields.delete("code");
    history.replaceState(null, "", location.pathname + (fields.size ? "#" + fields : ""));
  }
  return fields;
}

/** Takes the token that the server gives for a code, and says whether it got one; a used code leaves the kept token as it is. */
async function tokenFor(code) {
  const response = await fetch("/token", { method: "POST", body: JSON.stringify({ code }) }).catch(() => null);
  if (response?.ok) ({ token } = await response.json());
  return response?.ok ?? true;
}

/** Whether another program had used the code of the address. */
export const isCodeUsed = async () => (await trade) === false;

/** Keeps a token once the server has accepted it, so that a link with a wrong one replaces no good one. */
function keepToken(value) {
  try {
    if (value !== sharedStorage.getItem(KEY)) sharedStorage.setItem(KEY, value);
  } catch { /* the storage is full: the token is this page's alone */ }
}

/** The server's refusal; `status` 404: what was asked for is gone. */
export class Refusal extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

export const server = new EventTarget();
server.answers = true;

function tell(answers) {
  if (answers === server.answers) return;
  server.answers = answers;
  server.dispatchEvent(new Event("change"));
}

async function request(path, options = {}) {
  let response;
  await trade;
  const present = token; // a link may bring another one meanwhile
  try {
    response = await fetch(`/api/${path}`, { ...options, headers: { ...options.headers, authorization: `Bearer ${present}` } });
  } catch (error) {
    if (!["AbortError", "TimeoutError"].includes(error.name)) tell(false);
    throw error;
  }
  heardAt = performance.now();
  tell(true);
  if (response.ok) {
    keepToken(present);
    return response;
  }
  const data = await response.json().catch(() => ({}));
  throw new Refusal(data.error ?? `the server answered ${response.status}`, response.status);
}

/** Waits until the server answers. */
export function back() {
  if (server.answers) return Promise.resolve();
  return new Promise((resolve) => server.addEventListener("change", resolve, { once: true }));
}

/** Asks until the server answers; a refusal is an answer. */
async function persistently(path, options) {
  for (;;) {
    try {
      return await request(path, options);
    } catch (error) {
      if (error instanceof Refusal || error.name === "AbortError") throw error;
      await back();
    }
  }
}

export const get = async (path) => (await persistently(path)).json();

/** A request with fields, or with the bytes of a file. */
const message = (fields) => (fields instanceof ArrayBuffer ? { method: "POST", body: fields }
  : { method: "POST", body: JSON.stringify(fields), headers: { "content-type": "application/json" } });

export const post = async (path, fields = {}) => (await persistently(path, message(fields))).json();

/** Ends a search of the server, even while the page closes; it does not wait for an answer. */
export const stopSearch = (id) => request(`searches/${id}/stop`, { ...message({}), keepalive: true }).catch(() => {});

/** Passes on each message of a stream until the last one, which it returns; a broken stream is opened again. */
export async function watch(path, take, signal) {
  for (;;) {
    const response = await persistently(path, { signal });
    try {
      for await (const message of messages(response)) {
        take(message);
        if (message.stopped && message.stopped !== "running") return message;
      }
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
    await request("alive", { signal }).catch((error) => {
      if (error.name === "AbortError") throw error;
    });
  }
}

async function* messages(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heardAt = performance.now();
    tell(true);
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
      }
      text = text.slice(end + 2);
    }
  }
}

setInterval(() => {
  if (document.hidden && server.answers) return;
  const signal = AbortSignal.timeout(HANGS_MS);
  // Six analyses hold all connections of a browser, so this request waits although the server answers.
  request("alive", { signal }).catch(() => performance.now() > heardAt + HANGS_MS && tell(false));
}, ALIVE_MS);
