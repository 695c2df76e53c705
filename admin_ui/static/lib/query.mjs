// The query box of the lists. No DOM here: tested by node.
//
//   words         name contains each of them
//   field:value   equals; * stands for anything; numbers also >n >=n <n <=n a..b and 10k, 2.5M
//   field~value   contains
//   -term         not
//   "a b"         a value with spaces
//
// All terms must hold. Upper and lower case are the same.

const SUFFIX = { "": 1, k: 1e3, m: 1e6, g: 1e9 };
const YES = new Set(["yes", "true", "1", "on"]);
const NO = new Set(["no", "false", "0", "off"]);

/**
 * Compile a query. `fields` maps a field's name to `{kind: "text"|"number"|"flag", get: row => value}`.
 * Returns `{test: row => boolean, errors: [text]}`; a term in error filters nothing.
 */
export function compile(text, fields) {
  const tests = [];
  const errors = [];
  for (const { word, open } of split(text)) {
    if (open) errors.push("a quotation mark is not closed");
    const negative = word.length > 1 && word.startsWith("-");
    const term = negative ? word.slice(1) : word;
    try {
      const test = compileTerm(term, fields);
      tests.push(negative ? (row) => !test(row) : test);
    } catch (error) {
      errors.push(error.message);
    }
  }
  return { test: (row) => tests.every((test) => test(row)), errors };
}

/** The words of a query; quotation marks hold spaces together. */
export function split(text) {
  const words = [];
  let word = "";
  let quoted = false;
  let any = false;
  for (const letter of text) {
    if (letter === '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && /\s/.test(letter)) {
      if (any) words.push({ word, open: false });
      word = "";
      any = false;
    } else {
      word += letter;
      any = true;
    }
  }
  if (any && (word || !quoted)) words.push({ word, open: quoted });
  return words.filter(({ word }) => word !== "");
}

function compileTerm(term, fields) {
  const match = /^([a-z_]+)([:~])(.*)$/is.exec(term);
  if (!match) return contains(fields.name, term);
  const [, written, operator, value] = match;
  const name = written.toLowerCase();
  const field = Object.hasOwn(fields, name) ? fields[name] : null;
  if (!field) throw new Error(`there is no field “${written}”; there are ${Object.keys(fields).join(", ")}`);
  if (value === "") throw new Error(`“${name}${operator}” needs a value`);
  if (operator === "~") return contains(field, value);
  if (field.kind === "number") return number(name, field, value);
  if (field.kind === "flag") return flag(name, field, value);
  return equals(field, value);
}

function contains(field, value) {
  const wanted = value.toLowerCase();
  return (row) => String(field.get(row)).toLowerCase().includes(wanted);
}

function equals(field, value) {
  const pattern = value.toLowerCase();
  if (!pattern.includes("*")) return (row) => String(field.get(row)).toLowerCase() === pattern;
  const parts = pattern.split("*");
  return (row) => glob(String(field.get(row)).toLowerCase(), parts);
}

/** Whether `text` is the parts in order with anything between them; takes time in proportion to its length. */
function glob(text, parts) {
  const last = parts[parts.length - 1];
  if (!text.startsWith(parts[0])) return false;
  let at = parts[0].length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}

function number(name, field, value) {
  const range = /^(.+)\.\.(.+)$/.exec(value);
  if (range) {
    const [low, high] = [amount(name, range[1]), amount(name, range[2])];
    return (row) => field.get(row) >= low && field.get(row) <= high;
  }
  const [, operator, rest] = /^(>=|<=|>|<|)(.*)$/s.exec(value);
  const limit = amount(name, rest);
  if (operator === ">") return (row) => field.get(row) > limit;
  if (operator === ">=") return (row) => field.get(row) >= limit;
  if (operator === "<") return (row) => field.get(row) < limit;
  if (operator === "<=") return (row) => field.get(row) <= limit;
  return (row) => field.get(row) === limit;
}

function amount(name, text) {
  const match = /^(-?\d+(?:\.\d+)?)([kmg]?)$/i.exec(text.trim());
  if (!match) throw new Error(`“${name}” is a number: ${name}:0, ${name}:>1000, ${name}:10..2k`);
  return Number(match[1]) * SUFFIX[match[2].toLowerCase()];
}

function flag(name, field, value) {
  const word = value.toLowerCase();
  if (YES.has(word)) return (row) => Boolean(field.get(row));
  if (NO.has(word)) return (row) => !field.get(row);
  throw new Error(`“${name}” is yes or no`);
}

/** Sort a copy of `rows` by what `get` gives; what is equal keeps its order by key. */
export function sortRows(rows, get, descending) {
  const sign = descending ? -1 : 1;
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "variant" });
  const sorted = rows.map((row, index) => ({ row, index, value: get(row) }));
  sorted.sort((a, b) => {
    const difference =
      typeof a.value === "number" ? a.value - b.value : order.compare(String(a.value), String(b.value));
    return difference ? difference * sign : a.index - b.index;
  });
  return sorted.map(({ row }) => row);
}

/**
 * `entries` ({name}) in the order in which somebody who types `text` means them: the name itself, names that begin
 * with it, names with a word that does, and then the others; short names first.
 */
export function ranked(entries, text) {
  const wanted = text.toLowerCase();
  if (!wanted) return entries;
  const rank = ({ name }) => {
    const found = name.toLowerCase();
    if (found === wanted) return 0;
    if (found.startsWith(wanted)) return 1;
    const at = found.indexOf(wanted);
    return at > 0 && /[^\p{L}\p{N}]/u.test(found[at - 1]) ? 2 : 3;
  };
  return entries
    .map((entry, index) => ({ entry, index, rank: rank(entry) }))
    .sort((a, b) => a.rank - b.rank || (a.rank ? a.entry.name.length - b.entry.name.length : 0) || a.index - b.index)
    .map(({ entry }) => entry);
}

/** The part of `rows` on a page (from 1), which is moved into the range there is. */
export function pageOf(rows, page, size) {
  const pages = Math.max(1, Math.ceil(rows.length / size));
  const current = Math.min(Math.max(1, Math.trunc(page) || 1), pages);
  const start = (current - 1) * size;
  return { page: current, pages, start, rows: rows.slice(start, start + size) };
}
