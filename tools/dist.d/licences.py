"""Prints the licences of everything that a program for TARGET is made of: each crate with its licence, and the texts that it comes with."""

import json
import os
import subprocess
import sys

target = sys.argv[1]
command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = next(id for id, package in packages.items() if package["name"] == "cofill-cli")

# What is linked in, and not what only builds or tests it.
linked, waiting = set(), [root]
while waiting:
    id = waiting.pop()
    if id not in linked:
        linked.add(id)
        waiting += [dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]

WORDS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def texts(folder):
    """Licences of the crate, and of C sources below it."""
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("target", ".git", "tests"))
        for name in sorted(files):
            if name.upper().startswith(WORDS) and not name.endswith((".rs", ".html", ".py")):
                yield os.path.relpath(os.path.join(at, name), folder), os.path.join(at, name)


print("cofill is linked from the crates below. Each is under the licence named beside it; the texts they come with follow, equal ones once.\n")
third = sorted((packages[id] for id in linked if packages[id]["source"]), key=lambda p: (p["name"], p["version"]))
for package in third:
    print(f"{package['name']} {package['version']}: {package['license'] or 'see its text'}")
seen = {}
for package in third:
    for name, path in texts(os.path.dirname(package["manifest_path"])):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read().strip()
        seen.setdefault(text, []).append(f"{package['name']} {package['version']}: {name}")
for text, owners in seen.items():
    print("\n" + "=" * 78)
    print("\n".join(owners))
    print("=" * 78 + f"\n{text}")
