#include "tests/support/rule_mutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/text_hash.h"
#include "core/ir/expr.h"
#include "core/ops/ops.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_printer.h"
#include "tests/counts.h"
#include "tests/support/distinguish.h"
#include "verifier/prove/prove_instance.h"

namespace rewright {
namespace {

// ---------------------------------------------------------------- declarations

int CountNodes(const ExprPtr& e) {
  int count = 1;
  for (const ExprPtr& arg : e->args()) count += CountNodes(arg);
  return count;
}

ExprPtr Shifted(const ExprPtr& index, int64_t by) { return (Index(index) + Index(by)).node(); }

// Returns a changed copy of one node, or null if the kind of node has no mutation.
ExprPtr Change(const ExprPtr& e, MutationRng& rng) {
  const int64_t sign = rng() % 2 == 0 ? 1 : -1;
  std::vector<ExprPtr> args = e->args();
  std::vector<BoundVar> bound = e->bound();
  switch (e->kind()) {
    case ExprKind::kRead: {
      if (e->args().empty()) return nullptr;
      size_t k = rng() % e->args().size();
      if (e->args().size() > 1 && rng() % 2 == 0) {
        std::swap(args[k], args[(k + 1) % args.size()]);
      } else {
        args[k] = Shifted(args[k], sign);
      }
      return WithChildren(e, std::move(args), {});
    }
    case ExprKind::kLess:
    case ExprKind::kLessEqual: return WithChildren(e, {Shifted(args[0], sign), args[1]}, {});
    case ExprKind::kReduce: {
      size_t k = rng() % e->bound().size();
      bound[k].extent = Shifted(bound[k].extent, sign);
      return WithChildren(e, std::move(args), std::move(bound));
    }
    case ExprKind::kSelect:
      if (rng() % 2 == 0) return e->arg(1);
      return Select(!Cond(e->arg(0)), Scalar(e->arg(1)), Scalar(e->arg(2))).node();
    case ExprKind::kConst: return Constant(e->real() + 1, e->dtype()).node();
    case ExprKind::kCall:
      if (e->arg(0)->dtype() != e->dtype()) return nullptr;
      return args[rng() % args.size()];
    case ExprKind::kFloorDiv:
    case ExprKind::kIndexMul:
    case ExprKind::kIndexAdd: return e->arg(0);
    case ExprKind::kIndexSub: return Shifted(e, sign);
    default: return nullptr;
  }
}

// Returns `e` with its node number *place (in preorder) changed; null if that node has no mutation.
ExprPtr MutateAt(const ExprPtr& e, int* place, MutationRng& rng, bool* failed) {
  if ((*place)-- == 0) {
    ExprPtr changed = Change(e, rng);
    *failed = changed == nullptr;
    return changed == nullptr ? e : changed;
  }
  for (size_t i = 0; i < e->args().size(); ++i) {
    ExprPtr arg = MutateAt(e->arg(i), place, rng, failed);
    if (arg != e->arg(i)) {
      std::vector<ExprPtr> args = e->args();
      args[i] = std::move(arg);
      return WithChildren(e, std::move(args), e->bound());
    }
    if (*place < 0) return e;
  }
  return e;
}

// ---------------------------------------------------------------- the text of rules

size_t Pick(MutationRng& rng, size_t size) { return static_cast<size_t>(rng() % size); }

// Groups of operators that take the same operands and attributes.
const std::vector<std::vector<std::string>>& Kinds() {
  static const auto* const kinds = new std::vector<std::vector<std::string>>{
      {"add", "sub", "mul", "div", "min", "max"},
      {"relu", "sigmoid", "tanh", "exp", "abs", "neg", "identity", "sqrt", "log", "erf"},
      {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"},
      {"softmax", "log_softmax"}};
  return *kinds;
}

void Collect(TensorTerm& term, std::vector<TensorTerm*>* all) {
  all->push_back(&term);
  for (TensorTerm& operand : term.operands) Collect(operand, all);
}

std::vector<TensorTerm*> Terms(RuleSide& side) {
  std::vector<TensorTerm*> all;
  for (LetTerm& let : side.lets) Collect(let.term, &all);
  for (TensorTerm& term : side.outputs) Collect(term, &all);
  return all;
}

void Collect(ArgExpr& expr, std::vector<ArgExpr*>* all) {
  all->push_back(&expr);
  for (ArgExpr& arg : expr.args) Collect(arg, all);
}

bool ChangeOperator(Rule& rule, MutationRng& rng, std::string* change) {
  std::vector<TensorTerm*> terms = Terms(rng() % 4 == 0 ? rule.lhs : rule.rhs);
  std::shuffle(terms.begin(), terms.end(), rng);
  for (TensorTerm* term : terms) {
    for (const std::vector<std::string>& kind : Kinds()) {
      if (term->op == nullptr || std::find(kind.begin(), kind.end(), term->name) == kind.end()) continue;
      const std::string& other = kind[Pick(rng, kind.size())];
      if (other == term->name) continue;
      *change = absl::StrCat("operator ", term->name, " to ", other);
      term->name = other;
      term->op = FindOp(other);
      return term->op != nullptr;
    }
  }
  return false;
}

bool ChangeOperand(Rule& rule, MutationRng& rng, std::string* change) {
  std::vector<std::string> names;
  for (TensorTerm* term : Terms(rule.lhs)) {
    if (term->kind == TensorTerm::Kind::kName && term->shape) names.push_back(term->name);
  }
  std::vector<TensorTerm*> terms = Terms(rule.rhs);
  std::shuffle(terms.begin(), terms.end(), rng);
  for (TensorTerm* term : terms) {
    if (term->operands.size() >= 2 && rng() % 2 == 0) {
      const size_t k = Pick(rng, term->operands.size() - 1);
      std::swap(term->operands[k], term->operands[k + 1]);
      *change = absl::StrCat("operand ", k, " of ", term->name, " exchanged with the next");
      return true;
    }
    if (term->kind != TensorTerm::Kind::kName || term->output >= 0 || names.size() < 2) continue;
    const std::string& other = names[Pick(rng, names.size())];
    if (other == term->name || std::find(names.begin(), names.end(), term->name) == names.end()) continue;
    *change = absl::StrCat("operand ", term->name, " to ", other);
    term->name = other;
    return true;
  }
  return false;
}

// Changes an integer by one, a name to another, or the order of two items of a list.
bool ChangeExpr(std::vector<ArgExpr*> places, const std::vector<std::string>& names, MutationRng& rng,
                std::string* change) {
  std::shuffle(places.begin(), places.end(), rng);
  for (ArgExpr* expr : places) {
    const std::string before = PrintArg(*expr);
    if (expr->kind == ArgExpr::Kind::kInt) {
      expr->integer += expr->integer > 0 && rng() % 2 == 0 ? -1 : 1;
    } else if (expr->kind == ArgExpr::Kind::kList && expr->args.size() >= 2) {
      const size_t k = Pick(rng, expr->args.size() - 1);
      std::swap(expr->args[k], expr->args[k + 1]);
    } else if (expr->kind == ArgExpr::Kind::kName && names.size() >= 2) {
      expr->name = names[Pick(rng, names.size())];
    } else if (expr->kind == ArgExpr::Kind::kOp && expr->op == ArgOp::kAdd) {
      expr->op = ArgOp::kSub;
    } else {
      continue;
    }
    if (PrintArg(*expr) == before) continue;
    absl::StrAppend(change, before, " to ", PrintArg(*expr));
    return true;
  }
  return false;
}

std::vector<std::string> SizeNames(Rule& rule) {
  std::vector<std::string> names;
  for (TensorTerm* term : Terms(rule.lhs)) {
    if (!term->shape) continue;
    for (const ArgExpr& dim : term->shape->dims) {
      if (dim.kind == ArgExpr::Kind::kName) names.push_back(dim.name);
    }
  }
  return names;
}

bool ChangeAttribute(Rule& rule, MutationRng& rng, std::string* change) {
  std::vector<ArgExpr*> places;
  for (TensorTerm* term : Terms(rng() % 4 == 0 ? rule.lhs : rule.rhs)) {
    for (NamedArg& attr : term->attrs) Collect(attr.value, &places);
  }
  *change = "attribute ";
  return ChangeExpr(std::move(places), SizeNames(rule), rng, change);
}

bool ChangeSize(Rule& rule, MutationRng& rng, std::string* change) {
  std::vector<ArgExpr*> places;
  for (RuleSide* side : {&rule.lhs, &rule.rhs}) {
    for (TensorTerm* term : Terms(*side)) {
      if (!term->shape) continue;
      for (ArgExpr& dim : term->shape->dims) Collect(dim, &places);
    }
  }
  std::vector<std::string> names = SizeNames(rule);
  names.push_back("fresh");
  *change = "size ";
  return ChangeExpr(std::move(places), names, rng, change);
}

bool ChangeGuard(Rule& rule, MutationRng& rng, std::string* change) {
  if (rule.conditions.empty()) return false;
  const size_t k = Pick(rng, rule.conditions.size());
  const std::string before = PrintArg(rule.conditions[k]);
  if (rng() % 2 == 0) {
    *change = absl::StrCat("guard ", before, " dropped");
    rule.conditions.erase(rule.conditions.begin() + static_cast<std::ptrdiff_t>(k));
    return true;
  }
  std::vector<ArgExpr*> places;
  Collect(rule.conditions[k], &places);
  *change = "guard ";
  return ChangeExpr(std::move(places), SizeNames(rule), rng, change);
}

bool ChangeOutputs(Rule& rule, MutationRng& rng, std::string* change) {
  if (rule.rhs.outputs.size() < 2) return false;
  const size_t k = Pick(rng, rule.rhs.outputs.size() - 1);
  std::swap(rule.rhs.outputs[k], rule.rhs.outputs[k + 1]);
  *change = absl::StrCat("output ", k, " exchanged with the next");
  return true;
}

}  // namespace

std::optional<Mutant> MutateRule(const Rule& rule, MutationRng& rng) {
  constexpr bool (*kChanges[])(Rule&, MutationRng&, std::string*) = {ChangeOperator, ChangeOperand, ChangeAttribute,
                                                                     ChangeSize,     ChangeGuard,   ChangeOutputs};
  for (int attempt = 0; attempt < 12; ++attempt) {
    Mutant mutant{rule, ""};
    mutant.rule.proof.reset();
    mutant.rule.expect.clear();
    if (!kChanges[Pick(rng, std::size(kChanges))](mutant.rule, rng, &mutant.change)) continue;
    if (PrintLaw(mutant.rule) != PrintLaw(rule)) return mutant;
  }
  return std::nullopt;
}

namespace {

struct Verdicts {
  bool all_proved = true, told_apart = false;
};

void JudgeInstance(const RuleInstance& mutant, const std::string& what, MutationRng& rng, Verdicts* verdicts,
                   std::vector<std::string>* false_proofs) {
  ProofOptions proof;
  proof.search_counterexample = false;  // only the proof is tested
  proof.work_limit_s = 0.3;
  const bool accepted = Prove(mutant, proof).verdict == Verdict::kProved;
  const std::optional<std::string> apart = Distinguished(mutant, 150, rng);
  if (accepted && apart) false_proofs->push_back(absl::StrCat(what, "\n", mutant.description, "\n", *apart));
  verdicts->all_proved = verdicts->all_proved && accepted;
  verdicts->told_apart = verdicts->told_apart || apart;
}

void AddFinding(const MutantCase& mutant, const std::string& found, JudgedMutants* judged) {
  EXPECT_TRUE(judged->findings.emplace(mutant.name, found).second) << "two rules are called " << mutant.name;
}

std::string FoundBy(const Verdicts& verdicts, const std::string& change) {
  if (verdicts.told_apart) return "";
  return absl::StrCat(verdicts.all_proved ? "proved" : "open", change.empty() ? "" : ": ", change);
}

void PrintCounts(const JudgedMutants& judged) {
  std::map<std::string, int> counts;
  for (const auto& [name, found] : judged.findings) ++counts[found.substr(0, found.find(':'))];
  std::cout << judged.findings.size() << " mutants: " << counts[""] << " told apart by the interpreter, "
            << counts["proved"] << " proved (equivalent), " << counts["open"] << " open, " << counts["none"]
            << " that are no rules\n";
}

}  // namespace

bool MutateDeclaration(const RuleInstance& instance, MutationRng& rng, RuleInstance* mutant) {
  *mutant = instance;
  std::vector<size_t> applications;
  for (size_t k = instance.num_lhs_nodes; k < instance.nodes.size(); ++k) {
    if (instance.nodes[k].meaning != nullptr) applications.push_back(k);
  }
  if (applications.empty()) return false;
  for (int attempt = 0; attempt < 20; ++attempt) {
    size_t k = applications[rng() % applications.size()];
    auto meaning = std::make_shared<Meaning>(*instance.nodes[k].meaning);
    OutputMeaning& output = meaning->outputs[rng() % meaning->outputs.size()];
    int place = static_cast<int>(rng() % static_cast<uint64_t>(CountNodes(output.element)));
    bool failed = false;
    ExprPtr changed = MutateAt(output.element, &place, rng, &failed);
    if (failed || changed == output.element) continue;
    output.element = changed;
    mutant->nodes[k].meaning = meaning;
    return true;
  }
  return false;
}

std::vector<MutantCase> MutantsOf(size_t day, const std::vector<std::string>& names, int whole, uint64_t seed) {
  std::vector<MutantCase> mutants;
  ForCasesOf(day, whole, [&](size_t k) {
    const size_t place = k % names.size();
    std::string name = absl::StrCat(names[place], " #", k / names.size());
    mutants.push_back({place, name, MutationRng(seed ^ Fnv1a(name))});
  });
  return mutants;
}

JudgedMutants JudgeMutants(const std::vector<Rule>& rules, int whole, size_t instances, uint64_t seed) {
  constexpr int kAttempts = 10;
  std::vector<std::string> names;
  for (const Rule& rule : rules) names.push_back(rule.name);
  JudgedMutants judged;
  for (MutantCase& one : MutantsOf(Today(), names, whole, seed)) {
    std::optional<std::string> found;
    for (int attempt = 0; attempt < kAttempts && !found; ++attempt) {
      const std::optional<Mutant> mutant = MutateRule(rules[one.place], one.rng);
      if (!mutant) continue;
      const auto compiled = CompileRule(mutant->rule, RuleUse::kProof);
      if (!compiled.ok()) continue;
      std::vector<RuleInstance> first;
      (void)ForEachInstance(**compiled, SmallLimits(**compiled), [&](RuleInstance instance) {
        first.push_back(std::move(instance));
        return first.size() < instances ? absl::OkStatus() : absl::CancelledError("enough");
      });
      if (first.empty()) continue;
      Verdicts verdicts;
      const std::string what = absl::StrCat("seed ", seed, ", ", one.name, ": ", mutant->change, "\n");
      for (const RuleInstance& instance : first) {
        JudgeInstance(instance, what + PrintLaw(mutant->rule), one.rng, &verdicts, &judged.false_proofs);
      }
      found = FoundBy(verdicts, mutant->change);
    }
    AddFinding(one, found.value_or("none"), &judged);
  }
  PrintCounts(judged);
  return judged;
}

JudgedMutants JudgeDeclarationMutants(const std::vector<RuleInstance>& instances, int whole, uint64_t seed) {
  std::vector<std::string> names;
  for (const RuleInstance& instance : instances)
    names.push_back(absl::StrCat(instance.rule, " ", instance.description));
  JudgedMutants judged;
  for (MutantCase& one : MutantsOf(Today(), names, whole, seed)) {
    RuleInstance mutant;
    if (!MutateDeclaration(instances[one.place], one.rng, &mutant)) {
      AddFinding(one, "none", &judged);
      continue;
    }
    Verdicts verdicts;
    JudgeInstance(mutant, absl::StrCat("seed ", seed, ", ", one.name), one.rng, &verdicts, &judged.false_proofs);
    AddFinding(one, FoundBy(verdicts, ""), &judged);
  }
  PrintCounts(judged);
  return judged;
}

}  // namespace rewright
