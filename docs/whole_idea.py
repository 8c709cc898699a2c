#!/usr/bin/env python3
"""The whole idea of Rewright from nothing: declarations, an interpreter, proofs, gradients and sharding laws.

Usage: whole_idea.py [--check PAGE]     --check: the page must have this output, and the files it names must exist
"""
import collections, dataclasses, functools, itertools, operator, pathlib, random, re, subprocess, sys
try:
    import numpy, z3
except ImportError as missing:
    print(f"skipped: {missing} (Debian has python3-numpy and python3-z3, PyPI has numpy and z3-solver)")
    sys.exit(77)
if sys.argv[1:] and (sys.argv[1] != "--check" or len(sys.argv) != 3):
    sys.exit(__doc__)
if sys.argv[1:]:
    page, root = pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(__file__).resolve().parent.parent
    child = subprocess.run([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    faults = [f"there is no {name}" for name in re.findall(r"`([\w./]+/[\w.]*)`", page) if not (root / name).exists()]
    faults += [] if f"```\n{child.stdout}```" in page else [f"the page lacks this output:\n{child.stdout}"]
    sys.exit(child.returncode or "\n".join(faults) or 0)

# 1. Expressions: an operation and its arguments. Python's numbers stand for themselves. There are three sorts:
#   index expressions    integers: sizes such as m, positions such as i0, and + - * // of them (// rounds down)
#   conditions           < <= == of index expressions
#   element expressions  real numbers: reads of tensors; + - * and functions of them; [condition] e, which is 0 where
#                        the condition fails; sums over an index variable from 0 to below a size
# A size is a symbol. It has no value when an expression is made, so an expression speaks of every size.
@dataclasses.dataclass(frozen=True)
class E:
    op: str      # arguments of var: a name; of read: tensor, shape, indices; of sum: variable, size, body;
    args: tuple  # of where: condition, expression; of all others: expressions
    def __sub__(self, other): return self + -1 * other
    def __rsub__(self, other): return other + -1 * self
    def __str__(self):
        args = [", ".join(map(str, x)) if isinstance(x, tuple) else str(x) for x in self.args]
        form = {"var": "{}", "read": "{0}[{2}]", "sum": "sum {} < {}: {}", "where": "[{}] {}", "relu": "relu({})"}
        return form.get(self.op, "({} %s {})" % self.op).format(*args)

for names, op in ("add radd", "+"), ("mul rmul", "*"), ("floordiv rfloordiv", "//"), ("lt gt", "<"), ("le ge", "<="):
    for method, order in zip(names.split(), (1, -1)):  # the second has its operands the other way round
        setattr(E, f"__{method}__", lambda *args, op=op, order=order: make(op, *args[::order]))
def make(op, *args):
    """Makes an expression. Integers in sums and products fold; 0 and 1 disappear from them."""
    if op in "+*" and any(isinstance(x, int) for x in args):
        p, q = sorted(args, key=lambda x: not isinstance(x, int))  # an integer stands first
        if isinstance(q, int): return FUNCTIONS[op](p, q)
        if p == "+*".index(op): return q
        if op == q.op == "*" and isinstance(q.args[0], int): return p * q.args[0] * q.args[1]
        return 0 if op == "*" and p == 0 else E(op, (p, q))
    return E(op, args)

def var(name): return E("var", (name,))
def same(p, q): return make("==", p, q)
def inside(i, size): return (0 <= i, i < size)
def bracket(conditions, e): return functools.reduce(lambda x, condition: make("where", condition, x), conditions, e)
def fresh(counter=itertools.count()): return var(f"v{next(counter)}")  # no two sums share the name of their variable

def total(sizes, body):
    """The sum of body(i, j, ..) over all i, j, .. below the sizes."""
    variables = [fresh() for _ in sizes]
    return functools.reduce(lambda e, v: make("sum", *v[0].args, v[1], e), zip(variables, sizes), body(*variables))

def put(e, values):
    """The expression, or tuple of them, with other expressions in the places of variables."""
    if isinstance(e, tuple): return tuple(put(x, values) for x in e)
    if not isinstance(e, E): return e
    return values.get(e.args[0], e) if e.op == "var" else make(e.op, *put(e.args, values))
def find(e, op):
    """The arguments of all operations of that kind in an expression or a tuple."""
    if isinstance(e, E) and e.op == op: yield e.args
    for x in e.args if isinstance(e, E) else e if isinstance(e, tuple) else (): yield from find(x, op)

# 2. Operators: each is declared once, as a function of tensors. A tensor is its shape, its element at a position, and
# conditions that it needs to be well formed. Nothing behind this section knows an operator by name.
@dataclasses.dataclass
class Tensor:
    shape: tuple
    element: object  # a function of positions
    needs: tuple = ()
    def __getitem__(self, at): return self.element(*at)

def leaf(name, *shape): return Tensor(shape, lambda *i: make("read", name, shape, i))
def change(i, axis, e): return i[:axis] + (e,) + i[axis + 1:]
def transpose(x): return Tensor(x.shape[::-1], lambda *i: x[i[::-1]], x.needs)
def add(x, y): return Tensor(x.shape, lambda *i: x[i] + y[i], x.needs + y.needs + tuple(map(same, x.shape, y.shape)))
def relu(x): return Tensor(x.shape, lambda *i: make("relu", x[i]), x.needs)
def matmul(a, b):
    return Tensor((a.shape[0], b.shape[1]), lambda i, j: total(a.shape[1:], lambda k: a[i, k] * b[k, j]),
                  a.needs + b.needs + (same(a.shape[1], b.shape[0]),))
def concat(x, y, axis):
    n, both = x.shape[axis], zip(x.shape[:axis] + x.shape[axis + 1:], y.shape[:axis] + y.shape[axis + 1:])
    return Tensor(change(x.shape, axis, n + y.shape[axis]),
                  lambda *i: bracket([i[axis] < n], x[i]) + bracket([n <= i[axis]], y[change(i, axis, i[axis] - n)]),
                  x.needs + y.needs + tuple(same(p, q) for p, q in both))

# 3. The interpreter: it computes any expression at given sizes and arrays, in the plainest way. The comparison with
# NumPy shows that the declarations mean what their names promise.
FUNCTIONS = {"+": operator.add, "*": operator.mul, "//": operator.floordiv, "<": operator.lt, "<=": operator.le,
             "==": operator.eq, "relu": lambda x: max(x, 0), "step": lambda x: int(x > 0)}

def value(e, env):
    if not isinstance(e, E): return e
    if e.op == "var": return env[e.args[0]]
    if e.op == "sum":
        return sum(value(e.args[2], {**env, e.args[0]: i}) for i in range(value(e.args[1], env)))
    if e.op == "where": return value(e.args[1], env) if value(e.args[0], env) else 0
    if e.op != "read": return FUNCTIONS[e.op](*(value(x, env) for x in e.args))
    at = tuple(value(i, env) for i in e.args[2])
    assert all(0 <= i < n for i, n in zip(at, env[e.args[0]].shape)), f"{e} reads outside of its tensor"
    return env[e.args[0]][at]
def places(x): return tuple(var(f"i{axis}") for axis in range(len(x.shape)))
def run(x, env):
    element, shape = x[places(x)], [value(n, env) for n in x.shape]
    return numpy.array([value(element, {**env, **{f"i{axis}": i for axis, i in enumerate(at)}})
                        for at in numpy.ndindex(*shape)]).reshape(shape)
def symbols(*tensors):
    """The names of all sizes, and the operands with their shapes."""
    reads = {name: shape for x in tensors for name, shape, _ in find(x[places(x)], "read")}
    return sorted({name for x in tensors for name, in find((x.shape, x.needs, *reads.values()), "var")}), reads
def sample(sizes, reads, bound, draw=random.Random(1).random):
    """The sizes, and arrays of integers from -bound to bound for the operands."""
    number = numpy.vectorize(lambda _: int(draw() * (2 * bound + 1)) - bound, otypes=[int])
    return sizes | {name: number(numpy.zeros([value(n, sizes) for n in shape])) for name, shape in reads.items()}

k, m, n, n1, n2, k1, k2, d = map(var, "k m n n1 n2 k1 k2 d".split())
a, b, g, h = leaf("a", m, k), leaf("b", k, n), leaf("g", m, n), leaf("h", m, n)
y, z, p, q, e, f, s = (leaf(*x) for x in zip("yzpqefs", (k, k, m, m, k1, k2, n), (n1, n2, k1, k2, n, n, n)))
print("Declarations, computed beside NumPy at 5 sizes:")
for name, x, expected in (
        ("transpose", transpose(a), lambda t: t["a"].T), ("matmul", matmul(a, b), lambda t: t["a"] @ t["b"]),
        ("add", add(g, h), lambda t: t["g"] + t["h"]), ("relu", relu(a), lambda t: numpy.maximum(t["a"], 0)),
        ("concat", concat(y, z, 1), lambda t: numpy.concatenate([t["y"], t["z"]], 1))):
    for size in range(1, 6):
        env = sample({name: (size * 3 + i) % 5 + 1 for i, name in enumerate(symbols(x)[0])}, symbols(x)[1], 9)
        assert numpy.array_equal(run(x, env), expected(env)), name
    print(f"  {name:9} [{', '.join(map(str, x.shape))}]:", re.sub(r"\bv\d+", "v", str(x[places(x)])))

# 4. The prover: it turns both sides of a rule into normal forms, and leaves all questions about integers to Z3.
def follows(facts, goal):
    """True if Z3 proves that the facts imply the goal, whatever integers the variables are."""
    solver = z3.Solver()
    solver.set("rlimit", 20_000_000)  # a limit of work, not of time
    def encode(e):
        if not isinstance(e, E): return z3.BoolVal(e) if isinstance(e, bool) else z3.IntVal(e)
        if e.op == "var": return z3.Int(e.args[0])
        p, q = map(encode, e.args)
        if e.op == "where": return z3.If(p, q, 0)
        if e.op != "//": return FUNCTIONS[e.op](p, q)
        quotient = z3.Int(str(e))
        solver.add(z3.Implies(q > 0, z3.And(quotient * q <= p, p < quotient * q + q)))
        return quotient
    solver.add(*map(encode, facts), z3.Not(encode(goal)))
    return solver.check() == z3.unsat
def legal(e, facts):
    """True if all reads are proved to lie inside their tensors, under the conditions around them."""
    if isinstance(e, E) and e.op in ("sum", "where"):
        return legal(e.args[-1], facts + (inside(var(e.args[0]), e.args[1]) if e.op == "sum" else e.args[:1]))
    if isinstance(e, E) and e.op == "read":
        return all(follows(facts, limit) for i, size in zip(e.args[2], e.args[1]) for limit in inside(i, size))
    return not isinstance(e, E) or all(legal(x, facts) for x in e.args)
assert legal(a[m - 1, 0], (0 < m, 0 < k)) and not legal(a[m, 0], (0 < m, 0 < k))

# A term is a coefficient times the sum, over all integers in the places of its variables for which its guard holds, of
# the product of its atoms: reads and functions. A normal form is a sum of terms. Ranges and conditions become guards.
Term = collections.namedtuple("Term", "coef names guard atoms")
def normal(e, facts):
    if not isinstance(e, E): return [Term(e, (), (), ())]
    if e.op == "+": return normal(e.args[0], facts) + normal(e.args[1], facts)
    if e.op == "*":
        return [Term(t.coef * u.coef, *(p + q for p, q in zip(t[1:], u[1:])))
                for t in normal(e.args[0], facts) for u in normal(e.args[1], facts)]
    if e.op == "where": return [t._replace(guard=t.guard + e.args[:1]) for t in normal(e.args[1], facts)]
    if e.op != "sum": return [Term(1, (), (), (e,))]
    v = fresh()
    return [tidy(Term(t.coef, t.names + v.args, t.guard + inside(v, e.args[1]), t.atoms), facts)
            for t in normal(put(e.args[2], {e.args[0]: v}), facts)]

def linear(e, name):
    """c and r without the variable: e = c * name + r, if e is linear in it; else they are worth nothing."""
    if e == var(name): return 1, 0
    if (name,) not in find(e, "var"): return 0, e
    (c, r), (p, s) = (linear(x, name) for x in e.args) if e.op in "+*" else ((0, 0),) * 2
    return (c + p, r + s) if e.op == "+" else (c * s + p * r, r * s)

def tidy(t, facts):
    """The same sum with fewer variables, or with simpler indices."""
    def changed(names, name, e): return tidy(Term(t.coef, names, *put((t.guard, t.atoms), {name: e})), facts)
    for name in t.names:
        for e in t.guard:  # The guard suggests a value. If Z3 proves that the guard allows no other, the variable goes.
            c, r = linear(e.args[0] - e.args[1], name) if isinstance(e, E) else (0, 0)
            only = (-1 * c * r if isinstance(c, int) else (-1 * r) // c) if c else None
            if c and (e.op == "==" or not isinstance(c, int)) and follows(facts + t.guard, same(var(name), only)):
                return changed(tuple(x for x in t.names if x != name), name, only)
        indices = (linear(i, name) for atom in t.atoms if atom.op == "read" for i in atom.args[2])
        c, r = next((pair for pair in indices if pair[0] in (1, -1)), (1, 0))
        if c == -1 or not follows((), same(r, 0)):  # An index v + r becomes v: v - r takes all integers, as v does.
            return changed(t.names, name, c * (var(name) - r))
    return t
assert tidy(Term(1, ("v",), (var("v") * k <= n,), ()), ()).names == ("v",)  # such a guard determines nothing

# Terms of both sides with equal atoms form a class; names of variables and the order of factors do not matter. The
# sides are equal if in every class the coefficients of the terms whose guards hold add up to 0. This is one question
# to Z3 for a class: Z3 distinguishes the cases of sizes and positions.
def equal_atoms(p, q, facts):
    if p.op != "read": return p.op == q.op and equal(p.args[0], q.args[0], facts)
    return p.args[:1] == q.args[:1] and all(follows(facts, same(i, j)) for i, j in zip(p.args[2], q.args[2]))
def renamed(t, first, facts):
    """The guards of a term in the variables of another, such that its atoms are equal wherever the guard holds."""
    for names in itertools.permutations(map(var, first.names)) if len(t.names) == len(first.names) else ():
        guard, atoms = put((t.guard, t.atoms), dict(zip(t.names, names)))
        for order in itertools.permutations(atoms) if len(atoms) == len(first.atoms) else ():
            if all(equal_atoms(p, q, facts + guard) for p, q in zip(order, first.atoms)): yield guard
def equal(left, right, facts):
    classes = []  # a term, and the coefficients under their guards of all terms with its atoms
    for t in normal(left - right, facts):
        found = ((weights, guard) for first, weights in classes for guard in renamed(t, first, facts))
        weights, guard = next(found, ([], t.guard))
        weights.append(bracket(guard, t.coef))
        classes += [(t, weights)] if len(weights) == 1 else []
    return all(follows(facts, same(sum(weights), 0)) for _, weights in classes)

# A rule is proved if, for all sizes of at least 1 that its left side admits, the right side is well formed, the shapes
# and the elements are equal, and all reads lie inside. It is refuted by small sizes and elements at which the
# interpreter computes different sides. The search for these does not use the prover; no rule may be both.
def proof(left, right, when):
    facts = tuple(0 < var(name) for name in symbols(left, right)[0]) + when + left.needs
    at, sides = facts + sum(map(inside, places(left), left.shape), ()), (left[places(left)], right[places(right)])
    return (all(follows(facts, goal) for goal in right.needs + tuple(map(same, left.shape, right.shape))) and
            all(legal(e, at) for e in sides) and equal(*sides, at))
def counterexample(left, right, when):
    names, reads = symbols(left, right)
    for sizes in sorted(itertools.product((1, 2, 3, 4), repeat=len(names)), key=sum)[:200]:
        env = sample(dict(zip(names, sizes)), reads, 2)
        if not all(value(condition, env) for condition in when + left.needs): continue
        x, y = run(left, env), run(right, env) if all(value(e, env) for e in right.needs) else "not well formed"
        if not numpy.array_equal(x, y):
            return ", ".join(f"{name}={numpy.array(v).tolist()}" for name, v in {**env, "left": x, "right": y}.items())
def verify(expected, name, left, right, when=()):
    wrong, proved = counterexample(left, right, when), proof(left, right, when)
    verdict = "proved" if proved else "refuted" if wrong else "open"
    print(f"  {verdict:7} {name}" + (f"\n            {wrong}" if wrong else ""))
    assert verdict == expected and not (proved and wrong), f"expected: {expected}; counterexample: {wrong}"
print("Rules, for every size:")
verify("proved", "(a b)^T = b^T a^T", transpose(matmul(a, b)), matmul(transpose(b), transpose(a)))
verify("refuted", "s^T s = s s^T", matmul(transpose(s), s), matmul(s, transpose(s)))
verify("proved", "a [y z] = [a y, a z]", matmul(a, concat(y, z, 1)), concat(matmul(a, y), matmul(a, z), 1))
verify("refuted", "[g h] = [h g]", concat(g, h, 1), concat(h, g, 1))
verify("proved", "[p q] [e; f] = p e + q f", matmul(concat(p, q, 1), concat(e, f, 0)), add(matmul(p, e), matmul(q, f)))
verify("proved", "relu [y z] = [relu y, relu z]", relu(concat(y, z, 1)), concat(relu(y), relu(z), 1))
verify("refuted", "relu(relu g + h) = relu(g + h)", relu(add(relu(g), h)), relu(add(g, h)))

# 5. Gradients: the gradient by x of sum(g * out) is the sum over all elements of out of g times their derivative by
# x[p]. A read of x at i has the derivative [i = p]. The gradient is thus a tensor like any other: the interpreter runs
# it, and the prover sums out the variables that the brackets determine.
def derivative(e, name, p):
    if not isinstance(e, E): return 0
    if e.op == "read": return bracket(map(same, e.args[2], p), 1) if e.args[0] == name else 0
    if e.op in ("sum", "where"): return make(e.op, *e.args[:-1], derivative(e.args[-1], name, p))
    if e.op == "relu": return make("step", *e.args) * derivative(e.args[0], name, p)  # step is 1 above 0, else 0
    u, v, du, dv = *e.args, *(derivative(x, name, p) for x in e.args)
    return du + dv if e.op == "+" else du * v + u * dv
def gradient(out, name, x):
    return Tensor(x.shape, lambda *p: total(out.shape, lambda *i: g[i] * derivative(out[i], name, p)), out.needs)
print("Gradients, derived:")
for t in normal(gradient(matmul(a, b), "a", a)[places(a)], ()):
    print("  by a of a b: sum over v:", *put(t.atoms, {name: var("v") for name in t.names}))
verify("proved", "by a of a b: g b^T", gradient(matmul(a, b), "a", a), matmul(g, transpose(b)))
verify("proved", "by b of a b: a^T g", gradient(matmul(a, b), "b", b), matmul(transpose(a), g))
verify("refuted", "by a of relu(a b): g b^T", gradient(relu(matmul(a, b)), "a", a), matmul(g, transpose(b)))
for out in (matmul(a, b), relu(matmul(a, b))):
    env = sample({"k": 3, "m": 2, "n": 4}, {"a": a.shape, "b": b.shape, "g": g.shape}, 9)
    numeric = [sum((sign * run(out, {**env, "a": env["a"] + sign * step}) * env["g"]).sum() for sign in (1, -1)) * 500
               for step in numpy.eye(6).reshape(6, 2, 3) / 1000]
    assert numpy.allclose(run(gradient(out, "a", a), env).ravel(), numeric)
print("  finite differences agree")

# 6. Sharding laws: a value on devices has the device as its first axis. each(f) is f on every device, made from f's
# own declaration. Position i of an axis that is cut over d devices is i = device * (size // d) + local. The law that a
# size suggests: cut all operands along the axes of that size; the blocks of the result are joined along its axis of
# that size, or else added by an all-reduce. A law is a rule like any other, with d as one more symbol.
def on(x, device): return Tensor(x.shape[1:], lambda *i: x[(device,) + i], x.needs)
def replicate(x): return Tensor((d,) + x.shape, lambda device, *i: x[i], x.needs)
def all_reduce(x): return Tensor(x.shape[1:], lambda *i: total(x.shape[:1], lambda device: x[(device,) + i]), x.needs)
def each(f, *xs):
    one = f(*(on(x, 0) for x in xs))
    return Tensor(xs[0].shape[:1] + one.shape, lambda device, *i: f(*(on(x, device) for x in xs))[i], one.needs)
def partition(x, axis):
    local = x.shape[axis] // d
    return Tensor((d,) + change(x.shape, axis, local), lambda device, *i: x[change(i, axis, device * local + i[axis])],
                  x.needs + (same(d * local, x.shape[axis]),))
def combine(x, axis):
    local = x.shape[axis + 1]
    return Tensor(change(x.shape[1:], axis, x.shape[0] * local), lambda *i: x[
        (i[axis] // local,) + change(i, axis, i[axis] - i[axis] // local * local)], x.needs)
print("Sharding laws, derived, for every number d of devices that divides the size:")
for name, f, xs, false in (("a b", matmul, (a, b), ""), ("relu(a b)", lambda a, b: relu(matmul(a, b)), (a, b), "k"),
                           ("[y z]", lambda y, z: concat(y, z, 1), (y, z), "n1 n2")):
    for size in map(var, symbols(*xs)[0]):
        whole, axis = f(*xs), f(*xs).shape.index(size) if size in f(*xs).shape else None
        blocks = each(f, *(partition(x, x.shape.index(size)) if size in x.shape else replicate(x) for x in xs))
        joined = all_reduce(blocks) if axis is None else combine(blocks, axis)
        verify("refuted" if str(size) in false.split() else "proved", f"{name} cut along {size}, " + (
            "added" if axis is None else "joined"), whole, joined, (0 < d, same(d * (size // d), size)))
