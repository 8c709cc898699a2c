#!/usr/bin/env bash
# Proves again the rules of all rule files that people wrote whose records are stale, after a change of the prover, of an
# operator or of a rule (docs/decisions/068); the generator's sets are made anew (tools/make_rule_sets.sh). Flags go to `rewright verify`, such as --threads 2.
# Usage: tools/renew_rules.sh [PROGRAM] [FLAG..]
set -eu
cd "$(dirname "$0")/.."
program=build/release/rewright
case "${1:-}" in "" | -*) ;; *) program=$1; shift ;; esac
# A rule that stands in several files is proved once.
journal=$(mktemp)
trap 'rm -f "$journal"' EXIT
failed=0
for file in substitutions/rules/*.rules substitutions/baseline/*.rules; do
  printf '%s: ' "$file"
  # Records say how far the proofs went in that time.
  case "$file" in */winograd.rules) limit=600 ;; *) limit=60 ;; esac
  out=$("$program" verify "$file" --renew -o "$file" --resume "$journal" --rule-limit "$limit" --quiet "$@") || failed=1
  # Rules that lost their proof, and what the file came to.
  grep -E '^(refuted|unknown)|^[0-9]+ rules?:' <<<"$out" || { printf '%s\n' "$out"; failed=1; }
done
exit $failed
