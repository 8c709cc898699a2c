// Soundness of the prover: true rules are changed at one place of one declaration on their right side. A mutant that
// the prover accepts although values differ would be an unsound proof.
#include <gtest/gtest.h>

#include <random>

#include "core/expr.h"
#include "tests/counts.h"
#include "tests/verifier/rules_util.h"
#include "verifier/counterexample.h"
#include "verifier/verifier.h"

namespace rewright {
namespace {

using Rng = std::mt19937_64;

int CountNodes(const ExprPtr& e) {
  int count = 1;
  for (const ExprPtr& arg : e->args) count += CountNodes(arg);
  return count;
}

ExprPtr Shifted(const ExprPtr& index, int64_t by) { return (Index(index) + Index(by)).node(); }

// A changed copy of one node, or null where the kind of node has no mutation.
ExprPtr Change(const ExprPtr& e, Rng& rng) {
  auto copy = std::make_shared<ExprNode>(*e);
  const int64_t sign = rng() % 2 == 0 ? 1 : -1;
  switch (e->kind) {
    case ExprKind::kRead: {
      if (e->args.empty()) return nullptr;
      size_t k = rng() % e->args.size();
      if (e->args.size() > 1 && rng() % 2 == 0) {
        std::swap(copy->args[k], copy->args[(k + 1) % e->args.size()]);
      } else {
        copy->args[k] = Shifted(e->args[k], sign);
      }
      return copy;
    }
    case ExprKind::kLess:
    case ExprKind::kLessEqual: copy->args[0] = Shifted(e->args[0], sign); return copy;
    case ExprKind::kReduce: {
      size_t k = rng() % e->bound.size();
      copy->bound[k].extent = Shifted(e->bound[k].extent, sign);
      return copy;
    }
    case ExprKind::kSelect:
      if (rng() % 2 == 0) return e->args[1];
      return Select(!Cond(e->args[0]), Scalar(e->args[1]), Scalar(e->args[2])).node();
    case ExprKind::kConst: copy->real += 1; return copy;
    case ExprKind::kCall:
      if (e->args[0]->dtype != e->dtype) return nullptr;
      return e->args[rng() % e->args.size()];
    case ExprKind::kFloorDiv:
    case ExprKind::kIndexMul:
    case ExprKind::kIndexAdd: return e->args[0];
    case ExprKind::kIndexSub: return Shifted(e, sign);
    default: return nullptr;
  }
}

// `e` with its node number *place (in preorder) changed; null when that node has no mutation.
ExprPtr MutateAt(const ExprPtr& e, int* place, Rng& rng, bool* failed) {
  if ((*place)-- == 0) {
    ExprPtr changed = Change(e, rng);
    *failed = changed == nullptr;
    return changed == nullptr ? e : changed;
  }
  for (size_t i = 0; i < e->args.size(); ++i) {
    ExprPtr arg = MutateAt(e->args[i], place, rng, failed);
    if (arg != e->args[i]) {
      auto copy = std::make_shared<ExprNode>(*e);
      copy->args[i] = arg;
      return copy;
    }
    if (*place < 0) return e;
  }
  return e;
}

// A mutant of the right side; false when none came out.
bool Mutate(const RuleInstance& instance, Rng& rng, RuleInstance* mutant) {
  *mutant = instance;
  std::vector<size_t> applications;
  for (size_t k = static_cast<size_t>(instance.num_lhs_nodes); k < instance.nodes.size(); ++k) {
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

class MutationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MutationTest, NoMutantThatDiffersIsProved) {
  constexpr uint64_t kSeed = 20240607;
  const int kMutantsPerRule = Cases(20);
  Rng rng(kSeed);
  int killed = 0, equivalent = 0, undecided = 0;
  for (const RuleCase& rule : LoadRules(GetParam())) {
    if (rule.expect != "proved" || rule.instances.empty()) continue;
    const RuleInstance& instance = rule.instances[rule.instances.size() / 2];
    for (int m = 0; m < kMutantsPerRule; ++m) {
      RuleInstance mutant;
      if (!Mutate(instance, rng, &mutant)) continue;
      ProofOptions options;
      options.search_counterexample = false;
      options.time_limit_s = 0.3;
      ProofResult result = Prove(mutant, options);
      std::optional<Counterexample> found = verifier::CounterexampleSearch(mutant, rng()).Run(250, 2);
      if (result.verdict == Verdict::kProved) {
        EXPECT_FALSE(found.has_value()) << "seed " << kSeed << ": proved and false: " << rule.name << " "
                                        << found->ToString();
        ++equivalent;
      } else {
        ++(found.has_value() ? killed : undecided);
      }
    }
  }
  std::cout << GetParam() << ": " << killed << " refuted, " << equivalent << " proved, " << undecided << " open\n";
  EXPECT_GT(killed, 10);
}

INSTANTIATE_TEST_SUITE_P(Rules, MutationTest,
                         ::testing::Values("matmul.rules", "conv.rules", "elementwise.rules", "structure.rules",
                                           "taso_axioms.rules", "xla_simplifier.rules"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace rewright
