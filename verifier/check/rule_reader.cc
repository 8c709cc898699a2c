#include "verifier/check/rule_reader.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rewright::check {
namespace {

using absl::string_view;

struct SyntaxError {
  std::string what;
};

bool IsName(string_view token) { return !token.empty() && (absl::ascii_isalpha(token[0]) || token[0] == '_'); }
bool IsNumber(string_view token) { return !token.empty() && absl::ascii_isdigit(token[0]); }

ParsedExpr Call(string_view function, std::vector<ParsedExpr> args) {
  return {.kind = ParsedExpr::Kind::kCall, .text = std::string(function), .args = std::move(args)};
}

// Parses by recursive descent; stronger operators are read first.
class Reader {
 public:
  explicit Reader(string_view text) : text_(text) {
    while (true) {
      while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
      tokens_.push_back(text_.substr(at_, TokenLength()));
      if (at_ == text_.size()) break;
      at_ += tokens_.back().size();
    }
    at_ = 0;
  }

  ParsedLaw Read() {
    ParsedLaw law;
    Expect("rule");
    // The name may have points and hyphens.
    const string_view line = text_.substr(0, text_.find('\n'));
    law.name = std::string(line.substr(line.find(' ') + 1));
    while (at_ < tokens_.size() && tokens_[at_].data() < line.data() + line.size()) ++at_;
    law.left = ReadSide();
    Expect("=>");
    law.right = ReadSide();
    if (Accept("when")) {
      do law.conditions.push_back(Expression(kNot));
      while (Accept("and"));
    }
    if (!Peek().empty()) Fail("the end");
    return law;
  }

 private:
  // How deep terms and expressions may stand in one another: each is read by a call within a call. An expression in
  // parentheses has one for each level of operators.
  static constexpr int kMostNested = 1000, kMostLinks = 1000;
  struct Nesting {
    explicit Nesting(Reader& of) : reader(of) {
      if (++reader.nested_ > kMostNested) reader.Fail("a law that is nested less deeply");
    }
    ~Nesting() { --reader.nested_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Reader& reader;
  };

  // Levels of operators.
  static constexpr int kNot = 2, kCompare = 3, kUnary = 6;

  size_t TokenLength() const {
    const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
    const auto digit = [&](size_t i) { return absl::ascii_isdigit(at(i)); };
    size_t end = at_;
    if (IsName(text_.substr(at_))) {
      while (absl::ascii_isalnum(at(end)) || at(end) == '_') ++end;
    } else if (digit(at_)) {
      while (digit(end) || (at(end) == '.' && digit(end + 1))) ++end;
      const size_t power = end + (at(end + 1) == '-' || at(end + 1) == '+' ? 2 : 1);
      if (at(end) == 'e' && digit(power)) {
        for (end = power; digit(end);) ++end;
      }
    } else {
      static const auto* const kPairs = new std::set<string_view>{"=>", "..", "==", "!=", "<=", ">="};
      end = std::min(text_.size(), at_ + (kPairs->count(text_.substr(at_, 2)) > 0 ? 2 : 1));
    }
    return end - at_;
  }

  string_view Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  [[noreturn]] void Fail(string_view expected) const {
    throw SyntaxError{absl::StrCat("found `", Peek(), "`, expected ", expected)};
  }
  string_view Next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Accept(string_view token) {
    if (Peek() != token) return false;
    Next();
    return true;
  }
  void Expect(string_view token) {
    if (!Accept(token)) Fail(token);
  }
  std::string Name() {
    if (!IsName(Peek())) Fail("a name");
    return std::string(Next());
  }

  // ---------------------------------------------------------------- terms

  Side ReadSide() {
    Side side;
    while (Accept("let")) {
      const std::string name = Name();
      Expect("=");
      side.lets.emplace_back(name, ReadTerm());
      Expect("in");
    }
    const bool several = Accept("{");
    do side.outputs.push_back(ReadTerm());
    while (several && Accept(","));
    if (several) Expect("}");
    return side;
  }

  Term ReadTerm() {
    const Nesting nesting(*this);
    if (Peek() == "[") return Matrix();
    Term term;
    const bool variable = Peek() == "?" && Peek(2) == "(";  // of an operator
    if (variable || (IsName(Peek()) && Peek(1) == "(" && Peek() != "scalar")) {
      term.kind = Term::Kind::kApplication;
      if (Accept("?")) term.name = "?";
      term.name += Name();
      Expect("(");
      Operands(&term);
    } else if (IsName(Peek()) && Peek() != "scalar") {
      term.name = Name();
    } else {
      const bool scalar = Accept("scalar");
      if (scalar) Expect("(");
      term = Constant([&] { return scalar ? Expression() : Simple(); });
      if (scalar) Expect(")");
    }
    if (term.kind != Term::Kind::kApplication) {
      if (Accept(":")) term.type = Simple();
      if (Accept("[")) {
        const bool broadcasts = Accept("~");
        term.shape = Shape{broadcasts, Items("]")};
      }
    }
    term.all = Accept("..");
    if (!term.all && Accept(".")) {
      if (!absl::SimpleAtoi(Next(), &term.output)) Fail("the number of an output");
    }
    return term;
  }

  template <typename ReadValue>
  Term Constant(ReadValue read) {
    Term term;
    term.kind = Term::Kind::kConstant;
    const char* const begin = Peek().data();
    term.value = read();
    const string_view last = tokens_[at_ - 1];
    term.name = std::string(begin, last.data() + last.size());
    return term;
  }

  // [[a, b], [c, d]]: constants of shape [1, 1], joined by rows, and these below one another.
  Term Matrix() {
    const auto joined = [](int64_t axis) {
      Term term;
      term.kind = Term::Kind::kApplication;
      term.name = "concat";
      term.attrs.emplace_back("axis", ParsedExpr{.integer = axis});
      return term;
    };
    Term matrix = joined(0);
    Expect("[");
    do {
      Term& row = matrix.operands.emplace_back(joined(1));
      Expect("[");
      do {
        Term& entry = row.operands.emplace_back(Constant([&] { return Expression(); }));
        entry.shape = Shape{false, {ParsedExpr{.integer = 1}, ParsedExpr{.integer = 1}}};
      } while (Accept(","));
      Expect("]");
    } while (Accept(","));
    Expect("]");
    return matrix;
  }

  void Operands(Term* term) {
    if (Accept(")")) return;
    do {
      if (IsName(Peek()) && Peek(1) == "=") {
        const std::string name = Name();
        Expect("=");
        term->attrs.emplace_back(name, Expression());
      } else {
        term->operands.push_back(ReadTerm());
      }
    } while (Accept(","));
    Expect(")");
  }

  // ---------------------------------------------------------------- expressions

  ParsedExpr Expression(int level = 0) {
    static const auto* const kOperators = new std::vector<std::set<string_view>>{
        {"or"}, {"and"}, {}, {"==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "div", "mod"}};
    const Nesting nesting(*this);
    if (level == kUnary) return Unary();
    if (level == kNot && Accept("not")) return Call("not", {Expression(kNot)});
    ParsedExpr left = Expression(level + 1);
    int links = 0;
    while ((*kOperators)[level].count(Peek()) > 0) {
      const string_view op = Next();
      if (++links > kMostLinks) Fail("a shorter row of operators");
      left = Call(op, {std::move(left), Expression(level + 1)});
      if (level == kCompare) break;
    }
    return left;
  }

  ParsedExpr Unary() {
    const Nesting nesting(*this);
    if (Peek() == "-" && !IsNumber(Peek(1))) {
      Next();
      return Call("-", {Unary()});
    }
    ParsedExpr phrase = Simple();
    while (Accept("[")) {
      phrase = Call("[]", {std::move(phrase), Expression()});
      Expect("]");
    }
    return phrase;
  }

  ParsedExpr Simple() {
    ParsedExpr phrase;
    const bool negative = Peek() == "-";
    if (IsNumber(Peek(negative ? 1 : 0))) {
      if (negative) Next();
      const std::string text = absl::StrCat(negative ? "-" : "", Next());
      if (absl::SimpleAtoi(text, &phrase.integer)) return phrase;
      phrase.kind = ParsedExpr::Kind::kReal;
      if (text.find_first_of(".e") == std::string::npos || !absl::SimpleAtod(text, &phrase.real)) {
        Fail("a number before it that 64 bits hold");
      }
      return phrase;
    }
    if (Accept("(")) {
      phrase = Expression();
      Expect(")");
    } else if (Accept("[")) {
      phrase.kind = ParsedExpr::Kind::kList;
      phrase.args = Items("]");
    } else if (Accept("?")) {
      phrase.kind = ParsedExpr::Kind::kAttribute;
      phrase.text = Name();
      if (Peek() == "." && IsName(Peek(1))) {  // of attrs=?c
        Next();
        absl::StrAppend(&phrase.text, ".", Name());
      }
    } else {
      phrase.kind = ParsedExpr::Kind::kName;
      phrase.text = Name();
      if (Accept("(")) phrase = Call(phrase.text, Items(")"));
    }
    return phrase;
  }

  std::vector<ParsedExpr> Items(string_view close) {
    std::vector<ParsedExpr> items;
    if (Accept(close)) return items;
    do {
      ParsedExpr item = Expression();
      if (Accept("..")) item = ParsedExpr{.kind = ParsedExpr::Kind::kSplice, .args = {std::move(item)}};
      items.push_back(std::move(item));
    } while (Accept(","));
    Expect(close);
    return items;
  }

  const string_view text_;
  std::vector<string_view> tokens_;  // an empty one at the end
  size_t at_ = 0;
  int nested_ = 0;
};

// ---------------------------------------------------------------- siblings

// Replaces the parts that differ from sibling to sibling by those of one sibling, or of several.
class Siblings {
 public:
  explicit Siblings(const ParsedLaw& law) : law_(law) {
    const Term& sibling = law.left.outputs[0];
    const Term& split = law.right.outputs[0];
    if (!law.left.lets.empty() || !law.right.lets.empty() || sibling.kind != Term::Kind::kApplication ||
        sibling.output >= 0 || law.right.outputs.size() != 1 || split.name != "split" || split.operands.size() != 1 ||
        split.output >= 0 || split.all) {
      Refuse("{ sibling.. } => split(..)");
    }
    FindLists(split);
    for (const auto& [name, value] : split.attrs) {
      if (name != "sizes") continue;
      const bool one = value.kind == ParsedExpr::Kind::kList && value.args.size() == 1 &&
                       value.args[0].kind == ParsedExpr::Kind::kSplice &&
                       value.args[0].args[0].kind == ParsedExpr::Kind::kName;
      if (!one) Refuse("sizes=[n..]");
      size_ = value.args[0].args[0].text;
    }
    Term others = split;
    std::erase_if(others.attrs, [](const auto& attr) { return attr.first == "sizes"; });
    std::set<std::string> declared;
    CheckLeft(sibling, &declared);
    if (size_.empty() || lists_.empty() || declared != lists_) Refuse("lists that have shapes with the size n");
    CheckRight(others);
    for (const ParsedExpr& condition : law.conditions) {
      const bool directs = condition.text == "weight" || condition.text == "constant";  // no part of the law
      if (Mentions(condition) && (condition.kind != ParsedExpr::Kind::kCall || !directs))
        Refuse("no condition on lists");
    }
  }

  ParsedLaw For(int count) const {
    ParsedLaw law = law_;
    std::erase_if(law.conditions, [&](const ParsedExpr& condition) { return Mentions(condition); });
    law.left.outputs.clear();
    for (int i = 1; i <= count; ++i) {
      law.left.outputs.push_back(law_.left.outputs[0]);
      law.left.outputs.back().all = false;
      Left(i, &law.left.outputs.back());
    }
    Right(count, &law.right.outputs[0]);
    return law;
  }

 private:
  [[noreturn]] static void Refuse(const char* expected) {
    throw SyntaxError{absl::StrCat("found siblings otherwise, expected ", expected)};
  }

  static bool IsVariable(const Term& term) { return term.kind == Term::Kind::kVariable; }
  bool IsList(const Term& term) const { return IsVariable(term) && lists_.count(term.name) > 0; }
  void FindLists(const Term& term) {
    if (IsVariable(term) && term.all) lists_.insert(term.name);
    for (const Term& operand : term.operands) FindLists(operand);
  }

  bool Mentions(const ParsedExpr& phrase) const {
    if (phrase.kind == ParsedExpr::Kind::kName && (phrase.text == size_ || lists_.count(phrase.text) > 0)) return true;
    return std::any_of(phrase.args.begin(), phrase.args.end(), [&](const ParsedExpr& arg) { return Mentions(arg); });
  }

  // Neither attributes nor values mention a variable that differs.
  void CheckCommon(const Term& term) const {
    bool mentions = Mentions(term.value);
    for (const auto& [name, value] : term.attrs) mentions = mentions || Mentions(value);
    if (mentions) Refuse("attributes and values that all siblings share");
  }

  // The shape of a list variable has the size once, as it is; other shapes do not mention it.
  void CheckLeft(const Term& term, std::set<std::string>* declared) const {
    CheckCommon(term);
    for (const Term& operand : term.operands) {
      if (operand.all) Refuse("`..` behind the sibling alone");
      CheckLeft(operand, declared);
    }
    if (!term.shape) return;
    const ParsedExpr size{.kind = ParsedExpr::Kind::kName, .text = size_};
    int found = 0;
    for (const ParsedExpr& dim : term.shape->dims) {
      found += dim == size ? 1 : 0;
      if (dim != size && Mentions(dim)) Refuse("the size n by itself");
    }
    if (found != (IsList(term) ? 1 : 0) || (IsList(term) && term.shape->broadcasts)) Refuse("the size n in every list");
    if (IsList(term)) declared->insert(term.name);
  }

  // Lists are concatenated, and nothing else.
  void CheckRight(const Term& term) const {
    CheckCommon(term);
    if (IsList(term)) Refuse("concat(y.., axis=..) of a list y");
    for (const ParsedExpr& dim : term.shape ? term.shape->dims : std::vector<ParsedExpr>()) {
      if (Mentions(dim)) Refuse("shapes that all siblings share");
    }
    if (term.name == "concat" && term.operands.size() == 1 && IsList(term.operands[0]) && term.operands[0].all) return;
    for (const Term& operand : term.operands) CheckRight(operand);
  }

  static std::string Of(const std::string& name, int sibling) { return absl::StrCat(name, "_", sibling); }

  // The first sibling declares the shapes of common variables.
  void Left(int sibling, Term* term) const {
    if (IsList(*term)) {
      term->name = Of(term->name, sibling);
      if (term->shape) {
        for (ParsedExpr& dim : term->shape->dims) {
          if (Mentions(dim)) dim.text = Of(size_, sibling);
        }
      }
    } else if (IsVariable(*term) && sibling > 1) {
      term->shape.reset();
      term->type.reset();
    }
    for (Term& operand : term->operands) Left(sibling, &operand);
  }

  void Right(int count, Term* term) const {
    std::vector<Term> operands;
    for (Term& operand : term->operands) {
      Right(count, &operand);
      const bool list = IsList(operand);
      for (int i = 1; i <= (list ? count : 1); ++i) {
        operands.push_back(operand);
        if (list) operands.back().all = false;
        if (list) operands.back().name = Of(operand.name, i);
      }
    }
    term->operands = std::move(operands);
    for (auto& [name, value] : term->attrs) {
      if (!Mentions(value)) continue;
      value.args.clear();
      for (int i = 1; i <= count; ++i) value.args.push_back({.kind = ParsedExpr::Kind::kName, .text = Of(size_, i)});
    }
  }

  const ParsedLaw& law_;
  std::set<std::string> lists_;  // tensors
  std::string size_;
};

}  // namespace

absl::StatusOr<ParsedLaw> ReadLaw(const std::string& text) {
  try {
    return Reader(text).Read();
  } catch (const SyntaxError& misread) {
    return absl::InvalidArgumentError(misread.what);
  }
}

absl::StatusOr<std::vector<ParsedLaw>> LawsOfSiblings(const ParsedLaw& law) {
  if (law.left.outputs.size() != 1 || !law.left.outputs[0].all) return std::vector<ParsedLaw>{law};
  try {
    const Siblings siblings(law);
    return std::vector<ParsedLaw>{siblings.For(2), siblings.For(1), siblings.For(3), siblings.For(7)};
  } catch (const SyntaxError& misread) {
    return absl::InvalidArgumentError(misread.what);
  }
}

}  // namespace rewright::check
