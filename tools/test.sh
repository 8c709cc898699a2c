#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Ends with ctest's summary.
#   REWRIGHT_SKIP_ASAN=1 leaves out the sanitizer build of the core and of the rule language.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/install.sh
bash tools/python_env.sh

if [ -z "${REWRIGHT_SKIP_ASAN:-}" ]; then
  cmake --preset asan >/dev/null
  cmake --build --preset asan --target core_test rule_text_test
  ctest --preset asan -L '^(core|rule_text)_test$' -j 2
fi

cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release -j 2
