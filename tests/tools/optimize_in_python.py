"""Optimizes a model by the Python package: MODEL ASKED.json OUT. Prints what the summary says, as JSON."""

import json
import sys

import rewright

if len(sys.argv) != 4:
    sys.exit(__doc__)
model, asked, out = sys.argv[1:]
with open(asked) as file:
    asked = json.load(file)
optimized = rewright.optimize(model, dims=asked["dims"], settings=asked["settings"])
optimized.save(out)
summary = optimized.summary
assert summary.proved == summary.proof.startswith("proved"), summary.proof
print(json.dumps({"rewritten": summary.rewritten, "verdict": summary.verdict, "proof": summary.proof}))
