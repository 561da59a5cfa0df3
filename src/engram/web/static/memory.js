// The view of a search's memory: the stored positions that answered, as boards, and all of them as a map.

import { post } from "./api.js";
import { count, element, ink, keyOf, percent, safe, signed, trying, valueColour } from "./html.js";
import { Runner } from "./runner.js";

const HEIGHT = 380, MARGIN = 24;

export class Memory {
  #path = [];
  #points = [];
  #marked = new Set();
  #selected = null;

  constructor(game, setup) {
    this.game = game;
    const search = setup.search.startsWith("memory") ? setup.search : "memory_uct(keep_states=true)";
    this.runner = new Runner(game, { search, simulations: 10000, name: "Search with a memory", start: "Fill the memory" });
    this.element = element(`<div class="memory">
      <section class="panel" aria-labelledby="memory-title"><h2 id="memory-title">What a memory knows</h2>
        <p class="hint">A search stores the positions that it has met, and values a new one by those that are similar to it.</p>
        <div class="place"></div></section>
      <section class="panel asked" aria-labelledby="asked-title" hidden><h2 id="asked-title">The question</h2>
        <div class="halves"><div class="question"><engram-board role="group" aria-label="The position asked about"></engram-board><pre tabindex="0" aria-label="The position asked about" hidden></pre></div>
        <div class="said"><label>Ask about <select class="about"></select></label><p class="verdict" role="status"></p>
          <h3>The store as a map</h3><p class="hint">The axes are the features' two main components, so similar positions lie close together. A ring marks those that answered.</p>
          <div class="map" tabindex="0" role="application" aria-label="Map of the stored positions: arrow keys move to the next one"><canvas></canvas></div>
          <p class="key" aria-hidden="true"></p><p class="hint map-note" role="status"></p>
          <p class="entry-note" role="status"></p><div class="entry card" hidden><engram-board role="group" aria-label="The stored position"></engram-board></div></div></div>
      </section>
      <section class="panel answers" aria-labelledby="answers-title" hidden><h2 id="answers-title">The positions that answered</h2><p class="hint whose"></p><div class="cards"></div></section></div>`);
    this.find = (selector) => this.element.querySelector(selector);
    this.find(".place").append(this.runner.element);
    this.runner.addEventListener("end", () => this.#ask());
    game.addEventListener("change", () => { this.runner.clear(); this.#path = []; this.#hide(); });
    this.find(".about").addEventListener("change", (event) => { this.#path = event.target.value === "" ? [] : [+event.target.value]; this.#ask(false); });
    const map = this.find(".map");
    new ResizeObserver(() => requestAnimationFrame(() => this.#draw())).observe(map); // the drawing sets the height
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    map.addEventListener("click", (event) => {
      const box = map.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const near = this.#points.map((point) => [Math.hypot(point.x - x, point.y - y), point]).sort((a, b) => a[0] - b[0])[0];
      if (near && near[0] < 24) this.#select(near[1]);
    });
    map.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by || !this.#points.length) return;
      event.preventDefault();
      const order = [...this.#points].sort((a, b) => a.x - b.x), at = order.indexOf(this.#selected);
      this.#select(order[(at + by + order.length) % order.length]);
    });
  }

  shown() { this.#draw(); }
  hidden() { this.runner.stop(); }

  #hide() {
    for (const place of [".asked", ".answers", ".entry"]) this.find(place).hidden = true;
    this.find(".entry-note").textContent = "";
  }

  #put(board, position, last = null) {
    const { opened } = this.game;
    board.hidden = !opened.board || !position;
    if (board.hidden) return;
    if (board.kept !== JSON.stringify(opened.board)) { board.board = opened.board; board.kept = JSON.stringify(opened.board); }
    board.show(position, { last, playable: false });
    for (const button of board.querySelectorAll("button")) button.tabIndex = -1;
  }

  #ask(mapToo = true) {
    const { id } = this.runner;
    if (!id || !this.runner.snapshot) return;
    trying(async () => {
      const answer = await post(`searches/${id}/memory`, { path: this.#path });
      if (id !== this.runner.id) return;
      this.#show(answer);
      if (!mapToo) { this.#draw(); return; }
      const map = await post(`searches/${id}/map`);
      if (id !== this.runner.id) return;
      this.#selected = null;
      this.#points = map.points.map(([row, u, v, value, returns]) => ({ row, u, v, value, returns }));
      this.find(".map-note").textContent = `${count(map.points.length)} of ${count(answer.entries)} entries; the two components hold ${percent(map.share)} of the variance.`;
      this.#draw();
    });
  }

  #show(answer) {
    const { find } = this, players = this.runner.players, mover = players[answer.to_play];
    find(".asked").hidden = find(".answers").hidden = false;
    find(".entry").hidden = true;
    find(".entry-note").textContent = "";
    const about = find(".about");
    about.innerHTML = `<option value="">the position of the search</option>` + this.runner.snapshot.moves.map((move) => `<option value="${move[0]}">the position after ${safe(move[9][0])}</option>`).join("");
    about.value = this.#path.length ? String(this.#path[0]) : "";
    this.#put(find(".question engram-board"), answer.position, this.#path.at(-1) ?? this.game.action);
    find(".question pre").hidden = !!this.game.opened.board;
    find(".question pre").textContent = answer.position.diagram;
    find(".asked .verdict").textContent = answer.value === null ? "The memory knows no similar position."
      : `The memory says ${signed(answer.value, 3)} for ${mover}${answer.corrects ? ", to be added to the value" : ""}, with the weight of ${answer.count.toFixed(1)} returns. It holds ${count(answer.entries)} of at most ${count(answer.capacity)} positions.`;
    this.#marked = new Set(answer.witnesses.map((witness) => witness.row));
    find(".whose").textContent = `Weight is a position's share of the answer; cosine is its similarity. Values are for ${mover}.`;
    find(".cards").replaceChildren(...answer.witnesses.map((witness) => {
      const card = element(`<article class="card"><engram-board role="group" aria-label="A stored position"></engram-board>${witness.position && !this.game.opened.board ? `<pre tabindex="0" aria-label="A stored position">${safe(witness.position.diagram)}</pre>` : ""}<dl><div><dt>weight</dt><dd>${percent(witness.weight)}</dd></div><div><dt>cosine</dt><dd>${witness.cosine.toFixed(3)}</dd></div><div><dt>value</dt><dd>${signed(witness.value)}</dd></div><div><dt>returns</dt><dd>${count(Math.round(witness.returns))}</dd></div></dl></article>`);
      this.#put(card.querySelector("engram-board"), witness.position);
      return card;
    }));
    if (answer.witnesses.length && answer.witnesses.every((witness) => !witness.position)) find(".cards").append(element(`<p class="hint">With keep_states=true the memory keeps the boards too.</p>`));
  }

  #draw() {
    const map = this.find(".map"), canvas = map.querySelector("canvas"), width = map.clientWidth, scale = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * scale;
    canvas.height = HEIGHT * scale;
    canvas.style.height = `${HEIGHT}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const points = this.#points;
    this.find(".asked .key").innerHTML = keyOf(this.game.players);
    if (!points.length) return;
    const range = (key) => { const all = points.map((point) => point[key]); return [Math.min(...all), Math.max(...all)]; };
    const [[left, right], [bottom, top]] = [range("u"), range("v")];
    for (const point of points) {
      point.x = MARGIN + (point.u - left) / (right - left || 1) * (width - 2 * MARGIN);
      point.y = HEIGHT - MARGIN - (point.v - bottom) / (top - bottom || 1) * (HEIGHT - 2 * MARGIN);
      point.size = Math.min(9, 2.5 + Math.log2(1 + point.returns) * 0.7);
    }
    const disc = (point, radius) => { context.beginPath(); context.arc(point.x, point.y, radius, 0, 2 * Math.PI); };
    for (const point of points) { disc(point, point.size); context.fillStyle = valueColour(point.value); context.globalAlpha = 0.85; context.fill(); }
    context.globalAlpha = 1;
    context.lineWidth = 2.5;
    for (const point of points) if (this.#marked.has(point.row)) { disc(point, point.size + 3); context.strokeStyle = ink("--ink"); context.stroke(); }
    if (this.#selected) { disc(this.#selected, this.#selected.size + 5); context.strokeStyle = "#d6216b"; context.lineWidth = 3; context.stroke(); }
  }

  #select(point) {
    this.#selected = point;
    this.#draw();
    trying(async () => {
      const entry = await post(`searches/${this.runner.id}/memory`, { row: point.row });
      if (this.#selected !== point) return;
      this.find(".entry").hidden = !this.game.opened.board || !entry.position;
      this.#put(this.find(".entry engram-board"), entry.position);
      this.find(".entry-note").textContent = `Entry ${entry.row}: value ${signed(entry.value)} for ${this.runner.players[0]}, from ${count(Math.round(entry.returns))} return${entry.returns === 1 ? "" : "s"}.`;
    });
  }
}
