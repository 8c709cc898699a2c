#!/usr/bin/env python3
"""Finds places where an exception or its like would end the process instead of the task that it belongs to.

Usage: throws.py ROOT

A CHECK or throw in a parallel region of OpenMP, which no exception may leave; a loop over a directory_iterator, whose
++ throws where NamesIn gives an error; threads that are put into a vector without a try, since the destructor of those
that run would end the process.
"""
import pathlib
import re
import sys

FOLDERS = ("core", "substitutions", "verifier", "search", "backends", "runtime", "tools", "python")
PARALLEL = re.compile(r"^#pragma omp parallel.*\n", re.M)
THROWS = re.compile(r"\b(?:CHECK\(|throw\b)")
ITERATES = re.compile(r"\bfor \([^;()]*:[^;]*directory_iterator\(")
THREADS = re.compile(r"\bstd::vector<std::thread> (\w+)")


def region(text, start):
    """The statement that begins at `start`: to the end of its braces, or to its semicolon if that comes first."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "{(":
            depth += 1
        elif text[at] in "})":
            depth -= 1
            if depth == 0 and text[at] == "}":
                return text[start:at + 1]
        elif text[at] == ";" and depth == 0:
            return text[start:at + 1]
    return text[start:]


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def faults(text):
    text = without_comments(text)
    for pragma in PARALLEL.finditer(text):
        if found := THROWS.search(region(text, pragma.end())):
            yield f"`{found.group(0)}` in a parallel region: {pragma.group(0).strip()}"
    for loop in ITERATES.finditer(text):
        yield f"`{loop.group(0)}`: found a loop whose ++ throws, expected NamesIn (core/base/files.h)"
    for name in THREADS.findall(text):
        for added in re.finditer(rf"\b{name}\.(?:emplace|push)_back\(", text):
            before = text[:added.start()]
            if before.rfind("try {") <= before.rfind("}"):
                yield f"`{added.group(0)}`: found no try around it, expected one, or OnThreads (core/base/threads.h)"


EXAMPLES = (
    ("#pragma omp parallel num_threads(n)\n  {\n    Work();\n    if (x) { CHECK(y); }\n  }\n", 1),
    ("#pragma omp parallel\n  {\n    if (!x) made = false;\n  }\n  CHECK(made);\n", 0),
    ("#pragma omp parallel for\n  for (int i = 0; i < n; ++i) CHECK(x[i]);\n", 1),
    ("  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {\n", 1),
    ("  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {\n", 0),
    ("  std::vector<std::thread> threads;\n  for (int i = 0; i < n; ++i) threads.emplace_back(work);\n", 1),
    ("  std::vector<std::thread> threads;\n  try {\n    threads.emplace_back(work);\n  } catch (..) {\n  }\n", 0),
)


def main():
    for text, count in EXAMPLES:
        if len(list(faults(text))) != count:
            sys.exit(f"found {list(faults(text))}, expected {count} faults in\n{text}")
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
             if path.suffix in (".h", ".cc", ".cu", ".inc")]
    found = [f"{path.relative_to(root)}: {fault}" for path in paths for fault in faults(path.read_text())]
    print("\n".join([*found, f"{len(paths)} sources, {len(found)} faults"]))
    sys.exit(1 if found or not paths else 0)


main()
