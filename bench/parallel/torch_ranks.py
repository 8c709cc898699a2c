"""Plans of PyTorch with and without known bugs, proved by `rewright equal --ranks` or told apart.

    python bench/parallel/torch_ranks.py build/release/rewright --out bench/results/torch_ranks.csv

Each block of torch_blocks.py is traced on one device and on every rank of a mesh (python/rewright/ranks.py). Without its
bug it must be proved; with the bug, ranks and a collective must be named. The bugs are published ones, restated: column
`source`. On further meshes the claims must be those of the first one, but for the names of sizes.

Options: --only NAME; --keep DIR keeps the graphs, --again judges those that are there.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "rewright"), str(ROOT / "bench")]

import torch  # noqa: E402

import ranks  # noqa: E402
from table import machine, write_table  # noqa: E402
from torch_blocks import CASES  # noqa: E402


def judge(program, folder, block, mesh, bug, again):
    torch.manual_seed(1)
    whole, rank, inputs, outputs = block(bug)
    plan = folder / "plan.json"
    if not (again and plan.exists()):
        ranks.export(folder, whole, rank, mesh=mesh, inputs=inputs, outputs=outputs)
    run = subprocess.run([program, "equal", str(folder / "whole.onnx"), "--ranks", str(plan), "--json", "-o",
                          str(folder / "claims")], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        return {"answer": "error", "text": run.stderr.strip().splitlines()[-1]}
    answer = json.loads(run.stdout)
    fault = answer.get("fault", {})
    return {"answer": answer["answer"], "values": answer["values"], "claims": answer["claims"],
            "at_any_size": answer["at_any_size"],
            "seconds": f"{answer['seconds']:.2f}",
            "collective": fault.get("collective", ""), "ranks": fault.get("ranks", ""),
            "text": fault.get("text", "") or ", ".join(answer["open"])}


def claims_in(folder):
    """The proved claims, their sizes named in the order in which they come."""
    rules = (folder / "claims" / "claims.rules").read_text().split("\n\n")
    renamed = []
    for rule in rules:
        names = {}
        renamed.append(re.sub(r"\bn\d+\b", lambda found: names.setdefault(found[0], f"s{len(names)}"), rule).split())
    return renamed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--out")
    parser.add_argument("--only")
    parser.add_argument("--keep")
    parser.add_argument("--again", action="store_true", help="judges what --keep has")
    given = parser.parse_args()
    columns = ["block", "mesh", "bug", "source", "answer", "values", "claims", "at_any_size", "seconds", "collective",
               "ranks", "text"]
    rows, claims = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, mesh, block, bugs in CASES:
            if given.only and given.only not in name:
                continue
            for bug, source in {None: "", **bugs}.items():
                on = "" if mesh == next(first for other, first, _, _ in CASES if other == name) else "".join(
                    f"_{axis}{size}" for axis, size in mesh.items())
                folder = pathlib.Path(given.keep or temporary) / f"{name}{on}_{bug or 'right'}"
                row = {"block": name, "mesh": " ".join(f"{axis}={size}" for axis, size in mesh.items()),
                       "bug": bug or "", "source": source,
                       **judge(given.program, folder, block, mesh, bug, given.again)}
                if on:
                    same = claims_in(folder) == claims.get(name)
                    row["text"] = "the claims of the first mesh" if same else "other claims than on the first mesh"
                elif not bug and row["answer"] == "proved":
                    claims[name] = claims_in(folder)
                rows.append({column: row.get(column, "") for column in columns})
                print(*rows[-1].values(), sep=" | ", flush=True)
    right = [row for row in rows if not row["bug"]]
    wrong = [row for row in rows if row["bug"]]
    summary = (f"{sum(row['answer'] == 'proved' for row in right)} of {len(right)} blocks proved; "
               f"{sum(row['answer'] == 'different' and bool(row['ranks']) for row in wrong)} of {len(wrong)} bugs told")
    print(summary)
    if given.out:
        write_table(given.out, f"{summary}; {machine()}", rows)


if __name__ == "__main__":
    main()
