#include "substitutions/baseline/baseline.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/data_file.h"
#include "core/base/status_macros.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

// The radius of the region around a node that rules look at.
constexpr int kRadius = 8;

// Which rules of a pass may match at a node, by number: found once for all nodes with equal neighbourhoods.
class Candidates {
 public:
  explicit Candidates(const RuleIndex& rules) : rules_(rules) {}
  const RuleIndex& rules() const { return rules_; }

  std::vector<int>& At(const Graph& graph, NodeId id, uint64_t neighbourhood) {
    const auto [it, fresh] = known_.try_emplace(neighbourhood);
    if (fresh) rules_.Candidates(graph, id, &it->second);
    return it->second;
  }

 private:
  const RuleIndex& rules_;
  absl::flat_hash_map<uint64_t, std::vector<int>> known_;
};

// Places that are left out: rules at values.
using Refused = absl::flat_hash_set<std::pair<std::string, Value>>;

// One walk over a graph: places that do not overlap, to be rewritten all at once.
class OneRound {
 public:
  OneRound(const Graph& graph, const std::vector<uint64_t>& neighbourhoods, const Refused& refused)
      : graph_(graph), neighbourhoods_(neighbourhoods), refused_(refused) {}

  absl::Status Collect(Candidates& candidates, const std::set<std::string>& without, int64_t limit) {
    const auto& matchers = candidates.rules().matchers();
    std::vector<std::vector<size_t>> places(matchers.size());  // by rule
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id = graph_.nodes()[i];
      if (!graph_.IsRun(graph_.node(id))) continue;
      for (int rule : candidates.At(graph_, id, neighbourhoods_[i])) places[rule].push_back(i);
    }
    for (size_t rule = 0; rule < matchers.size(); ++rule) {
      const Matcher& matcher = *matchers[rule];
      const std::string& name = matcher.rule().name();
      if (without.contains(name) || without.contains(RuleOfOperator(name))) continue;
      for (size_t place : places[rule]) {
        const NodeId id = graph_.nodes()[place];
        if (static_cast<int64_t>(steps_.size()) >= limit) return absl::OkStatus();
        if (claimed_.contains(id)) continue;
        std::vector<int>& alike = candidates.At(graph_, id, neighbourhoods_[place]);
        if (std::find(alike.begin(), alike.end(), static_cast<int>(rule)) == alike.end()) continue;
        const absl::StatusOr<bool> matches = Visit(matcher, id);
        if (!matches.ok()) return matches.status();
        if (!*matches) std::erase(alike, static_cast<int>(rule));
      }
    }
    return absl::OkStatus();
  }

  bool empty() const { return steps_.empty(); }
  // Places where a rule applies and leaves no more applications than before.
  const std::vector<BaselineStep>& steps() const { return steps_; }

  // All places, or the first alone where together they would make a value depend on itself.
  absl::StatusOr<Graph> Rewrite() {
    ValueMap all;
    for (const BaselineStep& step : steps_) all.insert(step.replacement.begin(), step.replacement.end());
    absl::StatusOr<Graph> rewritten = ReplaceEverywhere(graph_, all);
    if (rewritten.ok() || steps_.size() == 1) return rewritten;
    steps_.resize(1);
    return RewriteAt(steps_[0]);
  }

  // The places that by themselves lead to a graph which is not admitted; all of them if none does.
  Refused NotAdmitted(const std::function<bool(const Graph&)>& admits) const {
    Refused places, all;
    for (const BaselineStep& step : steps_) {
      const absl::StatusOr<Graph> alone = RewriteAt(step);
      all.insert({step.rule, step.replacement[0].first});
      if (!alone.ok() || !admits(*alone)) places.insert({step.rule, step.replacement[0].first});
    }
    return places.empty() ? all : places;
  }

 private:
  absl::StatusOr<Graph> RewriteAt(const BaselineStep& step) const {
    return ReplaceValues(graph_, ValueMap(step.replacement.begin(), step.replacement.end()));
  }

  // Records a step if the rule applies at the node and is wanted there. Returns true if it matches at all.
  absl::StatusOr<bool> Visit(const Matcher& matcher, NodeId id) {
    std::vector<Match> matches;
    matcher.MatchAt(graph_, id, &matches);
    for (const Match& match : matches) {
      const absl::StatusOr<ValueMap> replacement = BuildReplacement(graph_, match, &numerics_);
      if (absl::IsOutOfRange(replacement.status())) continue;
      if (!replacement.ok()) return replacement.status();
      BaselineStep step{matcher.rule().name(), {}, MatchedNodes(match)};
      for (Value root : match.roots) {
        if (auto it = replacement->find(root); it != replacement->end()) step.replacement.emplace_back(*it);
      }
      if (step.replacement.empty() || Overlaps(step) || NodesAdded(step) > NodesRemoved(step, *replacement)) continue;
      if (refused_.contains({step.rule, step.replacement[0].first})) continue;
      claimed_.insert(step.matched.begin(), step.matched.end());
      steps_.push_back(std::move(step));
      break;
    }
    return !matches.empty();
  }

  // Applications that the left side covers and that run, users before operands.
  std::vector<NodeId> MatchedNodes(const Match& match) const {
    std::set<std::pair<int, NodeId>> nodes;
    for (int i = 0; i < match.rule->num_lhs_nodes(); ++i) {
      const size_t at = i;
      const NodeId id = match.nodes[at].node;
      if (match.rule->nodes()[at].op != nullptr && graph_.IsRun(graph_.node(id))) nodes.insert({-graph_.index(id), id});
    }
    std::vector<NodeId> ids;
    for (const auto& [position, id] : nodes) ids.push_back(id);
    return ids;
  }

  bool Overlaps(const BaselineStep& step) const {
    return std::any_of(step.matched.begin(), step.matched.end(), [&](NodeId id) { return claimed_.contains(id); });
  }

  // New applications that run.
  int NodesAdded(const BaselineStep& step) const {
    absl::flat_hash_set<NodeId> seen;
    std::vector<NodeId> stack;
    for (const auto& [from, to] : step.replacement) stack.push_back(to.node);
    int added = 0;
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (graph_.contains(id) || !seen.insert(id).second) continue;
      const Node& node = graph_.node(id);
      added += graph_.IsRun(node);
      for (Value operand : node.operands) stack.push_back(operand.node);
    }
    return added;
  }

  // Matched applications that nothing reads any more.
  int NodesRemoved(const BaselineStep& step, const ValueMap& replacement) const {
    absl::flat_hash_set<NodeId> removed;
    for (NodeId id : step.matched) {
      const Node& node = graph_.node(id);
      bool read = false;
      for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()) && !read; ++k) {
        const Value value{id, k};
        if (replacement.contains(value)) continue;
        read = graph_.is_output(value);
        for (int user : graph_.users(graph_.index(id))) {
          const NodeId reader = graph_.nodes()[user];
          if (removed.contains(reader)) continue;
          const std::vector<Value>& operands = graph_.node(reader).operands;
          read |= std::find(operands.begin(), operands.end(), value) != operands.end();
        }
      }
      if (!read) removed.insert(id);
    }
    return static_cast<int>(removed.size());
  }

  const Graph& graph_;
  Numerics numerics_;
  const std::vector<uint64_t>& neighbourhoods_;  // by position
  const Refused& refused_;
  std::vector<BaselineStep> steps_;
  absl::flat_hash_set<NodeId> claimed_;
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file) content << file.rdbuf();
  if (!file || file.bad()) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  return content.str();
}

}  // namespace

absl::StatusOr<std::vector<BaselinePass>> ParseBaselinePasses(const std::string& text, const std::string& file) {
  std::vector<BaselinePass> passes;
  std::set<std::string> seen;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    const auto error = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat(file, ":", number, ": ", what));
    };
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
    const std::string rest = words.size() < 2 ? "" : std::string(absl::StripAsciiWhitespace(words[1]));
    if (words[0] == "pass") {
      if (rest.empty()) return error("found `pass`, expected `pass NAME`");
      passes.push_back({rest, {}});
      continue;
    }
    if (passes.empty()) return error(absl::StrCat("found `", words[0], "`, expected `pass NAME` first"));
    if (rest.empty()) return error(absl::StrCat("rule ", words[0], " has no source: expected compiler and pass"));
    if (!seen.insert(words[0]).second) return error(absl::StrCat("rule ", words[0], " stands in two places"));
    passes.back().entries.push_back({words[0], rest});
  }
  return passes;
}

absl::StatusOr<Baseline> Baseline::Load(const LoadOptions& options, RuleReader* reader) {
  absl::StatusOr<std::string> passes = FindDataFile("baseline/passes.txt", REWRIGHT_SUBSTITUTIONS_DIR);
  if (!passes.ok()) return passes.status();
  absl::StatusOr<std::string> own = FindDataFile("baseline/baseline.rules", REWRIGHT_SUBSTITUTIONS_DIR);
  if (!own.ok()) return own.status();
  absl::StatusOr<std::string> core = FindRuleFile("core.rules"), laws = FindRuleFile("laws.rules");
  if (!core.ok()) return core.status();
  if (!laws.ok()) return laws.status();
  return Load(*passes, {*core, *laws, *own}, options, reader);
}

absl::StatusOr<Baseline> Baseline::Load(const std::string& passes_file, const std::vector<std::string>& rule_files,
                                        const LoadOptions& options, RuleReader* reader) {
  RuleReader own;
  if (reader == nullptr) reader = &own;
  absl::StatusOr<std::string> text = ReadText(passes_file);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::vector<BaselinePass>> passes = ParseBaselinePasses(*text, passes_file);
  if (!passes.ok()) return passes.status();

  std::set<std::string> known;
  for (const std::string& file : rule_files) {
    ASSIGN_OR_RETURN(const std::vector<Rule>* const rules, reader->Read(file));
    for (const Rule& rule : *rules) known.insert(rule.name);
  }
  std::set<std::string> unused = known;
  for (const BaselinePass& pass : *passes) {
    for (const BaselinePass::Entry& entry : pass.entries) {
      if (!known.count(entry.rule)) {
        return absl::NotFoundError(absl::StrCat(passes_file, ": no rule file has a rule ", entry.rule));
      }
      unused.erase(entry.rule);
    }
  }
  LoadOptions only = options;
  std::erase_if(only.disabled, [&](const std::string& name) { return !known.contains(name); });
  only.disabled.insert(only.disabled.end(), unused.begin(), unused.end());
  absl::StatusOr<RuleSet> set = RuleSet::FromFiles(rule_files, only, reader);
  if (!set.ok()) return set.status();

  std::map<std::string, std::vector<std::shared_ptr<const Matcher>>> by_name;
  for (const auto& matcher : set->matchers()) by_name[RuleOfOperator(matcher->rule().name())].push_back(matcher);
  Baseline baseline;
  for (const BaselinePass& pass : *passes) {
    std::vector<std::shared_ptr<const Matcher>> matchers;
    for (const BaselinePass::Entry& entry : pass.entries) {
      const auto& named = by_name[entry.rule];
      matchers.insert(matchers.end(), named.begin(), named.end());
    }
    baseline.indices_.emplace_back(std::move(matchers));
  }
  baseline.passes_ = *std::move(passes);
  baseline.rule_files_ = rule_files;
  return baseline;
}

std::vector<std::shared_ptr<const Matcher>> Baseline::matchers() const {
  std::vector<std::shared_ptr<const Matcher>> all;
  for (const RuleIndex& pass : indices_) all.insert(all.end(), pass.matchers().begin(), pass.matchers().end());
  return all;
}

absl::StatusOr<BaselineResult> Baseline::Apply(const Graph& graph, int64_t max_steps,
                                               const std::set<std::string>& without, NodeSignatures* signatures,
                                               const std::function<bool(const Graph&)>& admits) const {
  // A transpose may move past every node on its way to the outputs.
  const int64_t nodes = graph.num_runtime_nodes();
  if (max_steps <= 0) max_steps = 1000 + nodes * nodes;
  BaselineResult result;
  std::map<std::string, int> counts;
  std::vector<Candidates> passes(indices_.begin(), indices_.end());
  NodeSignatures own_signatures;
  if (signatures == nullptr) signatures = &own_signatures;
  std::vector<uint64_t> neighbourhoods = NeighbourhoodSignatures(graph, *signatures, kRadius);
  Refused refused;
  bool changed = true;
  while (changed && result.steps < max_steps) {
    changed = false;
    for (Candidates& pass : passes) {
      while (result.steps < max_steps) {
        OneRound round(result.rounds.empty() ? graph : result.rounds.back().after, neighbourhoods, refused);
        RETURN_IF_ERROR(round.Collect(pass, without, max_steps - result.steps));
        if (round.empty()) break;
        absl::StatusOr<Graph> rewritten = round.Rewrite();
        if (!rewritten.ok()) return rewritten.status();
        if (admits && !admits(*rewritten)) {
          refused.merge(round.NotAdmitted(admits));
          continue;
        }
        for (const BaselineStep& step : round.steps()) ++counts[RuleOfOperator(step.rule)];
        result.steps += static_cast<int64_t>(round.steps().size());
        neighbourhoods = NeighbourhoodSignatures(*rewritten, *signatures, kRadius);
        result.rounds.push_back({round.steps(), *std::move(rewritten)});
        changed = true;
      }
    }
  }
  result.graph = result.rounds.empty() ? graph : result.rounds.back().after;
  result.fixed_point = !changed;
  for (const BaselinePass& pass : passes_) {
    for (const BaselinePass::Entry& entry : pass.entries) {
      if (auto it = counts.find(entry.rule); it != counts.end()) result.rewrites.push_back({entry.rule, it->second});
    }
  }
  return result;
}

}  // namespace rewright
