"""Third-party files that the admin pages and their tests carry with them: fetch, rewrite, check.

Each folder in `FOLDERS` holds such files and their lock, ``vendor.json``: package, version, licence, source,
and the SHA-256 of the package and of every file kept. The pages load these files as they lie there, without a
build step, so a bare import (``from "preact"``) becomes a relative one here.

    python tools/vendor.py                 fetch again what the locks name, and write the files
    python tools/vendor.py preact 10.29.9  take that version instead, and write its lock
    python tools/vendor.py --check         only compare the files with their locks; exit code 1 if they differ

Packages come through npm (``npm pack``). A package whose SHA-256 is not the locked one is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "admin_ui/static/vendor", ROOT / "tests/admin_ui/ui/vendor"]
LOCK = "vendor.json"


class VendorError(Exception):
    """A package that cannot be fetched, or is not the locked one."""


def main() -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="third-party files of the admin pages")
    parser.add_argument("name", nargs="?", help="package to take in another version")
    parser.add_argument("version", nargs="?", help="that version")
    parser.add_argument("--check", action="store_true", help="only compare the files with their locks")
    args = parser.parse_args()
    if args.name and not args.version:
        parser.error("a package needs its version")
    if args.check:
        wrong = list(differences())
        print("\n".join(wrong) or "every vendored file is the locked one")
        return 1 if wrong else 0
    try:
        refresh(args.name, args.version)
    except VendorError as error:
        print(f"vendor: {error}", file=sys.stderr)
        return 1
    return 0


def differences() -> Iterator[str]:
    """A line for every file that is missing, changed, or in no lock."""
    for folder in FOLDERS:
        locked = {LOCK}
        for package in read_lock(folder):
            for file in package["files"]:
                locked.add(file["to"])
                path = folder / file["to"]
                if not path.exists():
                    yield f"{path.relative_to(ROOT)}: missing"
                elif digest(path.read_bytes()) != file["sha256"]:
                    yield f"{path.relative_to(ROOT)}: is not the locked file of {package['name']}"
        for path in folder.iterdir():
            if path.name not in locked:
                yield f"{path.relative_to(ROOT)}: in no lock"


def refresh(name: str | None = None, version: str | None = None) -> None:
    """Fetch every locked package (or only ``name``, in ``version``) and write its files and lock.

    Raises:
        VendorError: npm failed, no lock names it, a file is missing, or the package is another one.
    """
    known = False
    for folder in FOLDERS:
        packages = read_lock(folder)
        modules = {
            p["name"] + f.get("module", ""): f["to"] for p in packages for f in p["files"] if "module" in f
        }
        for package in packages:
            if name in (None, package["name"]):
                known = True
                fetch(folder, package, version or package["version"], modules)
        text = json.dumps({"packages": packages}, indent=2, ensure_ascii=False)
        (folder / LOCK).write_text(text + "\n")
    if not known:
        raise VendorError(f"no lock names {name!r}")


def fetch(folder: Path, package: dict[str, Any], version: str, modules: dict[str, str]) -> None:
    """Write the files of one package into ``folder`` and bring ``package``, its lock, up to date."""
    name = package["name"]
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", "--silent", "--pack-destination", scratch, f"{name}@{version}"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise VendorError("npm is not installed") from None
        except subprocess.CalledProcessError as error:
            raise VendorError(f"npm pack {name}@{version}: {error.stderr.strip()}") from None
        archive = next(Path(scratch).glob("*.tgz"))
        found = digest(archive.read_bytes())
        if version == package["version"] and package.get("sha256", found) != found:
            raise VendorError(f"{name} {version} is not the package that was locked")
        package.update(version=version, sha256=found)
        package["source"] = f"https://registry.npmjs.org/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        with tarfile.open(archive) as members:
            for file in package["files"]:
                data = read_member(members, file["from"], name)
                if file["to"].endswith((".mjs", ".css")):
                    data = rewrite(data.decode(), modules, file.get("append", "")).encode()
                (folder / file["to"]).write_bytes(data)
                file["sha256"] = digest(data)
    print(f"{name} {version}: {', '.join(file['to'] for file in package['files'])}")


def read_member(members: tarfile.TarFile, path: str, name: str) -> bytes:
    """The content of one file of the package."""
    try:
        stream = members.extractfile(f"package/{path}")
    except KeyError:
        stream = None
    if stream is None:
        raise VendorError(f"{name} has no {path}")
    return stream.read()


def rewrite(text: str, modules: dict[str, str], append: str) -> str:
    """Relative imports for bare ones, no pointer to a source map that is not there, ``append`` at the end."""

    def relative(match: re.Match[str]) -> str:
        target = modules.get(match[2])
        if target is None:
            raise VendorError(f"imports {match[2]!r}, which no lock provides")
        return f'{match[1]}"./{target}"'

    text = re.sub(r"\n?//# sourceMappingURL=\S+", "", text).rstrip("\n") + "\n" + append
    return re.sub(r"""\b(from|import)\s*["']([a-z@][^"']*)["']""", relative, text)


def read_lock(folder: Path) -> list[dict[str, Any]]:
    """The packages of a folder's lock."""
    packages: list[dict[str, Any]] = json.loads((folder / LOCK).read_text())["packages"]
    return packages


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
