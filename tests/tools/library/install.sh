#!/usr/bin/env bash
# Installs the library, builds a program against it by pkg-config and by find_package, and holds what it computes
# against the program `rewright`.
# Usage: install.sh SOURCE_FOLDER BUILD_FOLDER COMPILER
set -euo pipefail
source=$1 build=$2 compiler=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

fail() { echo "install.sh: $*" >&2; exit 1; }

for component in library data; do
  cmake --install "$build" --component $component --prefix "$folder/first" >/dev/null
done
mv "$folder/first" "$prefix"  # the tree is where the configuration does not know it
library=$(find "$prefix" -name librewright.so)
[ -n "$library" ] || fail "no librewright.so is installed"

# Only the declarations of the header are visible from outside.
foreign=$(nm -DC --defined-only "$library" | sed -n 's/^[0-9a-f]* [TDBR] //p' |
  grep -v 'rewright::\(Model\|GrowingSession\|Error\|StopWhen\|OutputArray\|SetDataFolder\|VerifyRules\)' || true)
[ -z "$foreign" ] || fail "also seen from outside: $foreign"
! nm -D --undefined-only "$library" | grep -q ' exec' || fail "the library may start another program in its process"

PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$compiler" -std=c++17 -Wall -Werror "$source/consumer.cc" -o "$folder/by_pkg_config" \
  $(pkg-config --cflags --libs rewright) "-Wl,-rpath,$(dirname "$library")"

mkdir "$folder/project"
cp "$source/consumer.cc" "$folder/project/"
cat >"$folder/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES CXX)
find_package(rewright 0.1 REQUIRED)
add_executable(consumer consumer.cc)
target_link_libraries(consumer PRIVATE rewright::rewright)
END
cmake -S "$folder/project" -B "$folder/project/build" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$folder/project/build" >/dev/null

"$build/rewright" zoo squeezenet --image-size 64 -o "$folder/m.onnx" --quiet
for consumer in "$folder/by_pkg_config" "$folder/project/build/consumer"; do
  input=$("$consumer" "$folder/m.onnx" "$folder/x.npy" "$folder/y.raw")
  rm -rf "$folder/out"
  # Without compiled loops, which need a plugin that is not installed: it is the same device then, with the same costs.
  REWRIGHT_JIT=0 "$build/rewright" run "$folder/m.onnx" --profile "$folder/x.npy.db" --input "$input=$folder/x.npy" \
    --output-dir "$folder/out" --iterations 1 --quiet >/dev/null
  bytes=$(stat -c %s "$folder/y.raw")
  [ "$bytes" -gt 0 ] || fail "no output"
  tail -c "$bytes" "$folder"/out/*.npy | cmp - "$folder/y.raw" || fail "another output than that of rewright run"
done

# Its data files are those beside the library.
find "$prefix" -name core.rules | grep -q . || fail "no rules are installed"
find "$prefix" -name core.rules -exec sh -c 'echo broken >"$1"' _ {} \;
if "$folder/by_pkg_config" "$folder/m.onnx" "$folder/x.npy" "$folder/y.raw" optimize 2>"$folder/err"; then
  fail "the rules that were read are not those beside the library"
fi
grep -q "$prefix" "$folder/err" || fail "$(cat "$folder/err")"
echo "two programs built against $(basename "$library") compute what rewright does"
