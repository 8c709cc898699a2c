"""The page docs/one_proof.md shows what the program prints.

Usage: one_proof.py REWRIGHT docs/one_proof.md

Fenced blocks that are marked with a file name (```text cut.rules) are files. They are written into a temporary folder,
where every line `$ COMMAND` of the other blocks is run, from the top of the page to its end. The lines below a command
must equal its standard output. A line `..` stands for any number of lines; times and hashes of 16 hexadecimal digits
may differ, and so may blanks at the ends of lines. Where cvc5 is not installed, nothing is expected of its time.
"""
import difflib
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

LEFT_OUT = ".."
COMMAND = "$ "
SECONDS_OF_A_COMMAND = 120


def blocks(page):
    """Fenced blocks: the words behind the fence, the number of the first line inside, the lines."""
    mark, first, lines = None, 0, []
    for number, line in enumerate(page.split("\n"), 1):
        if mark is None and line.startswith("```"):
            mark, first, lines = line[3:].split(), number + 1, []
        elif mark is not None and line.startswith("```"):
            yield mark, first, lines
            mark = None
        elif mark is not None:
            lines.append(line)
    if mark is not None:
        sys.exit(f"found the end of the page inside the block that begins at line {first}, expected ```")


def commands(first, lines):
    """The commands of a block: the number of the line, the command, the numbers and texts of the lines below it."""
    found = []
    for number, line in enumerate(lines, first):
        if line.startswith(COMMAND):
            found.append((number, line[len(COMMAND):], []))
        elif found:
            found[-1][2].append((number, line))
    return found


def alike(line):
    """The line without the parts that may differ."""
    line = re.sub(r"\b[0-9a-f]{16}\b", "HASH", line.rstrip())
    line = re.sub(r"\b\d+(\.\d+)? ms\b", "TIME ms", line)
    line = re.sub(r"\b\d+\.\d+ s\b", "TIME s", line)
    return line if shutil.which("cvc5") else line.replace("; cvc5 TIME s", "")


def pieces(page):
    """The lines of the page between lines `..`."""
    parts = [[]]
    for number, line in page:
        if line == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append((number, line))
    return parts


def agreement(part, output, start):
    """The number of lines of the part that agree with the output from `start` on."""
    count = 0
    for (_, line), printed in zip(part, output[start:]):
        if alike(line) != alike(printed):
            break
        count += 1
    return count


def difference(page, output):
    """Nothing, or the part of the page that the program does not print and the lines that it prints there."""
    parts, at = pieces(page), 0
    for place, part in enumerate(parts):
        is_last = place + 1 == len(parts)
        if place == 0:
            starts = [0]
        elif is_last:
            starts = [len(output) - len(part)] if len(output) - len(part) >= at else [at]
        else:
            starts = list(range(at, max(at, len(output) - len(part)) + 1))
        start = max(starts, key=lambda s: agreement(part, output, s))
        end = start + len(part)
        if agreement(part, output, start) < len(part) or (is_last and end != len(output)):
            return part, output[start:] if is_last else output[start:end]
        at = end
    return None


def report(path, number, command, part, printed):
    """A diff; its lines of the page begin with their numbers."""
    shown = [alike(line) for _, line in part]
    wrong = agreement(part, printed, 0)
    line = part[wrong][0] if wrong < len(part) else part[-1][0] + 1 if part else number
    print(f"{path}:{line}: the program prints something else than the page for `{command}`")
    numbers = iter([n for n, _ in part])
    for text in list(difflib.ndiff(shown, [alike(line) for line in printed])):
        if text.startswith("?"):
            continue
        place = f"{next(numbers):5}" if text[0] in " -" else " " * 5
        print(f"  {place} {text}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, path = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    found = list(blocks(pathlib.Path(path).read_text()))
    run, faults = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for mark, _, lines in found:
            if len(mark) == 2:
                (pathlib.Path(folder) / mark[1]).write_text("".join(line + "\n" for line in lines))
        for mark, first, lines in found:
            for number, command, page in commands(first, lines) if len(mark) < 2 else []:
                words = re.sub(r"^rewright\b", lambda _: shlex.quote(str(program)), command)
                done = subprocess.run(["sh", "-c", words], cwd=folder, capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=SECONDS_OF_A_COMMAND)
                run += 1
                # 1 is a negative answer.
                if done.returncode not in (0, 1):
                    faults += 1
                    print(f"{path}:{number}: `{command}` ends with {done.returncode}: {done.stderr}")
                    continue
                wrong = difference(page, done.stdout.splitlines())
                if wrong is not None:
                    faults += 1
                    report(path, number, command, *wrong)
    print(f"{run} commands, {faults} with another output than the page shows")
    sys.exit(1 if faults or not run else 0)


main()
