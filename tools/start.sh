#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job on two real architectures: ResNet-50 and SqueezeNet are
# written as ONNX models, rewritten by proved rules, measured on this CPU, checked and saved.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/install.sh
cmake --preset release >/dev/null
cmake --build --preset release --target rewright

out=build/start
mkdir -p "$out"
for model in resnet50 squeezenet; do
  build/release/rewright zoo "$model" -o "$out/$model.onnx"
  build/release/rewright optimize "$out/$model.onnx" -o "$out/$model.opt.onnx" --profile "$out/profile.db"
done
