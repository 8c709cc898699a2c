"""What a fresh environment with the package and its declared dependencies alone must be able to do.

    python clean_environment.py FOLDER [MODULE...]

FOLDER holds small.onnx, y = relu(relu(x w)) for x: f32[n, 6], and w.npy. The MODULEs are imported into the same process,
in this order; the package stands among them or comes last. Each then works beside the others.
"""

import importlib
import os
import sys

import numpy

if len(sys.argv) < 2:
    sys.exit(__doc__)
folder, modules = sys.argv[1], sys.argv[2:]
for module in modules:
    importlib.import_module(module)

import rewright  # noqa: E402: behind those that come before it

model = rewright.optimize(os.path.join(folder, "small.onnx"), dims={"n": 4}, settings={"cost": "analytic:zen3"})
assert model.summary.rewritten and model.summary.checked, model.summary
w = numpy.load(os.path.join(folder, "w.npy"))
for rows in (1, 4, 7):
    x = numpy.random.default_rng(rows).normal(size=(rows, 6)).astype(numpy.float32)
    numpy.testing.assert_allclose(model.run(x=x)["y"], numpy.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)
saved = os.path.join(folder, "saved.onnx")
model.save(saved)
numpy.testing.assert_array_equal(rewright.load(saved, dims={"n": 7}).run(x=x)["y"], model.run(x=x)["y"])
rule, wrong = rewright.verify("rule twice\n  relu(relu(x[a..])) => relu(x)\nrule wrong\n  relu(x[n]) => x\n")
assert (rule.verdict, wrong.verdict) == ("proved", "refuted"), (rule, wrong)
if "onnxruntime" in modules:
    session = sys.modules["onnxruntime"].InferenceSession(saved)
    numpy.testing.assert_allclose(session.run(None, {"x": x})[0], model.run(x=x)["y"], rtol=1e-5, atol=1e-5)
if "torch" in modules:
    torch = sys.modules["torch"]
    images, kernels = torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3)
    assert torch.nn.functional.conv2d(images, kernels)[0, 0, 0, 0].item() == 27  # by a oneDNN of its own
if "onnx" in modules:
    sys.modules["onnx"].checker.check_model(saved)
if not modules:
    foreign = {"onnx", "onnxruntime", "torch"} & set(sys.modules)
    assert not foreign, f"the package imported {foreign}, which it does not declare"
print(f"{rewright.__file__}: works", *(["beside", *modules] if modules else []))
