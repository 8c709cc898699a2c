#!/usr/bin/env python3
"""Sources of the prover in which expressions can be exchanged for false ones while the program runs.

    alter_sources.py algebra_mutations.txt VERIFIER_DIR OUT_DIR

Files are named from VERIFIER_DIR. Each expression of the table becomes (AlteredLaw(N) ? (false one) : (itself)), N being the number of the row from 0. The
last column names what shows that it is false, or says after `=` why it is not. An expression that does not occur exactly once in its file is an error.
"""
import collections
import pathlib
import sys

if len(sys.argv) != 4:
    sys.exit(__doc__)
table, sources, out = map(pathlib.Path, sys.argv[1:])
rows = [line.split(" :: ") for line in table.read_text().splitlines() if line and not line.startswith("#")]
chosen = collections.defaultdict(dict)  # file -> expression -> rows
for number, (file, expression, altered, _) in enumerate(rows):
    chosen[file].setdefault(expression, []).append((number, altered))
out.mkdir(parents=True, exist_ok=True)
for file, expressions in chosen.items():
    text = (sources / file).read_text()
    for expression, alternatives in expressions.items():
        if text.count(expression) != 1:
            sys.exit(f"{table}: found `{expression}` {text.count(expression)} times in {file}, expected once")
        whole = f"({expression})"
        for number, altered in alternatives:
            whole = f"(AlteredLaw({number}) ? ({altered}) : {whole})"
        text = text.replace(expression, whole)
    (out / pathlib.Path(file).name).write_text('#include "tests/verifier/altered/altered_law.h"\n' + text)
(out / "laws.inc").write_text(
    "".join('{R"~(%s: %s as %s)~", "%s"},\n' % (file, expression, altered, "" if shown_by.startswith("=") else shown_by)
            for file, expression, altered, shown_by in rows))
