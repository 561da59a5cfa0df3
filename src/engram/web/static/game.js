// The game on the page: a tree of variations, kept in the page's own storage.

import { post } from "./api.js";
import { say } from "./html.js";
import { playersOf } from "./moves.js";
import { keep, recall } from "./storage.js";

const KEY = "engram.game";

/** Whether a kept game is as `#keep` writes it: the start first, and each node behind its parent. */
function isWhole(kept) {
  const nodes = kept?.nodes;
  if (!Array.isArray(nodes) || !nodes.length || !nodes[kept.at]) return false;
  return nodes.every((node, place) => Array.isArray(node?.kids) && node.kids.every((kid) => nodes[kid]?.parent === place)
    && (place === 0 || (Number.isInteger(node.parent) && node.parent >= 0 && node.parent < place)));
}

export class GameTree extends EventTarget {
  #opened = null;
  #shown = -1; // the node that the server has answered about
  #spares = false; // whether an older game stays kept in place of this one
  #before = null; // the last game with moves that another one replaced
  isRecord = false; // whether the game came with moves that were not played on this page

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
  /** Whether the server has answered about the present position. */
  get isShown() { return this.at === this.#shown; }
  /** The node on the board, which may be another one than the present while the server has not answered. */
  get boardNode() { return this.nodes[this.#shown]; }
  get action() { return this.boardNode.action; }
  /** What requests send. */
  get fields() { return { game: this.game, start: this.start, moves: this.moves }; }
  /** The server's answer about the present position. */
  get opened() { return this.#opened; }
  get position() { return this.#opened.position; }
  get players() { return playersOf(this.#opened); }

  /** Takes the kept game, unless the server was started since with another one. */
  #restore({ game, typed }) {
    try {
      const kept = recall(KEY);
      if (!isWhole(kept)) return false;
      this.#spares = typed.includes("game") && kept.server !== this.setup.server && kept.game !== game;
      if (this.#spares) {
        if (kept.nodes.length > 1) say("This is the command line's game. The older one is kept until you play.");
        return false;
      }
      Object.assign(this, { game: kept.game, start: kept.start, nodes: kept.nodes, at: kept.at });
      return true;
    } catch {
      return false;
    }
  }

  #keep() {
    if (this.#spares) return;
    const { game, start, nodes, at } = this;
    keep(KEY, { game, start, nodes, at, server: this.setup.server }, "The game");
  }

  #show(opened, why) {
    this.#opened = opened;
    this.#shown = this.at;
    this.game = opened.game;
    this.#keep();
    this.dispatchEvent(new CustomEvent("change", { detail: why }));
  }

  async #open(why) {
    const { nodes, at } = this, opened = await post("position", this.fields);
    if (nodes === this.nodes && at === this.at) this.#show(opened, why); // otherwise the person was faster
  }

  /** Goes to a node; if the server refuses it, back to the one on the board. */
  async #move(node, why) {
    const { nodes } = this;
    this.at = node;
    try {
      await this.#open(why);
    } catch (error) {
      if (nodes === this.nodes && node === this.at) this.at = this.#shown;
      throw error;
    }
  }

  /** The game of the address, or the one that was kept, or a new one. */
  async begin(fields, setup) {
    this.setup = setup;
    if (fields.has("game")) {
      const moves = (fields.get("moves") ?? "").split(",").filter(Boolean).map(decodeURIComponent);
      await this.load({ game: fields.get("game"), start: fields.get("start") ?? "", moves });
      return;
    }
    if (this.#restore(setup)) {
      try {
        return await this.#open("open");
      } catch (error) { // a game of another version, or from a file that is damaged or that this server may not read
        say(`The kept game cannot be opened: ${error.message}. It is kept until you play another.`, { bad: true });
        this.#spares = true;
      }
    }
    await this.#load({ game: setup.game, start: "", moves: [] });
  }

  /** A new game with moves. */
  async load(game) {
    this.#spares = false;
    await this.#load(game);
  }

  /** The game that this one replaced, while this one has no move. */
  get before() { return this.nodes.length === 1 ? this.#before : null; }

  /** Takes that game back, with its variations. */
  async takeBack() {
    const { before } = this, opened = await post("position", Object.assign(new GameTree(), before).fields);
    if (before !== this.before) return; // the person was faster
    Object.assign(this, before);
    this.#before = null;
    this.#show(opened, "open");
  }

  async #load({ game, start, moves, isFile = false }) {
    const opened = await post("position", { game, start, moves });
    if (this.nodes.length > 1) this.#before = { game: this.game, start: this.start, nodes: this.nodes, at: this.at };
    this.isRecord = moves.length > 0;
    this.clear(opened.game, start);
    if (isFile) this.nodes[0].isFile = true; // kept with the game
    opened.moves.forEach((move, number) => (this.at = this.#kid(move, opened.actions[number])));
    this.#show(opened, "new");
  }

  /** The node of a move from the present one, which may be new. */
  #kid(move, action) {
    const { kids } = this.nodes[this.at];
    let kid = kids.find((node) => this.nodes[node].action === action);
    if (kid === undefined) {
      kid = this.nodes.push({ move, action, parent: this.at, kids: [], value: null }) - 1;
      kids.push(kid);
    }
    return kid;
  }

  /** Plays a move of the position on the board; while the server still answers about another one, nothing happens. */
  async play(name, action) {
    if (!this.isShown) return;
    this.#spares = false;
    const { kids } = this.nodes[this.at], before = kids.length, kid = this.#kid(name, action);
    try {
      await this.#move(kid, "move");
    } catch (error) {
      if (kids.length > before) kids.splice(kids.indexOf(kid), 1);
      throw error;
    }
  }

  async goTo(node) {
    if (node !== this.at && this.nodes[node]) await this.#move(node, "go");
  }

  async step(by) {
    const line = this.line();
    const at = line.indexOf(this.at);
    await this.goTo(line[Math.max(0, Math.min(line.length - 1, at + by))]);
  }

  /** Keeps `value`, for player 0, and other findings beside a position. */
  note(findings, node) {
    Object.assign(node, findings);
    this.#keep();
  }

  /** An address of this position. */
  link() {
    const moves = this.moves.map(encodeURIComponent).join(","); // a name may have commas of its own
    const fields = new URLSearchParams({ game: this.game, moves });
    if (this.start) fields.set("start", this.start);
    return `${location.origin}/#${fields}`;
  }
}
