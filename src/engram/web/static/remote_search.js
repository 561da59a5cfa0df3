// A search on the server, from its start to its last snapshot.

import { post, stopSearch, watch } from "./api.js";
import { say } from "./html.js";

const RETRY_MS = 1000;

export class RemoteSearch {
  #dropped = new AbortController();
  ends = false; // asked to end, which it does once the server has given its id
  id = null;

  /**
   * @param fields  of the request
   * @param wait  hears of a busy server, and the search then waits for a place; without it the search is refused
   */
  constructor(fields, { wait = null } = {}) {
    this.fields = fields;
    this.wait = wait;
  }

  /** Passes on each snapshot until the last one, which it returns; null once the search is dropped. */
  async run(take = () => {}) {
    const { signal } = this.#dropped;
    for (;;) {
      try {
        if (!(await this.#start(signal))) return null;
        return await watch(`searches/${this.id}/events`, (snapshot) => !signal.aborted && take(snapshot), signal);
      } catch (error) {
        if (signal.aborted) return null;
        if (error.status !== 404 || !this.id || (this.ends && !this.wait)) throw error;
        this.id = null;
        say("The search was lost with the server; it starts again.");
      }
    }
  }

  /** Starts it, and returns whether it is still wanted. */
  async #start(signal) {
    while (!signal.aborted) {
      try {
        this.id = (await post("searches", this.fields)).id;
        if (signal.aborted || this.ends) stopSearch(this.id);
        return !signal.aborted;
      } catch (error) {
        if (error.status !== 429 || !this.wait) throw error;
        if (!signal.aborted) this.wait(error.message);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    return false;
  }

  /** Ends it; its last snapshot still comes. */
  finish() {
    this.ends = true;
    if (this.id) post(`searches/${this.id}/stop`).catch(() => {}); // which waits for a server that is away
  }

  /** Ends it, and takes no more snapshots. */
  drop() {
    if (this.id) stopSearch(this.id);
    this.#dropped.abort();
  }
}
