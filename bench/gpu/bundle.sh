#!/usr/bin/env bash
# Packs what a machine with a GPU needs and may not have: the program, the plugin, the tests of the device, and the
# shared libraries they use, except those of CUDA, of the C library and of the compiler, which are that machine's own.
#
#   bench/gpu/bundle.sh [BUNDLE.tar.gz]      # default build/gpu-bundle.tar.gz, from build/release
#
# There: tar xf BUNDLE.tar.gz gives rewright-gpu/; its program finds its libraries beside itself (RPATH $ORIGIN/../lib).
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:-build/gpu-bundle.tar.gz}")
build=build/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/rewright-gpu

test -e $build/librewright_cuda.so || { echo "bundle.sh: $build has no plugin: the build found no CUDA toolkit or no cuDNN" >&2; exit 2; }
for component in program cuda data; do
  cmake --install $build --component $component --prefix "$root" --strip >/dev/null
done
cp $build/tests/runtime_test "$root/bin/gpu_test"
strip "$root/bin/gpu_test"
mkdir -p "$root/lib"
own='libc|libm|libdl|librt|libpthread|libresolv|ld-linux-x86-64|libstdc\+\+|libgcc_s|libcuda|libcudart|libcudnn[a-z_]*|libcublas|libcublasLt|libnvrtc[a-z_-]*'
for program in "$root/bin/rewright" "$root/bin/gpu_test"; do
  ldd "$program" | awk '$3 ~ /^\// {print $1, $3}'
done | sort -u | while read -r name path; do
  [[ $name =~ ^($own)\.so ]] || cp -L "$path" "$root/lib/$name"
done
mkdir -p "$(dirname "$out")"
tar -C "$folder" -czf "$out.part" rewright-gpu
mv "$out.part" "$out"
echo "$out: $(du -h "$out" | cut -f1)"
