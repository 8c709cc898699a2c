#!/usr/bin/env bash
# The program without the prover accepts the certificates that `rewright verify` writes, and refuses altered ones.
# Usage: rewright_check.sh REWRIGHT REWRIGHT_CHECK SOURCES. With REWRIGHT_FULL=1: all rules of core.rules.
set -eu
rewright=$1 check=$2 sources=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > some.rules <<'RULES'
rule merge { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }
  => split(matmul(x, concat(y, z, axis=1)), axis=len(b) + 1, sizes=[n1, n2])
rule again reshape(reshape(x[m, n], shape=[m * n]), shape=[m, n]) => x
rule twice relu(relu(x)) => relu(x)
rule halves reduce_max(concat(x[m, k], y[m, l], axis=1), axes=[1])
  => max(reduce_max(x, axes=[1]), reduce_max(y, axes=[1]))
rule sums add(matmul(x[m, k], y[k, n]), matmul(z[m, l], w[l, n]))
  => matmul(concat(x, z, axis=1), concat(y, w, axis=0))
# The sizes p and q are quotients of other sizes; a reduction binds nothing.
rule quotients add(avg_pool2d(x[n, c, h, w], kernel=[?r, ?s], strides=[?a, ?b]), y[n, c, p, q])
  => add(y, avg_pool2d(x, kernel=[?r, ?s], strides=[?a, ?b]))
rule nothing reduce_max(x[n], axes=[], keepdims=0) => x
RULES
rules=some.rules
[ "${REWRIGHT_FULL:-0}" = 1 ] && rules=$sources/substitutions/rules/core.rules
"$rewright" verify "$rules" --certificates proofs --quiet > verified.txt
"$check" proofs > checked.txt || { cat checked.txt; exit 1; }
grep -q ", 0 refused; " checked.txt
grep -q "open: none" checked.txt

expect_refusal() {
  if "$check" proofs > refused.txt; then
    echo "an altered certificate is accepted: $1"
    exit 1
  fi
  grep -q "^refused  .*found .*expected " refused.txt || { cat refused.txt; exit 1; }
}
file=$(find proofs -name '*.cert' | sort | head -1)
cp "$file" kept
sed -i '0,/^zero /{/^zero /d}' "$file"
expect_refusal "a step is left out"
sed '1s/3/2/' kept > "$file"
expect_refusal "another format"
cp kept "$file"
"$check" proofs > /dev/null

# Nothing of the prover is linked.
if nm -C "$check" 2>/dev/null | grep -E " [tT] rewright::(Prove|ProveRule|ReplayProof|ClassifyRule|OperatorsOf)\(" ; then
  echo "the program has parts of the prover"
  exit 1
fi
