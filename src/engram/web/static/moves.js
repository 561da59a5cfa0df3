// <engram-moves>: the moves of a search as a table, with intervals; a row that is pointed at shows its line.

import { count, define, element, percent, renew, safe, short, signed, units } from "./html.js";

const WIDTH = 110;

class Moves extends HTMLElement {
  #shown = 12;
  #hovered = null;

  connectedCallback() {
    if (this.firstChild) return;
    this.append(element(`<div class="scroll" tabindex="0" role="region" aria-label="Moves of the search"><table><thead></thead><tbody></tbody></table></div>`),
      element(`<button type="button" class="more quiet" hidden></button>`));
    this.querySelector(".more").addEventListener("click", () => { this.#shown = this.#shown > 12 ? 12 : 1000; this.show(this.snapshot, this.names); });
    const point = (event) => this.#point(event.target.closest("tr[data-key]"));
    this.addEventListener("pointerover", point);
    this.addEventListener("focusin", point);
    this.addEventListener("pointerleave", () => this.#point(null));
    this.addEventListener("focusout", () => this.#point(null));
    this.addEventListener("click", (event) => {
      const row = event.target.closest("button[data-play]")?.closest("tr");
      if (row) this.dispatchEvent(new CustomEvent("play", { detail: { action: +row.dataset.key, name: row.dataset.name } }));
    });
  }

  #point(row) {
    const action = row ? +row.dataset.key : null;
    if (action === this.#hovered) return;
    this.#hovered = action;
    this.dispatchEvent(new CustomEvent("point", { detail: action === null ? null : this.snapshot.moves.find((move) => move[0] === action) }));
  }

  /** A snapshot, and from an action to its name. */
  show(snapshot, names) {
    this.snapshot = snapshot;
    this.names = names;
    this.connectedCallback(); // its rows may come before its place
    const head = this.querySelector("thead"), body = this.querySelector("tbody"), more = this.querySelector(".more");
    if (!snapshot?.moves) { head.replaceChildren(); body.replaceChildren(); more.hidden = true; return; }
    const has = (place) => snapshot.moves.some((move) => move[place] !== null);
    const priors = snapshot.moves.map((move) => move[5]), hasPrior = Math.max(...priors) - Math.min(...priors) > 1e-4;
    const memory = has(6), amaf = has(7);
    head.innerHTML = `<tr><th scope="col">Move</th><th scope="col" class="number">Visits</th><th scope="col">Value, 95 % interval</th>${hasPrior ? `<th scope="col" class="number">Prior</th>` : ""}${memory ? `<th scope="col" class="number">Memory</th>` : ""}${amaf ? `<th scope="col" class="number">AMAF</th>` : ""}<th scope="col">Line</th></tr>`;
    const total = snapshot.moves.reduce((sum, move) => sum + move[1], 0) || 1;
    // The intervals of the moves that matter fill the picture; the others are cut at its edges, or an arrow points to them.
    const main = snapshot.moves.filter((move) => move[1] > total / 200);
    const ends = [...main.map((move) => move[3]), ...main.map((move) => move[4])];
    const [lowest, highest] = snapshot.bounds, spread = Math.max(...ends) - Math.min(...ends);
    const room = highest - lowest > 2 ? 0.05 * spread : Math.max(0, 0.2 - spread) / 2; // bounds of points may be far beyond all moves
    const least = Math.max(lowest, Math.min(...ends, highest) - room), most = Math.min(highest, Math.max(...ends, lowest) + room);
    renew(body, snapshot.moves.slice(0, this.#shown).map((move) => {
      const [action, visits, value, low, high, prior, remembered, later, proven, line] = move;
      const name = this.names(action, line);
      const x = (number) => (((number - least) / (most - least)) * (WIDTH - 8) + 4).toFixed(1);
      const whisker = visits ? `<svg class="whisker" viewBox="0 0 ${WIDTH} 16" width="${WIDTH}" height="16" role="img" aria-label="between ${signed(low)} and ${signed(high)}">${least < 0 && most > 0 ? `<path class="zero" d="M${x(0)} 1V15"/>` : ""}${high < least ? `<path d="M7 4L2 8L7 12"/>` : low > most ? `<path d="M${WIDTH - 7} 4L${WIDTH - 2} 8L${WIDTH - 7} 12"/>` : `<path d="M${x(low)} 8H${x(high)}M${x(low)} 5V11M${x(high)} 5V11"/><circle cx="${x(value)}" cy="8" r="3.5"/>`}</svg>` : "";
      return `<tr data-key="${action}" data-name="${safe(name)}" class="${action === snapshot.action ? "best" : ""}"><th scope="row"><button type="button" data-play title="Play ${safe(name)}">${safe(name)}</button></th><td class="number"><span class="share" style="--s:${visits / total}">${percent(visits / total)}</span><small>${short(visits)}</small></td><td class="value">${visits ? `<b>${signed(value)}</b>` : "–"}${proven ? `<em>proven</em>` : whisker}</td>${hasPrior ? `<td class="number">${percent(prior)}</td>` : ""}${memory ? `<td class="number">${remembered === null ? "–" : signed(remembered)}</td>` : ""}${amaf ? `<td class="number">${later === null ? "–" : signed(later)}</td>` : ""}<td class="line">${line.slice(0, 8).map((step) => `<bdi>${safe(step)}</bdi>`).join(" ")}</td></tr>`;
    }).join(""));
    const hidden = snapshot.moves.length - 12;
    more.hidden = hidden <= 0;
    more.textContent = this.#shown > 12 ? "Fewer moves" : `${count(hidden)} more moves`;
  }
}

define("engram-moves", Moves);

/** Until the first snapshot: the very first search of a kind is compiled, which takes some seconds. */
export const STARTS = "starting; the first search of its kind takes some seconds to compile …";

/** The names of a game's players. */
export const playersOf = (opened) =>
  (opened.board?.players ?? (opened.players === 1 ? ["the player"] : ["the first player", "the second player"])).slice(0, opened.players);

/** The player to move, or the result of a game that is over, as HTML. */
export function turnOf(opened) {
  const { outcome, result, to_play } = opened.position, { players } = opened, names = playersOf(opened);
  if (outcome === null) return `<b>${safe(names[to_play] ?? "Nature")}</b> to move`;
  const end = players === 1 ? `The game is over: ${units(outcome)}` : outcome === 0 ? "A draw" : `${safe(names[outcome > 0 ? 0 : 1])} wins`;
  return `<b>${end}</b>${result ? ` (${safe(result)})` : ""}`;
}

/** One line about a search under way or ended. */
export function progressOf(snapshot, players) {
  if (!snapshot) return "";
  if (snapshot.error) return snapshot.error;
  const mover = players[snapshot.player];
  const speed = snapshot.seconds > 0 ? ` · ${short(snapshot.simulations / snapshot.seconds)}/s` : "";
  const end = { running: "thinking", simulations: "done", seconds: "done", interrupted: "stopped", proven: "proven", decided: "decided" }[snapshot.stopped] ?? snapshot.stopped;
  return `${end} · ${count(snapshot.simulations)} simulations${speed} · value ${signed(snapshot.value)} for ${mover}${snapshot.full ? " · tree full" : ""}`;
}
