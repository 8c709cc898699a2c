// rewright explain MODEL: where rules apply and what that gains, or why they do not.

#include "search/explain/explain.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "core/base/counted.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "tools/library/optimizer_rules.h"
#include "tools/program/flags.h"
#include "tools/program/interrupt.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {
namespace {

constexpr size_t kShownPlaces = 8;  // of a rule and of a kind of answer, where neither a rule nor a node is named

struct ExplainFlags {
  std::string model;
  std::vector<std::string> rules;
  std::string node;
  RuleSettings settings;
  std::string device = "cpu", precision = "f32", profile, cost = "measured";
  std::map<std::string, int64_t> dims;
  std::map<std::string, Interval> ranges;
  bool fold_defaults = false;
  bool move_roundings = false;
};

// "r:relu" is the rule r about any operator, for one of them.
bool IsCalled(const std::string& rule, const std::string& name) {
  return rule == name || absl::StartsWith(rule, name + ":");
}

std::vector<std::string> NamesOf(const RuleIndex& rules) {
  std::vector<std::string> names;
  for (const auto& matcher : rules.matchers()) names.push_back(matcher->rule().name());
  return names;
}

bool HasRule(const RuleSettings& settings, const std::string& name) {
  const absl::StatusOr<OptimizerRules> loaded = LoadOptimizerRules(settings);
  if (!loaded.ok()) return false;
  const std::vector<std::string> names = NamesOf(loaded->all);
  return std::any_of(names.begin(), names.end(), [&](const std::string& rule) { return IsCalled(rule, name); });
}

// The reason why `optimize` with these settings does not have a rule; empty: no file has it.
std::string WhyNotLoaded(RuleSettings settings, const std::string& name) {
  const std::vector<std::string> disabled = std::exchange(settings.disabled_rules, {});
  if (!disabled.empty() && HasRule(settings, name)) return "--disable-rule switches it off";
  if (std::exchange(settings.exact, false) && HasRule(settings, name)) return "it does not keep every bit (--exact)";
  if (!std::exchange(settings.assume_finite, true) && HasRule(settings, name)) {
    return "it holds only where every value is finite (--assume-finite)";
  }
  return "";
}

absl::StatusOr<std::vector<int>> NumbersOf(const ExplainFlags& flags, const RuleIndex& rules, Console& console) {
  std::vector<int> numbers;
  const std::vector<std::string> names = NamesOf(rules);
  for (const std::string& name : flags.rules) {
    const size_t before = numbers.size();
    for (size_t i = 0; i < names.size(); ++i) {
      if (IsCalled(names[i], name)) numbers.push_back(static_cast<int>(i));
    }
    if (numbers.size() > before) continue;
    const std::string why = WhyNotLoaded(flags.settings, name);
    if (why.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rule: no rule is called `", name, "`", DidYouMean(name, names)));
    }
    console.Result(absl::StrCat(name, "\n  is not used: ", why));
    console.json()["not_used"][name] = why;
  }
  return numbers;
}

absl::StatusOr<std::vector<NodeId>> NodesCalled(const Graph& graph, const std::string& name) {
  std::vector<NodeId> nodes;
  std::vector<std::string> known;
  for (NodeId id : graph.nodes()) {
    const size_t outputs = graph.node(id).outputs.size();
    for (size_t output = 0; output < outputs && graph.IsRun(graph.node(id)); ++output) {
      known.push_back(ValueText(graph, Value{id, static_cast<int32_t>(output)}));
      if (known.back() == name && (nodes.empty() || nodes.back() != id)) nodes.push_back(id);
    }
  }
  if (nodes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--node: no value that is computed at inference is called `", name, "`", DidYouMean(name, known)));
  }
  return nodes;
}

// A rule's answers of one kind.
class RuleReport {
 public:
  RuleReport(const std::string& rule, bool all, Console& console) : rule_(rule), all_(all), console_(console) {}

  void Show(Fit fit, const std::vector<const RuleAtNode*>& answers) {
    if (answers.empty()) return;
    if (!std::exchange(named_, true)) console_.Result(rule_);
    console_.Result(absl::StrCat("  ", Headline(fit, answers)));
    const size_t shown = all_ ? answers.size() : std::min(answers.size(), kShownPlaces);
    for (size_t i = 0; i < shown; ++i)
      console_.Result(absl::StrCat("    at ", answers[i]->place, ": ", Text(*answers[i])));
    if (shown < answers.size()) console_.Result(absl::StrCat("    and ", answers.size() - shown, " more"));
  }

 private:
  static std::string Headline(Fit fit, const std::vector<const RuleAtNode*>& answers) {
    const std::string places = Counted(answers.size(), "place");
    switch (fit) {
      case Fit::kApplies: {
        const double gain = SavedAtMost(answers);
        if (gain == 0) return absl::StrCat("applies at ", places, ", and gains nowhere");
        return absl::StrFormat("applies at %s, and saves at most %.4g ms as estimated", places, gain * 1e3);
      }
      case Fit::kNotRunning:
        return absl::StrCat("would apply at ", places, ", with a result that the device does not run");
      case Fit::kRefused: return absl::StrCat("fits ", places, ", and is not used for the numbers");
      case Fit::kCondition: return absl::StrCat("has its pattern at ", places, ", and does not hold there");
      case Fit::kPart: return absl::StrCat("has a part of its pattern at ", places);
    }
    return "";
  }

  static std::string Text(const RuleAtNode& answer) {
    if (answer.fit == Fit::kApplies) {
      return absl::StrFormat("%s %.4g ms", answer.seconds > 0 ? "costs" : "saves", std::abs(answer.seconds) * 1e3);
    }
    if (answer.fit != Fit::kPart) return answer.reason;
    return absl::StrFormat("%d of %d operators; then, at %s, %s", answer.matched, answer.of, answer.at, answer.reason);
  }

  const std::string& rule_;
  const bool all_;
  Console& console_;
  bool named_ = false;
};

void Report(const std::vector<RuleAtNode>& answers, const RuleIndex& rules, const std::vector<int>& numbers,
            const ExplainFlags& flags, Console& console) {
  // Without a question about one rule or node, patterns of which only a part is there would be most of the answers.
  const bool asked = !flags.rules.empty() || !flags.node.empty();
  std::map<int, std::map<Fit, std::vector<const RuleAtNode*>>> by_rule;
  for (const RuleAtNode& answer : answers) by_rule[answer.rule][answer.fit].push_back(&answer);
  std::vector<std::pair<double, int>> order;  // by gain, then by number
  for (auto& [rule, kinds] : by_rule) {
    order.emplace_back(-SavedAtMost(kinds[Fit::kApplies]), rule);
    std::stable_sort(kinds[Fit::kApplies].begin(), kinds[Fit::kApplies].end(),
                     [](const RuleAtNode* a, const RuleAtNode* b) { return a->seconds < b->seconds; });
    std::stable_sort(kinds[Fit::kPart].begin(), kinds[Fit::kPart].end(),
                     [](const RuleAtNode* a, const RuleAtNode* b) { return a->matched > b->matched; });
  }
  std::sort(order.begin(), order.end());
  Json& list = console.json()["rules"] = Json::array();
  size_t silent = 0;
  for (const auto& [delta, rule] : order) {
    const std::string& name = rules.matchers()[static_cast<size_t>(rule)]->rule().name();
    RuleReport report(name, asked, console);
    Json entry = {{"rule", name}, {"saves_ms", -delta * 1e3}};
    Json& places = entry["places"] = Json::array();
    bool any = false;
    for (const auto& [fit, of_kind] : by_rule[rule]) {
      if (fit == Fit::kPart && !asked) continue;
      report.Show(fit, of_kind);
      any |= !of_kind.empty();
      for (const RuleAtNode* answer : of_kind) {
        Json place = {
            {"fit", FitName(fit)}, {"place", answer->place}, {"matched", answer->matched}, {"of", answer->of}};
        if (fit == Fit::kApplies) place["saves_ms"] = -answer->seconds * 1e3;
        if (!answer->at.empty()) place["at"] = answer->at;
        if (!answer->reason.empty()) place["reason"] = answer->reason;
        places.push_back(std::move(place));
      }
    }
    silent += any ? 0 : 1;
    if (any) list.push_back(std::move(entry));
  }
  const size_t nowhere = silent + rules.matchers().size() - by_rule.size();
  if (!asked && nowhere > 0) {
    console.Result(absl::StrCat(nowhere, " of ", rules.matchers().size(),
                                " rules have their pattern nowhere; --rule NAME shows how far one gets"));
  }
  if (!answers.empty()) return;
  if (!flags.node.empty()) return console.Result("no pattern of these rules begins with the operator there");
  std::set<std::string> first;
  for (const int rule : numbers) first.insert(rules.matchers()[static_cast<size_t>(rule)]->root_op()->name);
  if (first.empty()) return;
  console.Result(
      absl::StrCat("the model has no ", absl::StrJoin(first, ", no "), ", with which the rule's pattern begins"));
}

absl::StatusOr<Answer> Explain(const ExplainFlags& flags, Session& session) {
  Console& console = session.console;
  ASSIGN_OR_RETURN(const ImportedModel model,
                   LoadModel(flags.model, OptionsToRead(flags.dims, flags.device, flags.fold_defaults), console));
  ASSIGN_OR_RETURN(const OptimizerRules rules, LoadOptimizerRules(flags.settings));
  ExplainQuery query;
  ASSIGN_OR_RETURN(query.rules, NumbersOf(flags, rules.all, console));
  if (!flags.rules.empty() && query.rules.empty()) return Answer::kYes;
  if (!flags.node.empty()) {
    ASSIGN_OR_RETURN(query.nodes, NodesCalled(model.graph, flags.node));
  }
  query.keep_roundings = !flags.move_roundings;
  query.numerics.inputs = {flags.ranges.begin(), flags.ranges.end()};
  ASSIGN_OR_RETURN(const Engine engine,
                   Engine::Open(flags.device, session.flags.threads, flags.profile, flags.precision));
  engine.Use(model);
  std::unique_ptr<Device> analytic;
  if (flags.cost != "measured") {
    ASSIGN_OR_RETURN(analytic, MakeDevice(flags.cost));
  }
  const InterruptGuard interrupt;
  CostModel costs(analytic != nullptr ? *analytic : *engine.device(), [] { return InterruptGuard::interrupted(); });
  const std::vector<RuleAtNode> answers = ExplainRules(model.graph, rules.all, costs, query);
  if (InterruptGuard::interrupted()) return absl::CancelledError("interrupted");
  Report(answers, rules.all, query.rules, flags, console);
  ShowLoss(engine.profile_loss(), console);
  return Answer::kYes;
}

}  // namespace

Action DeclareExplain(CommandLine& line) {
  auto flags = std::make_shared<ExplainFlags>();
  line.Add("model", &flags->model, "An ONNX file").Required().Type("MODEL.onnx");
  line.Add("--rule", &flags->rules, "Only this rule, wherever a part of its pattern is (repeatable)")
      .Type("NAME")
      .OneAtATime();
  line.Add("--node", &flags->node, "Only rules whose first operator computes this value").Type("NAME");
  AddRules(line, &flags->settings);
  AddDevice(line, &flags->device, /*with_reference=*/false);
  AddPrecision(line, &flags->precision);
  line.AddOutputPath("--profile", &flags->profile, "Database of measured costs, read and filled").Type("DB");
  AddCost(line, &flags->cost);
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddRanges("--range", &flags->ranges, "Where elements of an input lie, as for optimize");
  line.AddSwitch("--move-roundings", &flags->move_roundings,
                 "Also rewrites that round otherwise in front of roundings to integers, as for optimize");
  return [flags](Session& session) { return Explain(*flags, session); };
}

}  // namespace rewright
