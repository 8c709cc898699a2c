"""What the measurements on a GPU share: calls of `rewright`, tolerances, rooflines, tables that grow from run to run."""
import csv
import datetime
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine  # noqa: E402

# The largest allowed distance of an output from the interpreter's, relative to the largest element: 32 roundings to the
# nearest of the precision (2^-11 for tf32 and f16, 2^-8 for bf16); for f32, sums in another order.
TOLERANCE = {"f32": 1e-4, "tf32": 32 * 2.0**-11, "f16": 32 * 2.0**-11, "bf16": 32 * 2.0**-8}

# Arithmetic in FLOP/s by precision, and memory in B/s, of SXM boards without sparsity (NVIDIA, H100 and H200 datasheets).
HOPPER = {"f32": 67e12, "tf32": 494e12, "f16": 989e12, "bf16": 989e12}
PEAKS = {"H200": (HOPPER, 4.8e12), "H100": (HOPPER, 3.35e12)}

NO_DEVICE = 2  # the exit status for a device that is not there, as the program's own


class Failed(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def rewright(program, *words, negative_is_fine=False, timeout=None):
    """One call; gives its JSON object. A failure carries the program's own words and exit status."""
    command = [program, *map(str, words), "--json", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except OSError as error:
        raise Failed(NO_DEVICE, f"{program}: {error.strerror}") from None
    if done.returncode != 0 and not (negative_is_fine and done.returncode == 1):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failed(done.returncode, last)
    return json.loads(done.stdout) if done.stdout.strip() else {}


def model_file(program, work, name, batch=1, *flags):
    """The ONNX file of a model of the zoo, made once."""
    os.makedirs(work, exist_ok=True)
    path = os.path.join(work, f"{name}-b{batch}.onnx")
    if not os.path.exists(path):
        flags = [*flags, *(["--batch", batch] if batch != 1 else [])]  # some have none
        rewright(program, "zoo", name, *flags, "-o", path + ".part.onnx")
        os.replace(path + ".part.onnx", path)
    return path


def require_device(program, work, device, precision):
    """Fails with the program's words and status 2 where the device is not there."""
    rewright(program, "run", model_file(program, work, "mlp"), "--device", device, "--precision", precision,
             "--iterations", 1, "--warmup", 0)


MOST_ELEMENTS = 1 << 20  # of an output that are compared


def sampled(array):
    """All elements, or where there are more than MOST_ELEMENTS every k-th, k odd: what is kept has to travel."""
    step = -(-array.size // MOST_ELEMENTS)
    return array if step <= 1 else array.reshape(-1)[:: step | 1].copy()


def outputs_of(program, path, folder, *flags):
    """The program's report of a run on the inputs of seed 1, and the outputs as arrays by name, large ones sampled."""
    import numpy as np
    report = rewright(program, "run", path, "--seed", 1, "--output-dir", folder, *flags)
    return report, {name: sampled(np.load(os.path.join(folder, name)))
                    for name in sorted(os.listdir(folder)) if name.endswith(".npy")}


def expected_outputs(program, work, path, batch):
    """By the interpreter; where the batch makes that long, by the CPU device, which is tested against it. Kept."""
    import numpy as np
    oracle = "reference" if batch == 1 else "cpu"
    folder = os.path.join(work, "expected", os.path.basename(path))
    if not os.path.isdir(folder):
        part = folder + ".part"
        os.makedirs(part, exist_ok=True)
        once = ["--device", oracle, "--iterations", 1, "--warmup", 0]
        for name, array in outputs_of(program, path, part, *once)[1].items():
            np.save(os.path.join(part, name), array)
        os.replace(part, folder)
    return oracle, {name: np.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def largest_error(actual, expected):
    """Over all outputs, relative to the largest element of each."""
    import numpy as np
    if actual.keys() != expected.keys():
        return float("inf")
    worst = 0.0
    for name, wanted in expected.items():
        found = actual[name].astype(np.float64)
        if found.shape != wanted.shape or not np.all(np.isfinite(found) == np.isfinite(wanted)):
            return float("inf")
        if wanted.size:
            scale = max(float(np.abs(wanted).max()), 1e-30)
            worst = max(worst, float(np.abs(found - wanted).max()) / scale)
    return worst


def roofline_ms(program, path, device_name, precision):
    """The time that no way of running the model goes below: all its arithmetic at the peak rate, or its weights, inputs
    and outputs moved once. None for devices of which no rates are known."""
    known = next((peaks for name, peaks in PEAKS.items() if name in device_name), None)
    if known is None:
        return None
    contents = rewright(program, "inspect", path)
    moved = contents["weight_bytes"] * (0.5 if precision in ("f16", "bf16") else 1)
    return max(contents["flops"] / known[0][precision], moved / known[1]) * 1e3


def describe():
    return {"date": datetime.date.today().isoformat(), "machine": machine(), "command": " ".join(sys.argv)}


def merge_rows(path, rows, keys):
    """Puts rows into a table; those of the same keys are replaced. Whole or unchanged."""
    kept, fields = [], list(rows[0])
    if os.path.exists(path):
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            kept = list(reader)
            fields = list(dict.fromkeys([*(reader.fieldnames or []), *fields]))
    new = {tuple(str(row[key]) for key in keys) for row in rows}
    kept = [row for row in kept if tuple(row.get(key, "") for key in keys) not in new]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".part", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=fields, restval="")
        writer.writeheader()
        writer.writerows(kept + rows)
    os.replace(path + ".part", path)


def main_of(run):
    """Runs a measurement; failures become the program's words and exit status."""
    try:
        sys.exit(run())
    except Failed as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        sys.exit(error.status)
