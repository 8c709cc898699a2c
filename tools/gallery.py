#!/usr/bin/env python3
"""Makes the gallery of the site: reports of models, and a page that leads to them.

    gallery.py REWRIGHT FOLDER

FOLDER gets README.md and a report of each model. Costs are those of a described processor, so that the pages are the same
wherever they are made.
"""
import json
import pathlib
import subprocess
import sys

MODELS = {  # architecture, flags of zoo
    "squeezenet": [],
    "inception_v3": [],
    "bert_base": ["--layers", "3", "--sequence-length", "64"],
    "taso_nasrnn": [],
    "nasnet_a": ["--image-size", "64"],
    "mirage_qk_norm": [],
}


def row(program, folder, name, flags):
    model, report = folder / f"{name}.onnx", folder / f"{name}.html"
    subprocess.run([program, "zoo", name, *flags, "-o", model, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([program, "optimize", model, "--cost", "analytic:v100", "--report", report, "--json", "--quiet"],
                          check=True, stdout=subprocess.PIPE, text=True)
    model.unlink()
    told = json.loads(done.stdout)
    rules = ", ".join(f"{rewrite['count']} × `{rewrite['rule']}`" for rewrite in told["rewrites"][:3])
    return (f"| [{name}]({report.name}) | {told['nodes_before']} → {told['nodes_after']} "
            f"| {told['cost_before_ms'] / told['cost_after_ms']:.2f} × | {rules} |\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(
        "# Gallery\n\nEach model leads to its report: the graph before and after, every rewrite, costs, memory. Costs are "
        "those of a described V100, not measured.\n\n| model | nodes | lower cost | rewrites |\n|---|---|---|---|\n"
        + "".join(row(program, folder, *model) for model in MODELS.items()), encoding="utf-8")


if __name__ == "__main__":
    main()
