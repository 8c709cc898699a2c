// All graphs of a space, each in a canonical form.
//
// A graph is a sequence of operator applications. The walk keeps the lexicographically least of the orders in which a
// graph can be written, and names inputs in order of first use within each group (a graph with symmetries may still
// come up under several namings). Every beginning of a canonical sequence is canonical, so the walk goes depth first,
// an application at a time, and evaluates each once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "substitutions/generate/enumerate/terms.h"

namespace rewright::generate {

inline constexpr int kMaxOps = 6, kMaxInputs = 48;

// A value of a graph: an input of the space, or output k of application i as kOutputs + i * kMaxOutputs + k.
using Ref = uint8_t;
inline constexpr Ref kOutputs = 64;
inline Ref OutputRef(int application, int output) {
  return static_cast<Ref>(kOutputs + application * kMaxOutputs + output);
}

struct SmallGraph {
  struct Application {
    int8_t op = 0;
    Ref operands[kMaxArity] = {0, 0, 0};
    friend bool operator==(const Application&, const Application&) = default;
  };
  int8_t size = 0;
  // The inputs that a graph without applications gives back.
  Ref inputs[3] = {0, 0, 0};
  int8_t num_inputs = 0;
  Application applications[kMaxOps];
};

// "y = matmul(x1, y1); relu(y)"
std::string ToString(const Space& space, const SmallGraph& graph);

// The outputs of the graph: all outputs of the applications that no other application reads.
std::vector<Ref> OutputsOf(const Space& space, const SmallGraph& graph);
int NumOutputs(const OperatorChoice& choice);

// Calls `visit` for every canonical connected graph of exactly `size` applications. All but the last application are
// nodes of `terms`; `visit` gets the values of the graph's inputs and nodes through `values`, by Ref.
class Walk {
 public:
  // False ends the walk.
  using Visit = std::function<bool(const SmallGraph& graph, const ValueId* values)>;

  Walk(Terms& terms, int size, Visit visit);

  // Parts of the walk that can be left to others: all graphs that begin with the same `depth` applications (less than
  // `size`). They are numbered from 0, in the same order in every walk over the same space.
  struct Subtrees {
    int depth = 0;
    std::function<bool(uint64_t number)> enter;  // false: leave it out
    std::function<bool(uint64_t number)> leave;  // after its last graph; false ends the walk
  };
  void set_subtrees(Subtrees subtrees) { subtrees_ = std::move(subtrees); }

  // False where `visit` ended it.
  bool Run();

 private:
  bool Extend(int depth);
  bool EnterOrExtend(int depth);
  bool Choose(int depth, int op, int slot);
  bool Try(int depth, int op);
  bool InOrder(int depth, const SmallGraph::Application& next) const;

  Terms& terms_;
  const Space& space_;
  const int size_;
  const Visit visit_;
  Subtrees subtrees_{.depth = -1};
  uint64_t next_subtree_ = 0;
  SmallGraph graph_;
  ValueId values_[256];
  int used_[64] = {};  // inputs, by group
  // The available values, and how many there are at each depth.
  std::vector<Ref> available_;
  uint64_t reaches_[kMaxOps];  // by application: inputs (bits) and applications it is made of
  Ref operands_[kMaxArity];
  int max_arity_ = 1;
};

// The graphs that TASO's generator visits: applications in every order, connected or not, over named inputs, no two of
// them the same; the empty one counts. Sizes are the nominal ones. Nothing is evaluated.
uint64_t CountRawGraphs(const Space& space, int max_ops);

}  // namespace rewright::generate
