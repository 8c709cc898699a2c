#include "core/ir/text.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-';
}

// Quotes names that do not read as one word.
std::string NameText(const std::string& name) {
  bool plain = !name.empty() && IsNameStart(name[0]);
  for (char c : name) plain = plain && IsNameChar(c);
  if (plain) return name;
  std::string text = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

// Returns the shortest text that reads back as the same element.
std::string ElementText(const Tensor& tensor, int64_t i) {
  if (!IsFloating(tensor.dtype())) return std::to_string(tensor.AtInt(i));
  const double value = tensor.At(i);
  for (int digits = 1; tensor.dtype() != DType::kFloat64 && digits <= 9; ++digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (NearestOf(tensor.dtype(), std::strtod(text, nullptr)) == value) return text;
  }
  return AttrString(value);
}

std::string ConstantText(const Tensor& tensor) {
  std::string text = "[";
  for (int64_t i = 0; i < tensor.num_elements(); ++i) text += (i > 0 ? "," : "") + ElementText(tensor, i);
  return text + "]";
}

// ---------------------------------------------------------------- printing

class GraphPrinter {
 public:
  explicit GraphPrinter(const Graph& graph) : graph_(graph) {}

  std::string Print() {
    std::string text = graph_.mode() == Mode::kTraining ? "training\n" : "";
    for (Value input : graph_.inputs()) text += LeafLine(input.node);
    for (NodeId id : graph_.nodes()) {
      if (graph_.node(id).leaf == LeafKind::kInput) continue;
      text += graph_.node(id).op == nullptr ? LeafLine(id) : ApplicationLine(id);
    }
    for (const Output& output : graph_.outputs()) {
      const bool update = output.updates.node >= 0;
      if (update && !graph_.contains(output.updates.node)) text += LeafLine(output.updates.node);
      text += update ? "update " + Reference(output.updates) : "output " + NameText(output.name);
      text += " = " + Reference(output.value) + "\n";
    }
    return text;
  }

 private:
  std::string Reference(Value value) const {
    const Node& node = graph_.node(value.node);
    if (!node.name.empty()) return NameText(node.name);
    const std::string number = absl::StrCat("%", numbers_.at(value.node));
    return node.outputs.size() > 1 ? absl::StrCat(number, ".", value.output) : number;
  }

  std::string LeafLine(NodeId id) {
    const Node& node = graph_.node(id);
    const std::string type = node.outputs[0].ToString();
    if (node.leaf == LeafKind::kInput) return "input " + NameText(node.name) + ": " + type + "\n";
    if (node.leaf == LeafKind::kState) return "state " + NameText(node.name) + ": " + type + "\n";
    numbers_[id] = next_++;
    return "const " + Reference(Value{id, 0}) + ": " + type + " = " + ConstantText(node.data) + "\n";
  }

  std::string ApplicationLine(NodeId id) {
    const Node& node = graph_.node(id);
    numbers_[id] = next_++;
    std::string line, types;
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i) {
      line += (i > 0 ? ", " : "") + Reference(Value{id, i});
      types += (i > 0 ? ", " : "") + node.outputs[i].ToString();
    }
    line += " = " + node.op->name + "(";
    const char* separator = "";
    for (Value operand : node.operands) {
      line += separator + Reference(operand);
      separator = ", ";
    }
    for (const auto& [name, attr] : node.attrs) {
      const AttrSpec* spec = node.op->FindAttr(name);
      if (spec->fallback && *spec->fallback == attr) continue;
      line += separator + name + "=" + AttrString(attr);
      separator = ", ";
    }
    return line + ")  # " + types + "\n";
  }

  const Graph& graph_;
  absl::flat_hash_map<NodeId, int> numbers_;
  int next_ = 0;
};

// ---------------------------------------------------------------- parsing

constexpr size_t kMaxListLength = 1 << 24;

class GraphParser {
 public:
  GraphParser(const std::string& text, const std::map<std::string, Tensor>& states)
      : text_(text), states_(states), arena_(std::make_shared<Arena>()) {}

  absl::StatusOr<Graph> Parse() {
    SkipBlank();
    while (at_ < text_.size()) {
      RETURN_IF_ERROR(Statement());
      SkipBlank();
    }
    if (outputs_.empty()) return Error("a line `output name = value`");
    return Graph(arena_, std::move(inputs_), std::move(outputs_));
  }

 private:
  // ---- characters
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    if (at_ < text_.size() && text_[at_] == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
  }
  void SkipBlank() {
    SkipSpace();
    while (at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      SkipSpace();
    }
  }
  bool Accept(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) {
    return Accept(c) ? absl::OkStatus() : Error(absl::StrCat("`", std::string(1, c), "`"));
  }

  // "line 3, column 7: found `x`, expected a type"
  absl::Status Error(const std::string& expected) const {
    const auto [line, column] = Place();
    std::string found = "the end";
    if (at_ < text_.size())
      found = text_[at_] == '\n' ? "the end of the line" : absl::StrCat("`", text_.substr(at_, 1), "`");
    return InvalidArgument("line ", line, ", column ", column, ": found ", found, ", expected ", expected);
  }
  absl::Status Wrong(const std::string& message) const {
    return InvalidArgument("line ", Place().first, ": ", message);
  }
  std::pair<int, int> Place() const {
    int line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    return {line, column};
  }

  // ---- words
  absl::StatusOr<std::string> Name() {
    SkipSpace();
    std::string name;
    if (at_ < text_.size() && text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        name += text_[at_];
      }
      if (!Accept('"')) return Error("a closing quote");
      return name;
    }
    if (at_ >= text_.size() || !IsNameStart(text_[at_])) return Error("a name");
    while (at_ < text_.size() && IsNameChar(text_[at_])) name += text_[at_++];
    return name;
  }

  // Reads %3 or %3.1; the printed form is the key of the table of values.
  absl::StatusOr<std::string> Number() {
    SkipSpace();
    std::string word;
    if (at_ < text_.size() && text_[at_] == '%') word += text_[at_++];
    while (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.')) {
      word += text_[at_++];
    }
    if (word.size() < 2 || word[0] != '%') return Error("a value such as %3 or a name");
    return word;
  }

  absl::StatusOr<Value> Reference() {
    SkipSpace();
    ASSIGN_OR_RETURN(const std::string word, at_ < text_.size() && text_[at_] == '%' ? Number() : Name());
    auto it = values_.find(word);
    if (it == values_.end()) return Wrong(absl::StrCat("no value ", word, " before this line"));
    return it->second;
  }

  // Reads an integer or a real, as the text has it.
  absl::StatusOr<Attr> Numeral() {
    SkipSpace();
    const char* begin = text_.c_str() + at_;
    char* real_end = nullptr;
    const double real = std::strtod(begin, &real_end);
    if (real_end == begin) return Error("a number");
    char* int_end = nullptr;
    errno = 0;
    const int64_t integer = std::strtoll(begin, &int_end, 10);
    if (int_end == real_end) {
      if (errno == ERANGE) return Error("an integer of 64 bits");
      at_ += static_cast<size_t>(real_end - begin);
      return Attr(integer);
    }
    // `inf` stands for infinity; digits do not.
    if (std::isinf(real) && std::any_of(begin, const_cast<const char*>(real_end), absl::ascii_isdigit)) {
      return Error("a number that a double holds");
    }
    at_ += static_cast<size_t>(real_end - begin);
    return Attr(real);
  }

  absl::StatusOr<std::vector<Attr>> List() {
    RETURN_IF_ERROR(Expect('['));
    std::vector<Attr> list;
    if (Accept(']')) return list;
    do {
      ASSIGN_OR_RETURN(list.emplace_back(), Numeral());
      if (list.size() > kMaxListLength) return Wrong("the list is too long");
    } while (Accept(','));
    RETURN_IF_ERROR(Expect(']'));
    return list;
  }

  absl::StatusOr<std::vector<int64_t>> IntList() {
    ASSIGN_OR_RETURN(const std::vector<Attr> list, List());
    std::vector<int64_t> ints;
    for (const Attr& item : list) {
      if (!std::holds_alternative<int64_t>(item)) return Wrong("found a real number in a list of integers");
      ints.push_back(std::get<int64_t>(item));
    }
    return ints;
  }

  absl::StatusOr<DType> Type() {
    ASSIGN_OR_RETURN(const std::string name, Name());
    DType type;
    if (!ParseDType(name, &type)) return Wrong(absl::StrCat("no element type ", name));
    return type;
  }

  absl::StatusOr<TensorType> FullType() {
    ASSIGN_OR_RETURN(const DType dtype, Type());
    ASSIGN_OR_RETURN(const Shape shape, IntList());
    if (const auto elements = CheckedElements(shape); !elements.ok())
      return Wrong(std::string(elements.status().message()));
    return TensorType{dtype, shape};
  }

  absl::StatusOr<Attr> AttrValue() {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '[') {
      ASSIGN_OR_RETURN(std::vector<int64_t> list, IntList());
      return Attr(std::move(list));
    }
    if (at_ < text_.size() && IsNameStart(text_[at_]) && text_.compare(at_, 3, "inf") != 0 &&
        text_.compare(at_, 3, "nan") != 0) {
      ASSIGN_OR_RETURN(const DType type, Type());
      return Attr(type);
    }
    return Numeral();
  }

  // ---- lines
  absl::Status Statement() {
    SkipSpace();
    if (text_[at_] == '%') return Application();
    ASSIGN_OR_RETURN(const std::string keyword, Name());
    if (keyword == "input" || keyword == "state") return Leaf(keyword == "input");
    if (keyword == "const") return Constant();
    if (keyword == "output") return OutputLine();
    if (keyword == "update") return UpdateLine();
    if (keyword == "training" && arena_->size() == 0) {
      arena_ = std::make_shared<Arena>(Mode::kTraining);
      return EndOfLine();
    }
    return Wrong(absl::StrCat("found ", keyword, ", expected training, input, state, const, output, update or %n"));
  }

  absl::Status EndOfLine() {
    SkipSpace();
    return at_ >= text_.size() || text_[at_] == '\n' ? absl::OkStatus() : Error("the end of the line");
  }

  absl::Status Define(const std::string& name, Value value) {
    if (!values_.emplace(name, value).second) return Wrong(absl::StrCat("the value ", name, " is defined twice"));
    return absl::OkStatus();
  }

  absl::Status Leaf(bool is_input) {
    ASSIGN_OR_RETURN(const std::string name, Name());
    RETURN_IF_ERROR(Expect(':'));
    ASSIGN_OR_RETURN(const TensorType type, FullType());
    absl::StatusOr<Value> leaf;
    if (is_input) {
      leaf = arena_->AddInput(name, type);
    } else {
      auto it = states_.find(name);
      if (it != states_.end() && it->second.type() != type) {
        return Wrong(absl::StrCat("state ", name, " is given as ", it->second.type().ToString(), ", declared as ",
                                  type.ToString()));
      }
      leaf = arena_->AddState(name, it != states_.end() ? it->second : Tensor(type));
    }
    if (!leaf.ok()) return Wrong(std::string(leaf.status().message()));
    if (is_input) inputs_.push_back(*leaf);
    RETURN_IF_ERROR(Define(name, *leaf));
    return EndOfLine();
  }

  absl::Status Constant() {
    ASSIGN_OR_RETURN(const std::string name, Number());
    RETURN_IF_ERROR(Expect(':'));
    ASSIGN_OR_RETURN(const TensorType type, FullType());
    RETURN_IF_ERROR(Expect('='));
    ASSIGN_OR_RETURN(const std::vector<Attr> items, List());
    if (static_cast<int64_t>(items.size()) != type.num_elements()) {
      return Wrong(absl::StrCat("found ", items.size(), " elements, expected ", type.num_elements()));
    }
    Tensor data(type);
    for (size_t i = 0; i < items.size(); ++i) {
      const auto* integer = std::get_if<int64_t>(&items[i]);
      if (integer != nullptr && !IsFloating(type.dtype)) {
        data.SetInt(static_cast<int64_t>(i), *integer);
      } else {
        data.Set(static_cast<int64_t>(i), integer ? static_cast<double>(*integer) : std::get<double>(items[i]));
      }
    }
    RETURN_IF_ERROR(Define(name, arena_->AddConstant(data)));
    return EndOfLine();
  }

  absl::Status Application() {
    std::vector<std::string> results;
    do {
      ASSIGN_OR_RETURN(results.emplace_back(), Number());
    } while (Accept(','));
    RETURN_IF_ERROR(Expect('='));
    ASSIGN_OR_RETURN(const std::string op, Name());
    RETURN_IF_ERROR(Expect('('));
    std::vector<Value> operands;
    Attrs attrs;
    while (!Accept(')')) {
      if ((!operands.empty() || !attrs.empty()) && !Accept(',')) return Error("`,` or `)`");
      auto attr = AttrName();
      if (attr) {
        ASSIGN_OR_RETURN(const Attr value, AttrValue());
        if (!attrs.emplace(*attr, value).second) return Wrong(absl::StrCat("attribute ", *attr, " is given twice"));
      } else {
        ASSIGN_OR_RETURN(operands.emplace_back(), Reference());
      }
    }
    auto id = arena_->Add(op, std::move(operands), std::move(attrs));
    if (!id.ok()) return Wrong(std::string(id.status().message()));
    if (arena_->node(*id).outputs.size() != results.size()) {
      return Wrong(absl::StrCat(op, " has ", arena_->node(*id).outputs.size(), " outputs, found ", results.size()));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      RETURN_IF_ERROR(Define(results[i], Value{*id, static_cast<int32_t>(i)}));
    }
    return EndOfLine();
  }

  // Reads the name before `=` if an attribute follows; consumes both.
  std::optional<std::string> AttrName() {
    SkipSpace();
    size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) ++end;
    size_t sign = end;
    while (sign < text_.size() && text_[sign] == ' ') ++sign;
    if (end == at_ || sign >= text_.size() || text_[sign] != '=') return std::nullopt;
    std::string name = text_.substr(at_, end - at_);
    at_ = sign + 1;
    return name;
  }

  absl::Status OutputLine() {
    ASSIGN_OR_RETURN(const std::string name, Name());
    RETURN_IF_ERROR(Expect('='));
    ASSIGN_OR_RETURN(const Value value, Reference());
    outputs_.push_back(Output{value, name});
    return EndOfLine();
  }

  absl::Status UpdateLine() {
    ASSIGN_OR_RETURN(const Value state, Reference());
    RETURN_IF_ERROR(Expect('='));
    ASSIGN_OR_RETURN(const Value value, Reference());
    const Node& leaf = arena_->node(state.node);
    if (leaf.leaf != LeafKind::kState || arena_->mode() != Mode::kTraining) {
      return Wrong("only a state of a graph for training has a next value");
    }
    for (const Output& other : outputs_) {
      if (other.updates == state) return Wrong(absl::StrCat("a second next value of the state ", leaf.name));
    }
    if (arena_->type(value) != leaf.outputs[0]) {
      return Wrong(absl::StrCat("the next value of the state ", leaf.name, " is ", arena_->type(value).ToString(),
                                ", expected ", leaf.outputs[0].ToString()));
    }
    outputs_.push_back(Output{value, leaf.name, state});
    return EndOfLine();
  }

  const std::string& text_;
  const std::map<std::string, Tensor>& states_;
  size_t at_ = 0;
  std::shared_ptr<Arena> arena_;
  std::vector<Value> inputs_;
  std::vector<Output> outputs_;
  absl::flat_hash_map<std::string, Value> values_;
};

}  // namespace

std::string PrintGraph(const Graph& graph) { return GraphPrinter(graph).Print(); }

absl::StatusOr<Graph> ParseGraph(const std::string& text, const std::map<std::string, Tensor>& states) {
  return GraphParser(text, states).Parse();
}

}  // namespace rewright
