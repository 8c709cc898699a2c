// Facts of the elements that a Meaning states, from facts of its operands: abstract interpretation of its expressions.
//
// A Meaning is taken apart once; facts of one application of it take a microsecond or a few. Besides the intervals of
// subexpressions, relations within one expression count:
//
//   a - a = 0;  a * a >= 0;  a / a = 1
//   a - max k: b <= 0, a - min k: b >= 0        where a is b at some position that k runs over
//   the sum over j of f(.., a - max k: b, ..)   has a term at which that difference is 0: softmax divides by 1 or more
//   |a / D| <= 1 / c                            where D >= c |a| follows from the form of D: a sum or maximum with |a|
//                                               among its terms, the root of a mean of squares with a^2 among them
//   c ? a : b                                   the operands that c compares are bounded by it, on each side
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/index/form.h"
#include "core/ir/op.h"
#include "core/numerics/facts.h"

namespace rewright {

// Not thread-safe.
class ElementFacts {
 public:
  explicit ElementFacts(std::shared_ptr<const Meaning> meaning);

  // Gives the facts of every output of one application: `bindings` are its sizes and attributes, `outputs` its types.
  std::vector<Facts> Of(const Bindings& bindings, const std::vector<const Facts*>& operands,
                        const std::vector<TensorType>& outputs);

 private:
  using Range = index::Interval;
  enum class Truth : uint8_t { kNo, kYes, kEither };
  // A bound variable stands for an index.
  struct Place {
    int extent;  // parts
    int index;
  };
  using Places = std::vector<Place>;
  // A part whose facts are given rather than computed.
  struct Told {
    int part;
    Facts facts;
  };
  struct Part {
    const ExprNode* expr = nullptr;
    std::vector<int> args;
    std::vector<int> extents;
    // Describes a difference of an element and the extremum of a range that holds it: its sign (1: 0 or more, -1: 0 or
    // less), the argument that is the extremum, and the position of the element in the range.
    int extremum = 0;
    int extremum_arg = 0;
    Places places;
    // The differences in the body of a sum, of an element and the extremum over the same terms.
    std::vector<int> peaks;
    // True if some point fulfils the guard of a maximum or minimum, at the numbers of the Meaning.
    std::map<std::vector<int64_t>, bool> never_empty;
  };
  struct Bound {
    int variable;
    int extent;  // part
  };
  // Facts of parts as computed so far; some may be given.
  struct Memo {
    std::vector<Facts> facts;
    std::vector<char> known;
  };

  int Add(const ExprPtr& expr);
  void NoteExtremum(Part* part);
  void NotePeaks(Part* part);
  bool IsPeakOf(const Part& difference, const std::vector<BoundVar>& summed) const;
  bool Matches(const ExprPtr& pattern, const ExprPtr& target, const std::vector<Bound>& bound,
               std::vector<int>* at) const;
  bool PlacesOf(int pattern, int target, const std::vector<Bound>& bound, Places* places) const;

  Range IndexOf(int part);
  Truth TruthOf(int part);
  bool AreInside(const Places& places);
  Range ExtentsOf(const Part& part);
  const Facts& FactsOf(int part);
  Facts Compute(int part);
  Facts ComputeCall(const Part& part);
  Facts ComputeSelect(const Part& part);
  Facts ComputeReduction(Part& part);
  void TellCondition(int condition, bool holds, std::vector<Told>* told);
  Facts FactsWhere(int part, const std::vector<Told>& told);
  bool NeverEmpty(Part& part);
  double Dominates(int part, int numerator, int power, std::vector<Bound>* bound);
  void BoundQuotient(int numerator, int divisor, const Facts& factor, Facts* facts);

  std::shared_ptr<const Meaning> meaning_;
  std::vector<Part> parts_;
  absl::flat_hash_map<const ExprNode*, int> numbers_;
  std::vector<int> roots_;

  // State of the current application.
  const Bindings* bindings_ = nullptr;
  const std::vector<const Facts*>* operands_ = nullptr;
  std::vector<Range> variables_;
  Memo memo_;
};

}  // namespace rewright
