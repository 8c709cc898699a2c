"""The rules of docs/rules_to_write.md have the verdicts that the page says.

Usage: rules_to_write.py REWRIGHT docs/rules_to_write.md

An indented block of the page is rules, each with a line behind it: the verdict, and words of the program's report. A line
`proved   when CONDITION` behind a refuted rule is what `--infer` finds.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

VERDICT = re.compile(r"(proved|refuted|unknown) +(.*)")


def cases(page):
    """The rules of the page: text, verdict, words of the report, the inferred condition or None."""
    found, rule = [], []
    for line in page.split("\n"):
        if not line.startswith("    ") or line.startswith("    $"):
            if rule:
                sys.exit(f"found a rule without a verdict: {' '.join(rule)}")
            continue
        verdict = VERDICT.match(line.strip())
        if verdict is None:
            rule.append(line.strip())
        elif rule:
            found.append([" ".join(rule), *verdict.groups(), None])
            rule = []
        else:
            found[-1][3] = verdict.group(2)
    return found


def reports(program, rules, *flags):
    """What the program says of each rule, by its number; blanks are folded."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "page.rules"
        path.write_text("".join(f"rule r{number} {rule}\n" for number, rule in rules.items()))
        output = subprocess.run([program, "verify", str(path), "--quiet", *flags], capture_output=True, text=True).stdout
    parts = re.split(r"^(proved|refuted|unknown) +r(\d+)\b", output, flags=re.M)
    return {int(number): (verdict, " ".join(text.split()))
            for verdict, number, text in zip(parts[1::3], parts[2::3], parts[3::3])}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, page = sys.argv[1:]
    rules = dict(enumerate(cases(pathlib.Path(page).read_text())))
    found = reports(program, {number: case[0] for number, case in rules.items()})
    inferred = {number: case[0] for number, case in rules.items() if case[3]}
    found_with_conditions = reports(program, inferred, "--infer")
    wrong = 0
    for number, (rule, verdict, words, condition) in rules.items():
        said = found.get(number, ("nothing", ""))
        if said[0] != verdict or not all(word in said[1] for word in words.split("; ")):
            print(f"{rule}\n  found {said[0]} {said[1]}\n  expected {verdict} {words}")
            wrong += 1
        if condition and condition not in found_with_conditions.get(number, ("", ""))[1]:
            print(f"{rule}\n  found {found_with_conditions.get(number)}\n  expected {condition}")
            wrong += 1
    print(f"{len(rules)} rules, {wrong} not as the page says")
    sys.exit(1 if wrong or not rules else 0)


main()
