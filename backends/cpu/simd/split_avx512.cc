#define REWRIGHT_SIMD_NAMESPACE simd_avx512
#define REWRIGHT_LANES 16
#include "backends/cpu/simd/split.h"
#include "backends/cpu/simd/vectors.inc"

namespace rewright::cpu::simd_avx512 {
namespace {

typedef unsigned Words __attribute__((vector_size(64)));
typedef unsigned short Halves __attribute__((vector_size(64)));

constexpr long kDepth = SplitTable::kDepth, kRows = SplitTable::kRows, kColumns = SplitTable::kColumns;
constexpr long kTile = 16 * kDepth;  // bf16 of a tile
constexpr long kLeftPart = kRows * kDepth, kRightPart = 2 * kTile;

// In the upper halves of words; the lower ones of `high` and `middle` are 0.
struct Parts {
  Words high, middle, low;
};

REWRIGHT_INLINE Parts PartsOf(Vec x, Truth& most) {
  const Words bits = (Words)x;
  const Truth magnitude = (Truth)(bits & 0x7fffffffu);
  most = magnitude > most ? magnitude : most;
  Parts parts;
  parts.high = (bits + 0x8000u) & 0xffff0000u;
  const Vec rest = x - (Vec)parts.high;
  parts.middle = ((Words)rest + 0x8000u) & 0xffff0000u;
  parts.low = (Words)(rest - (Vec)parts.middle);
  return parts;
}

// The upper halves of two vectors, one behind the other.
REWRIGHT_INLINE Halves UpperHalves(Words a, Words b) {
  Halves odd;
  for (int i = 0; i < 32; ++i) odd[i] = static_cast<unsigned short>(2 * i + 1);
  return __builtin_shuffle((Halves)a, (Halves)b, odd);
}
REWRIGHT_INLINE void StoreHalves(unsigned short* to, Halves halves) {
  typedef unsigned short Unaligned __attribute__((vector_size(64), aligned(2), may_alias));
  *reinterpret_cast<Unaligned*>(to) = halves;
}

void SplitRows(const float* x, long row, long step, float factor, long rows, long depth, unsigned short* parts,
               int* most) {
  for (long i = 0; i < rows; ++i) {
    Truth greatest = *reinterpret_cast<const Truth*>(most + 16 * i);
    for (long first = 0; first < depth; first += kDepth) {
      const float* from = x + i * row + first * step;
      float line[kDepth] = {};
      if (step != 1 || depth - first < kDepth) {
        for (long k = 0; k < kDepth && k < depth - first; ++k) line[k] = from[k * step];
        from = line;
      }
      const Parts a = PartsOf(Load(from) * factor, greatest), b = PartsOf(Load(from + 16) * factor, greatest);
      unsigned short* const to = parts + SplitTable::kParts * first * kRows + i * kDepth;
      StoreHalves(to, UpperHalves(a.high, b.high));
      StoreHalves(to + kLeftPart, UpperHalves(a.middle, b.middle));
      StoreHalves(to + 2 * kLeftPart, UpperHalves(a.low, b.low));
    }
    *reinterpret_cast<Truth*>(most + 16 * i) = greatest;
  }
}

int Greatest(Truth numbers) {
  ForEach<4>([&](auto bit) __attribute__((always_inline)) {
    Truth there;
    for (int i = 0; i < kLanes; ++i) there[i] = i ^ 1 << bit;
    const Truth others = __builtin_shuffle(numbers, there);
    numbers = numbers > others ? numbers : others;
  });
  return numbers[0];
}

bool AreWithin(const int* most, long rows, float least, float largest) {
  bool within = true;
  for (long i = 0; i < rows; ++i) {
    const int greatest = Greatest(*reinterpret_cast<const Truth*>(most + 16 * i));
    within &=
        greatest == 0 || (greatest >= __builtin_bit_cast(int, least) && greatest <= __builtin_bit_cast(int, largest));
  }
  return within;
}

// Exchanges rows and columns.
REWRIGHT_INLINE void Turn(Vec (&v)[16]) {
  ForEach<4>([&](auto bit) __attribute__((always_inline)) {
    constexpr int kBit = 1 << bit;
    Truth upper, lower;
    for (int j = 0; j < 16; ++j) {
      upper[j] = j & kBit ? 16 + (j ^ kBit) : j;
      lower[j] = j & kBit ? 16 + j : j ^ kBit;
    }
    for (int i = 0; i < 16; ++i) {
      if (i & kBit) continue;
      const Vec a = v[i], b = v[i | kBit];
      v[i] = __builtin_shuffle(a, b, upper);
      v[i | kBit] = __builtin_shuffle(a, b, lower);
    }
  });
}

// One tile of each part from 32 x 16 numbers: row k at from + k * step.
REWRIGHT_INLINE void PackTile(const float* from, long step, unsigned short* to, Truth& most) {
  for (long pair = 0; pair < 16; ++pair) {
    const Parts a = PartsOf(Load(from + 2 * pair * step), most), b = PartsOf(Load(from + (2 * pair + 1) * step), most);
    StoreHalves(to + pair * kDepth, (Halves)(a.high >> 16 | b.high));
    StoreHalves(to + kRightPart + pair * kDepth, (Halves)(a.middle >> 16 | b.middle));
    StoreHalves(to + 2 * kRightPart + pair * kDepth, (Halves)(a.low >> 16 | b.low));
  }
}

int Pack(const float* b, long depth, long columns, long step, long column, unsigned short* panels) {
  Truth most = {};
  const long steps = (depth + kDepth - 1) / kDepth;
  for (long first = 0; first < (columns + 15) / 16 * 16; first += 16) {
    unsigned short* const panel = panels + first / kColumns * steps * SplitTable::kParts * kRightPart;
    for (long k = 0; k < steps; ++k) {
      const float* from = b + k * kDepth * step + first * column;
      const long deep = depth - k * kDepth, wide = columns - first;
      alignas(64) float lines[kDepth * 16];
      long line = step;
      if (deep < kDepth || wide < 16 || (step != 1 && column != 1)) {
        for (float& number : lines) number = 0;
        for (long i = 0; i < kDepth && i < deep; ++i) {
          for (long j = 0; j < 16 && j < wide; ++j) lines[i * 16 + j] = from[i * step + j * column];
        }
        from = lines, line = 16;
      } else if (column != 1) {
        for (long half = 0; half < 2; ++half) {
          Vec v[16];
          for (int j = 0; j < 16; ++j) v[j] = Load(from + 16 * half + j * column);
          Turn(v);
          for (int i = 0; i < 16; ++i) Store(lines + (16 * half + i) * 16, v[i]);
        }
        from = lines, line = 16;
      }
      PackTile(from, line, panel + k * SplitTable::kParts * kRightPart + first % kColumns / 16 * kTile, most);
    }
  }
  return Greatest(most);
}

// Sets up all tiles, each with 16 rows of 64 bytes.
void Begin() {
  struct {
    unsigned char palette = 1, start = 0, reserved[14] = {};
    unsigned short bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const configuration;
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}
void End() { asm volatile("tilerelease"); }

#define REWRIGHT_TILE_LOAD(tile, from, bytes) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(static_cast<long>(bytes)) : "memory")
#define REWRIGHT_TILE_STORE(tile, to, bytes) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(static_cast<long>(bytes)) : "memory")
#define REWRIGHT_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile : :)
#define REWRIGHT_TILE_DOT(c, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)

// Tiles 0 to 3 are of c, 4 and 5 of a, 6 and 7 of b.
template <int kRowTiles, int kColumnTiles>
void TileBlock(const unsigned short* a, const unsigned short* b, long steps, float* c, long c_row, bool accumulate,
               const unsigned short* ahead, long lines) {
  constexpr bool kDown = kRowTiles == 2, kRight = kColumnTiles == 2;
  const long bytes = c_row * 4;
  float* const below = c + 16 * c_row;
  if (accumulate) {
    REWRIGHT_TILE_LOAD(0, c, bytes);
    if constexpr (kRight) REWRIGHT_TILE_LOAD(1, c + 16, bytes);
    if constexpr (kDown) REWRIGHT_TILE_LOAD(2, below, bytes);
    if constexpr (kDown && kRight) REWRIGHT_TILE_LOAD(3, below + 16, bytes);
  } else {
    REWRIGHT_TILE_ZERO(0);
    REWRIGHT_TILE_ZERO(1);
    REWRIGHT_TILE_ZERO(2);
    REWRIGHT_TILE_ZERO(3);
  }
  const auto left = [](const unsigned short* part) __attribute__((always_inline)) {
    REWRIGHT_TILE_LOAD(4, part, 64);
    if constexpr (kDown) REWRIGHT_TILE_LOAD(5, part + kTile, 64);
  };
  const auto right = [](const unsigned short* part) __attribute__((always_inline)) {
    REWRIGHT_TILE_LOAD(6, part, 64);
    if constexpr (kRight) REWRIGHT_TILE_LOAD(7, part + kTile, 64);
  };
  const auto multiply = []() __attribute__((always_inline)) {
    REWRIGHT_TILE_DOT(0, 4, 6);
    if constexpr (kRight) REWRIGHT_TILE_DOT(1, 4, 7);
    if constexpr (kDown) REWRIGHT_TILE_DOT(2, 5, 6);
    if constexpr (kDown && kRight) REWRIGHT_TILE_DOT(3, 5, 7);
  };
  for (long k = 0; k < steps; ++k, a += SplitTable::kParts * kLeftPart, b += SplitTable::kParts * kRightPart) {
    for (long line = 0; line < lines; ++line, ahead += 32) __builtin_prefetch(ahead, 0, 2);
    // The smaller products first.
    left(a + 2 * kLeftPart);
    right(b);
    multiply();
    left(a + kLeftPart);
    multiply();
    right(b + kRightPart);
    multiply();
    left(a);
    multiply();
    right(b + 2 * kRightPart);
    multiply();
    right(b);
    multiply();
  }
  REWRIGHT_TILE_STORE(0, c, bytes);
  if constexpr (kRight) REWRIGHT_TILE_STORE(1, c + 16, bytes);
  if constexpr (kDown) REWRIGHT_TILE_STORE(2, below, bytes);
  if constexpr (kDown && kRight) REWRIGHT_TILE_STORE(3, below + 16, bytes);
}

void Block(const unsigned short* a, long rows, const unsigned short* panel, long steps, float* c, long c_row,
           long columns, bool accumulate, const unsigned short* ahead, long lines) {
  const auto block = rows > 16      ? columns > 16 ? TileBlock<2, 2> : TileBlock<2, 1>
                          : columns > 16 ? TileBlock<1, 2>
                                    : TileBlock<1, 1>;
  block(a, panel, steps, c, c_row, accumulate, ahead, lines);
}

// ---------------------------------------------------------------- convolutions

// kDepth numbers of a point; `each`: tiny is judged of each of them.
template <bool each>
REWRIGHT_INLINE void SplitPoint(Vec low, Vec high, unsigned short* to, long part, Truth& most, bool& has_tiny) {
  Truth of_low = {}, of_high = {};
  const Parts a = PartsOf(low, of_low), b = PartsOf(high, of_high);
  StoreHalves(to, UpperHalves(a.high, b.high));
  StoreHalves(to + part, UpperHalves(a.middle, b.middle));
  StoreHalves(to + 2 * part, UpperHalves(a.low, b.low));
  const Truth greatest = of_low > of_high ? of_low : of_high;
  most = greatest > most ? greatest : most;
  const Truth least = Truth{} + __builtin_bit_cast(int, SplitTable::kLeastLeft);
  constexpr int kLess = 1, kAtLeast = 5;
  constexpr unsigned short kAll = 0xffff;
  if constexpr (each) {
    // Unsigned numbers are compared, so that 0 is none of them.
    has_tiny |= (__builtin_ia32_ucmpd512_mask(of_low - 1, least - 1, kLess, kAll) |
                 __builtin_ia32_ucmpd512_mask(of_high - 1, least - 1, kLess, kAll)) != 0;
  } else if (__builtin_ia32_cmpd512_mask(greatest, least, kAtLeast, kAll) == 0) [[unlikely]] {
    has_tiny |= __builtin_ia32_cmpd512_mask(greatest, Truth{} + 1, kAtLeast, kAll) != 0;
  }
}

void SplitPoints(const float* low, const float* high, long step, long count, unsigned short* parts, long part,
                 SplitRange* range) {
  Truth most = *reinterpret_cast<const Truth*>(range->most);
  bool has_tiny = range->has_tiny;
  for (long i = 0; i < count; ++i) {
    SplitPoint<false>(Load(low + i * step), high == nullptr ? Vec{} : Load(high + i * step), parts + i * kDepth, part,
                      most, has_tiny);
  }
  *reinterpret_cast<Truth*>(range->most) = most;
  range->has_tiny = has_tiny;
}

void SplitLine(const float* x, long n, unsigned short* parts, long part, SplitRange* range) {
  Truth most = *reinterpret_cast<const Truth*>(range->most);
  bool has_tiny = range->has_tiny;
  for (long i = 0; i < n; i += kDepth) {
    SplitPoint<true>(Load(x + i), Load(x + i + 16), parts + i, part, most, has_tiny);
  }
  *reinterpret_cast<Truth*>(range->most) = most;
  range->has_tiny = has_tiny;
}

// Finishes sums row by row, some while tiles are multiplied.
class Finisher {
 public:
  explicit Finisher(const SplitSums& sums)
      : sums_(sums), left_(sums.epilogue, sums.channel), right_(sums.epilogue, sums.channel + 16) {}

  REWRIGHT_INLINE void Rows(long count) {
    for (const long end = next_ + count < sums_.rows ? next_ + count : sums_.rows; next_ < end; ++next_) {
      const long point = sums_.points[next_];
      if (point < 0) continue;
      const float* const from = sums_.sums + next_ * kColumns;
      const float* const residual = sums_.epilogue.residual + point * 16;
      float* const to = sums_.image + point * 16;
      Store(to, left_(Load(from), residual));
      if (sums_.blocks > 1) Store(to + sums_.plane, right_(Load(from + 16), residual + sums_.plane));
    }
  }

 private:
  const SplitSums sums_;
  Finish left_, right_;
  long next_ = 0;
};

void FinishSums(const SplitSums& sums) { Finisher(sums).Rows(sums.rows); }

template <bool kDown, bool kRight>
void ConvBlock(const SplitWindows& windows, const unsigned short* panel, float* sums, const SplitSums& before,
               const unsigned short* ahead, long lines) {
  constexpr long kAtATime = 4;
  Finisher finisher(before);
  const long bytes = 2 * windows.row, part = windows.part, below = 16 * windows.row;
  const auto left = [&](const unsigned short* at) __attribute__((always_inline)) {
    REWRIGHT_TILE_LOAD(4, at, bytes);
    if constexpr (kDown) REWRIGHT_TILE_LOAD(5, at + below, bytes);
  };
  const auto right = [](const unsigned short* at) __attribute__((always_inline)) {
    REWRIGHT_TILE_LOAD(6, at, 64);
    if constexpr (kRight) REWRIGHT_TILE_LOAD(7, at + kTile, 64);
  };
  const auto multiply = [&]() __attribute__((always_inline)) {
    REWRIGHT_TILE_DOT(0, 4, 6);
    if constexpr (kRight) REWRIGHT_TILE_DOT(1, 4, 7);
    if constexpr (kDown) REWRIGHT_TILE_DOT(2, 5, 6);
    if constexpr (kDown && kRight) REWRIGHT_TILE_DOT(3, 5, 7);
    finisher.Rows(kAtATime);
  };
  REWRIGHT_TILE_ZERO(0);
  REWRIGHT_TILE_ZERO(1);
  REWRIGHT_TILE_ZERO(2);
  REWRIGHT_TILE_ZERO(3);
  for (long k = 0; k < windows.steps; ++k, panel += SplitTable::kParts * kRightPart) {
    for (long line = 0; line < lines; ++line, ahead += 32) __builtin_prefetch(ahead, 0, 2);
    const unsigned short* const at = windows.first + windows.offsets[k];
    // The smaller products first.
    left(at + 2 * part);
    right(panel);
    multiply();
    left(at + part);
    multiply();
    right(panel + kRightPart);
    multiply();
    left(at);
    multiply();
    right(panel + 2 * kRightPart);
    multiply();
    right(panel);
    multiply();
  }
  finisher.Rows(kRows);
  constexpr long kRowBytes = kColumns * sizeof(float);
  REWRIGHT_TILE_STORE(0, sums, kRowBytes);
  if constexpr (kRight) REWRIGHT_TILE_STORE(1, sums + 16, kRowBytes);
  if constexpr (kDown) REWRIGHT_TILE_STORE(2, sums + 16 * kColumns, kRowBytes);
  if constexpr (kDown && kRight) REWRIGHT_TILE_STORE(3, sums + 16 * kColumns + 16, kRowBytes);
}

void AnyConvBlock(const SplitWindows& windows, const unsigned short* panel, bool down, bool right, float* sums,
                  const SplitSums& before, const unsigned short* ahead, long lines) {
  const auto block = down    ? right ? ConvBlock<true, true> : ConvBlock<true, false>
                        : right ? ConvBlock<false, true>
                             : ConvBlock<false, false>;
  block(windows, panel, sums, before, ahead, lines);
}

}  // namespace

const SplitTable kSplitTable = {Begin, End, SplitRows, AreWithin, Pack, Block};
const SplitConvTable kSplitConvTable = {SplitPoints, SplitLine, AnyConvBlock, FinishSums};

}  // namespace rewright::cpu::simd_avx512
