#include "backends/cpu/codegen/tile_text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/text_hash.h"

namespace rewright::cpu {
namespace {

// LLVM's names of element types: as they are computed with, and as they lie in memory. Null: not written.
const char* ElementOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float";
    case DType::kBool: return "i1";
    case DType::kInt32: return "i32";
    case DType::kInt16:
    case DType::kUInt16: return "i16";
    case DType::kInt8:
    case DType::kUInt8: return "i8";
    default: return nullptr;
  }
}
const char* StoredElementOf(DType dtype) { return dtype == DType::kBool ? "i8" : ElementOf(dtype); }
bool IsText(DType dtype) { return ElementOf(dtype) != nullptr; }

// Integers of 16 bits or fewer, and their sums, differences and products in i32, which wrap.
const char* WrappingOf(TileOp op) {
  return op == kTileAdd ? "add" : op == kTileSub ? "sub" : op == kTileMul ? "mul" : nullptr;
}

// Returns whether i32 holds every number that the value can be, for example the result of a clip.
bool IsHeld(const PointwiseProgram& program, int value) {
  const int operands = static_cast<int>(program.operands.size());
  const int leaves = program.num_values() - static_cast<int>(program.instructions.size());
  const auto bound = [&](int v) {
    return v >= operands && v < leaves && std::abs(program.constants[v - operands].real) < 2147483000.0;
  };
  const auto bounded = [&](int v, TileOp op, int* other) {
    if (v < leaves) return false;
    const PointwiseInstruction& instruction = program.instructions[v - leaves];
    if (instruction.op != op || instruction.type != DType::kFloat32 || !bound(instruction.b)) return false;
    *other = instruction.a;
    return true;
  };
  int inner = -1, x = -1;
  return (bounded(value, kTileMin, &inner) && bounded(inner, kTileMax, &x)) ||
         (bounded(value, kTileMax, &inner) && bounded(inner, kTileMin, &x));
}

bool HasConversion(const PointwiseProgram& program, const PointwiseInstruction& instruction) {
  const DType from = instruction.type, to = instruction.to;
  if (from == to) return true;
  if (from == DType::kBool || to == DType::kBool) return false;
  if (from == DType::kFloat32) return to == DType::kInt32 && IsHeld(program, instruction.a);
  return from == DType::kInt32 || to == DType::kInt32;  // of narrow ones to and from floats there is none
}

// LLVM's names of operations on f32 that are instructions, comparisons or functions of its own.
const char* ArithmeticOf(TileOp op) {
  switch (op) {
    case kTileAdd: return "fadd";
    case kTileSub: return "fsub";
    case kTileMul: return "fmul";
    case kTileDiv: return "fdiv";
    default: return nullptr;
  }
}
const char* ComparisonOf(TileOp op) {
  switch (op) {
    case kTileLess: return "olt";
    case kTileLessEqual: return "ole";
    case kTileEqual: return "oeq";
    default: return nullptr;
  }
}
const char* FunctionOf(TileOp op) {
  switch (op) {
    case kTileSqrt: return "llvm.sqrt";
    case kTileAbs: return "llvm.fabs";
    case kTileFloor: return "llvm.floor";
    case kTileCeil: return "llvm.ceil";
    default: return nullptr;
  }
}
const char* LogicOf(TileOp op) { return op == kTileAnd ? "and" : op == kTileOr ? "or" : nullptr; }

// One loop, for `lanes` positions at a time.
class LoopWriter {
 public:
  // `rounds`: the processor has an instruction that rounds.
  LoopWriter(const PointwiseProgram& program, const TileText& tile, const std::vector<bool>& uniform, int lanes,
             bool rounds)
      : program_(program),
        tile_(tile),
        uniform_(uniform),
        lanes_(lanes),
        rounds_(rounds),
        leaves_(program.num_values() - static_cast<int>(program.instructions.size())) {}

  // Writes the uniform values, which all rounds share, one position at a time.
  void Begin(int first, int last) {
    for (size_t k = 0; k < tile_.reads.size(); ++k) {
      if (uniform_[tile_.reads[k]]) names_[tile_.reads[k]] = Loaded(k, "0", 1);
    }
    for (int i = first; i < last; ++i) {
      if (uniform_[leaves_ + i]) names_[leaves_ + i] = Computed(program_.instructions[i]);
    }
  }
  // Takes over uniform values from a writer for one position at a time, as far as values that are not uniform read
  // them.
  void Begin(int first, int last, const LoopWriter& single) {
    const auto repeat = [&](int value) {
      if (const auto scalar = single.names_.find(value); value >= 0 && scalar != single.names_.end()) {
        names_.emplace(value, "");
      }
    };
    for (int i = first; i < last; ++i) {
      const PointwiseInstruction& instruction = program_.instructions[i];
      if (uniform_[leaves_ + i]) continue;
      for (int operand : {instruction.a, instruction.b, instruction.c}) repeat(operand);
    }
    for (int value : tile_.writes) repeat(value);
    repeat(leaves_ + last - 1);
    for (auto& [value, name] : names_) name = Splat(single.names_.at(value), program_.TypeOf(value));
  }
  // The body of a round at the positions from `position` on.
  void Round(int first, int last, const std::string& position) {
    for (size_t k = 0; k < tile_.reads.size(); ++k) {
      if (!uniform_[tile_.reads[k]]) names_[tile_.reads[k]] = Loaded(k, position, lanes_);
    }
    for (int i = first; i < last; ++i) {
      if (!uniform_[leaves_ + i]) names_[leaves_ + i] = Computed(program_.instructions[i]);
    }
    for (size_t k = 0; k < tile_.writes.size(); ++k) Store(tile_.reads.size() + k, tile_.writes[k], position);
  }
  // The value of the last instruction of a round, joined to such numbers.
  std::string Joined(TileJoin join, const std::string& numbers, int value) {
    const std::string type = Type(DType::kFloat32);
    if (join == kJoinSum) return Set(absl::StrCat("fadd ", type, " ", numbers, ", ", Operand(value)));
    return Extremum(join == kJoinMax, type, numbers, Operand(value));
  }
  // Numbers in memory, as many as are computed together, and where they lie: `at` counts from the first one.
  std::string NumbersAt(size_t number, const std::string& at) { return Address(number, DType::kFloat32, at, lanes_); }
  std::string LoadNumbers(const std::string& address) {
    const std::string type = Type(DType::kFloat32);
    return Set(absl::StrCat("load ", type, ", ", type, "* ", address, ", align 4"));
  }
  void StoreNumbers(const std::string& numbers, const std::string& address) {
    const std::string type = Type(DType::kFloat32);
    absl::StrAppend(&text_, "  store ", type, " ", numbers, ", ", type, "* ", address, ", align 4\n");
  }
  std::string Take() { return std::exchange(text_, {}); }

 private:
  std::string Type(DType dtype) const { return TypeOf(dtype, lanes_); }
  static std::string TypeOf(DType dtype, int lanes) {
    const char* element = ElementOf(dtype);
    return lanes == 1 ? element : absl::StrCat("<", lanes, " x ", element, ">");
  }
  static std::string StoredType(DType dtype, int lanes) {
    const char* element = StoredElementOf(dtype);
    return lanes == 1 ? element : absl::StrCat("<", lanes, " x ", element, ">");
  }
  std::string New() { return absl::StrCat("%v", lanes_, "_", next_++); }
  // result = the text.
  std::string Set(const std::string& text) {
    std::string name = New();
    absl::StrAppend(&text_, "  ", name, " = ", text, "\n");
    return name;
  }
  std::string Splat(const std::string& scalar, DType dtype) {
    const std::string type = Type(dtype), undefined = absl::StrCat(type, " undef");
    const std::string one =
        Set(absl::StrCat("insertelement ", undefined, ", ", TypeOf(dtype, 1), " ", scalar, ", i32 0"));
    return Set(
        absl::StrCat("shufflevector ", type, " ", one, ", ", undefined, ", <", lanes_, " x i32> zeroinitializer"));
  }
  // The address of `lanes` elements from a position on.
  std::string Address(size_t number, DType dtype, const std::string& position, int lanes) {
    const std::string element = StoredType(dtype, 1), type = StoredType(dtype, lanes);
    const std::string at =
        Set(absl::StrCat("getelementptr ", element, ", ", element, "* %p", number, ", i64 ", position));
    return lanes == 1 ? at : Set(absl::StrCat("bitcast ", element, "* ", at, " to ", type, "*"));
  }
  std::string Loaded(size_t number, const std::string& position, int lanes) {
    const DType dtype = program_.TypeOf(tile_.reads[number]);
    const std::string type = StoredType(dtype, lanes);
    const std::string address = Address(number, dtype, position, lanes);
    const std::string value = Set(absl::StrCat("load ", type, ", ", type, "* ", address, ", align ", DTypeSize(dtype)));
    if (dtype != DType::kBool) return value;
    return Set(absl::StrCat("icmp ne ", type, " ", value, ", ", lanes == 1 ? "0" : "zeroinitializer"));
  }
  void Store(size_t number, int value, const std::string& position) {
    const DType dtype = program_.TypeOf(value);
    const std::string type = StoredType(dtype, lanes_);
    std::string stored = Operand(value);
    if (dtype == DType::kBool) stored = Set(absl::StrCat("zext ", Type(dtype), " ", stored, " to ", type));
    const std::string address = Address(number, dtype, position, lanes_);
    absl::StrAppend(&text_, "  store ", type, " ", stored, ", ", type, "* ", address, ", align ", DTypeSize(dtype),
                    "\n");
  }
  std::string Repeated(const std::string& type, const std::string& literal) const {
    if (lanes_ == 1) return literal;
    std::vector<std::string> elements(static_cast<size_t>(lanes_), absl::StrCat(type, " ", literal));
    return absl::StrCat("<", absl::StrJoin(elements, ", "), ">");
  }
  std::string Operand(int value) const {
    const int operands = static_cast<int>(program_.operands.size());
    if (value < operands || value >= leaves_) return names_.at(value);
    const PointwiseConstant& constant = program_.constants[value - operands];
    if (constant.dtype == DType::kBool) return Repeated("i1", constant.integer != 0 ? "true" : "false");
    if (constant.dtype != DType::kFloat32) return Repeated(ElementOf(constant.dtype), absl::StrCat(constant.integer));
    // A float is written as the double of the same value.
    const double real = static_cast<double>(static_cast<float>(constant.real));
    return Repeated("float", absl::StrFormat("0x%016X", std::bit_cast<uint64_t>(real)));
  }
  // An element in another type.
  std::string Converted(DType from, DType to, const std::string& x) {
    const auto by = [&](const char* name, const std::string& value) {
      return Set(absl::StrCat(name, " ", Type(from), " ", value, " to ", Type(to)));
    };
    if (to == DType::kFloat32) return by("sitofp", x);
    if (from == DType::kFloat32) {  // NaN is 0
      const std::string truth = Type(DType::kBool),
                        number = Set(absl::StrCat("fcmp ord ", Type(from), " ", x, ", ", x));
      return by("fptosi", Set(absl::StrCat("select ", truth, " ", number, ", ", Type(from), " ", x, ", ", Type(from),
                                           " ", Repeated("float", "0.0"))));
    }
    if (DTypeSize(to) < DTypeSize(from)) return by("trunc", x);
    return by(IsUnsigned(from) ? "zext" : "sext", x);
  }
  std::string Called(const char* name, const std::string& arguments) {
    const std::string suffix = lanes_ == 1 ? "f32" : absl::StrCat("v", lanes_, "f32");
    return Set(absl::StrCat("call ", Type(DType::kFloat32), " @", name, ".", suffix, "(", arguments, ")"));
  }
  // To the nearest integer, halves to the even one, as the tile function has it: the sum has no room for a fraction.
  std::string Rounded(const std::string& x) {
    const std::string type = Type(DType::kFloat32), large = Repeated("float", "8388608.0");
    if (rounds_) return Called("llvm.roundeven", absl::StrCat(type, " ", x));
    const auto two = [&](const std::string& a, const std::string& b) {
      return absl::StrCat(type, " ", a, ", ", type, " ", b);
    };
    const std::string signed_large = Called("llvm.copysign", two(large, x));
    const std::string sum = Set(absl::StrCat("fadd ", type, " ", x, ", ", signed_large));
    const std::string whole = Set(absl::StrCat("fsub ", type, " ", sum, ", ", signed_large));
    const std::string rounded = Called("llvm.copysign", two(whole, x));
    const std::string size = Called("llvm.fabs", absl::StrCat(type, " ", x));
    const std::string small = Set(absl::StrCat("fcmp olt ", type, " ", size, ", ", large));
    return Set(absl::StrCat("select ", Type(DType::kBool), " ", small, ", ", two(rounded, x)));
  }
  // a where it is the larger one (the smaller one), or NaN.
  std::string Extremum(bool largest, const std::string& type, const std::string& a, const std::string& b) {
    const std::string larger = Set(absl::StrCat("fcmp ", largest ? "ogt " : "olt ", type, " ", a, ", ", b));
    const std::string nan = Set(absl::StrCat("fcmp uno ", type, " ", a, ", ", a));
    const std::string truth = Type(DType::kBool);
    const std::string first = Set(absl::StrCat("or ", truth, " ", larger, ", ", nan));
    return Set(absl::StrCat("select ", truth, " ", first, ", ", type, " ", a, ", ", type, " ", b));
  }
  std::string Computed(const PointwiseInstruction& instruction) {
    const std::string type = Type(instruction.type), a = Operand(instruction.a);
    const std::string b = instruction.b >= 0 ? Operand(instruction.b) : "";
    if (instruction.op == kTileCopy) {
      return instruction.type == instruction.to ? a : Converted(instruction.type, instruction.to, a);
    }
    if (instruction.type == DType::kInt32 && instruction.op != kTileSelect) {
      return Set(absl::StrCat(WrappingOf(instruction.op), " ", type, " ", a, ", ", b));
    }
    if (const char* name = ArithmeticOf(instruction.op)) return Set(absl::StrCat(name, " ", type, " ", a, ", ", b));
    if (const char* name = LogicOf(instruction.op)) return Set(absl::StrCat(name, " ", type, " ", a, ", ", b));
    if (const char* name = ComparisonOf(instruction.op)) {
      return Set(absl::StrCat("fcmp ", name, " ", type, " ", a, ", ", b));
    }
    if (const char* name = FunctionOf(instruction.op)) return Called(name, absl::StrCat(type, " ", a));
    switch (instruction.op) {
      case kTileRound: return Rounded(a);
      case kTileNeg: return Set(absl::StrCat("fneg ", type, " ", a));
      case kTileNot: return Set(absl::StrCat("xor ", type, " ", a, ", ", Repeated("i1", "true")));
      case kTileMax:
      case kTileMin: return Extremum(instruction.op == kTileMax, type, a, b);
      case kTileSelect:
        return Set(absl::StrCat("select ", Type(DType::kBool), " ", a, ", ", type, " ", b, ", ", type, " ",
                                Operand(instruction.c)));
      default: return a;  // there are no others
    }
  }

  const PointwiseProgram& program_;
  const TileText& tile_;
  const std::vector<bool>& uniform_;
  const int lanes_;
  const bool rounds_;
  const int leaves_;
  std::map<int, std::string> names_;
  std::string text_;
  int next_ = 0;
};

}  // namespace

bool HasTileText(const PointwiseProgram& program, const PointwiseInstruction& instruction) {
  const DType type = instruction.type;
  if (!IsText(type) || !IsText(instruction.to)) return false;
  if (instruction.op == kTileCopy) return HasConversion(program, instruction);
  if (instruction.op == kTileSelect) return true;
  if (type == DType::kBool) return LogicOf(instruction.op) != nullptr || instruction.op == kTileNot;
  if (type == DType::kInt32) return WrappingOf(instruction.op) != nullptr;
  return type == DType::kFloat32 &&
         (ArithmeticOf(instruction.op) != nullptr || ComparisonOf(instruction.op) != nullptr ||
          FunctionOf(instruction.op) != nullptr || instruction.op == kTileNeg || instruction.op == kTileMax ||
          instruction.op == kTileMin || instruction.op == kTileRound);
}

TileText TileTextOf(const PointwiseProgram& program, int first, int last, const std::vector<bool>& uniform,
                    const std::vector<bool>& wanted, std::optional<TileJoin> join, int lanes) {
  const int operands = static_cast<int>(program.operands.size());
  const int leaves = program.num_values() - static_cast<int>(program.instructions.size());
  const int joined = leaves + last - 1;
  TileText tile;
  for (int i = first; i < last; ++i) {
    const PointwiseInstruction& instruction = program.instructions[i];
    for (int value : {instruction.a, instruction.b, instruction.c}) {
      const bool outside = value >= 0 && (value < operands || (value >= leaves && value < leaves + first));
      if (outside && std::find(tile.reads.begin(), tile.reads.end(), value) == tile.reads.end()) {
        tile.reads.push_back(value);
      }
    }
    if (wanted[leaves + i]) tile.writes.push_back(leaves + i);
  }
  std::string body;
  size_t number = 0;
  const auto address = [&](int value) {
    const char* type = StoredElementOf(program.TypeOf(value));
    absl::StrAppend(&body, "  %q", number, " = getelementptr i8*, i8** %addresses, i64 ", number, "\n  %r", number,
                    " = load i8*, i8** %q", number, "\n  %p", number, " = bitcast i8* %r", number, " to ", type, "*\n");
    return number++;
  };
  for (int value : tile.reads) address(value);
  for (int value : tile.writes) address(value);
  const size_t numbers = join ? address(joined) : 0;
  const bool rounds = lanes >= 8;  // with AVX
  LoopWriter together(program, tile, uniform, lanes, rounds), single(program, tile, uniform, 1, rounds);
  single.Begin(first, last);
  together.Begin(first, last, single);
  absl::StrAppend(&body, single.Take(), together.Take(), "  %whole = and i64 %count, ", -lanes, "\n");
  // The loop `label` over the positions begin, begin + step.. before `end`: entered from the block `before`, which is
  // being written, and left, or passed over, to the block `behind`, which begins after it.
  const auto loop = [&](const char* label, const char* before, const char* begin, const char* end, const char* behind,
                        int step, const std::string& round) {
    absl::StrAppend(&body, "  %", label, "_any = icmp slt i64 ", begin, ", ", end, "\n  br i1 %", label,
                    "_any, label %", label, ", label %", behind, "\n", label, ":\n  %", label, "_at = phi i64 [ ",
                    begin, ", %", before, " ], [ %", label, "_next, %", label, " ]\n", round, "  %", label,
                    "_next = add i64 %", label, "_at, ", step, "\n  %", label, "_more = icmp slt i64 %", label,
                    "_next, ", end, "\n  br i1 %", label, "_more, label %", label, ", label %", behind, "\n", behind,
                    ":\n");
  };
  // Joins a round's values to the numbers in memory; the numbers of position i are those from i - %fours on.
  const auto join_in_memory = [&](LoopWriter& writer, const std::string& position) {
    const std::string at = absl::StrCat(position, "_of_four");
    const std::string lies = writer.NumbersAt(numbers, at);
    writer.StoreNumbers(writer.Joined(*join, writer.LoadNumbers(lies), joined), lies);
    return absl::StrCat("  ", at, " = sub i64 ", position, ", %fours\n");
  };
  const char* begin = "0";
  const char* before = "entry";
  if (join) {
    // Four vectors of numbers in registers.
    const std::string type = absl::StrCat("<", lanes, " x float>");
    absl::StrAppend(&body, "  %fours = and i64 %count, ", -4 * lanes, "\n");
    std::string phis, after;
    std::vector<std::string> lies, taken;
    for (int k = 0; k < 4; ++k) lies.push_back(together.NumbersAt(numbers, absl::StrCat(k * lanes)));
    for (int k = 0; k < 4; ++k) taken.push_back(together.LoadNumbers(lies[k]));
    body += together.Take();
    for (int k = 0; k < 4; ++k) {
      const std::string position = k == 0 ? "%four_at" : absl::StrCat("%four_at", k);
      together.Round(first, last, position);
      const std::string next = together.Joined(*join, absl::StrCat("%n", k), joined);
      absl::StrAppend(&phis, "  %n", k, " = phi ", type, " [ ", taken[k], ", %entry ], [ ", next, ", %four ]\n");
      absl::StrAppend(&after, "  %m", k, " = phi ", type, " [ ", taken[k], ", %entry ], [ ", next, ", %four ]\n");
    }
    for (int k = 1; k < 4; ++k) absl::StrAppend(&phis, "  %four_at", k, " = add i64 %four_at, ", k * lanes, "\n");
    loop("four", "entry", "0", "%fours", "some", 4 * lanes, phis + together.Take());
    for (int k = 0; k < 4; ++k) together.StoreNumbers(absl::StrCat("%m", k), lies[k]);
    absl::StrAppend(&body, after, together.Take());
    begin = "%fours", before = "some";
  }
  together.Round(first, last, "%many_at");
  std::string prefix = join ? join_in_memory(together, "%many_at") : "";
  loop("many", before, begin, "%whole", "rest", lanes, prefix + together.Take());
  single.Round(first, last, "%one_at");
  prefix = join ? join_in_memory(single, "%one_at") : "";
  loop("one", "rest", "%whole", "%count", "end", 1, prefix + single.Take());
  body += "  ret void\n}\n";
  for (const char* name : {"llvm.sqrt", "llvm.fabs", "llvm.floor", "llvm.ceil", "llvm.roundeven"}) {
    absl::StrAppend(&body, "declare float @", name, ".f32(float)\n");
    absl::StrAppend(&body, "declare <", lanes, " x float> @", name, ".v", lanes, "f32(<", lanes, " x float>)\n");
  }
  absl::StrAppend(&body, "declare float @llvm.copysign.f32(float, float)\ndeclare <", lanes,
                  " x float> @llvm.copysign.v", lanes, "f32(<", lanes, " x float>, <", lanes, " x float>)\n");
  // Else vectors of 512 bits are computed by halves.
  absl::StrAppend(&body, "attributes #0 = { nounwind \"min-legal-vector-width\"=\"", lanes * 32,
                  "\" \"prefer-vector-width\"=\"", lanes * 32, "\" }\n");
  tile.name = absl::StrCat("tile_", TextHash::HexOf(body));
  tile.text = absl::StrCat("define void @", tile.name, "(i8** %addresses, i64 %count) #0 {\nentry:\n", body);
  return tile;
}

}  // namespace rewright::cpu
