#include "verifier/check/step_reader.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "verifier/integer/give_up.h"
#include "verifier/integer/law.h"

namespace rewright {

using verifier::Atom;
using verifier::Family;
using verifier::Guard;
using verifier::Law;
using verifier::MovedTerm;
using verifier::NormalForm;
using verifier::Poly;
using verifier::Rational;
using verifier::Substitution;
using verifier::Term;
using verifier::Var;
using verifier::VarInfo;

namespace {

constexpr size_t kMostObjects = 1000000;  // of one kind
constexpr int kMostDepth = 200;
constexpr int64_t kMostWritten = 2000000;  // of an object with all that it mentions, written out
constexpr size_t kMostDegree = 64;
constexpr size_t kMostShown = 120;

// Thrown: the line is not understood.
struct Unread {
  std::string expected;
};

int64_t Integer(absl::string_view text, const char* expected) {
  int64_t value = 0;
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-';
  });
  if (!plain || !absl::SimpleAtoi(text, &value)) throw Unread{expected};
  return value;
}

std::vector<absl::string_view> Items(absl::string_view list, char separator = ',') {
  if (list == "-") return {};
  return absl::StrSplit(list, separator);
}

std::string Word(absl::string_view text) {
  std::string out;
  if (text == "\\") return out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    int code = 0;
    if (i + 2 >= text.size() || !absl::SimpleHexAtoi(text.substr(i + 1, 2), &code)) throw Unread{"a name"};
    out += static_cast<char>(code);
    i += 2;
  }
  return out;
}

Law LawOf(absl::string_view text) {
  const std::optional<Law> law = verifier::FindLaw(Word(text));
  if (!law) throw Unread{"the name of a law"};
  return *law;
}

// Printed names serve as keys (step_checker_values.cc), so those of variables must not look like other texts.
std::string VariableName(absl::string_view text) {
  std::string name = Word(text);
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           absl::string_view("_.?()'~").find(c) != std::string::npos;
  });
  if (!plain || name.empty()) throw Unread{"a name"};
  return name;
}

}  // namespace

// The variables of a context, and the objects by their numbers.
class StepReader::Scene : public verifier::Variables {
 public:
  void Read(absl::string_view line, verifier::ProofObserver* observer) {
    words_ = absl::StrSplit(line, ' ');
    const absl::string_view kind = words_[0];
    if (kind == "x") return ReadVariable();
    if (kind == "g") return Add(&guards_, ReadGuard());
    if (kind == "a") return Add(&atoms_, ReadAtom());
    if (kind == "t") return Add(&terms_, ReadTerm());
    if (kind == "n") return Add(&forms_, ReadForm());
    if (kind == "m") return ReadMoved();
    if (kind == "facts") {
      if (stated_) throw Unread{"no other facts than those that are stated"};
      facts_ = GuardsOf(Arg(1, 1));
      return;
    }
    if (kind == "assume") {
      assumptions = GuardsOf(Arg(1, 1));
      return;
    }
    TellStep(kind, observer);
  }

 private:
  // How large an object is where everything that it mentions is written out.
  struct Extent {
    int64_t size = 1;
    int depth = 1;

    void Include(const Extent& part) {
      size = std::min(size + part.size, 2 * kMostWritten);
      depth = std::max(depth, part.depth + 1);
    }
    const Extent& Checked() const {
      if (size > kMostWritten || depth > kMostDepth) throw Unread{"a smaller object"};
      return *this;
    }
  };

  template <typename T>
  struct Sized {
    T value;
    Extent extent;
  };

  // Word number `at` of the line, which has `count` words after the first.
  absl::string_view Arg(size_t at, size_t count) const {
    if (words_.size() != count + 1) throw Unread{absl::StrCat(count, " words after the first")};
    return words_[at];
  }

  template <typename T>
  static void Add(std::vector<Sized<T>>* table, Sized<T> object) {
    if (table->size() >= kMostObjects) throw Unread{"fewer objects"};
    object.extent.Checked();
    table->push_back(std::move(object));
  }

  template <typename T>
  static const Sized<T>& At(const std::vector<Sized<T>>& table, absl::string_view number, const char* expected) {
    const int64_t at = Integer(number, expected);
    if (at < 0 || at >= static_cast<int64_t>(table.size())) throw Unread{expected};
    return table[static_cast<size_t>(at)];
  }

  // ---------------------------------------------------------------- objects; `extent` grows by what is mentioned

  Var VarOf(absl::string_view number, Extent* extent) const {
    const int64_t v = Integer(number, "the number of a variable");
    if (v < 0 || v >= NumVariables()) throw Unread{"the number of a variable"};
    extent->Include(extents_[static_cast<size_t>(v)]);
    return static_cast<Var>(v);
  }

  std::vector<Var> VarsOf(absl::string_view list, Extent* extent) const {
    std::vector<Var> vars;
    for (absl::string_view item : Items(list)) vars.push_back(VarOf(item, extent));
    return vars;
  }

  std::vector<Var> BoundOf(absl::string_view list, Extent* extent) const {
    std::vector<Var> vars = VarsOf(list, extent);
    for (Var v : vars) {
      if (Info(v).kind != VarInfo::Kind::kLocal) throw Unread{"bound variables that have no definition"};
    }
    return vars;
  }

  // 2x3x4-x5+1
  Poly PolyOf(absl::string_view text, Extent* extent) const {
    std::vector<Poly::Item> items;
    size_t at = 0;
    const auto digits = [&] {
      const size_t from = at;
      while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
      return text.substr(from, at - from);
    };
    while (at < text.size()) {
      const bool minus = text[at] == '-';
      if (minus || text[at] == '+') ++at;
      const absl::string_view number = digits();
      Poly::Item item;
      item.coef = number.empty() ? (minus ? -1 : 1) : Integer(absl::StrCat(minus ? "-" : "", number), "a coefficient");
      while (at < text.size() && text[at] == 'x') {
        ++at;
        item.vars.push_back(VarOf(digits(), extent));
        if (item.vars.size() > kMostDegree) throw Unread{"fewer factors"};
      }
      if (number.empty() && item.vars.empty()) throw Unread{"a polynomial"};
      if (at < text.size() && text[at] != '-' && text[at] != '+') throw Unread{"a polynomial"};
      std::sort(item.vars.begin(), item.vars.end());
      items.push_back(std::move(item));
      extent->Include({});
    }
    if (items.empty()) throw Unread{"a polynomial"};
    extent->Checked();
    return Poly::FromItems(std::move(items));
  }

  std::vector<Poly> PolysOf(absl::string_view list, Extent* extent) const {
    std::vector<Poly> polys;
    for (absl::string_view item : Items(list)) polys.push_back(PolyOf(item, extent));
    return polys;
  }

  std::pair<Poly, Poly> PairOf(absl::string_view list, Extent* extent) const {
    const std::vector<Poly> polys = PolysOf(list, extent);
    if (polys.size() != 2) throw Unread{"two polynomials"};
    return {polys[0], polys[1]};
  }

  Guard GuardOf(absl::string_view number, Extent* extent) const {
    const Sized<Guard>& guard = At(guards_, number, "the number of a guard");
    extent->Include(guard.extent);
    return guard.value;
  }

  std::vector<Guard> GuardsOf(absl::string_view list) const {
    Extent extent;
    return GuardsOf(list, &extent);
  }
  std::vector<Guard> GuardsOf(absl::string_view list, Extent* extent) const {
    std::vector<Guard> guards;
    for (absl::string_view item : Items(list)) guards.push_back(GuardOf(item, extent));
    extent->Checked();
    return guards;
  }

  NormalForm FormOf(absl::string_view number, Extent* extent) const {
    const Sized<NormalForm>& form = At(forms_, number, "the number of a normal form");
    extent->Include(form.extent);
    return form.value;
  }

  Term TermOf(absl::string_view number, Extent* extent) const {
    const Sized<Term>& term = At(terms_, number, "the number of a term");
    extent->Include(term.extent);
    return term.value;
  }

  Substitution SubstitutionOf(absl::string_view text, Extent* extent) const {
    Substitution s;
    for (absl::string_view entry : Items(text, ';')) {
      const size_t sign = entry.find('=');
      if (!absl::ConsumePrefix(&entry, "x") || sign == absl::string_view::npos) throw Unread{"a substitution"};
      const Var v = VarOf(entry.substr(0, sign - 1), extent);
      if (s.Find(v) != nullptr) throw Unread{"one polynomial for each variable"};
      s.Set(v, PolyOf(entry.substr(sign), extent));
    }
    return s;
  }

  void ReadVariable() {
    if (words_.size() < 2) throw Unread{"a variable"};
    if (extents_.size() >= kMostObjects) throw Unread{"fewer variables"};
    const absl::string_view kind = words_[1];
    VarInfo info;
    Extent extent;
    const auto below = [&](const Poly& p) {
      for (Var v : BaseVars(p)) info.inner.push_back(v);
    };
    const auto min = [&](absl::string_view text) {
      if (text != "-") info.min = Integer(text, "a least value");
    };
    if (kind == "param" || kind == "exact") {
      info.kind = VarInfo::Kind::kParam;
      const size_t count = kind == "param" ? 3 : 4;
      info.name = VariableName(Arg(2, count));
      if (!params_.insert(info.name).second) throw Unread{"another name for each parameter"};
      min(Arg(3, count));
      if (kind == "exact") info.defined = PairOf(Arg(4, count), &extent);
    } else if (kind == "local" || kind == "range") {
      const size_t count = kind == "local" ? 2 : 3;
      info.name = VariableName(Arg(2, count));
      if (kind == "range") info.range = PairOf(Arg(3, count), &extent);
    } else if (kind == "div" || kind == "min") {
      info.kind = kind == "div" ? VarInfo::Kind::kDiv : VarInfo::Kind::kMin;
      info.name = std::string(kind);
      std::tie(info.a, info.b) = PairOf(Arg(2, 2), &extent);
      below(info.a);
      below(info.b);
    } else if (kind == "value") {
      info.kind = VarInfo::Kind::kValue;
      info.name = "value";
      NormalForm element = FormOf(Arg(2, 2), &extent);
      info.inner = verifier::FreeVars(*this, element);
      info.value = verifier::AsIndex(std::move(element));
    } else {
      throw Unread{"a kind of variable"};
    }
    std::sort(info.inner.begin(), info.inner.end());
    info.inner.erase(std::unique(info.inner.begin(), info.inner.end()), info.inner.end());
    extents_.push_back(extent.Checked());
    vars_.push_back(std::move(info));
  }

  Sized<Guard> ReadGuard() {
    absl::string_view text = Arg(1, 1);
    Extent extent;
    if (absl::ConsumePrefix(&text, ">")) return {Guard::Ge(PolyOf(text, &extent)), extent};
    if (absl::ConsumePrefix(&text, "=")) return {Guard::Eq(PolyOf(text, &extent)), extent};
    if (absl::ConsumePrefix(&text, "!")) return {Guard::Not(GuardOf(text, &extent)), extent};
    if (absl::ConsumePrefix(&text, "&")) return {Guard::And(GuardsOf(text, &extent)), extent};
    throw Unread{"a guard"};
  }

  Sized<Atom> ReadAtom() {
    if (words_.size() < 2) throw Unread{"an atom"};
    const absl::string_view kind = words_[1];
    Extent extent;
    if (kind == "read") {
      const absl::string_view flags = Arg(3, 4);
      if (flags != "-" && flags != "p" && flags != "b" && flags != "pb") throw Unread{"flags of a leaf"};
      const verifier::Leaf leaf{Word(Arg(2, 4)), flags[0] == 'p', flags.back() == 'b'};
      return {verifier::MakeRead(*this, leaf, PolysOf(Arg(4, 4), &extent)), extent};
    }
    if (kind == "int") return {verifier::MakeIntAtom(*this, PolyOf(Arg(2, 2), &extent)), extent};
    if (kind == "fn") {
      std::vector<NormalForm> args;
      for (absl::string_view item : Items(Arg(3, 3))) args.push_back(FormOf(item, &extent));
      // Every function has an operand.
      if (args.empty()) throw Unread{"the operands of a function"};
      extent.Checked();
      return {verifier::MakeFnAtom(*this, Word(Arg(2, 3)), std::move(args)), extent};
    }
    if (kind != "bind") throw Unread{"a kind of atom"};
    std::vector<Family> families;
    for (absl::string_view item : Items(Arg(3, 3), '|')) {
      const std::vector<absl::string_view> parts = absl::StrSplit(item, ':');
      if (parts.size() != 3) throw Unread{"a family: variables, guard, normal form"};
      families.push_back({BoundOf(parts[0], &extent), GuardOf(parts[1], &extent), FormOf(parts[2], &extent)});
    }
    extent.Checked();
    return {verifier::MakeBinderAtom(*this, Word(Arg(2, 3)), std::move(families)), extent};
  }

  Sized<Term> ReadTerm() {
    Extent extent;
    Term term;
    const std::vector<absl::string_view> rational = absl::StrSplit(Arg(1, 4), '/');
    const int64_t num = Integer(rational[0], "a coefficient");
    const int64_t den = rational.size() == 1 ? 1 : Integer(rational[1], "a coefficient");
    if (rational.size() > 2 || den < 1) throw Unread{"a coefficient"};
    term.coef = Rational(num, den);
    term.bound = BoundOf(Arg(2, 4), &extent);
    term.guard = GuardOf(Arg(3, 4), &extent);
    for (absl::string_view item : Items(Arg(4, 4))) {
      const Sized<Atom>& atom = At(atoms_, item, "the number of an atom");
      extent.Include(atom.extent);
      term.atoms.push_back(atom.value);
    }
    return {std::move(term), extent};
  }

  Sized<NormalForm> ReadForm() {
    Extent extent;
    NormalForm form;
    for (absl::string_view item : Items(Arg(1, 1))) form.push_back(TermOf(item, &extent));
    return {std::move(form), extent};
  }

  void ReadMoved() {
    Extent extent;
    MovedTerm moved;
    const int64_t place = Integer(Arg(1, 4), "the place of a term");
    if (place < 0 || place >= kMostWritten) throw Unread{"the place of a term"};
    moved.place = static_cast<size_t>(place);
    moved.moved = TermOf(Arg(2, 4), &extent);
    moved.forward = SubstitutionOf(Arg(3, 4), &extent);
    moved.backward = SubstitutionOf(Arg(4, 4), &extent);
    Add(&moved_, Sized<MovedTerm>{std::move(moved), extent});
  }

  // ---------------------------------------------------------------- steps

  void TellStep(absl::string_view kind, verifier::ProofObserver* observer) {
    Extent extent;
    if (kind == "stated") {
      if (stated_) throw Unread{"facts that are stated once"};
      stated_ = true;
      observer->Stated(*this, PolysOf(Arg(1, 1), &extent));
    } else if (kind == "sum") {
      const Law law = LawOf(Arg(1, 5));
      const Term before = TermOf(Arg(2, 5), &extent), after = TermOf(Arg(3, 5), &extent);
      const Substitution forward = SubstitutionOf(Arg(4, 5), &extent), back = SubstitutionOf(Arg(5, 5), &extent);
      extent.Checked();
      observer->Resummed(*this, law, before, after, forward, back);
    } else if (kind == "count") {
      const Term before = TermOf(Arg(1, 4), &extent), after = TermOf(Arg(2, 4), &extent);
      const Var v = VarOf(Arg(3, 4), &extent);
      observer->Counted(*this, before, after, v, PolyOf(Arg(4, 4), &extent));
    } else if (kind == "none") {
      observer->Vanished(*this, TermOf(Arg(1, 1), &extent));
    } else if (kind == "collect") {
      const NormalForm parts = FormOf(Arg(1, 3), &extent), sum = FormOf(Arg(3, 3), &extent);
      std::vector<size_t> place;
      for (absl::string_view item : Items(Arg(2, 3))) {
        const int64_t at = Integer(item, "the place of a term");
        if (at < 0 || at >= static_cast<int64_t>(sum.size())) throw Unread{"the place of a term of the sum"};
        place.push_back(static_cast<size_t>(at));
      }
      if (place.size() != parts.size()) throw Unread{"a place for each term"};
      observer->Collected(*this, parts, place, sum);
    } else if (kind == "decide") {
      const Law law = LawOf(Arg(1, 4));
      const std::vector<Guard> also = GuardsOf(Arg(2, 4), &extent), goals = GuardsOf(Arg(3, 4), &extent);
      observer->Decided(*this, law, also, goals, VarsOf(Arg(4, 4), &extent));
    } else if (kind == "divide" || kind == "least") {
      const std::vector<Poly> polys = PolysOf(Arg(1, 1), &extent);
      if (polys.size() != 3) throw Unread{"three polynomials"};
      if (kind == "divide") {
        observer->Divided(*this, polys[0], polys[1], polys[2]);
      } else {
        observer->Least(*this, polys[0], polys[1], polys[2]);
      }
    } else if (kind == "equal") {
      const Law law = LawOf(Arg(1, 4));
      const Guard also = GuardOf(Arg(2, 4), &extent);
      const NormalForm before = FormOf(Arg(3, 4), &extent);
      observer->Equal(*this, law, also, before, FormOf(Arg(4, 4), &extent));
    } else if (kind == "zero") {
      const std::vector<Guard> facts = GuardsOf(Arg(1, 3), &extent);
      const NormalForm sum = FormOf(Arg(2, 3), &extent);
      std::vector<std::vector<MovedTerm>> classes;
      for (absl::string_view group : Items(Arg(3, 3), '|')) {
        std::vector<MovedTerm> members;
        for (absl::string_view item : Items(group)) members.push_back(At(moved_, item, "the number of a term").value);
        classes.push_back(std::move(members));
      }
      observer->Zero(*this, facts, sum, classes);
    } else if (kind == "composed") {
      const int64_t node = Integer(Arg(1, 4), "a node"), output = Integer(Arg(2, 4), "an output");
      const int64_t most = static_cast<int64_t>(kMostObjects);
      if (node < 0 || node > most || output < 0 || output > most) throw Unread{"a node and an output"};
      const std::vector<Poly> at = PolysOf(Arg(3, 4), &extent);
      const NormalForm form = FormOf(Arg(4, 4), &extent);
      observer->Composed(*this, static_cast<int>(node), static_cast<int>(output), at, form);
    } else {
      throw Unread{"a step or an object"};
    }
  }

  std::vector<absl::string_view> words_;
  std::vector<Extent> extents_;   // of variables
  std::set<std::string> params_;  // their names
  std::vector<Sized<Guard>> guards_ = {{Guard::True(), {}}, {Guard::False(), {}}};
  std::vector<Sized<Atom>> atoms_;
  std::vector<Sized<Term>> terms_;
  std::vector<Sized<NormalForm>> forms_;
  std::vector<Sized<MovedTerm>> moved_;
  bool stated_ = false;
};

StepReader::StepReader(std::string file, size_t first_line) : file_(std::move(file)), first_line_(first_line) {}
StepReader::~StepReader() = default;

absl::Status StepReader::Tell(const std::vector<absl::string_view>& lines, verifier::ProofObserver* observer) {
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string expected;
    try {
      if (lines[i] == "context") {
        scenes_.push_back(std::make_unique<Scene>());
      } else if (scenes_.empty()) {
        expected = "`context`";
      } else {
        scenes_.back()->Read(lines[i], observer);
      }
    } catch (const Unread& unread) {
      expected = unread.expected;
    } catch (const verifier::GiveUp& stopped) {
      expected = absl::StrCat("a step that can be checked: ", stopped.reason);
    }
    if (expected.empty()) continue;
    std::string shown(lines[i].substr(0, kMostShown));
    for (char& c : shown) c = c < ' ' || c > '~' ? '?' : c;
    return absl::InvalidArgumentError(absl::StrCat(file_, ":", first_line_ + i, ": found `", shown,
                                                   lines[i].size() > kMostShown ? "..`" : "`", ", expected ",
                                                   expected));
  }
  return absl::OkStatus();
}

}  // namespace rewright
