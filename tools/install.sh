#!/usr/bin/env bash
# Installs the Debian packages that Rewright is built from; does nothing when all are there. Works as root or with sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git
  libz3-dev cvc5 libboost-graph-dev libabsl-dev
  libonnx-dev libprotobuf-dev protobuf-compiler
  libdnnl-dev ocl-icd-opencl-dev llvm-14-dev zlib1g-dev
  libsqlite3-dev nlohmann-json3-dev libcli11-dev
  libopenmpi-dev openmpi-bin
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  python3-venv python3-dev
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install.sh: these packages are missing and there is no sudo: ${missing[*]}" >&2; exit 2; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
