// Which columns a list shows, kept in this browser.
import { html, useState } from "../lib/html.mjs";
import { Frame, shut } from "./forms.mjs";

/** The dialog: a check for each column, which takes effect at once. */
export function ChooseColumns({ spec: { columns, shown, onChange } }) {
  const [chosen, setChosen] = useState(new Set(shown));
  const toggle = (id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
    onChange(next);
  };
  return html`<${Frame} title="Columns">
    <form class="form" onSubmit=${(event) => (event.preventDefault(), shut(event.target))}>
      <p class="form-text">Kept in this browser. A narrow window leaves some out.</p>
      ${columns.map((one) => html`<div class="field check" key=${one.id}><label><input type="checkbox" checked=${chosen.has(one.id)} onChange=${() => toggle(one.id)} /><span class="choice">${one.label}</span>${one.title && html`<span class="muted">${one.title}</span>`}</label></div>`)}
      <div class="form-end"><p class="form-done"></p><button type="submit" class="button main-button">Done</button></div>
    </form>
  <//>`;
}

/** The act of `lib/dialogs.mjs`. */
export const choose = (what) => ({ Dialog: ChooseColumns, ...what });
