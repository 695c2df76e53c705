// What forms check and say, as the broker does. No DOM here: tested by node.

const OCTETS_MAX = 255;

/** What is wrong with a name as AMQP has them; "" if nothing is. */
export function nameProblem(what, text) {
  const octets = new TextEncoder().encode(text).length;
  return octets > OCTETS_MAX ? `the name of the ${what} has ${octets} octets, ${OCTETS_MAX} are the most` : "";
}

/** A whole number as somebody typed it, or null. */
export function wholeNumber(text) {
  return /^\s*-?\d+\s*$/.test(text) ? Number(text) : null;
}

/** The kinds of values in a table, and how each is written. */
export const KINDS = {
  text: (text) => text,
  number: (text) => {
    if (text.trim() === "" || !Number.isFinite(Number(text))) throw new Error(`“${text}” is not a number`);
    return Number(text);
  },
  "yes or no": (text) => {
    const word = text.trim().toLowerCase();
    if (["yes", "true"].includes(word)) return true;
    if (["no", "false"].includes(word)) return false;
    throw new Error(`“${text}” is neither yes nor no`);
  },
  JSON: (text) => {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`“${text}” is not JSON`);
    }
  },
};

/** Rows [{name, kind, text}] as an object. A row without a name and a value is left out; throws what is wrong. */
export function tableOf(rows) {
  const table = {};
  for (const { name, kind, text } of rows) {
    if (name.trim() === "") {
      if (text === "") continue;
      throw new Error(`the value “${text}” has no name`);
    }
    if (Object.hasOwn(table, name)) throw new Error(`“${name}” is there twice`);
    try {
      Object.defineProperty(table, name, { value: KINDS[kind](text), enumerable: true });
    } catch (error) {
      throw new Error(`${name}: ${error.message}`, { cause: error });
    }
  }
  return table;
}

/** An object as rows, to be edited. */
export function rowsOf(table) {
  return Object.entries(table).map(([name, value]) => {
    if (typeof value === "string") return { name, kind: "text", text: value };
    if (typeof value === "number") return { name, kind: "number", text: String(value) };
    if (typeof value === "boolean") return { name, kind: "yes or no", text: value ? "yes" : "no" };
    return { name, kind: "JSON", text: JSON.stringify(value) };
  });
}

/**
 * The field that an error of the broker is about: the one it names, or that of the arguments for an argument (x-...),
 * or `otherwise`. `names` are the fields of the form.
 */
export function blamed(message, names, otherwise) {
  const said = /\barg '([^']+)'/.exec(message)?.[1] ?? /^\[?"?([a-z_-]+)"? (?:is not|should be)/i.exec(message)?.[1];
  const name = said?.replaceAll("-", "_");
  if (name && names.includes(name)) return name;
  if (/\bx-[a-z-]+|^arguments\b|alternate-exchange/.test(message) && names.includes("arguments")) return "arguments";
  return names.includes(otherwise) ? otherwise : (names[0] ?? "");
}

/** What the broker says to programs, which know it from RabbitMQ, in words for people. */
export function readable(message) {
  const text = message.replace(/^Validation failed\s+/, "").replace(/<<"(.*?)">>/gs, "“$1”");
  const unknown = /^\[(\{.*\})\] are not recognised policy settings$/s.exec(text);
  if (!unknown) return text;
  const keys = [...unknown[1].matchAll(/\{(“.*?”),/gs)].map(([, key]) => key);
  return `${keys.join(", ")}: policies have no such key.`;
}

/** A header's value: browsers send its letters as single octets, so a text goes as those of its UTF-8. */
export function headerText(text) {
  return String.fromCharCode(...new TextEncoder().encode(text.replace(/[\r\n\0]+/g, " ")));
}
