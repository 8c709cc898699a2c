#!/usr/bin/env bash
# Fails on an #include against the arrows between the folders (docs/architecture.md, "Rooms").
# Usage: arrows.sh ROOT
set -u
cd "$1" || exit 2

# The lines of the block `rooms`: "folder: folders it may include", itself apart.
arrows=$(sed -n '/^```rooms$/,/^```$/{/^```/d;p}' docs/architecture.md)
[ -n "$arrows" ] || { echo "docs/architecture.md has no block of rooms"; exit 1; }
arrows=${arrows//CORE/core/base core/tensor core/ir core/device core/index core/lift core/adjoint core/ops core/interpreter}
# The longest folder of the table that contains a path.
room_of() {
  local best="" folder
  while IFS=: read -r folder _; do
    [ -n "$folder" ] || continue
    case "$1" in "$folder"/*) [ ${#folder} -gt ${#best} ] && best=$folder ;; esac
  done <<<"$arrows"
  printf '%s' "$best"
}

failures=0
checked=0
above=" "
while IFS=: read -r folder allowed; do
  for to in $allowed; do
    case "$above" in
      *" $to "*) ;;
      *) echo "docs/architecture.md: $folder may include $to, which does not stand above it"; failures=$((failures + 1)) ;;
    esac
  done
  above="$above$folder "
done <<<"$arrows"
while IFS= read -r file; do
  from=$(room_of "$file")
  [ -n "$from" ] || continue
  allowed=" $from $(sed -n "s|^$from:||p" <<<"$arrows") "
  while IFS= read -r included; do
    to=$(room_of "$included")
    [ -n "$to" ] || continue
    checked=$((checked + 1))
    case "$allowed" in
      *" $to "*) ;;
      *) echo "$file includes $included: $from may not include $to"; failures=$((failures + 1)) ;;
    esac
  done < <(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file")
  if grep -q 'include *[<"]z3' "$file" && [[ "$from" != verifier* ]]; then
    echo "$file includes Z3: only verifier/ may"
    failures=$((failures + 1))
  fi
  if grep -qE 'include *[<"](google/protobuf|onnx/)' "$file" && [ "$from" != core/onnx ]; then
    echo "$file includes protobuf: only core/onnx/ may"
    failures=$((failures + 1))
  fi
  if grep -q 'include *[<"].*\.pb\.h' "$file" && [ "$from" != core/onnx ] && [ "$from" != substitutions/taso ]; then
    echo "$file includes messages of protobuf: only core/onnx/ and substitutions/taso/ may"
    failures=$((failures + 1))
  fi
done < <(find core substitutions verifier search backends runtime bench/zoo tools -name '*.h' -o -name '*.cc' 2>/dev/null | sort)
[ "$checked" -gt 0 ] || { echo "no includes were checked"; exit 1; }
echo "$checked includes checked, $failures against the arrows"
[ "$failures" -eq 0 ]
