// The review of a game: a search of each of its positions, and the moves that cost most.

import { Refusal, post } from "./api.js";
import { count, element, percent, renew, safe, trying } from "./html.js";
import { RemoteSearch } from "./remote_search.js";

const SHOWN = 10;
const MARKS = [[20, "??"], [10, "?"]]; // by the percent of the chance to win that a move gave away
const EFFORTS = [300, 2_000, 12_000], USUAL = 2_000;

/** A value in [−1, 1] as a chance to win. */
const chance = (value) => percent(0.5 + value / 2);

/** A node's `review`: the value of its position for player 0 and, unless it is an end, who moves and the search's move. */
export class Review extends EventTarget {
  #running = null; // the review under way
  #search = null; // of one of its positions

  /** @param text  gives the search to use */
  constructor(game, text) {
    super();
    this.game = game;
    this.text = text;
    this.element = element(`<div class="review">
      <div class="row"><button type="button" class="go">Review the game</button>
        <label class="inline">Simulations of each position <select>${EFFORTS.map((number) => `<option value="${number}" ${number === USUAL ? "selected" : ""}>${count(number)}</option>`).join("")}</select></label></div>
      <p class="progress" role="status" aria-live="off"></p>
      <div class="summary"></div></div>`);
    this.find = (selector) => this.element.querySelector(selector);
    this.find(".go").addEventListener("click", () => (this.#running ? this.stop() : trying(() => this.#run())));
    this.find(".summary").addEventListener("click", (event) => {
      const node = event.target.closest("[data-node]")?.dataset.node;
      if (node) this.dispatchEvent(new CustomEvent("go", { detail: +node }));
    });
    addEventListener("pagehide", () => this.stop());
  }

  async #run() {
    const { game } = this, { nodes, fields } = game, line = game.line(), running = (this.#running = {});
    const asked = { search: this.text(), simulations: +this.find("select").value, seed: 0 };
    const goesOn = () => running === this.#running && nodes === game.nodes;
    try {
      this.draw();
      for (const [done, node] of line.entries()) {
        this.find(".progress").textContent = `${done} of ${line.length} positions`;
        const position = { ...fields, moves: line.slice(1, done + 1).map((step) => nodes[step].move) };
        const outcome = done === line.length - 1 ? (await post("position", position)).position.outcome : null;
        const snapshot = outcome === null ? await this.#assess({ ...position, ...asked }, goesOn) : null;
        if (!goesOn()) return;
        const { value, player, action, name } = snapshot ?? { value: outcome, player: 0 };
        const forFirst = player === 0 ? value : -value;
        game.note({ value: forFirst, review: { value: forFirst, player, action, name } }, node);
        this.dispatchEvent(new CustomEvent("position", { detail: { node, snapshot } }));
      }
    } finally {
      if (running === this.#running) this.stop();
    }
  }

  /** The last snapshot of a search, which begins again if its server was stopped. */
  async #assess(fields, goesOn) {
    let snapshot = null;
    while (goesOn() && (!snapshot || snapshot.stopped === "interrupted")) {
      this.#search = new RemoteSearch(fields, { waits: true });
      snapshot = await this.#search.run();
      if (snapshot?.error) throw new Refusal(snapshot.error, 400);
    }
    return snapshot;
  }

  /** Ends the review; the positions that it has reached keep theirs. */
  stop() {
    this.#search?.drop();
    this.#running = this.#search = null;
    this.find(".progress").textContent = "";
    this.draw();
  }

  /** The move to a node as the review of both positions sees it; null without one. */
  #assessed(node) {
    const { nodes } = this.game, { move, action, parent, review: after } = nodes[node], before = nodes[parent]?.review;
    if (!before || !after) return null;
    const sign = before.player === 0 ? 1 : -1, isBest = before.action === action;
    const loss = isBest ? 0 : Math.max(0, (sign * (before.value - after.value)) / 2);
    return { node, parent, move, isBest, loss, player: before.player, better: before.name, before: sign * before.value, after: sign * after.value };
  }

  /** A mark for a move that cost much, as in books of chess. */
  markOf(node) {
    const percents = Math.round(100 * (this.#assessed(node)?.loss ?? 0));
    return MARKS.find(([least]) => percents >= least)?.[1] ?? "";
  }

  /** Shows the review of the present line. */
  draw() {
    const { game } = this, { players } = game, line = game.line();
    this.element.hidden = !game.opened.reviewable;
    this.find(".go").textContent = this.#running ? "Stop the review" : "Review the game";
    this.find(".go").disabled = line.length < 2 && !this.#running;
    const all = line.flatMap((node, number) => { const move = this.#assessed(node); return move ? [{ number, ...move }] : []; });
    const sentences = players.map((name, player) => {
      const own = all.filter((move) => move.player === player), lost = own.reduce((sum, move) => sum + move.loss, 0) / own.length;
      return own.length ? `<p>${safe(name)}: ${own.length} move${own.length > 1 ? "s" : ""}, ${percent(lost)} lost on average; the search would have played ${own.filter((move) => move.isBest).length} of them.</p>` : "";
    });
    const costly = all.filter((move) => move.loss > 0).sort((a, b) => b.loss - a.loss).slice(0, SHOWN);
    const rows = costly.map((move) => `<tr data-key="${move.node}"><th scope="row"><button type="button" data-node="${move.parent}" title="Show the position before it">${move.number}. ${safe(move.move)}${this.markOf(move.node)}</button></th><td>${safe(players[move.player])}</td><td>${safe(move.better)}</td><td class="number">${chance(move.before)}</td><td class="number">${chance(move.after)}</td><td class="number">${percent(move.loss)}</td></tr>`);
    const head = `<thead><tr><th scope="col">Move</th><th scope="col">By</th><th scope="col">Better</th><th scope="col" class="number">Before</th><th scope="col" class="number">After</th><th scope="col" class="number">Lost</th></tr></thead>`;
    renew(this.find(".summary"), sentences.join("") + (rows.length ? `<div class="scroll" tabindex="0" role="region" aria-label="The moves that cost most"><table><caption>The moves that cost most, as chances to win</caption>${head}<tbody>${rows.join("")}</tbody></table></div>` : ""));
  }
}
