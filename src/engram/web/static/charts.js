// Curves: uPlot with the page's colours, and a size that follows the space around them.

import { define, element, ink, percent, short, signed, tick } from "./html.js";

// `step`: between two marks of an axis, which need as many digits as differ.
const FORMATS = {
  percent: (value, step) => (step ? `${(100 * value).toFixed(digits(100 * step))} %` : percent(value)),
  signed: (value, step) => (step && value ? `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits(step))}` : signed(value)), tick,
  number: (value, step) => (!step ? (Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-3) ? value.toExponential(0) : String(+value.toPrecision(4)))
    : digits(step) < 9 && Math.abs(value) < 1e7 ? value.toLocaleString("en", { maximumFractionDigits: digits(step) })
    : value ? value.toExponential(Math.min(15, Math.max(0, Math.ceil(Math.log10(Math.abs(value) / step) - 1e-9)))) : "0"),
};

/** The decimals that a number needs, at most 9. */
function digits(step) {
  for (let places = 0; places < 9; places++) if (Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) < 1e-4 * step * 10 ** places) return places;
  return 9;
}

/** The labels of a linear axis from its marks; on another scale each mark stands alone. */
function labels(format, scale, splits, least) {
  const marks = splits.filter((split) => split !== null), step = scale || marks.length < 2 ? undefined : marks[1] - marks[0];
  return splits.map((split) => (split === null || split < least ? "" : format(split, step)));
}

/** Draws the curves of a report, each from the data inside its element. */
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
  #paper = matchMedia("print");
  #redraw = () => this.#asked && this.show(...this.#asked);

  connectedCallback() {
    this.#size.observe(this);
    this.#dark.addEventListener("change", this.#redraw);
    this.#paper.addEventListener("change", this.#redraw);
    this.#redraw();
  }

  disconnectedCallback() {
    this.#size.disconnect();
    this.#dark.removeEventListener("change", this.#redraw);
    this.#paper.removeEventListener("change", this.#redraw);
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
    const key = JSON.stringify([series, axes.x, axes.y, axes.lines, axes.range, axes.low, axes.high, this.#dark.matches, this.#paper.matches]);
    if (this.#plot && this.key === key && data[0].length) { this.#plot.setData(data); return; }
    this.key = key;
    this.#plot?.destroy();
    this.replaceChildren();
    if (!data[0].length) { this.append(element(`<p class="empty">${axes.empty ?? "Nothing to show yet"}</p>`)); this.#plot = null; this.key = ""; return; }
    const axis = (label, size) => ({ label, size, labelSize: 18, stroke: ink("--soft"), font: "12px system-ui", labelFont: "12px system-ui", grid: { stroke: ink("--edge"), width: 1 }, ticks: { show: false } });
    const options = {
      width: Math.max(160, this.clientWidth), height: Math.max(120, this.clientHeight),
      scales: { x: { time: false, distr: axes.logX ? 3 : 1, range: (_, low, high) => (axes.range ?? (low === high ? [low - 0.5, high + 0.5] : [low, high])) }, y: { distr: { log: 3, asinh: 4 }[axes.scale] ?? 1, asinh: 0.1, range: (_, low, high) => [axes.low ?? low, axes.high ?? high].map((end, k) => (low === high && axes.low == null ? end + (k ? 1 : -1) : end)) } },
      axes: [{ ...axis(axes.x, 30), values: axes.values ?? (axes.ticks && ((_, splits) => splits.map((split) => (split >= 1000 ? short(split) : String(+split.toPrecision(3)))))), splits: axes.ticks && (() => axes.ticks), filter: axes.ticks && ((_, splits) => splits) }, { ...axis(axes.y, (_, marks) => Math.max(44, 10 + 7 * Math.max(0, ...(marks ?? []).map((mark) => mark.length)))), grid: { stroke: ink("--edge"), width: 1, filter: (plot, splits) => splits.map((split) => (split < plot.scales.y.min ? null : split)) }, values: axes.format && ((plot, splits) => labels(axes.format, axes.scale, splits, plot.scales.y.min)) }],
      series: [{ label: axes.x }, ...series.map((entry) => ({ label: entry.label, class: entry.label ? undefined : "nameless", stroke: ink(entry.colour), width: entry.width ?? 2, dash: entry.dash, paths: entry.stairs ? uPlot.paths.stepped({ align: -1 }) : undefined, points: { show: data[0].length === 1 && entry.label ? true : entry.points ?? undefined, size: 5, fill: ink(entry.colour) }, value: (_, value) => (value == null ? "" : (axes.format ?? String)(value)), spanGaps: true }))],
      bands: series.flatMap((entry, number) => (entry.band ? [{ series: entry.band, fill: ink(entry.tint ?? "--band", entry.tint ? 0.18 : 1) }] : [])),
      legend: { show: series.filter((entry) => entry.label).length > 1, live: false },
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
    for (const { whisker, tint } of series.filter((entry) => entry.whisker)) {
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

  /** The curves get most of the height of the style; a legend of long names adds to it. */
  #fit() {
    if (!this.#plot || !this.clientWidth) return;
    this.style.height = "";
    const legend = this.querySelector(".u-legend")?.offsetHeight ?? 0, own = this.clientHeight;
    const height = Math.max(100, Math.round(0.6 * own), own - legend);
    if (height + legend > own) this.style.height = `${height + legend}px`;
    this.#plot.setSize({ width: this.clientWidth, height });
  }
}

define("engram-curve", Curve);
