// Preact's hooks and htm in one place; the pages import from here.
import { Fragment, h, render } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.mjs";
export { Fragment, render };
export const html = htm.bind(h);
