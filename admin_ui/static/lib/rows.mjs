// Lists that come as a whole once and as changes afterwards. No DOM here: tested by node.

/**
 * Apply an event of a list topic. `{full, columns, rows, at}` replaces everything; `{rows, gone, at}` changes some.
 * The first column is the key. Returns `{at, columns, byKey, rows}` with rows as objects in the server's order, or null
 * for changes to something that was never sent whole.
 */
export function applyPatch(old, event) {
  if (!event.full && !old) return null;
  const columns = event.columns ?? old.columns;
  const byKey = event.full ? new Map() : new Map(old.byKey);
  for (const key of event.gone ?? []) byKey.delete(key);
  for (const values of event.rows) byKey.set(values[0], toObject(columns, values));
  return { at: event.at, columns, byKey, rows: [...byKey.values()] };
}

/**
 * The same list kept as values by key, for whoever hands it on: `mergeWhole(old, event)` gives {at, columns, rows: Map},
 * or null for changes to something that was never sent whole.
 */
export function mergeWhole(old, event) {
  if (!event.full && !old) return null;
  const rows = event.full ? new Map() : old.rows;
  for (const key of event.gone ?? []) rows.delete(key);
  for (const values of event.rows) rows.set(values[0], values);
  return { at: event.at, columns: event.columns ?? old.columns, rows };
}

/** What `mergeWhole` kept as an event that stands alone; an event of one object does already. */
export function wholeEvent(kept) {
  return kept.rows instanceof Map ? { ...kept, full: true, rows: [...kept.rows.values()] } : kept;
}

function toObject(columns, values) {
  const row = {};
  for (let i = 0; i < columns.length; i += 1) row[columns[i]] = values[i];
  return row;
}
