// The one dialog of an act, and the line that says what was done. The modules of the acts load when the first is wanted.
import { useLayoutEffect, useState } from "./html.mjs";

const MODULES = {
  objects: () => import("../acts/objects.mjs"),
  admin: () => import("../acts/admin.mjs"),
  columns: () => import("../components/choose.mjs"),
  messages: () => import("../acts/messages.mjs"),
  moves: () => import("../acts/moves.mjs"),
  tokens: () => import("../acts/tokens.mjs"),
};

const watchers = new Set();
let shown = { spec: null, said: "" };
let timer = 0;
/** What `askNext` waits to ask. */
let next = null;

function set(changes) {
  shown = { ...shown, ...changes };
  for (const watcher of watchers) watcher(shown);
}

/** Show the dialog of an act, "objects.declareQueue", about `what`. */
export async function ask(act, what = {}) {
  const [module, name] = act.split(".");
  try {
    const acts = await MODULES[module]();
    const [forms, spec] = await Promise.all([import("../components/forms.mjs"), acts[name](what)]);
    set({ spec: { ...spec, Dialog: spec.Dialog ?? forms.FormDialog }, said: "" });
  } catch (error) {
    say(error.message);
  }
}

/** Show the dialog of another act once this one is closed. */
export function askNext(act, what) {
  next = [act, what];
}

export function closeDialog() {
  set({ spec: null });
  if (next) ask(...next);
  next = null;
}

/** Say what was done, for some seconds. */
export function say(text) {
  clearTimeout(timer);
  set({ said: text });
  timer = setTimeout(() => set({ said: "" }), 8000);
}

export function useDialogs() {
  const [state, setState] = useState(shown);
  useLayoutEffect(() => {
    watchers.add(setState);
    return () => watchers.delete(setState);
  }, []);
  return state;
}
