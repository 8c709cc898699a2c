// Writes an expression of meanings as CUDA C++, statement by statement.
//
// Statements stand in scopes: the kernel's body, loops, branches. A value is written once in a scope and found again by
// what it is: reads of one place, one function of equal values, one reduction at one place are one variable, whichever
// node they come from. A reduction is written in the outermost scope that knows all it depends on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "backends/cuda/codegen/kernel_source.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "core/index/form.h"

namespace rewright::cuda {

using index::Form;

constexpr int kTile = 32;                          // extents of a tile in shared memory
constexpr int64_t kLargeIndex = int64_t{1} << 30;  // from here on indices are 64-bit numbers

class ExpressionWriter {
 protected:
  struct Scope {
    std::string text;
    absl::flat_hash_map<std::string, std::string> memo;
    bool conditional = false;
  };
  // Facts that one walk over the expression finds, for choosing the kernel's shape.
  struct Survey {
    // By outermost reduction: the axes of the result that it depends on, and the number of its terms.
    std::vector<std::pair<std::set<int>, int64_t>> reductions;
    bool under_condition = false;            // a reduction that is not always needed
    bool repeated = false;                   // a reduction done anew for every term of another
    absl::flat_hash_set<std::string> loads;  // argument and address
    std::vector<Form> addresses;             // of loads that are always needed
  };
  // The threads that share a reduction.
  struct Team {
    std::string member;  // the number of a thread in it
    std::string size;
    std::string reduce;  // the function that puts their parts together, up to its arguments: operation, kThreads
  };
  // A load that passes through shared memory: threads that are neighbours along the axis `a` fetch it for threads that
  // are neighbours along `b`.
  struct StagedLoad {
    std::string name;  // of the tile, tile[b][a]
    int argument = 0;
    std::string address;
  };

  ExpressionWriter(const Graph& graph, const KernelRequest& request) : graph_(graph), request_(request) {
    for (NodeId id : request.nodes) inside_.insert(id);
  }

  // ---- scopes

  int top() const { return static_cast<int>(scopes_.size()) - 1; }
  Scope& scope(int i) { return *scopes_[i]; }
  void Push(bool conditional = false) {
    scopes_.push_back(std::make_unique<Scope>());
    scopes_.back()->conditional = conditional;
  }
  std::string Pop() {
    std::string text = std::move(scopes_.back()->text);
    scopes_.pop_back();
    return text;
  }
  void Line(const std::string& line) { absl::StrAppend(&scopes_.back()->text, line, "\n"); }
  std::string NewName(const char* prefix) { return absl::StrCat(prefix, next_name_++); }
  const std::string* Find(const std::string& key) {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i]->memo.find(key);
      if (found != scopes_[i]->memo.end()) return &found->second;
    }
    return nullptr;
  }
  // A constant of the current scope with this value.
  std::string Define(DType dtype, const std::string& value) {
    const std::string name = NewName("v");
    Line(absl::StrCat("const ", TypeName(dtype), " ", name, " = ", value, ";"));
    return name;
  }
  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InternalError(absl::StrCat("kernel source: ", message));
  }

  // The element of a value at a place: a name or literal of the current scope.
  std::string Element(Value value, const std::vector<Form>& at);
  // The element that is stored at a place of the result: its element there, or zero beyond its shape.
  std::string ResultAt(const std::vector<Form>& at);
  // A variable of the kernel that takes the values low..high; its tag is the scope it lives in, 0 outermost.
  Form Variable(const std::string& name, int64_t low, int64_t high, int depth) {
    return space_.Variable(name, index::Interval{low, high}, depth);
  }
  // The coefficient of a variable where it stands alone; 0 where it does not occur so.
  static int64_t StepOf(const Form& form, const std::string& variable);
  // Equal text is an equal value where both are written: values are found again by it.
  std::string Text(const Form& form);
  // The text of a scope for neighbouring elements. `write` runs twice: first to learn which loads they want together.
  template <typename Write>
  std::string NeighbourScope(bool conditional, const Write& write) {
    const int outer_scope = vector_scope_;
    const auto outer_loads = std::exchange(survey_.loads, {});
    const auto outer_wanted = std::exchange(wanted_, {});
    std::string text;
    for (int pass = 0; pass < 2; ++pass) {
      Push(conditional);
      vector_scope_ = top();
      write();
      text = Pop();
      wanted_ = std::exchange(survey_.loads, {});
    }
    vector_scope_ = outer_scope;
    survey_.loads = outer_loads;
    wanted_ = outer_wanted;
    return text;
  }
  // Forgets names and arguments, to write the same again.
  void Reset() {
    next_name_ = 0;
    arguments_.clear();
    large_ = false;
  }

  const Graph& graph_;
  const KernelRequest& request_;
  index::Space space_;
  std::vector<Value> arguments_;         // in the order of their names p0, p1, ...
  std::vector<std::string> axis_names_;  // of the result's axes, while surveying
  Survey survey_;
  bool surveying_ = false;
  std::optional<Team> team_;                 // does reductions in scope 0 together
  int lanes_ = 1;                            // neighbours that a thread computes together
  int vector_scope_ = -1;                    // the scope of these
  absl::flat_hash_set<std::string> wanted_;  // the loads of all of them
  int tile_scope_ = -1;                      // the scope of a tile's element, whose place is a0 + .., b0 + ..
  std::vector<StagedLoad> staged_;
  int64_t staged_bytes_ = 0;
  bool vectorized_ = false;
  bool large_ = false;  // some index is large
  absl::Status status_;

 private:
  // A truth value in a kernel: known while it is written, or a C expression.
  struct Truth {
    std::optional<bool> known;
    std::string text;
  };

  // A meaning with its symbols bound, at a place.
  struct Frame {
    const Meaning* meaning = nullptr;
    std::vector<Form> variables;  // by id: sizes and attributes as constants, positions as forms
    const std::vector<double>* params = nullptr;
    const Node* node = nullptr;
  };

  // ---- indices
  Form IndexOf(const ExprNode& expr, Frame& frame);
  Truth Compare(ExprKind kind, const Form& a, const Form& b);
  Truth Condition(const ExprNode& expr, Frame& frame);

  // ---- elements
  // The text that an expression has in every frame in which it has the same value; bound variables count from
  // `level`.
  void Key(const ExprNode& expr, Frame& frame, int level, std::string* key);
  std::string ScalarOf(const ExprNode& expr, Frame& frame);
  std::string Call(const ExprNode& expr, Frame& frame);
  std::string Select(const ExprNode& expr, Frame& frame);
  // The value of one of two texts that are written where they are needed alone.
  std::string Chosen(const Truth& condition, DType dtype, const std::function<std::string()>& if_true,
                     const std::function<std::string()>& if_false);
  std::string Read(const ExprNode& expr, Frame& frame);
  std::string Inlined(Value value, const std::vector<Form>& at);
  std::pair<const std::vector<double>*, const std::vector<Form>*> Bound(NodeId id);
  int Argument(Value value);
  std::string Load(Value value, const Form& address);
  // Returns whether a load from this address goes through a tile of `bytes` bytes.
  bool CanStage(const Form& address, int64_t bytes) const;

  // ---- reductions
  // The deepest scope whose variables the expression depends on.
  int DepthOf(const ExprNode& expr, Frame& frame);
  void AxesOf(const ExprNode& expr, Frame& frame, std::set<int>* axes);
  std::string Reduce(const ExprNode& expr, Frame& frame, int* home);
  // The guard and body of a reduction with its variables set, in a scope of its own; the accumulation goes into
  // `result`.
  void Term(const ExprNode& expr, Frame& frame, const std::string& result, const std::vector<Form>& at);
  std::string StartAccumulator(const ExprNode& expr);
  // The index of an argmax is 0 if no element was taken.
  std::string FinishAccumulator(const ExprNode& expr, const std::string& result);
  std::string ReduceInThread(const ExprNode& expr, Frame& frame, const std::vector<int64_t>& extents);
  std::string ReduceTogether(const ExprNode& expr, Frame& frame, const std::vector<int64_t>& extents, int64_t terms);

  absl::flat_hash_set<NodeId> inside_;
  absl::flat_hash_map<NodeId, std::unique_ptr<std::pair<std::vector<double>, std::vector<Form>>>> bound_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  int next_name_ = 0;
  bool in_reduction_ = false;
};

}  // namespace rewright::cuda
