#!/usr/bin/env bash
# Makes the rule sets of the generator: FOLDER/SET.rules of all sets in substitutions/generate/sets.txt, or of those
# named, each rule with the record of its proof. A set that is newer than the program stays. A run that was interrupted
# goes on where it was (docs/decisions/126).
# Usage: tools/make_rule_sets.sh [--figures] [--check] PROGRAM FOLDER [SET..]
#   --figures  also holds numbers of rules and digests of laws against substitutions/generate/sets.txt
#   --check    also writes certificates of all proofs and has `rewright check` derive them again
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
table=$tree/substitutions/generate/sets.txt
figures=false check=false
while [[ ${1:-} == --* ]]; do
  case $1 in
    --figures) figures=true ;;
    --check) check=true ;;
    *) echo "make_rule_sets.sh: found $1, expected --figures or --check" >&2; exit 2 ;;
  esac
  shift
done
[ $# -ge 2 ] || { echo "make_rule_sets.sh: expected PROGRAM FOLDER [SET..]" >&2; exit 2; }
program=$(realpath "$1") folder=$(realpath -m "$2")
shift 2
mapfile -t sets < <(sed -n 's/^\([a-z][a-z-]*\) .*/\1/p' "$table")
combined=${sets[-1]}  # the last is made of the others
wanted=("${sets[@]}")
[ $# -eq 0 ] || wanted=("$@")
mkdir -p "$folder"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# The journals belong to one program: another one may search other spaces.
journals=$folder/unfinished-$(sha256sum "$program" | cut -c1-16)
for other in "$folder"/unfinished-*; do
  [ "$other" = "$journals" ] || rm -rf "$other"
done

failed() {
  cat "$temporary/log"
  echo "make_rule_sets.sh: $1 is not made" >&2
  exit 1
}

made() { [ "$folder/$1.rules" -nt "$program" ]; }

make_set() {
  local name=$1 parts=() part how
  if made "$name"; then return; fi
  if [ "$name" = "$combined" ]; then
    for part in "${sets[@]}"; do
      [ "$part" = "$combined" ] || { make_set "$part"; parts+=("$folder/$part.rules"); }
    done
    how=(--base "$tree"/substitutions/rules/{core,laws}.rules --combine "${parts[@]}")
  elif [ "$name" = definitions ]; then  # searches nothing that could be resumed
    how=(--preset "$name")
  else
    how=(--preset "$name" --resume "$journals/$name")
  fi
  mkdir -p "$journals"
  "$program" generate "${how[@]}" -o "$journals/$name.rules" --quiet >"$temporary/log" || failed "$name"
  mv "$journals/$name.rules" "$folder/$name.rules"
  rm -rf "${journals:?}/$name"
  echo "$name: $(tail -1 "$temporary/log")"
}

# A row of the table: the digest is of names and laws, not of what the prover records of them.
row() {
  local file=$folder/$1.rules
  echo "$1 $(grep -c '^rule ' "$file") $(grep -v '^#\|^  proved ' "$file" | sha256sum | cut -c1-16)"
}

for name in "${wanted[@]}"; do
  [[ " ${sets[*]} " == *" $name "* ]] || { echo "make_rule_sets.sh: found $name, expected one of: ${sets[*]}" >&2; exit 2; }
  make_set "$name"
done
[ ! -d "$journals" ] || rmdir --ignore-fail-on-non-empty "$journals"

status=0
for name in "${wanted[@]}"; do
  if $figures && ! grep -qxF "$(row "$name")" "$table"; then
    echo "$name: found other rules than $table says; found: $(row "$name"), expected: $(grep "^$name " "$table")"
    status=1
  fi
  if $check; then
    "$program" verify "$folder/$name.rules" --certificates "$temporary/$name" --quiet >"$temporary/log" &&
      "$program" check "$temporary/$name" --rules "$folder/$name.rules" --quiet >"$temporary/log" || status=1
    rm -rf "${temporary:?}/$name"
    echo "$name: $(grep certificates "$temporary/log" || tail -1 "$temporary/log")"
  fi
done
exit $status
