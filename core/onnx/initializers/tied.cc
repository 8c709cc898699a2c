#include "core/onnx/initializers/tied.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/onnx/initializers/initializer_uses.h"

namespace rewright {
namespace {

// The least number of elements of tied tables: smaller ones may be equal up to the order of elements by chance.
constexpr int64_t kLeastTied = 17;

bool Fits(const std::function<bool(const std::string&)>& patterns, const std::string& name) {
  return patterns && patterns(name);
}

uint64_t BitsOf(const Tensor& tensor, int64_t element) {
  const size_t size = DTypeSize(tensor.dtype());
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.as<char>() + static_cast<size_t>(element) * size, size);
  return bits;
}

Tensor WithElements(const Tensor& tensor, const Shape& shape, const std::vector<int64_t>& elements) {
  Tensor chosen({tensor.dtype(), shape});
  const size_t size = DTypeSize(tensor.dtype());
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(chosen.as<char>() + i * size, tensor.as<char>() + static_cast<size_t>(elements[i]) * size, size);
  }
  return chosen;
}

// Returns a hash of the elements that does not depend on their order.
uint64_t Fingerprint(const Tensor& tensor) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t bits = (BitsOf(tensor, i) + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    sum += (bits ^ (bits >> 29)) * 0x94d049bb133111eb;
  }
  return sum;
}

bool IsTransposed(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape().size() != 2 || b.shape() != Shape{a.shape()[1], a.shape()[0]}) return false;
  for (int64_t row = 0; row < a.shape()[0]; ++row) {
    for (int64_t column = 0; column < a.shape()[1]; ++column) {
      if (BitsOf(a, row * a.shape()[1] + column) != BitsOf(b, column * a.shape()[0] + row)) return false;
    }
  }
  return true;
}

// Returns the operators that read a tensor, each with the number of its input, past operators that only move elements.
std::set<std::string> KindsOfUses(const NodeUses& uses, const std::string& name) {
  std::set<std::string> kinds, seen;
  std::vector<std::string> names = {name};
  while (!names.empty()) {
    const std::string at = names.back();
    names.pop_back();
    if (!seen.insert(at).second) continue;
    for (const auto& [node, input] : uses.ReadersOf(at)) {
      if (MovesOnly(*node, input)) {
        names.push_back(node->output(0));
      } else {
        kinds.insert(absl::StrCat(node->op_type(), " ", input));
      }
    }
  }
  return kinds;
}

template <typename Entries>
void RemoveNamed(const std::string& name, Entries* entries) {
  for (int i = entries->size() - 1; i >= 0; --i) {
    if (entries->Get(i).name() == name) entries->DeleteSubrange(i, 1);
  }
}

// Replaces an initializer by a node before all others, which computes it from these tensors.
onnx::NodeProto& Replace(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                         onnx::GraphProto& graph, InitializersByName& initializers) {
  RemoveNamed(name, graph.mutable_initializer());
  RemoveNamed(name, graph.mutable_input());  // where old files list initializers, too
  initializers.erase(name);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(name);
  for (int i = graph.node_size() - 1; i > 0; --i) graph.mutable_node()->SwapElements(i, i - 1);
  return node;
}

std::string AddInitializer(std::string name, const Tensor& tensor, onnx::GraphProto& graph,
                           InitializersByName& initializers) {
  while (!initializers.emplace(name, tensor).second) name += "_";
  graph.add_initializer()->set_name(name);
  return name;
}

class CopyJoiner {
 public:
  CopyJoiner(const ImportOptions& options, onnx::GraphProto& graph, InitializersByName& initializers,
             InitializerRoles& roles)
      : options_(options), graph_(graph), initializers_(initializers), roles_(roles), uses_(graph) {}

  void Run() {
    std::map<std::pair<int64_t, uint64_t>, std::vector<std::string>> alike;
    for (const std::string& name : Candidates()) {
      const Tensor& tensor = initializers_.at(name);
      alike[{tensor.num_elements(), Fingerprint(tensor)}].push_back(name);
    }
    for (const auto& [key, names] : alike) {
      std::vector<std::string> kept;
      for (const std::string& name : names) {
        if (!std::any_of(kept.begin(), kept.end(), [&](const std::string& one) { return Join(one, name); })) {
          kept.push_back(name);
        }
      }
    }
  }

 private:
  // Weights come first, and of these the ones that the model named.
  std::vector<std::string> Candidates() const {
    std::vector<std::tuple<bool, bool, int, std::string>> ordered;
    for (const onnx::TensorProto& proto : graph_.initializer()) {
      const std::string& name = proto.name();
      const auto found = initializers_.find(name);
      const bool left = roles_.left.contains(name);
      if (found == initializers_.end() || (left && !roles_.by_name.contains(name))) continue;
      const Tensor& tensor = found->second;
      if (!IsFloating(tensor.dtype()) || tensor.num_elements() < kLeastTied || UniformElement(tensor)) continue;
      ordered.emplace_back(left, IsGeneratedName(name), static_cast<int>(ordered.size()), name);
    }
    std::sort(ordered.begin(), ordered.end());
    std::vector<std::string> names;
    for (const auto& [left, generated, number, name] : ordered) names.push_back(name);
    return names;
  }

  // True if `name` is now `kept`.
  bool Join(const std::string& kept, const std::string& name) {
    const Tensor &a = initializers_.at(kept), &b = initializers_.at(name);
    const bool same = a.type() == b.type() && a.BitEqual(b), turned = !same && IsTransposed(a, b);
    if (!same && !turned) return false;
    if (Fits(options_.parts, kept) || Fits(options_.parts, name)) return false;
    if (roles_.left.contains(kept)) return false;  // constants, both
    const std::string both =
        absl::StrCat("initializers ", kept, " and ", name, " hold the same numbers", turned ? ", transposed: " : ": ");
    if (!turned && !IsGeneratedName(name) && !Fits(options_.shares, kept) && !Fits(options_.shares, name) &&
        KindsOfUses(uses_, kept) == KindsOfUses(uses_, name)) {
      roles_.notes.push_back(
          absl::StrCat(both, "read alike, and taken for two weights that start alike (model.shared makes them one)"));
      return false;
    }
    onnx::NodeProto& node = Replace(name, turned ? "Transpose" : "Identity", {kept}, graph_, initializers_);
    if (turned) {
      onnx::AttributeProto& perm = *node.add_attribute();
      perm.set_name("perm");
      perm.set_type(onnx::AttributeProto::INTS);
      perm.add_ints(1);
      perm.add_ints(0);
    }
    roles_.left.erase(name);
    roles_.undecided.erase(name);
    roles_.notes.push_back(
        absl::StrCat(both, "one weight, trained as ", kept, " (model.parted trains them one by one)"));
    return true;
  }

  const ImportOptions& options_;
  onnx::GraphProto& graph_;
  InitializersByName& initializers_;
  InitializerRoles& roles_;
  const NodeUses uses_;
};

int LongAxes(const Shape& shape) {
  return static_cast<int>(std::count_if(shape.begin(), shape.end(), [](int64_t size) { return size > 1; }));
}

// The shape and the elements that remain after axes along which nothing changes are reduced to one element.
std::pair<Shape, std::vector<int64_t>> WithoutRepeats(const Tensor& tensor) {
  Shape shape = tensor.shape();
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    bool repeats = true;
    for (int64_t i = 0; repeats && i < tensor.num_elements(); ++i) {
      const int64_t at = i / strides[axis] % tensor.shape()[axis];
      repeats = BitsOf(tensor, i) == BitsOf(tensor, i - at * strides[axis]);
    }
    if (repeats) shape[axis] = 1;
  }
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    bool first = true;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      first = first && i / strides[axis] % tensor.shape()[axis] < shape[axis];
    }
    if (first) elements.push_back(i);
  }
  return {shape, elements};
}

// The parameter among those that a tensor was computed from which the file has, too, and whose elements the tensor has,
// once or again and again along leading axes: h W + b of a state h of zeros is b in each row.
std::optional<std::string> RepeatedParameter(const std::set<std::string>& parameters, const std::string& name,
                                             const InitializersByName& initializers, const InitializerRoles& roles) {
  const Tensor& tensor = initializers.at(name);
  std::vector<std::string> found;
  for (const std::string& other : parameters) {
    const auto at = initializers.find(other);
    if (other == name || at == initializers.end() || roles.left.contains(other)) continue;
    const Tensor& parameter = at->second;
    const int64_t count = parameter.num_elements();
    const Shape& shape = parameter.shape();
    const auto start = std::find_if(shape.begin(), shape.end(), [](int64_t size) { return size != 1; });
    const size_t rank = static_cast<size_t>(shape.end() - start);
    bool same = parameter.dtype() == tensor.dtype() && count > 1 && rank <= tensor.shape().size() &&
                std::equal(start, shape.end(), tensor.shape().end() - static_cast<std::ptrdiff_t>(rank));
    for (int64_t i = 0; same && i < tensor.num_elements(); ++i) {
      same = BitsOf(tensor, i) == BitsOf(parameter, i % count);
    }
    // Equal numbers may come from elsewhere, unless they are as often there as repetition makes them.
    if (same && (!UniformElement(tensor) || tensor.num_elements() > count)) found.push_back(other);
  }
  if (found.size() != 1) return std::nullopt;
  return found[0];
}

// Sources that repeat elements, by the names that PyTorch gives to their results.
bool MayRepeat(const std::set<std::string>& sources) {
  return std::any_of(sources.begin(), sources.end(), [](const std::string& name) {
    return absl::StartsWith(name, "expand") || absl::StartsWith(name, "repeat") ||
           absl::StartsWith(name, "embedding") || absl::StartsWith(name, "index") || absl::StartsWith(name, "gather");
  });
}

}  // namespace

void JoinCopies(const ImportOptions& options, onnx::GraphProto& graph, InitializersByName& initializers,
                InitializerRoles& roles) {
  CopyJoiner(options, graph, initializers, roles).Run();
}

void JoinRepeats(const ImportOptions& options, const Provenance& provenance, onnx::GraphProto& graph,
                 InitializersByName& initializers, InitializerRoles& roles) {
  std::vector<std::string> names;
  for (const onnx::TensorProto& proto : graph.initializer()) names.push_back(proto.name());
  for (const std::string& name : names) {
    const auto found = initializers.find(name);
    if (found == initializers.end() || !IsFloating(found->second.dtype()) || roles.left.contains(name) ||
        provenance.ParametersOf(name).empty() || Fits(options.parts, name)) {
      continue;
    }
    const auto parameter = RepeatedParameter(provenance.ParametersOf(name), name, initializers, roles);
    if (parameter && !Fits(options.parts, *parameter)) {
      const Tensor shape = Tensor::Int64s(found->second.shape());
      Replace(name, "Expand", {*parameter, AddInitializer(name + ".shape", shape, graph, initializers)}, graph,
              initializers);
      roles.notes.push_back(absl::StrCat("initializer ", name, " was computed from ", *parameter,
                                         " and has its elements: one weight, trained as ", *parameter,
                                         " (model.parted trains them one by one)"));
      continue;
    }
    if (LongAxes(found->second.shape()) < 2) continue;
    const Tensor tensor = found->second;
    std::set<std::string> sources = provenance.SourcesOf(name);
    if (sources.size() < 2) continue;  // transposed
    const std::string of =
        absl::StrCat("initializer ", name, " was computed from ", *provenance.ParametersOf(name).begin());
    sources.insert(name);
    if (UniformElement(tensor)) {
      if (!MayRepeat(sources) || Fits(options.trains, name)) continue;
      roles.left.emplace(name, "computed from a parameter, and all of its elements are one number");
      roles.undecided.emplace(name, absl::StrCat(of,
                                                 ", and all of its elements are one number: the file does not say "
                                                 "which of them are one element of the parameter"));
      continue;
    }
    const auto [shape, elements] = WithoutRepeats(tensor);
    std::vector<int64_t> distinct, places;
    absl::flat_hash_map<uint64_t, int64_t> numbers;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const auto [at, is_new] = numbers.emplace(BitsOf(tensor, i), std::ssize(distinct));
      if (is_new) distinct.push_back(i);
      places.push_back(at->second);
    }
    // A few elements of a large parameter may be equal by chance.
    const bool scattered = LongAxes(shape) > 1 && 2 * std::ssize(distinct) <= std::ssize(elements);
    if (!scattered && shape == tensor.shape()) continue;
    const std::string once = AddInitializer(
        name + ".once",
        scattered ? WithElements(tensor, {std::ssize(distinct)}, distinct) : WithElements(tensor, shape, elements),
        graph, initializers);
    Tensor second = scattered ? Tensor({DType::kInt64, tensor.shape()}) : Tensor::Int64s(tensor.shape());
    if (scattered) std::copy(places.begin(), places.end(), second.as<int64_t>());
    const std::string repeated = AddInitializer(name + (scattered ? ".places" : ".shape"), second, graph, initializers);
    Replace(name, scattered ? "Gather" : "Expand", {once, repeated}, graph, initializers);
    roles.notes.push_back(absl::StrCat(of, " and repeats its elements: each is trained once, as ", once,
                                       " (model.parted trains ", name, " element by element)"));
  }
}

}  // namespace rewright
