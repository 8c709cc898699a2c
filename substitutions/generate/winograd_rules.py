#!/usr/bin/env python3
"""Winograd's minimal filtering algorithms F(m, r) as rules, from their points (docs/winograd.md).

    substitutions/generate/winograd_rules.py > winograd.rules
    rewright verify winograd.rules --rule-limit 600 -o substitutions/rules/winograd.rules

m outputs of a correlation with r taps are y = A ((G g) * (B d)) with a = m + r - 1 products. From a - 1 points p and
infinity (Toom and Cook, transposed):

    A[i][j] = p_j^i, and 1 at the last row of the last column
    G[j][k] = p_j^k / f_j with f_j = prod l != j: (p_j - p_l); the last row is 1 at its end
    B[j]    = the coefficients of prod l != j: (x - p_l); the last row those of prod l: (x - p_l)
"""

from fractions import Fraction

# By the number of finite points. Pairs p, -p share half of the work; magnitudes near one keep rounding errors small.
# backends/cpu/winograd/matrices.h has the same.
POINTS = {3: "0 1 -1", 5: "0 3/4 -3/4 3/2 -3/2", 7: "0 1 -1 2 -2 1/2 -1/2",
          9: "0 1/2 -1/2 7/8 -7/8 9/8 -9/8 2 -2", 11: "0 3/8 -3/8 3/4 -3/4 1 -1 3/2 -3/2 9/4 -9/4"}

# Outputs of a tile and taps, down and right.
ALGORITHMS = ([(m, 3, m, 3) for m in (2, 4, 6)] + [(m, 5, m, 5) for m in (2, 4)] +
              [(1, 1, m, r) for r, ms in ((3, (2, 4, 6)), (5, (2, 4)), (7, (2, 4, 6))) for m in ms] +
              [(m, r, 1, 1) for r, ms in ((3, (2, 4, 6)), (5, (2, 4)), (7, (2, 4, 6))) for m in ms])


def matrices(m, r):
    a = m + r - 1
    points = [Fraction(p) for p in POINTS[a - 1].split()]
    out = [[points[j]**i if j < a - 1 else Fraction(i == m - 1) for j in range(a)] for i in range(m)]
    kernel, data = [], []
    for j in range(a):
        others = [p for l, p in enumerate(points) if l != j]
        f = Fraction(1)
        coefficients = [Fraction(1)]
        for p in others:
            if j < a - 1:
                f *= points[j] - p
            shifted = [Fraction(0)] + coefficients
            coefficients = [s - p * c for s, c in zip(shifted, coefficients + [Fraction(0)])]
        data.append(coefficients + [Fraction(0)] * (a - len(coefficients)))
        kernel.append([points[j]**k / f if j < a - 1 else Fraction(k == r - 1) for k in range(r)])
    return out, kernel, data


def number(q):
    return str(q.numerator) if q.denominator == 1 else f"{q.numerator} / {q.denominator}"


def literal(matrix):
    return "[" + ", ".join("[" + ", ".join(map(number, row)) + "]" for row in matrix) + "]"


def ints(items):
    return "[" + ", ".join(map(str, items)) + "]"


def plus(text, number):
    return text if number == 0 else f"{text} + {number}" if number > 0 else f"{text} - {-number}"


class Axis:
    """One direction of the images: its name, extent, padding, and F(m, r)."""

    def __init__(self, name, size, before, after, m, r):
        self.name, self.before, self.m, self.r, self.a = name, before, m, r, m + r - 1
        self.plain = r == 1
        inside = f"{size} + {before} + {after}"
        self.tiles = inside if self.plain else f"({plus(inside, m - r)}) div {m}"
        self.padded = inside if self.plain else f"{m} * ({self.tiles}) + {r - 1}"
        self.end = after if self.plain else f"{self.padded} - {size} - {before}"
        self.out = plus(inside, 1 - r)
        if not self.plain:
            self.A, self.G, self.B = matrices(m, r)

    def let(self, matrix):
        return f"{matrix}{self.name}"


def rule(mh, rh, mw, rw):
    rows, columns = Axis("h", "h", "?top", "?bottom", mh, rh), Axis("w", "w", "?left", "?right", mw, rw)
    axes = [axis for axis in (rows, columns) if not axis.plain]
    shared = len(axes) == 2 and mh == mw and rh == rw
    lets = []

    def let(name, term):
        lets.append(f"let {name} = {term} in")
        return name

    for axis in axes[:1] if shared else axes:
        for name in "AGB":
            let(name if shared or len(axes) == 1 else axis.let(name), literal(getattr(axis, name)))
    # The windows of every tile: axes in front, the last one first.
    last = let("p", f"pad(x, before=[0, 0, ?top, ?left], after=[0, 0, {rows.end}, {columns.end}])")
    sizes = {2: rows.padded, 3: columns.padded}
    front = []
    for place, axis in ((2, rows), (3, columns)):
        if axis.plain:
            continue
        lead = len(front)
        steps = [1] * (lead + 4)
        steps[lead + place] = axis.m
        parts = []
        for j in range(axis.a):
            starts = [0] * (lead + 4)
            starts[lead + place] = j
            stops = front + ["n", "c", sizes[2], sizes[3]]
            stops[lead + place] = plus(f"{axis.m} * ({axis.tiles})", j + 1 - axis.m)
            shape = front + ["n", "c", sizes[2], sizes[3]]
            shape[lead + place] = axis.tiles
            parts.append(f"expand(slice({last}, starts={ints(starts)}, stops={ints(stops)}, steps={ints(steps)}), "
                         f"shape={ints([1] + shape)})")
        sizes[place] = axis.tiles
        front = [axis.a] + front
        last = let("d" + axis.name, "concat(" + ", ".join(parts) + ", axis=0)")
    # B from both sides; the axes come out in the order down, right.
    kernel = "k"
    if len(axes) == 2:
        first = let("v", f"dot_general(B, {last}, lhs_contracting=[1], rhs_contracting=[0])")
        data = let("V", f"dot_general(B, {first}, lhs_contracting=[1], rhs_contracting=[1])")
        first = let("u", "dot_general(G, k, lhs_contracting=[1], rhs_contracting=[3])")
        kernel = let("U", f"dot_general(G, {first}, lhs_contracting=[1], rhs_contracting=[3])")
        products = let("M", f"dot_general({kernel}, {data}, lhs_batch=[0, 1], rhs_batch=[0, 1], lhs_contracting=[3], "
                            "rhs_contracting=[3])")
        first = let("y", f"dot_general(A, {products}, lhs_contracting=[1], rhs_contracting=[0])")
        outputs = let("Y", f"dot_general(A, {first}, lhs_contracting=[1], rhs_contracting=[1])")
    else:
        axis = axes[0]
        data = let("V", f"dot_general(B, {last}, lhs_contracting=[1], rhs_contracting=[0])")
        taps = let("g", f"reshape(k, shape=[o, c, {axis.r}])")
        kernel = let("U", f"dot_general(G, {taps}, lhs_contracting=[1], rhs_contracting=[2])")
        products = let("M", f"dot_general({kernel}, {data}, lhs_batch=[0], rhs_batch=[0], lhs_contracting=[2], "
                            "rhs_contracting=[2])")
        outputs = let("Y", f"dot_general(A, {products}, lhs_contracting=[1], rhs_contracting=[0])")
    # Outputs side by side: what is `m` apart in the result lies along the leading axes.
    lead = len(axes)
    tiles = {2: rows.tiles, 3: columns.tiles}
    last = outputs
    for place, axis in ((3, columns), (2, rows)):
        if axis.plain:
            continue
        lead -= 1
        behind = [rows.m][:lead] + ["o", "n", tiles[2], tiles[3]]
        total = ""
        for i in range(axis.m):
            rank = lead + 5
            part = (f"reduce_sum(slice({last}, starts={ints([i] + [0] * (rank - 1))}, stops={ints([i + 1] + behind)}), "
                    "axes=[0], keepdims=0)")
            before, after, interior = [0] * (rank - 1), [0] * (rank - 1), [0] * (rank - 1)
            before[lead + place], after[lead + place], interior[lead + place] = i, axis.m - 1 - i, axis.m - 1
            spread = f"pad({part}, before={ints(before)}, after={ints(after)}, interior={ints(interior)})"
            total = spread if i == 0 else f"add({total}, {spread})"
        tiles[place] = f"{axis.m} * ({axis.tiles})"
        last = let("z" + axis.name, total)
    return (f"# F({mh}x{mw}, {rh}x{rw})\nrule conv-winograd-{mh}x{mw}-{rh}x{rw}\n"
            f"  conv2d(x[n, c, h, w], k[o, c, {rh}, {rw}], pads=[?top, ?left, ?bottom, ?right])\n  => " +
            "\n     ".join(lets) +
            f"\n     slice(transpose({last}, perm=[1, 0, 2, 3]), starts=[0, 0, 0, 0], "
            f"stops=[n, o, {rows.out}, {columns.out}])\n")


if __name__ == "__main__":
    print("# Convolutions by Winograd's minimal filtering algorithms F(m, r): what allows the kernels of the CPU device\n"
          "# that compute them (docs/winograd.md). Made by substitutions/generate/winograd_rules.py, proved by\n"
          "# rewright verify --rule-limit 600.\n")
    print("\n".join(rule(*algorithm) for algorithm in ALGORITHMS), end="")
