#include "verifier/certificate/step_writer.h"

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace rewright {

using verifier::Atom;
using verifier::AtomNode;
using verifier::Family;
using verifier::MovedTerm;
using verifier::VarInfo;

namespace {

constexpr char kNone[] = "-";

std::string Listed(const std::vector<std::string>& parts, const char* separator = ",") {
  return parts.empty() ? kNone : absl::StrJoin(parts, separator);
}

template <typename T, typename F>
std::string ListOf(const std::vector<T>& all, const F& text) {
  std::vector<std::string> parts;
  for (const T& one : all) parts.push_back(absl::StrCat(text(one)));
  return Listed(parts);
}

std::string MinOf(const VarInfo& info) { return info.min ? absl::StrCat(*info.min) : kNone; }

}  // namespace

std::string StepWord(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("_.@%?'#()+*~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      absl::StrAppendFormat(&out, "\\%02x", static_cast<unsigned char>(c));
    }
  }
  return out.empty() ? "\\" : out;
}

// ---------------------------------------------------------------- objects

int StepWriter::Number(char kind, const std::string& line) {
  std::map<std::string, int>& known = numbers_[kind];
  const int next = static_cast<int>(known.size()) + (kind == 'g' ? 2 : 0);
  const auto [place, first] = known.emplace(line, next);
  if (first) absl::StrAppend(&text_, std::string(1, kind), " ", line, "\n");
  return place->second;
}

int StepWriter::Of(const Variables& ctx, Var v) {
  const auto known = variables_.find(v);
  if (known != variables_.end()) return known->second;
  const VarInfo& info = ctx.Info(v);
  const auto pair = [&](const std::pair<Poly, Poly>& two) { return Of(ctx, std::vector<Poly>{two.first, two.second}); };
  std::string line;
  switch (info.kind) {
    case VarInfo::Kind::kParam:
      line = info.defined ? absl::StrCat("exact ", StepWord(info.name), " ", MinOf(info), " ", pair(*info.defined))
                          : absl::StrCat("param ", StepWord(info.name), " ", MinOf(info));
      break;
    case VarInfo::Kind::kLocal:
      line = info.range ? absl::StrCat("range ", StepWord(info.name), " ", pair(*info.range))
                        : absl::StrCat("local ", StepWord(info.name));
      break;
    case VarInfo::Kind::kDiv: line = absl::StrCat("div ", pair({info.a, info.b})); break;
    case VarInfo::Kind::kMin: line = absl::StrCat("min ", pair({info.a, info.b})); break;
    case VarInfo::Kind::kValue: line = absl::StrCat("value ", Of(ctx, verifier::ElementOf(info))); break;
  }
  absl::StrAppend(&text_, "x ", line, "\n");
  const int number = static_cast<int>(variables_.size());
  variables_.emplace(v, number);
  return number;
}

std::string StepWriter::Of(const Variables& ctx, const std::vector<Var>& vars) {
  return ListOf(vars, [&](Var v) { return Of(ctx, v); });
}

std::string StepWriter::Of(const Variables& ctx, const Poly& p) {
  std::string out;
  for (const Poly::Item& item : p.items()) {
    std::string factors;
    for (Var v : item.vars) absl::StrAppend(&factors, "x", Of(ctx, v));
    if (item.coef >= 0 && !out.empty()) out += "+";
    if (item.coef == -1 && !factors.empty()) {
      out += "-";
    } else if (item.coef != 1 || factors.empty()) {
      absl::StrAppend(&out, item.coef);
    }
    out += factors;
  }
  return out.empty() ? "0" : out;
}

std::string StepWriter::Of(const Variables& ctx, const std::vector<Poly>& polys) {
  return ListOf(polys, [&](const Poly& p) { return Of(ctx, p); });
}

int StepWriter::Of(const Variables& ctx, const Guard& g) {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return 0;
    case Guard::Kind::kFalse: return 1;
    case Guard::Kind::kGe: return Number('g', absl::StrCat(">", Of(ctx, g.poly())));
    case Guard::Kind::kEq: return Number('g', absl::StrCat("=", Of(ctx, g.poly())));
    case Guard::Kind::kNot: return Number('g', absl::StrCat("!", Of(ctx, g.args()[0])));
    case Guard::Kind::kAnd: break;
  }
  return Number('g', absl::StrCat("&", Of(ctx, g.args())));
}

std::string StepWriter::Of(const Variables& ctx, const std::vector<Guard>& guards) {
  return ListOf(guards, [&](const Guard& g) { return Of(ctx, g); });
}

int StepWriter::Of(const Variables& ctx, const Atom& a) {
  const auto known = atoms_.find(a.get());
  if (known != atoms_.end()) return known->second.second;
  std::string line;
  switch (a->kind) {
    case AtomNode::Kind::kRead: {
      const std::string flags = absl::StrCat(a->positive ? "p" : "", a->boolean ? "b" : "");
      line = absl::StrCat("read ", StepWord(a->name), " ", flags.empty() ? kNone : flags, " ", Of(ctx, a->at));
      break;
    }
    case AtomNode::Kind::kInt: line = absl::StrCat("int ", Of(ctx, a->value)); break;
    case AtomNode::Kind::kFn:
      line =
          absl::StrCat("fn ", StepWord(a->name), " ", ListOf(a->args, [&](const NormalForm& n) { return Of(ctx, n); }));
      break;
    case AtomNode::Kind::kBinder: {
      std::vector<std::string> families;
      for (const Family& b : a->families) {
        const std::string bound = Of(ctx, b.bound);
        const int guard = Of(ctx, b.guard);
        families.push_back(absl::StrCat(bound, ":", guard, ":", Of(ctx, b.body)));
      }
      line = absl::StrCat("bind ", StepWord(a->name), " ", Listed(families, "|"));
      break;
    }
  }
  const int number = Number('a', line);
  atoms_.emplace(a.get(), std::pair(a, number));
  return number;
}

int StepWriter::Of(const Variables& ctx, const Term& t) {
  const std::string bound = Of(ctx, t.bound);
  const int guard = Of(ctx, t.guard);
  return Number('t', absl::StrCat(t.coef.ToString(), " ", bound, " ", guard, " ",
                                  ListOf(t.atoms, [&](const Atom& a) { return Of(ctx, a); })));
}

int StepWriter::Of(const Variables& ctx, const NormalForm& n) {
  return Number('n', ListOf(n, [&](const Term& t) { return Of(ctx, t); }));
}

std::string StepWriter::Of(const Variables& ctx, const Substitution& s) {
  std::vector<std::string> parts;
  for (const auto& [v, p] : s.entries()) {
    const int number = Of(ctx, v);
    parts.push_back(absl::StrCat("x", number, "=", Of(ctx, p)));
  }
  return Listed(parts, ";");
}

// ---------------------------------------------------------------- steps

void StepWriter::Attempted(const Variables& ctx) {
  numbers_.clear();
  variables_.clear();
  atoms_.clear();
  told_.clear();
  facts_ = assumptions_ = kNone;
  text_ += "context\n";
  for (Var v = 0; v < ctx.NumVariables(); ++v) Of(ctx, v);
}

void StepWriter::Step(const Variables& ctx, const std::string& line, bool once) {
  const std::string facts = Of(ctx, ctx.facts()), assumptions = Of(ctx, ctx.assumptions);
  if (!told_.insert(absl::StrCat(facts, "|", assumptions, "|", line)).second && once) return;
  if (facts != facts_) absl::StrAppend(&text_, "facts ", facts, "\n");
  if (assumptions != assumptions_) absl::StrAppend(&text_, "assume ", assumptions, "\n");
  facts_ = facts;
  assumptions_ = assumptions;
  absl::StrAppend(&text_, line, "\n");
}

void StepWriter::Stated(const Variables& ctx, const std::vector<Poly>& symbols) {
  for (Var v = 0; v < ctx.NumVariables(); ++v) {
    if (ctx.IsParam(v)) Of(ctx, v);
  }
  Step(ctx, absl::StrCat("stated ", Of(ctx, symbols)));
}

void StepWriter::Resummed(const Variables& ctx, verifier::Law law, const Term& before, const Term& after,
                          const Substitution& forward, const Substitution& backward) {
  const int from = Of(ctx, before), to = Of(ctx, after);
  const std::string there = Of(ctx, forward), back = Of(ctx, backward);
  Step(ctx, absl::StrCat("sum ", StepWord(verifier::LawName(law)), " ", from, " ", to, " ", there, " ", back));
}

void StepWriter::Counted(const Variables& ctx, const Term& before, const Term& after, Var v, const Poly& count) {
  const int from = Of(ctx, before), to = Of(ctx, after), variable = Of(ctx, v);
  Step(ctx, absl::StrCat("count ", from, " ", to, " ", variable, " ", Of(ctx, count)));
}

void StepWriter::Vanished(const Variables& ctx, const Term& term) { Step(ctx, absl::StrCat("none ", Of(ctx, term))); }

void StepWriter::Collected(const Variables& ctx, const NormalForm& parts, const std::vector<size_t>& place,
                           const NormalForm& sum) {
  const int from = Of(ctx, parts), to = Of(ctx, sum);
  Step(ctx, absl::StrCat("collect ", from, " ", ListOf(place, [](size_t i) { return i; }), " ", to));
}

void StepWriter::Decided(const Variables& ctx, verifier::Law law, const std::vector<Guard>& also,
                         const std::vector<Guard>& goals, const std::vector<Var>& hidden) {
  const std::string given = Of(ctx, also), wanted = Of(ctx, goals);
  Step(ctx, absl::StrCat("decide ", StepWord(verifier::LawName(law)), " ", given, " ", wanted, " ", Of(ctx, hidden)));
}

void StepWriter::Divided(const Variables& ctx, const Poly& num, const Poly& den, const Poly& result) {
  Step(ctx, absl::StrCat("divide ", Of(ctx, std::vector<Poly>{num, den, result})));
}

void StepWriter::Least(const Variables& ctx, const Poly& a, const Poly& b, const Poly& result) {
  Step(ctx, absl::StrCat("least ", Of(ctx, std::vector<Poly>{a, b, result})));
}

void StepWriter::Equal(const Variables& ctx, verifier::Law law, const Guard& also, const NormalForm& before,
                       const NormalForm& after) {
  const int given = Of(ctx, also), from = Of(ctx, before), to = Of(ctx, after);
  // The difference of both sides is a part of each case.
  const bool once = law != verifier::Law::kDifference;
  Step(ctx, absl::StrCat("equal ", StepWord(verifier::LawName(law)), " ", given, " ", from, " ", to), once);
}

void StepWriter::Zero(const Variables& ctx, const std::vector<Guard>& facts, const NormalForm& sum,
                      const std::vector<std::vector<MovedTerm>>& classes) {
  const std::string given = Of(ctx, facts);
  const int form = Of(ctx, sum);
  std::vector<std::string> groups;
  for (const std::vector<MovedTerm>& members : classes) {
    groups.push_back(ListOf(members, [&](const MovedTerm& member) {
      const int moved = Of(ctx, member.moved);
      const std::string there = Of(ctx, member.forward), back = Of(ctx, member.backward);
      return Number('m', absl::StrCat(member.place, " ", moved, " ", there, " ", back));
    }));
  }
  Step(ctx, absl::StrCat("zero ", given, " ", form, " ", Listed(groups, "|")), /*once=*/false);
}

void StepWriter::Composed(const Variables& ctx, int node, int output, const std::vector<Poly>& at,
                          const NormalForm& form) {
  const std::string position = Of(ctx, at);
  Step(ctx, absl::StrCat("composed ", node, " ", output, " ", position, " ", Of(ctx, form)), /*once=*/false);
}

}  // namespace rewright
