// A list page: query box, sortable columns, paging, all of it in the address; the rows are live.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.mjs";
import { Empty, Icon, Loading } from "./bits.mjs";
import { ask } from "../lib/dialogs.mjs";
import { count, plural } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { param, setParams } from "../lib/location.mjs";
import { compile, pageOf, sortRows } from "../lib/query.mjs";

const PAGE = 50;

/**
 * `columns`: [{id, label, title?, get?: row => value, cell: row => content, numeric?, class?}], a column
 * without `get` cannot be sorted by; `rows` (with a `key`; null while they load) instead of the topic of a live list;
 * with `everywhere` the chosen virtual host does not narrow it; `fields` as `compile` takes them; `examples` are queries that a click tries;
 * `onVisible` hears of the rows on the page; `acts` are buttons beside the filter;
 * `choice` is the name under which the chosen columns are kept, those with `off` are not shown at first; `selection` is
 * {chosen: Set of keys, set, may?: row => boolean, bar: rows => content}. A column's `total: rows => content` stands below it.
 */
export function ListPage({ topic = null, rows: given, everywhere, noun, nouns = `${noun}s`, columns: every, fields, examples, empty, onVisible, initialSort, acts, choice, selection }) {
  const { columns, choose } = useColumns(choice, every);
  const live = useTopic(topic);
  const list = useMemo(() => (topic ? live : given && { rows: given }), [topic, live, given]);
  const vhost = param("vhost");
  const written = param("q");
  const [typed, setTyped] = useState(written);
  const box = useRef(null);
  const timer = useRef(0);

  useEffect(() => {
    if (document.activeElement !== box.current) setTyped(written);
  }, [written]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (text) => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setParams({ q: text.trim(), page: "" }), 150);
  };

  const table = useRef(null);
  const opening = useRef(false);
  const entered = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(timer.current);
    // The rows of what was just typed are there after the next rendering.
    opening.current = Boolean(typed.trim());
    setParams({ q: typed.trim(), page: "" });
    if (written === typed.trim()) openFirst();
  };
  const openFirst = () => {
    if (!opening.current) return;
    opening.current = false;
    table.current?.querySelector("tbody td a")?.click();
  };
  useEffect(openFirst, [written]);

  const sorting = param("sort", initialSort);
  const [sort, direction] = [sorting.replace(/^-/, ""), sorting.startsWith("-")];
  const column = columns.find((one) => one.id === sort && one.get) ?? columns.find((one) => one.get);
  const descending = column.id === sort && direction;

  const { test, errors } = useMemo(() => compile(written, fields), [written, fields]);
  const here = useMemo(() => (list ? list.rows.filter((row) => everywhere || !vhost || row.vhost === vhost) : []), [list, vhost, everywhere]);
  const matching = useMemo(() => here.filter(test), [here, test]);
  const sorted = useMemo(() => sortRows(matching, column.get, descending), [matching, column, descending]);
  const { page, pages, start, rows } = pageOf(sorted, Number(param("page", "1")), PAGE);

  const selectable = selection ? matching.filter((row) => selection.may?.(row) ?? true) : [];
  const chosen = selectable.filter((row) => selection.chosen.has(row.key));
  const keys = rows.map((row) => row.key).join("\n");
  useEffect(() => onVisible?.(rows), [keys]);

  if (list && !here.length) return empty;
  return html`<div class="list">
    <div class="toolbar">
      <label class="query">
        <${Icon} name="search" />
        <span class="hidden">Filter ${nouns}</span>
        <input ref=${box} id="query" type="search" value=${typed} autocomplete="off" spellcheck="false"
          placeholder=${`Filter, for example ${examples[0]}`} aria-describedby="query-help"
          onInput=${(event) => search(event.target.value)} onKeyDown=${entered} />
      </label>
      <p class="total num" role="status">${list ? total(matching.length, here.length, noun, nouns) : ""}</p>
      ${(choose || acts) && html`<div class="toolbar-acts">${choose && html`<button type="button" class="button" aria-haspopup="dialog" onClick=${choose}>Columns</button>`}${acts}</div>`}
    </div>
    <div class="query-help" id="query-help">
      ${errors.length
        ? html`<p class="problem" role="alert"><${Icon} name="alert" />${errors[0]}</p>`
        : html`<p>Try${examples.map(
            (text) => html` <button type="button" class="chip" key=${text} onClick=${() => search(text)}>${text}</button>`,
          )}</p>`}
    </div>
    ${!list
      ? html`<${Loading} rows=${10} />`
      : !sorted.length
        ? html`<${Empty} title=${`No ${noun} matches`}>
            <p>${plural(here.length, noun, nouns)} in all. ${" "}<button type="button" class="link" onClick=${() => search("")}>Clear the filter</button></p>
          <//>`
        : html`<div class="table-box" ref=${table}>
            <table class="table">
              <thead><tr>${selection && html`<th scope="col" class="check-column"><input type="checkbox" aria-label=${`Select all ${nouns} that match`}
                checked=${chosen.length > 0 && chosen.length === selectable.length} disabled=${!selectable.length}
                onChange=${(event) => selection.set(new Set(event.target.checked ? selectable.map((row) => row.key) : []))} /></th>`}${columns.map((one) => html`<${Head} key=${one.id} column=${one} active=${one === column} descending=${descending} />`)}</tr></thead>
              <tbody>${rows.map(
                (row) => html`<tr key=${row.key}>
                  ${selection && html`<td class="check-column">${(selection.may?.(row) ?? true) && html`<input type="checkbox" aria-label=${`Select ${row.name}`}
                    checked=${selection.chosen.has(row.key)} onChange=${() => selection.set(toggled(selection.chosen, row.key))} />`}</td>`}
                  ${columns.map((one) => html`<td key=${one.id} class=${classes(one)}>${one.cell(row)}</td>`)}
                </tr>`,
              )}</tbody>
              ${columns.some((one) => one.total) && matching.length > 1 && html`<tfoot><tr>
                ${selection && html`<td class="check-column"></td>`}
                ${columns.map((one) => html`<td key=${one.id} class=${classes(one)}>${one.total?.(matching)}</td>`)}
              </tr></tfoot>`}
            </table>
          </div>
          ${/* Behind the table and at the foot of the window, so that no row moves while one selects. */ ""}
          ${chosen.length > 0 && html`<div class="bulk" role="region" aria-label="Selected">${selection.bar(chosen)}</div>`}
          <${Pager} page=${page} pages=${pages} start=${start} shown=${rows.length} all=${sorted.length} />`}
  </div>`;
}

function toggled(set, key) {
  const next = new Set(set);
  if (!next.delete(key)) next.add(key);
  return next;
}

/** The columns of a list that somebody has chosen in this browser; the first one always is. */
function useColumns(name, every) {
  const stored = () => {
    try {
      return name ? JSON.parse(localStorage.getItem(name)) : null;
    } catch {
      return null;
    }
  };
  const [kept, setKept] = useState(stored);
  const usual = every.filter((one) => !one.off).map((one) => one.id);
  const shown = Array.isArray(kept) ? kept : usual;
  const change = (ids) => {
    const list = every.map((one) => one.id).filter((id) => ids.has(id));
    setKept(list);
    try {
      localStorage.setItem(name, JSON.stringify(list));
    } catch {
      // not kept, then
    }
  };
  return {
    columns: every.filter((one, index) => index === 0 || shown.includes(one.id)),
    choose: name && (() => ask("columns.choose", { columns: every.slice(1), shown, onChange: change })),
  };
}

function total(matching, all, noun, nouns) {
  return matching === all ? plural(all, noun, nouns) : `${count(matching)} of ${plural(all, noun, nouns)}`;
}

function classes(column) {
  return `${column.numeric ? "num right " : ""}${column.class ?? ""}`;
}

function Head({ column, active, descending }) {
  if (!column.get) return html`<th scope="col" class=${classes(column)} title=${column.title}>${column.label}</th>`;
  const next = active ? !descending : Boolean(column.numeric);
  const order = active ? (descending ? "descending" : "ascending") : undefined;
  return html`<th scope="col" class=${classes(column)} aria-sort=${order} title=${column.title}>
    <button type="button" onClick=${() => setParams({ sort: (next ? "-" : "") + column.id, page: "" })}>
      ${column.label}<i class="sort" aria-hidden="true">${active ? (descending ? "▼" : "▲") : ""}</i>
    </button>
  </th>`;
}

function Pager({ page, pages, start, shown, all }) {
  if (pages < 2) return null;
  const turn = (to) => setParams({ page: to === 1 ? "" : String(to) }, { replace: false });
  return html`<nav class="pager" aria-label="Pages of the list">
    <span class="num">${count(start + 1)}–${count(start + shown)} of ${count(all)}</span>
    <button type="button" aria-label="Page before" disabled=${page === 1} onClick=${() => turn(page - 1)}><${Icon} name="left" /></button>
    <span class="num">${page} / ${pages}</span>
    <button type="button" aria-label="Next page" disabled=${page === pages} onClick=${() => turn(page + 1)}><${Icon} name="right" /></button>
  </nav>`;
}

/** A plain table inside a card. */
export function Table({ columns, rows, rowKey, caption }) {
  return html`<div class="table-box">
    <table class="table">
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map((one) => html`<th key=${one.label} scope="col" class=${classes(one)} title=${one.title}>${one.label}</th>`)}</tr></thead>
      <tbody>${rows.map(
        (row, index) => html`<tr key=${rowKey ? rowKey(row) : index}>
          ${columns.map((one) => html`<td key=${one.label} class=${classes(one)}>${one.cell(row)}</td>`)}
        </tr>`,
      )}</tbody>
    </table>
  </div>`;
}
