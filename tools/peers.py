#!/usr/bin/env python3
"""Runs a model with another program, on request: a peer of `rewright compare`.

    peers.py KIND MODEL.onnx FOLDER THREADS

KIND: onnxruntime-disabled|basic|extended|all (levels of graph optimization), torch, torch-compile.
FOLDER/inputs.json: the names of the inputs; FOLDER/0.npy, 1.npy, ..: their values.

Answers on standard output, one line each:
    at the start  ready VERSION, or absent REASON
    run           ms MILLISECONDS of one run
    outputs       saved N: the outputs of one run are FOLDER/KIND-0.npy, ..
The end of standard input ends it.
"""
import json
import os
import sys
import time


def load_onnxruntime(level, model, feeds, threads):
    import onnxruntime as ort
    levels = {"disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
              "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
              "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
              "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}
    options = ort.SessionOptions()
    options.graph_optimization_level = levels[level]
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Its threads may wait actively within a run, but not in the runs of others.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return f"onnxruntime {ort.__version__}", lambda: session.run(None, feeds)


def load_torch(compiled, model, feeds, threads):
    import torch
    from torch_model import TorchModel
    torch.set_num_threads(threads)
    module = TorchModel(model).eval()
    tensors = [torch.from_numpy(feeds[name].copy()) for name in module.input_names]
    call = torch.compile(module, mode="max-autotune") if compiled else module

    def run():
        with torch.inference_mode():
            return [value.numpy() for value in call(*tensors)]
    run()
    return f"torch {torch.__version__}", run


def load(kind, model, folder, threads):
    import numpy as np
    with open(os.path.join(folder, "inputs.json")) as file:
        names = json.load(file)
    feeds = {name: np.load(os.path.join(folder, f"{i}.npy")) for i, name in enumerate(names)}
    if kind.startswith("onnxruntime-"):
        return load_onnxruntime(kind[len("onnxruntime-"):], model, feeds, threads)
    return load_torch(kind == "torch-compile", model, feeds, threads)


def main():
    kind, model, folder, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    # Libraries may print: answers go to a copy of standard output, their words nowhere.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(text):
        print(" ".join(str(text).split()), file=answers, flush=True)

    try:
        version, run = load(kind, model, folder, threads)
        run()
    except ModuleNotFoundError as error:
        return answer(f"absent {error.name} is not installed in {sys.executable}")
    except Exception as error:  # whatever a library throws: the peer cannot run this model
        return answer(f"absent {type(error).__name__}: {str(error)[:300]}")
    answer(f"ready {version}")
    for line in sys.stdin:
        if line.strip() == "run":
            begin = time.perf_counter()
            run()
            answer(f"ms {(time.perf_counter() - begin) * 1e3:.6f}")
        elif line.strip() == "outputs":
            import numpy as np
            outputs = run()
            for i, value in enumerate(outputs):
                np.save(os.path.join(folder, f"{kind}-{i}.npy"), np.asarray(value, order="C"))
            answer(f"saved {len(outputs)}")
        else:
            answer(f"unknown {line.strip()}")


if __name__ == "__main__":
    main()
