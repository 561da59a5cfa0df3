// The page: its views, the game that they share, and the word about the server.

import { addressFields, get, isCodeUsed, server } from "./api.js";
import "./board.js";
import "./charts.js";
import "./moves.js";
import { Compare } from "./compare.js";
import { GameTree } from "./game.js";
import { element, prose, safe, say, sentence, trying } from "./html.js";
import { Matches } from "./matches.js";
import { Memory } from "./memory.js";
import { Play } from "./play.js";
import { tabStorage } from "./storage.js";
import { TreeView } from "./tree.js";

const VIEWS = [["play", "Play", Play], ["tree", "Tree", TreeView], ["compare", "Compare", Compare], ["memory", "Memory", Memory], ["matches", "Matches", Matches]];

const game = new GameTree();
const views = new Map();
let setup = null, present = null;

function show(name) {
  const [key, title, View] = VIEWS.find((view) => view[0] === name) ?? VIEWS[0];
  if (present?.key === key) return;
  present?.view.hidden?.();
  if (!views.has(key)) views.set(key, new View(game, setup));
  present = { key, view: views.get(key) };
  document.getElementById("main").replaceChildren(present.view.element);
  document.title = `${title} · engram`;
  for (const button of document.querySelectorAll("nav button")) {
    if (button.dataset.view === key) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  tabStorage.setItem("engram.view", key);
  present.view.shown?.();
}

server.addEventListener("change", async () => {
  document.body.classList.toggle("alone", !server.answers);
  if (!server.answers) return say("The server does not answer. Your game is kept here; the page waits for the server to come back.", { stays: true, bad: true });
  say("The server is back: the game goes on."); // before views learn what was lost with it, and say so
  if (setup) await trying(async () => { setup.server = (await get("setup")).server; }); // it may be another start
});

/** Opens the game of the address; if it cannot be opened, says why and takes it out of the address. */
async function follow(fields) {
  try {
    await game.begin(fields, setup);
    return true;
  } catch (error) {
    if (!fields.has("game")) throw error;
    say(`The link cannot be opened: ${error.message}`, { bad: true });
    history.replaceState(null, "", location.pathname);
    return false;
  }
}

async function begin() {
  const fields = addressFields();
  try {
    setup = await get("setup");
    document.body.append(element(`<datalist id="searches">${setup.searches.map((search) => `<option value="${safe(search.text)}">${safe(search.about)}</option>`).join("")}</datalist>`));
    if (!(await follow(fields))) await game.begin(new URLSearchParams(), setup);
  } catch (error) {
    document.getElementById("main").innerHTML = `<p class="empty">${prose(sentence(error.message))}</p>`;
    return;
  }
  document.querySelector("nav").append(...VIEWS.map(([key, title]) => {
    const button = element(`<button type="button" data-view="${key}">${title}</button>`);
    button.addEventListener("click", () => show(key));
    return button;
  }));
  show(tabStorage.getItem("engram.view") ?? "play");
  document.body.classList.add("ready");
  if (await isCodeUsed()) say("Another program has used the code in this address, and may have the token: see “Safety” in docs/serve.md.", { stays: true, bad: true });
}

addEventListener("error", ({ message }) => {
  if (message.startsWith("ResizeObserver loop")) return; // a size that is observed one frame later
  say(`This page has a fault: ${message}`, { stays: true, bad: true });
});

// A link in the address would bring its position back at the next load, in place of the game that was kept.
game.addEventListener("change", () => location.hash && history.replaceState(null, "", location.pathname));

addEventListener("hashchange", async () => {
  const fields = addressFields();
  if (!setup) await begin(); // the token was missing, and may have come
  else if (fields.has("game")) await follow(fields);
});

begin();
