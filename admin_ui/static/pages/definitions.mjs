import { html, useRef, useState } from "../lib/html.mjs";
import { Card, Icon, Pill } from "../components/bits.mjs";
import { Field } from "../components/forms.mjs";
import { Table } from "../components/table.mjs";
import { act, post } from "../lib/api.mjs";
import { bytes, count, plural, value as text } from "../lib/format.mjs";
import { documentPath } from "../lib/routes.mjs";

/** As the server has it. */
const FILE_BYTES_MAX = 50 * 1024 * 1024;
/** Names shown of each kind of difference. */
const SHOWN = 20;

export function Definitions({ me }) {
  const [vhost, setVhost] = useState("");
  const path = vhost ? documentPath("definitions", vhost) : "/api/definitions";
  const day = new Date().toISOString().slice(0, 10);
  return html`<div class="detail">
    <${Card} title="Of what" id="of">
      <div class="form"><${Field} value=${vhost} onChange=${setVhost} field=${{
        name: "of", label: "Definitions of", kind: "select", options: [["", "the whole node"], ...me.vhosts.map((name) => [name, `virtual host ${name}`])],
      }} /></div>
    <//>
    <${Card} title="Export" id="export">
      <div class="form">
        <p class="form-text">A JSON file that this broker and RabbitMQ import: ${vhost ? "policies, queues, exchanges and bindings" : "users with the hashes of their passwords, virtual hosts, permissions, policies, queues, exchanges and bindings"}. No messages.</p>
        <p><a class="button" href=${`${path}?download=${encodeURIComponent(`definitions-${me.node}-${day}.json`)}`} download>Download the file</a></p>
      </div>
    <//>
    <${Import} key=${vhost} vhost=${vhost} path=${path} />
  </div>`;
}

function Import({ vhost, path }) {
  const [chosen, setChosen] = useState(null);
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  const [leftOut, setLeftOut] = useState(null);
  const [busy, setBusy] = useState(false);
  const input = useRef(null);
  const preview = vhost ? documentPath("previews/definitions", vhost) : "/admin/v1/previews/definitions";
  const choose = async () => {
    const file = input.current.files[0] ?? null;
    setChosen(file);
    setFound(null);
    setError("");
    setLeftOut(null);
    if (!file) return;
    if (file.size > FILE_BYTES_MAX) return setError(`The file has ${bytes(file.size)}; ${bytes(FILE_BYTES_MAX)} are the most.`);
    try {
      setFound(await post(preview, file));
    } catch (problem) {
      setError(problem.message === "failed_to_parse_json" ? "The file is not JSON." : problem.message);
    }
  };
  const load = async () => {
    setBusy(true);
    setError("");
    try {
      const answer = await act("POST", path, chosen);
      setLeftOut(answer?.left_out ?? []);
      setFound(null);
    } catch (problem) {
      setError(`${problem.message} What came before that in the file is imported.`);
    }
    setBusy(false);
  };
  const changes = found?.reduce((sum, row) => sum + row.added.total + row.changed.total, 0);
  return html`<${Card} title="Import" id="import">
    <div class="form">
      <p class="form-text">An import adds and changes, it removes nothing. Queues and exchanges that exist stay as they are. You see what it would do first.</p>
      <div class="field"><label for="file">File with definitions</label>
        <input ref=${input} id="file" type="file" accept=".json,application/json" onChange=${choose} aria-invalid=${error ? "true" : undefined} aria-describedby=${error ? "file-error" : undefined} />
        ${error && html`<p class="field-error" id="file-error" role="alert">${error}</p>`}
      </div>
    </div>
    ${found && html`<div class="form"><div class="form-end"><p class="form-done" role="status">${changes ? `${plural(changes, "difference")} to import, listed below.` : "The file has nothing new."}</p>
        <button type="button" class="button main-button" disabled=${busy || !changes} onClick=${load}>Import</button></div></div>
      <${Differences} rows=${found} />`}
    ${leftOut && (leftOut.length
      ? html`<p class="form-text import-note" role="status"><b>The definitions are imported, but ${plural(leftOut.length, "item")} ${leftOut.length === 1 ? "was" : "were"} left out:</b></p><${LeftOut} rows=${leftOut} />`
      : html`<p class="all-well" role="status"><${Icon} name="check" />The definitions are imported, all of them.</p>`)}
  <//>`;
}

const WORDS = { topic_permissions: "topic permissions", global_parameters: "global parameters", vhosts: "virtual hosts" };
const section = (name) => WORDS[name] ?? name;

function Names({ of: { total, names, differs = [] }, kind }) {
  if (!total) return html`<span class="muted">0</span>`;
  return html`<b class="num">${count(total)}</b>${names.slice(0, SHOWN).map((name, at) => html`<div key=${name} class="given"><code>${name}</code>${differs[at]?.length > 0 && html`: ${differs[at].join(", ")}`}</div>`)}${total > SHOWN && html`<div class="given">and ${count(total - SHOWN)} more ${kind}</div>`}`;
}

function Differences({ rows }) {
  const columns = [
    { label: "Section", cell: (row) => section(row.section) },
    { label: "New", class: "whole", cell: (row) => html`<${Names} of=${row.added} kind="new ones" />` },
    { label: "Changed", class: "whole", cell: (row) => html`<${Names} of=${row.changed} kind="changed ones" />` },
    { label: "Kept", class: "whole", title: "Queues and exchanges that exist stay as they are, though they differ", cell: (row) => html`<${Names} of=${row.kept} kind="that stay" />` },
    { label: "Same", numeric: true, class: "n", cell: (row) => count(row.same) },
    ...(rows.some((row) => row.left_out.total) ? [{ label: "Left out", class: "whole", title: "This broker cannot have them", cell: ({ left_out: out }) => html`<${Names} of=${{ ...out, differs: out.reasons.map((reason) => [reason]) }} kind="left out" />` }] : []),
  ];
  return html`<${Table} columns=${columns} rows=${rows} caption="What the import would do" rowKey=${(row) => row.section} />`;
}

function LeftOut({ rows }) {
  const columns = [
    { label: "What", class: "whole", cell: ({ section: where, reason, ...about }) => html`${section(where)} ${Object.values(about).map((part) => html`<${Pill} key=${part} kind="plain">${text(part)}<//>`)}` },
    { label: "Why", class: "whole", cell: (row) => row.reason },
  ];
  return html`<${Table} columns=${columns} rows=${rows} caption="What was left out" />`;
}
