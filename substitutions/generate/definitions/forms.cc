#include "substitutions/generate/definitions/forms.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace rewright::generate {
namespace {

const OpDef* Op(Fn fn) { return OperatorOf(fn); }

// ---------------------------------------------------------------- products

struct Factor {
  PartPtr part;
  bool inverse = false;
};

bool IsProduct(const PartPtr& part) { return part->IsApply(Op(Fn::kMul)) || part->IsApply(Op(Fn::kDiv)); }
bool IsSquare(const PartPtr& part) {
  return part->IsApply(Op(Fn::kMul)) && part->operands[0]->key == part->operands[1]->key;
}

void AddFactors(const PartPtr& part, bool inverse, std::vector<Factor>* factors) {
  if (!IsProduct(part) || IsSquare(part)) {
    if (!part->IsNumber(1)) factors->push_back({part, inverse});
    return;
  }
  AddFactors(part->operands[0], inverse, factors);
  AddFactors(part->operands[1], part->IsApply(Op(Fn::kDiv)) != inverse, factors);
}

PartPtr Inverse(const PartPtr& part) { return MakeApply(Op(Fn::kDiv), {MakeNumber(1), part}); }

Factor Times(const Factor& a, const Factor& b) {
  if (a.inverse == b.inverse) return {MakeApply(Op(Fn::kMul), {a.part, b.part}), a.inverse};
  const Factor& above = a.inverse ? b : a;
  return {MakeApply(Op(Fn::kDiv), {above.part, (a.inverse ? a : b).part}), false};
}

// The products of the factors in the set, a bit for each, in all orders.
std::vector<Factor> Products(const std::vector<Factor>& factors, unsigned set) {
  const unsigned first = set & (~set + 1);
  if (set == first) {
    for (size_t k = 0; k < factors.size(); ++k) {
      if (first == 1u << k) return {factors[k]};
    }
  }
  std::vector<Factor> found;
  // The part with the first factor, from large to small: ((a b) c) comes first.
  for (unsigned rest = set ^ first, others = (rest - 1) & rest;; others = (others - 1) & rest) {
    for (const Factor& left : Products(factors, others | first)) {
      for (const Factor& right : Products(factors, rest ^ others)) found.push_back(Times(left, right));
    }
    if (others == 0) break;
  }
  return found;
}

// ---------------------------------------------------------------- smaller operators

// True if `part` is `pattern` with *something in place of its only operand.
bool Fits(const PartPtr& pattern, const PartPtr& part, PartPtr* something) {
  if (pattern->kind == Part::Kind::kOperand) {
    if (*something != nullptr) return (*something)->key == part->key;
    *something = part;
    return true;
  }
  if (pattern->kind != Part::Kind::kApply) return pattern->key == part->key;
  if (!part->IsApply(pattern->op)) return false;
  for (size_t k = 0; k < pattern->operands.size(); ++k) {
    if (!Fits(pattern->operands[k], part->operands[k], something)) return false;
  }
  return true;
}

class Smaller {
 public:
  // The smaller operators: elementwise ones of one operand without attributes, the largest first.
  Smaller(const Definition& of, const std::vector<Definition>& all) {
    const size_t size = Applications(of.whole).size();
    for (const Definition& definition : all) {
      const bool elementwise = definition.operand_axes.size() == 1 && definition.attrs.empty();
      if (elementwise && Applications(definition.whole).size() < size) definitions_.push_back(&definition);
    }
    std::stable_sort(definitions_.begin(), definitions_.end(), [](const Definition* a, const Definition* b) {
      return Applications(a->whole).size() > Applications(b->whole).size();
    });
  }

  // The part with these operators in place of their definitions.
  PartPtr In(const PartPtr& part) const {
    if (part->kind != Part::Kind::kApply) return part;
    for (const Definition* definition : definitions_) {
      PartPtr operand;
      if (Fits(definition->whole, part, &operand)) return MakeApply(definition->op, {In(operand)});
    }
    std::vector<PartPtr> operands;
    for (const PartPtr& operand : part->operands) operands.push_back(In(operand));
    return MakeApply(part->op, std::move(operands), part->reduced);
  }

 private:
  std::vector<const Definition*> definitions_;
};

// ---------------------------------------------------------------- forms

// How a definition is written down.
struct Style {
  std::map<std::string, size_t> order;  // of a product, by its key
  bool powers = false;                  // squares are powers
  const Smaller* smaller = nullptr;     // the smaller operators that are used
};

class Writer {
 public:
  explicit Writer(const Style& style) : style_(style) {}

  PartPtr Write(const PartPtr& part) {
    if (part->kind != Part::Kind::kApply) return part;
    PartPtr& written = written_[part->key];
    if (written == nullptr) written = style_.smaller != nullptr ? style_.smaller->In(Rebuild(part)) : Rebuild(part);
    return written;
  }

  // The number of orders in which the product can be written.
  static size_t Orders(const PartPtr& product) {
    std::vector<Factor> factors;
    AddFactors(product, false, &factors);
    return factors.size() < 2 || factors.size() > 4 ? 1 : Products(factors, (1u << factors.size()) - 1).size();
  }

 private:
  PartPtr Rebuild(const PartPtr& part) {
    if (IsSquare(part)) {
      const PartPtr base = Write(part->operands[0]);
      return style_.powers ? MakeApply(Op(Fn::kPow), {base, MakeNumber(2)}) : MakeApply(part->op, {base, base});
    }
    const auto order = style_.order.find(part->key);
    if (order != style_.order.end()) return Product(part, order->second);
    std::vector<PartPtr> operands;
    for (const PartPtr& operand : part->operands) operands.push_back(Write(operand));
    return MakeApply(part->op, std::move(operands), part->reduced);
  }

  PartPtr Product(const PartPtr& part, size_t order) {
    std::vector<Factor> factors;
    AddFactors(part, false, &factors);
    for (Factor& factor : factors) {
      factor.part = Write(factor.part);
      if (style_.smaller == nullptr || !factor.inverse || factor.part->kind != Part::Kind::kApply) continue;
      const PartPtr inverse = style_.smaller->In(Inverse(factor.part));
      if (inverse->key != Inverse(factor.part)->key) factor = {inverse, false};
    }
    const Factor product = Products(factors, (1u << factors.size()) - 1)[order];
    return product.inverse ? Inverse(product.part) : product.part;
  }

  const Style& style_;
  std::map<std::string, PartPtr> written_;
};

// The largest products in a part, by key.
std::map<std::string, PartPtr> LargestProducts(const PartPtr& whole) {
  std::map<std::string, PartPtr> products;
  const auto visit = [&](const auto& self, const PartPtr& part) -> void {
    if (!IsProduct(part) || IsSquare(part)) {
      for (const PartPtr& operand : part->operands) self(self, operand);
      return;
    }
    std::vector<Factor> factors;
    AddFactors(part, false, &factors);
    if (!factors.empty() && factors.size() <= 4) products.emplace(part->key, part);
    for (const Factor& factor : factors) self(self, factor.part);
  };
  visit(visit, whole);
  return products;
}

// ---------------------------------------------------------------- scale and shift

struct Summand {
  PartPtr part;
  bool negative = false;
};

// factor * x + the sum of the others; without a factor x does not occur.
struct Affine {
  PartPtr factor;
  std::vector<Summand> summands;
};

PartPtr ProductOf(const PartPtr& a, const PartPtr& b) {
  if (a->IsNumber(1)) return b;
  return MakeApply(Op(Fn::kMul), {a, b});
}

PartPtr QuotientOf(const PartPtr& a, const PartPtr& b) { return MakeApply(Op(Fn::kDiv), {a, b}); }

std::optional<Affine> AffineOf(const PartPtr& part) {
  if (part->kind == Part::Kind::kOperand && part->operand == 0) return Affine{.factor = MakeNumber(1)};
  if (!DependsOn(part, 0)) return Affine{.summands = {{part}}};
  std::vector<Affine> operands;
  for (const PartPtr& operand : part->operands) {
    auto affine = AffineOf(operand);
    if (!affine) return std::nullopt;
    operands.push_back(*std::move(affine));
  }
  Affine& a = operands[0];
  if (part->IsApply(Op(Fn::kAdd)) || part->IsApply(Op(Fn::kSub))) {
    Affine& b = operands[1];
    const bool negative = part->IsApply(Op(Fn::kSub));
    if (a.factor != nullptr && b.factor != nullptr) {
      a.factor = MakeApply(part->op, {a.factor, b.factor});
    } else if (b.factor != nullptr) {
      a.factor = negative ? MakeApply(Op(Fn::kNeg), {b.factor}) : b.factor;
    }
    for (const Summand& summand : b.summands) a.summands.push_back({summand.part, summand.negative != negative});
    return a;
  }
  const bool product = part->IsApply(Op(Fn::kMul));
  if (!product && !part->IsApply(Op(Fn::kDiv))) return std::nullopt;
  const size_t with_x = operands[0].factor != nullptr ? 0 : 1;
  if (operands[1 - with_x].factor != nullptr || (!product && with_x == 1)) return std::nullopt;
  const PartPtr& by = part->operands[1 - with_x];
  const auto multiply = product ? ProductOf : QuotientOf;
  Affine& affine = operands[with_x];
  affine.factor = multiply(affine.factor, by);
  for (Summand& summand : affine.summands) summand.part = multiply(summand.part, by);
  return affine;
}

// Null of none.
PartPtr SumOf(const std::vector<Summand>& summands, bool negative) {
  PartPtr sum;
  for (const Summand& summand : summands) {
    if (summand.negative != negative) continue;
    sum = sum == nullptr ? summand.part : MakeApply(Op(Fn::kAdd), {sum, summand.part});
  }
  return sum;
}

}  // namespace

std::vector<PartPtr> Forms(const Definition& definition, const std::vector<Definition>& smaller) {
  const Smaller operators(definition, smaller);
  const std::map<std::string, PartPtr> products = LargestProducts(definition.whole);
  std::vector<PartPtr> forms = {definition.whole};
  std::set<std::string> seen = {definition.whole->key};
  for (const Smaller* with : {static_cast<const Smaller*>(nullptr), &operators}) {
    for (bool powers : {false, true}) {
      Style style{.powers = powers, .smaller = with};
      for (const auto& [key, product] : products) style.order[key] = 0;
      while (forms.size() < kMaxForms) {
        PartPtr form = Writer(style).Write(definition.whole);
        if (seen.insert(form->key).second) forms.push_back(std::move(form));
        // The next choice of orders.
        auto next = products.begin();
        while (next != products.end() && ++style.order[next->first] == Writer::Orders(next->second)) {
          style.order[next->first] = 0;
          ++next;
        }
        if (next == products.end()) break;
      }
    }
  }
  return forms;
}

std::optional<ScaleAndShift> AsScaleAndShift(const Definition& definition) {
  const auto affine = AffineOf(definition.whole);
  if (!affine || affine->factor == nullptr) return std::nullopt;
  const PartPtr positive = SumOf(affine->summands, false), negative = SumOf(affine->summands, true);
  ScaleAndShift found{.factor = affine->factor, .summand = positive};
  if (negative != nullptr) {
    found.summand =
        positive == nullptr ? MakeApply(Op(Fn::kNeg), {negative}) : MakeApply(Op(Fn::kSub), {positive, negative});
  }
  for (const PartPtr& part : {found.factor, found.summand}) {
    if (part == nullptr || part->kind != Part::Kind::kApply) return std::nullopt;
  }
  return found;
}

}  // namespace rewright::generate
