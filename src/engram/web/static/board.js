// <engram-board>: a position as SVG, with a button over each cell, so that mouse, touch and keyboard all work in the same way.

import { define, element, onScale, safe, signed, valueColour } from "./html.js";

const STARS = { 9: [2, 4, 6], 13: [3, 6, 9], 19: [3, 9, 15] };
const COLOURS = ["black", "white", "red", "yellow"];
const round = (number) => +number.toFixed(3);
/** The size of the names beside a board in its own units: on large boards and on small ones they can be read. */
const nameSize = (width) => Math.min(0.5, Math.max(width / 40, Math.min(0.32, width / 27)));

/** Where a shape puts its cells: centres, the picture's box, and the size of a button. */
function geometry(board) {
  const { shape, rows, columns } = board;
  const cell = (number) => [number % columns, Math.floor(number / columns)];
  const labelled = board.column_names.length > 0;
  const margin = labelled ? 0.62 : 0.1;
  if (shape === "hexagons") {
    return {
      centre: (number) => { const [x, y] = cell(number); return [x + y / 2, y * 0.866]; },
      box: [-1.5, -1.35, columns + (rows - 1) / 2 + 1.65, (rows - 1) * 0.866 + 2.2], button: [0.92, 0.92],
    };
  }
  if (shape === "lattice") {
    return {
      centre: (number) => cell(number).map((part) => part / 2),
      box: [-0.5, -0.3, (columns - 1) / 2 + 0.7, (rows - 1) / 2 + 0.8], button: [0.5, 0.5],
    };
  }
  if (shape === "columns") {
    return {
      centre: cell, box: [-0.6, -0.6, columns + 0.2, rows + 0.2 + (labelled ? 0.45 : 0)], button: [1, rows],
    };
  }
  const left = board.row_names.length ? margin : 0.1, above = board.cell_names.length ? 0.45 : 0.1;
  return { centre: cell, box: [-0.5 - left, -0.5 - above, columns + left + 0.1, rows + margin - 0.1 + 2 * above], button: [1, 1] };
}

class Board extends HTMLElement {
  #board = null;
  #position = null;
  #legal = new Map();
  #heat = null;
  #line = [];
  #last = null;
  #from = null;
  #playable = true;

  connectedCallback() {
    this.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** The board of a game, or null where only a diagram shows it. */
  set board(board) {
    this.#board = board;
    this.#from = null;
    this.replaceChildren();
    if (!board) return;
    this.geometry = geometry(board);
    const [x, y, width, height] = this.geometry.box;
    this.style.setProperty("--ratio", width / height);
    this.svg = element(`<svg class="board" viewBox="${this.geometry.box.map(round).join(" ")}" style="--name:${round(nameSize(width))}px" aria-hidden="true"></svg>`);
    this.cells = element(`<div class="cells"></div>`);
    this.className = `${board.shape} ${board.pieces}`;
    const [buttonWidth, buttonHeight] = this.geometry.button;
    for (const number of this.#buttonCells()) {
      let [cx, cy] = this.geometry.centre(number);
      if (board.shape === "columns") cy = (board.rows - 1) / 2;
      const button = element(`<button type="button" tabindex="-1" data-cell="${number}"></button>`);
      Object.assign(button.style, {
        left: `${(100 * (cx - buttonWidth / 2 - x)) / width}%`, top: `${(100 * (cy - buttonHeight / 2 - y)) / height}%`,
        width: `${(100 * buttonWidth) / width}%`, height: `${(100 * buttonHeight) / height}%`,
      });
      button.addEventListener("click", (event) => event.detail < 2 && this.#press(number)); // a double click is one
      this.cells.append(button);
    }
    this.cells.firstElementChild?.setAttribute("tabindex", "0");
    this.append(this.svg, this.cells);
  }

  get board() { return this.#board; }

  /** Draws a position from the server; `last` is the action that led to it. */
  show(position, { last = null, playable = true } = {}) {
    this.#position = position;
    this.#legal = new Map(position.legal);
    this.#last = last;
    this.#from = null;
    this.#playable = playable;
    this.#draw();
    this.#label();
  }

  /** Heat by action: `{ strength, text, value }`, or null for none. */
  set heat(heat) { this.#heat = heat; this.#draw(); }

  /** Moves to draw ahead, each as its action and its mover. */
  set line(steps) { this.#line = steps; this.#draw(); }

  focusCell() { this.querySelector("[tabindex='0']")?.focus({ preventScroll: true }); }

  // ---------------------------------------------------------------- buttons

  #buttonCells() {
    const cells = new Set(this.#board.places.flat());
    return [...cells].sort((a, b) => a - b);
  }

  /** The class of a player's pieces; players of other names are black and white. */
  #colour(player) {
    const names = this.#board.players.map((name) => name.toLowerCase());
    return (names.every((name) => COLOURS.includes(name)) ? names : COLOURS)[player];
  }

  #cellName(number) {
    const { columns, column_names, row_names, shape, cell_names } = this.#board;
    if (cell_names.length) return isNaN(cell_names[number]) ? cell_names[number] : `Point ${cell_names[number]}`;
    if (shape === "columns") return `Column ${column_names[number] ?? number + 1}`;
    if (shape === "lattice") {
      const dot = (x, y) => `${String.fromCharCode(97 + x)}${y + 1}`;
      const x = number % columns, y = Math.floor(number / columns);
      return `Edge ${dot(x >> 1, y >> 1)} to ${dot((x + 1) >> 1, (y + 1) >> 1)}`;
    }
    return `${column_names[number % columns] ?? ""}${row_names[Math.floor(number / columns)] ?? ""}` || `Cell ${number + 1}`;
  }

  /** The cells of a tile and of all connected tiles like it. */
  #alike(number) {
    const { columns, rows } = this.#board, { marks } = this.#position;
    const cells = new Set(marks[number] === "." ? [] : [number]);
    for (const cell of cells) {
      const x = cell % columns, y = Math.floor(cell / columns);
      for (const [u, v] of [[x - 1, y], [x + 1, y], [x, y - 1], [x, y + 1]]) {
        if (u >= 0 && u < columns && v >= 0 && v < rows && marks[v * columns + u] === marks[number]) cells.add(v * columns + u);
      }
    }
    return cells;
  }

  #actionsAt(number) {
    const { places, pieces } = this.#board;
    if (pieces === "tiles") {
      const alike = this.#alike(number);
      return [...this.#legal.keys()].filter((action) => alike.has(places[action][0]));
    }
    return [...this.#legal.keys()].filter((action) => {
      const [first, second] = places[action];
      return this.#from === null || second === undefined ? first === number : first === this.#from && second === number;
    });
  }

  /** The discs of a column, from below. */
  #column(number) {
    const { columns, players } = this.#board, { marks } = this.#position, discs = [];
    for (let cell = marks.length - columns + (number % columns); cell >= 0 && marks[cell] !== "."; cell -= columns) discs.push(players["XO".indexOf(marks[cell])]);
    return discs.length ? `, from below ${discs.join(", ")}` : ", empty";
  }

  #label() {
    const { players, pieces, shape } = this.#board;
    const piece = { stones: "stone", discs: "disc", pawns: "pawn", checkers: "checker" }[pieces], { counts } = this.#position;
    for (const button of this.cells.children) {
      const number = +button.dataset.cell, mark = this.#position.marks[number];
      const content = shape === "columns" ? this.#column(number) : mark === "." ? ", empty" : mark === "#" ? ", drawn"
        : pieces === "tiles" ? `, colour ${mark}`
        : pieces === "numbers" ? `, ${counts[number]}`
        : counts ? `, ${counts[number]} ${players["XO".indexOf(mark)]} ${piece}${counts[number] > 1 ? "s" : ""}`
        : `, ${players["XO".indexOf(mark)]} ${piece}`;
      const legal = this.#playable && this.#actionsAt(number).length > 0;
      button.setAttribute("aria-label", `${this.#cellName(number)}${content}${this.#from === number ? ", chosen" : ""}`);
      button.setAttribute("aria-disabled", String(!legal));
    }
  }

  #press(number) {
    this.#rove(number);
    if (!this.#playable) { this.#refuse(number); return; }
    const isPair = (action) => this.#board.places[action].length === 2;
    const from = this.#from, reaching = from === null ? [] : this.#actionsAt(number).filter(isPair);
    this.#from = null;
    const here = this.#actionsAt(number);
    if (reaching.length) this.#emit(reaching);
    else if (from !== number && here.some(isPair)) this.#from = number;
    else if (!here.every(isPair)) this.#emit(here.filter((action) => !isPair(action)));
    else if (from === null) this.#refuse(number);
    this.#draw();
    this.#label();
  }

  /** A move; or, where several actions have these places, the choice between them. */
  #emit(actions) {
    const moves = actions.map((action) => ({ action, name: this.#legal.get(action) }));
    const either = moves.length === 1 || ["checkers", "tiles"].includes(this.#board.pieces); // two dice, or a tile and its likes
    this.dispatchEvent(either ? new CustomEvent("move", { detail: moves[0] }) : new CustomEvent("choose", { detail: moves }));
  }

  #refuse(number) { this.dispatchEvent(new CustomEvent("refuse", { detail: this.#cellName(number) })); }

  #rove(number) {
    for (const button of this.cells.children) button.tabIndex = +button.dataset.cell === number ? 0 : -1;
  }

  #onKey(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const at = event.target.closest?.("[data-cell]");
    if (event.key === "Escape" && this.#from !== null) { this.#from = null; this.#draw(); this.#label(); }
    if (!step || !at || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const [x, y] = this.geometry.centre(+at.dataset.cell);
    let best = null, least = Infinity;
    for (const button of this.cells.children) {
      const [bx, by] = this.geometry.centre(+button.dataset.cell);
      const along = (bx - x) * step[0] + (by - y) * step[1], aside = Math.abs((bx - x) * step[1]) + Math.abs((by - y) * step[0]);
      if (along > 0.2 && aside <= along + 1e-9 && along + 2 * aside < least) [best, least] = [button, along + 2 * aside];
    }
    if (best) { this.#rove(+best.dataset.cell); best.focus(); }
  }

  // ---------------------------------------------------------------- picture

  #draw() {
    if (!this.#board || !this.#position) return;
    const { shape } = this.#board;
    const ground = { points: () => this.#points(), squares: () => this.#squares(), hexagons: () => this.#hexagons(),
      columns: () => this.#columns(), lattice: () => this.#lattice() }[shape]();
    this.svg.innerHTML = [ground, shape === "lattice" ? "" : this.#pieces(), this.#drawHeat(), this.#drawLast(), this.#drawLine(), this.#chosen()].join("");
  }

  #each(draw) {
    return Array.from({ length: this.#board.rows * this.#board.columns }, (_, number) => draw(number, ...this.geometry.centre(number).map(round))).join("");
  }

  #names() {
    const { rows, columns, column_names, row_names } = this.#board;
    const across = column_names.map((name, x) => `<text class="name" x="${x}" y="${rows - 0.14}">${safe(name)}</text>`);
    const down = row_names.map((name, y) => `<text class="name" x="-0.8" y="${y}">${safe(name)}</text>`);
    return [...across, ...down].join("");
  }

  #points() {
    const { rows, columns } = this.#board;
    let lines = `<rect class="wood" x="-0.5" y="-0.5" width="${columns}" height="${rows}" rx="0.1"/><path class="grid" d="`;
    for (let y = 0; y < rows; y++) lines += `M0 ${y}H${columns - 1}`;
    for (let x = 0; x < columns; x++) lines += `M${x} 0V${rows - 1}`;
    const stars = rows === columns ? STARS[rows] ?? [] : [];
    const dots = stars.flatMap((x) => stars.map((y) => `<circle class="star" cx="${x}" cy="${y}" r="0.1"/>`));
    return `${lines}"/>${dots.join("")}${this.#names()}`;
  }

  #squares() {
    const { cell_names } = this.#board;
    return this.#each((number, x, y) => `<rect class="square ${(x + y) % 2 ? "odd" : ""}" x="${x - 0.5}" y="${y - 0.5}" width="1" height="1"/>${cell_names.length ? `<text class="name small" x="${x}" y="${y < 1 ? -0.72 : y + 0.72}">${safe(cell_names[number])}</text>` : ""}`) + this.#names();
  }

  #hexagons() {
    const { rows, columns, column_names, row_names } = this.#board;
    const r = 0.577, hexagon = (x, y, size, kind) => `<path class="${kind}" d="M${[0, 1, 2, 3, 4, 5].map((k) => `${round(x + size * Math.sin((k * Math.PI) / 3))} ${round(y - size * Math.cos((k * Math.PI) / 3))}`).join("L")}z"/>`;
    const corner = (x, y) => this.geometry.centre(y * columns + x);
    const edge = (cells, dy, dx, player) => `<polyline class="edge ${this.#colour(player)}" points="${cells.map(([x, y]) => { const [cx, cy] = corner(x, y); return `${round(cx + dx)},${round(cy + dy)}`; }).join(" ")}"/>`;
    const row = (y) => [[0, y], [columns - 1, y]], side = (x) => [[x, 0], [x, rows - 1]];
    const edges = edge(row(0), -0.62, 0.0, 0) + edge(row(rows - 1), 0.62, 0.0, 0) + edge(side(0), 0.0, -0.62, 1) + edge(side(columns - 1), 0.0, 0.62, 1);
    const across = column_names.map((name, x) => { const [cx, cy] = corner(x, 0); return `<text class="name" x="${round(cx - 0.1)}" y="${round(cy - 1.02)}">${safe(name)}</text>`; });
    const down = row_names.map((name, y) => { const [cx, cy] = corner(0, y); return `<text class="name" x="${round(cx - 1.1)}" y="${round(cy + 0.1)}">${safe(name)}</text>`; });
    return edges + this.#each((number, x, y) => hexagon(x, y, r, "hexagon")) + across.join("") + down.join("");
  }

  #columns() {
    const { rows, columns } = this.#board;
    const frame = `<rect class="frame" x="-0.55" y="-0.55" width="${columns + 0.1}" height="${rows + 0.1}" rx="0.25"/>`;
    const names = this.#board.column_names.map((name, x) => `<text class="name" x="${x}" y="${rows - 0.17}">${safe(name)}</text>`);
    return frame + this.#each((number, x, y) => `<circle class="hole" cx="${x}" cy="${y}" r="0.41"/>`) + names.join("");
  }

  #lattice() {
    const { rows, columns } = this.#board, last = this.#last === null ? -1 : this.#board.places[this.#last][0];
    const boxes = [], edges = [], dots = [];
    this.#each((number, x, y) => {
      const odd = [number % columns % 2, Math.floor(number / columns) % 2], drawn = this.#position.marks[number] === "#";
      if (odd[0] && odd[1]) { if (drawn) boxes.push(`<rect class="box" x="${x - 0.4}" y="${y - 0.4}" width="0.8" height="0.8" rx="0.08"/>`); }
      else if (!odd[0] && !odd[1]) dots.push(`<circle class="dot" cx="${x}" cy="${y}" r="0.09"/>`);
      else {
        const [dx, dy] = odd[0] ? [0.5, 0] : [0, 0.5];
        edges.push(`<path class="line ${drawn ? "drawn" : ""} ${number === last ? "last" : ""}" d="M${x - dx} ${y - dy}L${x + dx} ${y + dy}"/>`);
      }
      return "";
    });
    const across = Array.from({ length: (columns + 1) / 2 }, (_, x) => `<text class="name" x="${x}" y="${(rows - 1) / 2 + 0.32}">${String.fromCharCode(97 + x)}</text>`);
    const down = Array.from({ length: (rows + 1) / 2 }, (_, y) => `<text class="name" x="-0.32" y="${y}">${y + 1}</text>`);
    return boxes.join("") + edges.join("") + dots.join("") + across.join("") + down.join("");
  }

  #piece(x, y, player, extra = "") {
    const colour = this.#colour(player), kind = this.#board.pieces;
    if (kind === "tiles" || kind === "numbers") return "";
    if (kind === "pawns") {
      return `<g class="piece ${colour} ${extra}" transform="translate(${x} ${y})"><path d="M-.27 .34H.27L.2 .2C.1 .12 .1 .02 .1 -.06A.17 .17 0 1 0 -.1 -.06C-.1 .02 -.1 .12 -.2 .2z"/></g>`;
    }
    const radius = { points: 0.465, squares: 0.38, hexagons: 0.36, columns: 0.41 }[this.#board.shape];
    return `<circle class="piece ${colour} ${extra}" cx="${x}" cy="${y}" r="${radius}"/>`;
  }

  #pieces() {
    const { marks, counts } = this.#position;
    return this.#each((number, x, y) => {
      const mark = marks[number], player = "XO".indexOf(mark), text = counts?.[number] ?? mark;
      if (mark >= "1" && mark <= "9") return `<rect class="tile tile-${mark}" x="${x - 0.46}" y="${y - 0.46}" width="0.92" height="0.92" rx="0.12"/><text class="tile-text ${text > 999 ? "long" : ""}" x="${x}" y="${y}">${text}</text>`;
      if (player < 0) return "";
      const number_of = counts?.[number] > 1 ? `<text class="count ${this.#colour(player)}" x="${x}" y="${y}">${counts[number]}</text>` : "";
      return this.#piece(x, y, player) + number_of;
    });
  }

  /** The cell where an action's piece comes to rest; `taken` holds pieces that are drawn ahead. */
  target(action, taken = new Set()) {
    const cells = this.#board.places[action];
    if (!cells?.length) return null;
    let cell = cells[cells.length - 1];
    if (this.#board.shape !== "columns") return cell;
    const { columns } = this.#board, free = (number) => this.#position.marks[number] === "." && !taken.has(number);
    if (!free(cell)) return null;
    while (cell + columns < this.#position.marks.length && free(cell + columns)) cell += columns;
    return cell;
  }

  #drawLast() {
    if (this.#last === null || this.#board.shape === "lattice") return "";
    const cells = this.#board.places[this.#last];
    if (!cells?.length) return "";
    let cell = cells[cells.length - 1];
    if (this.#board.shape === "columns") while (this.#position.marks[cell] === ".") cell += this.#board.columns;
    const [x, y] = this.geometry.centre(cell).map(round);
    return `<circle class="last" cx="${x}" cy="${y}" r="0.16"/>`;
  }

  #chosen() {
    if (this.#from === null) return "";
    const targets = [...this.#legal.keys()].map((action) => this.#board.places[action]).filter((cells) => cells.length === 2 && cells[0] === this.#from);
    const ring = (cell, kind) => { const [x, y] = this.geometry.centre(cell); return `<rect class="${kind}" x="${x - 0.46}" y="${y - 0.46}" width="0.92" height="0.92" rx="0.1"/>`; };
    return ring(this.#from, "chosen") + targets.map(([, to]) => ring(to, "reach")).join("");
  }

  #drawHeat() {
    if (!this.#heat || this.#line.length) return "";
    const small = this.#board.rows > 13, arrows = [], labels = [];
    const spots = [...this.#heat].sort((spot, other) => other[1].strength - spot[1].strength).map(([action, { strength, text, value }]) => {
      const cells = this.#board.places[action];
      if (!cells?.length) return "";
      const colour = value === undefined ? "var(--heat)" : valueColour(value);
      if (cells.length === 2) {
        const [[x, y], [u, v]] = cells.map((cell) => this.geometry.centre(cell));
        const at = (share) => [round(x + share * (u - x)), round(y + share * (v - y))], [p, q] = at(0.62);
        const [[x1, y1], [x2, y2]] = [at(0.4 / Math.hypot(u - x, v - y)), at(0.8)]; // it begins beside the piece
        if (strength > 0.02) arrows.push(`<line class="arrow" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" style="--c:${colour};--s:${round(0.25 + 0.75 * strength)}"/>`);
        // Where labels would overlap, only the strongest is drawn.
        if (strength > 0.3 && labels.every(([r, s]) => Math.abs(p - r) > 0.85 || Math.abs(q - s) > 0.4)) { labels.push([p, q]); arrows.push(`<text class="heat-text" x="${p}" y="${q}">${text}</text>`); }
        return "";
      }
      const cell = this.target(action);
      if (cell === null) return "";
      const [x, y] = this.geometry.centre(cell).map(round);
      if (this.#board.shape === "lattice") {
        const [dx, dy] = cell % this.#board.columns % 2 ? [0.36, 0] : [0, 0.36];
        return `<path class="heat-line" d="M${x - dx} ${y - dy}L${x + dx} ${y + dy}" style="--c:${colour};--s:${round(0.15 + 0.85 * strength)}"/>${strength > 0.5 ? `<text class="heat-text" x="${x}" y="${y}">${text}</text>` : ""}`;
      }
      const label = strength > (small ? 0.35 : 0.12) ? `<text class="heat-text" x="${x}" y="${y}">${text}</text>` : "";
      return `<circle class="heat" cx="${x}" cy="${y}" r="0.4" style="--c:${colour};--s:${round(0.12 + 0.8 * strength)}"/>${label}`;
    });
    return spots.join("") + arrows.join("");
  }

  #drawLine() {
    const taken = new Set();
    return this.#line.map(([action, mover], number) => {
      const cells = this.#board.places[action] ?? [];
      const cell = this.target(action, taken);
      if (cell === null) return "";
      if (cells.length < 2) taken.add(cell);
      const [x, y] = this.geometry.centre(cell).map(round);
      if (cells.length === 2) {
        const [u, v] = this.geometry.centre(cells[0]);
        return `<line class="arrow ahead" x1="${u}" y1="${v}" x2="${round(u + 0.8 * (x - u))}" y2="${round(v + 0.8 * (y - v))}"/><text class="ahead-text plain" x="${round((x + u) / 2)}" y="${round((y + v) / 2)}">${number + 1}</text>`;
      }
      if (this.#board.shape === "lattice") {
        const [dx, dy] = cell % this.#board.columns % 2 ? [0.5, 0] : [0, 0.5];
        return `<path class="line ahead" d="M${x - dx} ${y - dy}L${x + dx} ${y + dy}"/><text class="ahead-text plain" x="${x}" y="${y}">${number + 1}</text>`;
      }
      const nature = mover > 1; // which has no pieces
      return `${nature ? "" : this.#piece(x, y, mover, "ghost")}<text class="ahead-text ${nature ? "plain" : this.#colour(mover)}" x="${x}" y="${y}">${number + 1}</text>`;
    }).join("");
  }
}

define("engram-board", Board);

/** Whether a win is 1, so that values fit a cell as hundredths. */
const inHundredths = ({ bounds: [low, high] }) => low >= -1 && high <= 1;

/** The heat of a kind for the moves of a snapshot. */
export function heatOf(snapshot, kind) {
  const rounded = (share) => (share >= 0.005 ? String(Math.round(100 * share)) : ""); // a 0 says nothing
  if (!snapshot || kind === "none") return null;
  const total = snapshot.moves.reduce((sum, move) => sum + move[1], 0) || 1;
  const most = Math.max(...snapshot.moves.map((move) => move[1]), 1);
  const highest = Math.max(...snapshot.moves.map((move) => move[5]), 1e-9);
  const place = { value: 2, memory: 6, amaf: 7 }[kind];
  const heat = new Map();
  for (const move of snapshot.moves) {
    const [action, visits] = move;
    if (kind === "visits") {
      if (visits) heat.set(action, { strength: visits / most, text: rounded(visits / total) });
    } else if (kind === "prior") heat.set(action, { strength: move[5] / highest, text: rounded(move[5]) });
    else if (move[place] !== null && (kind !== "value" || visits)) {
      const strength = kind === "value" ? 0.35 + 0.65 * Math.sqrt(visits / most) : 0.9;
      heat.set(action, { strength, value: onScale(move[place], snapshot.bounds), text: signed(move[place] * (inHundredths(snapshot) ? 100 : 1), 0) });
    }
  }
  return heat;
}

export const HEATS = [
  ["visits", "Visits", "share of the simulations, in percent"], ["value", "Value", "for the player to move"],
  ["prior", "Prior", "before any search, in percent"], ["memory", "Memory", "value of similar positions"],
  ["amaf", "AMAF", "value when played at any later time"], ["none", "Nothing", ""],
];

/** What the numbers on a board are; empty before there are any. */
export function legendOf(snapshot, kind) {
  const [, name, about] = HEATS.find(([value]) => value === kind);
  if (!snapshot || !about) return "";
  const scale = ["value", "memory", "amaf"].includes(kind) && inHundredths(snapshot) ? ", −100 (loss) to +100 (win)" : "";
  return `${name}: ${about}${scale}`;
}
