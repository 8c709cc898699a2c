#include "verifier/check/questions/step_queries.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "verifier/check/questions/step_bounds.h"

namespace rewright::verifier {
namespace {

constexpr char kMark = 'c';  // c12 is constant number 12 until a question gives it its name

std::string Number(int64_t value) {
  return value < 0 ? absl::StrCat("(- ", absl::StrCat(value).substr(1), ")") : absl::StrCat(value);
}

bool IsMarked(const std::string& text, size_t at) {
  return text[at] == kMark && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0 &&
         (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(');
}

// Calls `visit` with every constant that the text names, and gives the text with its results in their place.
template <typename Visit>
std::string OverConstants(const std::string& text, const Visit& visit) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (!IsMarked(text, at)) {
      out += text[at++];
      continue;
    }
    size_t end = at + 1;
    int number = 0;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) {
      number = 10 * number + (text[end++] - '0');
    }
    out += visit(number);
    at = end;
  }
  return out;
}

// Calls `visit` with every product of constants in the text, as it stands there, and gives the text with its results in
// their place.
template <typename Visit>
std::string OverProducts(const std::string& text, const Visit& visit) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t start = text.find("(* ", at);
    if (start == std::string::npos) return out + text.substr(at);
    // (* 2 c1 c2), (* (- 2) c1 c2)
    size_t first = start + 3;
    if (text[first] == '(') first = text.find(')', first) + 2;
    while (!IsMarked(text, first)) first = text.find(' ', first) + 1;
    const size_t end = text.find(')', first);
    const std::string product = text.substr(first, end - first);
    const bool one = product.find(' ') == std::string::npos;
    const std::string instead = one ? product : visit(product);
    if (first == start + 3 && instead.find(' ') == std::string::npos) {  // a product of one
      absl::StrAppend(&out, text.substr(at, start - at), instead);
      at = end + 1;
      continue;
    }
    absl::StrAppend(&out, text.substr(at, first - at), instead);
    at = end;
  }
  return out;
}

bool HasProduct(const std::string& text) {
  bool found = false;
  OverProducts(text, [&](const std::string& product) {
    found = true;
    return product;
  });
  return found;
}

// The other factors of the product, where these are some of them.
std::optional<std::vector<int>> OtherFactors(const std::vector<int>& product, const std::vector<int>& factors) {
  if (!std::includes(product.begin(), product.end(), factors.begin(), factors.end())) return std::nullopt;
  std::vector<int> rest;
  std::set_difference(product.begin(), product.end(), factors.begin(), factors.end(), std::back_inserter(rest));
  return rest;
}

bool IsNumber(const IndexSum& a, int64_t* value) {
  *value = a.empty() ? 0 : a.begin()->second;
  return a.empty() || (a.size() == 1 && a.begin()->first.empty());
}

}  // namespace

std::string StepQueryBuilder::Text(const IndexSum& a) {
  std::vector<std::string> parts;
  for (const auto& [product, coef] : a) {
    std::vector<std::string> factors;
    if (coef != 1 || product.empty()) factors.push_back(Number(coef));
    for (int constant : product) factors.push_back(absl::StrCat(std::string(1, kMark), constant));
    parts.push_back(factors.size() == 1 ? factors[0] : absl::StrCat("(* ", absl::StrJoin(factors, " "), ")"));
  }
  if (parts.empty()) return "0";
  return parts.size() == 1 ? parts[0] : absl::StrCat("(+ ", absl::StrJoin(parts, " "), ")");
}

std::string StepQueryBuilder::AtLeastZero(const IndexSum& a) {
  int64_t value = 0;
  if (IsNumber(a, &value)) return value >= 0 ? "true" : "false";
  std::string text = absl::StrCat("(>= ", Text(a), " 0)");
  relations_[text] = {a, false};
  return text;
}

std::string StepQueryBuilder::Equal(const IndexSum& a, const IndexSum& b) {
  int64_t value = 0;
  const IndexSum difference = PlusTimes(a, b, -1);
  if (IsNumber(difference, &value)) return value == 0 ? "true" : "false";
  std::string text = absl::StrCat("(= ", Text(difference), " 0)");
  relations_[text] = {difference, true};
  return text;
}

IndexSum StepQueryBuilder::Quotient(const IndexSum& num, const IndexSum& den) {
  const auto [place, first] = of_text_.emplace(absl::StrCat("div ", Text(num), " by ", Text(den)), 0);
  if (first) {
    place->second = NewConstant();
    constants_[place->second].quotient = {num, den};
    const IndexSum rest = PlusTimes(num, Times(den, {{{place->second}, 1}}), -1);
    const IndexSum above = PlusTimes(PlusTimes(den, rest, -1), {{{}, 1}}, -1);
    const std::string positive = AtLeastZero(PlusTimes(den, {{{}, 1}}, -1));
    constants_[place->second].known.push_back(
        absl::StrCat("(=> ", positive, " (and ", AtLeastZero(rest), " ", AtLeastZero(above), "))"));
  }
  return {{{place->second}, 1}};
}

IndexSum StepQueryBuilder::Least(const IndexSum& a, const IndexSum& b) {
  const auto [place, first] = of_text_.emplace(absl::StrCat("min ", Text(a), " and ", Text(b)), 0);
  if (first) {
    place->second = NewConstant();
    const IndexSum least = {{{place->second}, 1}};
    constants_[place->second].known = {AtLeastZero(PlusTimes(a, least, -1)), AtLeastZero(PlusTimes(b, least, -1)),
                                       absl::StrCat("(or ", Equal(least, a), " ", Equal(least, b), ")")};
  }
  return {{{place->second}, 1}};
}

IndexSum StepQueryBuilder::Unknown(const std::string& text) {
  const auto [place, first] = of_text_.emplace(text, 0);
  if (first) place->second = NewConstant();
  return {{{place->second}, 1}};
}

IndexSum StepQueryBuilder::OfVar(Var v, const IndexEnvironment& environment) {
  const auto replaced = environment.find(v);
  if (replaced != environment.end()) return replaced->second;
  const VarInfo& info = ctx_.Info(v);
  switch (info.kind) {
    case VarInfo::Kind::kDiv: return Quotient(Of(info.a, environment), Of(info.b, environment));
    case VarInfo::Kind::kMin: return Least(Of(info.a, environment), Of(info.b, environment));
    case VarInfo::Kind::kValue: return Unknown(absl::StrCat("value ", Text(ElementOf(info), environment)));
    case VarInfo::Kind::kParam:
    case VarInfo::Kind::kLocal: break;
  }
  const auto [place, first] = of_var_.emplace(v, 0);
  if (!first) return {{{place->second}, 1}};
  const int constant = place->second = NewConstant();
  const IndexSum self = {{{constant}, 1}};
  std::vector<std::string> known;
  if (info.kind == VarInfo::Kind::kParam && info.min && hidden_.count(v) == 0) {
    known.push_back(AtLeastZero(PlusTimes(self, {{{}, *info.min}}, -1)));
  }
  if (info.range && hidden_.count(v) == 0) {
    known.push_back(AtLeastZero(PlusTimes(self, Of(info.range->first, {}), -1)));
    known.push_back(AtLeastZero(PlusTimes(PlusTimes(Of(info.range->second, {}), self, -1), {{{}, 1}}, -1)));
  }
  constants_[constant].known = std::move(known);
  return self;
}

IndexSum StepQueryBuilder::Of(const Poly& p, const IndexEnvironment& environment) {
  IndexSum out;
  for (const Poly::Item& item : p.items()) {
    IndexSum product = {{{}, item.coef}};
    for (Var v : item.vars) product = Times(product, OfVar(v, environment));
    out = PlusTimes(out, product, 1);
  }
  return out;
}

std::string StepQueryBuilder::Of(const Guard& g, const IndexEnvironment& environment) {
  switch (g.kind()) {
    case Guard::Kind::kTrue: return "true";
    case Guard::Kind::kFalse: return "false";
    case Guard::Kind::kGe: return AtLeastZero(Of(g.poly(), environment));
    case Guard::Kind::kEq: return Equal(Of(g.poly(), environment), {});
    case Guard::Kind::kNot: return absl::StrCat("(not ", Of(g.args()[0], environment), ")");
    case Guard::Kind::kAnd: break;
  }
  std::string out = "(and";
  for (const Guard& part : g.args()) absl::StrAppend(&out, " ", Of(part, environment));
  return out + ")";
}

std::string StepQueryBuilder::Text(const Atom& a, const IndexEnvironment& environment) {
  std::string out = absl::StrCat("(", a->name, " ");
  for (const Poly& p : a->at) absl::StrAppend(&out, Text(Of(p, environment)), " , ");
  if (a->kind == AtomNode::Kind::kInt) absl::StrAppend(&out, Text(Of(a->value, environment)));
  for (const NormalForm& arg : a->args) absl::StrAppend(&out, Text(arg, environment), " ; ");
  for (const Family& b : a->families) {
    IndexEnvironment inner = environment;
    const int first = bound_;
    for (Var v : b.bound) inner[v] = {{{-(++bound_)}, 1}};
    absl::StrAppend(&out, Of(b.guard, inner), " : ", Text(b.body, inner), " | ");
    bound_ = first;
  }
  return out + ")";
}

std::string StepQueryBuilder::Text(const NormalForm& n, const IndexEnvironment& environment) {
  std::string out;
  for (const Term& t : n) {
    IndexEnvironment inner = environment;
    const int first = bound_;
    for (Var v : t.bound) inner[v] = {{{-(++bound_)}, 1}};
    absl::StrAppend(&out, " + ", t.coef.ToString(), " [", t.bound.size(), " ", Of(t.guard, inner), " ]");
    for (const Atom& a : t.atoms) absl::StrAppend(&out, " ", Text(a, inner));
    bound_ = first;
  }
  return out;
}

std::vector<std::string> StepQueryBuilder::Open(const std::vector<std::string>& facts,
                                                const std::vector<std::string>& goals) const {
  std::vector<std::string> open;
  for (const std::string& goal : goals) {
    if (goal != "true" && std::find(facts.begin(), facts.end(), goal) == facts.end()) open.push_back(goal);
  }
  const auto is_relation = [&](const std::string& text) { return relations_.count(text) > 0; };
  if (std::none_of(open.begin(), open.end(), is_relation)) return open;
  StepBounds bounds;
  const auto add = [&](const std::string& text) {
    if (const auto found = relations_.find(text); found != relations_.end()) bounds.Add(found->second);
  };
  std::for_each(facts.begin(), facts.end(), add);
  for (const Constant& constant : constants_) std::for_each(constant.known.begin(), constant.known.end(), add);
  for (size_t i = 0; i < constants_.size(); ++i) {
    const auto& quotient = constants_[i].quotient;
    if (quotient) bounds.AddQuotient(static_cast<int>(i), quotient->first, quotient->second);
  }
  const auto follows = [&](const std::string& text) {
    const auto found = relations_.find(text);
    return found != relations_.end() && bounds.Imply(found->second);
  };
  open.erase(std::remove_if(open.begin(), open.end(), follows), open.end());
  return open;
}

SmtQuery StepQueryBuilder::Query(const std::vector<std::string>& facts, const std::vector<std::string>& goals,
                                 bool connected) const {
  std::map<int, std::string> names;
  std::vector<int> order;
  const auto name = [&](int constant) {
    const auto [place, first] = names.emplace(constant, absl::StrCat("x", names.size()));
    if (first) order.push_back(constant);
    return place->second;
  };
  bool nonlinear = false;
  const auto named = [&](const std::string& text) {
    nonlinear = nonlinear || HasProduct(text);
    return OverConstants(text, name);
  };
  const std::string goal = named(absl::StrCat("(and ", absl::StrJoin(goals, " "), ")"));
  std::set<std::string> assertions;
  std::string body;
  const auto assert_that = [&](const std::string& text) {
    if (text == "true") return;
    const std::string line = absl::StrCat("(assert ", named(text), ")\n");
    if (assertions.insert(line).second) body += line;
  };
  std::vector<bool> used(facts.size(), false);
  size_t described = 0;
  for (bool again = true; again;) {
    again = false;
    for (; described < order.size(); ++described) {
      for (const std::string& known : constants_[order[described]].known) assert_that(known);
    }
    for (size_t i = 0; i < facts.size(); ++i) {
      if (used[i]) continue;
      bool concerns = false, any = false;
      OverConstants(facts[i], [&](int constant) {
        any = true;
        concerns = concerns || names.count(constant) > 0;
        return std::string();
      });
      if (connected && any && !concerns) continue;
      used[i] = again = true;
      assert_that(facts[i]);
    }
    again = again || described < order.size();
  }
  SmtQuery query{"step", nonlinear ? "QF_NIA" : "QF_LIA", ""};
  query.text = absl::StrCat("(set-logic ", query.logic, ")\n(set-info :status unsat)\n");
  for (int constant : order) absl::StrAppend(&query.text, "(declare-const ", names[constant], " Int)\n");
  absl::StrAppend(&query.text, body, "(assert (not ", goal, "))\n(check-sat)\n");
  return query;
}

// Lists instances of the lemma of products: those whose conclusion has a product that occurs anyway. A limited number
// is about facts that hold and about goals that do not hold, and a limited number about all else; those with the fewest
// other products come first.
std::vector<std::string> StepQueryBuilder::Products(const std::set<std::string>& facts,
                                                    const std::set<std::string>& goals) const {
  std::vector<IndexRelation> known, others;
  std::set<std::string> listed;
  std::set<int> constants;
  std::set<std::vector<int>> met;
  const auto list = [&](std::vector<IndexRelation>& place, IndexSum p, bool equation) {
    if (listed.insert(absl::StrCat(Text(p), equation ? "=" : ">")).second) place.push_back({std::move(p), equation});
  };
  const IndexSum one = {{{}, 1}};
  std::vector<IndexSum> all_cofactors;  // the terms of a relation that have a constant, without it
  for (const auto& [text, relation] : relations_) {
    // Skips relations of variables that the texts of normal forms bind.
    const auto is_bound = [](const auto& entry) { return !entry.first.empty() && entry.first.front() < 0; };
    if (std::any_of(relation.p.begin(), relation.p.end(), is_bound)) continue;
    const bool holds = facts.contains(text), fails = goals.contains(text);
    std::vector<IndexRelation>& place = holds || fails ? known : others;
    if (!fails) list(place, relation.p, relation.equation);
    if (!holds) {
      if (relation.equation) list(place, PlusTimes(relation.p, one, -1), false);
      list(place, PlusTimes(PlusTimes({}, relation.p, -1), one, -1), false);
    }
    std::map<int, IndexSum> cofactors;  // by the constant
    for (const auto& [product, coef] : relation.p) {
      constants.insert(product.begin(), product.end());
      if (product.size() > 1) met.insert(product);
      for (int constant : product) cofactors[constant][*OtherFactors(product, {constant})] = coef;
    }
    for (auto& [constant, cofactor] : cofactors) {
      if (cofactor.size() > 1) all_cofactors.push_back(std::move(cofactor));
    }
  }
  for (int constant : constants) {
    list(others, {{{constant}, 1}}, false);
    list(others, {{{constant}, -1}, {{}, -1}}, false);
  }
  for (const IndexSum& cofactor : all_cofactors) {
    // Takes the cofactor with either sign, strictly or not.
    for (const IndexSum& either : {cofactor, PlusTimes({}, cofactor, -1)}) {
      list(others, either, false);
      list(others, PlusTimes(either, one, -1), false);
    }
  }
  std::vector<std::string> instances;
  for (const std::vector<int>& product : met) {
    std::string text = "(=> (and";
    for (int constant : product) absl::StrAppend(&text, " (>= ", Text({{{constant}, 1}}), " 1)");
    instances.push_back(absl::StrCat(text, ") (>= ", Text({{product, 1}}), " 1))"));
  }
  AddProducts(known, met, &instances);
  AddProducts(others, met, &instances);
  return instances;
}

void StepQueryBuilder::AddProducts(const std::vector<IndexRelation>& relations, const std::set<std::vector<int>>& met,
                                   std::vector<std::string>* instances) {
  constexpr size_t kMostInstances = 300;
  std::vector<std::pair<size_t, std::string>> found;  // by the number of products that do not occur yet
  std::set<std::string> made;
  for (const IndexRelation& relation : relations) {
    for (const auto& [part, coef] : relation.p) {
      if (part.empty()) continue;
      for (const std::vector<int>& product : met) {
        const std::optional<std::vector<int>> factor = OtherFactors(product, part);
        if (!factor || factor->empty()) continue;
        const IndexSum whole = Times(relation.p, {{*factor, 1}});
        const char* sign = relation.equation ? "(= " : "(>= ";
        std::string text = "(=> (and";
        for (int constant : *factor) {
          if (!relation.equation) absl::StrAppend(&text, " (>= ", Text({{{constant}, 1}}), " 0)");
        }
        absl::StrAppend(&text, " ", sign, Text(relation.p), " 0)) ", sign, Text(whole), " 0))");
        if (!made.insert(text).second) continue;
        const auto fresh = std::count_if(whole.begin(), whole.end(), [&](const auto& entry) {
          return entry.first.size() > 1 && met.count(entry.first) == 0;
        });
        found.emplace_back(static_cast<size_t>(fresh), std::move(text));
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (found.size() > kMostInstances) found.resize(kMostInstances);
  for (auto& [fresh, text] : found) instances->push_back(std::move(text));
}

SmtQuery StepQueryBuilder::LemmaOfProducts() {
  return {"lemma", "QF_NIA",
          "(set-logic QF_NIA)\n(set-info :status unsat)\n(declare-const a Int)\n(declare-const b Int)\n"
          "(assert (not (and (=> (and (>= a 0) (>= b 0)) (>= (* a b) 0)) (=> (and (>= a 1) (>= b 1)) (>= (* a b) 1)) "
          "(=> (= a 0) (= (* a b) 0)))))\n(check-sat)\n"};
}

SmtQuery StepQueryBuilder::LinearQuery(std::vector<std::string> facts, std::vector<std::string> goals) const {
  // The known relations of a constant count as facts, since they have products too.
  for (const Constant& constant : constants_) {
    facts.insert(facts.end(), constant.known.begin(), constant.known.end());
  }
  for (std::string& instance : Products({facts.begin(), facts.end()}, {goals.begin(), goals.end()})) {
    facts.push_back(std::move(instance));
  }
  StepQueryBuilder linear(ctx_);
  linear.constants_.resize(constants_.size());
  std::map<std::string, int> products;
  const auto without_products = [&](std::string& text) {
    text = OverProducts(text, [&](const std::string& product) {
      const auto [place, first] = products.emplace(product, 0);
      if (first) place->second = linear.NewConstant();
      return absl::StrCat(std::string(1, kMark), place->second);
    });
  };
  for (std::string& fact : facts) without_products(fact);
  for (std::string& goal : goals) without_products(goal);
  return linear.Query(facts, goals, /*connected=*/true);
}

}  // namespace rewright::verifier
