#!/usr/bin/env bash
# Steps of an inference on a GPU, original and rewritten (for an H100, as the analytic device sees it): no GPU is needed.
#   bench/gpu/steps.sh [MODEL[:BATCH]...] > bench/results/cuda_steps.txt      # default resnet50 bert_base gpt2_small
#   bench/gpu/steps.sh workloads > bench/results/cuda_workloads.txt           # Mirage's, at batch 1, 8 and 16
#   bench/gpu/steps.sh zoo > bench/results/cuda_steps_zoo.txt                 # all other models, without kinds of steps
# Models are written for opset 20, which has GELU: in older ones a rewritten graph has it written out.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${REWRIGHT:-build/release/rewright} bench=${STEPS_BENCH:-build/release/bench/cuda_steps_bench}
python=${REWRIGHT_PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
work=${WORK:-$(mktemp -d)}
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(resnet50 bert_base gpt2_small)
if [ "${models[*]}" = workloads ]; then
  models=()
  for name in gqa qk_norm rms_norm lora gated_mlp ntrans; do models+=(mirage_$name:{1,8,16}); done
fi
labels=--labels
if [ "${models[*]}" = zoo ]; then
  labels='' models=(resnext50 inception_v3 nasnet_a mobilenet_v2 squeezenet vgg19 nasrnn mlp {resnet50,bert_base,gpt2_small}:16)
fi
files=()
for model in "${models[@]}"; do
  name=${model%%:*} batch=${model#"$name"}
  file=$work/$name${batch:+-b${batch#:}}
  original=$file.onnx rewritten=$file.rewritten.onnx
  [ -e "$original" ] || "$program" zoo "$name" ${batch:+--batch "${batch#:}"} -o "$original" --quiet >/dev/null
  "$python" - "$original" <<'EOF'
import sys
import onnx
from onnx import version_converter
onnx.save(version_converter.convert_version(onnx.load(sys.argv[1]), 20), sys.argv[1])
EOF
  "$program" optimize "$original" -o "$rewritten" --cost analytic:h100 --no-check --time-limit 20 --quiet >/dev/null
  files+=("$original" "$rewritten")
done
echo "# bench/gpu/steps.sh $*"
echo "# commit $(git rev-parse --short HEAD), rewritten by: rewright optimize --cost analytic:h100 --time-limit 20"
for precision in bf16 tf32; do "$bench" --precision $precision $labels "${files[@]}"; done
