#!/usr/bin/env bash
# What a machine has: the GPU and its clocks, versions of the peers, and which of CUDA's libraries the plugin finds.
#   bench/gpu/versions.sh PROGRAM PYTHON
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm --format=csv
nvidia-smi -q -d CLOCK | grep -A6 'Clocks$'
"$2" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'
"$2" -c 'import jax; print("jax", jax.__version__)'
ldd "$(dirname "$1")/librewright_cuda.so" | grep -E 'cudnn|cublas|nvrtc|not found'
exit 0
