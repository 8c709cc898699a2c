// Substitution rules: the text form as data.
//
//   # Two products sharing a left factor become one.
//   rule merge-matmul-shared-lhs
//     { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }
//     => split(matmul(x, concat(y, z, axis=1)), axis=len(b) + 1, sizes=[n1, n2])
//     when weight(y) and weight(z)
//
// docs/rules.md describes the language. In short:
//
//   x[b.., m, k]     a tensor variable with its shape: sizes are names (at least 1), integers, packs `b..` of any
//                    number of axes, or expressions of names bound elsewhere (`g*c`). Given where the variable first
//                    occurs; a variable without a shape has any shape. `x: bool[n]` also fixes the element type;
//                    without one it is floating (f32 or f64, one for all variables of a rule).
//   p[~ 1, o, 1, 1]  any shape that broadcasts to the one given: leading axes may be missing, axes may be 1.
//   1, 0[n, m], ?e   on the left a constant all of whose elements equal the number (rounded to the element type) or,
//                    for ?e, one number, which becomes a real attribute; without a shape, of any shape that leaves the
//                    result's shape to the other operand. On the right a new constant.
//   scalar(e)        on the right: a new constant of the value of an expression.
//   [[1, -1], [0, 1 / 6]]  a matrix of numbers and expressions, by rows; short for concatenations of constants [1, 1].
//   axis=?a          binds an attribute, or compares it where ?a is bound already; an attribute that the left side does
//                    not mention has its default. `attrs=?c` binds all the others at once (as ?c.strides...).
//   split(..).1      one output of an operator that has several; `split(..)..` all of them, as operands.
//   let t = .. in    names a term.
//   { a, b }         several outputs.
//   ?f(x), ?f(x, y)  any elementwise operator, the same throughout the rule (operator_variables.h)
//   when             conditions on sizes and attributes; weight(x), constant(x), positive(x), finite(x) on values;
//                    increasing(?f), odd(?f), keeps_zero(?f) on an operator.
//   expect           the verdict a test expects.
//   proved           the verifier's result: see ProofRecord.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/op.h"
#include "substitutions/instance/instance.h"

namespace rewright {

// ---------------------------------------------------------------- integers, lists, reals, types, conditions

enum class ArgOp : uint8_t {
  kAdd,       // +
  kSub,       // -
  kMul,       // *
  kDiv,       // div: of integers, rounded down
  kMod,       // mod: the remainder of that
  kQuotient,  // /: of reals
  kNeg,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kNot,
};

enum class ArgFn : uint8_t {
  kMin,         // of two integers or, element by element, lists
  kMax,         // the same
  kRank,        // of a tensor
  kShape,       // of a tensor: a list
  kDim,         // dim(x, k): size k of a tensor
  kLen,         // of a list or pack
  kSum,         // of a list
  kProd,        // of a list
  kCompose,     // compose(p, q)[i] = p[q[i]]
  kInverse,     // of a permutation
  kIota,        // iota(n) = [0, .., n-1]
  kRepeat,      // repeat(v, n) = [v, .., v]
  kTake,        // take(l, n): the first n elements
  kDrop,        // drop(l, n): the others
  kReplace,     // replace(l, places, v): the list with v at those places
  kContains,    // contains(l, v): fixed values only
  kCountLess,   // count_less(l, v): how many elements of l are less than v; fixed values only
  kPositive,    // of a tensor: a known constant, all elements > 0 and finite; of a real attribute
  kFinite,      // of a tensor: a known constant, no element infinite or NaN
  kWeight,      // of a tensor: depends on weights and constants alone
  kConstant,    // of a tensor: elements are known
  kIncreasing,  // of an operator variable: it keeps the order of its operands, equal ones apart
  kOdd,         // of an operator variable: f(-x) = -f(x)
  kKeepsZero,   // of an operator variable: f(0) = 0
};

// An expression over the names that a rule binds.
struct ArgExpr {
  enum class Kind : uint8_t {
    kInt,      // integer
    kReal,     // real
    kDType,    // dtype
    kName,     // a size or a pack, or (as an argument of rank, dim, shape, ...) a tensor
    kAttr,     // ?name
    kList,     // [args]; an argument may be a kSplice
    kSplice,   // args[0]..: the elements of a list, within a list or shape
    kOp,       // op(args)
    kElement,  // args[0][args[1]]
    kCall,     // fn(args)
  };
  Kind kind = Kind::kInt;
  ArgOp op = ArgOp::kAdd;
  ArgFn fn = ArgFn::kMin;
  DType dtype = DType::kFloat32;
  int64_t integer = 0;
  double real = 0;
  std::string name;
  std::vector<ArgExpr> args;
  int line = 0;
  int column = 0;

  // The object that `name` stands for, and its number there; CompileRule fills them in.
  enum class Ref : uint8_t { kNone, kSize, kPack, kAttr, kTensor };
  Ref ref = Ref::kNone;
  int id = -1;

  static ArgExpr Int(int64_t value);
  static ArgExpr Real(double value);
  static ArgExpr List(std::vector<ArgExpr> items);
  static ArgExpr Binary(ArgOp op, ArgExpr a, ArgExpr b);
};

// ---------------------------------------------------------------- tensors

struct ShapeSpec {
  bool broadcasts = false;    // ~
  std::vector<ArgExpr> dims;  // kSplice: a pack
};

struct NamedArg {
  std::string name;
  ArgExpr value;
};

struct TensorTerm {
  enum class Kind : uint8_t {
    kName,   // a variable, or a term named by let
    kValue,  // a constant all of whose elements are `value`
    kApply,  // name(operands, attrs); an operator variable is named ?f
  };
  Kind kind = Kind::kName;
  std::string name;
  std::optional<ArgExpr> dtype;    // kDType or kAttr; variables and constants
  std::optional<ShapeSpec> shape;  // variables and constants
  ArgExpr value;
  const OpDef* op = nullptr;
  std::vector<TensorTerm> operands;
  std::vector<NamedArg> attrs;
  std::string bundle;  // the c of attrs=?c; empty: none
  int output = -1;     // .k; -1: not selected
  bool all = false;    // `..`: every output, as operands
  int line = 0;
  int column = 0;
};

struct LetTerm {
  std::string name;
  TensorTerm term;
};

struct RuleSide {
  std::vector<LetTerm> lets;
  std::vector<TensorTerm> outputs;
};

// ---------------------------------------------------------------- proofs

enum class RuleClass : uint8_t {
  kExact,             // bit-identical in the float32 interpreter
  kReassociating,     // equal over the reals; rounding may change
  kNumericallyRisky,  // may introduce cancellation or overflow
  kFiniteOnly,        // false when an operand is infinite or NaN
};
const char* RuleClassName(RuleClass rule_class);  // exact, reassociating, numerically-risky, finite-only
bool ParseRuleClass(const std::string& name, RuleClass* rule_class);

// A verdict `proved`, as it stands in a rule file:
//   proved exact halves=reassociating max_rank=6 max_perm_rank=4 max_broadcast_rank=4 instances=7
//   prover="0123456789abcdef" spec="0123456789abcdef"
struct ProofRecord {
  RuleClass rule_class = RuleClass::kReassociating;
  // The class on 16-bit floats, the worse one of f16 and bf16; none where it was not measured: then a rule that is
  // exact in f32 counts as reassociating, any other one is not used there unless it only moves elements.
  std::optional<RuleClass> halves;
  // With `halves`: nodes of the compiled rule, ascending, whose values may be larger than all that the left side has.
  // In 16 bits the rule is used only if ranges of the graph leave room for them.
  std::vector<int> new_values;
  DomainLimits domain;
  int instances = 0;        // proved; all within the domain
  uint64_t prover = 0;      // ProverHash() when it was proved
  uint64_t spec_hash = 0;   // RecordHash() of the rule and this record when it was proved
  std::string certificate;  // path, relative to the rule file; may be empty
  // The operators for which a rule with an operator variable holds, by name, ascending.
  std::vector<std::string> operators;
  // The operators among them for which the rule is exact, on 16-bit floats too where these were measured; empty if it
  // is exact for all. The classes of the record are the worst of the family.
  std::vector<std::string> exact;
};

// ---------------------------------------------------------------- rules

struct Rule {
  std::string name;
  std::vector<std::string> comment;  // lines right above the rule, without `#`
  // Comments before those, in paragraphs: of the file or of a section of it.
  std::vector<std::vector<std::string>> headings;
  RuleSide lhs;
  RuleSide rhs;
  std::vector<ArgExpr> conditions;  // all must hold
  std::string expect;               // proved, refuted, unknown; empty: not said
  std::optional<ProofRecord> proof;
  std::string file;  // where it was read, and the line of `rule`
  int line = 0;
};

}  // namespace rewright
