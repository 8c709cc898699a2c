// Tensors as the generator sees them: terms over the inputs of a space, each evaluated once.
//
// Types: the shape under every assignment, and where concat put the tensor together (cuts), which tells split where to
// part it. Applications of an operator to types are checked and compiled once. Nodes are hash-consed applications of
// operators to values; a value is one output of a node, with its elements in the prime field and their hash.
//
// Two values with equal hashes are equal under all assignments, up to collisions of 64-bit hashes and of the random
// elements. Hashes are the same in every Terms of one space, assignments and seed. Not thread-safe; each thread has one
// of its own, and they share tapes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "substitutions/generate/enumerate/space.h"
#include "substitutions/generate/enumerate/tape.h"

namespace rewright::generate {

using TypeId = int32_t;
using ValueId = int32_t;
using TermNodeId = int32_t;

// The positions at which concat put an axis together, by assignment, in the order in which that happened.
using Cuts = std::vector<std::vector<int64_t>>;

struct Type {
  std::vector<Shape> shapes;   // by assignment
  std::vector<Cuts> cuts;      // by axis
  bool transposed = false;     // a view: only counted
  std::vector<int32_t> begin;  // of each assignment's elements, and the end
  uint64_t hash = 0;           // of the shapes

  int rank() const { return static_cast<int>(shapes[0].size()); }
  friend bool operator==(const Type& a, const Type& b) {
    return a.shapes == b.shapes && a.cuts == b.cuts && a.transposed == b.transposed;
  }
};

inline constexpr int kMaxArity = 3;
inline constexpr int kMaxOutputs = 3;

// An operator on operands of given types.
struct TypedApplication {
  std::vector<TypeId> outputs;
  std::vector<std::vector<Attrs>> attrs;  // by assignment: of the operator; `then` has none
  // By assignment; empty before the first evaluation. The second is that of `then`.
  std::vector<std::vector<std::shared_ptr<const Tape>>> tapes;
  bool compiled = false;
  bool drops = false;  // some element of an operand is not read
};

struct TermNode {
  int16_t op = -1;  // index into Space::operators; -1: an input
  int16_t num_outputs = 1;
  ValueId operands[kMaxArity] = {-1, -1, -1};
  ValueId first = -1;  // of its outputs
};

struct TermValue {
  TermNodeId node = -1;
  TypeId type = -1;
  uint64_t hash = 0;
  uint64_t support = 0;  // inputs that it depends on, as bits
  const uint64_t* data = nullptr;
};

class Terms {
 public:
  // The last assignment is the nominal one; before it come the counterexamples of the space. `with_values`: false to
  // count only; nothing is evaluated then and every value is different. `seed` draws the inputs' elements, except those
  // of counterexamples. `tapes`: may be shared with other Terms; or null.
  Terms(const Space& space, std::vector<std::vector<int64_t>> assignments, bool with_values, uint64_t seed,
        TapeCache* tapes = nullptr);
  Terms(const Terms&) = delete;
  Terms& operator=(const Terms&) = delete;

  const Space& space() const { return space_; }
  const Type& type(TypeId id) const { return types_[id]; }
  const TermNode& node(TermNodeId id) const { return nodes_[id]; }
  const TermValue& value(ValueId id) const { return values_[id]; }
  // The approximate size of all that is kept.
  size_t num_bytes() const;

  // Inputs are numbered through all groups; input i is value i.
  int num_inputs() const { return static_cast<int>(group_of_.size()); }
  int group_of(int input) const { return group_of_[input]; }
  int first_of(int group) const { return first_of_[group]; }

  // Null where the operator does not take operands of these types.
  TypedApplication* Apply(int op, const TypeId* operands);
  // True if the operator takes these very values: the rest of its restrictions (distinct, leaf_only, ...).
  bool Takes(int op, const ValueId* operands) const;

  // The node, evaluated; -1 where it is illegal or has no value. Takes() is not asked.
  TermNodeId Add(int op, const ValueId* operands);
  // -1 where there is no such node yet.
  TermNodeId Find(int op, const ValueId* operands) const;
  // Hashes and supports of the outputs without keeping the node. False as for Add.
  bool Evaluate(int op, const ValueId* operands, int* num_outputs, uint64_t* hashes, uint64_t* supports);

  const TypedApplication& application(TermNodeId id) const;

  // Everything that is added after a mark can be forgotten; its numbers are given out again.
  struct Mark {
    size_t nodes, values, keys, blocks, block_used, data_bytes;
  };
  Mark mark() const { return {nodes_.size(), values_.size(), keys_.size(), blocks_.size(), block_used_, data_bytes_}; }
  void Release(const Mark& mark);

 private:
  struct Key {
    int32_t op;
    int32_t operands[kMaxArity];
    friend bool operator==(const Key& a, const Key& b) {
      return a.op == b.op && a.operands[0] == b.operands[0] && a.operands[1] == b.operands[1] &&
             a.operands[2] == b.operands[2];
    }
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.op, key.operands[0], key.operands[1], key.operands[2]);
    }
  };
  Key KeyOf(int op, const int32_t* operands) const;
  TypeId Intern(Type type);
  Type TypeOf(const std::vector<Size>& shape) const;
  Type InputType(const InputGroup& group) const;
  static TypedApplication* Unknown();  // stands for a result that was not asked for yet
  TypedApplication* FindOrBuild(int op, const TypeId* operands);
  std::unique_ptr<TypedApplication> Build(int op, const std::vector<const Type*>& operands);
  bool AttrsAt(const OperatorChoice& choice, const std::vector<const Type*>& operands, size_t assignment,
               Attrs* attrs) const;
  std::vector<Cuts> CutsOf(const OperatorChoice& choice, const std::vector<const Type*>& operands, int output,
                           int rank) const;
  bool Compile(int op, const std::vector<const Type*>& operands, TypedApplication* application);
  void FillConstant(const OperatorChoice& choice, const Type& type, uint64_t* data) const;
  bool Run(int op, const ValueId* operands, const TypedApplication& application, std::vector<uint64_t>* data);
  uint64_t HashOf(TypeId type, const uint64_t* data) const;
  void Supports(int op, const ValueId* operands, const TypedApplication& application, uint64_t* supports);
  const std::vector<uint64_t>& Dependencies(ValueId value);
  void Draw(ValueId input, TypeId type_id, uint64_t seed, uint64_t* data) const;
  void DrawCounterexample(ValueId input, const Type& type, size_t assignment, uint64_t* data) const;
  uint64_t* Allocate(size_t count);

  const Space& space_;
  std::vector<std::vector<int64_t>> assignments_;
  size_t num_counterexamples_ = 0;  // the last of the assignments but one
  const bool with_values_;
  std::vector<int> group_of_, first_of_;
  std::vector<Type> types_;
  absl::flat_hash_map<uint64_t, std::vector<TypeId>> types_by_hash_;
  absl::flat_hash_map<Key, std::unique_ptr<TypedApplication>> applications_;
  std::vector<std::vector<std::vector<TypedApplication*>>> known_;  // by operator and types of one or two operands
  std::vector<TermNode> nodes_;
  std::vector<TermValue> values_;
  absl::flat_hash_map<Key, TermNodeId> node_ids_;
  std::vector<Key> keys_;  // of node_ids_, in the order in which they came
  absl::flat_hash_map<ValueId, std::vector<uint64_t>> dependencies_;
  std::vector<std::unique_ptr<uint64_t[]>> blocks_;
  size_t block_used_ = 0, data_bytes_ = 0;
  std::vector<uint64_t> scratch_, result_, middle_;
  MeaningCache meanings_;
  TapeCache own_tapes_;
  TapeCache& tapes_;
};

}  // namespace rewright::generate
