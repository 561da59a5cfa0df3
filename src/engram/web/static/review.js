// The review of a game: a search of each of its positions, and the moves that cost most.

import { Refusal, post } from "./api.js";
import { count, element, percent, renew, safe, trying } from "./html.js";
import { RemoteSearch } from "./remote_search.js";

const SHOWN = 10;
const MARKS = [[0.195, "??"], [0.0995, "?"]]; // for a loss that the table rounds to 20 % or 10 %, or to more
const EFFORTS = [300, 2_000, 12_000], USUAL = 2_000;

/** A value in [−1, 1] as a chance to win. */
const chance = (value) => percent(0.5 + value / 2);

/**
 * A node's `review`: the value of its position for player 0, `by` which search and effort, and, unless the outcome is
 * known, who moves and the search's move. All reviews of a game are by one search.
 */
export class Review extends EventTarget {
  #running = null; // the review under way
  #search = null; // of one of its positions

  /**
   * @param text  gives the search to use
   * @param snapshots  the last one of each node
   */
  constructor(game, text, snapshots) {
    super();
    Object.assign(this, { game, text, snapshots });
    this.element = element(`<div class="review">
      <div class="row"><button type="button" class="go">Review the game</button>
        <label class="inline">Simulations of each position <select>${EFFORTS.map((number) => `<option value="${number}" ${number === USUAL ? "selected" : ""}>${count(number)}</option>`).join("")}</select></label></div>
      <p class="progress" role="status" aria-live="off"></p>
      <div class="sentences"></div>
      <div class="scroll" tabindex="0" role="region" aria-label="The moves that cost most" hidden><table>
        <caption></caption>
        <thead><tr><th scope="col">Move</th><th scope="col" class="number">Lost</th><th scope="col">Better</th><th scope="col" class="number">Before</th><th scope="col" class="number">After</th><th scope="col">By</th></tr></thead>
        <tbody></tbody></table></div></div>`);
    this.find = (selector) => this.element.querySelector(selector);
    this.find(".go").addEventListener("click", () => (this.#running ? this.stop() : trying(() => this.#run())));
    this.find("tbody").addEventListener("click", (event) => {
      const node = event.target.closest("[data-node]")?.dataset.node;
      if (node) this.dispatchEvent(new CustomEvent("go", { detail: +node }));
    });
    addEventListener("pagehide", () => this.#search?.drop());
  }

  async #run() {
    const { game } = this, { nodes, fields } = game, line = game.line(), running = (this.#running = {});
    const request = { search: this.text(), simulations: +this.find("select").value, seed: 0, once: true };
    const by = `${request.search}, ${count(request.simulations)} simulations`;
    const goesOn = () => running === this.#running && nodes === game.nodes;
    try {
      this.draw();
      for (const [done, node] of line.entries()) {
        const say = (sentence = "") => (this.find(".progress").textContent = `${done} of ${line.length} positions${sentence && `; ${sentence}`}`);
        say();
        if (nodes[node].review?.by === by && this.snapshots.get(nodes[node])) continue;
        const position = { ...fields, moves: line.slice(1, done + 1).map((step) => nodes[step].move) };
        const end = done === line.length - 1 ? await this.#end(position) : position;
        const snapshot = "outcome" in end ? null : await this.#assess({ ...end, ...request }, goesOn, say);
        if (!goesOn()) return;
        if (end !== position) delete snapshot?.moves; // a game that is over offers none
        this.#keep(node, by, snapshot ?? { value: end.outcome, player: 0 });
        this.dispatchEvent(new CustomEvent("position", { detail: node }));
      }
    } finally {
      if (running === this.#running) this.stop();
    }
  }

  /**
   * The outcome of a game that is over, or the position to search. People end a game of Go with dead stones on the
   * board, which would count, so the last position of a file is searched without its passes.
   */
  async #end(fields) {
    const { outcome, resumed } = (await post("position", fields)).position;
    if (outcome === null) return fields;
    return this.game.nodes[0].isFile ? { ...fields, start: resumed, moves: [] } : { outcome };
  }

  /** The last snapshot of a search, which begins again if its server was stopped. */
  async #assess(fields, goesOn, say) {
    let snapshot = null;
    while (goesOn() && (!snapshot || snapshot.stopped === "interrupted")) {
      this.#search = new RemoteSearch(fields, { wait: say });
      snapshot = await this.#search.run(() => say());
      if (snapshot?.error) throw new Refusal(snapshot.error, 400);
    }
    return snapshot;
  }

  /**
   * Keeps the result of a search, and shows it in place of a shorter search of the position. Values of two searches do
   * not compare, so a review by another search is deleted.
   */
  #keep(place, by, { value, player, action, name, ...rest }) {
    const { game, snapshots } = this, node = game.nodes[place], forFirst = player === 0 ? value : -value;
    const findings = { review: { value: forFirst, by, player, action, name } };
    for (const other of game.nodes) if (other.review?.by !== by) delete other.review;
    if (!(snapshots.get(node)?.simulations > (rest.simulations ?? Infinity))) {
      findings.value = forFirst;
      if (rest.moves) snapshots.set(node, { value, player, action, name, ...rest });
    }
    game.note(findings, node);
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
    const loss = this.#assessed(node)?.loss ?? 0;
    return MARKS.find(([least]) => loss >= least)?.[1] ?? "";
  }

  /** Notes on the present line for a file: four lists, of numbers of moves, texts, badness and better moves. */
  notes() {
    const { nodes, players } = this.game, all = this.#all();
    const notes = all.map(({ number, node, parent, player, better, before, after }) => {
      const badness = this.markOf(node).length, other = badness ? `; ${better} was better, ${chance(before)}` : "";
      return [number, `${players[player]}'s chance to win: ${chance(after)}${other}`, badness, nodes[parent].review.action];
    });
    if (all.length) notes.unshift([0, [`Reviewed by ${nodes[all[0].node].review.by}.`, ...this.#summary(all)].join("\n").slice(0, 1000), 0, 0]);
    return Object.fromEntries(["numbers", "notes", "badness", "better"].map((name, k) => [name, notes.map((note) => note[k])]));
  }

  /** The moves of the present line that are assessed, with their numbers. */
  #all() {
    return this.game.line().flatMap((node, number) => { const move = this.#assessed(node); return move ? [{ number, ...move }] : []; });
  }

  /** A sentence about each player's moves. */
  #summary(all) {
    return this.game.players.flatMap((name, player) => {
      const moves = all.filter((move) => move.player === player), number = moves.length;
      const loss = moves.reduce((sum, move) => sum + move.loss, 0) / number;
      return number ? [`${name}: ${number} move${number > 1 ? "s" : ""}, ${percent(loss)} lost on average; the search would have played ${moves.filter((move) => move.isBest).length} of them.`] : [];
    });
  }

  /** Shows the review of the present line. */
  draw() {
    const { game, find } = this, { players } = game, line = game.line();
    this.element.hidden = !game.opened.reviewable;
    find(".go").textContent = this.#running ? "Stop the review" : "Review the game";
    find(".go").disabled = line.length < 2 && !this.#running;
    const all = this.#all();
    renew(find(".sentences"), this.#summary(all).map((sentence) => `<p>${safe(sentence)}</p>`).join(""));
    const costly = all.filter((move) => move.loss > 0).sort((a, b) => b.loss - a.loss).slice(0, SHOWN);
    find(".scroll").hidden = !costly.length;
    const caption = costly.length ? `The moves that cost most, as chances to win (${game.nodes[costly[0].node].review.by})` : "";
    if (find("caption").textContent !== caption) find("caption").textContent = caption;
    // The numbers are those of the moves below the board, which count pairs.
    renew(find("tbody"), costly.map((move) => `<tr data-key="${move.node}"><th scope="row"><button type="button" data-node="${move.parent}" title="Show the position before it">${Math.ceil(move.number / 2)}${move.number % 2 ? "." : " …"} ${safe(move.move)}${this.markOf(move.node)}</button></th><td class="number">${percent(move.loss)}</td><td>${safe(move.better)}</td><td class="number">${chance(move.before)}</td><td class="number">${chance(move.after)}</td><td>${safe(players[move.player])}</td></tr>`).join(""));
  }
}
