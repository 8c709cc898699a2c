#!/usr/bin/env python3
"""Holds pages against the program: what they show of a measured run in all but its numbers, flags, rules, examples.

    readme.py REWRIGHT SOURCES

README.md shows `optimize` by measured costs, whose numbers and rewrites differ from machine to machine. The words in
front of its lines are those of a run by calculated costs, the rules that it names exist, and their number is right. The
rule that README.md shows is proved. Each command `rewright VERB .. --flag ..` of README.md and docs/ has a verb and flags
that there are. Each row of the table of messages in docs/questions.md has a command that ends with its message.

Each page with a ```console block has a test that runs it (tests/commands.py). A command of another block is a form, with
words in capitals for what the reader puts there, or stands in tests/cases/commands_left_out.txt with the reason why no
test runs it.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

if len(sys.argv) != 3:
    sys.exit(__doc__)
PROGRAM, SOURCES = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
LEFT_OUT = SOURCES / "tests/cases/commands_left_out.txt"
TIMED = ("latency", "in onnxruntime", "in openvino")  # lines of measured runs alone


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def blocks(page):
    return re.findall(r"^```\w*\n(.*?)^```$", page, re.M | re.S)


def labels(output):
    found = re.findall(r"^([a-z]+(?: [a-z]+)?):(?= |$)", output, re.M)
    return [label for label in found if label not in TIMED]


def faults_of_shown_run(page, folder):
    shown = next(block for block in blocks(page) if "rewright optimize resnet50.onnx" in block)
    zoo, optimize = (part.partition("\n")[2] for part in shown.split("$ ")[1:])
    made = run("zoo", "resnet50", "-o", f"{folder}/resnet50.onnx").stdout.replace(f"{folder}/", "")
    if made != zoo:
        yield f"zoo prints\n{made}README.md shows\n{zoo}"
    done = run("optimize", f"{folder}/resnet50.onnx", "-o", f"{folder}/o.onnx", "--cost", "analytic:zen3", "--no-prove",
               "--no-check").stdout
    if done.splitlines()[0] != optimize.splitlines()[0]:
        yield f"found {done.splitlines()[0]}, README.md shows {optimize.splitlines()[0]}"
    wanted = [label for label in labels(done) if label != "outputs"]
    if wanted != [label for label in labels(optimize) if label not in ("outputs", "proof")]:
        yield f"the lines of optimize are {wanted}, README.md shows {labels(optimize)}"
    rules = "".join(path.read_text() for path in SOURCES.glob("substitutions/**/*.rules"))
    for rule in re.findall(r"^ +\d+  ([a-z0-9-]+)", optimize, re.M):
        if not re.search(rf"^rule {re.escape(rule)}\b", rules, re.M):
            yield f"README.md names the rule {rule}, which no file has"


@functools.cache
def flags_of(verb):
    """Nothing where there is no such verb."""
    done = run(verb, "--help")
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", done.stdout)) if done.returncode == 0 else None


def commands(page):
    """In backquotes, or lines of code that begin with it; a line goes on behind a backslash."""
    page = re.sub(r"\\\n\s*", " ", page)
    yield from re.findall(r"`(rewright [a-z]+(?![a-z:])[^`]*)`", page)
    launcher = r"(?: {4}|\$ )(?:\$ )?(?:mpirun (?:-\S+ \S+ )*)?(?:build/release/)?"
    yield from re.findall(rf"^{launcher}(rewright [a-z]+(?![a-z:])[^#;|>\n]*)", page, re.M)


def faults_of_commands(page, name):
    for code in commands(page):
        verb, *words = code.replace("[", " ").replace("]", " ").split()[1:]
        if verb == "completion":
            continue
        known = flags_of(verb)
        if known is None:
            yield f"{name}: `{code}`: there is no verb {verb}"
            continue
        yield from (f"{name}: `{code}`: {verb} has no {word}" for word in words
                    if re.match(r"--?[a-z]", word) and re.split("[=|,.]", word)[0] not in known)


def other_commands(page):
    """Commands of blocks that tests/commands.py does not run."""
    programs = r"(?:rewright|mpirun|python3?|cmake|ctest|bash|mkdir|(?:bench|tools|substitutions)/\S+)"
    form = r"\b[A-Z]{2,}\b|\b[A-Z]\.\w|\[|\.\.(?!/)| [A-Z]\b"
    fence = None
    for line in page.split("\n"):
        if line.startswith("```"):
            fence = line[3:].strip() if fence is None else None
        elif fence == "" or (fence is None and line.startswith("    ")):
            code = re.sub(r"\s+#.*", "", line.strip().removeprefix("$ "))
            if re.match(programs + r"(?: (?!\w+: )|$)", code) and not re.search(form, code):
                yield code


def faults_of_left_out(pages):
    cmake = (SOURCES / "tests/CMakeLists.txt").read_text()
    tested = " ".join(re.findall(r"(?:set\(|list\(APPEND )pages ([^)]*)\)", cmake)).split()
    rows = [line.split(" | ") for line in LEFT_OUT.read_text().splitlines() if not line.startswith("#")]
    listed = {(page, command) for page, command, _ in rows}
    found = set()
    for page in pages:
        name, text = str(page.relative_to(SOURCES)), page.read_text()
        if re.search("^```console$", text, re.M) and name.removeprefix("docs/").removesuffix(".md") not in tested:
            yield f"{name}: no test runs its commands"
        found |= {(name, command) for command in other_commands(text)}
    yield from (f"{page}: no test runs `{command}`" for page, command in sorted(found - listed))
    yield from (f"{LEFT_OUT.name}: {page} has no `{command}`" for page, command in sorted(listed - found))


def faults_of_examples(page, folder):
    rule = next(block for block in blocks(page) if re.search(r"^rule ", block, re.M) and "import" not in block)
    (pathlib.Path(folder) / "shown.rules").write_text(rule)
    done = run("verify", f"{folder}/shown.rules")
    if done.returncode != 0 or "proved" not in done.stdout:
        yield f"the rule of README.md: {done.stdout}"


def prepare_mistakes(folder):
    """The files that the commands of the table of messages take."""
    (folder / "text.onnx").write_text("hello")
    (folder / "mine.rules").write_text("rule double-relu\n  relu(relu(x[a..])) => relu(x)\n")
    (folder / "wrong.rules").write_text("rule misspelt\n  relux(x[a..]) => x\n")
    (folder / "short.json").write_text('{"epochs": 3}')
    (folder / "x.npy").touch()
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 784)}".ljust(117) + "\n"
    (folder / "wrong.npy").write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode()
                                       + bytes(8 * 784))
    examples = SOURCES / "tools/examples/digits"
    for file in examples.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    run("zoo", "mlp", "--layers", "1", "-o", f"{folder}/model.onnx")
    run("zoo", "taso_nasrnn", "--layers", "1", "-o", f"{folder}/other.onnx")
    model = (folder / "other.onnx").read_bytes()
    (folder / "custom.onnx").write_bytes(model.replace(b"\x04Tanh", b"\x04Tenh"))  # an operator that there is not
    run("train", f"{folder}/digits.json", "--checkpoint-dir", f"{folder}/run")


def faults_of_messages(folder):
    prepare_mistakes(folder)
    rows = re.findall(r"^\| `(\w+ [^|]*)` \| ([^|]*) \| [^|]* \|$", (SOURCES / "docs/questions.md").read_text(), re.M)
    if len(rows) < 15:
        yield f"docs/questions.md has {len(rows)} rows of messages"
    hidden = {**os.environ, "REWRIGHT_ONNXRUNTIME": "/gone", "CUDA_VISIBLE_DEVICES": ""}
    for command, message in rows:
        done = subprocess.run([PROGRAM, *command.split()], cwd=folder, env=hidden, text=True, capture_output=True, check=False)
        words = ".*".join(map(re.escape, re.split(r" ?\.\. ?", message)))
        if done.returncode != 2 or not re.search(rf"^rewright[ \w]*: (?:\S+: )?{words}", done.stderr, re.M | re.S):
            yield f"docs/questions.md: `{command}` ends with status {done.returncode} and\n{done.stderr}expected\n{message}"


def main():
    readme = (SOURCES / "README.md").read_text()
    pages = [SOURCES / "README.md", *sorted((SOURCES / "docs").glob("*.md")), *sorted((SOURCES / "docs/paths").glob("*.md"))]
    with tempfile.TemporaryDirectory() as folder:
        faults = [*faults_of_shown_run(readme, folder), *faults_of_examples(readme, folder),
                  *faults_of_messages(pathlib.Path(folder)), *faults_of_left_out(pages)]
    faults += [fault for page in pages for fault in faults_of_commands(page.read_text(), page.relative_to(SOURCES))]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
