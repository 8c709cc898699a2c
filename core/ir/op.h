// Operators. Each is declared once, as mathematics.
//
// An OpDef states an operator's name, inputs, attributes and meaning. The meaning is a function from *structural*
// values (number, ranks and element types of the inputs; structural attributes such as axis or perm) to a Meaning:
// index expressions over *symbolic* values (sizes of the inputs, strides, pads, dilations, groups, epsilon...), which
// stay open in proofs and are bound to numbers in a graph.
//
// The Meaning is the only source for the shape rule (InferTypes), the reference interpreter, the fingerprint evaluator,
// the verifier, the cost features and the printed documentation. None of them needs to name an operator. An operator
// that expressions cannot state, or only at an excessive cost (top_k), is *opaque*: its Meaning has shapes and
// requirements like any other, and a reference function instead of elements. A new operator needs a declaration in
// core/ops/, in a file of its own or beside its kin, and its name in core/ops/ops.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/expr.h"
#include "core/tensor/tensor.h"

namespace rewright {

// ---------------------------------------------------------------- attributes

// An attribute's value: integer (or flag, axis), real, list of integers, element type.
using Attr = std::variant<int64_t, double, std::vector<int64_t>, DType>;

// Attributes by name, always complete (defaults filled in) and canonical (axes counted from the front) on a node.
using Attrs = std::map<std::string, Attr>;

std::string AttrString(const Attr& attr);     // 3, 0.5, [1,2], f32; reals print so that they parse back exactly
std::string AttrsString(const Attrs& attrs);  // "axis=1, at=3"

enum class AttrKind : uint8_t {
  kInt,    // int64_t
  kFlag,   // int64_t, 0 or 1; always structural
  kAxis,   // int64_t, an axis of input 0, canonical 0..rank-1; always structural
  kAxes,   // distinct axes of input 0, canonical and sorted; always structural
  kInts,   // list; its length is structural, its values are if `structural`
  kReal,   // double; never structural
  kDType,  // always structural
};

struct AttrSpec {
  std::string name;
  AttrKind kind = AttrKind::kInt;
  // A structural value fixes the expression when it is built; any other value is a symbol of the Meaning.
  bool structural = false;
  std::optional<Attr> fallback;  // used where the attribute is not given; none: it must be given
  std::string doc;
  // Smallest legal value of an integer symbol (or of each element of a list): an assumption of proofs, checked when a
  // node is made.
  int64_t min = INT64_MIN;
  // The list is the shape of a tensor that is no operand. If the operator broadcasts, the sizes of one in the list are
  // structural, as those of operands are.
  bool is_shape = false;
};

// ---------------------------------------------------------------- meaning

// The structural values of one application of an operator. Two applications with equal keys have the same Meaning.
struct StructuralKey {
  std::vector<int> ranks;     // of the inputs
  std::vector<DType> dtypes;  // of the inputs
  // The axes of size one, as bit masks by input, and after these by attribute that is a shape; filled only for
  // operators that broadcast (OpDef::broadcasts). Elsewhere, and in proofs for a symbolic size, the bit is 0: the axis
  // is then required to match.
  std::vector<uint32_t> units;
  Attrs attrs;                         // structural attributes only
  std::map<std::string, int> lengths;  // of symbolic lists
  friend bool operator<(const StructuralKey& a, const StructuralKey& b) {
    return std::tie(a.ranks, a.dtypes, a.units, a.attrs, a.lengths) <
           std::tie(b.ranks, b.dtypes, b.units, b.attrs, b.lengths);
  }
};

// A condition under which the application is legal. `message` states it in words.
struct Requirement {
  ExprPtr condition;  // Cond over sizes and symbolic attributes
  std::string message;
};

struct OutputMeaning {
  DType dtype = DType::kFloat32;
  std::vector<ExprPtr> shape;   // Index over sizes and symbolic attributes
  std::vector<int> index_vars;  // variable ids of the output position, one per axis
  ExprPtr element;              // Scalar: the element at that position
};

struct Bindings;

// The meaning of an operator at fixed structural values. Variables are numbered 0..variables.size()-1, real
// parameters 0..params.size()-1.
struct Meaning {
  enum class VarKind : uint8_t { kSize, kAttr, kOutputIndex, kBound };
  struct Variable {
    std::string name;
    VarKind kind;
    // kSize: input number and axis. kAttr: element of the attribute `name` (0 where it is no list).
    int input = 0;
    int axis = 0;
    std::string attr = {};
    int64_t min = INT64_MIN;  // kAttr
  };
  std::vector<Variable> variables;
  std::vector<std::string> params;  // names of the real attributes, in order of their ids
  std::vector<Requirement> requirements;
  std::vector<OutputMeaning> outputs;
  // Subexpressions that no output depends on, see OpBuilder::Shift.
  std::vector<ExprPtr> shifts;

  // Reference function of an opaque operator (docs/decisions/029): it fills the outputs, which already have their
  // shapes. Floating elements are f32 or f64 in all tensors alike, as the caller computes (core/interpreter:
  // Precision). It is a pure function of its arguments; several threads may call it.
  using Reference =
      std::function<absl::Status(const Bindings&, const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs)>;
  Reference reference;
  ExprPtr work;  // Index over sizes, attributes: scalar operations of the reference; null: no kernel here
  bool IsOpaque() const { return reference != nullptr; }
};

class OpDef;

// Builds a Meaning; handed to an OpDef's meaning function.
class OpBuilder {
 public:
  OpBuilder(const OpDef& op, const StructuralKey& key);

  const OpDef& op() const { return op_; }
  const StructuralKey& key() const { return key_; }

  // ---- structural values
  int num_inputs() const { return static_cast<int>(key_.ranks.size()); }
  int rank(int input) const { return key_.ranks[input]; }
  DType dtype(int input) const { return key_.dtypes[input]; }
  // True when the axis is known to have size one (only for operators that broadcast).
  bool is_unit(int input, int axis) const { return (key_.units[input] >> axis) & 1; }
  int64_t Int(const std::string& attr) const;  // kInt (structural), kFlag, kAxis
  bool Flag(const std::string& attr) const { return Int(attr) != 0; }
  std::vector<int64_t> Ints(const std::string& attr) const;  // kInts (structural), kAxes
  DType Type(const std::string& attr) const;
  int Length(const std::string& attr) const;  // of a kInts attribute, structural or not

  // ---- symbolic values
  Index size(int input, int axis) const;
  std::vector<Index> sizes(int input) const;
  Index Sym(const std::string& attr, int element = 0) const;
  Scalar Real(const std::string& attr, DType dtype) const;

  // ---- expressions
  Scalar Read(int input, std::vector<Index> at) const;
  using Body = std::function<Scalar(const std::vector<Index>&)>;
  using Guard = std::function<Cond(const std::vector<Index>&)>;
  // Bound variables and their extents. {{"d", D}, {"r", R}}: d runs over 0..D-1 slowest.
  using Ranges = std::vector<std::pair<std::string, Index>>;
  Scalar Reduce(ReduceKind kind, const Ranges& ranges, const Body& body, const Guard& guard = nullptr);
  Scalar Sum(const Ranges& ranges, const Body& body) { return Reduce(ReduceKind::kSum, ranges, body); }
  Scalar MaxOver(const Ranges& ranges, const Body& body, const Guard& guard = nullptr) {
    return Reduce(ReduceKind::kMax, ranges, body, guard);
  }

  // Makes a variable for a reduction that is built without the helpers.
  Index NewBound(const std::string& name) { return NewVar(name, Meaning::VarKind::kBound); }
  // Marks the value as a shift: the outputs do not depend on it, as a softmax does not depend on the number that is
  // subtracted before the exponentials. Derivatives treat it as a constant. Returns the value.
  Scalar Shift(const Scalar& value);

  // ---- results
  void Require(const Cond& condition, std::string message);
  // Adds an output; `names` are the printed names of the position's variables ("i0", "i1"... by default).
  void Output(DType dtype, const std::vector<Index>& shape, const Body& element,
              const std::vector<std::string>& names = {});
  // Makes the operator opaque: the outputs have these types and shapes, and only `reference` defines their elements.
  // Called instead of Output.
  void Opaque(const std::vector<std::pair<DType, std::vector<Index>>>& outputs, Meaning::Reference reference,
              const Index& work);
  // Returns a structural error: `add: inputs must have one type`.
  absl::Status Error(const std::string& message) const;

  Meaning Take() { return std::move(meaning_); }

 private:
  Index NewVar(const std::string& name, Meaning::VarKind kind);

  const OpDef& op_;
  const StructuralKey& key_;
  Meaning meaning_;
  std::vector<std::vector<int>> size_vars_;
  std::map<std::string, std::vector<int>> attr_vars_;
  std::map<std::string, int> params_;
};

// ---------------------------------------------------------------- declarations

// A random legal application of an operator, for the property tests and random graphs that cover all operators.
struct OpSample {
  std::vector<TensorType> inputs;
  Attrs attrs;
  // Elements of input i are drawn from [low, high]; integers in that range for integer types.
  double low = -2;
  double high = 2;
};
using Rng = std::mt19937_64;

// Selects which of several equal elements receives the derivative of a maximum or minimum over an axis.
enum class Ties : uint8_t { kShare, kFirst };

class OpDef {
 public:
  std::string name;
  std::string summary;              // one sentence
  std::vector<std::string> inputs;  // names; the last may stand for several, see `variadic`
  bool variadic = false;
  bool commutative = false;  // the two inputs may be exchanged
  bool broadcasts = false;   // inputs broadcast as in NumPy: StructuralKey::units is filled
  Ties ties = Ties::kShare;
  std::vector<AttrSpec> attrs;
  std::function<absl::Status(OpBuilder&)> meaning;
  std::function<OpSample(Rng&)> sample;

  const AttrSpec* FindAttr(const std::string& attr_name) const;
  // Returns the name of operand number `input`; the operands of a variadic input x are called x0, x1, ..
  std::string InputName(int input) const;
};

// ---------------------------------------------------------------- applications

// Fills in defaults, resolves negative axes against the rank of input 0, sorts axes, and checks names, kinds and
// minima. Errors name the operator and the attribute.
absl::StatusOr<Attrs> CanonicalAttrs(const OpDef& op, const std::vector<TensorType>& inputs, Attrs attrs);

// The structural part of an application; `attrs` are canonical.
StructuralKey StructuralKeyOf(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs);

// Keeps Meanings by operator and structural key. Not thread-safe: each graph arena owns one.
class MeaningCache {
 public:
  absl::StatusOr<std::shared_ptr<const Meaning>> Get(const OpDef& op, const StructuralKey& key);

 private:
  std::map<std::pair<const OpDef*, StructuralKey>, std::shared_ptr<const Meaning>> cache_;
};

// Numbers for the variables and parameters of a Meaning: sizes and symbolic attributes of one application. Entries of
// output positions and bound variables are 0; the evaluator sets them.
struct Bindings {
  std::vector<int64_t> variables;
  std::vector<double> params;
};
Bindings BindingsOf(const Meaning& meaning, const std::vector<TensorType>& inputs, const Attrs& attrs);

// The shape rule: checks the requirements and gives the types of the outputs. Errors read
//   matmul: shapes [3,4] and [5,6]: the inner sizes must be equal (4 = 5)
absl::StatusOr<std::vector<TensorType>> InferTypes(const OpDef& op, const Meaning& meaning,
                                                   const std::vector<TensorType>& inputs, const Attrs& attrs);

// Makes one operator application by itself: canonical attributes, meaning and types.
struct Application {
  Attrs attrs;
  std::shared_ptr<const Meaning> meaning;
  std::vector<TensorType> outputs;
};
absl::StatusOr<Application> Apply(const OpDef& op, const std::vector<TensorType>& inputs, Attrs attrs,
                                  MeaningCache& cache);

// Returns the operator's documentation page: summary, inputs, attributes, and the formula printed from a sample
// Meaning.
std::string DescribeOp(const OpDef& op);

}  // namespace rewright
