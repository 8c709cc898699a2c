#!/usr/bin/env python3
"""Runs the commands of pages and compares what they print with what the pages show.

    commands.py REWRIGHT PAGE.md...

A block that is fenced by ```console has commands, each behind `$ `, and their output. The blocks of a page run one after
the other in a folder with the repository's tools, substitutions and bench, in which `rewright` and `rewright_check` are
the programs, and `python` runs the Python that runs this. A block that is fenced by ```FILE.rules (or another name with a
dot) writes that file there.

A command ends with status 0, or 1 where its answer is negative. One without lines behind it may print anything. Numbers
in an output stand for any numbers, and runs of blanks for one another. A line `..` stands for any lines, `..` at the end
of a line for anything behind it. Where a command finds no torch, the rest of the page is left out.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRESS = re.compile(r"\w+( \d+ %)? [\d.]+ s ")  # lines of long work on a busy machine
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")


def blocks(page):
    """The fenced blocks of a page: the word behind the fence, and the lines."""
    word, lines = None, []
    for line in page.split("\n"):
        if line.startswith("```"):
            if word is None:
                word, lines = line[3:].strip(), []
            else:
                yield word, lines
                word = None
        elif word is not None:
            lines.append(line)


def commands(lines):
    """The commands of a block with the lines that are to follow; a command goes on behind a backslash."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
    return found


def pattern(expected):
    """The lines as a regular expression over the output with its blanks folded."""
    parts = []
    for line in expected:
        line = " ".join(line.split())
        if line == "..":
            parts.append(r"(?:.*\n)*?")
            continue
        rest = line.endswith("..")
        text, at = "", 0
        for number in NUMBER.finditer(line[:-2] if rest else line):
            text += re.escape(line[at : number.start()]) + NUMBER.pattern.replace("(", "(?:")
            at = number.end()
        parts.append(text + re.escape(line[at : -2 if rest else None]) + (".*" if rest else "") + r"\n")
    return "".join(parts)


def run_page(program, page):
    """The number of commands of a page that print something else."""
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder:
        folders = os.path.dirname(os.path.abspath(program)), os.path.dirname(sys.executable), os.environ["PATH"]
        path = os.pathsep.join(folders)
        package = os.path.join(folders[0], "python")
        settings = {**os.environ, "PATH": path, "PYTHONPATH": package, "REWRIGHT_PYTHON": sys.executable, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        for name in ("tools", "substitutions", "bench"):
            (pathlib.Path(folder) / name).symlink_to(pathlib.Path(__file__).resolve().parent.parent / name)
        for word, lines in blocks(page.read_text(encoding="utf-8")):
            if "." in word and "/" not in word:
                (pathlib.Path(folder) / word).write_text("\n".join(lines) + "\n", encoding="utf-8")
            if word != "console":
                continue
            for command, expected in commands(lines):
                count += 1
                done = subprocess.run(command, shell=True, executable="/bin/bash", cwd=folder, env=settings, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
                if "No module named 'torch'" in done.stdout:
                    print(f"{page}: no torch; left out: {command} and what follows")
                    return wrong
                lines = (" ".join(line.split()) for line in done.stdout.splitlines())
                output = "".join(line + "\n" for line in lines if line and not PROGRESS.match(line))
                wanted = [line for line in expected if line.strip()]
                if done.returncode not in (0, 1) or (wanted and not re.fullmatch(pattern(wanted), output)):
                    print(f"{page}: $ {command}\nstatus {done.returncode}, found\n{done.stdout}\nexpected\n" + "\n".join(expected))
                    wrong += 1
    print(f"{page}: {count} commands, {wrong} print something else")
    return wrong if count else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(sum(run_page(sys.argv[1], pathlib.Path(page)) for page in sys.argv[2:]) > 0)
