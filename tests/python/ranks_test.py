"""Graphs per rank that PyTorch traces, as `rewright equal --ranks` reads them; and plans that are no plans.

    ranks_test.py REWRIGHT
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import onnxscript  # noqa: F401: what torch's exporter needs
    import torch
    import torch.distributed._functional_collectives as collectives
except ImportError:
    sys.exit(77)

from rewright import ranks

if len(sys.argv) < 2:
    sys.exit(__doc__)
PROGRAM = sys.argv.pop(1)


def whole(x, v, w):
    return torch.relu(x @ v) @ w


def sequence_parallel(mesh, x, v, w):
    group = mesh.get_group("tp")
    y = torch.relu(collectives.all_gather_tensor(x, 1, group) @ v) @ w
    return collectives.reduce_scatter_tensor(y, "sum", 1, group)


def of_own_tokens(mesh, x, v, w):
    return collectives.all_reduce(torch.relu(x @ v) @ w, "sum", mesh.get_group("tp"))


class RanksTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def export(self, rank, **changes):
        torch.manual_seed(1)
        settings = {
            "mesh": {"tp": 2},
            "inputs": {"x": (torch.randn(3, 4, 6), {"tp": 1}), "v": (torch.randn(6, 10), {"tp": 1}),
                       "w": (torch.randn(10, 6), {"tp": 0})},
            "outputs": {"y": {"tp": 1}},
        }
        return ranks.export(self.folder.name, whole, rank, **{**settings, **changes})

    def equal(self, plan, *more):
        model = pathlib.Path(self.folder.name) / "whole.onnx"
        return subprocess.run([PROGRAM, "equal", str(model), "--ranks", str(plan), *more], capture_output=True,
                              text=True)

    def test_gathers_and_scatters_along_the_sequence(self):
        run = self.equal(self.export(sequence_parallel), "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual(answer["answer"], "proved")
        self.assertEqual(answer["at_any_size"], answer["claims"])

    def test_a_wrong_collective_is_named(self):
        run = self.equal(self.export(of_own_tokens), "--json")
        self.assertEqual(run.returncode, 1, run.stderr)
        fault = json.loads(run.stdout)["fault"]
        self.assertEqual(fault["collective"], "all-reduce y")
        self.assertEqual(fault["ranks"], "tp, ranks 0,1")

    def test_sizes_that_do_not_divide(self):
        with self.assertRaisesRegex(ValueError, "axis 1 of \\(3, 5, 6\\) cannot be cut over tp: 2"):
            self.export(sequence_parallel, inputs={
                "x": (torch.randn(3, 5, 6), {"tp": 1}), "v": (torch.randn(6, 10), {}), "w": (torch.randn(10, 6), {})})

    def test_plans_that_are_none(self):
        path = self.export(sequence_parallel)
        plan = json.loads(path.read_text())
        for key, value, message in (
                ("mesh", [{"axis": "tp"}], 'mesh: found {"axis":"tp"}, expected {"axis": name, "size": number}'),
                ("mesh", [{"axis": "tp", "size": 1000}], "expected 1 to 256 ranks in all"),
                ("ranks", ["rank0.onnx"], "found 1 graphs, expected one for each of the 2 ranks"),
                ("ranks", 3, "ranks: found 3, expected a list of files"),
                ("inputs", {**plan["inputs"], "x": {"dp": 0}}, "inputs.x: found dp, expected an axis of the mesh"),
                ("inputs", {**plan["inputs"], "x": {"tp": -1}}, "inputs.x: found -1, expected the number of an axis"),
                ("inputs", {**plan["inputs"], "x": {"tp": 3}}, "cannot be placed as the plan says"),
                ("inputs", {**plan["inputs"], "x": {}}, "found f32[3,2,6] on a rank")):
            path.write_text(json.dumps({**plan, key: value}))
            run = self.equal(path)
            self.assertEqual(run.returncode, 2, run.stdout)
            self.assertIn(message, run.stderr)
        path.write_text("[]")
        self.assertIn("found text that is no JSON object", self.equal(path).stderr)


if __name__ == "__main__":
    unittest.main()
