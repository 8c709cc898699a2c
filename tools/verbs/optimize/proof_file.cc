#include "tools/verbs/optimize/proof_file.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/onnx/part.h"
#include "search/replay/replay.h"
#include "substitutions/language/number.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/match/applier.h"
#include "tools/program/console.h"

namespace rewright {
namespace {

// Elements of a constant that no tensor of the file has, if they differ.
constexpr int64_t kMostElements = 1 << 16;

absl::Status CannotTell(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("--proof: ", why, "; nothing is written"));
}

// A number; text where JSON has none.
Json NumberJson(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json AttrJson(const Attr& attr) {
  if (const auto* integer = std::get_if<int64_t>(&attr)) return *integer;
  if (const auto* real = std::get_if<double>(&attr)) return NumberJson(*real);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) return *list;
  return DTypeName(std::get<DType>(attr));
}

Json ElementJson(const Tensor& tensor, int64_t at) {
  if (IsFloating(tensor.dtype())) return NumberJson(tensor.At(at));
  if (tensor.dtype() == DType::kUInt64) return static_cast<uint64_t>(tensor.AtInt(at));
  return tensor.AtInt(at);
}

class ProofWriter {
 public:
  explicit ProofWriter(const ImportedModel& original) : arena_(*original.graph.arena()) {
    for (Value input : original.graph.inputs()) tensors_.emplace(input, arena_.node(input.node).name);
    if (original.source == nullptr) return;
    for (const FileNode& node : FileNodes(*original.source)) {
      for (const std::string& name : node.reads) Note(*original.source, name);
      for (const std::string& name : node.outputs) Note(*original.source, name);
    }
  }

  absl::StatusOr<std::string> Write(const ImportedModel& original, const OptimizedModel& result,
                                    const OptimizerRules& rules) {
    Line({{"proof", 1}, {"sizes", original.dims}, {"rewritten", result.report.rewritten}});
    if (!result.report.rewritten) return std::move(text_);
    const OptimizeReport& report = result.report;
    ASSIGN_OR_RETURN(const std::vector<ReplayStep> steps,
                     MakeReplay(original.graph, report.search.trace, report.path, rules.all));
    Graph graph = original.graph;
    for (size_t i = 0; i < steps.size(); ++i) {
      absl::StatusOr<Graph> next = WriteStep(graph, steps[i], rules.all);
      if (!next.ok()) {
        return CannotTell(
            absl::StrCat("step ", i + 1, " of ", steps.size(), ", by ", steps[i].rule, ": ", next.status().message()));
      }
      graph = *std::move(next);
    }
    for (size_t k = 0; k < graph.outputs().size(); ++k) {
      if (graph.outputs()[k].value != report.graph.outputs()[k].value) {
        return CannotTell("the steps of the search do not lead to the result");
      }
    }
    for (const auto& [name, written] : result.written.initializers) {
      ASSIGN_OR_RETURN(const Value value, InResult(written, result));
      // A weight of the file that was read is found again by its elements.
      if (arena_.node(value.node).leaf == LeafKind::kState && tensors_.contains(value)) continue;
      ASSIGN_OR_RETURN(const int number, NumberOf(value));
      Line({{"weight", name}, {"is", number}});
    }
    return std::move(text_);
  }

 private:
  // A file that keeps names of sizes is written from a sample of the graph at other sizes: the same nodes in the same
  // order.
  static absl::StatusOr<Value> InResult(Value written, const OptimizedModel& result) {
    if (result.named.graph == nullptr) return written;
    const Graph& graph = result.report.graph;
    const Graph& sample = result.named.graph->samples[0].graph;
    const auto at = static_cast<size_t>(sample.index(written.node));
    const bool alike = sample.nodes().size() == graph.nodes().size() &&
                       sample.node(written.node).op == graph.node(graph.nodes()[at]).op;
    if (!alike) return CannotTell("the file that keeps names of sizes is made of another graph");
    return Value{graph.nodes()[at], written.output};
  }

  void Note(const OnnxSource& source, const std::string& name) {
    if (name.empty()) return;
    if (const std::optional<Value> value = FileValue(source, name)) tensors_.emplace(*value, name);
  }

  void Line(const Json& json) { absl::StrAppend(&text_, json.dump(), "\n"); }

  int Describe(Json what) {
    Json line = {{"value", ++last_}};
    line.update(what);
    Line(line);
    return last_;
  }

  absl::StatusOr<int> NumberOf(Value value) {
    if (const auto found = numbers_.find(value); found != numbers_.end()) return found->second;
    const Node& node = arena_.node(value.node);
    int number = 0;
    if (const auto named = tensors_.find(value); named != tensors_.end()) {
      number = Describe({{"tensor", named->second}});
    } else if (node.op == nullptr) {
      ASSIGN_OR_RETURN(number, NumberOfLeaf(value));
    } else if (node.outputs.size() == 1) {
      ASSIGN_OR_RETURN(number, NumberOfApplication(value.node));
    } else {
      ASSIGN_OR_RETURN(const int application, NumberOfApplication(value.node));
      number = Describe({{"output", value.output}, {"of", application}});
    }
    numbers_.emplace(value, number);
    return number;
  }

  absl::StatusOr<int> NumberOfLeaf(Value value) {
    const Tensor* elements = arena_.Elements(value.node);
    if (elements == nullptr)
      return CannotTell(absl::StrCat("the value ", arena_.node(value.node).name, " is no tensor of the file"));
    Json json = {{"constant", DTypeName(elements->dtype())}, {"shape", elements->shape()}};
    if (AllElementsSame(*elements)) {
      json["every"] = ElementJson(*elements, 0);
      return Describe(std::move(json));
    }
    if (elements->num_elements() > kMostElements) {
      return CannotTell(absl::StrCat("a constant of type ", elements->type().ToString(), " is no tensor of the file"));
    }
    Json& list = json["elements"] = Json::array();
    for (int64_t i = 0; i < elements->num_elements(); ++i) list.push_back(ElementJson(*elements, i));
    return Describe(std::move(json));
  }

  absl::StatusOr<int> NumberOfApplication(NodeId id) {
    if (const auto found = applications_.find(id); found != applications_.end()) return found->second;
    const Node& node = arena_.node(id);
    Json operands = Json::array();
    for (Value operand : node.operands) {
      ASSIGN_OR_RETURN(const int number, NumberOf(operand));
      operands.push_back(number);
    }
    Json attributes = Json::object();
    for (const auto& [name, attr] : node.attrs) attributes[name] = AttrJson(attr);
    const int number = Describe({{"operator", node.op->name}, {"operands", operands}, {"attributes", attributes}});
    applications_.emplace(id, number);
    return number;
  }

  // The number of what a node of the left side matched: all outputs of an application.
  absl::StatusOr<int> NumberOfNode(Value value) {
    const Node& node = arena_.node(value.node);
    return node.op != nullptr && node.outputs.size() > 1 ? NumberOfApplication(value.node) : NumberOf(value);
  }

  void WriteLaw(const Rule& rule) {
    const std::string name = RuleOfOperator(rule.name);
    if (!laws_.insert(name).second) return;
    Line({{"law", name}, {"record", rule.proof ? absl::StrFormat("%016x", rule.proof->spec_hash) : ""}});
  }

  absl::StatusOr<Graph> WriteStep(const Graph& graph, const ReplayStep& step, const RuleIndex& rules) {
    if (!step.replacement.empty()) return absl::FailedPreconditionError("no matches of rules were found that make it");
    const Matcher* matcher = FindMatcher(rules, step.rule);
    if (matcher == nullptr) return absl::FailedPreconditionError("there is no such rule");
    std::vector<Match> matches;
    matcher->MatchAt(graph, graph.nodes()[static_cast<size_t>(step.node)], &matches);
    if (step.match >= static_cast<int>(matches.size())) return absl::FailedPreconditionError("it does not match there");
    const Match& match = matches[static_cast<size_t>(step.match)];
    ASSIGN_OR_RETURN(const ValueMap replacement, BuildReplacement(graph, match));
    WriteLaw(matcher->rule().rule());
    const CompiledRule& rule = *match.rule;
    Json variables = Json::object(), constants = Json::array(), applications = Json::array();
    for (size_t i = 0; i < match.nodes.size(); ++i) {
      const RuleNode& node = rule.nodes()[i];
      ASSIGN_OR_RETURN(const int number, node.op == nullptr ? NumberOf(match.nodes[i]) : NumberOfNode(match.nodes[i]));
      if (node.op != nullptr) {
        applications.push_back(number);
      } else if (node.value) {
        constants.push_back(number);
      } else {
        variables[node.name] = number;
      }
    }
    Json replaced = Json::array();
    for (Value root : match.roots) {
      for (int32_t k = 0; k < static_cast<int32_t>(arena_.node(root.node).outputs.size()); ++k) {
        const Value value{root.node, k};
        const auto made = replacement.find(value);
        if (made == replacement.end()) continue;
        ASSIGN_OR_RETURN(const int from, NumberOf(value));
        ASSIGN_OR_RETURN(const int to, NumberOf(made->second));
        replaced.push_back({from, to});
      }
    }
    Json sizes = Json::object(), packs = Json::object(), attributes = Json::object();
    for (size_t i = 0; i < rule.sizes().size(); ++i) sizes[rule.sizes()[i]] = match.bindings.sizes[i];
    for (size_t i = 0; i < rule.packs().size(); ++i) packs[rule.packs()[i]] = match.bindings.packs[i];
    for (size_t i = 0; i < rule.attrs().size(); ++i)
      attributes[rule.attrs()[i].name] = AttrJson(match.bindings.attrs[i]);
    const std::string &name = matcher->rule().name(), in_file = RuleOfOperator(name);
    Json line = {{"step", in_file}};
    if (name != in_file) line["for"] = name.substr(in_file.size() + 1);
    if (matcher->rule().siblings()) line["siblings"] = match.roots.size();
    line["variables"] = variables;
    line["constants"] = constants;
    line["sizes"] = sizes;
    line["packs"] = packs;
    line["attributes"] = attributes;
    line["matched"] = applications;
    line["replaced"] = replaced;
    Line(line);
    return ReplaceValues(graph, replacement);
  }

  const Arena& arena_;
  absl::flat_hash_map<Value, std::string> tensors_;  // of the file
  absl::flat_hash_map<Value, int> numbers_;
  absl::flat_hash_map<NodeId, int> applications_;  // with several outputs
  std::set<std::string> laws_;
  int last_ = 0;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> ProofText(const ImportedModel& original, const OptimizedModel& result,
                                      const OptimizerRules& rules) {
  if (result.narrowing && result.narrowing->graph) return CannotTell("nodes were made narrow within a tolerance");
  if (result.report.rewritten && !result.written.bytes) return CannotTell("the weights need a file of their own");
  return ProofWriter(original).Write(original, result, rules);
}

}  // namespace rewright
