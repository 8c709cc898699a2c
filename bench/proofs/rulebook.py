#!/usr/bin/env python3
"""What `rewright verify` says of the rewrites of other programs (substitutions/rules/rulebook).

    python3 bench/proofs/rulebook.py build/release/rewright [--out TABLE.csv] [--part K/N | today/N] [--time-limit 60]
                                     [--threads N] [--page docs/rulebook.md]

Each rule has a line `Origin:` in its comment. Rules of false.rules must be refuted and those of open.rules must not be
refuted; all others must be proved. Conditions for false ones are those that --infer finds. --part takes every Nth rule
from number K on; today/N takes another K each day (REWRIGHT_DAY: its number), and all with REWRIGHT_FULL in the
environment. Fails, with status 1, where a verdict is another one.

xla_rewrites.csv lists every rewrite of XLA's pass with the rules that restate it, or the reason why none does. --page
writes the counts of whole runs into the page, between the lines `<!-- rulebook.py -->` and `<!-- end -->`; else the page
is held to the table of the last whole run.
"""
import argparse
import collections
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from table import machine, part_of, write_table  # noqa: E402

BOOK = ROOT / "substitutions/rules/rulebook"
TENSORRIGHT = 120  # rules in its repository at commit d7ee8c30
RANKS = ("any", "to 6", "as written")
LEFT_OUT = {
    "layout": "copies and bitcasts: where elements lie in memory is no part of the language",
    "tuple": "tuples, calls, branches and barriers, which change no value",
    "empty": "empty tensors: sizes are at least 1 here",
    "operator": "no such operator: sorts, scatters of any function, windows with padding of any value, a maximum with "
                "its index",
    "bits": "bits of floating numbers, and rounding to a number of bits",
    "complex": "complex numbers",
    "constant": "another form of a constant, which is its value here",
    "collective": "collectives and numbers of devices",
    "random": "random numbers: the result has other ones",
    "rounding": "a wider type on purpose, which changes the rounding",
}
RULE = re.compile(r"((?:^#[^\n]*\n)+)rule (\S+)\n((?:^ [^\n]*\n)+)", re.MULTILINE)
EXPECTED = {"false.rules": "refuted", "open.rules": "unknown"}


def rules_of(path):
    """Name, comment and text of each rule of a file."""
    text = path.read_text()
    found = [(name, comment, f"{comment}rule {name}\n{body}\n") for comment, name, body in RULE.findall(text)]
    if len(found) != len(re.findall(r"^rule ", text, re.MULTILINE)):
        raise SystemExit(f"{path}: a rule has no comment")
    return found


def rewrites(names):
    """Rows of the list of XLA's rewrites; each has rules, or a reason why none restates it."""
    rows = list(csv.DictReader((BOOK / "xla_rewrites.csv").open()))
    wrong = [row["rewrite"] for row in rows if not set(row["rules"].split()) <= names or
             (row["left out"] not in LEFT_OUT if not row["rules"] else row["left out"])]
    if wrong:
        raise SystemExit(f"xla_rewrites.csv: {wrong}: found no such rules or reason")
    return rows


def judged(row, found):
    """The verdict of a rewrite, and the ranks of its narrowest rule. Refuted: it is false for some type or operand."""
    rules = [found[name] for name in row["rules"].split()]
    said = {rule["verdict"] for rule in rules}
    verdict = next((one for one in ("refuted", "unknown") if one in said), "proved" if rules else "left out")
    if said == {"proved", "unknown"}:
        verdict = "proved in part"
    ranks = max((rule["ranks"] for rule in rules), key=RANKS.index) if verdict == "proved" else ""
    return row | {"verdict": verdict, "ranks": ranks}


def tensorright(rows):
    """The rules of TensorRight's own files, by rank of proof; open, or in part, where restatements are not proved."""
    said = collections.defaultdict(set)
    for row in rows:
        for folder, numbers in re.findall(r"(\w+)/(rule\d+(?:, rule\d+)*)", row["origin"].partition("TensorRight ")[2]):
            for number in numbers.split(", ") if row["verdict"] != "refuted" else ():
                said[folder, number].add(row["ranks"] or "open")
    return collections.Counter(
        "proved in part" if "open" in one and len(one) > 1 else min(one, key=[*RANKS, "open"].index)
        for one in said.values())


def counts_line(counts, total):
    return (f"| {total} | " + " | ".join(str(counts[kind]) for kind in (*RANKS, "proved in part", "open", "refuted")) +
            f" | {counts['left out']} |")


def page(rows):
    """Tables of the page: XLA's rewrites by verdict, and what is left out by reason."""
    found = {row["rule"]: row for row in rows}
    judgements = [judged(row, found) for row in rewrites(set(found))]
    xla = collections.Counter(row["ranks"] or row["verdict"].replace("unknown", "open") for row in judgements)
    theirs = tensorright(rows)
    theirs["left out"] = TENSORRIGHT - theirs.total()
    reasons = collections.Counter(row["left out"] for row in judgements if row["left out"])
    lines = ["| | rewrites | proved, any rank | ranks to 6 | rank as written | in part | open | refuted | left out |",
             "|---|---|---|---|---|---|---|---|---|",
             "| XLA's pass " + counts_line(xla, len(judgements)),
             "| rules in TensorRight's repository " + counts_line(theirs, TENSORRIGHT), "", "Left out of XLA's:", ""]
    lines += [f"- {count}: {LEFT_OUT[reason]}" for reason, count in reasons.most_common()]
    return "\n".join(lines), judgements


def write_page(path, text):
    begin, end = "<!-- rulebook.py -->\n", "<!-- end -->\n"
    before, _, rest = path.read_text().partition(begin)
    path.write_text(before + begin + text + "\n" + end + rest.partition(end)[2])


def stale():
    """What docs/rulebook.md says otherwise than the table of the last whole run, or than the files."""
    said = (ROOT / "docs/rulebook.md").read_text()
    table = (ROOT / "bench/results/rulebook.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in table if not line.startswith("#")))
    wrong = [] if page(rows)[0] in said else ["docs/rulebook.md: expected the counts that --page writes"]
    for names, count in re.findall(r"^- ((?:`\w+\.rules`, )+)(\d+): ", said, re.MULTILINE):
        rules = sum(len(rules_of(BOOK / name)) for name in re.findall(r"`(.*?)`", names))
        if rules != int(count):
            wrong.append(f"docs/rulebook.md: {names}found {count} rules, expected {rules}")
    return wrong


def verdicts(program, text, flags, infer):
    with tempfile.NamedTemporaryFile("w", suffix=".rules") as file:
        file.write(text)
        file.flush()
        command = [program, "verify", file.name, "--json", "--quiet", "--rule-limit", str(flags.time_limit)]
        if flags.threads:
            command += ["--threads", str(flags.threads)]
        done = subprocess.run(command + (["--infer"] if infer else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return {rule["name"]: rule for rule in json.loads(done.stdout)["rules"]}


def ranks_of(text, verdict):
    """Ranks of a proof: any (one proof for all), to 6 (one for each), as written (one rank, that of the rule)."""
    law = text[text.index("\nrule "):]
    shaped = set(re.findall(r"\b(\w+)(?:: \??\w+)?\[", law))
    variables = set(re.findall(r"[(,] ?([a-z])\b", re.sub(r"\[[^\[\]]*\]", "", law.split("=>")[0])))
    if ".." not in law and "shape=?" not in law and not variables - shaped:
        return "as written"
    return "any" if verdict.get("ranks") == "any" else "to 6"


def row_of(file, name, comment, text, verdict):
    origin = re.search(r"Origin: (.*?)\.?\s*$", comment.replace("\n# ", " "), re.DOTALL)
    if origin is None:
        raise SystemExit(f"{file}: rule {name} names no origin")
    inferred = " or ".join(one["when"] for one in verdict.get("inferred", {}).get("answers", []))
    return {"file": file, "rule": name, "origin": " ".join(origin.group(1).split()), "verdict": verdict["verdict"],
            "class": verdict.get("class", ""), "instances": verdict.get("instances", ""),
            "ranks": ranks_of(text, verdict) if verdict["verdict"] == "proved" else "",
            "condition": inferred,
            "counterexample": verdict.get("reason", "") if verdict["verdict"] == "refuted" else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", default="")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--time-limit", type=int, default=60)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--page", default="")
    flags = parser.parse_args()
    if flags.page and flags.part != "1/1":
        parser.error("--page is of whole runs: found --part")
    first, step = part_of(flags.part)
    rows, number, wrong = [], 0, [] if flags.page else stale()
    rewrites({name for path in BOOK.glob("*.rules") for name, _, _ in rules_of(path)})
    for path in sorted(BOOK.glob("*.rules")):
        wanted = []
        for rule in rules_of(path):
            number += 1
            if (number - first) % step == 0:
                wanted.append(rule)
        if not wanted:
            continue
        expected = EXPECTED.get(path.name, "proved")
        found = verdicts(flags.program, "".join(text for _, _, text in wanted), flags, infer=expected == "refuted")
        for name, comment, text in wanted:
            row = row_of(path.name, name, comment, text, found[name])
            rows.append(row)
            # A rule that was open and is proved is good news; the file is to be changed all the same.
            if row["verdict"] != expected and not (expected == "unknown" and row["verdict"] == "proved"):
                wrong.append(f"{path.name}: {name} is {row['verdict']}, expected {expected}: "
                             f"{found[name].get('reason', '')}")
    for file, counts in sorted(collections.Counter((row["file"], row["verdict"]) for row in rows).items()):
        print(f"{file[0]:20} {file[1]:8} {counts}")
    print("\n".join(wrong))
    if flags.out:
        write_table(flags.out, f"{machine()}: verdicts of the rulebook", rows)
    if flags.page:
        text, judgements = page(rows)
        write_page(pathlib.Path(flags.page), text)
        write_table(str(ROOT / "bench/results/xla_rewrites.csv"), f"{machine()}: rewrites of XLA's pass", judgements)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
