// A link that was followed from another site: the person sees what it would open, and decides.

const fields = new URLSearchParams(location.hash.slice(1));
document.getElementById("target").textContent = fields.get("game") ?? "engram";
document.getElementById("open").href = `/?linked${location.hash}`; // another address, so that the page is asked for anew
