// The dialog of an act: fields, the broker's own words at the field that they are about, and one button that does it.
import { html, useEffect, useRef, useState } from "../lib/html.mjs";
import { Icon } from "./bits.mjs";
import { askNext, closeDialog, say } from "../lib/dialogs.mjs";
import { visible } from "../lib/format.mjs";
import { blamed, KINDS, readable, tableOf } from "../lib/forms.mjs";
import { go } from "../lib/location.mjs";

/** The frame of all dialogs of acts. */
export function Frame({ title, wide, children }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog class=${`dialog act ${wide ? "wide-dialog" : ""}`} ref=${dialog} onClose=${closeDialog} aria-labelledby="act-title">
    <header class="card-head"><h2 id="act-title">${title}</h2>
      <button type="button" class="icon-button" aria-label="Close" onClick=${() => dialog.current.close()}><${Icon} name="close" /></button>
    </header>
    ${children}
  </dialog>`;
}

/** Close the dialog as its cross does, so that the keyboard is back where it was. */
export function shut(within) {
  within.closest("dialog").close();
}

/**
 * `spec`: {title, text?, fields, submit, danger?, act, otherwise?, Below?}. `fields` is a list, or gives one for the
 * values: {name, label, kind?, value?, hint?, options?, list?, check?, required?}. `act(values)` calls the broker and
 * gives {said, to?, next?}: what to say, where to go, and the act to ask for then; with `stays` the dialog stays open and shows it.
 */
export function FormDialog({ spec }) {
  const listed = (values) => (typeof spec.fields === "function" ? spec.fields(values) : spec.fields).filter(Boolean);
  const [values, setValues] = useState(() => Object.fromEntries(listed({}).map((one) => [one.name, initial(one)])));
  const [error, setError] = useState({ field: "", text: "" });
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState("");
  const form = useRef(null);
  const fields = listed(values);
  const value = (one) => (one.name in values ? values[one.name] : initial(one));
  const change = (name, changed) => {
    setValues((old) => ({ ...old, [name]: changed }));
    if (error.field === name) setError({ field: "", text: "" });
    setDone("");
  };
  const fail = (field, text) => {
    setError({ field, text });
    setBusy(false);
    setTimeout(() => (form.current?.querySelector(`[name="${field}"]`) ?? form.current?.querySelector("[aria-invalid=true]"))?.focus());
  };
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    const found = {};
    for (const one of fields) {
      const given = value(one);
      try {
        found[one.name] = one.kind === "table" ? tableOf(given) : given;
      } catch (problem) {
        return fail(one.name, problem.message);
      }
      const problem = one.required && given === "" ? "This field needs a value." : one.check?.(found[one.name], found);
      if (problem) return fail(one.name, problem);
    }
    setBusy(true);
    setError({ field: "", text: "" });
    try {
      const result = await spec.act(found);
      setBusy(false);
      if (spec.stays) return setDone(result.said);
      if (result.next) askNext(...result.next);
      shut(form.current);
      say(result.said);
      if (result.to) go(result.to);
    } catch (problem) {
      const names = fields.map((one) => one.name);
      fail(spec.blame?.(problem.message) ?? blamed(problem.message, names, spec.otherwise), readable(problem.message));
    }
  };
  return html`<${Frame} title=${spec.title} wide=${spec.wide}>
    <form class="form" ref=${form} onSubmit=${submit} novalidate>
      ${spec.text && html`<div class="form-text">${spec.text}</div>`}
      ${fields.map((one, index) => html`<${Field} key=${one.name} field=${one} value=${value(one)} first=${index === 0}
        error=${error.field === one.name ? error.text : ""} onChange=${(changed) => change(one.name, changed)} />`)}
      ${error.text && !fields.some((one) => one.name === error.field) && html`<p class="problem" role="alert"><${Icon} name="alert" />${error.text}</p>`}
      ${spec.Below && html`<${spec.Below} values=${values} />`}
      <div class="form-end">
        <p class="form-done" role="status">${done}</p>
        <button type="button" class="button" onClick=${() => shut(form.current)}>${spec.stays ? "Close" : "Cancel"}</button>
        <button type="submit" class=${`button ${spec.danger ? "danger" : "main-button"}`} disabled=${busy}>${spec.submit}</button>
      </div>
    </form>
  <//>`;
}

function initial(field) {
  return field.value ?? (field.kind === "check" ? false : field.kind === "table" ? [] : "");
}

export function Field({ field, value, error, first, onChange }) {
  const { name, label, kind = "text", hint, options, list } = field;
  const id = `field-${name}`;
  const about = [error && `${id}-error`, hint && `${id}-hint`].filter(Boolean).join(" ") || undefined;
  const common = {
    id, name, "aria-invalid": error ? "true" : undefined, "aria-describedby": about, autofocus: first || undefined,
  };
  const typed = (event) => onChange(event.target.value);
  const below = html`${error && html`<p class="field-error" id=${`${id}-error`} role="alert">${error}</p>`}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}`;
  if (kind === "check") {
    return html`<div class="field check">
      <label for=${id}><input ...${common} type="checkbox" checked=${value} onChange=${(event) => onChange(event.target.checked)} />${label}</label>${below}
    </div>`;
  }
  if (kind === "table") return html`<${TableField} field=${field} rows=${value} common=${common} below=${below} onChange=${onChange} />`;
  const control =
    kind === "select"
      ? html`<select ...${common} value=${value} onChange=${typed}>${options.map(
          (one) => html`<option key=${one[0] ?? one} value=${Array.isArray(one) ? one[0] : one} selected=${(Array.isArray(one) ? one[0] : one) === value}>${Array.isArray(one) ? one[1] : one}</option>`,
        )}</select>`
      : kind === "area"
        ? html`<textarea ...${common} rows=${field.rows ?? 4} value=${value} spellcheck="false" onInput=${typed}></textarea>`
        : html`<input ...${common} type=${kind === "password" ? "password" : "text"} inputmode=${kind === "number" ? "numeric" : undefined}
            value=${value} autocomplete=${kind === "password" ? "new-password" : "off"} autocapitalize="none" spellcheck="false"
            list=${list ? `${id}-list` : undefined} onInput=${typed} />
          ${list && html`<datalist id=${`${id}-list`}>${list.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`}`;
  return html`<div class="field"><label for=${id}>${label}</label>${control}${below}</div>`;
}

/** Names with values of a kind each. */
function TableField({ field, rows, common, below, onChange }) {
  const { label, id, known = {}, noun = "argument" } = { id: common.id, ...field };
  const group = useRef(null);
  const set = (index, changes) =>
    onChange(rows.map((row, at) => {
      if (at !== index) return row;
      const next = { ...row, ...changes };
      return changes.name in known ? { ...next, kind: known[changes.name] } : next;
    }));
  const focus = (selector) => setTimeout(() => group.current?.querySelector(selector)?.focus());
  const add = () => {
    onChange([...rows, { name: "", kind: "text", text: "" }]);
    focus(".pair:last-of-type input");
  };
  const offer = (name) => {
    onChange([...rows.filter((row) => row.name || row.text), { name, kind: known[name], text: "" }]);
    focus(".pair:last-of-type input:last-of-type");
  };
  const remove = (index) => {
    onChange(rows.filter((_, at) => at !== index));
    focus(".add-pair");
  };
  return html`<fieldset class="field" ref=${group} aria-describedby=${common["aria-describedby"]}>
    <legend>${label}</legend>
    ${rows.map(
      (row, index) => html`<div class="pair" key=${index}>
        <input aria-label=${`Name of ${noun} ${index + 1}`} value=${row.name} list=${`${id}-list`} autocomplete="off" spellcheck="false" autocapitalize="none"
          aria-invalid=${common["aria-invalid"]} onInput=${(event) => set(index, { name: event.target.value })} />
        <select aria-label=${`Kind of ${noun} ${index + 1}`} value=${row.kind} onChange=${(event) => set(index, { kind: event.target.value })}>
          ${Object.keys(KINDS).map((kind) => html`<option key=${kind} value=${kind} selected=${kind === row.kind}>${kind}</option>`)}
        </select>
        <input aria-label=${`Value of ${noun} ${index + 1}`} value=${row.text} autocomplete="off" spellcheck="false" autocapitalize="none" onInput=${(event) => set(index, { text: event.target.value })} />
        <button type="button" class="icon-button" aria-label=${`Remove ${noun} ${index + 1}`} onClick=${() => remove(index)}><${Icon} name="close" /></button>
      </div>`,
    )}
    ${field.offered && html`<p class="offered">${Object.keys(known).filter((name) => !rows.some((row) => row.name === name)).map((name) => html`<button
      type="button" class="chip" key=${name} onClick=${() => offer(name)}>${name}</button>`)}</p>`}
    <datalist id=${`${id}-list`}>${Object.keys(known).map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    <button type="button" class="button small add-pair" name=${field.name} onClick=${add}>Add ${field.offered ? "another" : /^[aeiou]/.test(noun) ? "an" : "a"} ${noun}</button>
    ${below}
  </fieldset>`;
}

/** A field that has to be filled with a name before something is lost. Invisible letters may be typed as they are shown. */
export function confirmField(noun, name) {
  return {
    name: "confirm",
    label: `Type the name of the ${noun} to go on`,
    hint: visible(name),
    check: (typed) => (typed === name || typed === visible(name) ? "" : `This is not the name of the ${noun}.`),
  };
}
