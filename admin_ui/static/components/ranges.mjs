// The ranges of the charts, and where their points come from.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.mjs";
import { useGet } from "../lib/api.mjs";
import { useEvents } from "../lib/live.mjs";
import { href, param } from "../lib/location.mjs";
import { aligned, follow, levelsOf, ratesOf, Ring } from "../lib/series.mjs";

/** Seconds shown, and seconds between two points: those that the server keeps. */
export const RANGES = {
  live: { label: "Live", age: 120, step: 1 },
  "10m": { label: "10 min", age: 600, step: 5 },
  "1h": { label: "1 h", age: 3600, step: 60 },
  "8h": { label: "8 h", age: 28_800, step: 600 },
  "24h": { label: "24 h", age: 86_400, step: 1800 },
};

/** Those kept of every object, and those kept of the node as a whole. */
export const SHORT = ["live", "10m", "1h"];
export const ALL = Object.keys(RANGES);

export function useRange(ranges) {
  const name = param("range", "live");
  return ranges.includes(name) ? name : "live";
}

export function RangePicker({ path, ranges }) {
  const chosen = useRange(ranges);
  return html`<nav class="segments" aria-label="Time range">
    ${ranges.map(
      (name) => html`<a key=${name} href=${href(path, { range: name === "live" ? "" : name })}
        aria-current=${name === chosen ? "true" : undefined}>${RANGES[name].label}</a>`,
    )}
  </nav>`;
}

/**
 * The points of a page's charts. `topic` is its live event, `pick` takes the document of RabbitMQ's shape out of that,
 * `path` is where the same document has samples (null: not yet known whether it is there), `kinds` their parameters (lengths, msg_rates, data_rates).
 * `ranges` are those to choose from, `levels` and `counters` name keys: {levels: [...], counters: [...]}; a key may be inside `message_stats`.
 *
 * `refine` is applied to the document with samples. Returns {levels, rates, span, rate(key)} with uPlot's columns.
 */
export function usePoints({ topic, pick, path, ranges, kinds, levels, counters, refine = (document) => document }) {
  const range = useRange(ranges);
  const { age, step } = RANGES[range];
  const ring = useRef(null);
  const [tick, setTick] = useState(0);
  const newest = useRef(0);
  // A document has the counters of what happened; others have not moved.
  const never = Object.fromEntries(counters.map((name) => [name, 0]));

  // Before the events of the topic, which may come at once.
  useLayoutEffect(() => {
    ring.current = new Ring([...levels, ...counters], RANGES.live.age + 10);
    newest.current = 0;
    setTick((n) => n + 1);
  }, [topic]);
  useEvents(topic, (event) => {
    const document = pick(event);
    if (!document) return;
    newest.current = event.at;
    ring.current?.push(event.at, { ...never, ...flat(document) });
    setTick((n) => n + 1);
  });

  // Live, too, begins with what the server remembers.
  const isLive = range === "live";
  const wanted = kinds.map((kind) => `${kind}_age=${age}&${kind}_incr=${Math.max(5, step)}`).join("&");
  const stored = useGet(path && `${path}?${wanted}`, isLive ? 0 : Math.min(60, step)).data;

  return useMemo(() => {
    const rate = (key) => ring.current?.rate(key) ?? null;
    const document = flat(refine(stored ?? {}));
    const lengths = aligned(levelsOf(document, levels));
    const changes = aligned(ratesOf(document, counters));
    if (isLive) {
      const now = (newest.current || Date.now()) / 1000;
      const known = ring.current;
      return {
        levels: known ? follow(lengths, known.levels(levels)) : lengths,
        rates: known ? follow(changes, known.rates(counters)) : changes,
        span: [now - age, now],
        rate,
      };
    }
    const times = lengths[0].length ? lengths[0] : changes[0];
    const now = times.length ? times[times.length - 1] : Date.now() / 1000;
    return { levels: lengths, rates: changes, span: [now - age, now], rate };
  }, [isLive ? tick : 0, stored, range, topic]);
}

/**
 * The points of charts of an object without live events: of those that the server keeps, read again every few seconds.
 * `charts` are [{levels: [key]} or {counters: [key]}]; returns uPlot's columns of each, and their span.
 */
export function useSamples({ path, ranges, kinds, charts }) {
  const range = useRange(ranges);
  const { age, step } = RANGES[range];
  const wanted = kinds.map((kind) => `${kind}_age=${age}&${kind}_incr=${Math.max(5, step)}`).join("&");
  const { data } = useGet(path && `${path}?${wanted}`, range === "live" ? 5 : Math.min(60, step));
  return useMemo(() => {
    const document = flat(data ?? {});
    const columns = charts.map(({ levels, counters }) => aligned(levels ? levelsOf(document, levels) : ratesOf(document, counters)));
    const newest = Math.max(...columns.map(([times]) => times.at(-1) ?? 0)) || Date.now() / 1000;
    return { columns, span: [newest - age, newest] };
  }, [data, range]);
}

function flat(document) {
  return { ...document, ...document.message_stats, ...document.queue_totals };
}
