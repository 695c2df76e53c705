"""``make fuzz``: run the fuzzers for as long as asked, or replay a saved finding.

make fuzz ARGS='--minutes 60 --seed 7 --only amqp'
make fuzz ARGS='--seed 7 --only amqp --case 1234'
make fuzz ARGS='--replay fuzz-findings/amqp-7-1234.json'
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.amqp import Amqp
from tests.fuzz.core import Target, case_of, fuzz, run_all
from tests.fuzz.files import Files
from tests.fuzz.http import Http
from tests.fuzz.tls import Tls

TARGETS: dict[str, Callable[[], Target]] = {"amqp": Amqp, "tls": Tls, "http": Http, "files": Files}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1, help="for each fuzzer; default 1")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--only", choices=list(TARGETS), action="append", help="this fuzzer, may be repeated")
    parser.add_argument("--case", type=int, help="run this case alone, of --seed and --only")
    parser.add_argument("--replay", type=Path, help="run the cases of a saved finding")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="where findings are saved"
    )
    args = parser.parse_args()
    names = args.only or list(TARGETS)
    if args.replay is not None:
        saved = json.loads(args.replay.read_text())
        return replay(TARGETS[saved["target"]](), saved["cases"])
    if args.case is not None:
        target = TARGETS[names[0]]()
        return replay(target, [case_of(target, args.seed, args.case)])
    found = 0
    for name in names:
        report = fuzz(TARGETS[name](), args.seed, seconds=args.minutes * 60, directory=args.findings, say=say)
        say(report.text())
        found += len(report.findings)
    return 1 if found else 0


def replay(target: Target, cases: list[list[list[object]]]) -> int:
    """Run the cases on a fresh target and say what comes of it."""
    try:
        problem = run_all(target, cases)
    finally:
        target.close()
    say(problem or "nothing is wrong")
    return 1 if problem else 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
