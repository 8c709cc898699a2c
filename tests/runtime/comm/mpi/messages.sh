#!/usr/bin/env bash
# Messages between processes that do not agree on them. Usage: messages.sh PROGRAM; status 77 where there is no mpirun.
set -u
command -v mpirun >/dev/null || exit 77
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failures=0
# expect CASE TEXT: what rank 0 prints holds the text.
expect() {
  found=$(mpirun --oversubscribe -n 2 "$1" "$2" 2>/dev/null)
  case "$found" in
    *"$3"*) ;;
    *) echo "$2: found \`$found\`, expected \`$3\`"; failures=$((failures + 1)) ;;
  esac
}
expect "$1" short "numbers: rank 1 sent 8 bytes, rank 0 expected 16"
expect "$1" long "numbers: rank 0 lost rank 1"
expect "$1" group "2 1"
expect "$1" gone "given up 7, received 5"
expect "$1" many "all arrived"

# A rank whose processes have numbers of their own, as in a container: at the end none is taken for a process of the
# same number outside. No wait for it, so nothing is said.
if unshare --pid --fork --mount-proc true 2>/dev/null; then
  said=$(mpirun --oversubscribe -n 1 "$1" many : -n 1 unshare --pid --fork --mount-proc "$1" many 2>&1)
  status=$?
  if [ "$status" != 0 ] || [ "$said" != "all arrived" ]; then
    echo "numbers of its own: found \`$said\` and status $status, expected \`all arrived\` and 0"
    failures=$((failures + 1))
  fi
fi
[ "$failures" = 0 ]
