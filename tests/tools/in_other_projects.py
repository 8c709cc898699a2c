#!/usr/bin/env python3
"""Runs what other projects take for their tests: the steps of action.yml, and the plugin for suites of optimizers.

    in_other_projects.py REPOSITORY BUILD

The step that installs the package has a pip that does nothing. Exit status 1: a check failed.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import onnx
import onnx.parser

if len(sys.argv) != 3:
    sys.exit(__doc__)
ROOT, BUILD = (pathlib.Path(argument) for argument in sys.argv[1:])
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "tools/examples/suites")]
import judged_suite  # noqa: E402

TEXT = '<ir_version: 8, opset_import: ["": 17]> layer (float[2,3] x) => (float[2,3] y) { t = Neg(x) y = %s(t) }'


def model(operator):
    return onnx.parser.parse_model(TEXT % operator)


def steps(given):
    """Command and environment of each step, with the inputs given and the defaults of others."""
    text = (ROOT / "action.yml").read_text()
    inputs = dict(re.findall(r"^  (\w+):\n(?:    .*\n)*?    default: (.*)$", text, re.MULTILINE))
    values = {name: value.strip('"') for name, value in inputs.items()} | given
    for step in text.split("    - shell: bash\n")[1:]:
        env = {name: values[value] for name, value in re.findall(r"(\w+): \$\{\{ inputs\.(\w+) \}\}", step)}
        yield re.search(r"run: (.*)", step).group(1), env


def action(folder, optimized, flags=""):
    """Exit status and output of the last step that runs."""
    pip = folder / "python3"
    pip.write_text("#!/bin/sh\necho installs $*\n")
    pip.chmod(0o755)
    given = {"original": "relu.onnx", "optimized": optimized, "flags": flags}
    said = ""
    for command, env in steps(given):
        done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, text=True, capture_output=True,
                              env=os.environ | env | {"PATH": f"{folder}:{BUILD}:{os.environ['PATH']}"})
        said += done.stdout + done.stderr
        if done.returncode:
            break
    return done.returncode, said


def expect(is_so, found):
    if not is_so:
        sys.exit(f"found {found}")


def check_action():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for operator in "Relu", "Abs":
            onnx.save(model(operator), folder / f"{operator.lower()}.onnx")
        same = action(folder, "relu.onnx", "--seed 2")
        expect(same[0] == 0 and "installs -m pip install rewright" in same[1] and "proved" in same[1], same)
        expect('failures="0"' in (folder / "rewright-equal.xml").read_text(), "no report of a success")
        other = action(folder, "abs.onnx")
        expect(other[0] == 1 and "different" in other[1], other)
        expect('failures="1"' in (folder / "rewright-equal.xml").read_text(), "no report of a failure")


def check_plugin():
    relu, other = model("Relu"), model("Abs")
    expect(judged_suite.judged(lambda given: (given, True))(relu) == (relu, True), "another result")
    expect(judged_suite.judged(lambda given: other.graph)(relu) is other.graph, "another result")
    try:
        judged_suite.judged(lambda given: other)(relu)
        sys.exit("a false optimizer passed")
    except AssertionError as fault:
        expect("different" in str(fault), fault)
    expect(dict(judged_suite.answers) == {"proved": 1, "different": 1}, judged_suite.answers)


check_action()
check_plugin()
