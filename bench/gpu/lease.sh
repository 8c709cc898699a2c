#!/usr/bin/env bash
# Everything that a GPU has to show, in one command of at most 9.5 minutes, in order of worth:
#
#   bench/gpu/lease.sh [--minutes M] [--state DIR] [--device cuda:N] [--list] [--prepare] [PATTERN...]
#
# Does it load (where not, it ends at once), do all operators and random graphs agree with the interpreter; resnet50,
# bert_base and gpt2_small in bf16, by themselves and beside torch.compile; Mirage's workloads beside it; the three in
# tf32; a sanitizer. Steps named `more-` follow where time is left: tf32 beside peers, larger batches, all other models,
# graphs for GPU and CPU on both, the residual block, the other precision's tests.
# PATTERNS choose steps by name; --list shows them with their seconds. --prepare computes the outputs that are expected
# (steps expect-*), by the interpreter and the CPU device, on a machine without a GPU: what it leaves in
# DIR/models/expected saves time on one that has one.
# Stops by itself after M minutes (default 9.5) and goes on where it stopped when it is called again: DIR (default
# build/gpu) holds the steps done, tables, logs, the profile database, and a cache of compiled kernels and chosen
# algorithms. Every step has a time of its own, and up to as much again of what others before it did not need; one that
# fails, or takes all of it, is listed in DIR/negative.txt, and the next one follows. Where $OUT names a folder, files
# are written there after every step: summary.txt (the end of every log), logs.tar.gz, state.tar.gz, and
# inductor.tar.gz (what torch.compile keeps, where it is small). The last two, put into DIR on another machine of the
# same kind, spare it what is done. Needs either a build in build/release (or one whose program is $REWRIGHT) or a bundle
# unpacked in build/rewright-gpu (bench/gpu/bundle.sh). Exit status: 0 all chosen steps are done; 1 a step's answer is
# negative, such as outputs that differ; 2 there is no GPU; 75 the time is up.
set -uo pipefail
cd "$(dirname "$0")/../.."
minutes=9.5 state=build/gpu device=cuda:0 list=0 prepare=0 patterns=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=$2; shift 2 ;;
    --state) state=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --list) list=1; shift ;;
    --prepare) prepare=1; shift ;;
    -*) echo "lease.sh: unknown flag $1" >&2; exit 2 ;;
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
export REWRIGHT_CACHE=$state/cache TORCHINDUCTOR_CACHE_DIR=$state/inductor TRITON_CACHE_DIR=$state/inductor/triton
# torch.compile at its best: weights are constants to it. JAX leaves memory to the others.
export TORCHINDUCTOR_FREEZING=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
if [ -e "$state/state.tar.gz" ] && [ ! -e "$state/done.txt" ]; then
  for file in "$state"/*.tar.gz; do tar -C "$state" -xzf "$file" || exit 2; done
fi
# Peers run with the libraries of their own machine.
# Four kinds of onnxruntime take seconds each to say that they have no GPU, and JAX compiles for long: both are left
# out, unless REWRIGHT_ORT or REWRIGHT_JAX is set.
rm -rf "$state/absent"
mkdir "$state/absent"
for pair in onnxruntime:"${REWRIGHT_ORT:-}" jax:"${REWRIGHT_JAX:-}"; do
  name=${pair%%:*}
  [ -n "${pair#*:}" ] || echo "raise ModuleNotFoundError('$name is left out', name='$name')" > "$state/absent/$name.py"
done
printf '#!/bin/sh\nLD_LIBRARY_PATH=%q PYTHONPATH=%q exec %q "$@"\n' "${LD_LIBRARY_PATH:-}" \
  "$state/absent${PYTHONPATH:+:$PYTHONPATH}" "$(command -v "$python")" > "$state/python"
chmod +x "$state/python"
export REWRIGHT_PYTHON=$state/python
# Ours: what was packed, and CUDA's as Python packages bring them where the system has none.
packages=$("$python" -c 'import glob, site; print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/*/lib")))' 2>/dev/null)
export LD_LIBRARY_PATH=$PWD/build/rewright-gpu/lib${packages:+:$packages}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

set -f  # the patterns of test filters are no names of files
main=(resnet50 bert_base gpt2_small)
others=(nasnet_a inception_v3 squeezenet nasrnn resnext50)
models=("${main[@]}" "${others[@]}")
workloads=(mirage_gqa mirage_qk_norm mirage_rms_norm mirage_lora mirage_gated_mlp mirage_ntrans)
common=(--rewright "$program" --work "$state/models")
costs=(--profile "$state/profile.db")
steps=()
declare -A command cap
step() { steps+=("$1"); cap[$1]=$2; command[$1]="${*:3}"; }  # name, seconds, command
expect() {  # model, batch
  step "expect-$1-b$2" 3600 "$python" bench/gpu/model.py "$1" --batch $2 --expect-only "${common[@]}"
}
if [ $prepare = 1 ]; then
  for batch in 1 16; do
    for model in "${models[@]}"; do expect $model $batch; done
  done
  for batch in 1 8; do
    for model in "${workloads[@]}"; do expect $model $batch; done
  done
fi
tests_of() {  # name, seconds, filter
  step "$1" "$2" "$tests" --gtest_brief=1 "--gtest_filter=$3"
}
model() {  # phase, model, batch, precision, seconds, flags
  local precision=$4
  [ "$device" = cpu ] && precision=f32  # which tries the steps where there is no GPU
  step "$1-$2-b$3-$4" "$5" "$python" bench/gpu/model.py "$2" --batch "$3" --precision $precision --device "$device" \
    --out "$state/gpu.csv" --time-limit 45 "${common[@]}" "${costs[@]}" "${@:6}"
}
sanitizer() {  # name, seconds, tool
  # Our own kernels alone: those of the libraries take their time, and their hazards would count as ours.
  step "$1" "$2" compute-sanitizer --tool $3 --kernel-name kernel_substring=rewright_ --error-exitcode 1 \
    "$tests" --gtest_brief=1 "--gtest_filter=*Gpu.LargeKernels*/bf16:GpuQueues.*"
}

# ---- does it run, and is it right
step versions 20 bench/gpu/versions.sh "$program" "$python"
compiled=()
if [ "$device" = cpu ]; then
  step agree 100 "$program" run "$state/probe.onnx" --iterations 1  # the tests need a GPU
else
  for model in "${main[@]}" "${workloads[@]}"; do compiled+=("$state/models/$model-b1.onnx"); done
  step agree 110 "$python" bench/gpu/agree.py "$tests" --precisions bf16 tf32 f32 --seconds 100 \
    --logs "$state/logs/agree" --device "$device" --compile "${compiled[@]}"
fi
# ---- how fast
[ "$device" = cpu ] || step rates 40 "$python" bench/gpu/rates.py --out "$state/gpu_rates.csv"
model smoke mlp 1 bf16 25 --own
compiler=(--peer torch-compile)
for model in "${main[@]}"; do model own $model 1 bf16 70 --own; done
for model in bert_base gpt2_small; do model peers $model 1 bf16 90 --reuse "${compiler[@]}"; done
for model in "${workloads[@]}"; do model workloads $model 1 bf16 40 "${compiler[@]}"; done
model peers resnet50 1 bf16 150 --reuse "${compiler[@]}"
for model in "${main[@]}"; do model own $model 1 tf32 60 --own; done
sanitizer sanitizer-memcheck 40 memcheck
# ---- what time is left for
for model in "${main[@]}"; do model more-peers $model 1 tf32 150 --reuse "${compiler[@]}"; done
step more-block 120 "$python" bench/gpu/residual_block.py --device "$device" --out "$state/gpu_residual_block.csv" \
  "${common[@]}"
for model in resnet50 squeezenet bert_base; do
  step "more-cross-$model" 120 "$python" bench/gpu/cross_device.py "$model" --devices "$device" cpu \
    --out "$state/gpu_cross_device.csv" "${common[@]}" "${costs[@]}"
done
for tool in racecheck synccheck; do sanitizer more-sanitizer-$tool 60 $tool; done
for model in "${main[@]}"; do model more-peers $model 16 bf16 240; done
for model in "${workloads[@]}"; do model more-workloads $model 8 bf16 90; done
for batch in 1 16; do
  for precision in bf16 tf32; do
    for model in "${others[@]}"; do model more-breadth $model $batch $precision 240; done
  done
done
for name in EveryOperator RandomGraphs; do tests_of "more-tests-$name-f16" 150 "*Gpu.$name*/f16"; done
step profile 60 "$program" profile --profile "$state/profile.db" --export "$state/profile.json"
step summary 60 "$python" bench/gpu/summary.py "$state/gpu.csv"

chosen() {
  [ ${#patterns[@]} -eq 0 ] && return 0
  local pattern
  for pattern in "${patterns[@]}"; do [[ $1 == $pattern ]] && return 0; done
  return 1
}
if [ $list = 1 ]; then
  for name in "${steps[@]}"; do chosen "$name" && echo "$name ${cap[$name]}: ${command[$name]}"; done
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

begin=$SECONDS
# A test that is skipped is no test: without a GPU there is nothing to do.
"$program" zoo mlp --layers 1 -o "$state/probe.onnx" --quiet >/dev/null || exit 2
if ! "$program" run "$state/probe.onnx" --device "$device" --iterations 1 --quiet >/dev/null; then
  bench/gpu/versions.sh "$program" "$python"
  exit 2
fi
mkdir -p "$state/logs" "$state/models"
date -u >> "$state/summary.txt"
# Models that steps share are written before, all at a time.
for path in "${compiled[@]}"; do
  name=$(basename "$path" -b1.onnx)
  [ -e "$path" ] || { "$program" zoo "$name" -o "$path.part.onnx" --quiet >/dev/null && mv "$path.part.onnx" "$path"; } &
done
wait

# Whole or not at all, since the end may come at any time.
keep() {
  [ -d "${OUT:-}" ] || return 0
  cp "$state/summary.txt" "$OUT/.part" && mv "$OUT/.part" "$OUT/summary.txt"
  tar -C "$state" -czf "$OUT/.part" logs && mv "$OUT/.part" "$OUT/logs.tar.gz"
  local kept=() file
  for file in done.txt negative.txt summary.txt gpu.csv gpu_rates.csv gpu_cross_device.csv gpu_residual_block.csv profile.db \
    profile.json cache; do
    [ -e "$state/$file" ] && kept+=("$file")
  done
  tar -C "$state" -czf "$OUT/.part" "${kept[@]}" && mv "$OUT/.part" "$OUT/state.tar.gz"
  if [ -d "$state/inductor" ] && [ "$(du -sm "$state/inductor" | cut -f1)" -lt 60 ]; then
    tar -C "$state" -czf "$OUT/.part" inductor && mv "$OUT/.part" "$OUT/inductor.tar.gz"
  fi
}
clock() {  # at the end of a step, and the range of what was noted while it ran
  nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader 2>/dev/null
  sort -n "$1" | sed -n '1h; ${H; g; s/\n/ to /; s/.*/SM clock & MHz/p}'
}
trap keep EXIT

answer=0
allowed=$(awk "BEGIN {print int($minutes * 60)}")
todo=() planned=0  # seconds of what is to be done, but for what is done if time is left
for name in "${steps[@]}"; do
  chosen "$name" || continue
  grep -qx "$name" "$state/done.txt" 2>/dev/null && continue
  todo+=("$name")
  [[ $name == more-* ]] || planned=$((planned + cap[$name]))
done
for name in "${todo[@]}"; do
  left=$((allowed - (SECONDS - begin)))
  if [ $left -lt 20 ]; then
    echo "lease.sh: the time is up before $name; call again to go on" | tee -a "$state/summary.txt"
    exit 75
  fi
  most=${cap[$name]}
  if [[ $name != more-* ]]; then
    spare=$((left > planned ? left - planned : 0))
    most=$((most + (spare < most ? spare : most)))
    planned=$((planned - cap[$name]))
  fi
  [ $most -gt $left ] && most=$left
  start=$SECONDS
  nvidia-smi --query-gpu=clocks.sm --format=csv,noheader,nounits --loop-ms=500 > "$state/logs/$name.clocks" 2>/dev/null &
  watcher=$!
  # shellcheck disable=SC2086
  timeout --kill-after=5 $most ${command[$name]} > "$state/logs/$name.txt" 2>&1
  status=$?
  { kill $watcher; wait $watcher; } 2>/dev/null
  {
    echo "== $name: status $status, $((SECONDS - start)) s" $(clock "$state/logs/$name.clocks")
    tail -n 30 "$state/logs/$name.txt" | cut -c1-300
  } | tee -a "$state/summary.txt"
  # A part that was ended before its own time limit begins anew.
  case $status in
    124 | 137)
      if [ $most -lt ${cap[$name]} ]; then
        echo "lease.sh: the time was up within $name; call again to begin it anew" | tee -a "$state/summary.txt"
        exit 75
      fi ;;
  esac
  echo "$name" >> "$state/done.txt"
  [ $status = 0 ] || { answer=1; echo "$name" >> "$state/negative.txt"; }
  keep
done
exit $answer
