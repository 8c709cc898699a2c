#!/usr/bin/env python3
"""Rewrites of XLA that false.rules refutes, shown in JAX: operator by operator, and compiled as one function.

    python bench/proofs/xla_faults.py [--out bench/results/xla_faults.csv]

One operator by itself leaves XLA's simplifier nothing to rewrite. Fails, with status 1, where all functions agree: then
the installed XLA has none of the faults any more. Wants jax.
"""
import argparse
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
from jax import lax, numpy as jnp  # noqa: E402
from jax.numpy import abs as absolute, array, int32, uint32  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

ROW = jnp.arange(4.0)


def update_within_window(x, y, i, j):
    return lax.dynamic_update_slice(x, lax.dynamic_update_slice(lax.dynamic_slice(x, (i,), (2,)), y, (j,)), (i,))


# Rule, function, operands.
SHOWN = [
    ("xla-abs-of-square-of-integers", lambda x: absolute(x * x), [array([46341])]),
    ("xla-square-less-zero-of-integers", lambda x: x * x < 0, [array([46341])]),
    ("xla-abs-less-zero-of-integers", lambda x: absolute(x) < 0, [array([-2147483648])]),
    ("xla-abs-greater-equal-zero-of-integers", lambda x: absolute(x) >= 0, [array([-2147483648])]),
    ("xla-max-of-clamp", lambda low, x, high: jnp.maximum(low, lax.clamp(low, x, high)),
     [array(2.0), array(-1.0), array(-3.0)]),
    ("xla-window-of-window-as-released",
     lambda x, i, j: lax.dynamic_slice(lax.dynamic_slice(x, (i,), (2,)), (j,), (1,)), [ROW, int32(3), int32(0)]),
    ("xla-update-within-window-as-released", update_within_window, [ROW, array([9.0]), uint32(3), uint32(0)]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out")
    flags = parser.parse_args()
    rows = []
    for rule, function, operands in SHOWN:
        with jax.disable_jit():
            apart = function(*operands).tolist()
        rows.append({"rule": rule, "operands": "; ".join(str(x.tolist()) for x in operands), "by operators": apart,
                     "compiled": jax.jit(function)(*operands).tolist()})
        print(*rows[-1].values(), sep=" | ")
    if flags.out:
        write_table(flags.out, f"jax {jax.__version__}, jaxlib {jax.lib.__version__}; {machine()}", rows)
    return 0 if any(row["by operators"] != row["compiled"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
