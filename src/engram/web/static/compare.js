// The view of two searches side by side: what each thinks of one position, where they differ, and why.

import { post } from "./api.js";
import { HEATS, heatOf, legendOf } from "./board.js";
import { count, element, percent, safe, signed, trying } from "./html.js";
import { Runner } from "./runner.js";

const SIDES = ["a", "b"];

export class Compare {
  constructor(game, setup) {
    this.game = game;
    const rival = game.opened.encodes ? "memory_uct(keep_states=true)" : "uct(exploration=0.5)"; // its features need planes
    const searches = [setup.search, setup.search.startsWith("memory_uct") ? "uct" : rival];
    this.runners = searches.map((search, k) => new Runner(game, { search, simulations: 20000, name: `Search ${"AB"[k]}`, explain: true }));
    this.element = element(`<div class="compare">
      <section class="panel" aria-labelledby="compare-title"><h2 id="compare-title">Two searches of one position</h2>
        <p class="hint">Both begin at the current position of the game.</p>
        <div class="row"><button type="button" class="both primary">Run both</button>
        <label class="inline">Show on the boards <select class="heat">${HEATS.map(([value, name]) => `<option value="${value}">${name}</option>`).join("")}</select></label><span class="hint legend"></span></div>
      </section>
      ${SIDES.map((side) => `<section class="panel ${side}" aria-label="Search ${side.toUpperCase()}"><div class="place"></div>
        <engram-board role="group" aria-label="Board of search ${side.toUpperCase()}"></engram-board><pre tabindex="0" aria-label="Position" hidden></pre>
        <div class="why"></div></section>`).join("")}
      <section class="panel wide differences" aria-labelledby="differences-title" hidden><h2 id="differences-title">Where they differ</h2>
        <p class="verdict" role="status"></p>
        <div class="scroll" tabindex="0" role="region" aria-label="Moves of both searches"><table class="moves"></table></div>
        <div class="levels"></div></section></div>`);
    this.find = (selector) => this.element.querySelector(selector);
    this.runners.forEach((runner, k) => {
      this.find(`.${SIDES[k]} .place`).append(runner.element);
      runner.addEventListener("snapshot", () => this.#draw());
      runner.addEventListener("end", () => this.#ended());
    });
    this.find(".both").addEventListener("click", () => this.runners.forEach((runner) => runner.run()));
    this.find(".heat").addEventListener("change", () => this.#draw());
    game.addEventListener("change", () => { this.runners.forEach((runner) => runner.clear()); this.#draw(); });
  }

  shown() { this.#draw(); }
  hidden() { this.runners.forEach((runner) => runner.stop()); }

  #draw() {
    if (!this.element.isConnected) return;
    const { opened, position, action } = this.game;
    this.find("label.inline").hidden = !opened.board;
    this.runners.forEach((runner, k) => {
      const place = this.find(`.${SIDES[k]}`), board = place.querySelector("engram-board"), text = place.querySelector("pre");
      board.hidden = !opened.board;
      text.hidden = !!opened.board;
      text.textContent = position.diagram;
      this.#why(runner, place.querySelector(".why"));
      if (!opened.board) return;
      if (board.kept !== JSON.stringify(opened.board)) { board.board = opened.board; board.kept = JSON.stringify(opened.board); }
      if (board.position !== position) { board.show(position, { last: action, playable: false }); board.position = position; }
      board.heat = heatOf(runner.snapshot, this.find(".heat").value);
    });
    this.find(".legend").textContent = opened.board ? legendOf(this.runners[0].snapshot, this.find(".heat").value) : "";
    this.#table();
  }

  #why(runner, place) {
    const explanation = runner.snapshot?.explanation;
    if (!explanation) { place.replaceChildren(); place.kept = null; return; }
    if (place.kept === runner.id) return;
    place.kept = runner.id;
    const { best, next, looks, reasons } = explanation;
    place.innerHTML = `<h3>Why ${safe(best.action)}</h3><ul>${reasons.map((reason) => `<li>${safe(reason.replace(/-(?=\d)/g, "−").replace(/(?<=\d)%/g, " %").replace(/^the (first|second) player/, (_, which) => runner.players[+(which === "second")]))}</li>`).join("")}</ul>
      <h3>Value of the two best moves while it thought</h3><engram-curve class="looks"></engram-curve>
      <p class="hint">${[best, next].filter(Boolean).map((line) => `Expected after ${safe(line.action)}: ${safe(line.line.join(" "))}`).join("<br>")}</p>`;
    const data = [looks.map((look) => look.simulations), looks.map((look) => look.value[0]), ...(next ? [looks.map((look) => look.value[1])] : [])];
    place.querySelector("engram-curve").show(`Values of ${best.action}${next ? ` and ${next.action}` : ""} by simulations`, data,
      [{ label: best.action, colour: "--accent" }, ...(next ? [{ label: next.action, colour: "--second", dash: [6, 4] }] : [])],
      { x: "simulations", y: "value for the mover", lines: [0], format: (value) => signed(value), values: (_, splits) => splits.map((split) => (split >= 1000 ? `${split / 1000} k` : split)) });
  }

  #table() {
    const [first, second] = this.runners.map((runner) => runner.snapshot);
    this.find(".differences").hidden = !first || !second;
    if (!first || !second) return;
    const same = first.name === second.name;
    const valueOf = ({ action, moves }) => signed(moves.find((move) => move[0] === action)[2]);
    this.find(".verdict").textContent = same
      ? `Both play ${first.name}: A values it ${valueOf(first)}, B ${valueOf(second)} for ${this.runners[0].players[first.player]}.`
      : `A plays ${first.name} (${valueOf(first)}), B plays ${second.name} (${valueOf(second)}), for ${this.runners[0].players[first.player]}.`;
    const totals = [first, second].map((snapshot) => snapshot.moves.reduce((sum, move) => sum + move[1], 0) || 1);
    const theirs = new Map(second.moves.map((move) => [move[0], move]));
    const rows = first.moves.map((move) => ({ name: move[9][0], a: move, b: theirs.get(move[0]), shares: [move[1] / totals[0], theirs.get(move[0])[1] / totals[1]] }))
      .sort((x, y) => Math.abs(y.shares[1] - y.shares[0]) - Math.abs(x.shares[1] - x.shares[0])).slice(0, 12);
    const value = (move) => (move[1] ? signed(move[2]) : "–");
    this.find(".moves").innerHTML = `<caption>Moves by the difference of their shares</caption><thead><tr><th scope="col">Move</th><th scope="col" class="number">Share A</th><th scope="col" class="number">Share B</th><th scope="col">B less A, points</th><th scope="col" class="number">Value A</th><th scope="col" class="number">Value B</th></tr></thead><tbody>${rows.map(({ name, a, b, shares }) => `<tr><th scope="row">${safe(name)}</th><td class="number">${percent(shares[0])}</td><td class="number">${percent(shares[1])}</td><td>${this.#bar(shares[1] - shares[0])}</td><td class="number">${value(a)}</td><td class="number">${value(b)}</td></tr>`).join("")}</tbody>`;
  }

  #bar(change) {
    const length = Math.min(50, Math.abs(change) * 100 * 0.5);
    return `<svg class="bar ${change < 0 ? "less" : "more"}" viewBox="0 0 100 12" width="100" height="12" aria-hidden="true"><rect x="${change < 0 ? 50 - length : 50}" y="1" width="${length}" height="10"/><path d="M50 0V12"/></svg> <small>${signed(100 * change, 1)}</small>`;
  }

  #ended() {
    if (this.runners.some((runner) => runner.isRunning || !runner.id || !runner.snapshot)) return;
    const ids = this.runners.map((runner) => runner.id);
    trying(async () => {
      const { levels } = await post("compare", { a: ids[0], b: ids[1] });
      if (ids.some((id, k) => id !== this.runners[k].id)) return;
      this.find(".levels").innerHTML = levels.slice(1).map((level) => {
        const line = level[0].line.slice(0, -1).join(" ");
        return `<div class="scroll" tabindex="0" role="region" aria-label="After ${safe(line)}"><table><caption>After ${safe(line)}, on the main line of B; values for the player to move then</caption><thead><tr><th scope="col">Move</th><th scope="col" class="number">Visits A</th><th scope="col" class="number">Visits B</th><th scope="col">Share, B less A, points</th><th scope="col" class="number">Value A</th><th scope="col" class="number">Value B</th></tr></thead><tbody>${level.slice(0, 5).map((change) => `<tr><th scope="row">${safe(change.line.at(-1))}</th><td class="number">${count(change.visits_before)}</td><td class="number">${count(change.visits_after)}</td><td>${this.#bar(change.share_change)}</td><td class="number">${change.value_before === null ? "–" : signed(change.value_before)}</td><td class="number">${change.value_after === null ? "–" : signed(change.value_after)}</td></tr>`).join("")}</tbody></table></div>`;
      }).join("");
    });
  }
}

