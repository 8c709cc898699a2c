// Infers the most general shapes of the tensors of a pair of graphs.
//
// Sizes start out unrelated, as far as the generality lets them. The requirements of the operators' meanings, asked for
// application by application, are equations between them. The result is the shape of every tensor as polynomials.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/generate/enumerate/walk.h"
#include "substitutions/taso/sizes.h"

namespace rewright::generate {

// How far a rule goes beyond the sizes and attributes of its space, from far to near.
enum class Generality : uint8_t {
  kAnyShape,   // variables of any shape and rank, all the same: for element-wise operators alone
  kAnyAxis,    // and of concat and split along one axis: any axis of any shapes that agree in the others
  kAnyAxes,    // the same with two axes, in variables of any shape
  kAnyBatch,   // any number of axes before the last two of matrices
  kAnyGroups,  // as kAnyAttrs, and convolutions with any number of groups, all the same
  kAnyAttrs,   // every size its own, kernels of any extent; windows with any attributes, the same where the space has
               // the same
  kAnySizes,   // every size its own, kernels of any extent
  kAnyPools,   // every size its own but the extents of kernels; pools with any attributes
  kSpace,      // sizes that are one variable in the space are equal
};
inline constexpr Generality kGeneralities[] = {Generality::kAnyShape, Generality::kAnyAxis,   Generality::kAnyAxes,
                                               Generality::kAnyBatch, Generality::kAnyGroups, Generality::kAnyAttrs,
                                               Generality::kAnySizes, Generality::kAnyPools,  Generality::kSpace};

// True if windows slide over the operator's first operand.
bool HasWindows(const OperatorChoice& choice);

struct GeneralTensor {
  std::vector<taso::Size> sizes;
  std::vector<std::vector<taso::Size>> cuts;  // by axis, as in Type
  Shape nominal;
};

class GeneralShapes {
 public:
  using Values = std::vector<std::vector<GeneralTensor>>;  // by application, then output

  // `axis`: of kAnyAxis, in the space.
  GeneralShapes(const Space& space, Generality generality, size_t axis)
      : space_(space), generality_(generality), axis_(axis) {}

  // Errors: operands that do not fit, sizes that are no polynomials.
  absl::Status Infer(const SmallGraph& graph, Values* values);
  const GeneralTensor& Input(Ref input);
  const GeneralTensor& Of(Ref ref, const Values& values);
  taso::Sizes& sizes() { return sizes_; }
  // True if the rule takes any attributes of the operator, at this generality.
  bool AnyAttrs(const OperatorChoice& choice) const;
  // The name that stands for them: c, d, ... for convolutions, p, q, ... for pools.
  std::string BundleOf(const OperatorChoice& choice);
  // The groups of a convolution of these operands, once they are inferred; nothing if the number is no polynomial.
  std::optional<taso::Size> GroupsOf(const GeneralTensor& image, const GeneralTensor& kernel) const;

 private:
  using Poly = taso::Size;
  using PolyLists = std::map<std::string, std::vector<Poly>>;  // values of derived attributes

  Poly SizeOf(const Size& size, size_t axis, size_t rank, bool kernel);
  Poly NewSize(const std::string& hint, int64_t nominal);
  // The size in the space's nominal assignment; nothing if that gives none.
  int64_t NominalOf(const Size& size) const;
  std::optional<int64_t> NominalOf(const Poly& size) const;
  std::vector<int64_t> NominalParts(const std::vector<Poly>& parts, int64_t whole) const;
  GeneralTensor Fresh(const std::vector<Size>& shape);
  GeneralTensor Fresh(const InputGroup& group);
  absl::Status Derive(const OperatorChoice& choice, const std::vector<GeneralTensor>& operands, Attrs* nominal,
                      PolyLists* symbolic);
  absl::StatusOr<Poly> DeriveGroups(const std::vector<GeneralTensor>& operands, int64_t ratio);
  absl::StatusOr<std::vector<GeneralTensor>> InferOne(const OperatorChoice& choice,
                                                      const std::vector<GeneralTensor>& operands);
  Poly AnyAttr(const std::string& bundle, const std::string& attr, size_t element);
  Poly WindowCount(const ExprPtr& size, const std::vector<std::optional<Poly>>& variables);
  std::optional<Poly> Evaluate(const ExprPtr& e, const std::vector<std::optional<Poly>>& variables);
  bool Demand(const ExprPtr& cond, const std::vector<std::optional<Poly>>& variables);
  std::vector<std::vector<Poly>> CutsOf(const OperatorChoice& choice, const std::vector<GeneralTensor>& operands,
                                        int output, const OutputMeaning& meaning);
  std::vector<Poly> PartCuts(const std::vector<Poly>& cuts, int output);
  std::vector<Poly> CarriedCuts(const std::vector<GeneralTensor>& operands, const OutputMeaning& meaning, size_t axis);

  const Space& space_;
  const Generality generality_;
  const size_t axis_;
  taso::Sizes sizes_;
  std::map<int, Poly> shared_;
  std::map<Poly, int64_t> nominals_;  // of sizes
  std::map<Ref, GeneralTensor> inputs_;
  std::vector<const OperatorChoice*> bundles_[2];  // the first with its attributes: of convolutions, of pools
  std::map<std::tuple<std::string, std::string, size_t>, Poly> any_attrs_;
  std::map<std::vector<Poly>, Poly> counts_;
  std::vector<Poly> groups_;  // of the convolutions so far
  MeaningCache meanings_;
};

}  // namespace rewright::generate
