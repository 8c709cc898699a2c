#!/usr/bin/env bash
# Completes command lines in bash, and in zsh and fish where they are; reads the manual page by man.
# Usage: completion.sh REWRIGHT
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "completion.sh: $*" >&2; exit 1; }

eval "$("$program" completion bash)"
completes() {  # WANTED WORD... : the last word is under way
  local wanted=$1
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _rewright || true  # it is false where nothing completes
  [[ " ${COMPREPLY[*]} " == *" $wanted "* ]] || fail "$*: found ${COMPREPLY[*]}, expected $wanted among them"
}
completes optimize rewright opt
completes --disable-rule rewright optimize --dis
completes greedy rewright optimize m.onnx --search g
completes fish rewright completion f
cd "$folder"
touch model.onnx
completes model.onnx rewright optimize mod
completes model.onnx rewright optimize -o m
# Every verb and every flag of the help is there, and nothing else.
for verb in $("$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  [ "$verb" = completion ] || completes "$verb" rewright "$verb"
  for flag in $("$program" "$verb" --help 2>/dev/null | sed -n 's/^  \(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p'); do
    completes "$flag" rewright "$verb" "$flag"
  done
done
COMP_WORDS=(rewright verify --tolerance) COMP_CWORD=2 COMPREPLY=()
_rewright || true
[ ${#COMPREPLY[@]} -eq 0 ] || fail "verify completes a flag of optimize"

if command -v zsh >/dev/null; then
  "$program" completion zsh >"$folder/_rewright"
  zsh -n "$folder/_rewright"
fi
if command -v fish >/dev/null; then
  "$program" completion fish >"$folder/rewright.fish"
  fish -c "source $folder/rewright.fish; complete -C 'rewright optimize --search g'" | grep -q greedy ||
    fail "fish does not complete a choice"
fi
if "$program" completion tcsh 2>"$folder/err"; then fail "there is a completion for tcsh"; fi
grep -q 'expected one of bash, zsh, fish' "$folder/err" || fail "$(cat "$folder/err")"

"$program" --man >"$folder/rewright.1"
grep -q '^\.SS optimize$' "$folder/rewright.1" || fail "the manual page has no optimize"
if command -v groff >/dev/null; then
  groff -man -Tascii -P-cbou -ww "$folder/rewright.1" >"$folder/page" 2>"$folder/err"
  [ ! -s "$folder/err" ] || fail "groff: $(head -3 "$folder/err")"
  grep -q -e '--disable-rule' "$folder/page" || fail "the page shows no flags"
fi
