// Preact's hooks and htm in one place; the pages import from here.
import { Fragment, h, render } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";
import { visible } from "./format.mjs";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.mjs";
export { Fragment, render };

const shown = (child) => (typeof child === "string" ? visible(child) : child);
export const html = htm.bind((type, props, ...children) =>
  h(type, props?.title ? { ...props, title: shown(props.title) } : props, ...children.map(shown)),
);
