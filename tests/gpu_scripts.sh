#!/usr/bin/env bash
# bench/gpu with the CPU as the device, and what it says where there is no GPU.
# Usage: gpu_scripts.sh ROOT PROGRAM. Ends with 77 (skipped) where there is no Python with numpy.
set -u
cd "$1" || exit 2
program=$2
python=${REWRIGHT_PYTHON:-$(test -x .venv/bin/python && echo .venv/bin/python || echo python3)}
"$python" -c 'import numpy' 2>/dev/null || { echo "no numpy in $python"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
expect() {  # what, found, wanted
  [ "$2" = "$3" ] && return
  echo "$1: found $2, expected $3"
  failures=$((failures + 1))
}
model() {
  "$python" bench/gpu/model.py mlp --rewright "$program" --work "$folder" --out "$folder/t.csv" --rounds 2 \
    --zoo-flags "--layers 1" --no-peers --time-limit 1 "$@" >"$folder/out" 2>&1
}

model --device cpu
expect "status on the CPU" $? 0
expect "checked graphs" "$(grep -c 'against the reference.*: equal' "$folder/out")" 2
expect "rows" "$(wc -l <"$folder/t.csv")" 4
model --device cpu
expect "rows of the same measurement" "$(wc -l <"$folder/t.csv")" 4
model --device cpu --batch 3
expect "rows of two" "$(wc -l <"$folder/t.csv")" 7
expect "the batch is checked against the CPU device" "$(grep -c 'against the cpu.*: equal' "$folder/out")" 2
"$python" bench/gpu/summary.py "$folder/t.csv" >"$folder/out"
expect "groups of the summary" "$(grep -c '1 models, over_best_peer unmeasured, over_baseline' "$folder/out")" 2

# Outputs that are not the expected ones.
"$python" - "$folder" <<'EOF'
import glob, sys, numpy as np
file = glob.glob(sys.argv[1] + "/expected/mlp-b1.onnx/*.npy")[0]
array = np.load(file)
array.flat[0] += 0.01 * np.abs(array).max()
np.save(file, array)
EOF
model --device cpu
expect "status where outputs differ" $? 1
expect "graphs that differ" "$(grep -c DIFFERS "$folder/out")" 2

"$python" bench/gpu/cross_device.py mlp --devices cpu cpu --rewright "$program" --work "$folder" --rounds 1 \
  --time-limit 1 --out "$folder/cross.csv" >"$folder/out" 2>&1
expect "status of one device against itself" $? 0
"$python" bench/gpu/residual_block.py --device cpu --rounds 1 --choose-for analytic:h100 --rewright "$program" --work "$folder" \
  --out "$folder/block.csv" >"$folder/out" 2>&1
expect "status of the residual block" $? 0
expect "the original among the alternatives" "$(grep -c 'measured .* ms, predicted .* ms: original' "$folder/out")" 1
expect "a merged block among them" "$(grep -c conv-merge-kernels "$folder/out")" 1
# Our rows stand in the table when the first peer starts; peers that die end nothing; a model is searched once.
printf '#!/bin/sh\necho "$1" "$(echo "$@" | grep -o -e --optimized)" >>%q\nexec %q "$@"\n' "$folder/calls" "$program" \
  >"$folder/counting"
printf '#!/bin/sh\nwc -l <%q >>%q\nexit 1\n' "$folder/first.csv" "$folder/seen" >"$folder/dying"
chmod +x "$folder/counting" "$folder/dying"
REWRIGHT_PYTHON=$folder/dying "$python" bench/gpu/model.py mlp --rewright "$folder/counting" --work "$folder/first" \
  --out "$folder/first.csv" --rounds 1 --zoo-flags "--layers 1" --time-limit 1 --device cpu >"$folder/out" 2>&1
expect "status where peers die" $? 0
expect "rows when the first peer starts" "$(head -n 1 "$folder/seen")" 3
expect "rows in the end" "$(wc -l <"$folder/first.csv")" 4
expect "peers that died" "$(grep -c 'absent: ' "$folder/out")" "$(wc -l <"$folder/seen")"
expect "searches" "$(grep -c '^optimize' "$folder/calls")" 1
expect "comparisons, of what was found" "$(grep '^compare' "$folder/calls")" "compare --optimized"

# Step by step: what is done is not done again, and a time that is up is no answer.
all() { REWRIGHT=$program REWRIGHT_PYTHON=$python bench/gpu/lease.sh --state "$folder/state" "$@" >"$folder/out" 2>&1; }
all --device cpu versions summary
expect "status of a summary without a table" $? 1
expect "steps done" "$(tr '\n' ' ' <"$folder/state/done.txt")" "versions summary "
all --device cpu versions summary
expect "status when all is done" $? 0
expect "steps begun again" "$(grep -c '^== ' "$folder/out")" 0
# Compiled kernels and choices go along to another machine.
mkdir "$folder/state/cache" "$folder/kept"
echo code >"$folder/state/cache/kernel-1"
OUT="$folder/kept" all --device cpu smoke-mlp-b1-bf16
expect "status with a folder for results" $? 0
expect "our own figures" "$(grep -c 'ms by itself' "$folder/state/logs/smoke-mlp-b1-bf16.txt")" 2
expect "their rows" "$(grep -c 'mlp,1,f32' "$folder/state/gpu.csv")" 2
rm -r "$folder/state/cache" "$folder/state/gpu.csv"
expect "files for results" "$(ls "$folder/kept" | tr '\n' ' ')" "logs.tar.gz state.tar.gz summary.txt "
rm "$folder/state/done.txt"
cp "$folder/kept/state.tar.gz" "$folder/state/"
all --device cpu smoke-mlp-b1-bf16
expect "the kernel brought along" "$(cat "$folder/state/cache/kernel-1")" code
expect "the table brought along" "$(grep -c 'mlp,1,f32' "$folder/state/gpu.csv")" 2
expect "steps that were done elsewhere" "$(grep -c '^== ' "$folder/out")" 0
all --prepare expect-squeezenet-b1
expect "status of the preparation" $? 0
expect "expected outputs" "$(find "$folder/state/models/expected/squeezenet-b1.onnx" -name '*.npy' | wc -l)" 1
# A model that fails stops no other.
printf '#!/bin/sh\n[ "$2" = squeezenet ] && exit 3\nexec %q "$@"\n' "$program" >"$folder/failing"
chmod +x "$folder/failing"
REWRIGHT=$folder/failing REWRIGHT_PYTHON=$python bench/gpu/lease.sh --state "$folder/other" --prepare expect-squeezenet-b1 \
  expect-nasrnn-b1 >"$folder/out" 2>&1
expect "status where one model fails" $? 1
expect "outputs of the others" "$(ls "$folder/other/models/expected")" nasrnn-b1.onnx
mkdir "$folder/copied"
OUT="$folder/copied" REWRIGHT=$folder/failing REWRIGHT_PYTHON=$python bench/gpu/lease.sh --state "$folder/other" \
  --device cpu more-breadth-squeezenet-b1-tf32 versions >"$folder/out" 2>&1
expect "status where one step fails" $? 1
tar -C "$folder/copied" -xzf "$folder/copied/state.tar.gz"
expect "steps after all" "$(sort "$folder/copied/done.txt" | tr '\n' ' ')" "more-breadth-squeezenet-b1-tf32 versions "
expect "the one that failed" "$(cat "$folder/copied/negative.txt")" more-breadth-squeezenet-b1-tf32
# Every step has a cap; one that takes all of it counts as negative, and the next one follows. Clocks are noted meanwhile.
mkdir "$folder/tools"
printf '#!/bin/sh\necho "$2" >>%q\ncase "$*" in *versions.sh*) sleep 1; exit 124 ;; esac\nexit 0\n' "$folder/caps" \
  >"$folder/tools/timeout"
printf '#!/bin/sh\ncase "$*" in *--loop*) echo 1980; echo 345; exec sleep 60 ;; esac\necho 1200 MHz\n' \
  >"$folder/tools/nvidia-smi"
chmod +x "$folder/tools/"*
capped() {  # minutes, state
  rm -f "$folder/caps"
  PATH="$folder/tools:$PATH" REWRIGHT=$program REWRIGHT_PYTHON=$python bench/gpu/lease.sh --minutes "$1" --state "$2" \
    --device cpu versions peers-resnet50-b1-bf16 more-block >"$folder/out" 2>&1
}
capped 2 "$folder/short"
expect "the first cap, where time is short" "$(head -n 1 "$folder/caps")" 20
capped 30 "$folder/capped"
expect "status where a step takes all of its time" $? 1
expect "caps in seconds" "$(tr '\n' ' ' <"$folder/caps")" "40 300 120 "
expect "the step without an end" "$(cat "$folder/capped/negative.txt")" versions
expect "clocks of the step" "$(grep -c 'versions: status 124.*1200 MHz SM clock 345 to 1980 MHz' "$folder/out")" 1
all --device cpu --minutes 0 'more-cross-*'
expect "status when the time is up" $? 75
listed() { bench/gpu/lease.sh --list "$@"; }
expect "models beside their peers" "$(listed '*peers-*' '*breadth-*-b[0-9]*' | wc -l)" 29
expect "workloads beside their peers" "$(listed '*workloads-*' | grep -c 'model.py mirage_.* --batch [18] --precision bf16')" 12
# A step that hangs costs little of the time: none but those for left time has more than 150 seconds.
expect "steps of more than 150 seconds" "$(listed | grep -v '^more-' | awk '{split($2, cap, ":"); if (cap[1] > 150) print $1}')" ""
# Agreement: a test that fails, one that hangs and one that is skipped count; what compiles meanwhile does not.
cat >"$folder/tests" <<'EOF'
#!/bin/sh
case "$1" in
  *Branches*) echo "Expected: 1"; exit 1 ;;
  *Attention*) exec sleep 60 ;;
  *LargeKernels*) echo "[  PASSED  ] 0 tests."; echo "[  SKIPPED ] 1 test." ;;
  *) echo "[  PASSED  ] 1 test." ;;
esac
EOF
chmod +x "$folder/tests"
"$python" bench/gpu/agree.py "$folder/tests" --precisions bf16 --seconds 2 --logs "$folder/agree" >"$folder/out" 2>&1
expect "status where tests fail" $? 1
expect "tests that agree" "$(tail -n 1 "$folder/out")" "4 of 7 agree"
expect "tests that do not" "$(sed -n 's/^\([^ ]*\): status.*, FAILED$/\1/p' "$folder/out" | sort | tr '\n' ' ')" \
  "Attention-bf16 Branches-bf16 LargeKernels-bf16 "
expect "what a failing test said" "$(grep -c '^    Expected: 1$' "$folder/out")" 2
# Every step of tests runs some.
if [ -x "$(dirname "$program")/tests/runtime_test" ]; then
  bench/gpu/lease.sh --list | sed -n 's/^\([^ ]*\) [^:]*: .*\(--gtest_filter=.*\)/\1 \2/p' | while read -r name filter; do
    [ "$("$(dirname "$program")/tests/runtime_test" --gtest_list_tests "$filter" | grep -c '^  ')" -gt 0 ] || echo "$name"
  done >"$folder/out"
  expect "steps without a test" "$(tr '\n' ' ' <"$folder/out")" ""
  for name in $("$python" -c 'import sys; sys.path.insert(0, "bench/gpu"); import agree; print(*agree.PROPERTIES)'); do
    [ "$("$(dirname "$program")/tests/runtime_test" --gtest_list_tests "--gtest_filter=*Gpu.$name*/bf16" | grep -c '^  ')" -gt 0 ] || echo "$name"
  done >"$folder/out"
  expect "properties without a test" "$(cat "$folder/out")" ""
fi
expect "sanitizers that look at our kernels alone" "$(bench/gpu/lease.sh --list '*sanitizer-*' | grep -c -e '--kernel-name kernel_substring=rewright_')" 3
expect "what is prepared" "$(bench/gpu/lease.sh --prepare --list 'expect-*' | wc -l)" 28

# The bundle is small enough to travel, and runs where it is unpacked as the documentation says.
if [ "$(realpath "$program")" = "$(realpath -m build/release/rewright)" ] && [ -x build/release/tests/runtime_test ] &&
  [ -e build/release/librewright_cuda.so ]; then
  mkdir -p "$folder/there/build"
  bench/gpu/bundle.sh "$folder/there/build/gpu-bundle.tar.gz" >"$folder/out" 2>&1
  expect "status of the bundle" $? 0
  bytes=$(stat -c %s "$folder/there/build/gpu-bundle.tar.gz")
  [ "$bytes" -lt $((64 << 20)) ] || expect "bytes of the bundle" "$bytes" "less than $((64 << 20))"
  unpack=$(sed -n 's/^\(mkdir -p build && tar .*\) && bench.gpu.lease.sh .*/\1/p' docs/cuda.md)
  (cd "$folder/there" && eval "${unpack:-false}")
  expect "status of unpacking it" $? 0
  bin=$folder/there/build/rewright-gpu/bin
  "$bin/rewright" zoo mlp --layers 1 -o "$folder/packed.onnx" --quiet >/dev/null 2>&1
  expect "status of the program in it" $? 0
  expect "its plugin" "$(ls "$bin" | tr '\n' ' ' | grep -c librewright_cuda.so)" 1
  expect "its tests" "$("$bin/gpu_test" --gtest_list_tests --gtest_filter='GpuQueues.*' | grep -c '^  ')" 1
fi

# A program without its plugin, and with one that the loader does not take.
mkdir "$folder/alone"
cp "$program" "$folder/alone/rewright"
lonely() { "$folder/alone/rewright" run "$folder/mlp-b1.onnx" --device cuda:0 --quiet >/dev/null 2>"$folder/err"; }
lonely
expect "status without a plugin" $? 2
expect "words without a plugin" "$(grep -c 'device cuda: there is no plugin: neither .*/alone/librewright_cuda.so' "$folder/err")" 1
echo "no library" >"$folder/alone/librewright_cuda.so"
lonely
expect "status with a broken plugin" $? 2
expect "words with a broken plugin" "$(grep -c 'device cuda: the plugin cannot be opened: .*alone/librewright_cuda.so' "$folder/err")" 1

# One whose libraries are not there: the first of them is named.
if [ -e "$(dirname "$program")/librewright_cuda.so" ]; then
  LC_ALL=C sed 's/libcudnn\.so\.9/libnodnn.so.9/' "$(dirname "$program")/librewright_cuda.so" >"$folder/alone/librewright_cuda.so"
  lonely
  expect "status without cuDNN" $? 2
  expect "words without cuDNN" "$(grep -c 'the plugin cannot be opened: libnodnn.so.9: .*cuDNN 9, .*LD_LIBRARY_PATH' "$folder/err")" 1
fi

# Nothing is left for a machine without a GPU but words and the status for it.
if ! "$program" run "$folder/mlp-b1.onnx" --device cuda:0 --iterations 1 --quiet >/dev/null 2>"$folder/err"; then
  expect "words of the program" "$(grep -c 'device cuda' "$folder/err")" 1
  model --device cuda:0 --precision tf32
  expect "status without a GPU" $? 2
  expect "its words" "$(grep -c 'model.py: .*device cuda' "$folder/out")" 1
  all
  expect "status of lease.sh without a GPU" $? 2
fi
[ $failures -eq 0 ] && echo "bench/gpu works"
[ $failures -eq 0 ]
