#include "core/ops/foreign.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ir/made_op.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

constexpr char kMark[] = "foreign.";

// Returns the outputs' types, as the attributes list them: element types and ranks by output, then all sizes.
absl::Status ForeignMeaning(OpBuilder& b) {
  const std::vector<int64_t> dtypes = b.Ints("dtypes"), ranks = b.Ints("ranks"), sizes = b.Ints("sizes");
  if (dtypes.empty() || dtypes.size() != ranks.size()) return b.Error("dtypes and ranks must list the same outputs");
  std::vector<std::pair<DType, std::vector<Index>>> outputs;
  auto size = sizes.begin();
  for (size_t k = 0; k < dtypes.size(); ++k) {
    if (dtypes[k] < 0 || dtypes[k] >= static_cast<int64_t>(std::size(kAllDTypes))) {
      return b.Error(absl::StrCat("there is no element type number ", dtypes[k]));
    }
    if (ranks[k] < 0 || ranks[k] > sizes.end() - size) return b.Error("sizes must list the sizes of all outputs");
    outputs.emplace_back(kAllDTypes[dtypes[k]], std::vector<Index>(size, size + ranks[k]));
    size += ranks[k];
  }
  if (size != sizes.end()) return b.Error("sizes must list the sizes of all outputs and no others");
  const auto reference = [name = b.op().name.substr(sizeof kMark - 1)](const Bindings&, const std::vector<Tensor>&,
                                                                       std::vector<Tensor>*) -> absl::Status {
    return Unimplemented("what ", name, " computes is not known here; --device onnxruntime ", "runs a model with it");
  };
  b.Opaque(outputs, reference, Index());
  return absl::OkStatus();
}

AttrSpec Listed(const std::string& name, const std::string& doc) {
  return StructuralInts(name, doc, std::nullopt, /*min=*/0);
}

std::unique_ptr<const OpDef> Make(const std::string& name) {
  auto op = std::make_unique<OpDef>();
  op->name = name;
  op->summary = "A node of a model file whose operator is not known.";
  op->inputs = {"x"};
  op->variadic = true;
  op->attrs = {StructuralInt("node", 0, "which node: equal ones of two graphs are one function"),
               Listed("dtypes", "element types of the outputs, by their number here"),
               Listed("ranks", "ranks of the outputs"), Listed("sizes", "sizes of the outputs, one after another")};
  op->meaning = ForeignMeaning;
  op->sample = [](Rng& rng) {
    const TensorType type{DType::kFloat32, {static_cast<int64_t>(1 + rng() % 3)}};
    return OpSample{.inputs = {type}, .attrs = ForeignAttrs(static_cast<int64_t>(rng() % 100), {type})};
  };
  return op;
}

}  // namespace

const OpDef* ForeignOp(const std::string& name) {
  std::string printed = kMark + name;
  for (char& c : printed) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  return FindOp(printed);
}

const OpDef* FindForeignOp(const std::string& name, const OpDef* (*)(const std::string&)) {
  if (!absl::StartsWith(name, kMark) || name.size() == sizeof kMark - 1) return nullptr;
  static auto* const made = new Memo<std::string, std::unique_ptr<const OpDef>>;
  return made->Get(name, [&] { return Make(name); }).get();
}

Attrs ForeignAttrs(int64_t node, const std::vector<TensorType>& outputs) {
  std::vector<int64_t> dtypes, ranks, sizes;
  for (const TensorType& type : outputs) {
    dtypes.push_back(std::find(std::begin(kAllDTypes), std::end(kAllDTypes), type.dtype) - std::begin(kAllDTypes));
    ranks.push_back(type.rank());
    sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
  }
  return {{"node", node}, {"dtypes", dtypes}, {"ranks", ranks}, {"sizes", sizes}};
}

bool IsForeign(const Node& node) {
  return node.op != nullptr && node.meaning->IsOpaque() && node.meaning->work == nullptr;
}

int CountForeign(const Graph& graph) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) { return IsForeign(graph.node(id)); }));
}

}  // namespace rewright
