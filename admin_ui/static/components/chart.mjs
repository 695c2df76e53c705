// A line chart with its own legend: the numbers there are those under the cursor, or the newest ones.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.mjs";
import uPlot from "../vendor/uplot.mjs";
import { clock, short } from "../lib/format.mjs";

const FONT = '11.5px Inter, "Segoe UI", system-ui, sans-serif';
const HEIGHT = 208;
/** Distances between ticks for octets. */
const POWERS = Array.from({ length: 44 }, (_, i) => 2 ** i);
/** Series that somebody switched off, by name; kept while the tab is open. */
const hidden = new Set();

const themeWatchers = new Set();
const systemTheme = matchMedia("(prefers-color-scheme: dark)");
const repaint = () => themeWatchers.forEach((watcher) => watcher());
systemTheme.addEventListener("change", repaint);
new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });

/** A colour of the sheet as it is in the present theme: rgb(...). */
function colour(name) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/**
 * `series`: [{label, colour, area?, dash?}], `data`: [seconds, values...], `span`: [from, to] in seconds, `format`: number to
 * text, `axis`: the same for the axis, `binary`: ticks at powers of two,
 * `group`: charts of one group share the cursor.
 */
export function Chart({ id, title, unit, series, data, span, format, axis = short, binary = false, group }) {
  const box = useRef(null);
  const plot = useRef(null);
  const zoomed = useRef(false);
  const [at, setAt] = useState(null);
  const [, setToggled] = useState(0);
  const [theme, setTheme] = useState(0);
  const latest = useRef({});
  latest.current = { data, span };

  useEffect(() => {
    const watcher = () => setTheme((n) => n + 1);
    themeWatchers.add(watcher);
    return () => themeWatchers.delete(watcher);
  }, []);

  useLayoutEffect(() => {
    const node = box.current;
    const chart = new uPlot(options(node, series, latest, group, zoomed, setAt, axis, binary), data, node);
    plot.current = chart;
    series.forEach((one, i) => {
      if (hidden.has(`${id}/${one.label}`)) chart.setSeries(i + 1, { show: false });
    });
    const observer = new ResizeObserver(() => chart.setSize({ width: node.clientWidth, height: HEIGHT }));
    observer.observe(node);
    return () => {
      observer.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [theme, id, series]);

  useEffect(() => {
    plot.current?.setData(data, !zoomed.current);
    if (zoomed.current) plot.current?.redraw();
  }, [data, span?.[0], span?.[1]]);

  const toggle = (index, label) => {
    const key = `${id}/${label}`;
    const show = hidden.has(key);
    if (show) hidden.delete(key);
    else hidden.add(key);
    plot.current?.setSeries(index + 1, { show });
    setToggled((n) => n + 1);
  };

  const last = data[0].length - 1;
  const index = at !== null && at <= last ? at : last;
  const day = span && span[1] - span[0] > 86_000;
  const read = (i) => {
    const column = data[i + 1];
    // The newest point of some series may not be known yet.
    for (let k = index; k >= Math.max(0, index - 2); k -= 1) if (column?.[k] !== null && column?.[k] !== undefined) return column[k];
    return NaN;
  };
  const spoken = series.map((one, i) => `${one.label} ${format(read(i))}`).join(", ");
  return html`<section class="card chart" aria-labelledby=${id}>
    <header class="card-head">
      <h2 id=${id}>${title} ${unit && html`<span class="unit">${unit}</span>`}</h2>
      <span class="chart-at num">${at !== null && last >= 0 ? clock(data[0][index] * 1000, { day }) : ""}</span>
    </header>
    <div class="legend">
      ${series.map((one, i) => {
        const off = hidden.has(`${id}/${one.label}`);
        return html`<button type="button" key=${one.label} class="legend-item" aria-pressed=${!off}
          title=${off ? `Show ${one.label}` : `Hide ${one.label}`} onClick=${() => toggle(i, one.label)}>
          <i class=${`swatch c-${one.colour} ${one.dash ? "dash" : ""}`} aria-hidden="true"></i><span>${one.label}</span>
          <b class="num">${format(read(i))}</b>
        </button>`;
      })}
    </div>
    <div class="plot" ref=${box} role="img" aria-label=${`${title}: ${spoken}`}>
      ${last < 0 && html`<p class="plot-empty"><span>Nothing measured in this range yet.</span></p>`}
    </div>
  </section>`;
}

function options(node, series, latest, group, zoomed, setAt, write, binary) {
  const grid = { stroke: colour("grid"), width: 1 };
  const common = { stroke: colour("muted"), font: FONT, grid, ticks: { show: false } };
  return {
    width: node.clientWidth || 600,
    height: HEIGHT,
    padding: [10, 10, 0, 0],
    legend: { show: false },
    cursor: {
      sync: group ? { key: group, setSeries: false } : undefined,
      points: { size: 7, width: 2, stroke: (u, i) => u.series[i].stroke(u, i), fill: colour("surface") },
      drag: { x: true, y: false, dist: 6 },
      y: false,
    },
    scales: {
      x: {
        time: true,
        range: (u, low, high) => (zoomed.current ? [low, high] : (latest.current.span ?? [low ?? 0, high ?? 1])),
      },
      y: { range: (u, low, high) => [0, uPlot.rangeNum(0, Math.max(high ?? 0, 4), 0.08, true)[1]] },
    },
    axes: [
      { ...common, size: 28, gap: 6, space: (u, index, low, high) => (high - low > 400 ? 58 : 84), values: (u, splits) => inside(u, splits, times(splits)) },
      { ...common, size: 54, gap: 6, space: 34, incrs: binary ? POWERS : undefined, values: (u, splits) => splits.map((n) => write(n)) },
    ],
    series: [
      {},
      ...series.map((one) => ({
        label: one.label,
        stroke: colour(one.colour),
        width: 1.75,
        dash: one.dash ? [5, 4] : undefined,
        fill: one.area ? (u) => shade(u, colour(one.colour)) : undefined,
        points: { show: (u, i) => u.data[i].filter((value) => value !== null).length < 2, size: 4 },
        spanGaps: false,
      })),
    ],
    hooks: {
      setCursor: [(u) => setAt(u.cursor.idx ?? null)],
      setSelect: [(u) => { if (u.select.width > 0) zoomed.current = true; }],
      ready: [
        (u) =>
          u.over.addEventListener("dblclick", () => {
            zoomed.current = false;
            u.setData(latest.current.data, true);
          }),
      ],
    },
  };
}

/** The colour, fading towards the bottom. */
function shade(u, base) {
  const fade = u.ctx.createLinearGradient(0, u.bbox.top, 0, u.bbox.top + u.bbox.height);
  fade.addColorStop(0, base.replace("rgb(", "rgba(").replace(")", ", 0.22)"));
  fade.addColorStop(1, base.replace("rgb(", "rgba(").replace(")", ", 0.02)"));
  return fade;
}

/** Labels but for one that the right edge would cut. */
function inside(u, splits, labels) {
  return labels.map((label, i) => (u.valToPos(splits[i], "x") > u.bbox.width / devicePixelRatio - 18 ? "" : label));
}

/** Clock times with as much as the distance between two needs. */
function times(splits) {
  const step = splits.length > 1 ? splits[1] - splits[0] : 60;
  return splits.map((at) => {
    const date = new Date(at * 1000);
    if (step >= 86_400 || (step >= 3600 && date.getHours() === 0 && date.getMinutes() === 0)) {
      return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    }
    return clock(at * 1000, { seconds: step < 60 });
  });
}
