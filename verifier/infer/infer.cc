#include "verifier/infer/infer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/cpu_time.h"
#include "core/base/stop.h"
#include "core/base/work.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_printer.h"
#include "verifier/infer/condition_family.h"
#include "verifier/refute/counterexample.h"

namespace rewright {
namespace {

using verifier::ConditionAtom;
using verifier::ConditionPlace;
using verifier::CounterexampleSearch;
using Form = ConditionAtom::Form;
using Bits = std::vector<uint64_t>;

constexpr size_t kMaxStructures = 16;  // that are sampled
constexpr int kSamples = 4000;         // of all together, and
constexpr int kLeastSamples = 300;     // of each
constexpr double kLeastAdmitted = 4;   // samples; conditions that admit fewer hold next to nowhere
constexpr size_t kMaxPairAtoms = 300;
constexpr size_t kMaxTripleAtoms = 48;
constexpr int kMaxAttempts = 800;
constexpr size_t kMaxConjuncts = 3;
constexpr size_t kMaxOpen = 6;  // conditions that were neither proved nor refuted
constexpr int kAttackTrials = 48;
constexpr double kAttackSeconds = 0.1;  // one instance
constexpr double kProofSeconds = 1;     // one instance, of an attempt

size_t Count(const Bits& bits) {
  size_t count = 0;
  for (uint64_t word : bits) count += static_cast<size_t>(std::popcount(word));
  return count;
}

bool Within(const Bits& inner, const Bits& outer) {
  for (size_t k = 0; k < inner.size(); ++k) {
    if ((inner[k] & ~outer[k]) != 0) return false;
  }
  return true;
}

Bits And(Bits a, const Bits& b) {
  for (size_t k = 0; k < a.size(); ++k) a[k] &= b[k];
  return a;
}

// Structural values with assignments that make the left side legal.
struct Sampled {
  StructuralAssignment structure;
  std::map<std::string, size_t> symbols;
  std::vector<std::vector<int64_t>> assignments;
};

// A place at which the rule is false.
struct Witness {
  StructuralAssignment structure;
  std::map<std::string, int64_t> symbols;
  std::set<std::string> positive;  // tensors and real attributes whose elements all are, by their text
  std::string text;
};

struct Atom {
  ConditionAtom atom;
  Bits admits;
  bool positive = false;
  std::vector<bool> at_witness;  // by witness: holds there
};

// A conjunction of atoms, by their numbers in order.
struct Conjunction {
  std::vector<size_t> atoms;
  Bits admits;
  std::set<size_t> positives;
  double weight = 0;  // the amount of samples that it admits
};

class Inferrer {
 public:
  Inferrer(const Rule& rule, const RuleProofOptions& options) : rule_(rule), options_(options) {
    rule_.proof.reset();
    rule_.expect.clear();
  }

  Inference Run() {
    const double start = verifier::ThreadCpuSeconds();
    absl::StatusOr<std::shared_ptr<const CompiledRule>> compiled = CompileRule(rule_, options_.use);
    if (compiled.ok() && Sample(**compiled)) {
      // Finds counterexamples to the rule without any condition.
      TryToProve({});
      for (size_t size = 1; size <= kMaxConjuncts && out_.answers.empty() && out_.complete; ++size) Search(size);
      for (size_t k = 0; k < out_.answers.size(); ++k) Climb(k);
      for (size_t k = 0; k < out_.answers.size(); ++k) Report(k);
    }
    out_.cpu_ms = (verifier::ThreadCpuSeconds() - start) * 1000;
    return std::move(out_);
  }

 private:
  enum class Outcome : uint8_t { kProved, kRefuted, kOpen };

  // ---------------------------------------------------------------- samples

  bool Sample(const CompiledRule& compiled) {
    limits_ = SmallLimits(compiled);
    std::vector<RuleInstance> instances;
    (void)ForEachStructuralAssignment(
        compiled, limits_, [&](const StructuralAssignment& structure, RuleInstance instance) {
          Sampled& sampled = samples_.emplace_back();
          sampled.structure = structure;
          for (size_t s = 0; s < instance.symbols.size(); ++s) sampled.symbols[instance.symbols[s].name] = s;
          instances.push_back(std::move(instance));
          return samples_.size() < kMaxStructures ? absl::OkStatus() : absl::CancelledError("enough");
        });
    if (samples_.empty()) return false;
    const int each = std::max(kLeastSamples, kSamples / static_cast<int>(samples_.size()));
    for (size_t k = 0; k < samples_.size(); ++k) {
      samples_[k].assignments = CounterexampleSearch(instances[k], options_.seed).Draw(each);
    }
    std::set<std::pair<Bits, std::string>> known;
    for (ConditionAtom& atom : verifier::ConditionFamily(compiled, samples_[0].structure)) {
      Atom made;
      made.positive = atom.form == Form::kPositive;
      made.admits = Admitted(atom);
      made.atom = std::move(atom);
      const size_t admitted = Count(made.admits);
      if (!made.positive && (admitted < kLeastAdmitted || admitted == total_)) continue;
      // One of the atoms that admit the same samples is enough.
      const std::string tensor = made.positive ? PrintArg(made.atom.ToExpr()) : "";
      if (known.insert({made.admits, tensor}).second) atoms_.push_back(std::move(made));
    }
    out_.family = static_cast<int>(atoms_.size());
    return true;
  }

  Bits Admitted(const ConditionAtom& atom) {
    Bits bits;
    size_t at = 0;
    for (const Sampled& sampled : samples_) {
      for (const std::vector<int64_t>& values : sampled.assignments) {
        const ConditionPlace place{&sampled.structure, [&](const std::string& name) -> std::optional<int64_t> {
                                     const auto found = sampled.symbols.find(name);
                                     if (found == sampled.symbols.end()) return std::nullopt;
                                     return values[found->second];
                                   }};
        if (at % 64 == 0) bits.push_back(0);
        if (HoldsAt(atom, place)) bits.back() |= uint64_t{1} << (at % 64);
        ++at;
      }
    }
    total_ = at;
    return bits;
  }

  // ---------------------------------------------------------------- conjunctions

  Conjunction Join(std::vector<size_t> numbers) const {
    Conjunction joined;
    joined.admits.assign((total_ + 63) / 64, ~uint64_t{0});
    for (size_t number : numbers) {
      joined.admits = And(std::move(joined.admits), atoms_[number].admits);
      if (atoms_[number].positive) joined.positives.insert(number);
    }
    if (total_ % 64 != 0 && !joined.admits.empty()) joined.admits.back() &= (uint64_t{1} << (total_ % 64)) - 1;
    joined.weight = std::ldexp(static_cast<double>(Count(joined.admits)), -static_cast<int>(joined.positives.size()));
    joined.atoms = std::move(numbers);
    return joined;
  }

  // True if `a` admits all samples and all witnesses that `b` admits.
  bool AdmitsAll(const Conjunction& a, const Conjunction& b) const {
    if (!Within(b.admits, a.admits) ||
        !std::includes(b.positives.begin(), b.positives.end(), a.positives.begin(), a.positives.end())) {
      return false;
    }
    for (size_t w = 0; w < witnesses_.size(); ++w) {
      if (HoldsAtWitness(b.atoms, w) && !HoldsAtWitness(a.atoms, w)) return false;
    }
    return true;
  }
  bool Weaker(const Conjunction& a, const Conjunction& b) const { return AdmitsAll(a, b) && !AdmitsAll(b, a); }

  bool HoldsAtWitness(const std::vector<size_t>& numbers, size_t witness) const {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](size_t number) { return static_cast<bool>(atoms_[number].at_witness[witness]); });
  }

  // True if some atom adds nothing to the others.
  bool Redundant(const Conjunction& c) const {
    for (size_t drop = 0; drop < c.atoms.size() && c.atoms.size() > 1; ++drop) {
      std::vector<size_t> rest = c.atoms;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(drop));
      if (AdmitsAll(c, Join(std::move(rest)))) return true;
    }
    return false;
  }

  // The first witness that the conjunction admits; -1: none.
  int AdmittedWitness(const std::vector<size_t>& numbers) const {
    for (size_t w = 0; w < witnesses_.size(); ++w) {
      if (HoldsAtWitness(numbers, w)) return static_cast<int>(w);
    }
    return -1;
  }

  std::vector<Conjunction> Conjunctions(size_t size) const {
    const auto simple = [](Form form) { return form <= Form::kPositive; };
    std::vector<size_t> usable;
    for (size_t k = 0; k < atoms_.size(); ++k) {
      if (size < 3 || simple(atoms_[k].atom.form)) usable.push_back(k);
    }
    if (size == 2 && usable.size() > kMaxPairAtoms) usable.resize(kMaxPairAtoms);
    if (size == 3 && usable.size() > kMaxTripleAtoms) usable.resize(kMaxTripleAtoms);
    std::vector<Conjunction> all;
    std::vector<size_t> numbers;
    Choose(usable, 0, size, &numbers, &all);
    std::stable_sort(all.begin(), all.end(),
                     [](const Conjunction& a, const Conjunction& b) { return a.weight > b.weight; });
    return all;
  }

  void Choose(const std::vector<size_t>& usable, size_t from, size_t size, std::vector<size_t>* numbers,
              std::vector<Conjunction>* all) const {
    if (numbers->size() == size) {
      if (AdmittedWitness(*numbers) >= 0) return;
      Conjunction made = Join(*numbers);
      if (static_cast<double>(Count(made.admits)) < kLeastAdmitted || Redundant(made)) return;
      all->push_back(std::move(made));
      return;
    }
    for (size_t k = from; k < usable.size(); ++k) {
      numbers->push_back(usable[k]);
      Choose(usable, k + 1, size, numbers, all);
      numbers->pop_back();
    }
  }

  std::string Text(const std::vector<size_t>& numbers) const {
    return absl::StrJoin(numbers, " and ", [this](std::string* out, size_t number) {
      out->append(PrintArg(atoms_[number].atom.ToExpr()));
    });
  }

  Rule Under(const std::vector<size_t>& numbers) const {
    Rule rule = rule_;
    for (size_t number : numbers) rule.conditions.push_back(atoms_[number].atom.ToExpr());
    return rule;
  }

  // ---------------------------------------------------------------- attempts

  double SecondsLeft() const { return options_.work_limit_s - (verifier::ThreadWorkSeconds() - start_s_); }
  bool Ended() {
    const bool stop = IsStopped(options_.stop);
    if (stop || SecondsLeft() <= 0 || out_.attempts >= kMaxAttempts) out_.complete = false;
    return !out_.complete;
  }

  // Attacks the rule under the conditions, then proves it at small ranks.
  Outcome TryToProve(const std::vector<size_t>& numbers) {
    absl::StatusOr<std::shared_ptr<const CompiledRule>> compiled = CompileRule(Under(numbers), options_.use);
    if (!compiled.ok()) return Outcome::kOpen;
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances;
    const absl::Status status = ForEachStructuralAssignment(
        **compiled, limits_, [&](const StructuralAssignment& structure, RuleInstance instance) {
          instances.emplace_back(structure, std::move(instance));
          return absl::OkStatus();
        });
    if (!status.ok()) return Outcome::kOpen;
    for (const auto& [structure, instance] : instances) {
      const auto found = CounterexampleSearch(instance, options_.seed).Run(kAttackTrials, kAttackSeconds);
      if (!found) continue;
      AddWitness(structure, *found);
      return Outcome::kRefuted;
    }
    if (numbers.empty()) return Outcome::kOpen;
    for (const auto& [structure, instance] : instances) {
      if (Ended()) return Outcome::kOpen;
      ProofOptions proof;
      proof.seed = options_.seed;
      proof.work_limit_s = std::min(kProofSeconds, SecondsLeft());
      const ProofResult result = Prove(instance, proof);
      if (result.verdict == Verdict::kProved) continue;
      if (result.verdict == Verdict::kUnknown) return Outcome::kOpen;
      AddWitness(structure, *result.counterexample);
      return Outcome::kRefuted;
    }
    return Outcome::kProved;
  }

  void AddWitness(const StructuralAssignment& structure, const Counterexample& found) {
    Witness witness;
    witness.structure = structure;
    for (const auto& [name, value] : found.symbols) witness.symbols[name] = value;
    for (const auto& [name, value] : found.reals) {
      if (RealOf(value) > 0) witness.positive.insert(absl::StrCat("positive(", name, ")"));
    }
    for (const Counterexample::Input& input : found.inputs) {
      const bool all = std::all_of(input.values.begin(), input.values.end(), [](double value) { return value > 0; });
      if (all) witness.positive.insert(absl::StrCat("positive(", input.name, ")"));
    }
    // Sizes alone show it where the elements play no part.
    const bool elements = found.obligation == Obligation::kElements;
    witness.text = found.ToString();
    witness.text = witness.text.substr(0, witness.text.find('\n'));
    for (Atom& atom : atoms_) {
      const ConditionPlace place{&witness.structure, [&](const std::string& name) -> std::optional<int64_t> {
                                   const auto value = witness.symbols.find(name);
                                   if (value == witness.symbols.end()) return std::nullopt;
                                   return value->second;
                                 }};
      const bool holds = atom.positive ? !elements || witness.positive.count(PrintArg(atom.atom.ToExpr())) > 0
                                       : HoldsAt(atom.atom, place);
      atom.at_witness.push_back(holds);
    }
    witnesses_.push_back(std::move(witness));
  }

  // True when the conditions are an answer now.
  bool Attempt(const Conjunction& conditions) {
    ++out_.attempts;
    const Outcome outcome = TryToProve(conditions.atoms);
    if (outcome == Outcome::kRefuted) return false;
    InferredCondition answer;
    if (outcome == Outcome::kProved) {
      answer.rule = Under(conditions.atoms);
      RuleProofOptions options = options_;
      options.work_limit_s = std::max(SecondsLeft(), 0.001);
      answer.verdict = ProveRule(answer.rule, options);
    }
    if (answer.verdict.verdict != Verdict::kProved) {
      unknown_.push_back(conditions);
      return false;
    }
    answer.when = Text(conditions.atoms);
    // A weaker answer replaces the stronger ones.
    for (size_t k = found_.size(); k-- > 0;) {
      if (!AdmitsAll(conditions, found_[k])) continue;
      found_.erase(found_.begin() + static_cast<std::ptrdiff_t>(k));
      out_.answers.erase(out_.answers.begin() + static_cast<std::ptrdiff_t>(k));
    }
    found_.push_back(conditions);
    out_.answers.push_back(std::move(answer));
    return true;
  }

  bool StrongerThanAny(const std::vector<Conjunction>& known, const Conjunction& c) const {
    return std::any_of(known.begin(), known.end(), [&](const Conjunction& other) { return AdmitsAll(other, c); });
  }

  // True for conditions stronger than some that could not be settled: these are tried a few times only.
  bool Hopeless(const Conjunction& c) const { return unknown_.size() >= kMaxOpen && StrongerThanAny(unknown_, c); }

  void Search(size_t size) {
    for (const Conjunction& c : Conjunctions(size)) {
      if (Ended()) return;
      if (AdmittedWitness(c.atoms) < 0 && !StrongerThanAny(found_, c) && !Hopeless(c)) Attempt(c);
    }
  }

  // Conjunctions of one atom more that are weaker than the answer all the same.
  void Climb(size_t k) {
    const Conjunction answer = found_[k];
    if (answer.atoms.size() >= kMaxConjuncts) return;
    for (const Conjunction& c : Conjunctions(answer.atoms.size() + 1)) {
      if (Ended()) return;
      if (Weaker(c, answer) && AdmittedWitness(c.atoms) < 0 && !StrongerThanAny(unknown_, c) && Attempt(c)) return;
    }
  }

  // Reports which weaker conditions are refuted: single atoms, and the rest when atoms are left out.
  void Report(size_t k) {
    const Conjunction& answer = found_[k];
    std::vector<Conjunction> weaker;
    for (size_t number = 0; number < atoms_.size(); ++number) {
      Conjunction single = Join({number});
      if (Weaker(single, answer)) weaker.push_back(std::move(single));
    }
    for (size_t drop = 0; drop < answer.atoms.size() && answer.atoms.size() > 2; ++drop) {
      std::vector<size_t> rest = answer.atoms;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(drop));
      weaker.push_back(Join(std::move(rest)));
    }
    std::stable_sort(weaker.begin(), weaker.end(),
                     [](const Conjunction& a, const Conjunction& b) { return a.weight < b.weight; });
    InferredCondition& out = out_.answers[k];
    for (const Conjunction& c : weaker) {
      const int witness = AdmittedWitness(c.atoms);
      if (witness < 0 || out.refuted.size() >= kMaxReported) continue;
      out.refuted.push_back({Text(c.atoms), witnesses_[witness].text});
    }
    for (const Conjunction& c : unknown_) {
      if (Weaker(c, answer) && AdmittedWitness(c.atoms) < 0) out.unknown.push_back(Text(c.atoms));
    }
  }

  Rule rule_;
  const RuleProofOptions& options_;
  DomainLimits limits_;
  const double start_s_ = verifier::ThreadWorkSeconds();
  std::vector<Sampled> samples_;
  size_t total_ = 0;
  std::vector<Atom> atoms_;
  std::vector<Witness> witnesses_;
  std::vector<Conjunction> unknown_;
  std::vector<Conjunction> found_;  // the answers
  Inference out_;
};

}  // namespace

Inference InferConditions(const Rule& rule, const RuleProofOptions& options) { return Inferrer(rule, options).Run(); }

}  // namespace rewright
