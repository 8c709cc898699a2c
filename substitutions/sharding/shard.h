// Cuts a graph over devices: proved laws carry placements of a few tensors through the graph.
//
// The result is a graph with one meaning (docs/sharding.md): its inputs and outputs are those of the original, whole.
// The part between them runs on every device, as `each_f`, with placements where values are exchanged. Every change is
// the application of a rule, and all rules are proved.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "substitutions/match/matcher.h"
#include "substitutions/sharding/factors.h"

namespace rewright::sharding {

// A proved law of one application's structure.
struct ProvedLaw {
  Effect effect = Effect::kCut;
  std::vector<int> operands;  // Conjecture::operands
  bool exact = false;         // the same numbers bit for bit
  // The same numbers, except that a maximum is taken in another order: the other one of two zeros may come first.
  bool same_numbers = false;
  std::shared_ptr<const Matcher> matcher;
};

// A law that has to be proved before it is used.
struct ConjecturedLaw {
  Effect effect = Effect::kCut;
  std::vector<int> operands;
  // Proves it when it is first asked for. Null: it does not hold, or a simpler one of its factor does.
  std::function<absl::StatusOr<const ProvedLaw*>()> proved;
};

// The conjectures about applications of that operator to such types, with canonical attributes.
using LawSource = std::function<absl::StatusOr<std::vector<ConjecturedLaw>>(
    const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs)>;

struct Placement {
  std::string tensor;  // of an input or state: its name; `*` stands for any characters
  int axis = 0;
};

// "NAME:AXIS"; the name may have colons. Error: it is none.
absl::StatusOr<Placement> ParsePlacement(const std::string& text);
// One on each line; # starts a comment. Errors name `file` and the line.
absl::StatusOr<std::vector<Placement>> ParsePlacements(const std::string& text, const std::string& file);

struct Sharded {
  struct Step {
    std::string rule;
    std::string replaced;  // the operator, or the leaf that was placed
    std::string bindings;  // Match::Describe
  };
  Graph graph;
  std::vector<Step> steps;
  bool exact = true;               // all laws used are
  int cut = 0;                     // applications that run on blocks
  int laws = 0;                    // different ones that are used
  std::vector<std::string> whole;  // operators that run on all of what was cut, for want of a law, sorted
};

// An operand that is cut otherwise than a law wants it is joined and cut again. The law that moves the fewest bytes
// between devices is taken, and no law if joining everything moves fewer; laws are proved in this order, until one
// holds. Errors: a placement that no leaf has, or an axis that its tensor has not or that is no multiple of `degree`.
// `exact_only`: laws that add in another order are not used; those that take a maximum in another order are.
absl::StatusOr<Sharded> Shard(const Graph& graph, const std::vector<Placement>& placements, int64_t degree,
                              const LawSource& laws, bool exact_only = false);

// Bytes that a device sends for the graph's exchanges, by collective, with rings: an all-gather or reduce-scatter of n
// bytes sends (degree-1)/degree of them, an all-reduce twice that, an all-to-all (degree-1)/degree of a device's part.
struct Exchange {
  std::string collective;  // "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "halo"
  int count = 0;
  double bytes = 0;
};
std::vector<Exchange> ExchangesOf(const Graph& graph);

}  // namespace rewright::sharding
