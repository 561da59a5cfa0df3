// The view of a search's tree: an icicle whose widths are visits and whose colours are values.

import { post } from "./api.js";
import { count, element, ink, inkOn, inUnits, keyOf, onScale, safe, signed, trying, valueColour } from "./html.js";
import { Runner } from "./runner.js";

const ROW = 27, DEPTH = 15;

export class TreeView {
  #part = null; // what the server has sent, laid out by d3
  #top = []; // actions to the node on top
  along = []; // their names
  #selected = null;
  #asking = false;
  #again = false;

  constructor(game, setup) {
    this.game = game;
    this.runner = new Runner(game, { search: setup.search, simulations: 100000, name: "Search", start: "Grow a tree" });
    this.element = element(`<div class="tree-view">
      <section class="panel" aria-labelledby="tree-title"><h2 id="tree-title">The tree of a search</h2>
        <p class="hint">Each box is a position; its width is its share of the visits. The search begins at the current position of the game.</p>
        <div class="place"></div>
        <div class="row"><nav class="crumbs row" aria-label="The line on top"></nav><span class="grow"></span><span class="key" aria-hidden="true"></span></div>
        <div class="icicle" tabindex="0" role="application" aria-label="Tree: arrow keys move, Enter enlarges, Escape goes back up" aria-describedby="tree-node"><canvas></canvas></div>
        <p id="tree-node" class="progress" role="status" aria-live="polite"></p>
      </section>
      <section class="panel node" aria-labelledby="node-title" hidden><h2 id="node-title">The position</h2>
        <div class="halves"><div><engram-board role="group" aria-label="Position in the tree"></engram-board><pre tabindex="0" aria-label="Position in the tree" hidden></pre></div>
        <div class="figures scroll" tabindex="0" role="region" aria-label="Figures of the node"></div></div>
      </section></div>`);
    this.find = (selector) => this.element.querySelector(selector);
    this.find(".place").append(this.runner.element);
    this.canvas = this.find("canvas");
    this.runner.addEventListener("snapshot", () => this.#ask());
    this.runner.addEventListener("end", () => this.#ask());
    game.addEventListener("change", () => { this.#forget(); this.runner.clear(); });
    new ResizeObserver(() => this.#ask()).observe(this.find(".icicle"));
    this.find(".icicle").addEventListener("click", (event) => this.#choose(this.#at(event)));
    this.find(".icicle").addEventListener("dblclick", (event) => this.#enlarge(this.#at(event)));
    this.find(".icicle").addEventListener("keydown", (event) => this.#onKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    this.find(".crumbs").addEventListener("click", (event) => {
      const length = event.target.closest("[data-length]")?.dataset.length;
      if (length !== undefined) this.#climb(+length);
    });
  }

  shown() { this.#forget(false); this.#ask(); this.#draw(); }
  hidden() { this.runner.stop(); }

  #forget(all = true) {
    if (all) { this.#part = this.#selected = null; this.#top = []; }
    this.find(".node").hidden = !this.#selected;
    this.#crumbs();
  }

  #name(action, name) { return name ?? this.game.opened.action_names[action] ?? String(action); }
  /** Names of the moves to a node. */
  #line(node) {
    const below = node.ancestors().reverse().slice(1).map((step) => this.#name(step.data.action, step.data.name));
    return [...this.#top.map((action, number) => this.#name(action, this.along[number])), ...below];
  }
  #path(node) { return [...this.#top, ...node.ancestors().reverse().slice(1).map((step) => step.data.action)]; }

  async #ask() {
    if (!this.runner.id || !this.element.isConnected) { this.#draw(); return; }
    if (this.#asking) { this.#again = true; return; }
    this.#asking = true;
    this.#again = false;
    const { id } = this.runner, path = this.#top, width = Math.max(50, Math.round(this.canvas.parentElement.clientWidth));
    const part = await trying(() => post(`searches/${id}/tree`, { path, width, depth: DEPTH }));
    this.#asking = false;
    if (part && id === this.runner.id && path === this.#top) this.#lay(part, width);
    if (this.#again) setTimeout(() => this.#ask(), 250);
  }

  #lay(part, width) {
    const kept = this.#selected && this.#path(this.#selected).join();
    const nodes = part.parent.map((_, place) => ({ action: part.action[place], name: part.names?.[1][place], visits: part.visits[place], value: part.value[place], flags: part.flags[place], children: [] }));
    part.parent.forEach((parent, place) => parent >= 0 && nodes[parent].children.push(nodes[place]));
    const root = d3.hierarchy(nodes[0]);
    // A node's own share consists of the visits that no box below it shows.
    root.sum((node) => Math.max(0, node.visits - node.children.reduce((sum, child) => sum + child.visits, 0)));
    this.#part = d3.partition().size([width, (root.height + 1) * ROW])(root);
    this.total = part.nodes;
    this.along = part.names?.[0] ?? [];
    this.bounds = part.bounds;
    // Bounds of points may be far beyond all boxes, whose colours then have a scale of their own.
    const values = part.value.filter((_, place) => part.visits[place] > part.visits[0] / 200);
    this.range = part.bounds[1] - part.bounds[0] > 2 ? [Math.min(...values), Math.max(...values)] : [-1, 1];
    this.#selected = kept === null ? null : root.descendants().find((node) => this.#path(node).join() === kept) ?? null;
    this.#draw();
    this.#tell();
  }

  #draw() {
    const { canvas } = this, width = canvas.parentElement.clientWidth, root = this.#part;
    const height = (root ? root.height + 1 : 3) * ROW, scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    this.find(".key").innerHTML = keyOf(this.game.players);
    context.font = "13px system-ui";
    context.textBaseline = "middle";
    if (!root) {
      context.fillStyle = ink("--soft");
      context.textAlign = "center";
      context.fillText("No tree yet", width / 2, height / 2);
      return;
    }
    for (const node of root.descendants()) {
      const { x0, x1, y0, y1 } = node, { flags, value, action, name } = node.data;
      const shade = Math.round(onScale(value, this.range) * 20) / 20;
      context.fillStyle = valueColour(shade);
      context.fillRect(x0, y0, Math.max(0.7, x1 - x0 - (x1 - x0 > 4 ? 1 : 0.3)), y1 - y0 - 1);
      const label = node.parent ? this.#name(action, name) + (flags & 4 ? " ✓" : "") : this.#line(node).at(-1) ?? "start";
      if (x1 - x0 > context.measureText(label).width + 8) {
        context.fillStyle = inkOn(shade);
        context.textAlign = "center";
        context.fillText(label, (x0 + x1) / 2, (y0 + y1) / 2);
      }
    }
    if (this.#selected) {
      const { x0, x1, y0, y1 } = this.#selected;
      context.strokeStyle = "#d6216b";
      context.lineWidth = 3;
      context.strokeRect(x0 + 1.5, y0 + 1.5, Math.max(2, x1 - x0 - 4), y1 - y0 - 4);
    }
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return this.#part?.descendants().find((node) => node.x0 <= x && x < node.x1 && node.y0 <= y && y < node.y1) ?? null;
  }

  #tell() {
    const node = this.#selected, what = this.find("#tree-node");
    if (!this.#part) { what.textContent = ""; return; }
    const shown = `${count(this.#part.descendants().length)} of ${count(this.total)} nodes are wide enough to be seen`;
    if (!node) { what.textContent = `${shown}. Choose a box.`; return; }
    const line = this.#line(node).join(" ") || "the start";
    what.textContent = `${line}: ${count(node.data.visits)} visits, value ${signed(inUnits(node.data.value, this.bounds))} for ${this.game.players[0]}. ${shown}.`;
  }

  #choose(node) {
    if (!node) return;
    this.#selected = node;
    this.#draw();
    this.#tell();
    const { id } = this.runner, path = this.#path(node);
    trying(async () => {
      const full = await post(`searches/${id}/node`, { path });
      if (id === this.runner.id && this.#selected && this.#path(this.#selected).join() === path.join()) this.#show(full);
    });
  }

  #show(full) {
    const { board } = this.game.opened, picture = this.find(".node engram-board"), text = this.find(".node pre");
    this.find(".node").hidden = false;
    picture.hidden = !board;
    text.hidden = !!board;
    if (board) {
      if (this.shownBoard !== JSON.stringify(board)) { picture.board = board; this.shownBoard = JSON.stringify(board); }
      const path = this.#path(this.#selected);
      picture.show(full.position, { last: path.at(-1) ?? this.game.action, playable: false });
    } else text.textContent = full.position.diagram;
    const cell = (value) => (value === null ? "–" : Array.isArray(value) ? value.map(cell).join(", ") : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value !== "number" ? safe(value) : Number.isInteger(value) ? count(value) : (Math.abs(value) < 100 ? value.toFixed(4) : value.toPrecision(6)).replace("-", "−"));
    const rows = (fields) => Object.entries(fields).map(([name, value]) => `<tr><th scope="row">${safe(name.replaceAll("_", " ").replace("player 0", this.game.players[0]))}</th><td class="number">${cell(value)}</td></tr>`).join("");
    const tables = [["Node", full.record], ...Object.entries(full.columns).map(([name, fields]) => [`Column ${name.replaceAll("_", " ")}`, fields])];
    const children = full.children.length ? `<table><caption>Children</caption><thead><tr><th scope="col">Move</th><th scope="col" class="number">Visits</th><th scope="col" class="number">Value for ${safe(this.runner.players[0])}</th></tr></thead><tbody>${full.children.map(([, name, visits, value]) => `<tr><th scope="row">${safe(name)}</th><td class="number">${count(visits)}</td><td class="number">${signed(value, 3)}</td></tr>`).join("")}</tbody></table>` : "";
    this.find("#node-title").textContent = full.moves.length ? `After ${full.moves.join(" ")}` : "The start of the search";
    this.find(".figures").innerHTML = tables.map(([title, fields]) => `<table><caption>${safe(title)}</caption><tbody>${rows(fields)}</tbody></table>`).join("") + children;
  }

  #enlarge(node) {
    if (!node?.parent) return;
    this.along = this.#line(node);
    this.#top = this.#path(node);
    this.#selected = null;
    this.#crumbs();
    this.#ask();
  }

  #climb(length) {
    if (length >= this.#top.length) return;
    this.find(".icicle").focus({ preventScroll: true }); // the crumb goes
    this.#top = this.#top.slice(0, length);
    this.#selected = null;
    this.#crumbs();
    this.#ask();
  }

  #crumbs() {
    this.find(".crumbs").innerHTML = this.#top.length
      ? ["start", ...this.#top.map((action, number) => this.#name(action, this.along[number]))].map((name, length) => `<button type="button" data-length="${length}" ${length === this.#top.length ? `aria-current="true"` : ""}>${safe(name)}</button>`).join("")
      : `<span class="hint">A double click, or Enter, enlarges a box.</span>`;
  }

  #onKey(event) {
    if (!this.#part) return;
    const node = this.#selected ?? this.#part, siblings = node.parent?.children ?? [node], place = siblings.indexOf(node);
    const target = { ArrowDown: this.#selected ? node.children?.[0] : node, ArrowUp: node.parent, ArrowLeft: siblings[place - 1], ArrowRight: siblings[place + 1] }[event.key];
    if (event.key.startsWith("Arrow")) event.preventDefault();
    if (target) this.#choose(target);
    if (event.key === "Enter") this.#enlarge(node);
    if (event.key === "Escape") this.#climb(this.#top.length - 1);
  }
}
