#!/usr/bin/env python3
"""Holds the pages against one another, without a generator: links that lead nowhere, and names that the references lack.

    site.py SOURCES

A link leads to a file of the repository, and behind # to a heading as GitHub and tools/site.sh name it. Each name that
the Python package or a public header has is in the references that tools/reference.py makes, with a text.
"""
import ast
import pathlib
import re
import subprocess
import sys
import tempfile

if len(sys.argv) != 2:
    sys.exit(__doc__)
SOURCES = pathlib.Path(sys.argv[1]).resolve()


def prose(page):
    """A page without code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^    .*$", "", text, flags=re.M))


def anchors(page):
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    seen = {}
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = seen[slug] = seen.get(slug, -1) + 1
        yield f"{slug}-{number}" if number else slug


def dead_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        if not found.exists():
            yield f"{page.relative_to(SOURCES)}: {target} leads nowhere"
        elif anchor and anchor not in anchors(found):
            yield f"{page.relative_to(SOURCES)}: {target}: {found.name} has no such heading"


def missing_names():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, SOURCES / "tools/reference.py", folder], check=True)
        pages = {name: (pathlib.Path(folder) / name).read_text(encoding="utf-8") for name in ("python.md", "cpp.md")}
    package = ast.parse((SOURCES / "python/rewright/__init__.py").read_text(encoding="utf-8"))
    names = next(ast.literal_eval(node.value) for node in package.body
                 if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    for name in names:
        # Results are classes of the extension: the stubs have them.
        if not re.search(rf"^### {name}\n\n(```python\n.*\n```\n\n)?[\w`]|^class {name}\b", pages["python.md"], re.M):
            yield f"the Python reference has no text about {name}"
    for header in SOURCES.glob("tools/library/rewright/*.h"):
        text = header.read_text(encoding="utf-8").replace("REWRIGHT_API ", "")
        for name in re.findall(r"^(?:struct|class|enum class) (\w+)[^;<]*\{", text, re.M):
            if f"### {name}\n" not in pages["cpp.md"]:
                yield f"the C++ reference has no {name}"
        for name in re.findall(r"^[\w:<>]+ ([A-Z]\w+)\([^{]*?;", text, re.M | re.S):
            if f"### {name}\n" not in pages["cpp.md"]:
                yield f"the C++ reference has no {name}"


def main():
    tracked = subprocess.run(["git", "-C", SOURCES, "ls-files", "*.md"], text=True, check=False, capture_output=True).stdout
    pages = [SOURCES / name for name in tracked.split()] or [SOURCES / "README.md", *(SOURCES / "docs").rglob("*.md")]
    faults = [*(fault for page in pages if page.exists() for fault in dead_links(page)), *missing_names()]
    print("\n".join(faults) or f"{len(pages)} pages, no dead link")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
