#include "substitutions/language/rule_parser.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_expressions.h"
#include "substitutions/language/rule_lexer.h"
#include "substitutions/language/rule_printer.h"

namespace rewright {
namespace {

constexpr int kMaxDepth = 48;  // of nested terms
constexpr size_t kMaxRules = 100000;
constexpr size_t kMaxTerms = 512;  // tensor terms in one rule; a matrix counts as one
constexpr size_t kMaxMatrixSize = 16;

// Parses terms and rules by recursive descent. A method leaves the position right behind the text that it parsed.
class Parser : private RuleExprParser {
 public:
  Parser(std::vector<RuleToken> tokens, const std::string& file, RuleErrors* errors)
      : RuleExprParser(std::move(tokens), file, errors) {}

  // The rules that make sense.
  std::vector<Rule> Run() {
    std::vector<Rule> rules;
    std::map<std::string, int> names;
    while (Peek().kind != Kind::kEnd) {
      if (rules.size() >= kMaxRules) {
        errors_.Add(Error(absl::StrCat("found another rule, expected at most ", kMaxRules)));
        break;
      }
      Rule rule;
      const size_t start = at_;
      sound_ = true;
      if (absl::Status error = ParseRule(rule); !error.ok()) {
        errors_.Add(error);
        SkipToNextRule(start);
        continue;
      }
      const auto [first, fresh] = names.emplace(rule.name, rule.line);
      if (!fresh) {
        errors_.Add(RuleError(file_, tokens_[start + 1].line, tokens_[start + 1].column,
                              absl::StrCat("found the rule name ", rule.name,
                                           " again, expected another name than that of line ", first->second)));
      }
      if (sound_) rules.push_back(std::move(rule));
    }
    return rules;
  }

 private:
  // ---------------------------------------------------------------- rules

  // After an error the text makes sense again at the next word `rule`, which is no name of anything but a rule.
  void SkipToNextRule(size_t start) {
    depth_ = 0;
    term_value_ = false;
    if (at_ <= start + 1) at_ = start + 2;
    while (Peek().kind != Kind::kEnd && !IsWord("rule")) ++at_;
  }

  absl::Status ParseRule(Rule& rule) {
    rule.file = file_;
    rule.line = Peek().line;
    rule.headings = Peek().comments;
    if (Peek().comment_touches && !rule.headings.empty()) {
      rule.comment = std::move(rule.headings.back());
      rule.headings.pop_back();
    }
    terms_ = 0;
    if (!AcceptWord("rule")) return Found("`rule`");
    if (Peek().kind != Kind::kName) return Found("the name of the rule");
    rule.name = Peek().text;
    ++at_;
    RETURN_IF_ERROR(Side(rule.lhs));
    RETURN_IF_ERROR(Expect("=>"));
    RETURN_IF_ERROR(Side(rule.rhs));
    if (AcceptWord("when")) {
      ArgExpr condition;
      RETURN_IF_ERROR(Arg(condition));
      AddConjuncts(std::move(condition), rule.conditions);
    }
    RETURN_IF_ERROR(ResolveOperatorVariable(rule));
    if (AcceptWord("expect")) {
      if (!IsWord("proved") && !IsWord("refuted") && !IsWord("unknown")) return Found("proved, refuted or unknown");
      rule.expect = Peek().text;
      ++at_;
    }
    if (AcceptWord("proved")) {
      rule.proof.emplace();
      RETURN_IF_ERROR(Proof(*rule.proof));
    }
    if (Peek().kind != Kind::kEnd && !IsWord("rule")) return Found("`when`, `expect`, `proved` or the next rule");
    return absl::OkStatus();
  }

  static void AddConjuncts(ArgExpr condition, std::vector<ArgExpr>& conditions) {
    if (condition.kind == ArgExpr::Kind::kOp && condition.op == ArgOp::kAnd) {
      for (ArgExpr& arg : condition.args) AddConjuncts(std::move(arg), conditions);
    } else {
      conditions.push_back(std::move(condition));
    }
  }

  absl::Status Proof(ProofRecord& proof) {
    RETURN_IF_ERROR(ClassOfRule(proof.rule_class));
    while (Peek().kind == Kind::kName && IsSign("=", 1)) {
      const std::string key = Peek().text;
      at_ += 2;
      RETURN_IF_ERROR(ProofField(key, proof));
    }
    return absl::OkStatus();
  }

  absl::Status ClassOfRule(RuleClass& rule_class) {
    std::string word;
    RETURN_IF_ERROR(Name(word, "the class of the rule"));
    while (Accept("-")) {
      std::string part;
      RETURN_IF_ERROR(Name(part, "the class of the rule"));
      word += "-" + part;
    }
    if (ParseRuleClass(word, &rule_class)) return absl::OkStatus();
    return Error(
        absl::StrCat("found class ", word, ", expected exact, reassociating, numerically-risky or finite-only"));
  }

  absl::Status ProofField(const std::string& key, ProofRecord& proof) {
    if (key == "halves") return ClassOfRule(proof.halves.emplace());
    if (key == "certificate") {
      if (Peek().kind != Kind::kString) return Found("a path in quotes");
      proof.certificate = Peek().text;
      ++at_;
      return absl::OkStatus();
    }
    if (key == "operators" || key == "exact") {
      if (Peek().kind != Kind::kString) return Found("names of operators in quotes");
      (key == "exact" ? proof.exact : proof.operators) = absl::StrSplit(Peek().text, ' ', absl::SkipEmpty());
      ++at_;
      return absl::OkStatus();
    }
    if (key == "new") return NewValues(proof.new_values);
    if (key == "spec") return Hash(proof.spec_hash);
    // Older provers had numbers; their records can still be read, so that the rules can be proved anew.
    if (key == "prover" && Peek().kind != Kind::kInt) return Hash(proof.prover);
    // The prover goes no further than the defaults.
    constexpr DomainLimits kMost{};
    int older = 0;
    const struct {
      const char* key;
      int* value;
      int most;
    } fields[] = {{"max_rank", &proof.domain.max_rank, kMost.max_rank},
                  {"max_perm_rank", &proof.domain.max_perm_rank, kMost.max_perm_rank},
                  {"max_broadcast_rank", &proof.domain.max_broadcast_rank, kMost.max_broadcast_rank},
                  {"instances", &proof.instances, kMost.max_instances},
                  {"prover", &older, 1000000000}};
    const auto* field = std::find_if(std::begin(fields), std::end(fields), [&](const auto& f) { return key == f.key; });
    if (field == std::end(fields)) {
      return Error(absl::StrCat("found field ", key,
                                " of a proof, expected halves, new, max_rank, max_perm_rank, "
                                "max_broadcast_rank, instances, operators, exact, prover, spec or certificate"));
    }
    if (Peek().kind != Kind::kInt || Peek().integer > field->most) {
      return Found(absl::StrCat("an integer from 0 to ", field->most));
    }
    *field->value = static_cast<int>(Peek().integer);
    if (field->value == &older) proof.prover = static_cast<uint64_t>(older);
    ++at_;
    return absl::OkStatus();
  }

  absl::Status NewValues(std::vector<int>& nodes) {
    constexpr const char* kExpected = "numbers of nodes in quotes, ascending";
    if (Peek().kind != Kind::kString) return Found(kExpected);
    for (const absl::string_view word : absl::StrSplit(Peek().text, ' ', absl::SkipEmpty())) {
      int node = 0;
      if (!absl::SimpleAtoi(word, &node) || node <= (nodes.empty() ? -1 : nodes.back())) return Found(kExpected);
      nodes.push_back(node);
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Hash(uint64_t& hash) {
    if (Peek().kind != Kind::kString) return Found("16 hexadecimal digits in quotes");
    char* end = nullptr;
    hash = std::strtoull(Peek().text.c_str(), &end, 16);
    if (Peek().text.size() != 16 || *end != '\0') return Found("16 hexadecimal digits in quotes");
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Side(RuleSide& side) {
    while (AcceptWord("let")) {
      if (side.lets.size() >= kMaxItems) return Error("too many let terms");
      LetTerm let;
      RETURN_IF_ERROR(Name(let.name, "a name"));
      RETURN_IF_ERROR(Expect("="));
      RETURN_IF_ERROR(Term(let.term));
      if (!AcceptWord("in") && !IsWord("let")) return Found("`in` or `let`");
      side.lets.push_back(std::move(let));
    }
    const bool braces = Accept("{");
    do {
      if (side.outputs.size() >= kMaxItems) return Error("too many outputs");
      RETURN_IF_ERROR(Term(side.outputs.emplace_back()));
    } while (braces && Accept(","));
    return braces ? Expect("}") : absl::OkStatus();
  }

  // ---------------------------------------------------------------- tensors

  absl::Status Term(TensorTerm& term) {
    Nesting nesting(depth_);
    if (depth_ > kMaxDepth) return Error("the rule is nested too deeply");
    if (++terms_ > kMaxTerms) return Error("the rule has too many terms");
    term.line = Peek().line;
    term.column = Peek().column;
    if (IsSign("[")) return Matrix(term);
    const bool number = Peek().kind == Kind::kInt || Peek().kind == Kind::kReal || IsSign("-");
    if (IsSign("?") && Peek(1).kind == Kind::kName && IsSign("(", 2)) {
      term.name = absl::StrCat("?", Peek(1).text);
      term.kind = TensorTerm::Kind::kApply;
      at_ += 3;
      RETURN_IF_ERROR(Operands(term));
    } else if (number || IsSign("?") || (IsWord("scalar") && IsSign("(", 1))) {
      RETURN_IF_ERROR(ValueTerm(term));
    } else {
      // `div` is an operator of graphs as well as of expressions.
      const bool op = Peek().kind == Kind::kName && IsSign("(", 1) && FindOp(Peek().text) != nullptr;
      if (op) {
        term.name = Peek().text;
        ++at_;
      } else {
        RETURN_IF_ERROR(Name(term.name, "a tensor: a variable, an operator or a number"));
      }
      if (Accept("(")) {
        term.kind = TensorTerm::Kind::kApply;
        term.op = FindOp(term.name);
        if (term.op == nullptr) {
          Complain(term.line, term.column, absl::StrCat("found `", term.name, "`, expected an operator"));
        }
        RETURN_IF_ERROR(Operands(term));
      } else {
        RETURN_IF_ERROR(TypeAndShape(term));
      }
    }
    if (Accept("..")) {
      term.all = true;
    } else if (Accept(".")) {
      if (Peek().kind != Kind::kInt || Peek().integer > 1000) return Found("the number of an output");
      term.output = static_cast<int>(Peek().integer);
      ++at_;
    }
    return absl::OkStatus();
  }

  absl::Status ValueTerm(TensorTerm& term) {
    term.kind = TensorTerm::Kind::kValue;
    if (AcceptWord("scalar")) {
      RETURN_IF_ERROR(Expect("("));
      RETURN_IF_ERROR(Arg(term.value));
      RETURN_IF_ERROR(Expect(")"));
    } else {
      term_value_ = true;
      RETURN_IF_ERROR(Unary(term.value));
      term_value_ = false;
      if (term.value.kind == ArgExpr::Kind::kElement || term.value.kind == ArgExpr::Kind::kList) {
        return RuleError(file_, term.line, term.column,
                         absl::StrCat("found ", PrintArg(term.value), ", expected a number, ?name or scalar(..)"));
      }
    }
    return TypeAndShape(term);
  }

  // [[a, b], [c, d]] is written for concat(concat(a[1, 1], b[1, 1], axis=1), concat(c[1, 1], d[1, 1], axis=1), axis=0).
  absl::Status Matrix(TensorTerm& term) {
    const auto joined = [&](TensorTerm& whole, int axis) {
      whole.kind = TensorTerm::Kind::kApply;
      whole.name = "concat";
      whole.op = FindOp(whole.name);
      whole.attrs.push_back({"axis", ArgExpr::Int(axis)});
    };
    RETURN_IF_ERROR(Expect("["));
    joined(term, 0);
    do {
      if (term.operands.size() >= kMaxMatrixSize) return Error("the matrix has too many rows");
      TensorTerm& row = term.operands.emplace_back();
      row.line = Peek().line;
      row.column = Peek().column;
      RETURN_IF_ERROR(Expect("["));
      joined(row, 1);
      do {
        if (row.operands.size() >= kMaxMatrixSize) return Error("the row has too many numbers");
        TensorTerm& entry = row.operands.emplace_back();
        entry.line = Peek().line;
        entry.column = Peek().column;
        entry.kind = TensorTerm::Kind::kValue;
        RETURN_IF_ERROR(Arg(entry.value));
        entry.shape = ShapeSpec{false, {ArgExpr::Int(1), ArgExpr::Int(1)}};
      } while (Accept(","));
      RETURN_IF_ERROR(Expect("]"));
      if (row.operands.size() != term.operands[0].operands.size()) {
        return RuleError(file_, row.line, row.column,
                         absl::StrCat("found a row of ", row.operands.size(), " numbers, expected ",
                                      term.operands[0].operands.size(), " as in the first"));
      }
    } while (Accept(","));
    return Expect("]");
  }

  absl::Status TypeAndShape(TensorTerm& term) {
    if (Accept(":")) {
      term.dtype.emplace();
      RETURN_IF_ERROR(Primary(*term.dtype));
      if (term.dtype->kind != ArgExpr::Kind::kDType && term.dtype->kind != ArgExpr::Kind::kAttr) {
        return RuleError(file_, term.dtype->line, term.dtype->column,
                         absl::StrCat("found ", PrintArg(*term.dtype), ", expected an element type or ?name"));
      }
    }
    if (!Accept("[")) return absl::OkStatus();
    term.shape.emplace();
    term.shape->broadcasts = Accept("~");
    return Items("]", term.shape->dims);
  }

  absl::Status Operands(TensorTerm& term) {
    if (Accept(")")) return absl::OkStatus();
    do {
      if (term.operands.size() + term.attrs.size() >= kMaxItems) return Error("too many operands");
      if (Peek().kind == Kind::kName && IsSign("=", 1)) {
        RETURN_IF_ERROR(Attribute(term));
      } else {
        if (!term.attrs.empty() || !term.bundle.empty()) return Found("an attribute: operands come before attributes");
        RETURN_IF_ERROR(Term(term.operands.emplace_back()));
      }
    } while (Accept(","));
    return Expect(")");
  }

  absl::Status Attribute(TensorTerm& term) {
    const RuleToken& name = Peek();
    if (name.text == "attrs") {
      at_ += 2;
      if (!term.bundle.empty()) {
        Complain(name.line, name.column, "found attrs again, expected it once");
        term.bundle.clear();
      }
      RETURN_IF_ERROR(Expect("?"));
      return Name(term.bundle, "a name");
    }
    if (term.op != nullptr && term.op->FindAttr(name.text) == nullptr) {
      std::string known;
      for (const AttrSpec& spec : term.op->attrs) absl::StrAppend(&known, known.empty() ? "" : ", ", spec.name);
      Complain(name.line, name.column,
               absl::StrCat("found attribute ", name.text, " of ", term.name, ", expected ",
                            known.empty() ? "no attribute" : known));
    }
    for (const NamedArg& other : term.attrs) {
      if (other.name != name.text) continue;
      Complain(name.line, name.column, absl::StrCat("found attribute ", name.text, " again, expected it once"));
    }
    NamedArg& attr = term.attrs.emplace_back();
    attr.name = name.text;
    at_ += 2;
    return Arg(attr.value);
  }

  size_t terms_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<Rule>> ParseRules(const std::string& text, const std::string& file) {
  RuleErrors errors;
  std::vector<RuleToken> tokens = LexRules(text, file, &errors);
  std::vector<Rule> rules = Parser(std::move(tokens), file, &errors).Run();
  if (errors.empty()) return rules;
  // Reports the errors of all rules at once.
  errors.Add(CheckRules(rules));
  return errors.ToStatus();
}

std::vector<ParsedRule> ParseEachRule(const std::string& text, const std::string& file) {
  RuleErrors unused;
  const std::vector<RuleToken> tokens = LexRules(text, file, &unused);
  const auto begins_rule = [](const RuleToken& token) {
    return token.kind == RuleToken::Kind::kName && token.text == "rule";
  };
  if (!begins_rule(tokens[0])) return {};
  std::vector<std::pair<int, std::string>> starts;  // line, name
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool fresh = starts.empty() || starts.back().first < tokens[i].line;
    if (begins_rule(tokens[i]) && fresh) starts.emplace_back(tokens[i].line, tokens[i + 1].text);
  }
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<ParsedRule> parsed;
  std::map<std::string, int> names;
  for (size_t k = 0; k < starts.size(); ++k) {
    const auto& [line, name] = starts[k];
    const auto end = k + 1 < starts.size() ? lines.begin() + starts[k + 1].first - 1 : lines.end();
    // Blank lines before it, so that errors name the lines of the whole text.
    const std::string alone =
        std::string(static_cast<size_t>(line - 1), '\n') + absl::StrJoin(lines.begin() + line - 1, end, "\n") + "\n";
    absl::StatusOr<std::vector<Rule>> rules = ParseRules(alone, file);
    const auto [first, fresh] = names.emplace(name, line);
    if (!rules.ok()) {
      parsed.push_back({name, rules.status()});
    } else if (!fresh) {
      const std::string taken = absl::StrCat("found the rule name ", name,
                                             " again, expected another name than that of ", "line ", first->second);
      parsed.push_back({name, RuleError(file, line, 1, taken)});
    } else {
      for (Rule& rule : *rules) parsed.push_back({rule.name, std::move(rule)});
    }
  }
  return parsed;
}

}  // namespace rewright
