#include "substitutions/instance/random_application.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ir/index_value.h"
#include "core/ir/random_tensors.h"
#include "core/ir/rewrite.h"
#include "substitutions/match/match_scope.h"

namespace rewright {
namespace {

using Class = RuleAttr::Class;

int64_t Draw(std::mt19937_64& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}

// Requirements of the left side and conditions of the rule.
std::vector<ExprPtr> Constraints(const RuleInstance& instance) {
  std::vector<ExprPtr> constraints = instance.conditions;
  for (int i = 0; i < instance.num_lhs_nodes; ++i) {
    const SymbolicNode& node = instance.nodes[i];
    if (node.op == nullptr) continue;
    for (const Requirement& requirement : node.meaning->requirements) {
      constraints.push_back(Substitute(requirement.condition, node.indices, node.params));
    }
    for (size_t v = 0; v < node.indices.size(); ++v) {
      if (node.meaning->variables[v].kind != Meaning::VarKind::kAttr) continue;
      constraints.push_back((Index(node.meaning->variables[v].min) <= Index(node.indices[v])).node());
    }
  }
  return constraints;
}

// Values of a variable that it is compared with, as often as not: equal sizes would be rare otherwise.
bool Solve(const ExprPtr& constraint, std::vector<int64_t>* symbols) {
  if (!constraint->IsEquation()) return false;
  for (int side = 0; side < 2; ++side) {
    const ExprPtr& variable = constraint->arg(side);
    if (variable->kind() != ExprKind::kVar) continue;
    const std::optional<int64_t> value = EvalIndex(constraint->arg(1 - side), *symbols);
    if (!value || *value < 1 || *value > 12) continue;
    (*symbols)[variable->variable()] = *value;
    return true;
  }
  return false;
}

// The numbers that are drawn without repetition.
enum class Distinct : uint8_t { kNothing, kSizes, kAll };

// `count` different numbers from `low` on, with a few to choose from, in random order.
std::vector<int64_t> Shuffled(size_t count, int64_t low, std::mt19937_64& rng) {
  std::vector<int64_t> numbers(count + 3);
  std::iota(numbers.begin(), numbers.end(), low);
  for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[rng() % i]);
  return numbers;
}

// Sizes are 1 to 5 where they may be equal.
void DrawOnce(const RuleInstance& instance, Distinct distinct, std::mt19937_64& rng, std::vector<int64_t>* symbols) {
  const std::vector<int64_t> sizes = Shuffled(instance.symbols.size(), 2, rng);
  const std::vector<int64_t> others = Shuffled(instance.symbols.size(), 0, rng);
  symbols->clear();
  for (const Symbol& symbol : instance.symbols) {
    const size_t at = symbols->size();
    const int64_t low = std::max<int64_t>(symbol.min, -1);
    if (symbol.is_size) {
      symbols->push_back(distinct == Distinct::kNothing ? Draw(rng, 1, 5) : sizes[at]);
    } else {
      symbols->push_back(distinct == Distinct::kAll ? low + others[at] : Draw(rng, low, low + 2));
    }
  }
}

bool DrawSymbols(const RuleInstance& instance, const DrawOptions& options, std::mt19937_64& rng,
                 std::vector<int64_t>* symbols) {
  const std::vector<ExprPtr> constraints = Constraints(instance);
  for (int attempt = 0; attempt < options.tries; ++attempt) {
    // Tries to draw all numbers different, then the sizes; the last tries draw any numbers.
    const Distinct distinct = !options.distinct || 2 * attempt >= options.tries ? Distinct::kNothing
                              : 4 * attempt < options.tries                     ? Distinct::kAll
                                                                                : Distinct::kSizes;
    DrawOnce(instance, distinct, rng, symbols);
    bool holds = true;
    for (const ExprPtr& constraint : constraints) {
      if (!EvalCond(constraint, *symbols).value_or(false)) Solve(constraint, symbols);
    }
    for (const ExprPtr& constraint : constraints) holds = holds && EvalCond(constraint, *symbols).value_or(false);
    if (holds) return true;
  }
  return false;
}

RuleBindings BindingsFor(const CompiledRule& rule, const StructuralAssignment& structure,
                         const std::vector<int64_t>& symbols) {
  RuleBindings bindings;
  size_t at = rule.sizes().size();
  bindings.sizes.assign(symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(at));
  const auto take = [&](int64_t count) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(symbols[at++]);
    return values;
  };
  for (int length : structure.packs) bindings.packs.push_back(take(length));
  for (size_t a = 0; a < rule.attrs().size(); ++a) {
    const std::vector<int64_t>& fixed = structure.attrs[a];
    switch (rule.attrs()[a].kind) {
      case Class::kInt: bindings.attrs.push_back(take(1)[0]); break;
      case Class::kList: bindings.attrs.push_back(take(fixed[0])); break;
      case Class::kFixedInt: bindings.attrs.push_back(fixed[0]); break;
      case Class::kFixedList: bindings.attrs.push_back(fixed); break;
      case Class::kReal: {
        const DType type = ConstantType(rule, structure, static_cast<int>(a));
        if (IsFloating(type)) {
          bindings.attrs.push_back(0.25 + 0.5 * static_cast<double>(a));
        } else {
          bindings.attrs.push_back(type == DType::kBool ? int64_t{1} : static_cast<int64_t>(a) + 1);
        }
        break;
      }
      case Class::kDType: bindings.attrs.push_back(static_cast<DType>(fixed[0])); break;
    }
  }
  return bindings;
}

// The leaves for which a condition states one of these predicates.
std::set<int> NodesUnder(const CompiledRule& rule, std::initializer_list<ArgFn> predicates) {
  std::set<int> nodes;
  for (const ArgExpr& condition : rule.conditions()) {
    if (condition.kind != ArgExpr::Kind::kCall || condition.args[0].ref != ArgExpr::Ref::kTensor) continue;
    if (std::find(predicates.begin(), predicates.end(), condition.fn) != predicates.end()) {
      nodes.insert(condition.args[0].id);
    }
  }
  return nodes;
}

// Functions that are undefined for negative numbers, or large near zero.
bool WantsPositive(const CompiledRule& rule) {
  static const std::set<std::string> kOps = {"sqrt", "rsqrt", "log", "batch_norm", "pow", "div", "reciprocal"};
  return std::any_of(rule.nodes().begin(), rule.nodes().end(),
                     [](const RuleNode& node) { return node.op != nullptr && kOps.count(node.op->name) > 0; });
}

class Builder {
 public:
  Builder(const CompiledRule& rule, const RuleInstance& instance, const std::vector<int64_t>& symbols,
          RuleBindings bindings, bool tensors, std::mt19937_64& rng)
      : rule_(rule),
        instance_(instance),
        symbols_(symbols),
        bindings_(std::move(bindings)),
        tensors_(tensors),
        rng_(rng),
        arena_(std::make_shared<Arena>()),
        scope_(rule, *arena_, nodes_, bindings_),
        weights_(NodesUnder(rule, {ArgFn::kWeight, ArgFn::kConstant, ArgFn::kFinite})),
        positive_(NodesUnder(rule, {ArgFn::kPositive})),
        all_positive_(WantsPositive(rule)) {}

  // Nothing if the left side is ill-formed, for example by a pad that cuts off more than the axis has.
  std::optional<RandomApplication> Run() {
    RandomApplication result;
    for (int i = 0; i < rule_.num_lhs_nodes(); ++i) {
      const RuleNode& node = rule_.nodes()[i];
      const std::optional<Value> value = node.op == nullptr ? Leaf(i, node, &result) : Application(node);
      if (!value.has_value()) return std::nullopt;
      nodes_.push_back(*value);
    }
    std::vector<Output> outputs;
    for (const RuleValue& term : rule_.lhs()) {
      for (Value value : Values(term)) outputs.push_back(Output{value, absl::StrCat("out", outputs.size())});
    }
    result.match = Match{&rule_, {}, nodes_, std::move(bindings_)};
    for (const Output& output : outputs) result.match.roots.push_back(output.value);
    result.graph = Graph(arena_, inputs_, std::move(outputs));
    for (Value input : result.graph.inputs()) KeepInside(result.graph, input, &result);
    return result;
  }

 private:
  // Elements that select positions select existing ones.
  static void KeepInside(const Graph& graph, Value input, RandomApplication* result) {
    const auto found = result->inputs.find(graph.node(input.node).name);
    const int64_t size = IsInteger(graph.type(input).dtype) ? IndexedSize(graph, input) : 0;
    if (found == result->inputs.end() || size == 0) return;
    Tensor& tensor = found->second;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.SetInt(i, tensor.AtInt(i) % size);
  }

  Tensor RandomTensor(const TensorType& type, bool positive) {
    Tensor tensor(type);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double real = std::uniform_real_distribution<double>(positive ? 0.5 : -2, 2)(rng_);
      if (IsFloating(type.dtype)) {
        tensor.Set(i, real);
      } else {
        tensor.SetInt(i, type.dtype == DType::kBool ? Draw(rng_, 0, 1) : Draw(rng_, 1, 3));
      }
    }
    return tensor;
  }

  Value Leaf(int id, const RuleNode& leaf, RandomApplication* result) {
    const SymbolicNode& symbolic = instance_.nodes[id];
    TensorType type{symbolic.dtypes[0], {}};
    for (const ExprPtr& size : symbolic.shapes[0]) type.shape.push_back(EvalIndex(size, symbols_).value());
    if (leaf.value) {
      MatchEvaluator evaluator(scope_);
      ArgValue<Concrete> value;
      Number number;
      CHECK(evaluator.Eval(*leaf.value, &value) && ToNumber(value, type.dtype, &number)) << leaf.name;
      Tensor tensor(type);
      FillWith(number, &tensor);
      return arena_->AddConstant(tensor);
    }
    const auto draw = [&] { return RandomTensor(type, all_positive_ || positive_.count(id) > 0); };
    if (weights_.count(id) || positive_.count(id)) return *arena_->AddState(leaf.name, draw());
    const Value input = *arena_->AddInput(leaf.name, type);
    inputs_.push_back(input);
    if (tensors_) result->inputs[leaf.name] = draw();
    return input;
  }

  std::vector<Value> Values(const RuleValue& term) const {
    const Value value = nodes_[term.node];
    std::vector<Value> values;
    const int32_t count = static_cast<int32_t>(arena_->node(value.node).outputs.size());
    if (!term.whole && !term.all) return {Value{value.node, term.output}};
    for (int32_t k = 0; k < count; ++k) values.push_back(Value{value.node, k});
    return values;
  }

  std::optional<Value> Application(const RuleNode& node) {
    std::vector<Value> operands;
    for (const RuleValue& term : node.operands) {
      for (Value value : Values(term)) operands.push_back(value);
    }
    Attrs attrs;
    for (size_t k = 0; k < node.attrs.size(); ++k) {
      MatchEvaluator evaluator(scope_);
      ArgValue<Concrete> value;
      const AttrSpec& spec = node.op->attrs[k];
      CHECK(evaluator.Eval(node.attrs[k], &value) && ToAttr(value, spec.kind, &attrs[spec.name])) << node.op->name;
    }
    auto id = arena_->Add(*node.op, std::move(operands), std::move(attrs));
    if (!id.ok()) return std::nullopt;
    return Value{*id, 0};
  }

  const CompiledRule& rule_;
  const RuleInstance& instance_;
  const std::vector<int64_t>& symbols_;
  RuleBindings bindings_;
  const bool tensors_;
  std::mt19937_64& rng_;
  std::shared_ptr<Arena> arena_;
  std::vector<Value> nodes_;
  MatchScope scope_;
  std::set<int> weights_, positive_;
  bool all_positive_;
  std::vector<Value> inputs_;
};

std::optional<RandomApplication> Build(const CompiledRule& rule, const StructuralAssignment& structure,
                                       const RuleInstance& instance, const std::vector<int64_t>& symbols, bool tensors,
                                       std::mt19937_64& rng) {
  std::optional<RandomApplication> application =
      Builder(rule, instance, symbols, BindingsFor(rule, structure, symbols), tensors, rng).Run();
  if (!application.has_value()) return std::nullopt;
  application->description = instance.description;
  for (size_t i = 0; i < symbols.size(); ++i) {
    absl::StrAppend(&application->description, " ", instance.symbols[i].name, "=", symbols[i]);
  }
  return application;
}

}  // namespace

std::optional<RandomApplication> DrawApplication(const CompiledRule& rule, const StructuralAssignment& structure,
                                                 const RuleInstance& instance, const DrawOptions& options,
                                                 std::mt19937_64& rng) {
  std::vector<int64_t> symbols;
  if (!DrawSymbols(instance, options, rng, &symbols)) return std::nullopt;
  return Build(rule, structure, instance, symbols, options.tensors, rng);
}

std::optional<RandomApplication> ApplicationAt(const CompiledRule& rule, const StructuralAssignment& structure,
                                               const RuleInstance& instance, const std::vector<int64_t>& symbols) {
  std::mt19937_64 rng;
  return Build(rule, structure, instance, symbols, /*tensors=*/false, rng);
}

}  // namespace rewright
