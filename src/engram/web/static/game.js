// The game on the page: a tree of variations, kept in the page's own storage, so that it outlives the server.

import { post } from "./api.js";
import { playersOf } from "./moves.js";

const KEY = "engram.game";

export class GameTree extends EventTarget {
  #opened = null;

  constructor() {
    super();
    this.clear("connect_four");
  }

  clear(game, start = "") {
    this.game = game;
    this.start = start;
    this.nodes = [{ move: null, action: null, parent: -1, kids: [], value: null }];
    this.at = 0;
  }

  /** The nodes from the root to the present one. */
  path(to = this.at) {
    const path = [];
    for (let node = to; node >= 0; node = this.nodes[node].parent) path.unshift(node);
    return path;
  }

  /** The present line, and beyond it its first variation. */
  line() {
    const path = this.path();
    for (let node = this.at; this.nodes[node].kids.length; path.push(node)) node = this.nodes[node].kids[0];
    return path;
  }

  get moves() { return this.path().slice(1).map((node) => this.nodes[node].move); }
  get action() { return this.nodes[this.at].action; }
  /** What requests send. */
  get fields() { return { game: this.game, start: this.start, moves: this.moves }; }
  /** The server's answer about the present position. */
  get opened() { return this.#opened; }
  get position() { return this.#opened.position; }
  get players() { return playersOf(this.#opened); }

  #restore() {
    try {
      const kept = JSON.parse(localStorage.getItem(KEY));
      if (!kept?.nodes?.length) return false;
      Object.assign(this, { game: kept.game, start: kept.start, nodes: kept.nodes, at: kept.at });
      return true;
    } catch {
      return false;
    }
  }

  #keep() {
    const { game, start, nodes, at } = this;
    localStorage.setItem(KEY, JSON.stringify({ game, start, nodes, at }));
  }

  async #open(why) {
    const asked = this.fields;
    const opened = await post("position", asked);
    if (JSON.stringify(asked) !== JSON.stringify(this.fields)) return; // the person was faster
    this.#opened = opened;
    this.game = opened.game;
    this.#keep();
    this.dispatchEvent(new CustomEvent("change", { detail: why }));
  }

  /** The game of the address, or the one that was kept, or a new one. */
  async begin(fields, game) {
    if (fields.has("game")) {
      await this.load({ game: fields.get("game"), start: fields.get("start") ?? "", moves: (fields.get("moves") ?? "").split(",").filter(Boolean) });
      return;
    }
    if (this.#restore()) {
      try {
        return await this.#open("open");
      } catch { /* a game of another version, or of a file that this server may not read */ }
    }
    await this.load({ game, start: "", moves: [] });
  }

  /** A new game with moves. */
  async load({ game, start, moves }) {
    const opened = await post("position", { game, start, moves });
    this.clear(opened.game, start);
    opened.moves.forEach((move, number) => this.#add(move, opened.actions[number]));
    this.#opened = opened;
    this.#keep();
    this.dispatchEvent(new CustomEvent("change", { detail: "new" }));
  }

  #add(move, action) {
    const kids = this.nodes[this.at].kids;
    let kid = kids.find((node) => this.nodes[node].action === action);
    if (kid === undefined) {
      kid = this.nodes.push({ move, action, parent: this.at, kids: [], value: null }) - 1;
      kids.push(kid);
    }
    this.at = kid;
  }

  async play(name, action) {
    const before = this.at;
    this.#add(name, action);
    try {
      await this.#open("move");
    } catch (error) {
      this.at = before;
      throw error;
    }
  }

  async goTo(node) {
    if (node === this.at || !this.nodes[node]) return;
    this.at = node;
    await this.#open("go");
  }

  async step(by) {
    const line = this.line();
    const at = line.indexOf(this.at);
    await this.goTo(line[Math.max(0, Math.min(line.length - 1, at + by))]);
  }

  /** Keeps a value for player 0 beside the present position. */
  value(number) {
    this.nodes[this.at].value = number;
    this.#keep();
  }

  /** An address of this position. */
  link() {
    const fields = new URLSearchParams({ game: this.game, moves: this.moves.join(",") });
    if (this.start) fields.set("start", this.start);
    return `${location.origin}/#${fields}`;
  }
}
