// Loops that are compiled while the program runs compute the bits that tiles compute, but for those of NaN.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/codegen/jit.h"
#include "backends/cpu/codegen/tile_program.h"
#include "backends/cpu/codegen/tile_text.h"
#include "gmock/gmock.h"
#include "tests/counts.h"

namespace rewright::cpu {
namespace {

using Random = std::minstd_rand;

bool HasCompiler() {
  std::string error;
  return CompileLoop("nothing", "define void @nothing(i8** %a, i64 %n) {\n ret void\n}\n", &error) != nullptr;
}

// Numbers of all kinds: ordinary ones, zeros of both signs, subnormal and infinite ones, NaN.
float AnyNumber(Random& random) {
  const float numbers[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, INFINITY, -INFINITY, NAN};
  if (random() % 8 == 0) return numbers[random() % 8];
  return std::uniform_real_distribution<float>(-2, 2)(random);
}

// Arithmetic, comparisons and choices, now and then with a function that is none of a loop's.
PointwiseProgram RandomProgram(Random& random, int size) {
  PointwiseProgram program;
  const int operands = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < operands; ++i) program.operands.push_back({Value{}, {}, DType::kFloat32});
  program.constants = {{DType::kFloat32, 0.3, 0}, {DType::kFloat32, -0.0, 0}};
  std::vector<int> reals, truths;
  for (int i = 0; i < operands + 2; ++i) reals.push_back(i);
  const auto pick = [&](const std::vector<int>& values) { return values[random() % values.size()]; };
  const TileOp binary[] = {kTileAdd, kTileSub, kTileMul, kTileDiv, kTileMax, kTileMin};
  const TileOp unary[] = {kTileNeg, kTileAbs, kTileSqrt, kTileFloor, kTileCeil, kTileCopy};
  const TileOp compare[] = {kTileLess, kTileLessEqual, kTileEqual};
  for (int i = 0; i < size; ++i) {
    const int value = program.num_values();
    PointwiseInstruction next;
    next.a = pick(reals);
    switch (random() % 8) {
      case 0:
      case 1:
      case 2: next.op = binary[random() % 6], next.b = pick(reals); break;
      case 3: next.op = unary[random() % 6]; break;
      case 4: next.op = compare[random() % 3], next.b = pick(reals), next.to = DType::kBool; break;
      case 5:
        if (truths.empty()) {
          next.op = kTileAbs;
        } else {
          next.op = kTileSelect, next.c = pick(reals), next.b = next.a, next.a = pick(truths);
        }
        break;
      case 6:
        if (truths.empty() || random() % 2 == 0) {
          next.op = random() % 4 == 0 ? kTileExp : kTileNeg;
        } else {
          next.op = random() % 2 == 0 ? kTileAnd : kTileOr, next.type = next.to = DType::kBool;
          next.a = pick(truths), next.b = pick(truths);
        }
        break;
      default:
        if (truths.empty()) {
          next.op = kTileMul, next.b = next.a;
        } else {
          next.op = kTileNot, next.type = next.to = DType::kBool, next.a = pick(truths);
        }
    }
    program.instructions.push_back(next);
    (next.to == DType::kBool ? truths : reals).push_back(value);
  }
  // The last one, and some other.
  program.results.push_back(program.num_values() - 1);
  const int other = program.num_values() - 1 - static_cast<int>(random() % static_cast<unsigned>(size));
  if (other != program.results[0]) program.results.push_back(other);
  return program;
}

// Elements of an operand: numbers of all kinds, or any bits.
std::vector<unsigned char> AnyElements(DType dtype, int64_t count, Random& random) {
  std::vector<unsigned char> bytes(static_cast<size_t>(count) * DTypeSize(dtype));
  for (size_t i = 0; i < bytes.size(); i += DTypeSize(dtype)) {
    const float number = AnyNumber(random);
    const auto bits = static_cast<uint32_t>(random());
    std::memcpy(&bytes[i], dtype == DType::kFloat32 ? static_cast<const void*>(&number) : &bits, DTypeSize(dtype));
  }
  return bytes;
}

// Runs the program on operands in random layouts, with loops and with tiles alone; the number of loops.
int ExpectLoopsAgree(PointwiseProgram program, Random& random, std::optional<TileJoin> join = std::nullopt) {
  int loops = 0;
  // Lines of a tile, of several, and of more than one when all values are in registers.
  const int64_t rows = 1 + static_cast<int64_t>(random() % 5);
  const int64_t columns = 1 + static_cast<int64_t>(random() % (random() % 16 == 0 ? 20000 : 700));
  const Layout out = Layout::RowMajor({rows, columns});
  std::vector<Layout> layouts;
  std::vector<std::vector<unsigned char>> contents;
  std::vector<void*> operands;
  for (PointwiseOperand& operand : program.operands) {
    // In order, one element, one for each row or column, transposed.
    switch (random() % 5) {
      case 0: operand.axes = {}, layouts.push_back(Layout::RowMajor({})); break;
      case 1: operand.axes = {1}, layouts.push_back(Layout::RowMajor({columns})); break;
      case 2: operand.axes = {0, 1}, layouts.push_back(Layout::RowMajor({rows, 1})); break;
      case 3: operand.axes = {0, 1}, layouts.push_back(Layout{{rows, columns}, {1, rows}, 0}); break;
      default: operand.axes = {0, 1}, layouts.push_back(out);
    }
    contents.push_back(AnyElements(operand.dtype, rows * columns, random));
    operands.push_back(contents.back().data());
  }
  const std::vector<int> over(program.results.size(), -1);
  std::vector<std::vector<std::vector<unsigned char>>> results;
  for (const int64_t least : {int64_t{0}, std::numeric_limits<int64_t>::max()}) {
    const auto tiles = TileProgram::Make(program, layouts, out, over, join, least);
    EXPECT_TRUE(tiles.ok()) << tiles.status();
    if (!tiles.ok()) return 0;
    if (least > 0) {
      EXPECT_EQ(tiles->num_loops(), 0);
    }
    loops += tiles->num_loops();
    static TileSpace space;
    tiles->Begin(operands.data(), space);
    auto& found = results.emplace_back(program.results.size());
    for (size_t r = 0; r < found.size(); ++r) {
      const int64_t count = join ? 4 * Simd().lanes : rows * columns;
      found[r].resize(static_cast<size_t>(count) * DTypeSize(program.TypeOf(program.results[r])));
    }
    if (join) Simd().start_join[*join](reinterpret_cast<float*>(found[0].data()));
    for (int64_t start = 0, end = 0; start < rows * columns; start = end) {
      end = tiles->TileEnd(start, rows * columns);
      std::vector<void*> at;
      for (size_t r = 0; r < found.size(); ++r) {
        const int64_t first = join ? 0 : start;
        at.push_back(found[r].data() + static_cast<size_t>(first) * DTypeSize(program.TypeOf(program.results[r])));
      }
      tiles->Run(operands.data(), space, start, end - start, at.data());
    }
  }
  for (size_t r = 0; r < program.results.size(); ++r) {
    const bool real = program.TypeOf(program.results[r]) == DType::kFloat32;
    const std::vector<unsigned char>&by_loop = results[0][r], &by_tiles = results[1][r];
    const size_t bytes = real ? 4 : 1;
    for (size_t i = 0; i < by_loop.size(); i += bytes) {
      if (std::memcmp(&by_loop[i], &by_tiles[i], bytes) == 0) continue;
      // IEEE 754 does not say which of two NaNs a sum is.
      float a = 0, b = 0;
      std::memcpy(&a, &by_loop[i], bytes), std::memcpy(&b, &by_tiles[i], bytes);
      EXPECT_TRUE(real && std::isnan(a) && std::isnan(b)) << a << " and " << b << " at " << i;
      if (testing::Test::HasFailure()) return loops;
    }
  }
  return loops;
}

TEST(CpuLoops, ComputeWhatTilesCompute) {
  if (!HasCompiler()) GTEST_SKIP() << "there is no plugin librewright_jit.so";
  Random random(3);
  int loops = 0;
  for (int round = 0; round < Cases(400) && !HasFailure(); ++round) {
    loops += ExpectLoopsAgree(RandomProgram(random, 1 + static_cast<int>(random() % 20)), random);
  }
  EXPECT_GT(loops, Cases(200));
}

TEST(CpuLoops, JoinWhatTilesJoin) {
  if (!HasCompiler()) GTEST_SKIP() << "there is no plugin librewright_jit.so";
  Random random(5);
  int loops = 0;
  for (int round = 0; round < Cases(300) && !HasFailure(); ++round) {
    PointwiseProgram program = RandomProgram(random, 1 + static_cast<int>(random() % 8));
    program.results = {program.num_values() - 1};
    if (program.TypeOf(program.results[0]) != DType::kFloat32) continue;
    loops += ExpectLoopsAgree(program, random, static_cast<TileJoin>(random() % 3));
  }
  EXPECT_GT(loops, Cases(100));
}

// As importers compose quantized operators: integers of 8 or 16 bits, differences of i32, scales of f32, rounding,
// bounds.
TEST(CpuLoops, ComputeOnNarrowIntegers) {
  if (!HasCompiler()) GTEST_SKIP() << "there is no plugin librewright_jit.so";
  Random random(4);
  const DType narrow[] = {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16};
  const TileOp wrapping[] = {kTileAdd, kTileSub, kTileMul};
  int loops = 0;
  for (int round = 0; round < Cases(400) && !HasFailure(); ++round) {
    PointwiseProgram program;
    const DType to = narrow[random() % 4];
    for (int i = 0; i < 2; ++i) program.operands.push_back({Value{}, {}, narrow[random() % 4]});
    program.operands.push_back({Value{}, {}, DType::kFloat32});
    const double low = IsUnsigned(to) ? 0 : -128;
    program.constants = {
        {DType::kInt32, 0, 77}, {DType::kFloat32, 0.5, 0}, {DType::kFloat32, low, 0}, {DType::kFloat32, low + 255, 0}};
    const auto apply = [&](const PointwiseInstruction& instruction) {
      program.instructions.push_back(instruction);
      return program.num_values() - 1;
    };
    std::vector<int> wide;
    for (int i = 0; i < 2; ++i) wide.push_back(apply({kTileCopy, program.operands[i].dtype, DType::kInt32, i}));
    const int sum =
        apply({wrapping[random() % 3], DType::kInt32, DType::kInt32, wide[0], random() % 2 == 0 ? wide[1] : 3});
    const int real = apply({kTileCopy, DType::kInt32, DType::kFloat32, sum});
    const int scaled = apply({kTileMul, DType::kFloat32, DType::kFloat32, real, random() % 2 == 0 ? 4 : 2});
    const int rounded = apply({kTileRound, DType::kFloat32, DType::kFloat32, scaled});
    const int above = apply({kTileMax, DType::kFloat32, DType::kFloat32, rounded, 5});
    const int held = apply({kTileMin, DType::kFloat32, DType::kFloat32, above, 6});
    const int whole = apply({kTileCopy, DType::kFloat32, DType::kInt32, random() % 4 == 0 ? rounded : held});
    program.results = {apply({kTileCopy, DType::kInt32, to, whole}), rounded};
    loops += ExpectLoopsAgree(program, random);
  }
  EXPECT_GT(loops, Cases(400) / 2);
}

// A compiler is opened for what is worth it alone; what it refuses is said, and tiles do it.
TEST(CpuLoops, SmallProgramsAreNotCompiled) {
  PointwiseProgram program;
  program.operands.push_back({Value{}, {0}, DType::kFloat32});
  for (int i = 0; i < 8; ++i) program.instructions.push_back({.op = kTileAdd, .a = i, .b = 0});
  program.results = {8};
  const auto loops = [&](int64_t size) {
    const Layout layout = Layout::RowMajor({size});
    return TileProgram::Make(program, {layout}, layout, {-1})->num_loops();
  };
  EXPECT_EQ(loops(1000), 0);
  EXPECT_EQ(loops(100000), HasCompiler() ? 1 : 0);
  std::string error;
  EXPECT_EQ(CompileLoop("none", "no module", &error), nullptr);
  EXPECT_THAT(error, testing::Not(testing::IsEmpty()));
}

// Later callers get the reason, too.
TEST(CpuLoops, WhyATextIsNotCompiledIsToldToAll) {
  if (!HasCompiler()) GTEST_SKIP() << "there is no compiler of loops";
  for (int time = 0; time < 2; ++time) {
    std::string error;
    EXPECT_EQ(CompileLoop("broken", "define void @broken(", &error), nullptr);
    EXPECT_NE(error, "") << time;
  }
}

}  // namespace
}  // namespace rewright::cpu
