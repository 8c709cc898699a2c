// Runs a pointwise program on tiles of consecutive positions.
#include "backends/cpu/codegen/tile_program.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "backends/cpu/codegen/tile_text.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/interpreter/arith.h"
#include "core/ir/function_values.h"
#include "core/tensor/dtype.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kLeastLine = 128;  // positions: shorter lines are cheaper to lay out anew than to end a tile for
constexpr int64_t kLongTile = 8192;  // of a tile all of whose values are in registers

// ---------------------------------------------------------------- operations on other types than f32

// An integer divided by 0 has no value: all bits are set, as in what the reference kernel writes there.
template <typename R, typename V>
R Stored(const V& value) {
  if constexpr (std::is_same_v<V, Partial<R>>) {
    return value.exists ? value.value : static_cast<R>(-1);
  } else {
    return static_cast<R>(value);
  }
}
template <Fn fn, typename T, typename R>
void Map(void* dst, const void* a, [[maybe_unused]] const void* b, const void*, long n) {
  for (long i = 0; i < n; ++i) {
    if constexpr (FnOf<fn>::kArity == 1) {
      static_cast<R*>(dst)[i] = Stored<R>(FnValue<fn>(static_cast<const T*>(a)[i]));
    } else {
      static_cast<R*>(dst)[i] = Stored<R>(FnValue<fn>(static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]));
    }
  }
}
template <typename T>
void MapSelect(void* dst, const void* c, const void* a, const void* b, long n) {
  for (long i = 0; i < n; ++i) {
    static_cast<T*>(dst)[i] =
        static_cast<const uint8_t*>(c)[i] != 0 ? static_cast<const T*>(a)[i] : static_cast<const T*>(b)[i];
  }
}
// Between numbers by value.
template <typename From, typename To>
void MapCast(void* dst, const void* from, const void*, const void*, long n) {
  const From* const a = static_cast<const From*>(from);
  To* const to = static_cast<To*>(dst);
  if constexpr (!std::is_integral_v<From> && std::is_integral_v<To>) {
    // Most tiles have only numbers that 32 bits hold, for which there are instructions. Magnitudes are in the order of
    // their bits, and the first bit of `beyond` is set where one is 2^31 or more, or no number.
    using Wide = std::conditional_t<std::is_same_v<From, double>, double, float>;
    using Bits = std::conditional_t<std::is_same_v<From, double>, uint64_t, uint32_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1), kLeast = std::bit_cast<Bits>(Wide(2147483648.0));
    Bits beyond = 0;
#pragma omp simd reduction(| : beyond)
    for (long i = 0; i < n; ++i) beyond |= kLeast - 1 - (std::bit_cast<Bits>(static_cast<Wide>(a[i])) & ~kSign);
    if ((beyond & kSign) != 0) {
      for (long i = 0; i < n; ++i) to[i] = interp::IntArith<To>::FromReal(static_cast<double>(a[i]));
      return;
    }
#pragma omp simd
    for (long i = 0; i < n; ++i) to[i] = static_cast<To>(static_cast<int32_t>(static_cast<Wide>(a[i])));
  } else {
#pragma omp simd
    for (long i = 0; i < n; ++i) to[i] = static_cast<To>(a[i]);
  }
}
template <typename From>
void MapToBool(void* dst, const void* a, const void*, const void*, long n) {
  for (long i = 0; i < n; ++i) static_cast<uint8_t*>(dst)[i] = static_cast<const From*>(a)[i] != From(0);
}

template <Fn fn, typename T>
TileFn MapOf() {
  if constexpr (!kFnIsDefined<fn, T>) {
    return nullptr;
  } else if constexpr (std::is_same_v<FnResult<fn, T>, bool>) {
    return Map<fn, T, uint8_t>;
  } else {
    return Map<fn, T, T>;
  }
}

template <typename T>
TileFn FunctionOf(TileOp op) {
  switch (op) {
#define REWRIGHT_CASE(Id) \
  case kTile##Id:         \
    return MapOf<Fn::k##Id, T>();
#define REWRIGHT_REAL(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_UNARY(Id, ...) REWRIGHT_CASE(Id)
#define REWRIGHT_BINARY(Id, ...) REWRIGHT_CASE(Id)
#include "core/ir/functions.def"
#undef REWRIGHT_CASE
    case kTileSelect: return MapSelect<T>;
    default: return nullptr;
  }
}

template <DType from, DType to>
void MapConvert(void* dst, const void* a, const void*, const void*, long n) {
  ConvertElements(from, a, to, dst, n);
}

TileFn CastFn(DType from, DType to) {
  return VisitDType(from, [&](auto a) {
    return VisitDType(to, [](auto b) -> TileFn {
      using From = typename decltype(a)::Type;
      using To = typename decltype(b)::Type;
      if constexpr (decltype(b)::kDType == DType::kBool) {
        return MapToBool<From>;
      } else if constexpr (!std::is_integral_v<From> && !std::is_integral_v<To>) {
        return MapConvert<decltype(a)::kDType, decltype(b)::kDType>;
      } else {
        return MapCast<From, To>;
      }
    });
  });
}

// The tile operation, null where there is none. Programs compute on no narrow type.
TileFn Function(const PointwiseInstruction& instruction) {
  if (instruction.op == kTileCopy) return CastFn(instruction.type, instruction.to);
  if (instruction.type == DType::kFloat32 && Simd().f32[instruction.op] != nullptr) return Simd().f32[instruction.op];
  return VisitDType(instruction.type, [&](auto t) -> TileFn {
    if constexpr (decltype(t)::kComputed != decltype(t)::kDType)
      return nullptr;
    else
      return FunctionOf<typename decltype(t)::Type>(instruction.op);
  });
}

// Copies the first element to the whole tile.
void Repeat(unsigned char* tile, size_t bytes) {
  const size_t all = static_cast<size_t>(kTile) * bytes;
  for (size_t have = bytes; have < all; have *= 2) std::memcpy(tile + have, tile, std::min(have, all - have));
}

void StoreConstant(unsigned char* tile, const PointwiseConstant& constant) {
  VisitDType(constant.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    T value;
    if constexpr (std::is_integral_v<T>) {
      value = decltype(t)::kDType == DType::kBool ? static_cast<T>(constant.integer != 0)
                                                  : static_cast<T>(constant.integer);
    } else {
      value = static_cast<T>(constant.real);
    }
    std::memcpy(tile, &value, sizeof value);
  });
}

// The axes in which positions are walked: those of the result in the order of its memory, with the channels cut into
// blocks where some layout is blocked.
struct Space {
  struct Axis {
    int axis = 0;  // of the result
    enum class Part : uint8_t { kWhole, kBlocks, kWithin } part = Part::kWhole;
    int64_t size = 1;
  };
  std::vector<Axis> axes;
  int64_t block = 0;
};

Space SpaceOf(const Layout& out, int64_t block) {
  std::vector<std::pair<int64_t, Space::Axis>> by_stride;
  for (int k = 0; k < out.rank(); ++k) {
    const size_t axis = k;
    if (block != 0 && k == 1) {
      const int64_t blocks = out.dims[axis] / block;
      const int64_t outer = out.block != 0 ? out.strides[axis] : out.strides[axis] * block;
      const int64_t inner = out.block != 0 ? 1 : out.strides[axis];
      by_stride.push_back({outer, {k, Space::Axis::Part::kBlocks, blocks}});
      by_stride.push_back({inner, {k, Space::Axis::Part::kWithin, block}});
    } else {
      by_stride.push_back({out.strides[axis], {k, Space::Axis::Part::kWhole, out.dims[axis]}});
    }
  }
  std::stable_sort(by_stride.begin(), by_stride.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Space space;
  space.block = block;
  for (const auto& [stride, axis] : by_stride) {
    if (axis.size != 1) space.axes.push_back(axis);
  }
  return space;
}

// Strides of an operand along the axes of the space; `axes` maps its axes to those of the result.
std::vector<int64_t> StridesIn(const Space& space, const Layout& layout, const std::vector<int>& axes) {
  std::vector<int64_t> strides;
  for (const Space::Axis& axis : space.axes) {
    int64_t stride = 0;
    for (size_t d = 0; d < axes.size(); ++d) {
      if (axes[d] != axis.axis || layout.dims[d] == 1) continue;
      const bool blocked = layout.block != 0 && d == 1;
      switch (axis.part) {
        case Space::Axis::Part::kWhole: stride = layout.strides[d]; break;
        case Space::Axis::Part::kBlocks: stride = blocked ? layout.strides[d] : layout.strides[d] * space.block; break;
        case Space::Axis::Part::kWithin: stride = blocked ? 1 : layout.strides[d]; break;
      }
    }
    strides.push_back(stride);
  }
  return strides;
}

}  // namespace

// Gives every value a place and every instruction its function.
absl::Status TileProgram::Prepare(const std::vector<int>& over, int64_t least_together) {
  const int instructions = static_cast<int>(program_.instructions.size());
  const int values = program_.num_values(), leaves = values - instructions;
  places_.resize(values);
  std::vector<int> last_use(static_cast<size_t>(values), -1);
  for (int i = 0; i < instructions; ++i) {
    const PointwiseInstruction& instruction = program_.instructions[i];
    for (int operand : {instruction.a, instruction.b, instruction.c}) {
      if (operand >= 0) last_use[operand] = i;
    }
    functions_.push_back(Function(instruction));
    if (functions_.back() == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("no tile operation ", instruction.op, " on ", DTypeName(instruction.type)));
    }
  }
  for (int result : program_.results) last_use[result] = instructions;
  for (int v = 0; v < leaves; ++v) {
    const bool memory = v < static_cast<int>(readers_.size()) && along_[v] == Along::kSteps;
    places_[v] = memory ? Place{Place::Kind::kMemory, -1} : Place{Place::Kind::kTile, tiles_++};
  }
  std::vector<int> free;
  for (int i = 0; i < instructions; ++i) {
    const int value = leaves + i;
    const auto result = std::find(program_.results.begin(), program_.results.end(), value);
    const auto number = result - program_.results.begin();
    // Over an operand it is written at once where that is not read any more.
    if (result != program_.results.end() && !join_ && (over[number] < 0 || last_use[over[number]] <= i)) {
      places_[value] = {Place::Kind::kResult, static_cast<int>(number)};
    } else if (free.empty()) {
      places_[value].number = tiles_++;
    } else {
      places_[value].number = free.back();
      free.pop_back();
    }
    const PointwiseInstruction& instruction = program_.instructions[i];
    std::array<int, 3> operands = {instruction.a, instruction.b, instruction.c};
    std::sort(operands.begin(), operands.end());
    for (size_t k = 0; k < operands.size(); ++k) {
      const int operand = operands[k];
      if (operand < leaves || (k > 0 && operands[k - 1] == operand)) continue;
      const Place& at = places_[operand];
      if (last_use[operand] == i && at.kind == Place::Kind::kTile) free.push_back(at.number);
    }
  }
  for (size_t r = 0; !join_ && r < program_.results.size(); ++r) {
    const Place& place = places_[program_.results[r]];
    if (place.kind != Place::Kind::kResult || place.number != static_cast<int>(r)) copied_.push_back(r);
  }
  if (tiles_ > kMaxProgramTiles) return absl::InternalError(absl::StrCat("a pointwise group needs ", tiles_, " tiles"));
  CompileLoops(last_use, least_together);
  return absl::OkStatus();
}

void TileProgram::CompileLoops(const std::vector<int>& last_use, int64_t least_together) {
  const int instructions = static_cast<int>(program_.instructions.size());
  const int leaves = program_.num_values() - instructions;
  std::vector<bool> uniform(static_cast<size_t>(program_.num_values()), false);
  for (size_t v = 0; v < readers_.size(); ++v) uniform[v] = along_[v] == Along::kRepeats;
  for (int v = static_cast<int>(readers_.size()); v < leaves; ++v) uniform[v] = true;
  for (int i = 0; i < instructions; ++i) {
    const PointwiseInstruction& instruction = program_.instructions[i];
    const std::array<int, 3> operands = {instruction.a, instruction.b, instruction.c};
    // Tile functions of others may differ in the last bits from one lane to the next.
    uniform[leaves + i] = HasTileText(program_, instruction) &&
                          std::all_of(operands.begin(), operands.end(), [&](int v) { return v < 0 || uniform[v]; });
  }
  for (int first = 0; first < instructions;) {
    int last = first;
    while (last < instructions && HasTileText(program_, program_.instructions[last])) ++last;
    Step step{first, std::max(last, first + 1)};
    const bool joins = join_ && last == instructions && program_.results[0] == program_.num_values() - 1;
    if (last - first + (joins ? 1 : 0) >= std::max<int64_t>(least_together, 2)) {
      std::vector<bool> wanted(static_cast<size_t>(program_.num_values()), false);
      for (int i = first; i < last; ++i) wanted[leaves + i] = last_use[leaves + i] >= last;
      if (joins) wanted.back() = false;
      TileText tile = TileTextOf(program_, first, last, uniform, wanted, joins ? join_ : std::nullopt, Simd().lanes);
      step.loop = CompileLoop(tile.name, tile.text);
      joins_in_loop_ = joins && step.loop != nullptr;
      step.values = std::move(tile.reads);
      step.values.insert(step.values.end(), tile.writes.begin(), tile.writes.end());
    }
    steps_.push_back(std::move(step));
    first = steps_.back().last;
  }
  // Loops have constants in their text.
  std::vector<bool> read(static_cast<size_t>(program_.num_values()), false);
  for (const Step& step : steps_) {
    for (int i = step.first; step.loop == nullptr && i < step.last; ++i) {
      const PointwiseInstruction& instruction = program_.instructions[i];
      for (int operand : {instruction.a, instruction.b, instruction.c}) {
        if (operand >= 0) read[operand] = true;
      }
    }
  }
  for (int result : program_.results) read[result] = true;
  for (size_t c = 0; c < program_.constants.size(); ++c) {
    if (read[readers_.size() + c]) stored_constants_.push_back(c);
  }
  // They read what repeats in its own memory.
  for (size_t v = 0; v < readers_.size(); ++v) {
    const bool repeats = along_[v] == Along::kRepeats && read[v];
    if (repeats && readers_[v].scalar()) {
      stored_operands_.push_back(v);
    } else if (repeats || along_[v] == Along::kOther) {
      filled_.push_back(static_cast<int>(v));
    }
  }
  // Where no value has to lie in a tile, it may be as long as a call of the loop is not worth counting.
  is_one_loop_ = steps_.size() == 1 && steps_[0].loop != nullptr && filled_.empty() && copied_.empty() &&
                 (!join_ || joins_in_loop_);
  if (is_one_loop_) tile_ = kLongTile;
}

// The innermost axes along which every operand that is read in steps of 1 or 0 goes on so.
void TileProgram::FindLines(const std::vector<int64_t>& sizes, const std::vector<std::vector<int64_t>>& strides) {
  const auto regular = [](int64_t stride) { return stride == 0 || stride == 1; };
  int64_t line = 1;
  bool longer = true;
  for (size_t k = sizes.size(); k-- > 0;) {
    for (const std::vector<int64_t>& of : strides) {
      if (regular(of.back())) longer = longer && of[k] == of.back() * line;
    }
    if (longer) line *= sizes[k];
  }
  for (size_t v = 0; v < strides.size(); ++v) {
    const bool in_line = sizes.empty() || (line >= kLeastLine && regular(strides[v].back()));
    along_.push_back(readers_[v].contiguous() ? Along::kSteps
                     : readers_[v].scalar()   ? Along::kRepeats
                     : !in_line               ? Along::kOther
                     : strides[v].back() == 0 ? Along::kRepeats
                                              : Along::kSteps);
    if (in_line && !readers_[v].contiguous() && !readers_[v].scalar()) line_ = line;
  }
}

int64_t TileProgram::TileEnd(int64_t start, int64_t end) const {
  if (line_ == 0) return std::min(start + tile_, end);
  // Pieces of equal length, in which elements are joined as in one.
  constexpr int64_t kUnit = 64;
  const int64_t pieces = (line_ + tile_ - 1) / tile_;
  const int64_t piece = pieces == 1 ? line_ : ((line_ + pieces - 1) / pieces + kUnit - 1) / kUnit * kUnit;
  const int64_t at = start % line_;
  return std::min(start + std::min(piece - at % piece, line_ - at), end);
}

int TileProgram::num_loops() const {
  return static_cast<int>(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return step.loop != nullptr; }));
}

void TileProgram::Begin(void* const* operands, TileSpace& tiles) const {
  for (size_t v : stored_operands_) {
    readers_[v].Fill(tiles[places_[v].number].bytes, operands[v], 0, 1);
    Repeat(tiles[places_[v].number].bytes, DTypeSize(program_.operands[v].dtype));
  }
  for (size_t c : stored_constants_) {
    unsigned char* tile = tiles[places_[readers_.size() + c].number].bytes;
    const PointwiseConstant& constant = program_.constants[c];
    StoreConstant(tile, constant);
    Repeat(tile, DTypeSize(constant.dtype));
  }
}

unsigned char* TileProgram::ElementAt(void* const* operands, int value, int64_t start) const {
  const int64_t offset = readers_[value].contiguous() ? start : readers_[value].OffsetAt(start);
  return static_cast<unsigned char*>(operands[value]) +
         offset * static_cast<int64_t>(DTypeSize(program_.operands[value].dtype));
}

void TileProgram::Run(void* const* operands, TileSpace& tiles, int64_t start, int64_t count,
                      void* const* results) const {
  for (int v : filled_) readers_[v].Fill(tiles[places_[v].number].bytes, operands[v], start, count);
  const auto at = [&](int value) -> void* {
    if (value < 0) return nullptr;
    const Place& place = places_[value];
    switch (place.kind) {
      case Place::Kind::kTile: return tiles[place.number].bytes;
      case Place::Kind::kMemory: return ElementAt(operands, value, start);
      case Place::Kind::kResult: return results[place.number];
    }
    return nullptr;
  };
  const int leaves = program_.num_values() - static_cast<int>(program_.instructions.size());
  for (const Step& step : steps_) {
    if (step.loop != nullptr) {
      std::array<void*, kMaxProgramLeaves + kMaxProgramTiles + 2> addresses;
      for (size_t k = 0; k < step.values.size(); ++k) {
        const int value = step.values[k];
        const bool repeats = value < static_cast<int>(readers_.size()) && along_[value] == Along::kRepeats;
        addresses[k] = repeats ? ElementAt(operands, value, start) : at(value);
      }
      if (joins_in_loop_ && step.last == static_cast<int>(program_.instructions.size())) {
        addresses[step.values.size()] = results[0];
      }
      step.loop(addresses.data(), count);
      continue;
    }
    for (int i = step.first; i < step.last; ++i) {
      const PointwiseInstruction& instruction = program_.instructions[i];
      functions_[i](at(leaves + i), at(instruction.a), at(instruction.b), at(instruction.c), count);
    }
  }
  if (join_ && !joins_in_loop_) {
    Simd().join_row[*join_](static_cast<float*>(results[0]), static_cast<const float*>(at(program_.results[0])), count);
  }
  for (size_t r : copied_) {
    const int value = program_.results[r];
    std::memmove(results[r], at(value), static_cast<size_t>(count) * DTypeSize(program_.TypeOf(value)));
  }
}

bool TileProgram::StartLines(void* const* operands, void* const* results, int64_t line, int64_t first,
                             Lines& lines) const {
  if (!is_one_loop_ || line > tile_ || (line_ != 0 && line_ % line != 0)) return false;
  lines.loop = steps_[0].loop;
  lines.line = line;
  lines.count = 0;
  const auto add = [&](void* base, int64_t step) {
    lines.addresses[lines.count] = static_cast<unsigned char*>(base) + first * step;
    lines.steps[lines.count++] = step;
  };
  for (const int value : steps_[0].values) {
    const auto bytes = static_cast<int64_t>(DTypeSize(program_.TypeOf(value)));
    if (value < static_cast<int>(readers_.size())) {
      const std::optional<int64_t> step = readers_[value].StepOf(line);
      if (!step) return false;
      add(operands[value], *step * bytes);
    } else if (const Place& place = places_[value]; place.kind == Place::Kind::kResult) {
      add(results[place.number], line * bytes);
    } else {
      return false;
    }
  }
  if (join_) add(results[0], 0);
  return true;
}

absl::StatusOr<TileProgram> TileProgram::Make(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                              const Layout& out, const std::vector<int>& over,
                                              std::optional<TileJoin> join, int64_t least_compiled) {
  CHECK(over.size() == program.results.size());
  CHECK(!join || (program.results.size() == 1 && program.TypeOf(program.results[0]) == DType::kFloat32));
  int64_t block = out.block;
  for (const Layout& layout : operands) {
    if (layout.block == 0) continue;
    CHECK(!layout.IsPadded() && (block == 0 || block == layout.block)) << layout.ToString();
    block = layout.block;
  }
  CHECK(out.IsDense()) << out.ToString();
  const Space space = SpaceOf(out, block);
  std::vector<int64_t> sizes;
  for (const Space::Axis& axis : space.axes) sizes.push_back(axis.size);
  TileProgram made;
  made.program_ = program;
  made.join_ = join;
  std::vector<std::vector<int64_t>> strides;
  for (size_t i = 0; i < operands.size(); ++i) {
    strides.push_back(StridesIn(space, operands[i], program.operands[i].axes));
    made.readers_.emplace_back(sizes, strides.back(), DTypeSize(program.operands[i].dtype));
  }
  made.FindLines(sizes, strides);
  RETURN_IF_ERROR(made.Prepare(over, least_compiled / std::max<int64_t>(out.num_elements(), 1)));
  return made;
}

}  // namespace rewright::cpu
