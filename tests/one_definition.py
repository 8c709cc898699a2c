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


def at_namespace_level(text, *patterns):
    """Names that lines at the outermost level of namespaces define, each with these namespaces; None has no name."""
    inside = []
    for line in text.splitlines():
        opened = NAMESPACE.match(line)
        if opened:
            inside.append(opened.group(1))
        elif line.startswith("}  // namespace") and inside:
            inside.pop()
        elif found := next(filter(None, (pattern.match(line) for pattern in patterns)), None):
            yield tuple(inside), found.group(1)


def definitions(text):
    """Types of named namespaces, each as namespace::name. Each file has its own in a namespace without a name."""
    return ["::".join([*inside, name]) for inside, name in at_namespace_level(text, TYPE) if None not in inside]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    places = collections.defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu"):
                continue
            text = path.read_text()
            if PROGRAM.search(text):
                continue  # a program of its own
            for name in definitions(text):
                places[name].add(str(path.relative_to(root)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    for name, files in sorted(twice.items()):
        print(f"{name}: defined in {', '.join(sorted(files))}")
    print(f"{len(places)} types, {len(twice)} of them defined twice")
    sys.exit(1 if twice or not places else 0)


if __name__ == "__main__":
    main()
