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

function toObject(columns, values) {
  const row = {};
  for (let i = 0; i < columns.length; i += 1) row[columns[i]] = values[i];
  return row;
}
