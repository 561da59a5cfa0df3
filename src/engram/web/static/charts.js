// Curves: uPlot with the page's colours, and a size that follows its place.

import { define, element, ink, percent, short, signed, tick } from "./html.js";

const FORMATS = {
  percent: (value) => percent(value), signed: (value) => signed(value), tick,
  number: (value) => (Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-3) ? value.toExponential(0) : String(+value.toPrecision(4))),
};

/** Draws the curves of a report, each from the data that stand inside its element. */
export function drawCurves(place) {
  for (const curve of place.querySelectorAll("engram-curve:has(> script)")) {
    const { about, data, series, axes } = JSON.parse(curve.firstElementChild.textContent);
    curve.show(about, data, series, { ...axes, format: FORMATS[axes.format] });
  }
}

/** A curve that redraws itself when its place or the colours change; `options` and `data` are uPlot's. */
export class Curve extends HTMLElement {
  #plot = null;
  #asked = null;
  #size = new ResizeObserver(() => this.#fitTwice());
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #redraw = () => this.#asked && this.show(...this.#asked);

  connectedCallback() {
    this.#size.observe(this);
    this.#dark.addEventListener("change", this.#redraw);
    this.#redraw();
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
   * @param series  `{ label, colour, dash, width, points, stairs }` of each column after the first; `band: [high, low]`
   *   fills between two columns, `whisker: [high, low]` draws them as intervals; without a label no legend
   * @param axes  `{ x, y, low, high, lines: [y], format }`; `scale`: "log" or "asinh" of y, `logX`, `ticks` of x,
   *   `dots: [[x, y, radius]]` in the second colour
   */
  show(about, data, series, axes) {
    this.#asked = [about, data, series, axes];
    if (!this.isConnected) return;
    this.setAttribute("role", "img");
    this.setAttribute("aria-label", about);
    const key = JSON.stringify([series, axes.x, axes.y, axes.lines, axes.range, axes.low, axes.high, this.#dark.matches]);
    if (this.#plot && this.key === key) { this.#plot.setData(data); return; }
    this.key = key;
    this.#plot?.destroy();
    this.replaceChildren();
    if (!data[0].length) { this.append(element(`<p class="empty">${axes.empty ?? "Nothing to show yet"}</p>`)); this.#plot = null; this.key = ""; return; }
    const axis = (label, size) => ({ label, size, labelSize: 18, stroke: ink("--soft"), font: "12px system-ui", labelFont: "12px system-ui", grid: { stroke: ink("--edge"), width: 1 }, ticks: { show: false } });
    const options = {
      width: Math.max(160, this.clientWidth), height: Math.max(120, this.clientHeight),
      scales: { x: { time: false, distr: axes.logX ? 3 : 1, range: (_, low, high) => (axes.range ?? (low === high ? [low - 0.5, high + 0.5] : [low, high])) }, y: { distr: { log: 3, asinh: 4 }[axes.scale] ?? 1, asinh: 0.1, range: (_, low, high) => [axes.low ?? low, axes.high ?? high].map((end, k) => (low === high && axes.low == null ? end + (k ? 1 : -1) : end)) } },
      axes: [{ ...axis(axes.x, 30), values: axes.values ?? (axes.ticks && ((_, splits) => splits.map((split) => (split >= 1000 ? short(split) : String(+split.toPrecision(3)))))), splits: axes.ticks && (() => axes.ticks), filter: axes.ticks && ((_, splits) => splits) }, { ...axis(axes.y, 44), grid: { stroke: ink("--edge"), width: 1, filter: (plot, splits) => splits.map((split) => (split < plot.scales.y.min ? null : split)) }, values: axes.format && ((plot, splits) => splits.map((split) => (split === null || split < plot.scales.y.min ? "" : axes.format(split)))) }],
      series: [{ label: axes.x }, ...series.map((one) => ({ label: one.label, class: one.label ? undefined : "nameless", stroke: ink(one.colour), width: one.width ?? 2, dash: one.dash, paths: one.stairs ? uPlot.paths.stepped({ align: -1 }) : undefined, points: { show: one.points ?? undefined, size: 5, fill: ink(one.colour) }, value: (_, value) => (value == null ? "" : (axes.format ?? String)(value)), spanGaps: true }))],
      bands: series.flatMap((one, number) => (one.band ? [{ series: one.band, fill: ink(one.tint ?? "--band", one.tint ? 0.18 : 1) }] : [])),
      legend: { show: series.filter((one) => one.label).length > 1, live: false },
      cursor: { drag: { x: false, y: false } },
      hooks: { draw: [(plot) => this.#levels(plot, axes.lines ?? []), (plot) => this.#whiskers(plot, series), (plot) => this.#dots(plot, axes.dots ?? [])] },
    };
    this.#plot = new uPlot(options, data, this);
    if (axes.click) this.#plot.over.addEventListener("click", () => axes.click(this.#plot.cursor.idx));
    this.#fitTwice();
  }

  #fitTwice() {
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

  #whiskers(plot, series) {
    const context = plot.ctx, scale = devicePixelRatio || 1;
    context.save();
    context.lineWidth = 1.5 * scale;
    for (const { whisker, tint } of series.filter((one) => one.whisker)) {
      context.strokeStyle = ink(tint);
      context.beginPath();
      plot.data[0].forEach((x, place) => {
        const [high, low] = whisker.map((column) => plot.data[column][place]);
        if (high === null || low === null) return;
        const [left, top, bottom] = [plot.valToPos(x, "x", true), plot.valToPos(high, "y", true), plot.valToPos(low, "y", true)];
        for (const [from, to] of [[[left, top], [left, bottom]], ...[top, bottom].map((end) => [[left - 3 * scale, end], [left + 3 * scale, end]])]) { context.moveTo(...from); context.lineTo(...to); }
      });
      context.stroke();
    }
    context.restore();
  }

  #dots(plot, dots) {
    const context = plot.ctx, scale = devicePixelRatio || 1;
    context.save();
    context.fillStyle = ink("--second", 0.7);
    for (const [x, y, radius] of dots) {
      context.beginPath();
      context.arc(plot.valToPos(x, "x", true), plot.valToPos(y, "y", true), radius * scale, 0, 2 * Math.PI);
      context.fill();
    }
    context.restore();
  }

  #fit() {
    const legend = this.querySelector(".u-legend")?.offsetHeight ?? 0;
    if (this.#plot && this.clientWidth) this.#plot.setSize({ width: this.clientWidth, height: Math.max(100, this.clientHeight - legend) });
  }
}

define("engram-curve", Curve);
