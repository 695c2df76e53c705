// Numbers, sizes and times as text. No DOM here: tested by node.

const GROUPED = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
/** Controls, marks of direction, spaces without width. */
const HIDDEN = /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const STEPS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** A count: exact with thousands separators below 100,000, then three figures and k, M, G. */
export function count(value) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) < 99_999.5) return GROUPED.format(value);
  return short(value);
}

/** Three figures and a letter, for axes and narrow places: 0, 12, 3.4k, 25M. */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  for (let i = 0; i < STEPS.length; i += 1) {
    const [step, letter] = STEPS[i];
    if (size >= step * 0.9995) return figures(value / step) + letter;
  }
  return figures(value);
}

function figures(value) {
  const size = Math.abs(value);
  const digits = size >= 99.95 || Number.isInteger(value) ? 0 : size >= 9.995 ? 1 : 2;
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Per second: whole from 10 on, one decimal below; what is small but not nothing is not shown as 0. */
export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.05) return value < 0 ? ">−0.1" : "<0.1";
  if (size < 9.95) return value.toFixed(1);
  return count(value);
}

/** With its sign, a true minus: +1,200 or −3. */
export function signed(value, format = count) {
  if (!Number.isFinite(value)) return "–";
  const text = format(Math.abs(value));
  if (text === "0") return "±0";
  return (value < 0 ? "−" : "+") + text;
}

/** Octets in binary units: 812 B, 1.4 KiB, 23 MiB. */
export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= 1023.5 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const text = unit === 0 ? String(Math.round(rest)) : rest >= 99.95 ? rest.toFixed(0) : rest.toFixed(1).replace(/\.0$/, "");
  return `${value < 0 ? "−" : ""}${text} ${units[unit]}`;
}

/** A span of milliseconds in its two largest units: 3 d 4 h, 12 min 5 s, 40 s. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([value], index) => index === 0 || value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(" ");
}

/** A moment on the clock; with the day when the span shown is longer than one. */
export function clock(ms, { seconds = true, day = false } = {}) {
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
  return day ? `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}` : time;
}

/** "1 queue", "2 queues", "2 policies". */
export function plural(number, noun, nouns = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : nouns}`;
}

/**
 * Clients choose names: what has no shape of its own, or turns the text around it, is written out, so that no name
 * looks like another (\u202e). Tabs and line ends stay.
 */
export function visible(text) {
  return text.replace(HIDDEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** What a number of a setting means in larger units, by the setting's name: 1 d, 5 MiB; empty if it needs no explanation. */
export function meaning(name, thing) {
  if (typeof thing !== "number") return "";
  if (/(^|-)(message-ttl|expires|consumer-timeout)$/.test(name)) return thing >= 1000 ? duration(thing) : "";
  return /-bytes$/.test(name) && thing >= 1024 ? bytes(thing) : "";
}

/** A value of an AMQP table as one writes it. */
export function value(thing) {
  if (typeof thing === "string") return thing;
  if (thing === null || thing === undefined) return "–";
  return JSON.stringify(thing);
}
