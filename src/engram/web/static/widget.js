// The widget of a notebook: a position, a search of it that streams, and its moves, over a model that Python keeps.

import { HEATS, heatOf, legendOf } from "./board.js";
import { element, safe } from "./html.js";
import { playersOf, progressOf, turnOf } from "./moves.js";

function render({ model, el }) {
  const host = document.createElement("div"), root = host.attachShadow({ mode: "open" });
  const view = element(`<div class="widget">
    <div class="position"><p class="turn" role="status" aria-live="polite"></p>
      <engram-board role="group" aria-label="Board: arrow keys move, Enter plays"></engram-board><pre tabindex="0" aria-label="Position" hidden></pre>
      <div class="others row"></div></div>
    <div class="thoughts"><p class="search"></p>
      <div class="row"><button type="button" class="think primary"></button><button type="button" class="back">Take back</button>
        <label class="inline">Show <select>${HEATS.map(([value, name]) => `<option value="${value}">${name}</option>`).join("")}</select></label></div>
      <p class="hint legend"></p><p class="progress" role="status" aria-live="off"></p><engram-moves></engram-moves></div></div>`);
  root.append(element(`<style>${STYLE}</style>`), view);
  el.append(host);
  const find = (selector) => view.querySelector(selector), board = find("engram-board"), moves = find("engram-moves");
  const send = (order, more = {}) => model.send({ do: order, ...more });

  /** The notebook's own text colour says whether its theme is dark. */
  function dress() {
    const [red = 0, green = 0, blue = 0] = (getComputedStyle(el).color.match(/[\d.]+/g) ?? []).map(Number);
    host.style.colorScheme = 0.3 * red + 0.6 * green + 0.1 * blue > 128 ? "dark" : "light";
  }

  function place() {
    const opened = model.get("opened"), { position } = opened;
    const over = position.outcome !== null;
    find(".turn").innerHTML = turnOf(opened);
    if (position.note) find(".turn").append(` · ${position.note}`);
    board.hidden = !opened.board;
    find("pre").hidden = !!opened.board;
    find("pre").textContent = position.diagram;
    if (opened.board) {
      if (!board.board) board.board = opened.board;
      board.show(position, { last: opened.actions.at(-1) ?? null, playable: !over });
    }
    offer([]);
    find(".back").disabled = !opened.actions.length;
    find(".think").disabled = over;
    think();
  }

  /** Buttons for moves without a place on the board, and for some that share one. */
  function offer(several) {
    const { board: scene, position } = model.get("opened");
    const others = position.legal.filter(([action]) => !scene?.places[action]?.length);
    find(".others").replaceChildren(...[...several.map(({ action, name }) => [action, name]), ...others].map(([action, name]) => {
      const button = element(`<button type="button">${safe(name)}</button>`);
      button.addEventListener("click", () => send("play", { action }));
      return button;
    }));
  }

  function think() {
    const snapshot = model.get("snapshot"), opened = model.get("opened");
    dress();
    find(".search").innerHTML = `<b>${safe(opened.name)}</b> · ${safe(model.get("search_text"))}`;
    find(".think").textContent = model.get("running") ? "Stop" : "Analyse";
    find(".progress").textContent = progressOf(snapshot, playersOf(opened));
    const kind = find("select").value;
    find(".legend").textContent = legendOf(snapshot?.moves ? snapshot : null, kind);
    moves.show(snapshot?.moves ? snapshot : null, (action, line) => line[0]);
    if (opened.board) board.heat = heatOf(snapshot?.moves ? snapshot : null, kind);
  }

  find(".think").addEventListener("click", () => send(model.get("running") ? "stop" : "analyse"));
  find(".back").addEventListener("click", () => send("back"));
  find("select").addEventListener("change", think);
  board.addEventListener("move", (event) => send("play", { action: event.detail.action }));
  board.addEventListener("choose", (event) => offer(event.detail));
  moves.addEventListener("play", (event) => send("play", { action: event.detail.action }));
  moves.addEventListener("point", ({ detail }) => {
    if (board.board) board.line = detail ? detail[10] : [];
  });
  model.on("change:opened", place);
  model.on("change:snapshot", think);
  model.on("change:running", think);
  place();
  requestAnimationFrame(dress); // only now has it a place
  return () => { model.off("change:opened", place); model.off("change:snapshot", think); model.off("change:running", think); };
}

export default { render };
