#include "core/interpreter/stage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"
#include "core/base/check.h"
#include "core/interpreter/kernels.h"

namespace rewright::interp {
namespace {

constexpr int64_t kInfinity = int64_t{1} << 62;  // intervals are clamped to +-kInfinity

int64_t Clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -static_cast<__int128>(kInfinity), kInfinity));
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

}  // namespace

Linear Combine(const Linear& a, const Linear& b, int64_t factor) {
  Linear sum;
  sum.imm = a.imm + factor * b.imm;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    if (j == b.terms.size() || (i < a.terms.size() && a.terms[i].first < b.terms[j].first)) {
      sum.terms.push_back(a.terms[i++]);
      continue;
    }
    std::pair<int, int64_t> term = {b.terms[j].first, factor * b.terms[j].second};
    if (i < a.terms.size() && a.terms[i].first == term.first) term.second += a.terms[i++].second;
    ++j;
    if (term.second != 0) sum.terms.push_back(term);
  }
  return sum;
}

bool SameNode(const Node& a, const Node& b) {
  return a.kind == b.kind && a.rep == b.rep && a.fn == b.fn && a.reduce == b.reduce && a.imm == b.imm &&
         std::bit_cast<uint64_t>(a.real) == std::bit_cast<uint64_t>(b.real) && a.linear == b.linear &&
         a.args == b.args && a.bound == b.bound && a.operand == b.operand && a.mask == b.mask && a.fill == b.fill &&
         a.checks == b.checks;
}

size_t StageBuilder::Hash::operator()(int id) const {
  const Node& n = builder->node(id);
  return absl::HashOf(static_cast<int>(n.kind), static_cast<int>(n.rep), static_cast<int>(n.fn), n.imm,
                      std::bit_cast<uint64_t>(n.real), n.linear.imm, n.linear.terms, n.args, n.bound, n.operand, n.mask,
                      n.fill);
}

bool StageBuilder::Equal::operator()(int a, int b) const { return SameNode(builder->node(a), builder->node(b)); }

StageBuilder::StageBuilder(std::vector<int64_t> extents) : interned_(16, Hash{this}, Equal{this}) {
  CHECK(extents.size() <= static_cast<size_t>(kFirstBound)) << extents.size();
  stage_.extents = std::move(extents);
  var_nodes_.assign(kMaxVariables, -1);
}

int64_t StageBuilder::extent(int bit) const {
  return bit < kFirstBound ? stage_.extents[bit] : stage_.bound_extents[bit - kFirstBound];
}

int StageBuilder::Intern(Node node) {
  const int id = static_cast<int>(stage_.nodes.size());
  stage_.nodes.push_back(std::move(node));
  const auto [it, inserted] = interned_.insert(id);
  if (inserted) {
    Derive(stage_.nodes.back());
  } else {
    stage_.nodes.pop_back();
  }
  return *it;
}

// Sets the derived fields; intervals of forms and divisions only, those of other atoms are unbounded.
void StageBuilder::Derive(Node& n) const {
  ForEachOperand(n, [&](int id) {
    n.deps |= node(id).deps;
    n.fallible |= node(id).fallible;
    n.from_data |= node(id).from_data;
  });
  n.fallible |= !n.checks.empty();
  n.from_data |= n.kind == NodeKind::kFromValue;
  n.low = -kInfinity;
  n.high = kInfinity;
  const auto arg = [&](int i) -> const Node& { return node(n.args[i]); };
  switch (n.kind) {
    case NodeKind::kVar:
      n.deps = uint64_t{1} << n.imm;
      n.low = 0;
      n.high = extent(static_cast<int>(n.imm)) - 1;
      break;
    case NodeKind::kLinear: std::tie(n.low, n.high) = Interval(n.linear); break;
    case NodeKind::kFloorDiv:
      if (arg(1).low > 0) {
        if (arg(0).low > -kInfinity) n.low = FloorDivide(arg(0).low, arg(0).low < 0 ? arg(1).low : arg(1).high);
        if (arg(0).high < kInfinity) n.high = FloorDivide(arg(0).high, arg(0).high < 0 ? arg(1).high : arg(1).low);
      }
      break;
    case NodeKind::kMod:
      if (arg(1).low > 0) {
        n.low = 0;
        n.high = arg(1).high - 1;
      }
      break;
    case NodeKind::kIndexMin:
      n.low = std::min(arg(0).low, arg(1).low);
      n.high = std::min(arg(0).high, arg(1).high);
      break;
    case NodeKind::kIndexMax:
      n.low = std::max(arg(0).low, arg(1).low);
      n.high = std::max(arg(0).high, arg(1).high);
      break;
    case NodeKind::kIndexMul: {
      const __int128 products[] = {
          static_cast<__int128>(arg(0).low) * arg(1).low, static_cast<__int128>(arg(0).low) * arg(1).high,
          static_cast<__int128>(arg(0).high) * arg(1).low, static_cast<__int128>(arg(0).high) * arg(1).high};
      n.low = Clamp(*std::min_element(products, products + 4));
      n.high = Clamp(*std::max_element(products, products + 4));
      break;
    }
    case NodeKind::kReduce:
      for (int bit : n.bound) n.deps &= ~(uint64_t{1} << bit);
      break;
    case NodeKind::kCall: n.fallible |= IsPartial(n.rep, n.fn); break;
    default: break;
  }
}

// ---------------------------------------------------------------- index forms

Linear StageBuilder::Axis(int axis) {
  if (extent(axis) == 1) return Linear{};
  return OfNode(Var(axis));
}

int StageBuilder::BoundBit(int level, int64_t extent) {
  const int next = kFirstBound + static_cast<int>(stage_.bound_extents.size());
  const auto [it, inserted] = bound_bits_.try_emplace({level, extent}, next);
  if (inserted) {
    if (next >= kMaxVariables) return -1;
    stage_.bound_extents.push_back(extent);
  }
  return it->second;
}

int StageBuilder::Var(int bit) {
  int& id = var_nodes_[bit];
  if (id < 0) id = Intern(Node{.kind = NodeKind::kVar, .imm = bit});
  return id;
}

Linear StageBuilder::OfNode(int id) const {
  if (node(id).kind == NodeKind::kLinear) return node(id).linear;
  return Linear{0, {{id, 1}}};
}

int StageBuilder::NodeOf(const Linear& linear) {
  if (linear.imm == 0 && linear.terms.size() == 1 && linear.terms[0].second == 1) return linear.terms[0].first;
  return Intern(Node{.kind = NodeKind::kLinear, .linear = linear});
}

std::pair<int64_t, int64_t> StageBuilder::Interval(const Linear& linear) const {
  __int128 low = linear.imm, high = linear.imm;
  for (const auto& [id, factor] : linear.terms) {
    const Node& atom = node(id);
    low += static_cast<__int128>(factor) * (factor > 0 ? atom.low : atom.high);
    high += static_cast<__int128>(factor) * (factor > 0 ? atom.high : atom.low);
    // An end that an atom leaves open stays open whatever is added to it.
    if ((factor > 0 ? atom.low : atom.high) == (factor > 0 ? -kInfinity : kInfinity)) low = -(__int128{1} << 100);
    if ((factor > 0 ? atom.high : atom.low) == (factor > 0 ? kInfinity : -kInfinity)) high = __int128{1} << 100;
  }
  return {Clamp(low), Clamp(high)};
}

int StageBuilder::Binary(NodeKind kind, const Linear& a, const Linear& b) {
  const int left = NodeOf(a);
  const int right = NodeOf(b);
  return Intern(Node{.kind = kind, .args = {left, right}});
}

Linear StageBuilder::Mul(const Linear& a, const Linear& b) {
  if (a.is_constant()) return Combine(Linear{}, b, a.imm);
  if (b.is_constant()) return Combine(Linear{}, a, b.imm);
  return OfNode(Binary(NodeKind::kIndexMul, a, b));
}

// With c constant and a = c * q + r:  floor(a / c) = q + floor(r / c), and floor((q + floor(x / d)) / c) =
// floor((d * q + x) / (c * d)).
Linear StageBuilder::FloorDiv(const Linear& a, const Linear& b) {
  if (!b.is_constant() || b.imm <= 0) return OfNode(Binary(NodeKind::kFloorDiv, a, b));
  const int64_t c = b.imm;
  Linear quotient, rest;
  quotient.imm = FloorDivide(a.imm, c);
  rest.imm = a.imm - c * quotient.imm;
  for (const auto& [id, factor] : a.terms) {
    if (factor % c == 0) {
      quotient.terms.push_back({id, factor / c});
    } else {
      rest.terms.push_back({id, factor});
    }
  }
  const auto [low, high] = Interval(rest);
  if (low > -kInfinity && high < kInfinity && FloorDivide(low, c) == FloorDivide(high, c)) {
    quotient.imm += FloorDivide(low, c);
    return quotient;
  }
  for (const auto& [id, factor] : rest.terms) {
    const Node& inner = node(id);
    if (factor != 1 || inner.kind != NodeKind::kFloorDiv) continue;
    const Linear divisor = OfNode(inner.args[1]);
    if (!divisor.is_constant() || divisor.imm <= 0 || divisor.imm > kInfinity / c) continue;
    const Linear others = Combine(rest, OfNode(id), -1);
    const Linear dividend = Combine(OfNode(inner.args[0]), others, divisor.imm);
    return Combine(quotient, FloorDiv(dividend, Linear{c * divisor.imm, {}}), 1);
  }
  return Combine(quotient, OfNode(Binary(NodeKind::kFloorDiv, rest, b)), 1);
}

Linear StageBuilder::Mod(const Linear& a, const Linear& b) {
  if (!b.is_constant() || b.imm <= 0) return OfNode(Binary(NodeKind::kMod, a, b));
  Linear rest;
  rest.imm = a.imm - b.imm * FloorDivide(a.imm, b.imm);
  for (const auto& [id, factor] : a.terms) {
    if (factor % b.imm != 0) rest.terms.push_back({id, factor});
  }
  const auto [low, high] = Interval(rest);
  if (low > -kInfinity && high < kInfinity && FloorDivide(low, b.imm) == FloorDivide(high, b.imm)) {
    rest.imm -= b.imm * FloorDivide(low, b.imm);
    return rest;
  }
  return OfNode(Binary(NodeKind::kMod, rest, b));
}

Linear StageBuilder::Min(const Linear& a, const Linear& b) {
  if (Interval(Combine(b, a, -1)).first >= 0) return a;
  if (Interval(Combine(a, b, -1)).first >= 0) return b;
  return OfNode(Binary(NodeKind::kIndexMin, a, b));
}

Linear StageBuilder::Max(const Linear& a, const Linear& b) {
  if (Interval(Combine(a, b, -1)).first >= 0) return a;
  if (Interval(Combine(b, a, -1)).first >= 0) return b;
  return OfNode(Binary(NodeKind::kIndexMax, a, b));
}

Linear StageBuilder::ExpandMods(const Linear& linear) {
  Linear result{linear.imm, {}};
  for (const auto& [id, factor] : linear.terms) {
    Linear atom = OfNode(id);
    if (node(id).kind == NodeKind::kMod && !node(id).from_data) {
      const Linear dividend = OfNode(node(id).args[0]);
      const Linear divisor = OfNode(node(id).args[1]);
      if (divisor.is_constant()) {
        atom = Combine(ExpandMods(dividend), ExpandMods(FloorDiv(dividend, divisor)), -divisor.imm);
      }
    }
    result = Combine(result, atom, factor);
  }
  return result;
}

// ---------------------------------------------------------------- conditions

int StageBuilder::Bool(bool value) {
  return Intern(Node{.kind = NodeKind::kConst, .rep = Rep::kBool, .imm = value ? 1 : 0});
}

bool StageBuilder::IsBool(int id, bool value) const {
  const Node& n = node(id);
  return n.kind == NodeKind::kConst && n.rep == Rep::kBool && (n.imm != 0) == value;
}

bool StageBuilder::Proves(int mask, const Linear& linear) const {
  if (Interval(linear).first >= 0) return true;
  if (mask < 0) return false;
  const Node& n = node(mask);
  if (n.kind == NodeKind::kAndThen) return Proves(n.args[0], linear) || Proves(n.args[1], linear);
  return n.kind == NodeKind::kNonNegative && Interval(Combine(linear, n.linear, -1)).first >= 0;
}

int StageBuilder::NonNegative(const Linear& linear, int mask) {
  if (Proves(mask, linear)) return Bool(true);
  Linear negated = Combine(Linear{-1, {}}, linear, -1);  // not (x >= 0) is -1 - x >= 0
  if (Proves(mask, negated)) return Bool(false);
  return Intern(Node{.kind = NodeKind::kNonNegative, .rep = Rep::kBool, .linear = linear});
}

int StageBuilder::IsZero(const Linear& linear) {
  const auto [low, high] = Interval(linear);
  if (low > 0 || high < 0) return Bool(false);
  if (low == 0 && high == 0) return Bool(true);
  return Intern(Node{.kind = NodeKind::kIsZero, .rep = Rep::kBool, .linear = linear});
}

int StageBuilder::AndThen(int a, int b) {
  if (a < 0 || a == b) return b;
  if (b < 0) return a;
  if (IsBool(a, true) || IsBool(b, false)) return b;
  if (IsBool(b, true) || IsBool(a, false)) return a;
  return Intern(Node{.kind = NodeKind::kAndThen, .rep = Rep::kBool, .args = {a, b}});
}

int StageBuilder::Or(int a, int b) {
  if (a == b || IsBool(a, true) || IsBool(b, false)) return a;
  if (IsBool(b, true) || IsBool(a, false)) return b;
  return Intern(Node{.kind = NodeKind::kCall, .rep = Rep::kBool, .fn = Fn::kOr, .args = {a, b}});
}

int StageBuilder::Not(int a) {
  if (IsBool(a, true) || IsBool(a, false)) return Bool(IsBool(a, false));
  if (node(a).kind == NodeKind::kNonNegative) return NonNegative(Combine(Linear{-1, {}}, node(a).linear, -1), -1);
  return Intern(Node{.kind = NodeKind::kCall, .rep = Rep::kBool, .fn = Fn::kNot, .args = {a}});
}

int StageBuilder::Const(Rep rep, double value) {
  Node n{.kind = NodeKind::kConst, .rep = rep, .real = value};
  if (rep == Rep::kBool) n.imm = value != 0;
  return Intern(std::move(n));
}

// ---------------------------------------------------------------- result

Stage StageBuilder::Take(int root) const {
  Stage result;
  result.extents = stage_.extents;
  result.bound_extents = stage_.bound_extents;
  std::vector<bool> needed(stage_.nodes.size(), false);
  needed[root] = true;
  for (size_t i = stage_.nodes.size(); i-- > 0;) {  // arguments come before users
    if (needed[i]) ForEachOperand(stage_.nodes[i], [&](int id) { needed[id] = true; });
  }
  std::vector<int> renumbered(stage_.nodes.size(), -1);
  for (size_t i = 0; i < stage_.nodes.size(); ++i) {
    if (!needed[i]) continue;
    renumbered[i] = static_cast<int>(result.nodes.size());
    Node n = stage_.nodes[i];
    const auto move = [&](int& id) { id = id < 0 ? -1 : renumbered[id]; };
    for (auto& term : n.linear.terms) move(term.first);
    for (int& arg : n.args) move(arg);
    for (BoundsCheck& check : n.checks) move(check.index);
    move(n.mask);
    move(n.fill);
    double evaluations = 1;
    for (uint64_t rest = n.deps; rest != 0; rest &= rest - 1) {
      evaluations *= static_cast<double>(extent(std::countr_zero(rest)));
    }
    for (int bit : n.bound) evaluations *= static_cast<double>(extent(bit));
    result.cost += evaluations;
    result.nodes.push_back(std::move(n));
  }
  result.root = renumbered[root];
  return result;
}

}  // namespace rewright::interp
