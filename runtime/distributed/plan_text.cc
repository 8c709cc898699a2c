#include "runtime/distributed/plan_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace rewright::distributed {
namespace {

constexpr int64_t kMostRanks = 1 << 16, kMostMicroBatches = 1 << 20, kMost = 1 << 24;

// In the order of Action::Kind.
constexpr std::array<const char*, 12> kKindNames = {
    "RUN",        "SEND",       "RECEIVE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_REDUCE",
    "ALL_TO_ALL", "ACCUMULATE", "UPDATE",  "OFFLOAD",    "FETCH",          "WAIT"};
// In the order of PlanTensor::Join.
constexpr std::array<const char*, 3> kJoinNames = {"sum", "blocks", "exchange"};
const char* NameOf(Action::Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

char LetterOf(PlanTensor::Kind kind) {
  switch (kind) {
    case PlanTensor::Kind::kInput: return 'x';
    case PlanTensor::Kind::kWeight: return 'w';
    case PlanTensor::Kind::kValue: return 't';
    case PlanTensor::Kind::kSum: return 'g';
  }
  return '?';
}

std::string NameOf(const Plan& plan, int tensor) {
  return absl::StrCat(std::string(1, LetterOf(plan.tensors[tensor].kind)), tensor);
}

// " g3..g6 t8": three and more of successive numbers and one kind as a range.
std::string Names(const Plan& plan, const std::vector<int>& tensors) {
  std::string text;
  for (size_t k = 0; k < tensors.size();) {
    size_t end = k + 1;
    while (end < tensors.size() && tensors[end] == tensors[end - 1] + 1 &&
           plan.tensors[tensors[end]].kind == plan.tensors[tensors[k]].kind) {
      ++end;
    }
    if (end - k < 3) end = k + 1;
    absl::StrAppend(&text, " ", NameOf(plan, tensors[k]));
    if (end - k > 1) absl::StrAppend(&text, "..", NameOf(plan, tensors[end - 1]));
    k = end;
  }
  return text;
}

std::string PrintTensor(const Plan& plan, int number) {
  const PlanTensor& tensor = plan.tensors[number];
  std::string text = absl::StrCat(NameOf(plan, number), " ", tensor.type.ToString());
  if (tensor.leaf >= 0) absl::StrAppend(&text, " of ", NameOf(plan, tensor.leaf), " behind s", tensor.behind);
  if (tensor.cut >= 0) absl::StrAppend(&text, " cut ", tensor.cut);
  if (tensor.owner >= 0) absl::StrAppend(&text, " at ", tensor.owner);
  if (tensor.apart) absl::StrAppend(&text, " apart");
  if (tensor.over >= 0) {
    absl::StrAppend(&text, " ", kJoinNames[static_cast<size_t>(tensor.join)], " over ",
                    plan.mesh.axes()[tensor.over].name);
  }
  return text;
}

std::string PrintSubgraph(const Plan& plan, size_t number) {
  const PlanSubgraph& subgraph = plan.subgraphs[number];
  std::string text =
      absl::StrCat("s", number, " reads", Names(plan, subgraph.reads), " makes", Names(plan, subgraph.makes));
  if (subgraph.over >= 0) absl::StrAppend(&text, " over ", plan.mesh.axes()[subgraph.over].name);
  if (subgraph.scratch_bytes > 0) absl::StrAppend(&text, " scratch ", subgraph.scratch_bytes);
  if (subgraph.own_bytes > 0) absl::StrAppend(&text, " own ", subgraph.own_bytes);
  if (subgraph.seconds > 0) absl::StrAppendFormat(&text, " seconds %.17g", subgraph.seconds);
  return text;
}

// The words of one line.
class Words {
 public:
  Words(int line, const std::string& text, const Plan& plan)
      : line_(line), words_(absl::StrSplit(text, ' ', absl::SkipEmpty())), plan_(plan) {}

  bool AtEnd() const { return next_ == words_.size(); }
  std::string Peek() const { return AtEnd() ? "" : words_[next_]; }
  std::string Take() { return AtEnd() ? "" : words_[next_++]; }
  bool TakeIf(const std::string& word) {
    if (Peek() != word) return false;
    ++next_;
    return true;
  }
  // An error about the word that was taken last.
  absl::Status Expected(const std::string& what) const {
    const std::string found = next_ == 0 ? "the end of the line" : absl::StrCat("`", words_[next_ - 1], "`");
    return Error(found, what);
  }
  absl::Status Error(const std::string& found, const std::string& expected) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_, ": found ", found, ", expected ", expected));
  }
  absl::Status Word(const std::string& word) {
    if (TakeIf(word)) return absl::OkStatus();
    return Missing(absl::StrCat("`", word, "`"));
  }
  absl::Status End() const { return AtEnd() ? absl::OkStatus() : Missing("the end of the line"); }

  absl::StatusOr<int64_t> Number(const std::string& what, int64_t least, int64_t end) {
    if (AtEnd()) return Missing(what);
    return NumberOf(Take(), what, least, end);
  }
  absl::StatusOr<double> Seconds() {
    double seconds = 0;
    if (AtEnd()) return Missing("seconds");
    if (!absl::SimpleAtod(Take(), &seconds) || !(seconds >= 0 && seconds <= 1e9)) {
      return Expected("seconds from 0 to 1e9");
    }
    return seconds;
  }
  // The number behind a letter: "s3".
  absl::StatusOr<int> Numbered(char letter, const std::string& what, size_t count) {
    if (AtEnd()) return Missing(what);
    const std::string word = Take();
    if (word.empty() || word[0] != letter) return Expected(what);
    ASSIGN_OR_RETURN(const int64_t number, NumberOf(word.substr(1), what, 0, static_cast<int64_t>(count)));
    return static_cast<int>(number);
  }
  absl::StatusOr<int> Tensor() {
    if (AtEnd()) return Missing("a tensor");
    return TensorOf(Take());
  }
  // As many as there are.
  absl::StatusOr<std::vector<int>> Tensors() {
    std::vector<int> tensors;
    while (!AtEnd() && Peek().size() > 1 && absl::ascii_isdigit(Peek()[1]) &&
           std::string("xwtg").find(Peek()[0]) != std::string::npos) {
      const std::string word = Take();
      const size_t dots = word.find("..");
      ASSIGN_OR_RETURN(const int first, TensorOf(word.substr(0, dots)));
      int last = first;
      if (dots != std::string::npos) {
        ASSIGN_OR_RETURN(last, TensorOf(word.substr(dots + 2)));
      }
      if (last < first || plan_.tensors[last].kind != plan_.tensors[first].kind) {
        return Expected("a range of tensors of one kind that goes up");
      }
      for (int k = first; k <= last; ++k) {
        if (plan_.tensors[k].kind != plan_.tensors[first].kind) return Expected("a range of tensors of one kind");
        if (tensors.size() == static_cast<size_t>(kMost)) return Expected("fewer tensors");
        tensors.push_back(k);
      }
    }
    return tensors;
  }
  absl::StatusOr<int> Axis() {
    if (AtEnd()) return Missing("an axis of the mesh");
    const int axis = plan_.mesh.Find(Take());
    if (axis < 0) {
      const auto& axes = plan_.mesh.axes();
      const auto name = [](std::string* out, const MeshAxis& it) { out->append(it.name); };
      return Expected(absl::StrCat("an axis of the mesh: ", absl::StrJoin(axes, ", ", name)));
    }
    return axis;
  }

 private:
  absl::Status Missing(const std::string& what) const {
    return Error(AtEnd() ? "the end of the line" : absl::StrCat("`", words_[next_], "`"), what);
  }
  absl::StatusOr<int64_t> NumberOf(const std::string& digits, const std::string& what, int64_t least,
                                   int64_t end) const {
    int64_t number = 0;
    const bool is_number = !digits.empty() && absl::ascii_isdigit(digits[0]) && absl::SimpleAtoi(digits, &number);
    if (!is_number || number < least || number >= end) {
      return Expected(end <= least ? absl::StrCat(what, ", and there is none")
                                   : absl::StrCat(what, " from ", least, " to ", end - 1));
    }
    return number;
  }
  absl::StatusOr<int> TensorOf(const std::string& word) const {
    if (word.empty()) return Expected("a tensor");
    ASSIGN_OR_RETURN(const int64_t number,
                     NumberOf(word.substr(1), "a tensor", 0, static_cast<int64_t>(plan_.tensors.size())));
    const char letter = LetterOf(plan_.tensors[number].kind);
    if (word[0] != letter) return Expected(absl::StrCat(std::string(1, letter), number, ", as it is called above"));
    return static_cast<int>(number);
  }

  const int line_;
  const std::vector<std::string> words_;
  const Plan& plan_;
  size_t next_ = 0;
};

class Parser {
 public:
  absl::StatusOr<Plan> Run(const std::string& text) {
    int number = 0;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++number;
      const std::string meaning(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
      if (meaning.empty()) continue;
      Words words(number, meaning, plan_);
      RETURN_IF_ERROR(Line(words));
      RETURN_IF_ERROR(words.End());
    }
    if (plan_.lists.empty()) return absl::InvalidArgumentError("found the end of the text, expected `mesh`");
    if (NextRank() < plan_.mesh.ranks()) {
      return absl::InvalidArgumentError(absl::StrCat("found the end of the text, expected `rank ", NextRank(),
                                                     "`: the mesh has ", plan_.mesh.ranks()));
    }
    return std::move(plan_);
  }

 private:
  absl::Status Line(Words& words) {
    if (plan_.lists.empty()) return MeshLine(words);
    if (!has_count_) {
      RETURN_IF_ERROR(words.Word("micro_batches"));
      ASSIGN_OR_RETURN(plan_.micro_batches, words.Number("a number of micro-batches", 1, kMostMicroBatches + 1));
      has_count_ = true;
      return absl::OkStatus();
    }
    if (plan_.tensors.empty() && plan_.alike.empty() && words.TakeIf("alike")) {
      do {
        ASSIGN_OR_RETURN(const int axis, words.Axis());
        if (plan_.IsAlike(axis)) return words.Expected("each axis once");
        plan_.alike.push_back(axis);
      } while (!words.AtEnd());
      if (plan_.IsAlike(0) && plan_.micro_batches % plan_.mesh.replicas() != 0) {
        return words.Expected(absl::StrCat("replicas that divide the micro-batches, ", plan_.micro_batches));
      }
      return absl::OkStatus();
    }
    if (plan_.tensors.empty() && plan_.order.empty() && words.TakeIf("order")) {
      while (plan_.order.size() < plan_.mesh.axes().size()) {
        ASSIGN_OR_RETURN(const int axis, words.Axis());
        if (std::count(plan_.order.begin(), plan_.order.end(), axis) > 0) return words.Expected("each axis once");
        plan_.order.push_back(axis);
      }
      return absl::OkStatus();
    }
    if (plan_.tensors.empty() && words.TakeIf("update_seconds")) {
      ASSIGN_OR_RETURN(plan_.update_seconds, words.Seconds());
      return absl::OkStatus();
    }
    if (words.TakeIf("rank")) {
      const int next = NextRank();
      ASSIGN_OR_RETURN(const int64_t rank, words.Number("the next rank", next, next + 1));
      if (rank >= plan_.mesh.ranks()) {
        return words.Expected(absl::StrCat("the end of the text: the mesh has ", plan_.mesh.ranks(), " ranks"));
      }
      rank_ = static_cast<int>(rank);
      return rank == 0 ? CheckBehind(words) : absl::OkStatus();
    }
    if (rank_ >= 0) return ActionLine(words);
    if (words.Peek()[0] == 's') return SubgraphLine(words);
    return TensorLine(words);
  }

  // The next rank that has a list; as many as there are ranks: none.
  int NextRank() const {
    const std::vector<int> ranks = plan_.RanksWithLists();
    const auto next = std::upper_bound(ranks.begin(), ranks.end(), rank_);
    return next == ranks.end() ? plan_.mesh.ranks() : *next;
  }

  absl::Status MeshLine(Words& words) {
    RETURN_IF_ERROR(words.Word("mesh"));
    std::vector<MeshAxis> axes;
    int64_t ranks = 1;
    do {
      const std::vector<std::string> sides = absl::StrSplit(words.Take(), '=');
      int64_t size = 0;
      const auto is_it = [&](const MeshAxis& axis) { return axis.name == sides[0]; };
      const auto is_letter = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
      const bool good =
          sides.size() == 2 && !sides[0].empty() && std::all_of(sides[0].begin(), sides[0].end(), is_letter);
      if (!good || !absl::SimpleAtoi(sides[1], &size) || size < 1 || size > kMostRanks ||
          std::any_of(axes.begin(), axes.end(), is_it)) {
        return words.Expected("NAME=SIZE, each name once");
      }
      axes.push_back({sides[0], static_cast<int>(size)});
      ranks *= size;
      if (ranks > kMostRanks) return words.Expected(absl::StrCat("at most ", kMostRanks, " ranks"));
    } while (!words.AtEnd());
    plan_.mesh = Mesh(std::move(axes));
    plan_.lists.resize(static_cast<size_t>(ranks));
    ends_.resize(static_cast<size_t>(ranks));
    return absl::OkStatus();
  }

  absl::StatusOr<TensorType> Type(Words& words) const {
    const std::string text = words.Take();
    const size_t bracket = text.find('[');
    TensorType type;
    bool good = bracket != std::string::npos && text.back() == ']' && ParseDType(text.substr(0, bracket), &type.dtype);
    if (good && text.size() > bracket + 2) {
      for (const absl::string_view size : absl::StrSplit(text.substr(bracket + 1, text.size() - bracket - 2), ',')) {
        int64_t number = 0;
        good &= absl::SimpleAtoi(size, &number);
        type.shape.push_back(number);
      }
    }
    if (!good || !CheckedElements(type.shape).ok()) return words.Expected("a type as f32[2,3]");
    return type;
  }

  absl::Status TensorLine(Words& words) {
    constexpr PlanTensor::Kind kKinds[] = {PlanTensor::Kind::kInput, PlanTensor::Kind::kWeight,
                                           PlanTensor::Kind::kValue, PlanTensor::Kind::kSum};
    const std::string word = words.Take();
    const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                    [&](PlanTensor::Kind it) { return LetterOf(it) == word[0]; });
    int64_t number = 0;
    if (kind == std::end(kKinds) || !absl::SimpleAtoi(word.substr(1), &number) ||
        number != static_cast<int64_t>(plan_.tensors.size()) || number >= kMost) {
      return words.Expected(absl::StrCat("x, w, t or g and the next number of a tensor, ", plan_.tensors.size(),
                                         ", the next subgraph, s", plan_.subgraphs.size(), ", or `rank 0`"));
    }
    PlanTensor tensor{*kind};
    ASSIGN_OR_RETURN(tensor.type, Type(words));
    if (*kind == PlanTensor::Kind::kSum) {
      RETURN_IF_ERROR(words.Word("of"));
      ASSIGN_OR_RETURN(tensor.leaf, words.Tensor());
      const PlanTensor& leaf = plan_.tensors[tensor.leaf];
      if (leaf.kind == PlanTensor::Kind::kSum || !IsFloating(tensor.type.dtype) ||
          leaf.type.dtype != tensor.type.dtype) {
        return words.Expected("a tensor of the sum's type, of floating-point elements, that is no sum");
      }
      RETURN_IF_ERROR(words.Word("behind"));
      ASSIGN_OR_RETURN(tensor.behind, words.Numbered('s', "a subgraph", static_cast<size_t>(kMost)));
    }
    const bool is_shared = *kind == PlanTensor::Kind::kSum || *kind == PlanTensor::Kind::kWeight;
    if (is_shared && words.TakeIf("cut")) {
      ASSIGN_OR_RETURN(const int64_t axis, words.Number("an axis of the tensor", 0, tensor.type.rank()));
      tensor.cut = static_cast<int>(axis);
      if (tensor.type.shape[tensor.cut] % plan_.mesh.replicas() != 0) {
        return words.Expected(absl::StrCat("an axis whose size ", plan_.mesh.replicas(), " divides"));
      }
    }
    if (tensor.leaf >= 0) RETURN_IF_ERROR(CheckLeaf(words, tensor));
    if (is_shared && words.TakeIf("at")) {
      ASSIGN_OR_RETURN(const int64_t owner,
                       words.Number("a rank of a replica", 0, plan_.mesh.ranks() / plan_.mesh.replicas()));
      tensor.owner = static_cast<int>(owner);
    }
    tensor.apart = is_shared && words.TakeIf("apart");
    if (*kind == PlanTensor::Kind::kValue && !words.AtEnd()) {
      const auto* join = std::find(kJoinNames.begin(), kJoinNames.end(), words.Take());
      if (join == kJoinNames.end()) return words.Expected(absl::StrJoin(kJoinNames, ", "));
      tensor.join = static_cast<PlanTensor::Join>(join - kJoinNames.begin());
      RETURN_IF_ERROR(words.Word("over"));
      ASSIGN_OR_RETURN(tensor.over, words.Axis());
    }
    plan_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  // A sum is of its leaf's type, or a block of it.
  absl::Status CheckLeaf(const Words& words, const PlanTensor& tensor) const {
    TensorType type = plan_.tensors[tensor.leaf].type;
    if (tensor.cut >= 0 && type.rank() == tensor.type.rank() &&
        type.shape[tensor.cut] == tensor.type.shape[tensor.cut] * (plan_.mesh.ranks() / plan_.mesh.replicas())) {
      type.shape[tensor.cut] = tensor.type.shape[tensor.cut];
    }
    if (type == tensor.type) return absl::OkStatus();
    return words.Error(tensor.type.ToString(), absl::StrCat("the type of its leaf, ", type.ToString(),
                                                            ", or a rank's block of it along the axis of the cut"));
  }

  absl::Status SubgraphLine(Words& words) {
    const std::string next = absl::StrCat("s", plan_.subgraphs.size());
    if (words.Take() != next || static_cast<int64_t>(plan_.subgraphs.size()) >= kMost) {
      return words.Expected(absl::StrCat("the next subgraph, ", next));
    }
    PlanSubgraph subgraph;
    RETURN_IF_ERROR(words.Word("reads"));
    ASSIGN_OR_RETURN(subgraph.reads, words.Tensors());
    RETURN_IF_ERROR(words.Word("makes"));
    ASSIGN_OR_RETURN(subgraph.makes, words.Tensors());
    for (int tensor : subgraph.reads) {
      if (plan_.tensors[tensor].kind == PlanTensor::Kind::kSum) {
        return words.Error(NameOf(plan_, tensor), "inputs, weights and values behind `reads`");
      }
    }
    made_.resize(plan_.tensors.size(), false);
    for (int tensor : subgraph.makes) {
      if (plan_.tensors[tensor].kind != PlanTensor::Kind::kValue || made_[tensor]) {
        return words.Error(NameOf(plan_, tensor), "values behind `makes`, each of one subgraph");
      }
      made_[tensor] = true;
    }
    if (words.TakeIf("over")) {
      ASSIGN_OR_RETURN(subgraph.over, words.Axis());
    }
    constexpr int64_t kMostBytes = int64_t{1} << 50;
    if (words.TakeIf("scratch")) {
      ASSIGN_OR_RETURN(subgraph.scratch_bytes, words.Number("bytes", 0, kMostBytes));
    }
    if (words.TakeIf("own")) {
      ASSIGN_OR_RETURN(subgraph.own_bytes, words.Number("bytes", 0, kMostBytes));
    }
    if (words.TakeIf("seconds")) {
      ASSIGN_OR_RETURN(subgraph.seconds, words.Seconds());
    }
    plan_.subgraphs.push_back(std::move(subgraph));
    return absl::OkStatus();
  }

  absl::Status ActionLine(Words& words) {
    std::vector<Action>& list = plan_.lists[rank_];
    const auto number = static_cast<int64_t>(list.size());
    RETURN_IF_ERROR(words.Number("the number of the next action", number, number + 1).status());
    if (number == kMost) return words.Expected("fewer actions");
    const std::string name = words.Take();
    const auto* kind = std::find(kKindNames.begin(), kKindNames.end(), name);
    if (kind == kKindNames.end()) return words.Expected(absl::StrCat("an action: ", absl::StrJoin(kKindNames, ", ")));
    Action action{static_cast<Action::Kind>(kind - kKindNames.begin())};
    RETURN_IF_ERROR(Fields(words, &action));
    if (action.kind == Action::Kind::kWait) {
      if (!IsCommunication(list[action.target].kind) || ends_[rank_][action.target]) {
        return words.Expected("an action of communication above that nothing waits for yet");
      }
      ends_[rank_][action.target] = true;
    }
    ends_[rank_].push_back(false);
    list.push_back(std::move(action));
    return absl::OkStatus();
  }

  // Sums name subgraphs that stand behind them.
  absl::Status CheckBehind(const Words& words) {
    for (int sum : plan_.TensorsOf(PlanTensor::Kind::kSum)) {
      const int behind = plan_.tensors[sum].behind;
      if (behind < static_cast<int>(plan_.subgraphs.size())) continue;
      return words.Error(absl::StrCat("the sum ", NameOf(plan_, sum), " behind s", behind),
                         absl::StrCat("one of ", plan_.subgraphs.size(), " subgraphs"));
    }
    return absl::OkStatus();
  }

  absl::Status Fields(Words& words, Action* action) {
    using Kind = Action::Kind;
    if (action->kind == Kind::kRun) {
      ASSIGN_OR_RETURN(action->target, words.Numbered('s', "a subgraph", plan_.subgraphs.size()));
    } else if (action->kind == Kind::kWait) {
      ASSIGN_OR_RETURN(const int64_t target,
                       words.Number("an action above", 0, static_cast<int64_t>(plan_.lists[rank_].size())));
      action->target = static_cast<int>(target);
      return absl::OkStatus();
    } else {
      ASSIGN_OR_RETURN(action->tensors, words.Tensors());
      RETURN_IF_ERROR(CheckTensors(words, *action));
    }
    RETURN_IF_ERROR(MicroBatches(words, action));
    if (action->kind == Kind::kSend || action->kind == Kind::kReceive) {
      RETURN_IF_ERROR(words.Word(action->kind == Kind::kSend ? "to" : "from"));
      ASSIGN_OR_RETURN(const int64_t other, words.Number("a rank", 0, plan_.mesh.ranks()));
      const int each = plan_.mesh.ranks() / plan_.mesh.replicas();
      if (other == rank_ || other / each != rank_ / each) {
        return words.Expected(absl::StrCat("another rank of the replica of rank ", rank_));
      }
      action->target = static_cast<int>(other);
    }
    if (IsCollective(action->kind)) {
      RETURN_IF_ERROR(words.Word("over"));
      ASSIGN_OR_RETURN(action->axis, words.Axis());
      for (int tensor : action->tensors) {
        const PlanTensor& of = plan_.tensors[tensor];
        const int axis = of.kind == PlanTensor::Kind::kValue ? of.over : 0;
        if (axis < 0) return words.Error(NameOf(plan_, tensor), "values that ranks complete together");
        if (action->axis != axis) return words.Expected(absl::StrCat("`", plan_.mesh.axes()[axis].name, "`"));
      }
      if (action->givers > plan_.mesh.replicas()) return words.Expected("at most as many micro-batches as ranks");
    }
    return absl::OkStatus();
  }

  // "of 3", "of 4..5".
  absl::Status MicroBatches(Words& words, Action* action) {
    using Kind = Action::Kind;
    const bool is_value =
        !action->tensors.empty() && (plan_.tensors[action->tensors[0]].kind == PlanTensor::Kind::kValue ||
                                     plan_.tensors[action->tensors[0]].kind == PlanTensor::Kind::kInput);
    const bool needed = action->kind == Kind::kRun || action->kind == Kind::kAccumulate || is_value;
    if (!needed && (action->kind != Kind::kReduceScatter || words.Peek() != "of")) return absl::OkStatus();
    RETURN_IF_ERROR(words.Word("of"));
    if (action->kind != Kind::kReduceScatter || is_value) {
      ASSIGN_OR_RETURN(action->micro_batch, words.Number("a micro-batch", 0, plan_.micro_batches));
      return absl::OkStatus();
    }
    const std::vector<std::string> sides = absl::StrSplit(words.Take(), absl::ByString(".."));
    int64_t first = 0, last = 0;
    if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &first) || !absl::SimpleAtoi(sides[1], &last) || first < 0 ||
        last < first || last >= plan_.micro_batches) {
      return words.Expected(absl::StrCat("FIRST..LAST, micro-batches from 0 to ", plan_.micro_batches - 1));
    }
    action->micro_batch = first;
    action->givers = last - first + 1;
    return absl::OkStatus();
  }

  // Tensors are of the kinds that an action takes.
  absl::Status CheckTensors(const Words& words, const Action& action) const {
    using Kind = Action::Kind;
    const bool may_be_none = action.kind == Kind::kUpdate;
    if (action.tensors.empty() && !may_be_none) return words.Expected("tensors");
    std::string letters = "g";
    if (action.kind == Kind::kSend || action.kind == Kind::kReceive) letters = "wt";
    if (action.kind == Kind::kOffload || action.kind == Kind::kFetch) letters = "t";
    if (action.kind == Kind::kAllGather) letters = "wgt";
    if (action.kind == Kind::kReduceScatter || action.kind == Kind::kAllReduce) letters = "gt";
    if (action.kind == Kind::kAllToAll) letters = "t";
    std::vector<int> sorted = action.tensors;
    std::sort(sorted.begin(), sorted.end());
    const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    for (int tensor : action.tensors) {
      const bool fits = letters.find(LetterOf(plan_.tensors[tensor].kind)) != std::string::npos &&
                        plan_.tensors[tensor].kind == plan_.tensors[action.tensors[0]].kind;
      if (!fits || twice)
        return words.Error(NameOf(plan_, tensor), absl::StrCat("tensors of one kind of ", letters, ", each once"));
    }
    const bool one = action.kind == Kind::kSend || action.kind == Kind::kReceive;
    if (one && action.tensors.size() != 1) return words.Expected("one tensor");
    return absl::OkStatus();
  }

  Plan plan_;
  bool has_count_ = false;
  int rank_ = -1;
  std::vector<bool> made_;               // by tensor
  std::vector<std::vector<bool>> ends_;  // by rank and action: something waits for it
};

}  // namespace

std::string PrintAction(const Plan& plan, const Action& action) {
  std::string text = NameOf(action.kind);
  if (action.kind == Action::Kind::kRun) absl::StrAppend(&text, " s", action.target);
  if (action.kind == Action::Kind::kWait) absl::StrAppend(&text, " ", action.target);
  absl::StrAppend(&text, Names(plan, action.tensors));
  if (action.micro_batch >= 0) absl::StrAppend(&text, " of ", action.micro_batch);
  if (action.givers > 0) absl::StrAppend(&text, "..", action.micro_batch + action.givers - 1);
  if (action.kind == Action::Kind::kSend) absl::StrAppend(&text, " to ", action.target);
  if (action.kind == Action::Kind::kReceive) absl::StrAppend(&text, " from ", action.target);
  if (action.axis >= 0) absl::StrAppend(&text, " over ", plan.mesh.axes()[action.axis].name);
  return text;
}

std::string PrintPlan(const Plan& plan) {
  std::string text = "mesh";
  for (const MeshAxis& axis : plan.mesh.axes()) absl::StrAppend(&text, " ", axis.name, "=", axis.size);
  absl::StrAppend(&text, "\nmicro_batches ", plan.micro_batches, "\n");
  for (const auto& [word, listed] : {std::pair("alike", &plan.alike), {"order", &plan.order}}) {
    if (listed->empty()) continue;
    text += word;
    for (int axis : *listed) absl::StrAppend(&text, " ", plan.mesh.axes()[axis].name);
    text += "\n";
  }
  if (plan.update_seconds > 0) absl::StrAppendFormat(&text, "update_seconds %.17g\n", plan.update_seconds);
  for (size_t k = 0; k < plan.tensors.size(); ++k) {
    absl::StrAppend(&text, PrintTensor(plan, static_cast<int>(k)), "\n");
  }
  for (size_t k = 0; k < plan.subgraphs.size(); ++k) absl::StrAppend(&text, PrintSubgraph(plan, k), "\n");
  for (const int rank : plan.RanksWithLists()) {
    absl::StrAppend(&text, "rank ", rank, "\n");
    for (size_t i = 0; i < plan.lists[rank].size(); ++i) {
      absl::StrAppend(&text, "  ", i, " ", PrintAction(plan, plan.lists[rank][i]), "\n");
    }
  }
  return text;
}

absl::StatusOr<Plan> ParsePlan(const std::string& text) { return Parser().Run(text); }

}  // namespace rewright::distributed
