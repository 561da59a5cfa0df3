// The view to play and to analyse.

import { post } from "./api.js";
import { HEATS, heatOf, legendOf } from "./board.js";
import { element, renew, safe, say, tick, trying } from "./html.js";
import { STARTS, progressOf, turnOf } from "./moves.js";
import { RemoteSearch } from "./remote_search.js";
import { Review } from "./review.js";
import { keep, recall } from "./storage.js";

const KEY = "engram.play";
const THINKS = ", the engine is thinking";
const SLIDES = ["left", "right", "up", "down"], SWIPE = 30; // CSS pixels

/** The choices that were kept, except from a damaged storage or another version, or where an option was typed since. */
function keptChoices(setup) {
  try {
    const choice = { ...recall(KEY) };
    if (!["both", "0", "1"].includes(choice.human)) delete choice.human;
    if (!setup.levels[choice.level]) delete choice.level;
    const isOlder = setup.typed.includes("search") && choice.server !== setup.server;
    if (isOlder || typeof choice.search !== "string") delete choice.search;
    if (!HEATS.some(([value]) => value === choice.heat)) delete choice.heat;
    return choice;
  } catch {
    return {};
  }
}

export class Play {
  #thinking = null; // the search under way
  #snapshots = new WeakMap(); // the last one of each node

  constructor(game, setup) {
    this.game = game;
    this.setup = setup;
    this.kept = keptChoices(setup);
    this.choice = { human: "both", level: 2, search: setup.search, heat: "visits", ...this.kept };
    this.element = element(`<div class="play">
      <section class="table" aria-label="Board">
        <p class="turn" role="status" aria-live="polite"></p><p class="said unseen" role="status" aria-live="polite"></p>
        <engram-board role="group" aria-label="Board: arrow keys move, Enter plays"></engram-board>
        <div class="plain" hidden><pre tabindex="0" aria-label="Position"></pre></div>
        <div class="others row"></div>
        <div class="row steps" role="group" aria-label="Moves back and forth">
          <button type="button" data-step="-9999" aria-label="To the start" title="To the start">«</button>
          <button type="button" data-step="-1" aria-label="One move back" title="One move back (Page Up)">‹</button>
          <button type="button" data-step="1" aria-label="One move on" title="One move on (Page Down)">›</button>
          <button type="button" data-step="9999" aria-label="To the end" title="To the end">»</button>
          <span class="grow"></span>
          <button type="button" class="undo">Undo</button>
        </div>
        <p class="history" aria-label="Moves of the game"></p>
      </section>
      <section class="panel" aria-labelledby="play-title">
        <h2 id="play-title">Game</h2><p class="hint name-of-game"></p>
        <div class="fields">
          <label>You play <select class="human"></select></label>
          <label>Level <select class="level">${setup.levels.map((level, k) => `<option value="${k}">${level.name}</option>`).join("")}</select></label>
        </div>
        <div class="row">
          <button type="button" class="new primary">New game …</button>
          <button type="button" class="link">Copy link</button>
          <button type="button" class="save" hidden>Save SGF</button>
          <label class="button load" hidden>Open SGF<input type="file" accept=".sgf" class="unseen"></label>
        </div>
      </section>
      <section class="panel analysis" aria-labelledby="analysis-title">
        <h2 id="analysis-title">Analysis</h2>
        <div class="fields">
          <label class="wide">Search <input class="search" list="searches" spellcheck="false" autocomplete="off"></label>
          <label>Show on the board <select class="heat">${HEATS.map(([value, name]) => `<option value="${value}">${name}</option>`).join("")}</select></label>
          <button type="button" class="think primary">Analyse</button>
        </div>
        <p class="hint about-search"></p>
        <p class="legend"></p>
        <p class="progress" role="status" aria-live="off"></p>
        <engram-moves></engram-moves>
        <p class="hint point">Point at a move to see its line on the board.</p>
      </section>
      <section class="panel" aria-labelledby="value-title">
        <h2 id="value-title">Value over the game</h2>
        <engram-curve class="values"></engram-curve>
      </section>
      <dialog class="new-game" aria-labelledby="new-title"><form method="dialog">
        <h2 id="new-title">New game</h2>
        <label>Game <select name="game">${setup.games.map((game) => `<option value="${game.name}">${safe(game.name.replaceAll("_", " "))}</option>`).join("")}<option value="">another, by its text …</option></select></label>
        <p class="about"></p>
        <div class="options fields"></div>
        <div class="row end"><button type="button" class="cancel">Cancel</button><button value="start" class="primary">Start</button></div>
      </form></dialog>
    </div>`);
    const find = (selector) => this.element.querySelector(selector);
    this.find = find;
    this.review = new Review(game, () => this.choice.search, this.#snapshots);
    find(".values").after(this.review.element);
    this.review.addEventListener("go", (event) => {
      find(".table").scrollIntoView({ block: "nearest" });
      this.#leave(() => game.goTo(event.detail));
    });
    this.review.addEventListener("position", ({ detail: node }) => {
      if (node === game.at && game.isShown && !this.#thinking) { this.#draw(); return; }
      this.#drawHistory();
      this.#drawValues();
      this.review.draw();
    });
    this.board = find("engram-board");
    this.moves = find("engram-moves");
    this.board.addEventListener("move", (event) => this.#play(event.detail));
    this.board.addEventListener("choose", (event) => this.#offer(event.detail));
    this.moves.addEventListener("play", (event) => this.#play(event.detail));
    this.moves.addEventListener("point", (event) => this.#point(event.detail));
    let touch = null; // where a finger began to swipe
    this.board.addEventListener("pointerdown", (event) => (touch = event));
    this.board.addEventListener("pointerup", ({ clientX, clientY }) => {
      const x = clientX - touch?.clientX, y = clientY - touch?.clientY, [along, way] = Math.abs(x) > Math.abs(y) ? [x, ["left", "right"]] : [y, ["up", "down"]];
      if (Math.abs(along) > SWIPE) this.#slide(way[+(along > 0)]);
    });
    find(".steps").addEventListener("click", (event) => {
      const by = event.target.closest("[data-step]")?.dataset.step;
      if (by) this.#leave(() => game.step(+by));
    });
    this.board.addEventListener("refuse", (event) => this.#refuse(event.detail));
    find(".undo").addEventListener("click", () => this.undo());
    find(".history").addEventListener("click", (event) => {
      const node = event.target.closest("[data-node]")?.dataset.node;
      if (node) this.#leave(() => game.goTo(+node));
    });
    for (const name of ["human", "level", "heat", "search"]) {
      const field = find(`.${name}`);
      field.value = this.choice[name];
      field.addEventListener("change", () => {
        this.#choose({ [name]: field.value });
        this.#draw();
        if (name !== "human" && !(name === "level" && this.#waits)) return;
        this.stop();
        this.#answer();
      });
    }
    find(".think").addEventListener("click", () => (this.#thinking ? this.#finish() : this.analyse()));
    find(".others").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) this.#play({ action: +button.dataset.key, name: button.textContent });
    });
    addEventListener("pagehide", () => this.stop());
    find(".new").addEventListener("click", () => this.#ask());
    find(".cancel").addEventListener("click", () => find(".new-game").close());
    find(".new-game select").addEventListener("change", () => this.#options());
    find(".new-game").addEventListener("close", () => this.#begin());
    find(".link").addEventListener("click", () => this.#link());
    find(".save").addEventListener("click", () => trying(() => this.#save()));
    find(".load input").addEventListener("change", (event) => trying(() => this.#load(event.target)));
    game.addEventListener("change", (event) => this.#changed(event.detail));
    document.addEventListener("keydown", (event) => {
      if (!this.element.isConnected || event.target.closest("input, select, textarea, dialog")) return;
      if (event.altKey || event.ctrlKey || event.metaKey) return; // the browser's own
      if (event.key.startsWith("Arrow") && this.#slide(event.key.slice(5).toLowerCase())) { event.preventDefault(); event.stopPropagation(); }
      const by = { PageUp: -1, PageDown: 1 }[event.key];
      if (by) { event.preventDefault(); this.#leave(() => game.step(by)); }
      if (event.key === "u" && event.target.closest(".table") && !find(".undo").disabled) this.undo();
    }, true);
    for (const name of ["focusin", "pointerdown"]) document.addEventListener(name, (event) => (this.hasFocus = this.element.contains(event.target)));
  }

  get players() { return this.game.players; }

  /** The last snapshot of the position on the board; null without a search of it. */
  get #snapshot() { return this.#snapshots.get(this.game.boardNode) ?? null; }

  #choose(choice) {
    Object.assign(this.choice, choice);
    keep(KEY, Object.assign(this.kept, choice, { server: this.setup.server }), "The choice");
  }

  /** Whether the engine thinks about its move. */
  get #waits() { return !!this.#thinking && !this.#thinking.analyses; }

  shown() { this.scrolledTo = null; this.#changed("open"); }
  hidden() { this.stop(); }

  // ------------------------------------------------------------- the game

  #changed(why) {
    if (!this.element.isConnected) return;
    if (this.game.isRecord) this.#choose({ human: "both" }); // no engine plays into a record
    this.game.isRecord = false;
    const { opened } = this.game;
    if (why === "new") { this.stop(); this.review.stop(); }
    if (this.choice.players !== opened.players) this.#choose({ players: opened.players, human: "both" });
    if (this.shownBoard !== JSON.stringify(opened.board)) {
      this.shownBoard = JSON.stringify(opened.board);
      this.board.board = opened.board;
    }
    // A person who looks back only looks, and may choose for nature.
    const goesOn = why === "new" || why === "move" || this.#isAtEnd;
    if (goesOn && opened.position.chances && this.drawn !== opened.position) this.#drawByChance();
    else if (goesOn) this.#answer();
    else this.#draw();
  }

  get #isAtEnd() { return !this.game.nodes[this.game.at].kids.length; }

  /** Nature moves by its chances. */
  #drawByChance() {
    const { position } = this.game, { legal, chances } = position;
    this.drawn = position;
    let left = Math.random();
    const drawn = chances.findIndex((chance) => (left -= chance) < 0);
    const [action, name] = legal[drawn < 0 ? chances.findIndex((chance) => chance > 0) : drawn];
    trying(() => this.game.play(name, action)).then(() => this.game.position === position && this.#draw());
  }

  #isEngine(player) {
    return player !== 2 && this.choice.human !== "both" && String(player) !== this.choice.human;
  }

  #draw() {
    const { game, find } = this, { opened, position } = game;
    const players = this.players, over = position.outcome !== null, waits = this.#waits;
    find(".turn").innerHTML = turnOf(opened) + (waits && !over ? THINKS : "");
    const { move } = game.nodes[game.at], said = move === null ? "" : `Move ${game.path().length - 1}: ${move}`;
    if (find(".said").textContent !== said) find(".said").textContent = said;
    if (position.note) find(".turn").append(` · ${position.note}`);
    find(".plain").hidden = !!opened.board;
    this.board.hidden = !opened.board;
    if (opened.board) {
      const isSlid = position.legal.some(([, name]) => SLIDES.includes(name));
      this.board.setAttribute("aria-label", isSlid ? "Board: arrow keys play" : "Board: arrow keys move, Enter plays");
      this.board.show(position, { last: game.action, playable: !over && !waits && !position.chances });
      this.board.heat = heatOf(this.#snapshot, this.choice.heat);
      this.board.line = [];
    } else {
      find("pre").textContent = position.diagram;
    }
    const elsewhere = this.#elsewhere();
    const onBoard = (this.onBoard = elsewhere.length < position.legal.length);
    renew(find(".others"), elsewhere.map(([action, name]) => `<button type="button" data-key="${action}" ${waits ? "disabled" : ""}>${safe(name)}</button>`).join(""));
    const names = find(".human");
    const sides = opened.players === 1 ? [["both", "yourself"], ["1", "the engine plays"]] : [["both", "both sides"], ...players.map((name, k) => [k, name])];
    names.innerHTML = sides.map(([value, name]) => `<option value="${value}">${safe(name)}</option>`).join("");
    names.value = this.choice.human;
    if (!names.value) names.value = "both";
    find(".save").hidden = find(".load").hidden = !opened.is_go;
    find(".undo").disabled = game.at === 0 && !game.before;
    find(".think").disabled = over || !!position.chances;
    find(".think").textContent = waits ? "Move now" : this.#thinking ? "Stop" : "Analyse";
    find(".name-of-game").textContent = opened.game;
    find(".heat").parentElement.hidden = !opened.board || (!onBoard && !over);
    find(".level").disabled = this.choice.human === "both";
    find(".about-search").textContent = this.setup.searches.find((search) => search.text === this.choice.search)?.about ?? "";
    this.#drawLegend();
    find(".progress").textContent = progressOf(this.#snapshot, players);
    this.moves.show(waits ? null : this.#snapshot, (action, line) => line[0]);
    find(".point").hidden = !this.#snapshot || waits || !onBoard;
    this.#drawHistory();
    this.#drawValues();
    this.review.draw();
    this.#keepFocus();
  }

  /** Gives the focus a new place where its button has gone, or can no longer be pressed. */
  #keepFocus() {
    const { activeElement } = document;
    if (!this.hasFocus || !(activeElement === document.body || activeElement.disabled)) return;
    if (!this.board.hidden) this.board.focusCell();
    else this.find(".others button:enabled")?.focus({ preventScroll: true });
  }

  /** The moves without a place on the board. */
  #elsewhere() {
    const { opened, position } = this.game;
    return position.legal.filter(([action]) => position.chances || !opened.board?.places[action]?.length);
  }

  /** Buttons for moves that share a place, so that the person can choose. */
  #offer(moves) {
    const buttons = [...moves.map(({ action, name }) => [action, name]), ...this.#elsewhere()];
    renew(this.find(".others"), buttons.map(([action, name]) => `<button type="button" data-key="${action}">${safe(name)}</button>`).join(""));
    say(`${moves.length} moves share this place: choose one below the board.`);
    this.find(".others button").focus();
  }

  #drawLegend() {
    this.find(".legend").textContent = this.onBoard ? legendOf(this.#snapshot, this.choice.heat) : "";
  }

  #drawHistory() {
    const { game } = this, line = game.line();
    const parts = line.slice(1).map((node, number) => {
      const { parent } = game.nodes[node], others = game.nodes[parent].kids.filter((kid) => kid !== node);
      const button = (kid, kind) => `<button type="button" class="${kind} ${kid === game.at ? "present" : ""}" ${kid === game.at ? `aria-current="step"` : ""} data-node="${kid}" data-key="${kid}">${safe(game.nodes[kid].move)}${this.review.markOf(kid)}</button>`;
      const branch = others.length ? `<span class="branch" title="other moves that were tried">(${others.map((kid) => button(kid, "variation")).join("")})</span>` : "";
      return `<span class="move">${number % 2 ? "" : `<small>${number / 2 + 1}.</small>`}${button(node, "main")}${branch}</span>`;
    });
    renew(this.find(".history"), parts.join(" ") || `<span class="hint">No moves yet.</span>`);
    const box = this.find(".history"), present = box.querySelector(".present");
    if (present && this.scrolledTo !== present.dataset.node) box.scrollTop = Math.max(0, present.offsetTop - box.offsetTop - box.clientHeight / 2);
    this.scrolledTo = present?.dataset.node;
  }

  #drawValues() {
    const { game } = this, line = game.line(), values = line.map((node) => game.nodes[node].value);
    const has = values.some((value) => value !== null);
    this.find(".values").show(`Value for ${this.players[0]} over the moves of the game`,
      has ? [line.map((_, number) => number), values] : [[], []],
      [{ label: `value for ${this.players[0]}`, colour: "--accent", points: true }],
      { x: "moves", y: `for ${this.players[0]}`, low: Math.min(-1, ...values), high: Math.max(1, ...values), lines: [0], range: [0, Math.max(4, line.length - 1)], format: tick,
        values: (_, splits) => splits.map((split) => (Number.isInteger(split) ? split : "")),
        empty: "Analyse, or play against the engine: each search adds its value.",
        click: (number) => number !== null && this.#leave(() => game.goTo(line[number])) });
  }

  /** Plays the move of this name, such as "left", and returns whether there is one now. */
  #slide(name) {
    const move = SLIDES.includes(name) && !this.#waits && this.game.position.legal.find((entry) => entry[1] === name);
    if (move) this.#play({ action: move[0], name });
    return !!move;
  }

  #play(move) {
    return this.#leave(() => this.game.play(move.name, move.action));
  }

  /** Ends what goes on, and then changes the position. */
  #leave(change) {
    this.resumes ||= this.#thinking?.analyses;
    this.stop();
    return trying(async () => {
      try {
        await change();
      } finally { // also where it was refused, or the position is the same as before
        if (this.game.isShown && !this.#thinking && this.#isAtEnd) this.#answer();
      }
      if (!this.game.isShown) return; // the person went on, and so does the analysis
      const { resumes } = this, { outcome, to_play } = this.game.position;
      this.resumes = false;
      if (resumes && outcome === null && !this.#isEngine(to_play)) this.analyse();
    });
  }

  undo() {
    const { game } = this, { human, players } = this.choice, alone = players === 1 && human !== "both";
    if (game.at === 0) return this.#leave(() => game.takeBack()); // a new game can be undone, too
    // Back to a person's move, past those of the engine and of nature; an engine that plays alone pauses.
    return this.#leave(async () => {
      do {
        const { parent } = game.nodes[game.at];
        await game.goTo(parent);
        if (!game.isShown || game.at !== parent) return; // another undo goes on
      } while (game.at && (game.position.chances || (!alone && this.#isEngine(game.position.to_play))));
      if (!alone) this.#answer();
    });
  }

  // ------------------------------------------------------------- searches

  async #search(fields, analyses) {
    const node = this.game.nodes[this.game.at], wait = analyses ? null : (sentence) => say(sentence, { bad: true });
    const thinking = (this.#thinking = new RemoteSearch({ ...this.game.fields, ...fields }, { wait }));
    Object.assign(thinking, { analyses, node });
    if (!analyses) this.#snapshots.delete(node);
    try {
      return await thinking.run((snapshot) => this.#take(snapshot, node));
    } finally {
      if (this.#thinking === thinking) {
        this.#interrupt(thinking);
        this.#thinking = null;
      }
    }
  }

  /** Marks the snapshot of a search that still runs as its last. */
  #interrupt({ node }) {
    const snapshot = this.#snapshots.get(node);
    if (snapshot?.stopped === "running") snapshot.stopped = "interrupted";
  }

  #take(snapshot, node) {
    this.#snapshots.set(node, snapshot.error ? null : snapshot);
    if (snapshot.error) return say(snapshot.error, { bad: true });
    this.game.note({ value: snapshot.player === 0 ? snapshot.value : -snapshot.value }, node);
    const { find } = this;
    find(".progress").textContent = progressOf(snapshot, this.players);
    if (this.#thinking?.analyses) {
      if (this.game.opened.board) this.board.heat = heatOf(snapshot, this.choice.heat);
      this.#drawLegend();
      this.moves.show(snapshot, (action, line) => line[0]);
      find(".point").hidden = !this.onBoard;
    }
    this.#drawValues();
  }

  analyse() {
    return trying(async () => {
      const ended = this.#search({ search: this.choice.search, seed: 0 }, true);
      this.find(".think").textContent = "Stop";
      this.find(".analysis .progress").textContent = STARTS;
      try {
        await ended;
      } finally {
        if (!this.#thinking) {
          this.find(".think").textContent = "Analyse";
          this.find(".analysis .progress").textContent = progressOf(this.#snapshot, this.players);
        }
      }
    });
  }

  /** The engine moves, if it is its turn. */
  #answer() {
    const { position } = this.game;
    if (this.#thinking || position.outcome !== null || !this.#isEngine(position.to_play)) { this.#draw(); return; }
    trying(async () => {
      const { simulations } = this.setup.levels[this.choice.level];
      const at = this.game.at, seed = crypto.getRandomValues(new Uint32Array(1))[0];
      const searching = this.#search({ search: this.choice.search, simulations, seed }, false), thinking = this.#thinking;
      this.#draw();
      const last = await searching;
      if (!last || last.error || this.game.at !== at) return;
      if (last.stopped === "interrupted" && !thinking.ends) { this.#answer(); return; } // by the server, which ended
      this.find(".think").disabled = true; // until the move is on the board
      await this.game.play(last.name, last.action);
    }).then(() => !this.#waits && this.find(".turn").textContent.includes(THINKS) && this.#draw());
  }

  /** Ends the search, and still waits for its last message, by which the engine moves. */
  #finish() {
    if (this.#waits || this.#thinking.id) this.#thinking.finish();
    else this.stop();
  }

  /** Ends the search and hears no more of it. */
  stop() {
    const thinking = this.#thinking;
    this.#thinking = null;
    if (!thinking) return;
    thinking.drop();
    this.find(".think").textContent = "Analyse";
    this.#interrupt(thinking);
    if (thinking.node === this.game.boardNode) this.find(".progress").textContent = progressOf(this.#snapshot, this.players);
  }

  /** Says why a cell that was pressed is no move. */
  #refuse(cell) {
    const { position } = this.game;
    say(position.outcome !== null ? "The game is over." : this.#waits ? "The engine is thinking about its move." : `${cell} is not a legal move now.`);
  }

  #point(move) {
    if (this.game.opened.board) this.board.line = move ? move[10] : [];
  }

  // ------------------------------------------------------------- new game, files, link

  #ask() {
    const dialog = this.find(".new-game");
    dialog.querySelector("select").value = this.setup.games.find((game) => game.name === this.game.game.split(":")[0])?.name ?? "";
    dialog.returnValue = "";
    this.#options();
    dialog.showModal();
  }

  #options() {
    const dialog = this.find(".new-game"), name = dialog.querySelector("select").value;
    const game = this.setup.games.find((entry) => entry.name === name);
    dialog.querySelector(".about").textContent = game?.about ?? "A game by its text, such as openspiel:breakthrough or line:rows=5,columns=5,run=4.";
    const names = Object.keys(game?.options ?? {}), texts = (this.game.game.split(":")[1] ?? "").split(",").filter(Boolean);
    const given = Object.fromEntries(texts.map((text, at) => (text.includes("=") ? text.split("=") : [names[at], text])));
    const value = (key, usual) => (this.game.game.split(":")[0] === name && given[key] !== undefined ? given[key] : usual);
    dialog.querySelector(".options").innerHTML = game
      ? Object.entries(game.options).map(([key, usual]) => typeof usual === "boolean"
        ? `<label class="check"><input type="checkbox" name="${key}" ${String(value(key, usual)) === "true" ? "checked" : ""}> ${key.replaceAll("_", " ")}</label>`
        : `<label>${key.replaceAll("_", " ")} <input type="number" step="any" name="${key}" value="${safe(value(key, usual))}" required></label>`).join("")
      : `<label class="wide">Text <input name="text" value="${safe(this.game.game)}" spellcheck="false" required></label>`;
  }

  #begin() {
    const dialog = this.find(".new-game");
    if (dialog.returnValue !== "start") return;
    const name = dialog.querySelector("select").value;
    const options = [...dialog.querySelectorAll(".options input")].filter((input) => input.name !== "text")
      .map((input) => `${input.name}=${input.type === "checkbox" ? input.checked : input.value}`);
    const text = name ? name + (options.length ? `:${options.join(",")}` : "") : dialog.querySelector("[name=text]").value;
    this.#leave(() => this.game.load({ game: text, start: "", moves: [] }));
  }

  async #link() {
    const link = this.game.link();
    try {
      await navigator.clipboard.writeText(link);
      say("The link to this position is on the clipboard.");
    } catch {
      history.replaceState(null, "", link.slice(location.origin.length));
      say("The link to this position is in the address bar.");
    }
  }

  async #save() {
    const { game } = this, moves = game.line().slice(1).map((node) => game.nodes[node].move);
    const { sgf } = await post("sgf/write", { ...game.fields, moves, ...this.review.notes() });
    const link = element(`<a download="game.sgf"></a>`);
    link.href = URL.createObjectURL(new Blob([sgf], { type: "application/x-go-sgf" }));
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  async #load(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    if (file.size > 500_000) return say("An SGF file may have at most 500,000 bytes here.", { bad: true });
    const line = await post("sgf/read", await file.arrayBuffer()), missing = new Intl.ListFormat("en").format(line.left_out);
    await this.#leave(async () => {
      await this.game.load({ ...line, isFile: true });
      say(`${file.name}: ${line.moves.length} moves${missing && `; its ${missing} are left out`}`);
    });
  }
}
