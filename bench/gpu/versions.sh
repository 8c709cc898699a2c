#!/usr/bin/env bash
# Prints the versions of a machine: the GPU and its clocks, the peers, and the libraries of CUDA that the plugin finds.
#   bench/gpu/versions.sh PROGRAM PYTHON
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm --format=csv
nvidia-smi -q -d CLOCK | grep -A6 'Clocks$'
"$2" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'
"$2" -c 'import jax; print("jax", jax.__version__)'
ldd "$(dirname "$1")/librewright_cuda.so" | grep -E 'cudnn|cublas|nvrtc|not found'
exit 0
