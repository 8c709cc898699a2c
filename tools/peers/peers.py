#!/usr/bin/env python3
"""Runs a model with another program, on request: a peer of `rewright compare`.

    peers.py KIND MODEL.onnx FOLDER THREADS [DEVICE PRECISION]

KIND: onnxruntime-disabled|basic|extended|all (levels of graph optimization), openvino (latency, one stream), torch,
torch-compile (max-autotune), jax (jit).
DEVICE: cpu (the default) or cuda:N; PRECISION there: f32 (the default), tf32, f16, bf16. A run on a GPU begins with
the inputs there and ends when the outputs are, as ours do.
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


def load_onnxruntime(level, model, feeds, threads, device, precision):
    import onnxruntime as ort
    provider = "CPUExecutionProvider" if device == "cpu" else "CUDAExecutionProvider"
    if provider not in ort.get_available_providers():
        raise RuntimeError(f"this onnxruntime has no {provider}")
    if precision not in ("f32", "tf32"):
        raise RuntimeError("onnxruntime computes as the model says, in 32 bits")
    choice = {"device_id": int(device.split(":")[1]), "use_tf32": int(precision == "tf32")} if device != "cpu" else {}
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
    session = ort.InferenceSession(model, options, providers=[(provider, choice)])
    if device == "cpu":
        return f"onnxruntime {ort.__version__}", lambda: session.run(None, feeds)
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, "cuda", choice["device_id"]))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda", choice["device_id"])

    def run():
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return binding.get_outputs()
    return f"onnxruntime {ort.__version__}", run


def load_openvino(model, feeds, threads, device, precision):
    import openvino
    if device != "cpu":
        raise RuntimeError("openvino runs on the processor here")
    # As the device openvino (backends/openvino): without the hint f32 is computed in bf16 where there are products of it.
    settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads,
                "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    read = {name for port in compiled.inputs for name in port.get_names()}
    feeds = {name: value for name, value in feeds.items() if name in read}

    def run():
        results = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [results[i] for i in range(len(results))]
    return f"openvino {openvino.__version__.split('-')[0]}", run


# Set where torch.compile failed before: some of its versions take a model for attention that it is not.
NO_ATTENTION = "REWRIGHT_TORCH_WITHOUT_ATTENTION"


def torch_module(model):
    """The model as a module that is called with the inputs in their order, their names, and who made it. Ours has shapes
    and axes as constants, which torch.compile likes better; onnx2torch, where it is installed, has more operators."""
    import onnx
    from torch_model import TorchModel
    try:
        module = TorchModel(model)
        return module, module.input_names, ""
    except NotImplementedError:
        try:
            import onnx2torch
        except ModuleNotFoundError:
            onnx2torch = None
        if onnx2torch is None:
            raise
    graph = onnx.load(model).graph
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
    return onnx2torch.convert(model), names, ", by onnx2torch"


def load_torch(compiled, model, feeds, threads, device, precision):
    import torch
    if os.environ.get(NO_ATTENTION):
        from torch._inductor.fx_passes import fuse_attention
        fuse_attention._sfdp_init = lambda *_, **__: None
    torch.set_num_threads(threads)
    on_gpu = device != "cpu"
    if on_gpu and not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA GPU")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    half = {"f16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    # On matrix units images are faster with channels innermost; so ours are.
    innermost = on_gpu and precision != "f32"

    def place(tensor):
        tensor = tensor.to(device, half if tensor.is_floating_point() and half else tensor.dtype)
        return tensor.to(memory_format=torch.channels_last) if innermost and tensor.dim() == 4 else tensor
    module, names, maker = torch_module(model)
    module = module.eval().to(device)
    module = module.to(half) if half else module
    module = module.to(memory_format=torch.channels_last) if innermost else module
    tensors = [place(torch.from_numpy(feeds[name].copy())) for name in names]
    call = torch.compile(module, mode="max-autotune") if compiled else module

    def run():
        with torch.inference_mode():
            values = call(*tensors)
            if on_gpu:
                torch.cuda.synchronize()
            return [values] if isinstance(values, torch.Tensor) else values
    run()
    kernels, microseconds = kernels_of(torch, run) if on_gpu else (0, 0)
    plain = ", without its patterns of attention" if compiled and os.environ.get(NO_ATTENTION) else ""
    return f"torch {torch.__version__}{maker}" + (f", {kernels} kernels of {microseconds:.1f} us" if kernels else "") + plain, run


def kernels_of(torch, run):
    """Kernels that one run launches and their microseconds, as far as the profiler sees the GPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
    kernels = [event for event in profile.events()
               if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem")]
    return len(kernels), sum(getattr(event, "device_time_total", 0) for event in kernels)


def load_jax(model, feeds, threads, device, precision):
    # The threads of its CPU client are as many as the processors that this process may use.
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import jax.numpy as jnp
    from jax_model import JaxModel
    kind, number = (device.split(":") + ["0"])[:2]
    target = jax.devices(kind)[int(number)]
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == "tf32" else "highest")
    half = {"f16": jnp.float16, "bf16": jnp.bfloat16}.get(precision)

    def place(array):
        return jax.device_put(array.astype(half) if half and array.dtype.kind == "f" else array, target)
    network = JaxModel(model)
    weights = {name: place(value) for name, value in network.weights.items()}
    inputs = {name: place(feeds[name]) for name in network.input_names}
    call = jax.jit(network.call)
    return f"jax {jax.__version__}", lambda: jax.block_until_ready(call(weights, inputs))


def on_host(value):
    """An output of any library as an array of numpy, in 32 bits."""
    import numpy as np
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    array = np.asarray(value.numpy() if hasattr(value, "numpy") and not hasattr(value, "__array__") else value)
    return np.ascontiguousarray(array.astype(np.float32) if array.dtype.itemsize == 2 else array)


def load(kind, model, folder, threads, device, precision):
    import numpy as np
    with open(os.path.join(folder, "inputs.json")) as file:
        names = json.load(file)
    feeds = {name: np.load(os.path.join(folder, f"{i}.npy")) for i, name in enumerate(names)}
    if kind.startswith("onnxruntime-"):
        return load_onnxruntime(kind[len("onnxruntime-"):], model, feeds, threads, device, precision)
    if kind == "openvino":
        return load_openvino(model, feeds, threads, device, precision)
    if kind == "jax":
        return load_jax(model, feeds, threads, device, precision)
    return load_torch(kind == "torch-compile", model, feeds, threads, device, precision)


def main():
    if len(sys.argv) not in (5, 7):
        sys.exit(__doc__)
    kind, model, folder, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    device, precision = sys.argv[5:7] if len(sys.argv) > 6 else ("cpu", "f32")
    # Libraries may print: answers go to a copy of standard output, their words nowhere.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(text):
        print(" ".join(str(text).split()), file=answers, flush=True)

    try:
        version, run = load(kind, model, folder, threads, device, precision)
        run()
    except ModuleNotFoundError as error:
        return answer(f"absent {error.name} is not installed in {sys.executable}")
    except Exception as error:  # whatever a library throws: the peer cannot run this model
        if kind == "torch-compile" and not os.environ.get(NO_ATTENTION):
            os.dup2(answers.fileno(), 1)
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, NO_ATTENTION: "1"})
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
                np.save(os.path.join(folder, f"{kind}-{i}.npy"), on_host(value))
            answer(f"saved {len(outputs)}")
        else:
            answer(f"unknown {line.strip()}")


if __name__ == "__main__":
    main()
