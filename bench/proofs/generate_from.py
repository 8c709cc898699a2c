#!/usr/bin/env python3
"""Rules for families of models: what `rewright generate --from` finds, what of it no shipped set says, what that gains.

    python bench/proofs/generate_from.py build/release/rewright build/release/rules bench/results/generate_from.csv
                                         [--keep FOLDER] [--only FAMILY]

The families are transformers of the zoo, and mobile networks of the zoo and of torchvision. Rules are sought beside
core.rules and laws.rules. `rewright derive` then asks which of them follow from these and the generator's sets, which
lie in the second argument (the target rule_sets makes them). Each of the others is applied: a model of its left side at
random sizes is optimized with the shipped rules, and with these and the family's set; costs are those of a described
processor. The row of a rule has its law, both costs, and by how much the second one is lower. Wants onnx, onnxruntime,
onnxscript; torch and torchvision for the second family's exports.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import onnx  # noqa: E402

from proofs import exported_rules  # noqa: E402
from table import machine, write_table  # noqa: E402

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = [ROOT / "substitutions" / "rules" / name for name in ("core.rules", "laws.rules")]
MADE = ["linear", "conv", "reduce-softmax", "elementwise", "shape", "definitions"]
FAMILIES = {"transformers": (["bert_base", "gpt2_small", "llama_small"], []),
            "mobile": (["mobilenet_v2", "squeezenet"], ["efficientnet_b0", "mobilenet_v3_small", "mnasnet0_5"])}
DEVICE = "analytic:zen3"


class LargeLeftSide(exported_rules.LeftSide):
    """Sizes at which work counts."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.axes = [self.random.randint(24, 48) for _ in self.axes]

    def bound(self, name):
        self.names[name] = self.random.choice([16, 24, 32, 48, 64])
        return self.names[name]


def run(*command):
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def models(program, names, exports, folder):
    paths = []
    for name in names:
        paths.append(folder / f"{name}.onnx")
        layers = ["--layers", "2"] if name in FAMILIES["transformers"][0] else []
        run(program, "zoo", name, *layers, "-o", paths[-1])
    for name in exports:
        import torch
        import torchvision
        paths.append(folder / f"{name}.onnx")
        torch.manual_seed(1)
        torch.onnx.export(getattr(torchvision.models, name)().eval(), torch.randn(1, 3, 96, 96), str(paths[-1]),
                          dynamo=False)
    return paths


def cost(program, model, sets):
    rules = [argument for one in sets for argument in ("--rules", one)]
    return json.loads(run(program, "optimize", model, "--baseline", "--no-check", "--no-prove", "--cost", DEVICE, "--json",
                          "--quiet", *rules))["cost_after_ms"]


def missing_rules(program, found, shipped):
    """Names of the rules that do not follow from the shipped ones."""
    rules = [argument for one in shipped for argument in ("--rules", one)]
    told = json.loads(run(program, "derive", *rules, "--goals", found, "--json", "--quiet"))
    return told["goals"], [one if isinstance(one, str) else one["rule"] for one in told["missing"]]


def exported(program, found, folder):
    rules = json.loads(pathlib.Path(run_export(program, found, "json", folder / "rules.json")).read_text())["rules"]
    module = exported_rules.load(run_export(program, found, "onnxscript", folder / "rules.py"))
    return {rule["name"]: rule for rule in rules}, module


def run_export(program, found, form, path):
    run(program, "rules", "--rules", found, "--export", form, "-o", path, "--quiet")
    return str(path)


def law_of(found, name):
    text = pathlib.Path(found).read_text().split(f"rule {name}\n")[1].split("\nrule ")[0]
    return " ".join(line.strip() for line in text.splitlines() if not line.startswith(("#", "  proved ")))


def judge_family(flags, family, folder):
    program = flags.program
    found = folder / f"{family}.rules"
    if not found.exists():
        names, exports = FAMILIES[family]
        run(program, "generate", "--from", *models(program, names, exports, folder), "--base", *SHIPPED, "--max-spaces",
            "40", "-o", found, "--quiet")
    shipped = SHIPPED + [flags.sets / f"{name}.rules" for name in MADE]
    total, missing = missing_rules(program, found, shipped)
    print(f"{family}: {total} rules, {len(missing)} in no shipped set", flush=True)
    rules, module = exported(program, found, folder)
    rows = []
    for number, name in enumerate(missing):
        row = {"family": family, "rule": name, "law": law_of(found, name)}
        rows.append(row)
        if name not in rules:
            continue
        made, fault = exported_rules.left_side(rules[name], module, number)
        if made is None:
            row["answer"] = f"not made: {fault}"[:100]
            continue
        path = folder / "left.onnx"
        onnx.save(made, path)
        before, after = cost(program, path, shipped), cost(program, path, [*shipped, found])
        if before == 0:
            row["answer"] = "all of it is known before a run"
            continue
        row |= {"shipped_ms": f"{before:.6f}", "found_ms": f"{after:.6f}", "gain": f"{1 - after / before:.4f}"}
        print(row["gain"], row["law"], flush=True)
    return total, rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("sets", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("--keep", help="a folder for models and rules; rules that it has are not sought again")
    parser.add_argument("--only", choices=FAMILIES)
    flags = parser.parse_args()
    exported_rules.LeftSide = LargeLeftSide
    rows, texts = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(flags.keep or temporary)
        for family in [flags.only] if flags.only else FAMILIES:
            total, found = judge_family(flags, family, folder)
            gaining = [row for row in found if float(row.get("gain", 0)) > 0.001]
            texts.append(f"{family}: {total} rules, {len(found)} in no shipped set, of these {len(gaining)} gain")
            rows += found
    write_table(flags.out, f"{'; '.join(texts)}; {machine()}", rows)
    print("\n".join(texts))
    return 0 if all(any(float(row.get("gain", 0)) > 0.001 for row in rows if row["family"] == family)
                    for family in ([flags.only] if flags.only else FAMILIES)) else 1


if __name__ == "__main__":
    sys.exit(main())
