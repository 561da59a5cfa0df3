// The view of the results database: matches, ratings, trainings and studies, live, from any process that records.

import { get, post } from "./api.js";
import { drawCurves } from "./charts.js";
import { count, element, percent, renew, safe, say, signed, tick, trying, units } from "./html.js";

const EVERY_MS = 2000, WIDTH = 120, MOST_GAMES = 10_000; // of one answer
/** A game's result: one player reaches a return, two win or lose. */
const resultOf = ({ outcome, players }) => (players === 1 ? units(outcome) : outcome > 0 ? "A wins" : outcome < 0 ? "B wins" : "a draw");
const setting = (value) => typeof value === "string" ? safe(value) : (Number.isInteger(value) ? count(value) : value.toPrecision(3)).replace("-", "−");
const elo = (number) => (number === null ? "∞" : signed(number, 0));
/** The cells of a match's score and Elo; of one player's means and their difference. */
function strength(match) {
  const { means, score, score_low, score_high } = match;
  if (match.players === 1) {
    if (!means) return `<td>–</td><td>–</td>`;
    const [low, high] = [means.low ?? -Infinity, means.high ?? Infinity].map((end) => (Number.isFinite(end) ? signed(end) : end < 0 ? "−∞" : "∞"));
    const mean = (number) => (number === null ? "–" : units(number));
    return `<td class="value">${mean(means.a)}<br><small>against ${mean(means.b)}</small></td><td class="value">${means.difference === null ? "–" : signed(means.difference)} <small>[${low}, ${high}]</small></td>`;
  }
  const about = `between ${percent(score_low)} and ${percent(score_high)}`, sign = (text) => text.replace("∞", "−∞");
  return `<td class="value">${whisker(score, score_low, score_high, 0, 1, 0.5, about)} ${percent(score)}</td><td class="value">${score < 0.5 ? sign(elo(match.elo)) : elo(match.elo)} <small>[${sign(elo(match.elo_low))}, ${elo(match.elo_high)}]</small></td>`;
}

/** A point with its interval on a scale from `low` to `high`; without a text it is beside its numbers. */
function whisker(value, from, to, low, high, middle, text = "") {
  const x = (number) => ((Math.min(Math.max(number, low), high) - low) / (high - low) * (WIDTH - 8) + 4).toFixed(1);
  const cap = (number) => (number === null ? "" : `M${x(number)} 4V12`); // an end without a bound has none
  return `<svg class="whisker" viewBox="0 0 ${WIDTH} 16" width="${WIDTH}" height="16" ${text ? `role="img"><title>${safe(text)}</title>` : `aria-hidden="true">`}<path class="zero" d="M${x(middle)} 1V15"/><path d="M${x(from ?? low)} 8H${x(to ?? high)}${cap(from)}${cap(to)}"/><circle cx="${x(value)}" cy="8" r="3.5"/></svg>`;
}

export class Matches {
  #timer = 0;
  #open = null; // the number of the match that is shown
  #shown = null; // what its curves were drawn from
  #listing = 0; // the latest request for its games
  #ratings = "";
  #learned = new Map(); // by the name of a study

  constructor(game, setup) {
    this.game = game;
    const field = (name, label, value, more = "") => `<label>${label} <input name="${name}" value="${safe(value)}" ${more}></label>`;
    this.element = element(`<div class="matches">
      <section class="panel" aria-labelledby="matches-title"><h2 id="matches-title">Matches</h2>
        <p class="hint where"></p>
        <details class="start"><summary>Start a match</summary><form>
          <div class="fields">${field("game", "Game", setup.game, "required")}${field("a", "Player A", setup.search, `list="searches" required`)}${field("b", "Player B", "uct(exploration=0.5)", `list="searches" required`)}</div>
          <div class="fields">${field("games", "Games, an even number", 100, `type="number" min="2" step="2"`)}${field("simulations", "Simulations a move", 500, `type="number" min="1"`)}${field("seed", "Seed", 0, `type="number" min="0"`)}${field("workers", "Processes", 1, `type="number" min="1"`)}${field("sprt", "Early stop (SPRT), optional", "", `placeholder="elo0=0,elo1=30"`)}</div>
          <div class="row"><button class="primary">Start the match</button><span class="hint">A start with the same fields continues a match. It goes on after this page is closed.</span></div>
        </form></details>
        <div class="runs"></div>
        <div class="scroll tall" tabindex="0" role="region" aria-label="Matches of the database"><table class="all"></table></div>
      </section>
      <section class="panel match" aria-labelledby="match-title" hidden><h2 id="match-title"></h2>
        <p class="verdict" role="status"></p>
        <div class="halves"><div class="strength"><h3>Elo of A over the games, with its 95 % interval</h3><engram-curve class="elo"></engram-curve></div>
          <div class="test"><h3>Log-likelihood ratio; the test ends when it reaches a dashed bound</h3><engram-curve class="llr"></engram-curve></div></div>
        <h3>Games</h3>
        <div class="halves"><div><div class="scroll tall" tabindex="0" role="region" aria-label="Games of the match"><table class="games"></table></div>
            <button type="button" class="more quiet">More games</button></div>
          <div class="viewer" hidden><p class="turn" role="status"></p>
            <engram-board role="group" aria-label="A game of the match"></engram-board><pre tabindex="0" aria-label="Position" hidden></pre>
            <div class="row" role="group" aria-label="Moves back and forth">${[["-9999", "To the start", "«"], ["-1", "One move back", "‹"], ["1", "One move on", "›"], ["9999", "To the end", "»"]].map(([by, label, sign]) => `<button type="button" data-step="${by}" aria-label="${label}">${sign}</button>`).join("")}
            <button type="button" class="take">Take to Play</button></div><p class="hint line"></p></div></div>
      </section>
      <div class="ratings"></div></div>`);
    this.find = (selector) => this.element.querySelector(selector);
    this.find("form").addEventListener("submit", (event) => { event.preventDefault(); trying(() => this.#start(event.target)); });
    this.find(".runs").addEventListener("click", (event) => {
      const id = event.target.closest("button")?.closest("[data-key]").dataset.key;
      if (id) trying(async () => { await post(`runs/${id}/stop`); await this.#look(); });
    });
    this.find(".all").addEventListener("click", (event) => {
      const number = event.target.closest("button")?.closest("[data-key]").dataset.key;
      if (number && event.detail < 2) this.#show(+number); // the page has scrolled before the second click of a double one
    });
    this.find(".games").addEventListener("click", (event) => {
      const number = event.target.closest("[data-game]")?.dataset.game;
      if (number) trying(() => this.#view(+number));
    });
    this.find(".more").addEventListener("click", () => { this.wanted += 40; trying(() => this.#list()); });
    this.find(".viewer .row").addEventListener("click", (event) => {
      const by = event.target.closest("[data-step]")?.dataset.step;
      if (by) trying(() => this.#step(+by));
    });
    this.find(".take").addEventListener("click", () => trying(async () => {
      const { at, game } = this, play = document.querySelector("[data-view=play]");
      await game.load({ game: this.viewed.game, start: "", moves: this.viewed.moves });
      await game.goTo(game.path()[at]);
      play.click();
      play.focus();
    }));
  }

  shown() { this.#look(); }
  hidden() { clearTimeout(this.#timer); }

  async #look() {
    clearTimeout(this.#timer);
    const now = await trying(() => get("matches"));
    if (now) {
      this.now = now;
      this.#draw();
      // The other figures follow from the games and the points of trainings that are recorded.
      // They wait for a button that is pressed, and for one that is disabled until its answer comes.
      const key = now.matches.map((match) => `${match.id}:${match.games}`).join() + now.points;
      if (key !== this.#ratings && !this.find(".ratings :is(:active, :disabled)")) { this.#ratings = key; await trying(() => this.#drawRatings()); }
    }
    if (this.element.isConnected) this.#timer = setTimeout(() => this.#look(), EVERY_MS);
  }

  #draw() {
    const { matches, runs, database } = this.now;
    this.find(".where").textContent = matches.length ? `From ${database}, recorded by any process; new games appear by themselves.` : `${database} holds no matches yet: start one here, or with engram match.`;
    renew(this.find(".runs"), runs.slice(0, 6).map((run) => `<div data-key="${safe(run.id)}" class="run ${run.failed ? "bad" : ""}"><div class="row"><b>${run.running ? "playing" : run.failed ? "failed" : run.stopped ? "stopped" : "ended"}</b><code>${safe(run.command)}</code><span class="grow"></span>${run.running ? `<button type="button">Stop</button>` : ""}</div>${run.failed ? `<p>${safe(run.lines.at(-1) ?? "")}</p>` : ""}</div>`).join(""));
    const hasMeans = matches.some((match) => match.players === 1);
    const head = `<thead><tr><th scope="col">Match</th><th scope="col">A against B</th><th scope="col" class="number">Games</th><th scope="col">Score of A, 95 %${hasMeans ? "; mean return" : ""}</th><th scope="col">Elo${hasMeans ? "; difference" : ""}</th><th scope="col">Test</th></tr></thead>`;
    const rows = matches.map((match) => {
      const button = `<button type="button" aria-label="Show match ${match.id}" ${match.id === this.#open ? `aria-current="true"` : ""}>${match.id}</button>`;
      if (match.error) return `<tr><th scope="row">${safe(match.id)}</th><td colspan="5">${safe(match.error)}</td></tr>`;
      const test = match.sprt ? `${whisker(match.sprt.llr, Math.min(0, match.sprt.llr), Math.max(0, match.sprt.llr), match.sprt.lower, match.sprt.upper, 0)}<small>${match.sprt.decision ? `accepts ${match.sprt.decision === "elo1" ? match.elo1 : match.elo0}` : `LLR ${signed(match.sprt.llr, 2)}`}</small>` : `<span class="hint">none</span>`;
      return `<tr data-key="${match.id}" class="${match.id === this.#open ? "open" : ""}"><th scope="row">${button}</th><td class="names">${safe(match.a.player)}<br>${safe(match.b.player)}<br><small>${safe(match.game)}, ${safe(match.budget)} a move</small></td><td class="number">${count(match.games)}<br><small>of ${count(match.asked)}</small></td>${strength(match)}<td class="value">${test}</td></tr>`;
    });
    renew(this.find(".all"), matches.length ? head + `<tbody>${rows.join("")}</tbody>` : "");
    const open = matches.find((match) => match.id === this.#open);
    const state = open && `${open.id}:${open.games}`;
    if (open && state !== this.#shown) { this.#shown = state; trying(() => this.#curves(open)); trying(() => this.#list()); }
  }

  async #start(form) {
    const fields = Object.fromEntries(new FormData(form));
    for (const name of ["games", "simulations", "seed", "workers"]) fields[name] = fields[name] === "" ? undefined : Math.round(+fields[name]);
    const run = await post("runs", fields);
    say(`Started: ${run.command}`);
    await this.#look();
  }

  #show(number) {
    const { find } = this;
    this.#open = number;
    this.#shown = null;
    find(".match").hidden = false;
    find(".viewer").hidden = true;
    find(".games").innerHTML = "";
    this.wanted = 40;
    this.#draw();
    find(".match").scrollIntoView({ block: "nearest" });
  }

  async #curves(open) {
    const match = await get(`matches/${open.id}`);
    if (match.id !== this.#open) return;
    this.find("#match-title").textContent = `Match ${match.id}: ${match.a.player} against ${match.b.player}`;
    const isAlone = match.players === 1, [won, drawn, lost] = [match.wins, match.draws, match.losses].map((games) => count(isAlone ? games / 2 : games));
    this.find(".verdict").textContent = `${match.verdict}. A: ${isAlone ? `more in ${won} pairs, as much in ${drawn}, less in ${lost}` : `${won} won, ${drawn} drawn, ${lost} lost`}.`;
    this.find(".strength").hidden = isAlone;
    const columns = match.curve.length ? match.curve[0].map((_, place) => match.curve.map((row) => row[place])) : [[], [], [], [], [], [], [], []];
    // Where one side has won all games, there is no Elo, and an end of the interval is infinite.
    const bound = (number, low) => (number === null ? (low ? -800 : 800) : Math.max(-800, Math.min(800, number)));
    const isCut = match.curve.some((row) => row.slice(4, 7).some((number) => number === null || Math.abs(number) > 800));
    this.find(".elo").show("Elo of A with its 95 % interval over the games", [columns[0], columns[6].map((x) => bound(x)), columns[5].map((x) => bound(x, true)), columns[4].map((x) => (x === null ? null : bound(x)))],
      [{ label: "", colour: "--band", width: 1, band: [1, 2], points: false }, { label: "", colour: "--band", width: 1, points: false }, { label: "Elo", colour: "--accent" }],
      { x: "games", y: isCut ? "Elo of A, cut at ±800" : "Elo of A", lines: [0], format: (value) => signed(value, 0) });
    this.find(".test").hidden = !match.sprt;
    if (match.sprt) this.find(".llr").show("Log-likelihood ratio between its bounds", [columns[0], columns[7]], [{ label: "LLR", colour: "--accent" }],
      { x: "games", y: "LLR", low: Math.min(match.sprt.lower * 1.1, match.sprt.llr), high: Math.max(match.sprt.upper * 1.1, match.sprt.llr), lines: [match.sprt.lower, match.sprt.upper], format: tick });
  }

  /** The first games; several processes record them in any order, so that new ones may stand between those shown. */
  async #list() {
    const request = ++this.#listing, { games } = await post(`matches/${this.#open}/games`, { count: this.wanted });
    if (request !== this.#listing) return;
    const rows = games.map((game) => `<tr data-key="${game.number}"><th scope="row"><button type="button" data-game="${game.number}" aria-label="Show game ${+game.number}">${+game.number}</button></th><td>${safe(game.first)}</td><td>${resultOf(game)}${game.reason === "end" ? "" : `<br><small>${safe(game.reason)}</small>`}</td><td class="number">${game.moves}</td></tr>`);
    renew(this.find(".games"), `<thead><tr><th scope="col">Game</th><th scope="col">First</th><th scope="col">Result</th><th scope="col" class="number">Moves</th></tr></thead><tbody>${rows.join("")}</tbody>`);
    this.find(".more").hidden = games.length < this.wanted || this.wanted >= MOST_GAMES;
  }

  async #view(number) {
    this.viewed = await post(`matches/${this.#open}/games`, { number });
    this.viewed.number = number;
    this.find(".viewer").hidden = false;
    this.at = this.viewed.moves.length;
    await this.#step(0);
  }

  async #step(by) {
    const { viewed, find } = this;
    this.at = Math.max(0, Math.min(viewed.moves.length, this.at + by));
    const at = this.at, opened = await post("position", { game: viewed.game, moves: viewed.moves.slice(0, at) });
    if (at !== this.at || viewed !== this.viewed) return;
    const board = find(".viewer engram-board"), text = find(".viewer pre");
    board.hidden = !opened.board;
    text.hidden = !!opened.board;
    text.textContent = opened.position.diagram;
    if (opened.board) {
      if (board.kept !== JSON.stringify(opened.board)) { board.board = opened.board; board.kept = JSON.stringify(opened.board); }
      board.show(opened.position, { last: opened.actions.at(-1) ?? null, playable: false });
    }
    find(".viewer .turn").textContent = `Game ${viewed.number}: ${viewed.players === 1 ? `${viewed.first} plays` : `${viewed.first} moves first`}, ${resultOf(viewed)}. After ${at} of ${viewed.moves.length} moves${at > 0 && at <= viewed.opening ? ", in the random opening" : ""}.`;
    find(".viewer .line").innerHTML = viewed.moves.slice(0, at).map((name) => `<bdi>${safe(name)}</bdi>`).join(" ");
  }

  /** What a study has learned: a button asks for it, and the page keeps it until it is closed. */
  #showLearned(panel, name) {
    const learned = this.#learned.get(name);
    const button = element(`<p><button type="button">${learned ? "Learn from all trials again" : "Show what was learned"}</button></p>`);
    button.firstElementChild.addEventListener("click", () => trying(async () => {
      button.firstElementChild.disabled = true;
      button.append(" A posterior is being fitted; this takes some seconds …");
      try {
        this.#learned.set(name, (await post(`studies/${encodeURIComponent(name)}`)).html);
      } finally {
        panel.querySelector(".learned")?.remove();
        button.remove();
        this.#showLearned(panel, name);
      }
    }));
    panel.append(button);
    if (!learned) return;
    const place = element(`<div class="learned">${learned}</div>`);
    panel.append(place);
    drawCurves(place);
  }

  async #drawRatings() {
    const { leagues, trainings, studies } = await get("ratings");
    const place = this.find(".ratings");
    place.replaceChildren();
    for (const league of leagues) {
      const ends = league.rows.flatMap((row) => [row.elo_low, row.elo_high, row.elo]).filter((number) => number !== null);
      const low = Math.min(...ends, 0), high = Math.max(...ends, 1);
      place.append(element(`<section class="panel" aria-label="Ratings of ${safe(league.game)}, ${safe(league.budget)}"><h2>Ratings in ${safe(league.game)}, ${safe(league.budget)} a move</h2><div class="scroll tall" tabindex="0" role="region" aria-label="Ratings, ${safe(league.game)}, ${safe(league.budget)}"><table><thead><tr><th scope="col" class="number">Rank</th><th scope="col">Player</th><th scope="col">Elo, 95 %</th><th scope="col" class="number">Games</th><th scope="col" class="number">Points</th></tr></thead><tbody>${league.rows.map((row) => `<tr><td class="number">${row.rank}</td><th scope="row">${safe(row.player)}</th><td class="value">${row.elo === null ? "–" : whisker(row.elo, row.elo_low, row.elo_high, low, high, 0)} ${row.elo === null ? "" : `${elo(row.elo)} <small>[${elo(row.elo_low).replace("∞", "−∞")}, ${elo(row.elo_high)}]</small>`}</td><td class="number">${count(row.games)}</td><td class="number">${row.points}</td></tr>`).join("")}</tbody></table></div>${league.notes.map((note) => `<p class="hint">${safe(note)}</p>`).join("")}</section>`));
    }
    for (const training of trainings) {
      const panel = element(`<section class="panel" aria-label="Training ${safe(training.name)}"><h2>Training ${safe(training.about)}</h2><p class="hint">${safe(training.name)}</p>${training.states ? `<p>${count(training.seeds)} seed${training.seeds === 1 ? "" : "s"}, ${count(training.states)} states in the table.</p>` : ""}<p class="finding">${safe(training.findings.at(-1) ?? "")}</p><div class="halves"></div>${training.pictures}</section>`);
      place.append(panel);
      drawCurves(panel);
      for (const { opponent, points } of training.curves) {
        const box = element(`<div><h3>Score against ${safe(opponent)}: mean and range of the seeds</h3><engram-curve class="score"></engram-curve></div>`);
        panel.querySelector(".halves").append(box);
        const column = (k) => points.map((point) => point[k]);
        box.querySelector("engram-curve").show(`Score against ${opponent} by episodes`, [column(0), column(3), column(1), column(2)],
          [{ label: "", colour: "--band", width: 1, band: [1, 2], points: false }, { label: "", colour: "--band", width: 1, points: false }, { label: "mean", colour: "--accent" }],
          { x: "episodes", y: "score", low: 0, high: 1, lines: [0.5], format: (value) => percent(value) });
      }
    }
    for (const study of studies) {
      const top = [...study.trials].sort((a, b) => b.score - a.score).slice(0, 8), names = Object.keys(top[0]?.values ?? {});
      const panel = element(`<section class="panel" aria-label="Tuning ${safe(study.name)}"><h2>Tuning ${safe(study.about)}</h2><p class="hint">${safe(study.name)}</p><h3>Scores of the trials, ± two deviations</h3><engram-curve class="score"></engram-curve><div class="scroll" tabindex="0" role="region" aria-label="Best trials of ${safe(study.name)}"><table><caption>Trials of the highest scores, ± two deviations</caption><thead><tr><th scope="col">Trial</th><th scope="col" class="number">Score</th><th scope="col" class="number">Games</th>${names.map((name) => `<th scope="col" class="number">${safe(name)}</th>`).join("")}</tr></thead><tbody>${top.map((trial) => `<tr><th scope="row">${+trial.number}</th><td class="number">${percent(trial.score)} ± ${percent(2 * trial.deviation)}</td><td class="number">${count(trial.games)}</td>${names.map((name) => `<td class="number">${setting(trial.values[name] ?? 0)}</td>`).join("")}</tr>`).join("")}</tbody></table></div></section>`);
      place.append(panel);
      this.#showLearned(panel, study.name);
      const trials = study.trials, column = (from) => trials.map(from);
      panel.querySelector("engram-curve").show("Scores of the trials", [column((trial) => trial.number), column((trial) => Math.min(1, trial.score + 2 * trial.deviation)), column((trial) => Math.max(0, trial.score - 2 * trial.deviation)), column((trial) => trial.score)],
        [{ label: "", colour: "--soft", width: 0, points: false }, { label: "", colour: "--soft", width: 0, points: false, whisker: [1, 2], tint: "--soft" }, { label: "score", colour: "--accent", width: 0, points: true }],
        { x: "trial", y: "score", low: 0, high: 1, lines: [0.5], format: (value) => percent(value) });
    }
  }
}
