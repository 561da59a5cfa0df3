// What outlives a reload and the server: each tab keeps its own, and a new tab begins with what was kept last.

import { say } from "./html.js";

export const recall = (key) => JSON.parse(sessionStorage.getItem(key) ?? localStorage.getItem(key));

export function keep(key, value, name) {
  try {
    for (const storage of [sessionStorage, localStorage]) storage.setItem(key, JSON.stringify(value));
  } catch (error) {
    say(`${name} is not kept for a reload: ${error.message}`, { bad: true });
  }
}
