#!/usr/bin/env bash
# Makes the Debian package, reads what it depends on, and runs the program out of its files. Other systems and processors
# are refused when the build is configured.
# Usage: packages.sh SOURCES BUILD
set -euo pipefail
sources=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "packages.sh: $*" >&2; exit 1; }

refused() {  # SYSTEM PROCESSOR
  if cmake -S "$sources" -B "$folder/$1" -DCMAKE_SYSTEM_NAME="$1" -DCMAKE_SYSTEM_PROCESSOR="$2" \
    -DCMAKE_CXX_COMPILER_WORKS=1 >"$folder/out" 2>&1; then
    fail "a build for $1 on $2 is configured"
  fi
  tr -s ' \n' ' ' <"$folder/out" | grep -q "Rewright runs on Linux and x86-64 alone.* Found $1 on $2" ||
    fail "for $1 on $2 cmake says: $(cat "$folder/out")"
}
refused Linux aarch64
refused FreeBSD amd64

command -v dpkg-shlibdeps >/dev/null || { echo "skipped: there is no dpkg-shlibdeps"; exit 77; }
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder" -D CPACK_DEBIAN_COMPRESSION_TYPE=none \
  >"$folder/cpack" 2>&1 || fail "$(cat "$folder/cpack")"
package=$(echo "$folder"/rewright_*_amd64.deb)
depends=$(dpkg-deb -f "$package" Depends)
for library in libc6 libz3-4 libdnnl2 libprotobuf32 libstdc++6; do
  [[ $depends == *$library* ]] || fail "$library is missing in: $depends"
done
[[ $depends != *LLVM* && $depends != *cud* ]] || fail "it depends on what it carries or leaves out: $depends"

dpkg-deb -x "$package" "$folder/root"
# Out of this tree alone: its rules, not those of the sources.
program=$folder/root/usr/bin/rewright
"$program" zoo mlp -o "$folder/m.onnx" >/dev/null
"$program" optimize "$folder/m.onnx" -o "$folder/fast.onnx" --cost analytic:zen3 --rules core.rules >/dev/null 2>&1
"$program" equal "$folder/m.onnx" "$folder/fast.onnx" | grep -q '^proved' || fail "the result is not proved equal"
echo broken >"$folder/root/usr/share/rewright/rules/core.rules"
if "$program" optimize "$folder/m.onnx" --rules core.rules >/dev/null 2>&1; then fail "it reads other rules"; fi
