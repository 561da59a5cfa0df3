// Data that outlive a reload and the server: each tab keeps its own, and a new tab begins with those kept last.

import { say } from "./html.js";

/** A storage of the browser; if the browser refuses it, a storage that lasts as long as the page. */
function storageOf(name) {
  try {
    return window[name];
  } catch {
    const kept = new Map();
    return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  }
}

export const sharedStorage = storageOf("localStorage"), tabStorage = storageOf("sessionStorage");

export const recall = (key) => JSON.parse(tabStorage.getItem(key) ?? sharedStorage.getItem(key));

export function keep(key, value, name) {
  try {
    for (const storage of [tabStorage, sharedStorage]) storage.setItem(key, JSON.stringify(value));
  } catch (error) {
    say(`${name} cannot be kept for a reload: ${error.message}`, { bad: true });
  }
}
