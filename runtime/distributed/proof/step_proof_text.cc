#include "runtime/distributed/proof/step_proof_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "runtime/distributed/plan_text.h"

namespace rewright::distributed {
namespace {

constexpr char kSeal[] = "seal ";
constexpr char kSection[] = "== ";
constexpr char kGraph[] = "graph\n";
constexpr int kMostDevices = 1 << 20;

std::string PrintCut(const std::string& of, const CutByLaws& cut) {
  std::string text = absl::StrCat(kSection, "cut ", of, " degree ", cut.degree, cut.exact_only ? " exact" : "",
                                  cut.takes_blocks ? " blocks" : "", "\n");
  for (const auto& [name, axis] : cut.axes) absl::StrAppend(&text, name, ":", axis, "\n");
  absl::StrAppend(&text, kGraph, PrintGraph(cut.graph));
  return text;
}

absl::Status Expected(const std::string& section, const std::string& found, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(section, ": found `", found, "`, expected ", expected));
}

absl::StatusOr<Graph> GraphOf(const std::string& section, const std::string& text) {
  auto graph = ParseGraph(text);
  if (!graph.ok()) return ErrorAt(section, graph.status());
  return graph;
}

// `flags` are the words behind the degree.
absl::StatusOr<CutByLaws> ParseCut(const std::string& section, const std::string& degree,
                                   const std::vector<std::string>& flags, const std::string& body) {
  CutByLaws cut;
  if (!absl::SimpleAtoi(degree, &cut.degree) || cut.degree < 1 || cut.degree > kMostDevices) {
    return Expected(section, degree, "a number of devices");
  }
  for (const std::string& flag : flags) {
    if (flag != "exact" && flag != "blocks") return Expected(section, flag, "exact or blocks");
    (flag == "exact" ? cut.exact_only : cut.takes_blocks) = true;
  }
  size_t at = 0;
  while (at < body.size() && body.compare(at, sizeof(kGraph) - 1, kGraph) != 0) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    const size_t colon = line.rfind(':');
    int axis = 0;
    if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(line.substr(colon + 1), &axis) || axis < 0 ||
        axis >= kMaxRank) {
      return Expected(section, line, "NAME:AXIS");
    }
    cut.axes.emplace_back(line.substr(0, colon), axis);
    at = end + 1;
  }
  if (at >= body.size()) return Expected(section, "the end", "a line `graph`");
  ASSIGN_OR_RETURN(cut.graph, GraphOf(section, body.substr(at + sizeof(kGraph) - 1)));
  return cut;
}

// The parts of a text, put into a proof one by one.
class Reader {
 public:
  absl::Status Take(const std::string& section, const std::string& body) {
    const std::vector<std::string> words = absl::StrSplit(section, ' ');
    const std::string& kind = words[0];
    if (kind == "law" && words.size() == 1) {
      proof_.laws.push_back(body.substr(0, body.find('\n')));
      return absl::OkStatus();
    }
    if (kind == "plan" && words.size() == 1) {
      auto plan = ParsePlan(body);
      if (!plan.ok()) return ErrorAt(section, plan.status());
      step_.plan = *std::move(plan);
      return Once(section);
    }
    if (kind == "owners" && words.size() == 1) return TakeOwners(section, body);
    if (kind == "loads" && words.size() == 1) return TakeLoads(section, body);
    if (kind == "subgraph" && words.size() == 2) {
      ASSIGN_OR_RETURN(const int number, Number(section, words[1]));
      ASSIGN_OR_RETURN(subgraphs_[number], GraphOf(section, body));
      return Once(section);
    }
    if (kind == "cut" && words.size() >= 4) return TakeCut(section, words, body);
    Graph* const graph = kind == "gradients" ? &step_.gradients
                         : kind == "step"    ? &step_.step
                         : kind == "model"   ? &model_.model
                                             : nullptr;
    if (graph == nullptr || words.size() != 1) return Expected("proof", section, "a section");
    ASSIGN_OR_RETURN(*graph, GraphOf(section, body));
    return Once(section);
  }

  absl::StatusOr<ProofText> Done() {
    if (seen_.contains("model")) {
      if (model_.cut.graph.arena() == nullptr) return Expected("proof", "the end", "a section cut model");
      proof_.model = std::move(model_);
      return std::move(proof_);
    }
    for (const char* section : {"gradients", "step", "plan"}) {
      if (!seen_.contains(section)) return Expected("proof", "the end", absl::StrCat("a section ", section));
    }
    step_.subgraphs.resize(step_.plan.subgraphs.size());
    for (auto& [number, graph] : subgraphs_) {
      if (number >= static_cast<int>(step_.subgraphs.size())) {
        return Expected("proof", absl::StrCat("subgraph ", number), "one of the plan");
      }
      step_.subgraphs[number] = std::move(graph);
    }
    proof_.step = std::move(step_);
    return std::move(proof_);
  }

 private:
  absl::Status Once(const std::string& section) {
    if (seen_.insert(section).second) return absl::OkStatus();
    return Expected("proof", section, "it once");
  }
  static absl::StatusOr<int> Number(const std::string& section, const std::string& word) {
    int number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < 0) return Expected(section, word, "the number of a subgraph");
    return number;
  }

  absl::Status TakeOwners(const std::string& section, const std::string& body) {
    for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
      const size_t space = line.rfind(' ');
      int rank = 0;
      if (space == absl::string_view::npos || !absl::SimpleAtoi(line.substr(space + 1), &rank) || rank < 0) {
        return Expected(section, std::string(line), "NAME RANK");
      }
      step_.owners[std::string(line.substr(0, space))] = rank;
    }
    return Once(section);
  }

  absl::Status TakeLoads(const std::string& section, const std::string& body) {
    for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
      step_.loads.emplace_back();
      for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
        int64_t number = 0;
        if (!absl::SimpleAtoi(word, &number)) return Expected(section, std::string(word), "a micro-batch");
        step_.loads.back().push_back(number);
      }
    }
    return Once(section);
  }

  // "cut subgraph 0 degree 2", "cut update degree 4 exact", "cut model degree 2"
  absl::Status TakeCut(const std::string& section, const std::vector<std::string>& words, const std::string& body) {
    const bool of_subgraph = words[1] == "subgraph";
    const size_t at = of_subgraph ? 3 : 2;  // of "degree"
    const bool known = of_subgraph || words[1] == "update" || words[1] == "model";
    if (!known || words.size() < at + 2 || words[at] != "degree") return Expected("proof", section, "a section");
    ASSIGN_OR_RETURN(
        CutByLaws cut,
        ParseCut(section, words[at + 1],
                 std::vector<std::string>(words.begin() + static_cast<int64_t>(at) + 2, words.end()), body));
    if (of_subgraph) {
      ASSIGN_OR_RETURN(const int number, Number(section, words[2]));
      step_.passes[number] = std::move(cut);
      return Once(absl::StrCat("cut subgraph ", number));
    }
    if (words[1] == "model") {
      model_.cut = std::move(cut);
    } else {
      step_.update = std::move(cut);
    }
    return Once(absl::StrCat("cut ", words[1]));
  }

  ProofText proof_;
  StepClaim step_;
  ModelClaim model_;
  std::map<int, Graph> subgraphs_;
  std::set<std::string> seen_;
};

}  // namespace

std::string PrintProof(const ProofText& proof) {
  std::string text = kStepProofHead;
  const auto section = [&](const std::string& name, const std::string& body) {
    absl::StrAppend(&text, kSection, name, "\n", body);
  };
  for (const std::string& law : proof.laws) section("law", law + "\n");
  if (proof.model) {
    section("model", PrintGraph(proof.model->model));
    absl::StrAppend(&text, PrintCut("model", proof.model->cut));
  }
  if (proof.step) {
    section("gradients", PrintGraph(proof.step->gradients));
    section("step", PrintGraph(proof.step->step));
    section("plan", PrintPlan(proof.step->plan));
    for (size_t k = 0; k < proof.step->subgraphs.size(); ++k) {
      const Graph& graph = proof.step->subgraphs[k];
      if (graph.arena() != nullptr && !graph.outputs().empty()) {
        section(absl::StrCat("subgraph ", k), PrintGraph(graph));
      }
    }
    for (const auto& [number, cut] : proof.step->passes) {
      absl::StrAppend(&text, PrintCut(absl::StrCat("subgraph ", number), cut));
    }
    if (proof.step->update) absl::StrAppend(&text, PrintCut("update", *proof.step->update));
    std::string owners;
    for (const auto& [name, rank] : proof.step->owners) absl::StrAppend(&owners, name, " ", rank, "\n");
    if (!owners.empty()) section("owners", owners);
    std::string loads;
    for (const std::vector<int64_t>& load : proof.step->loads) absl::StrAppend(&loads, absl::StrJoin(load, " "), "\n");
    section("loads", loads);
  }
  return absl::StrCat(text, kSeal, Sha256::HexOf(text), "\n");
}

absl::StatusOr<ProofText> ParseProof(const std::string& text) {
  if (!absl::StartsWith(text, kStepProofHead)) {
    return Expected("proof", text.substr(0, text.find('\n')), "rewright step proof 1");
  }
  const size_t seal = text.rfind(std::string("\n") + kSeal);
  if (seal == std::string::npos) return Expected("proof", "the end", "a seal");
  const std::string sealed = text.substr(0, seal + 1);
  const std::string found = text.substr(seal + 1), expected = absl::StrCat(kSeal, Sha256::HexOf(sealed), "\n");
  if (found != expected)
    return Expected("proof", found.substr(0, found.find('\n')), expected.substr(0, expected.size() - 1));
  Reader reader;
  size_t at = sizeof(kStepProofHead) - 1;
  while (at < sealed.size()) {
    const size_t end = sealed.find('\n', at);
    const std::string head = sealed.substr(at, end - at);
    if (!absl::StartsWith(head, kSection)) return Expected("proof", head, "a section");
    const size_t next = std::min(sealed.find(std::string("\n") + kSection, end), sealed.size() - 1);
    RETURN_IF_ERROR(reader.Take(head.substr(sizeof(kSection) - 1), sealed.substr(end + 1, next - end)));
    at = next + 1;
  }
  return reader.Done();
}

}  // namespace rewright::distributed
