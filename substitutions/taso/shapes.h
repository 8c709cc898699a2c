// Shapes of the tensors of one of TASO's rules, inferred from its operators alone.
//
// A rule of TASO names no shapes: it applies wherever its operators accept their operands, those of the target too.
// Here every input gets the most general shape for which that is so. Element-wise operators join equal shapes, as
// where the rules were generated.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/taso/decode.h"
#include "substitutions/taso/sizes.h"

namespace rewright::taso {

// The place at which concat put a tensor together along an axis; TASO's split cuts there.
struct Cut {
  std::shared_ptr<const Cut> left, right;  // of the parts; null: not put together
  Size left_size;
};
using CutPtr = std::shared_ptr<const Cut>;

struct TensorShape {
  int pack = -1;  // any number of leading axes; -1: none
  std::vector<Size> dims;
  std::vector<CutPtr> cuts;  // of the last axes; null: none
};

class Shapes {
 public:
  explicit Shapes(const RuleGraph& rule) : rule_(rule) {}

  // Errors: no operand has a shape that an operator accepts, or the sizes become too complicated.
  absl::Status Infer();

  // The inferred shape of a tensor of the source or target.
  TensorShape Of(const TensorRef& ref, bool source) const;
  // The groups of the source's convolutions, by their number.
  const std::map<int, Size>& groups() const { return groups_; }
  Sizes& sizes() { return sizes_; }
  const Sizes& sizes() const { return sizes_; }

 private:
  using Outputs = std::vector<TensorShape>;

  absl::Status InferSide(const Side& side, bool source);
  // False where the operands do not fit.
  bool InferOperator(const Operator& op, int number, bool source, Outputs* outputs);
  bool Matmul(const TensorShape& a, const TensorShape& b, TensorShape* out);
  bool Conv2d(const Operator& op, int number, bool source, const TensorShape& x, const TensorShape& w,
              TensorShape* out);
  bool Pool2d(const Operator& op, const TensorShape& x, TensorShape* out);
  bool Concat(const Operator& op, const std::vector<TensorShape>& inputs, TensorShape* out);
  bool Split(const Operator& op, const TensorShape& x, Outputs* outputs);
  bool Enlarge(const Operator& op, const std::vector<TensorShape>& inputs, TensorShape* out);

  int NewPack();
  TensorShape Resolve(TensorShape shape) const;
  // Makes the last `rank` axes known; with `exactly` there are no others. `kernel` only names them.
  bool NeedAxes(TensorShape* shape, size_t rank, bool exactly, bool kernel = false);
  bool Unify(const TensorShape& a, const TensorShape& b);

  const RuleGraph& rule_;
  Sizes sizes_;
  std::vector<std::optional<TensorShape>> packs_;  // the shape that each pack was found to have
  std::map<int, TensorShape> inputs_;
  std::map<int, Size> groups_;
  std::vector<Size> free_;  // sizes of constants, which nothing but their users tells
  std::vector<Outputs> source_, target_;
};

// The cut of axis `axis`, from the left, of a shape whose axes are all known; null: none.
CutPtr CutOf(const TensorShape& shape, size_t axis);

}  // namespace rewright::taso
