#!/usr/bin/env python3
"""Counts what makes sources hard to read, and fails beyond the limits that docs/decisions/124 sets.

Usage: style.py ROOT [--counts]     --counts: prints, and never fails; ROOT may be any checkout

Words that docs/glossary.md replaces by the field's; lines above 120 columns; sentences of comments that begin with Of, What, Whether, That or So many; files that lie flat in
one folder; sources without a header of their own; names at file scope that another source of the folder has as well;
paragraphs of docs/ above 80 words; scripts that take arguments and show no usage where these are missing.
"""
import collections
import pathlib
import re
import subprocess
import sys

import one_definition

COLUMNS = 120
FILES = 30
WORDS = 80
BAD_SENTENCES = 1 / 200
HEADLESS = 8  # parts of one class that is too long for one file
# Folders of one file an entry: operators, decisions, results.
LISTS = {"core/ops", "docs/decisions", "bench/results"}
WIDE = {"core/ir/functions.def"}  # rows of a table
CODE = (".cc", ".h", ".inc", ".def")
CONSTANT = re.compile(r"(?:constexpr|const) [\w:<>,* ]*?\b(k\w+)\b")
ARGUMENTS = re.compile(r"sys\.argv(\[1|\.pop)")
USAGE = re.compile(r"argparse|sys\.exit\(__doc__\)")
BEGINS = re.compile(r"(Of|What|Whether|That|So many)\b")
# Folders whose sources a list of names or a registry makes: no header is to be included.
REGISTERED = re.compile(r"core/ops/|core/onnx/(import|export)/|backends/cpu/(kernels|products|simd|winograd|folds)/|backends/(cpu/codegen|cuda)/plugin/|"
                        r"tools/verbs/|substitutions/generate/presets/|bench/|tests/|python/|tools/main")


def sentences(text, mark):
    """Sentences of the comments that begin with `mark`; lines that follow one another are one comment."""
    comment = re.compile(r"(.*?)(?:^|\s)" + re.escape(mark) + r"+ ?(.*)$")
    block = []
    for line in [*text.split("\n"), ""]:
        found = comment.match(line) if not line.startswith(("#include", "#!")) else None
        alone = found is not None and not found.group(1).strip()
        if block and not alone:
            yield from re.split(r"(?<=[.:;?!])\s+(?=[A-Z])", " ".join(block))
            block = []
        if alone:
            block.append(found.group(2).strip())
        elif found is not None:
            yield found.group(2).strip()


def file_scope_names(text):
    """Types and constants of the unnamed namespaces of a source."""
    return {name for inside, name in one_definition.at_namespace_level(text, one_definition.TYPE, CONSTANT)
            if None in inside}


def paragraphs(text):
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )", text):
        code = all(line.startswith("    ") for line in part.split("\n") if line.strip())
        if not code and not part.lstrip().startswith(("|", "#")):
            yield len(part.split()), part.strip()[:60]


def unused_words(root):
    """The words of the glossary's table of words that are not used, as they stand in texts and in names."""
    glossary = (root / "docs/glossary.md").read_text() if (root / "docs/glossary.md").is_file() else ""
    _, _, table = glossary.partition("## Words that are not used")
    words = re.findall(r"^\| (?!not )(\w[\w ]*?) \|", table, re.M)
    return re.compile("|".join(word.replace(" ", "[ _-]?") for word in words) or "(?!)", re.I)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split("\n") if path and (root / path).is_file()]
    flat = collections.Counter(path.rpartition("/")[0] for path in paths)
    crowded = {folder: count for folder, count in flat.items() if count > FILES and folder not in LISTS}
    total, bad, wide, headless, coined, silent = 0, [], [], [], [], []
    unused = unused_words(root)
    scope = collections.defaultdict(set)
    for path in paths:
        if path.endswith((*CODE, ".py", ".md")) and path != "docs/glossary.md" and not path.startswith("docs/decisions/"):
            coined += [f"{path}: {word}" for word in unused.findall((root / path).read_text(errors="replace"))]
        if not path.endswith((*CODE, ".py", ".sh", ".cmake", "CMakeLists.txt")):
            continue
        text = (root / path).read_text(errors="replace")
        if path.endswith(".py") and ARGUMENTS.search(text) and not USAGE.search(text) and not path.startswith("python/"):
            silent.append(f"{path}: found no usage, expected argparse or sys.exit(__doc__) where arguments are missing")
        for sentence in sentences(text, "//" if path.endswith(CODE) else "#"):
            total += 1
            if BEGINS.match(sentence):
                bad.append(f"{path}: {sentence[:60]}")
        if path.endswith(CODE):
            wide += [f"{path}:{number}" for number, line in enumerate(text.split("\n"), 1)
                     if len(line) > COLUMNS and path not in WIDE]
        is_source = path.endswith(".cc") and not one_definition.PROGRAM.search(text)  # not a program of its own
        headers = [(root / path).with_suffix(".h"), (root / path).with_suffix("") / f"{pathlib.Path(path).stem}.h"]
        if is_source and not REGISTERED.match(path) and not any(header.is_file() for header in headers):
            headless.append(path)
        if is_source and not path.startswith("tests/"):
            for name in file_scope_names(text):
                scope[path.rpartition("/")[0], name].add(path)
    colliding = {name: files for name, files in scope.items() if len(files) > 1}
    long = [f"{path}: {count} words: {begin}" for path in paths
            if path.endswith(".md") and not path.startswith("docs/decisions/")
            for count, begin in paragraphs((root / path).read_text()) if count > WORDS]
    print(f"{total} sentences of comments, {len(bad)} begin with Of, What, Whether, That, So many")
    print(f"{len(wide)} lines above {COLUMNS} columns")
    print(f"{len(crowded)} folders with more than {FILES} files; {len(flat)} folders")
    print(f"{len(headless)} sources without a header of their own, registered ones aside")
    print(f"{len(colliding)} names at file scope that two sources of a folder have")
    print(f"{len(coined)} words for which the glossary has the field's")
    print(f"{len(long)} paragraphs above {WORDS} words")
    if "--counts" in sys.argv:
        return
    faults = wide + [f"{folder}: found {count} files, expected at most {FILES}" for folder, count in crowded.items()]
    if len(bad) > BAD_SENTENCES * total:
        faults += bad
    if len(headless) > HEADLESS:
        faults += [f"{path}: no header of its own, found {len(headless)} such sources, expected at most {HEADLESS}"
                   for path in headless]
    faults += [f"{name} in {folder}: {', '.join(sorted(files))}" for (folder, name), files in colliding.items()]
    faults += long + coined + silent
    for fault in faults:
        print(fault)
    sys.exit(1 if faults or not total else 0)


main()
