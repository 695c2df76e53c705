// Time series for charts and sparklines. No DOM here: tested by node.

/** Readings come once a second, on a very large node every few seconds. */
const GAP_MS = 10_000;

/** The last `capacity` readings of several counters or levels, oldest first. */
export class Ring {
  constructor(names, capacity) {
    this.names = names;
    this.capacity = capacity;
    this.times = [];
    this.columns = new Map(names.map((name) => [name, []]));
  }

  /** Add a reading; one that is not later than the last is left out. */
  push(time, values) {
    const last = this.times[this.times.length - 1];
    if (last !== undefined && time <= last) return;
    // Values in a long gap (the broker was down) are unknown: the line must end before it and begin again after it.
    if (last !== undefined && time - last > GAP_MS) this.put(last + 1, {});
    this.put(time, values);
  }

  put(time, values) {
    this.times.push(time);
    for (const [name, column] of this.columns) column.push(values[name] ?? null);
    if (this.times.length > this.capacity) {
      this.times.shift();
      for (const column of this.columns.values()) column.shift();
    }
  }

  /** Levels as [seconds, values...], as uPlot takes them. */
  levels(names) {
    return [this.times.map((time) => time / 1000), ...names.map((name) => [...this.columns.get(name)])];
  }

  /** Counters as changes per second over `window` ms: [seconds, rates...]. */
  rates(names, window = 3000) {
    const columns = names.map((name) => perSecond(this.times, this.columns.get(name), window));
    return [this.times.map((time) => time / 1000), ...columns];
  }

  /** The present rate of one counter: the newest point of its line. */
  rate(name, window = 3000) {
    const rates = perSecond(this.times, this.columns.get(name), window);
    return rates.length ? rates[rates.length - 1] : null;
  }
}

/** Change per second of a counter at each time, looking back about `window` ms; null where that is not known. */
export function perSecond(times, counts, window) {
  const rates = [];
  let from = 0;
  for (let i = 0; i < times.length; i += 1) {
    if (counts[i] === null) {
      from = i + 1; // behind a gap it begins anew
      rates.push(null);
      continue;
    }
    while (from < i - 1 && times[i] - times[from + 1] >= window) from += 1;
    const span = (times[i] - times[from]) / 1000;
    const change = counts[i] - counts[from];
    // A counter that fell means that the broker was restarted.
    if (change < 0) from = i;
    rates.push(span > 0 && change >= 0 ? change / span : null);
  }
  return rates;
}

/**
 * RabbitMQ's samples (newest first) of several `_details` as levels: {times: [ms], columns: [[...]...]}.
 * A document without samples gives an empty series.
 */
export function levelsOf(document, keys) {
  const longest = keys.map((key) => document?.[`${key}_details`]?.samples ?? []).sort((a, b) => b.length - a.length)[0];
  const times = (longest ?? []).map((sample) => sample.timestamp).reverse();
  const columns = keys.map((key) => {
    const found = new Map((document?.[`${key}_details`]?.samples ?? []).map((s) => [s.timestamp, s.sample]));
    return times.map((time) => found.get(time) ?? null);
  });
  return { times, columns };
}

/**
 * The same samples as changes per second, for counters. The first point has no rate and is left out. A counter that the
 * document lacks has never moved.
 */
export function ratesOf(document, keys) {
  const { times, columns } = levelsOf(document, keys);
  const rates = columns.map((column, i) =>
    document?.[`${keys[i]}_details`] ? perSecond(times, column, 0) : times.map(() => 0),
  );
  return { times: times.slice(1), columns: rates.map((column) => column.slice(1)) };
}

/** {times, columns} as uPlot takes it: seconds first. */
export function aligned({ times, columns }) {
  return [times.map((time) => time / 1000), ...columns];
}

/** Two series of uPlot's form as one: of the older one what lies before the newer. */
export function follow(older, newer) {
  // A first rate is not known yet; then the older series reaches up to there.
  let first = 0;
  while (first < newer[0].length && newer.length > 1 && newer.slice(1).every((column) => column[first] === null)) first += 1;
  const begin = newer[0][first];
  if (begin === undefined) return older;
  let end = older[0].length;
  while (end > 0 && older[0][end - 1] >= begin) end -= 1;
  return older.map((column, i) => [...column.slice(0, end), ...newer[i].slice(first)]);
}

/** `values` with nulls before, so that there are `length` of them: the past that is not known. */
export function padded(values, length) {
  return [...Array(Math.max(0, length - values.length)).fill(null), ...values];
}

/** What changed between the first and the last known value. */
export function growth(values) {
  const known = values.filter((value) => value !== null);
  return known.length < 2 ? null : known[known.length - 1] - known[0];
}

/** The path of a sparkline in a box; the line starts anew after a gap. A flat series lies at the bottom if it is 0. */
export function sparkPath(values, width, height, inset = 1.5) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return { line: "", area: "" };
  const low = Math.min(...known, 0);
  const high = Math.max(...known, low + 1e-9);
  const x = (i) => round((i / (values.length - 1)) * width);
  const y = (value) => round(height - inset - ((value - low) / (high - low)) * (height - 2 * inset));
  let line = "";
  let area = "";
  let start = -1;
  values.forEach((value, i) => {
    if (value !== null) {
      if (start < 0) start = i;
      line += `${start === i ? "M" : "L"}${x(i)} ${y(value)}`;
    }
    const ends = start >= 0 && (value === null || i === values.length - 1);
    if (ends) {
      const last = value === null ? i - 1 : i;
      area += `${line.slice(line.lastIndexOf("M"))}L${x(last)} ${height}L${x(start)} ${height}Z`;
      start = -1;
    }
  });
  return { line, area };
}

function round(value) {
  return Math.round(value * 10) / 10;
}

/**
 * Seconds until a queue reaches one of its limits at the growth of the last minute: 0 if it has, Infinity if it does not
 * grow or has none. The bytes of a message are taken to stay as they are on average.
 */
export function timeToFull({ ready, bytes, minute, length_max: length, bytes_max: octets }) {
  const left = [];
  if (length !== null) left.push(length - ready);
  if (octets !== null && ready > 0 && bytes) left.push(Math.floor(((octets - bytes) / bytes) * ready));
  if (!left.length) return Infinity;
  const room = Math.min(...left);
  if (room <= 0) return 0;
  return minute > 0 ? Math.round((room / minute) * 60) : Infinity;
}
