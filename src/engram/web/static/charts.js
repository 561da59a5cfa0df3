// Curves: uPlot with the page's colours, and a size that follows its place.

import { element, ink } from "./html.js";

/** A curve that redraws itself when its place or the colours change; `options` and `data` are uPlot's. */
export class Curve extends HTMLElement {
  #plot = null;
  #asked = null;
  #size = new ResizeObserver(() => this.#fit());
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #redraw = () => this.#asked && this.show(...this.#asked);

  connectedCallback() {
    this.#size.observe(this);
    this.#dark.addEventListener("change", this.#redraw);
  }

  disconnectedCallback() {
    this.#size.disconnect();
    this.#dark.removeEventListener("change", this.#redraw);
    this.#plot?.destroy();
    this.#plot = null;
  }

  /**
   * @param about  what it shows, for those who do not see it
   * @param data  uPlot's columns
   * @param series  `{ label, colour, dash, width, band }` of each column after the first
   * @param axes  `{ x, y, low, high, lines: [y], format }`
   */
  show(about, data, series, axes) {
    this.#asked = [about, data, series, axes];
    if (!this.isConnected) return;
    this.setAttribute("role", "img");
    this.setAttribute("aria-label", about);
    const key = JSON.stringify([series, axes.x, axes.y, axes.lines, axes.range, this.#dark.matches]);
    if (this.#plot && this.key === key) { this.#plot.setData(data); return; }
    this.key = key;
    this.#plot?.destroy();
    this.replaceChildren();
    if (!data[0].length) { this.append(element(`<p class="empty">${axes.empty ?? "Nothing to show yet"}</p>`)); this.#plot = null; this.key = ""; return; }
    const axis = (label, size) => ({ label, size, labelSize: 18, stroke: ink("--soft"), font: "12px system-ui", labelFont: "12px system-ui", grid: { stroke: ink("--edge"), width: 1 }, ticks: { show: false } });
    const options = {
      width: Math.max(160, this.clientWidth), height: Math.max(120, this.clientHeight),
      scales: { x: { time: false, range: (_, low, high) => (axes.range ?? (low === high ? [low - 0.5, high + 0.5] : [low, high])) }, y: { range: (_, low, high) => [axes.low ?? low, axes.high ?? high].map((end, k) => (low === high && axes.low === undefined ? end + (k ? 1 : -1) : end)) } },
      axes: [{ ...axis(axes.x, 30), values: axes.values }, { ...axis(axes.y, 44), values: axes.format && ((_, splits) => splits.map(axes.format)) }],
      series: [{ label: axes.x }, ...series.map((one) => ({ label: one.label, stroke: ink(one.colour), width: one.width ?? 2, dash: one.dash, points: { show: one.points ?? undefined, size: 5, fill: ink(one.colour) }, value: (_, value) => (value == null ? "" : (axes.format ?? String)(value)), spanGaps: true }))],
      bands: series.flatMap((one, number) => (one.band ? [{ series: one.band, fill: ink("--band") }] : [])),
      legend: { show: series.length > 1, live: false },
      cursor: { drag: { x: false, y: false } },
      hooks: { draw: [(plot) => this.#levels(plot, axes.lines ?? []), ...(axes.draw ? [axes.draw] : [])] },
    };
    this.#plot = new uPlot(options, data, this);
    if (axes.click) this.#plot.over.addEventListener("click", () => axes.click(this.#plot.cursor.idx));
    this.#fit();
    requestAnimationFrame(() => this.#fit()); // the legend has its height only now
  }

  #levels(plot, levels) {
    const context = plot.ctx;
    context.save();
    context.strokeStyle = ink("--soft");
    context.setLineDash([4, 4]);
    for (const level of levels) {
      const y = plot.valToPos(level, "y", true);
      if (y < plot.bbox.top || y > plot.bbox.top + plot.bbox.height) continue;
      context.beginPath();
      context.moveTo(plot.bbox.left, y);
      context.lineTo(plot.bbox.left + plot.bbox.width, y);
      context.stroke();
    }
    context.restore();
  }

  #fit() {
    const legend = this.querySelector(".u-legend")?.offsetHeight ?? 0;
    if (this.#plot && this.clientWidth) this.#plot.setSize({ width: this.clientWidth, height: Math.max(100, this.clientHeight - legend) });
  }
}

customElements.define("engram-curve", Curve);
