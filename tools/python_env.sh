#!/bin/sh
# Makes the Python environment of the tests and of the measured comparisons: <repository>/.venv with pinned versions.
# Does nothing when it is already there and complete. The C++ program never needs it.
#
#   tools/python_env.sh            # onnx, onnxruntime, onnxscript, numpy, nanobind, z3-solver
#   tools/python_env.sh --torch    # and PyTorch (CPU); its exporter needs onnxscript
#   tools/python_env.sh --jax      # and JAX (CPU)
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
venv="$root/.venv"
packages="onnx==1.23.2 onnxruntime==1.31.1 onnxscript==0.7.2 numpy==2.4.6 nanobind==3.1.0 z3-solver==5.4.1.0"
torch="torch==2.15.0"
jax="jax==0.10.2"

want="$packages"
for flag in "$@"; do
  case "$flag" in
    --torch) want="$want $torch" ;;
    --jax) want="$want $jax" ;;
    *) echo "usage: tools/python_env.sh [--torch] [--jax]" >&2; exit 2 ;;
  esac
done

if [ ! -x "$venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$venv"
fi
missing=""
for requirement in $want; do
  grep -qx "$requirement" "$venv/installed.txt" 2>/dev/null || missing="$missing $requirement"
done
if [ -n "$missing" ]; then
  # shellcheck disable=SC2086
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $missing
  for requirement in $missing; do echo "$requirement" >> "$venv/installed.txt"; done
fi
"$venv/bin/python" -c 'import sys, numpy, onnx, onnxruntime
print(f"{sys.prefix}: onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, numpy {numpy.__version__}")'
