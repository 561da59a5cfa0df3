// A search of the present position with its fields, for the views that look into one.

import { element, safe, say, trying } from "./html.js";
import { STARTS, progressOf } from "./moves.js";
import { RemoteSearch } from "./remote_search.js";

export class Runner extends EventTarget {
  #thinking = null;

  /**
   * @param options  `search`, `simulations`: to begin with; `name` of the group; `explain`
   */
  constructor(game, { search, simulations, name, start = "Search", explain = false }) {
    super();
    this.game = game;
    this.explain = explain;
    this.start_ = start;
    this.id = null;
    this.snapshot = null;
    this.element = element(`<div class="runner" role="group" aria-label="${safe(name)}">
      <div class="fields">
        <label class="wide">${safe(name)} <input class="search" list="searches" spellcheck="false" autocomplete="off" value="${safe(search)}"></label>
        <label>Simulations <input class="simulations" type="number" min="1" max="100000000" value="${simulations}"></label>
        <button type="button" class="go primary">${safe(start)}</button>
      </div><p class="progress" role="status" aria-live="off"></p></div>`);
    this.element.querySelector(".go").addEventListener("click", () => (this.#thinking ? this.stop() : this.run()));
    addEventListener("pagehide", () => this.stop());
  }

  get players() { return this.game.players; }
  get isRunning() { return this.#thinking !== null; }

  /** Forgets the search, because the position has changed. */
  clear() {
    this.#thinking?.drop();
    this.#thinking = this.id = this.snapshot = null;
    this.#say();
    this.dispatchEvent(new Event("snapshot"));
  }

  run() {
    return this.#search({
      ...this.game.fields, search: this.element.querySelector(".search").value, explain: this.explain,
      simulations: Math.round(+this.element.querySelector(".simulations").value),
    });
  }

  #search(fields) {
    return trying(async () => {
      this.#thinking?.drop();
      const thinking = (this.#thinking = new RemoteSearch(fields));
      this.snapshot = null;
      this.#say();
      try {
        await thinking.run((snapshot) => {
          if (snapshot.error) { say(snapshot.error, { bad: true }); return; }
          this.id = thinking.id;
          this.snapshot = snapshot;
          this.#say();
          this.dispatchEvent(new Event("snapshot"));
        });
      } catch (error) {
        if (this.snapshot && this.#thinking === thinking) this.snapshot.stopped = "interrupted";
        throw error;
      } finally {
        if (this.#thinking === thinking) {
          this.#thinking = null;
          this.#say();
          this.dispatchEvent(new Event("end"));
        }
      }
    });
  }

  /** Ends the search; its results stay. */
  stop() {
    this.#thinking?.finish();
  }

  #say() {
    this.element.querySelector(".go").textContent = this.#thinking ? "Stop" : this.start_;
    this.element.querySelector(".progress").textContent = this.#thinking && !this.snapshot ? STARTS : progressOf(this.snapshot, this.players);
  }
}
