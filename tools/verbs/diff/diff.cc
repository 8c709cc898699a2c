// rewright diff A.onnx B.onnx: how two models differ, in structure and in what they compute.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/onnx/onnx.h"
#include "tools/library/equal_models.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"
#include "tools/verbs/diff/other_inputs.h"
#include "tools/verbs/diff/tensor_diff.h"
#include "tools/verbs/equal/equal_settings.h"
#include "tools/verbs/error/rounding.h"

namespace rewright {
namespace {

constexpr size_t kShownNodes = 8;

struct DiffFlags {
  std::string a;
  std::string b;
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> names;  // of B, as ImportOptions has them
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  std::string device = "cpu";
  Tolerance tolerance;
  bool structure_only = false;
  bool prove = false;
  double time_limit = 60;  // of the proof
};

// The type of an operand, and the elements of a constant: of a long one the first, and a hash of all.
std::string DescribeOperand(const Graph& graph, Value operand) {
  constexpr int64_t kMostElements = 8;
  const Node& node = graph.node(operand.node);
  const std::string type = graph.type(operand).ToString();
  if (node.leaf != LeafKind::kConstant) return type;
  std::vector<std::string> elements;
  for (int64_t i = 0; i < std::min(kMostElements, node.data.num_elements()); ++i) {
    elements.push_back(IsFloating(node.data.dtype()) ? absl::StrFormat("%.9g", node.data.At(i))
                                                     : absl::StrCat(node.data.AtInt(i)));
  }
  if (node.data.num_elements() > kMostElements) elements.push_back(absl::StrFormat("..; #%08x", node.hash >> 32));
  return absl::StrCat(type, " {", absl::StrJoin(elements, ", "), "}");
}

std::string Describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string& name = graph.arena()->name({id, 0});
  std::vector<std::string> operands;
  for (Value operand : node.operands) operands.push_back(DescribeOperand(graph, operand));
  const std::string attrs = AttrsString(node.attrs);
  return absl::StrCat(name.empty() ? "" : name + " = ", node.op->name, "(", absl::StrJoin(operands, ", "),
                      attrs.empty() ? "" : ", ", attrs, ")");
}

// Applications of `graph` that `other` does not have, by what they compute from leaves of the same names. `first`
// lists those of them whose operands both have, or are leaves: where the difference begins.
int CountForeign(const Graph& graph, const Graph& other, std::vector<std::string>* first) {
  absl::flat_hash_set<uint64_t> known;
  for (NodeId id : other.nodes()) known.insert(other.node(id).hash);
  int foreign = 0;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op == nullptr || known.contains(node.hash)) continue;
    ++foreign;
    const bool begins = std::all_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
      const Node& from = graph.node(operand.node);
      return from.op == nullptr || known.contains(from.hash);
    });
    if (begins) first->push_back(Describe(graph, id));
  }
  return foreign;
}

// The weights by name; constants have none.
std::map<std::string, const Tensor*> WeightsOf(const Graph& graph) {
  std::map<std::string, const Tensor*> weights;
  for (Value state : graph.states()) weights[graph.node(state.node).name] = graph.arena()->Elements(state.node);
  return weights;
}

std::string Listed(const std::vector<std::string>& texts) {
  const size_t shown = std::min(texts.size(), kShownNodes);
  return absl::StrCat(absl::StrJoin(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(shown), ", "),
                      shown < texts.size() ? absl::StrFormat(" and %d more", texts.size() - shown) : "");
}

// Weights that one model has alone, and those of one name whose elements differ.
void ReportWeights(const Graph& a, const Graph& b, Console& console) {
  const std::map<std::string, const Tensor*> of_a = WeightsOf(a), of_b = WeightsOf(b);
  std::vector<std::string> changed, only_a, only_b;
  const auto text = [](const std::string& name, const Tensor& tensor) {
    return absl::StrCat(name, " ", tensor.type().ToString());
  };
  for (const auto& [name, tensor] : of_a) {
    const auto other = of_b.find(name);
    if (other == of_b.end() || other->second->type() != tensor->type()) {
      only_a.push_back(text(name, *tensor));
    } else if (!tensor->BitEqual(*other->second)) {
      const TensorDiff diff = DiffTensors(*tensor, *other->second, {});
      changed.push_back(absl::StrFormat("%s (largest difference %.3g)", text(name, *tensor), diff.max_abs_diff));
    }
  }
  for (const auto& [name, tensor] : of_b) {
    const auto other = of_a.find(name);
    if (other == of_a.end() || other->second->type() != tensor->type()) only_b.push_back(text(name, *tensor));
  }
  const auto show = [&](const std::string& where, const std::vector<std::string>& texts) {
    if (!texts.empty()) console.Result(absl::StrFormat("weights %s: %d, %s", where, texts.size(), Listed(texts)));
  };
  show("that differ", changed);
  show("only in A", only_a);
  show("only in B", only_b);
  Json& json = console.json();
  json["weights_that_differ"] = changed;
  json["weights_only_in_a"] = only_a;
  json["weights_only_in_b"] = only_b;
}

// True when both are the same graph; says what is not.
bool ReportStructure(const Graph& a, const Graph& b, Console& console) {
  const std::map<std::string, int> counts_a = CountOperators(a);
  const std::map<std::string, int> counts_b = CountOperators(b);
  std::map<std::string, std::pair<int, int>> both;
  for (const auto& [name, count] : counts_a) both[name].first = count;
  for (const auto& [name, count] : counts_b) both[name].second = count;
  Json changed = Json::object();
  console.Result(absl::StrFormat("nodes:     %d and %d", a.num_applications(), b.num_applications()));
  for (const auto& [name, pair] : both) {
    if (pair.first == pair.second) continue;
    console.Result(absl::StrFormat("  %s: %d and %d (%+d)", name, pair.first, pair.second, pair.second - pair.first));
    changed[name] = {pair.first, pair.second};
  }
  std::vector<std::string> first_a;
  std::vector<std::string> first_b;
  const int only_a = CountForeign(a, b, &first_a);
  const int only_b = CountForeign(b, a, &first_b);
  const auto show = [&](const char* which, int count, const std::vector<std::string>& first) {
    if (count == 0) return;
    console.Result(
        absl::StrFormat("only in %s: %s, beginning with", which, Counted(static_cast<size_t>(count), "node")));
    for (size_t i = 0; i < std::min(first.size(), kShownNodes); ++i) console.Result("  " + first[i]);
    if (first.size() > kShownNodes) console.Result(absl::StrFormat("  and %d more", first.size() - kShownNodes));
  };
  show("A", only_a, first_a);
  show("B", only_b, first_b);
  ReportWeights(a, b, console);
  const bool same = a.CanonicalHash() == b.CanonicalHash();
  console.Result(same ? "structure: the same" : "structure: different");
  Json& json = console.json();
  json["nodes_a"] = a.num_applications();
  json["nodes_b"] = b.num_applications();
  json["same_structure"] = same;
  json["operators_changed"] = std::move(changed);
  json["only_in_a"] = only_a;
  json["only_in_b"] = only_b;
  return same;
}

// Entries of `from` in the order in which `names` has them; every name occurs.
template <typename T>
std::vector<T> Reorder(const std::vector<T>& from, const std::vector<std::string>& from_names,
                       const std::vector<std::string>& names) {
  std::vector<T> result;
  for (const std::string& name : names) {
    const auto at = std::find(from_names.begin(), from_names.end(), name);
    result.push_back(from[at - from_names.begin()]);
  }
  return result;
}

absl::StatusOr<bool> ReportOutputs(const DiffFlags& flags, const ImportedModel& model_a, const ImportedModel& model_b,
                                   Session& session) {
  const Graph &a = model_a.graph, &b = model_b.graph;
  absl::StatusOr<Engine> engine = Engine::Open(flags.device, session.flags.threads, /*profile=*/"");
  if (!engine.ok()) return engine.status();
  for (const ImportedModel* model : {&model_a, &model_b}) engine->Use(*model);
  absl::StatusOr<std::vector<Tensor>> inputs = LoadInputs(model_a, flags.inputs, session.flags.seed);
  if (!inputs.ok()) return inputs.status();
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> run_a, engine->runner().Prepare(a));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> run_b, engine->runner().Prepare(b));
  std::vector<Tensor> expected, actual;
  const auto run_the_other = [&](const std::vector<Tensor>& set) -> absl::Status {
    std::vector<Tensor> of_b;
    RETURN_IF_ERROR(run_b->Run(Reorder(set, InputNames(a), InputNames(b)), &of_b));
    actual = Reorder(of_b, OutputNames(b), OutputNames(a));
    return absl::OkStatus();
  };
  const auto compare = [&] { return DiffOutputs(OutputNames(a), expected, actual, flags.tolerance); };
  RETURN_IF_ERROR(run_a->Run(*inputs, &expected));
  RETURN_IF_ERROR(run_the_other(*inputs));
  OutputsDiff diff = compare();
  std::vector<OtherInputs> others;
  if (flags.inputs.empty()) {
    ASSIGN_OR_RETURN(others, DrawOtherInputs(a, b, *inputs, session.flags.seed));
    // An absolute bound is for outputs of ordinary size.
    if (flags.tolerance.atol >= 0) std::erase_if(others, [](const OtherInputs& set) { return set.moves_reals; });
  }
  std::string where;
  for (const OtherInputs& set : others) {
    if (!diff.equal) break;
    if (!run_a->Run(set.tensors, &expected).ok()) continue;  // it divides by one of them, say
    RETURN_IF_ERROR(run_the_other(set.tensors));
    if (set.moves_reals) actual = WhereNumbersAre(expected, actual);
    const OutputsDiff found = compare();
    if (found.equal) continue;
    const bool counts = !set.moves_reals || LosesNumbers(expected, actual) ||
                        DifferInF64(a, b, set.tensors, flags.tolerance, NumThreads(session.flags.threads));
    if (!counts) continue;
    diff = found;
    where = ", on " + set.kind;
  }
  Console& console = session.console;
  console.Result(absl::StrFormat("outputs:   %s%s, largest difference %.3g (%.3g of the largest element)",
                                 diff.equal ? "equal within tolerance" : "different", where, diff.max_abs_diff,
                                 diff.max_rel_diff));
  if (!diff.worst.empty()) console.Result("worst:     " + diff.worst);
  Json rounding;
  if (const auto line = RoundingLine(a, *inputs, session.flags, console, &rounding)) {
    console.Result("rounding:  " + *line);
    console.json()["rounding"] = rounding;
  }
  Json& json = console.json();
  json["equal"] = diff.equal;
  json["max_abs_diff"] = diff.max_abs_diff;
  json["max_rel_diff"] = diff.max_rel_diff;
  json["worst"] = diff.worst;
  return diff.equal;
}

// True when the models are proved equal, as `equal` proves them.
absl::StatusOr<bool> ReportProof(const DiffFlags& flags, const Graph& a, const Graph& b, Session& session) {
  ASSIGN_OR_RETURN(const OptimizerRules rules, LoadEqualRules({}));
  const InterruptGuard interrupt;
  EqualOptions options = OptionsOfProof(rules, session);
  options.time_limit_s = flags.time_limit;
  options.own_precision = false;
  options.stop = &InterruptGuard::flag();
  ASSIGN_OR_RETURN(const EqualResult result, ProveEqual(a, b, options));
  if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");
  const bool proved = result.equality == Equality::kProved;
  const std::string regions = absl::StrFormat("%d regions proved", result.regions_by_rules + result.regions.size());
  const std::string where = result.difference ? DifferenceText(*result.difference)
                            : proved          ? "over the real numbers, " + regions
                                              : absl::StrFormat("%s, %d left", regions, result.open.size());
  session.console.Result(absl::StrCat("proof:     ", EqualityName(result.equality), ", ", where,
                                      proved ? "" : "; rewright equal tells more"));
  session.console.json()["proof"] = {{"answer", EqualityName(result.equality)}, {"open", result.open.size()}};
  return proved;
}

absl::StatusOr<Answer> Diff(const DiffFlags& flags, Session& session) {
  Console& console = session.console;
  ImportOptions reading = OptionsToRead(flags.dims, flags.device, flags.fold_defaults);
  reading.names = flags.names;
  ASSIGN_OR_RETURN(const auto pair, ReadWhereSizesTell(reading, [&](const ImportOptions& options) {
                     return LoadPair(flags.a, flags.b, options, console, flags.inputs);
                   }));
  const auto& [a, b] = pair;
  const std::map<std::string, int64_t> dims = SizesOfBoth(a, b);
  console.json()["dims"] = dims;
  if (!dims.empty()) console.Result("sizes:     " + absl::StrJoin(dims, ", ", absl::PairFormatter("=")));
  const bool same = ReportStructure(a.graph, b.graph, console);
  if (flags.structure_only) return same ? Answer::kYes : Answer::kNo;
  const std::vector<std::string> interface = InterfaceDifferences(a, b);
  if (!interface.empty()) {
    console.Result(absl::StrCat("outputs:   cannot be compared\n  ", absl::StrJoin(interface, "\n  ")));
    console.json()["equal"] = false;
    console.json()["interface"] = interface;
    return Answer::kNo;
  }
  absl::StatusOr<bool> equal = ReportOutputs(flags, a, b, session);
  if (!equal.ok()) return equal.status();
  if (!flags.prove) return *equal ? Answer::kYes : Answer::kNo;
  ASSIGN_OR_RETURN(const bool proved, ReportProof(flags, a.graph, b.graph, session));
  return proved ? Answer::kYes : Answer::kNo;
}

}  // namespace

Action DeclareDiff(CommandLine& line) {
  auto flags = std::make_shared<DiffFlags>();
  line.Add("a", &flags->a, "The original").Required().Type("A.onnx");
  line.Add("b", &flags->b, "What is compared with it").Required().Type("B.onnx");
  line.AddPairs("--input", &flags->inputs, "An input from a .npy or .pb file (default: random)");
  AddMap(line, &flags->names);
  AddReading(line, &flags->dims, &flags->fold_defaults);
  AddDevice(line, &flags->device, /*with_reference=*/true);
  line.AddReal("--rtol", &flags->tolerance.rtol, 0, 1e9, "Relative tolerance of an element (default 1e-3)");
  line.AddReal("--atol", &flags->tolerance.atol, 0, 1e300,
               "Absolute tolerance (default: 1e-4 times the largest element; 8 roundings of it in 16 bits)");
  const Flag structure =
      line.AddSwitch("--structure-only", &flags->structure_only, "Run nothing; the structures must be the same");
  const Flag prove = line.AddSwitch("--prove", &flags->prove,
                                    "Prove them equal as well, as rewright equal does; only a proof gives status 0")
                         .Excludes(structure);
  line.AddSeconds("--time-limit", &flags->time_limit, kLeastSeconds,
                  "Seconds for that proof, on the clock (default 60)")
      .Needs(prove);
  return [flags](Session& session) { return Diff(*flags, session); };
}

}  // namespace rewright
