// What outlives a reload and the server: each tab keeps its own, and a new tab begins with what was kept last.

import { say } from "./html.js";

/** A storage of the browser; where it refuses one, a storage that goes with the page. */
function storageOf(name) {
  try {
    return window[name];
  } catch {
    const kept = new Map();
    return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  }
}

export const ofAll = storageOf("localStorage"), ofTab = storageOf("sessionStorage");

export const recall = (key) => JSON.parse(ofTab.getItem(key) ?? ofAll.getItem(key));

export function keep(key, value, name) {
  try {
    for (const storage of [ofTab, ofAll]) storage.setItem(key, JSON.stringify(value));
  } catch (error) {
    say(`${name} is not kept for a reload: ${error.message}`, { bad: true });
  }
}
