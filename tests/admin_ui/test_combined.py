"""Modules that are served as one, run by node: they export what they did apart, and are loaded once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from admin_ui.combined import Combined, NotCombined
from admin_ui.ui import ENTRY, STATIC, WHOLE, WORKER

MODULES = {
    "app.mjs": """
import { add, count as shown, Store } from "./lib/store.mjs";
import * as all from "./lib/store.mjs";
import wide, { narrow } from "./lib/none.mjs";
""",
    "lib/store.mjs": """
import plain from "../vendor/plain.mjs";
import{twice as t}from"../vendor/small.mjs";var x=1;
export { half } from "../vendor/small.mjs";
let counted = 0;
export const count = () => counted;
export function add(n) { counted += t(n); }
export async function later() { return (await import("./late.mjs")).seen(); }
export class Store {}
export const where = () => new URL("./late.mjs", import.meta.url).pathname;
const text = `
import pika
`;
export { text, plain as ordinary };
""",
    "lib/late.mjs": """
import { count } from "./store.mjs";
import plain from "../vendor/plain.mjs";
export const seen = () => [count(), plain(1)];
""",
    "vendor/small.mjs": "var n=2;const half=n=>n/2;function d(x){return x*n}export{d as twice,half};",
    "vendor/plain.mjs": "var n=3;export default function(x){return x+n}\n",
}
ENTRY_TEXT = """
import { add, count as shown, Store, half, later, where, text, ordinary } from "./lib/store.mjs";
import * as all from "./lib/store.mjs";
add(4);
console.log(JSON.stringify({ counted: [shown(), all.count()], half: half(8),
  made: new Store() instanceof all.Store,
  later: await later(), where: where().split("/").slice(-2), text, ordinary: ordinary(1) }));
"""


def written(folder: Path, modules: dict[str, str]) -> Path:
    for name, text in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(folder: Path, entry: str) -> str:
    return subprocess.run(
        ["node", entry], cwd=folder, check=True, capture_output=True, text=True, timeout=120
    ).stdout


def combined(modules: dict[str, str]) -> Combined:
    return Combined({name: text.encode() for name, text in modules.items()}, "app.mjs", "all.mjs")


def test_it_does_what_they_do_apart(tmp_path: Path) -> None:
    modules = {**MODULES, "app.mjs": ENTRY_TEXT}
    apart = json.loads(run(written(tmp_path / "apart", modules), "app.mjs"))
    assert apart["counted"] == [8, 8]
    assert apart["later"] == [8, 4]
    whole = combined({**modules, "app.mjs": ENTRY_TEXT.replace("await later()", "0")})
    files = {**modules, "all.mjs": whole.text().decode()}
    files |= {name: text.decode() for name, text in whole.stand_ins().items()}
    together = json.loads(run(written(tmp_path / "together", files), "all.mjs"))
    assert together == {**apart, "later": 0}
    # What loads later has the same objects: the count is not counted anew.
    files["test.mjs"] = (
        'import "./all.mjs"; import { later } from "./lib/store.mjs";'
        "console.log(JSON.stringify(await later()));"
    )
    assert run(written(tmp_path / "together", files), "test.mjs").splitlines()[-1] == "[8,4]"


@pytest.mark.parametrize(
    ("modules", "what"),
    [
        (
            {
                "app.mjs": MODULES["app.mjs"],
                **{k: v for k, v in MODULES.items() if k != "app.mjs"},
                "lib/none.mjs": "export const narrow = 1;",
            },
            "not a known import",
        ),
        ({"app.mjs": 'export * from "./b.mjs";', "b.mjs": ""}, "not a list of names"),
        ({"app.mjs": "export let x = 1;"}, "export let x"),
        ({"app.mjs": 'import "./b.mjs";', "b.mjs": ""}, "import"),
        (
            {"app.mjs": 'import { b } from "./b.mjs";', "b.mjs": 'import { a } from "./app.mjs";'},
            "imports itself",
        ),
    ],
)
def test_what_it_does_not_know_is_refused(modules: dict[str, str], what: str) -> None:
    with pytest.raises(NotCombined, match=what):
        combined(modules)


@pytest.mark.parametrize(("entry", "name", "least"), [(ENTRY, WHOLE, 20), (WORKER, WORKER, 3)])
def test_our_pages_export_what_their_files_do(tmp_path: Path, entry: str, name: str, least: int) -> None:
    contents = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in STATIC.rglob("*.mjs")}
    whole = Combined(contents, entry, name)
    stand_ins = whole.stand_ins()
    assert len(stand_ins) >= least
    (tmp_path / "all.mjs").write_bytes(whole.text())
    subprocess.run(["node", "--check", "all.mjs"], cwd=tmp_path, check=True, timeout=120)
    for path, text in stand_ins.items():
        declared = contents[path].decode().count("\nexport ")
        assert text.decode().count(",") + 1 >= declared, path
