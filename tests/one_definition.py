"""Fails where two files define a type of the same name in the same namespace: the linker takes one of the two for both.

Usage: one_definition.py ROOT
"""

import collections
import pathlib
import re
import sys

FOLDERS = ("core", "substitutions", "verifier", "search", "backends", "runtime", "tools", "python", "bench")
NAMESPACE = re.compile(r"^(?:inline )?namespace(?: ([\w:]+))? \{(?!.*\})")
TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|union|enum class|enum struct|enum) (?:REWRIGHT_API )?(\w+)(?![\w:])(?! ?::)[^;]*$")
PROGRAM = re.compile(r"^int main\(", re.M)


def definitions(path):
    """Types at the outermost level of named namespaces, each as namespace::name."""
    names, inside = [], []
    for line in path.read_text().splitlines():
        opened = NAMESPACE.match(line)
        if opened:
            inside.append(opened.group(1))  # None: without a name, in which each file has its own
        elif line.startswith("}  // namespace") and inside:
            inside.pop()
        else:
            found = TYPE.match(line)
            if found and None not in inside:
                names.append("::".join([*inside, found.group(1)]))
    return names


def main():
    root = pathlib.Path(sys.argv[1])
    places = collections.defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu"):
                continue
            if PROGRAM.search(path.read_text()):
                continue  # a program of its own
            for name in definitions(path):
                places[name].add(str(path.relative_to(root)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    for name, files in sorted(twice.items()):
        print(f"{name}: defined in {', '.join(sorted(files))}")
    print(f"{len(places)} types, {len(twice)} of them defined twice")
    sys.exit(1 if twice or not places else 0)


main()
