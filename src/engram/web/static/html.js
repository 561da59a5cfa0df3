// Small pieces that every view uses: elements, numbers, colours.

/** Text that is safe inside HTML. */
export const safe = (text) =>
  String(text).replace(/[&<>"']/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[mark]);

/** A text with a capital, unless it begins with a name, such as that of a file. */
export const sentence = (text) => text.replace(/^[a-z]+(?= )/, (word) => word[0].toUpperCase() + word.slice(1));

/** A sentence as HTML, with text in backticks as code. */
export const prose = (text) => safe(text).replace(/`([^`]+)`/g, "<code>$1</code>");

/** An element of some HTML; the page's own elements in it work at once. */
export function element(html) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  return document.importNode(template.content, true).firstElementChild;
}

/**
 * Shows other HTML in a place. It waits while something there is pressed, because its click would be lost; a place
 * that is emptied meanwhile stays empty. The focus stays on the button of the same `data-key`.
 */
export function renew(place, html) {
  clearTimeout(place.later);
  if (place.querySelector(":active")) {
    place.later = setTimeout(() => place.firstChild && renew(place, html), 50);
    return;
  }
  const focus = place.getRootNode().activeElement, row = place.contains(focus) && focus.closest("[data-key]");
  place.innerHTML = html;
  if (!row) return;
  const same = `[data-key="${CSS.escape(row.dataset.key)}"]`;
  place.querySelector(`${same} button, button${same}`)?.focus({ preventScroll: true });
}

const integers = new Intl.NumberFormat("en");
export const count = (number) => integers.format(number);
export const short = (number) =>
  number >= 1e6 ? `${(number / 1e6).toFixed(1)} M` : number >= 1e4 ? `${(number / 1e3).toFixed(0)} k` : count(Math.round(number));
export const signed = (value, digits = 2) => {
  const text = Math.abs(value) < 100 ? Math.abs(value).toFixed(digits) : count(Math.round(Math.abs(value)));
  return (+text === 0 ? "" : value < 0 ? "−" : "+") + text;
};
/** A return in a game's own units. */
export const units = (value) => String(Number(value.toPrecision(6)));
/** A value between a game's bounds, scaled to −1 to +1. */
export const onScale = (value, [low, high]) => (2 * (value - low)) / (high - low || 1) - 1;
/** A value from −1 to +1, scaled to the game's units. */
export const inUnits = (value, [low, high]) => low + ((value + 1) * (high - low)) / 2;
/** A value on an axis. */
export const tick = (value) => (value ? signed(value, 1) : "0");
export const percent = (share) =>
  share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;

/** How far a value is from 0, for its colour; and the lightness, by which bad and good differ also without hue. */
function shadeOf(value) {
  const strength = Math.min(1, Math.abs(value)) ** 0.65;
  return [strength, 0.8 - (value < 0 ? 0.38 : 0.12) * strength];
}

/** A colour from bad (−1) to good (+1) for a value, the same in dark and light; no player of a game has these colours. */
export function valueColour(value) {
  const [strength, lightness] = shadeOf(value), [hue, chroma] = value < 0 ? [315, 0.16] : [155, 0.13];
  return `oklch(${lightness.toFixed(3)} ${(0.02 + chroma * strength).toFixed(3)} ${hue})`;
}

/** The colour of a text on that of a value. */
export const inkOn = (value) => (shadeOf(value)[1] < 0.6 ? "#fff" : "#101418");

/** The meaning of the two colours. */
export const keyOf = (players) =>
  [0.8, -0.8].map((value, k) => `<i style="background:${valueColour(value)}"></i>${players[k] ? `good for ${safe(players[k])}` : "bad"}`).join(" ");

const probe = element(`<i hidden style="forced-color-adjust: none"></i>`);
/** A colour of the style sheet, as a canvas takes it: in the dark or the light; `share`: of its strength. */
export function ink(name, share = 1) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `color-mix(in srgb, var(${name}) ${100 * share}%, transparent)`;
  return getComputedStyle(probe).color;
}

/** Registers an element, unless another module of the same document has: each widget of a notebook brings its own. */
export const define = (name, kind) => customElements.get(name) ?? customElements.define(name, kind);

let newsTimer = 0;
/** Says something to the person, for some seconds or until it is replaced. */
export function say(text, { stays = false, bad = false } = {}) {
  const news = document.getElementById("news");
  clearTimeout(newsTimer);
  news.innerHTML = prose(sentence(text));
  news.hidden = !text;
  news.classList.toggle("bad", bad);
  if (!stays) newsTimer = setTimeout(() => (news.hidden = true), 6000);
}

/** Runs a task; a refusal of the server is shown. */
export async function trying(task) {
  try {
    return await task();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    say(error.message, { bad: true });
    if (error.status === undefined) console.error(error);
    return undefined;
  }
}
