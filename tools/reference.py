#!/usr/bin/env python3
"""Writes the references of C++ and Python, cpp.md and python.md, made from the public headers, docstrings and stubs.

    reference.py FOLDER
"""
import ast
import pathlib
import re
import sys

SOURCES = pathlib.Path(__file__).resolve().parent.parent
HEADERS = SOURCES / "tools/library/rewright"
PACKAGE = SOURCES / "python/rewright"
NAME = re.compile(r"(?:class|struct|enum class) (?:REWRIGHT_API )?(\w+)|REWRIGHT_API [\w:<>]+ (\w+)\(")


def declarations(header):
    """(comment, declaration) for each at the level of the namespace."""
    comment, lines, depth = [], [], 0
    body = header.split("namespace rewright {\n", 1)[1].rsplit("}  // namespace rewright", 1)[0]
    for line in body.split("\n"):
        if not lines and line.startswith("// "):
            comment.append(line[3:])
        elif not lines and not line:
            comment = []
        else:
            lines.append(line)
            depth += line.count("{") + line.count("(") - line.count("}") - line.count(")")
            if depth == 0 and line.endswith(";"):
                yield comment, "\n".join(lines)
                comment, lines = [], []


def without_private(declaration):
    return re.sub(r"\n\n? private:\n.*\n(?=};)", "\n", declaration, flags=re.S).replace("REWRIGHT_API ", "")


def cpp_page():
    yield "# C++ reference\n\nMade from the headers that are installed. `cmake --install` puts them into `include/rewright`.\n"
    for header in sorted(HEADERS.glob("*.h"), reverse=True):
        text = header.read_text(encoding="utf-8")
        head = [line[3:] for line in text.split("#pragma once")[0].split("\n") if line.startswith("//")]
        code = ["    " + line[2:] if line.startswith("  ") else line for line in head]
        yield f"## rewright/{header.name}\n\n" + "\n".join(code) + "\n"
        for comment, declaration in declarations(text):
            name = NAME.search(declaration)
            if name is None or declaration.startswith("template <>"):
                continue
            yield f"### {name.group(1) or name.group(2)}\n\n" + "\n".join(comment)
            yield f"\n```cpp\n{without_private(declaration)}\n```\n"


def docstring(node):
    return ast.get_docstring(node) or ""


def functions(tree, level):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
            yield f"{level} {node.name}\n\n```python\n{node.name}" + ("" if is_property else f"({ast.unparse(node.args)})")
            yield f"```\n\n{docstring(node)}\n"
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"{level} {node.name}\n\n{docstring(node)}\n"
            yield from functions(node, level + "#")


def module(name):
    return ast.parse((PACKAGE / name).read_text(encoding="utf-8"))


def python_page():
    package = module("__init__.py")
    yield f"# Python reference\n\nMade from the docstrings of the package.\n\n{docstring(package)}\n\n## rewright\n"
    yield from functions(package, "###")
    program = module("program.py")
    program.body = [node for node in program.body if getattr(node, "name", "") not in ("path", "main")]
    yield from functions(program, "###")
    for name in ("testing", "torch_backend"):
        yield f"## rewright.{name}\n\n{docstring(module(name + '.py'))}\n"
        yield from functions(module(name + ".py"), "###")
    stubs = (PACKAGE / "__init__.pyi").read_text(encoding="utf-8")
    yield f"## Types\n\nThe stubs of the package, which name all settings and results.\n\n```python\n{stubs}```\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpp.md").write_text("\n".join(cpp_page()), encoding="utf-8")
    (folder / "python.md").write_text("\n".join(python_page()), encoding="utf-8")


if __name__ == "__main__":
    main()
