#!/usr/bin/env python3
"""Runs the program on terminals of several widths: no line of help or progress is wider, colours are where they may be.

    terminal.py build/release/rewright

Exit status 1: a check failed.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

if len(sys.argv) != 2:
    sys.exit(__doc__)
PROGRAM = sys.argv[1]
COLOR = re.compile(r"\x1b\[3\dm")


def on_terminal(arguments, columns, environment=None, until=None):
    """The output, standard and error, of the program on a terminal of so many columns; until `until` is printed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = {**os.environ, "TERM": "xterm", **(environment or {})}
    if environment is None:
        settings.pop("NO_COLOR", None)
    process = subprocess.Popen([PROGRAM, *arguments], stdin=slave, stdout=slave, stderr=slave, env=settings)
    os.close(slave)
    chunks = []
    while True:
        try:
            chunk = os.read(master, 1 << 16)
        except OSError:  # the last process has closed the terminal
            break
        if not chunk:
            break
        chunks.append(chunk)
        if until is not None and re.search(until, b"".join(chunks).decode(errors="replace")):
            process.kill()
    process.wait()
    os.close(master)
    return b"".join(chunks).decode()


def widest(text):
    """Columns of the widest line that is shown at a time."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return max(len(line) for line in re.split(r"[\r\n]+", plain))


def check(good, what):
    print("ok" if good else "FAILED", what)
    return bool(good)


def main():
    good = True
    verbs = re.findall(r"^  ([a-z]+) {2,}", subprocess.run([PROGRAM, "--help"], capture_output=True, text=True).stdout, re.M)
    good &= check(len(verbs) >= 20, f"{len(verbs)} verbs")
    for columns in (60, 80, 120):
        pages = {verb: on_terminal([verb, "--help"], columns) for verb in verbs}
        pages["the program"] = on_terminal(["--help"], columns)
        for verb, page in pages.items():
            # An example is a command on one line, so that it can be copied.
            lines = [line for line in page.splitlines() if not line.startswith("  rewright ")]
            # A word may be wider than what is left: the choices of a flag.
            wide = [line for line in lines if len(line) > columns and len(line.split()) > 3]
            good &= check(not wide, f"help of {verb} at {columns} columns {wide[:1]}")
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        subprocess.run([PROGRAM, "zoo", "nasnet_a", "--image-size", "64", "-o", model, "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
        for columns in (60, 80, 120):
            shown = on_terminal(["optimize", model, "--budget", "100000", "--cost", "analytic:zen3"], columns,
                                until=r"% .*searching.*\r")
            lines = [line for line in shown.split("\r") if "optimize" in line and "%" in line]
            good &= check(lines, f"progress is shown at {columns} columns")
            good &= check(widest("\n".join(lines)) < columns, f"progress fits {columns} columns")
            totals = re.findall(r"\d of (\d+)", "\n".join(lines))
            good &= check(len(set(totals)) == 1, f"numbers are whole at {columns} columns {set(totals)}")
        small = os.path.join(folder, "small.onnx")
        subprocess.run([PROGRAM, "zoo", "mlp", "--layers", "1", "-o", small, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        for columns in (60, 80, 120):
            shown = on_terminal(["compare", small, "--no-peers", "--iterations", "1", "--budget", "1", "--quiet"], columns)
            rows = [line for line in shown.splitlines() if line.startswith("  ")]
            good &= check(len(rows) == 4 and widest("\n".join(rows)) <= columns, f"compare fits {columns} columns")
        rules = os.path.join(folder, "a.rules")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("rule yes\n  relu(relu(x[a..])) => relu(x)\nrule no\n  relu(x[a..]) => x\n")
        shown = on_terminal(["verify", rules], 80)
        good &= check("\x1b[32mproved\x1b[0m" in shown, "proved is green")
        good &= check("\x1b[31mrefuted\x1b[0m" in shown, "refuted is red")
        good &= check(not COLOR.search(on_terminal(["verify", rules], 80, {"NO_COLOR": "1"})), "NO_COLOR is heeded")
        good &= check(not COLOR.search(on_terminal(["verify", rules], 80, {"TERM": "dumb"})), "a dumb terminal")
        piped = subprocess.run([PROGRAM, "verify", rules], capture_output=True, text=True)
        good &= check("\x1b" not in piped.stdout + piped.stderr, "no escapes where there is no terminal")
        wrong = on_terminal(["inspect", os.path.join(folder, "none.onnx")], 80)
        good &= check("\x1b[31mrewright\x1b[0m" in wrong, "errors are red")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
