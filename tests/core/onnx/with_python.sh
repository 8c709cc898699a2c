#!/bin/sh
# Runs a Python test in the environment of tools/python_env.sh; says so and exits with 77 (skipped) where there is none.
# Usage: with_python.sh REPOSITORY SCRIPT ARGUMENTS...
root=$1
shift
if [ ! -x "$root/.venv/bin/python" ]; then
  echo "skipped: no Python environment; tools/python_env.sh makes one"
  exit 77
fi
exec "$root/.venv/bin/python" "$@"
