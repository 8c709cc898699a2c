#include "core/onnx/initializers/trained.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/onnx/initializers/initializer_uses.h"
#include "core/onnx/initializers/tied.h"
#include "core/onnx/provenance.h"

namespace rewright {
namespace {

// The limit on magnitudes of weights; the lowest number of a type means minus infinity in masks.
constexpr double kLargestWeight = 1e18;

bool HoldsWeights(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (!(std::abs(tensor.At(i)) < kLargestWeight)) return false;
  }
  return true;
}

class RoleFinder {
 public:
  RoleFinder(const ImportOptions& options, onnx::GraphProto& graph, InitializersByName& initializers)
      : options_(options), graph_(graph), initializers_(initializers), provenance_(graph), uses_(graph) {}

  InitializerRoles Run() {
    std::vector<std::string> names;
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const auto found = initializers_.find(proto.name());
      if (found != initializers_.end() && IsFloating(found->second.dtype())) names.push_back(proto.name());
    }
    const bool once = AreWrittenOnce(names);
    for (const std::string& name : names) {
      const bool parts = options_.parts && options_.parts(name);
      if (parts || (once && UniformElement(initializers_.at(name)))) PartByUse(name, parts);
    }
    uses_ = NodeUses(graph_);
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const auto found = initializers_.find(proto.name());
      if (found == initializers_.end() || !IsFloating(found->second.dtype())) continue;
      const std::string why = options_.trains && options_.trains(proto.name()) ? "" : WhyLeft(proto.name());
      if (!why.empty()) roles_.left.emplace(proto.name(), why);
    }
    JoinRepeats(options_, provenance_, graph_, initializers_, roles_);
    JoinCopies(options_, graph_, initializers_, roles_);
    return std::move(roles_);
  }

 private:
  // True if no two initializers of one repeated number are equal. In a file that has equal ones, sharing is intended.
  bool AreWrittenOnce(const std::vector<std::string>& names) const {
    std::set<std::string> seen;
    for (const std::string& name : names) {
      const Tensor& tensor = initializers_.at(name);
      const std::optional<double> element = UniformElement(tensor);
      if (element && !seen.insert(absl::StrCat(tensor.type().ToString(), " ", *element)).second) return false;
    }
    return true;
  }

  // Splits an initializer that several nodes read into one for each use; an Identity, which exporters write for the
  // second name, becomes an initializer of that name. A constant stays one.
  void PartByUse(const std::string& name, bool given) {
    const Tensor tensor = initializers_.at(name);
    if (uses_.IsInSubgraph(name) || provenance_.KindOf(name) == Provenance::Kind::kConstant) return;
    if (!given && options_.shares && options_.shares(name)) return;
    std::vector<std::pair<int, int>> uses;  // node, input
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (int k = 0; k < graph_.node(i).input_size(); ++k) {
        if (graph_.node(i).input(k) == name) uses.emplace_back(i, k);
      }
    }
    if (uses.size() < 2 || (!given && AreOneLayer(uses))) return;
    std::vector<std::string> parts = {name};
    std::vector<int> gone;
    bool first = true;
    for (const auto& [i, k] : uses) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      const bool renames = node.op_type() == "Identity" && node.output_size() == 1 && !IsOutput(node.output(0));
      if (!renames && std::exchange(first, false)) continue;
      const std::string part = renames ? node.output(0) : FreeName(name, parts.size());
      renames ? gone.push_back(i) : node.set_input(k, part);
      graph_.add_initializer()->set_name(part);
      initializers_[part] = tensor;
      parts.push_back(part);
    }
    for (auto at = gone.rbegin(); at != gone.rend(); ++at) graph_.mutable_node()->DeleteSubrange(*at, 1);
    const std::string elements =
        given ? " (model.parted)" : absl::StrCat(", all of whose elements are ", tensor.At(0), ",");
    roles_.notes.push_back(absl::StrCat("initializer ", name, elements, " is read ", uses.size(), " times: taken for ",
                                        parts.size(), " tensors that the exporter wrote once",
                                        given ? "" : " (model.shared keeps it one)"));
  }

  // True if the nodes also share other numbers that are not equal by chance: they are one layer, used several times.
  bool AreOneLayer(const std::vector<std::pair<int, int>>& uses) const {
    std::map<std::string, int> readers;
    for (const auto& [i, k] : uses) {
      const onnx::NodeProto& node = graph_.node(i);
      for (const std::string& name : std::set<std::string>(node.input().begin(), node.input().end())) {
        const auto found = initializers_.find(name);
        if (found == initializers_.end() || UniformElement(found->second)) continue;
        if (++readers[absl::StrCat(k, " ", name)] > 1) return true;
      }
    }
    return false;
  }

  bool IsOutput(const std::string& name) const {
    return std::any_of(graph_.output().begin(), graph_.output().end(),
                       [&](const onnx::ValueInfoProto& output) { return output.name() == name; });
  }

  std::string FreeName(const std::string& name, size_t number) const {
    std::string free = absl::StrCat(name, ".", number + 1);
    while (initializers_.contains(free)) free += "_";
    return free;
  }

  // The use of an initializer by a node's input.
  struct Use {
    bool weight = false, other = false, joins = false;  // joins: with values that are computed, as its elements are
    std::string never;
  };

  std::string WhyLeft(const std::string& name) {
    const Tensor& tensor = initializers_.at(name);
    if (!HoldsWeights(tensor)) return "holds numbers that no weight is: a mask";
    const Provenance::Kind kind = provenance_.KindOf(name);
    if (kind == Provenance::Kind::kParameter) return "";
    if (kind == Provenance::Kind::kConstant) {
      return provenance_.IsBuffer(name) ? "a buffer, as the file says"
                                        : "computed without a parameter, as the file says";
    }
    const bool generated = IsGeneratedName(name), uniform = UniformElement(tensor).has_value();
    Use use;
    use.other = uses_.IsInSubgraph(name);
    std::set<std::string> seen;
    Look(name, tensor, generated && uniform, &seen, &use);
    if (use.weight) return "";
    if (!use.other && !use.never.empty()) return use.never;
    if (!generated) return "";
    roles_.by_name.insert(name);
    if (use.joins && tensor.num_elements() > 1) {
      roles_.undecided.emplace(name, absl::StrCat("initializer ", name, " ", tensor.type().ToString(),
                                                  " was computed by the exporter, and the file does not say from what: "
                                                  "a parameter, such as a table of positions, or a constant"));
    }
    return "named by an exporter, and read as no weight: a constant";
  }

  // Exporters put constants of one number at this input: the first state of a recurrence that is written out is the
  // left factor of its products, and a group norm is an instance norm with ones and zeros.
  static bool TakesMadeConstants(const onnx::NodeProto& node, int input) {
    if (node.op_type() == "InstanceNormalization") return true;
    return input == 0 && (node.op_type() == "MatMul" || node.op_type() == "Gemm");
  }

  // `made`: the tensor may be such a constant.
  void Look(const std::string& name, const Tensor& tensor, bool made, std::set<std::string>* seen, Use* use) const {
    static const auto* const joining = new std::set<std::string>{"Add", "Sub", "Mul", "Div", "Sum", "Concat"};
    if (!seen->insert(name).second) return;
    for (const Reader& reader : uses_.ReadersOf(name)) {
      const std::string& op = reader.node->op_type();
      const std::string never = NeverOf(op, reader.input);
      if (!never.empty()) {
        use->never = never;
      } else if (MovesOnly(*reader.node, reader.input)) {
        Look(reader.node->output(0), tensor, made, seen, use);
      } else if ((IsWeightOf(op, reader.input) && !(made && TakesMadeConstants(*reader.node, reader.input))) ||
                 IsBehindNorm(uses_, initializers_, reader, tensor)) {
        use->weight = true;
      } else {
        use->other = true;
        use->joins |= joining->contains(op);
      }
    }
  }

  const ImportOptions& options_;
  onnx::GraphProto& graph_;
  InitializersByName& initializers_;
  const Provenance provenance_;
  NodeUses uses_;
  InitializerRoles roles_;
};

}  // namespace

InitializerRoles RolesOfInitializers(const ImportOptions& options, onnx::GraphProto& graph,
                                     InitializersByName& initializers) {
  return RoleFinder(options, graph, initializers).Run();
}

}  // namespace rewright
