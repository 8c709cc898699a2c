#!/usr/bin/env bash
# Everything that a GPU has to show, step by step, in the order of importance: the tests of the device in the precisions
# that are measured; every model (correct, then measured beside its peers) at batch 1, in tf32, then bf16; graphs chosen
# for GPU and CPU run on both; the residual block; the tests in the other precisions and the sanitizers; batch 16.
#
#   bench/gpu/all.sh [--minutes M] [--state DIR] [--device cuda:N] [--list] [--prepare] [PATTERN...]
#
# --prepare computes the outputs that are expected (steps expect-*), by the interpreter and the CPU device, on a machine
# without a GPU: what it leaves in DIR/models/expected saves time on one that has one.
# Stops by itself after M minutes (default 9) and goes on where it stopped when it is called again: DIR (default
# build/gpu) holds the steps done, tables, the profile database, the log, and a cache of compiled kernels and chosen
# algorithms. Where $OUT names a folder, tables, lists of steps, log, profile database and the cache (cache.tar.gz) are
# copied there after every step; copied back into DIR, they let another machine of the same kind go on. A step that
# fails, or takes all of the time, is listed in DIR/negative.txt and the next one follows.
# PATTERNs choose steps by name. Needs either a build in build/release (or one whose program is $REWRIGHT) or a bundle
# unpacked in build/rewright-gpu (bench/gpu/bundle.sh). Exit status: 0 all chosen steps are done; 1 a step's answer is
# negative, such as outputs that differ; 2 there is no GPU; 75 the time is up.
set -uo pipefail
cd "$(dirname "$0")/../.."
minutes=9 state=build/gpu device=cuda:0 list=0 prepare=0 patterns=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=$2; shift 2 ;;
    --state) state=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --list) list=1; shift ;;
    --prepare) prepare=1; shift ;;
    -*) echo "all.sh: unknown flag $1" >&2; exit 2 ;;
    *) patterns+=("$1"); shift ;;
  esac
done
mkdir -p "$state"
if [ -n "${REWRIGHT:-}" ]; then
  program=$REWRIGHT tests=$(dirname "$REWRIGHT")/tests/runtime_test
elif [ -x build/rewright-gpu/bin/rewright ]; then
  program=build/rewright-gpu/bin/rewright tests=build/rewright-gpu/bin/gpu_test
else
  program=build/release/rewright tests=build/release/tests/runtime_test
fi
python=${REWRIGHT_PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
state=$(cd "$state" && pwd)
export REWRIGHT_CACHE=$state/cache TORCHINDUCTOR_CACHE_DIR=$state/inductor
if [ -e "$state/cache.tar.gz" ] && [ ! -d "$state/cache" ]; then
  tar -C "$state" -xzf "$state/cache.tar.gz" || exit 2
fi
# Peers run with the libraries of their own machine.
printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "${LD_LIBRARY_PATH:-}" "$(command -v "$python")" > "$state/python"
chmod +x "$state/python"
export REWRIGHT_PYTHON=$state/python
# Ours: what was packed, and CUDA's as Python packages bring them where the system has none.
packages=$("$python" -c 'import glob, site; print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/*/lib")))' 2>/dev/null)
export LD_LIBRARY_PATH=$PWD/build/rewright-gpu/lib${packages:+:$packages}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

set -f  # the patterns of test filters are no names of files
models=(resnet50 bert_base gpt2_small nasnet_a inception_v3 squeezenet nasrnn resnext50)
common=(--rewright "$program" --work "$state/models")
costs=(--profile "$state/profile.db")
steps=()
declare -A command
step() { steps+=("$1"); command[$1]="${*:2}"; }
if [ $prepare = 1 ]; then
  for batch in 1 16; do
    for model in "${models[@]}"; do
      step "expect-$model-b$batch" "$python" bench/gpu/model.py "$model" --batch $batch --expect-only "${common[@]}"
    done
  done
fi
test_of() {
  step "test-$1" "$tests" --gtest_brief=1 "--gtest_filter=*Gpu.*/$1:GpuLanes.*"
}
models_at() {
  local precision model
  for precision in tf32 bf16; do
    for model in "${models[@]}"; do
      step "model-$model-b$1-$precision" "$python" bench/gpu/model.py "$model" --batch "$1" --precision $precision \
        --device "$device" --out "$state/gpu.csv" --time-limit 25 "${common[@]}" "${costs[@]}"
    done
  done
}
test_of tf32
test_of bf16
models_at 1
for model in resnet50 squeezenet bert_base; do
  step "cross-$model" "$python" bench/gpu/cross_device.py "$model" --devices "$device" cpu \
    --out "$state/gpu_cross_device.csv" "${common[@]}" "${costs[@]}"
done
step block "$python" bench/gpu/residual_block.py --device "$device" --out "$state/gpu_residual_block.csv" "${common[@]}"
test_of fp32
test_of fp16
for tool in memcheck racecheck synccheck; do
  step "sanitizer-$tool" compute-sanitizer --tool $tool --error-exitcode 1 "$tests" --gtest_brief=1 \
    "--gtest_filter=*Gpu.LargeKernels*/*:*Gpu.Attention*/*:*Gpu.Branches*/*:GpuLanes.*"
done
models_at 16
step profile "$program" profile --profile "$state/profile.db" --export "$state/profile.json"
step summary "$python" bench/gpu/summary.py "$state/gpu.csv"

chosen() {
  [ ${#patterns[@]} -eq 0 ] && return 0
  local pattern
  for pattern in "${patterns[@]}"; do [[ $1 == $pattern ]] && return 0; done
  return 1
}
if [ $list = 1 ]; then
  for name in "${steps[@]}"; do chosen "$name" && echo "$name: ${command[$name]}"; done
  exit 0
fi

if [ $prepare = 1 ]; then
  answer=0
  for name in "${steps[@]}"; do
    [[ $name == expect-* ]] && chosen "$name" || continue
    echo "== $name"
    ${command[$name]} || { answer=1; echo "== $name: status $?"; }
  done
  exit $answer
fi

# A test that is skipped is no test: without a GPU there is nothing to do.
"$program" zoo mlp --layers 1 -o "$state/probe.onnx" --quiet >/dev/null || exit 2
"$program" run "$state/probe.onnx" --device "$device" --iterations 1 --quiet >/dev/null || exit 2
{ date -u; nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv 2>/dev/null; } | tee -a "$state/log.txt"

# Whole or not at all, since the end may come at any time.
keep() {
  [ -d "${OUT:-}" ] || return 0
  local file
  for file in done.txt negative.txt log.txt gpu.csv gpu_cross_device.csv gpu_residual_block.csv profile.db profile.json; do
    [ -e "$state/$file" ] && cp "$state/$file" "$OUT/.part" && mv "$OUT/.part" "$OUT/$file"
  done
  [ -d "$state/cache" ] && tar -C "$state" -czf "$OUT/.part" cache && mv "$OUT/.part" "$OUT/cache.tar.gz"
}
trap keep EXIT

begin=$SECONDS answer=0
for name in "${steps[@]}"; do
  chosen "$name" || continue
  grep -qx "$name" "$state/done.txt" 2>/dev/null && continue
  left=$((minutes * 60 - (SECONDS - begin)))
  if [ $left -lt 20 ]; then
    echo "all.sh: the time is up before $name; call again to go on" | tee -a "$state/log.txt"
    exit 75
  fi
  echo "== $name ($left s left)" | tee -a "$state/log.txt"
  start=$SECONDS
  # shellcheck disable=SC2086
  timeout --kill-after=5 $left ${command[$name]} 2>&1 | tee -a "$state/log.txt"
  status=${PIPESTATUS[0]}
  echo "== $name: status $status, $((SECONDS - start)) s" | tee -a "$state/log.txt"
  # A step that had nearly all of the time would have no more when it is begun anew.
  case $status in
    124 | 137)
      if [ $left -lt $((minutes * 54)) ]; then
        echo "all.sh: the time was up within $name; call again to begin it anew"
        exit 75
      fi ;;
  esac
  echo "$name" >> "$state/done.txt"
  [ $status = 0 ] || { answer=1; echo "$name" >> "$state/negative.txt"; }
  keep
done
exit $answer
