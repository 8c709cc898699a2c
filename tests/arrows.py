#!/usr/bin/env python3
"""Fails on an #include against the arrows between the folders: arrows.py ROOT.

The block `rooms` of docs/architecture.md has a line for each folder: "folder: folders it may include", itself apart, all
of which stand above it.
"""
import pathlib
import re
import sys

CORE = [f"core/{name}" for name in ("base", "tensor", "ir", "device", "index", "lift", "adjoint", "ops", "interpreter")]
FOLDERS = ("core", "substitutions", "verifier", "search", "backends", "runtime", "bench/zoo", "tools")
INCLUDE = re.compile(r'^ *# *include *(["<])([^">]*)[">]', re.MULTILINE)
# Headers of libraries that few folders may include.
LIBRARIES = ((r"z3", "Z3", r"verifier"), (r"google/protobuf|onnx/", "protobuf", r"core/onnx$"),
             (r".*\.pb\.h", "messages of protobuf", r"(core/onnx|substitutions/taso)$"))


def read_arrows(root):
    """Folder -> folders it may include; and what is wrong with the table."""
    text = (root / "docs/architecture.md").read_text()
    block = re.search(r"^```rooms\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if not block:
        sys.exit("docs/architecture.md has no block of rooms")
    arrows, wrong = {}, []
    for line in block.group(1).splitlines():
        folder, _, allowed = line.partition(":")
        names = [name for word in allowed.split() for name in (CORE if word == "CORE" else [word])]
        wrong += [f"docs/architecture.md: {folder} may include {name}, which does not stand above it"
                  for name in names if name not in arrows]
        arrows[folder] = {folder, *names}
    return arrows, wrong


def room_of(path, arrows):
    """The longest folder of the table that contains the path."""
    parents = (str(parent) for parent in pathlib.PurePosixPath(path).parents)
    return next((parent for parent in parents if parent in arrows), None)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    arrows, wrong = read_arrows(root)
    checked = 0
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc")):
        name = path.relative_to(root).as_posix()
        room = room_of(name, arrows)
        if room is None:
            continue
        for quote, included in INCLUDE.findall(path.read_text()):
            for pattern, library, rooms in LIBRARIES:
                if re.match(pattern, included) and not re.match(rooms, room):
                    wrong.append(f"{name} includes {library}: {room} may not")
            other = room_of(included, arrows) if quote == '"' else None
            if other is None:
                continue
            checked += 1
            if other not in arrows[room]:
                wrong.append(f"{name} includes {included}: {room} may not include {other}")
    print("\n".join(wrong + [f"{checked} includes checked, {len(wrong)} against the arrows"]))
    sys.exit(1 if wrong or checked == 0 else 0)


if __name__ == "__main__":
    main()
