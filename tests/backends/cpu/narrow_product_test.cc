// Products with weights of few bits in groups, against the interpreter.
#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backends/cpu/simd/simd.h"
#include "backends/device_factory.h"
#include "gtest/gtest.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

// As the importer composes MatMulNBits of 4 bits: G groups of B in K, padded; with a zero point each.
constexpr char kFourBits[] = R"(
input x: f32[R,K]
input r: f32[R,N]
state w: u8[N,G,H]
state z: u8[N,G]
state s: f32[N,G,1]
state b: f32[N]
const %20: u8[2] = [4,0]
const %21: u8[] = [4]
%0 = reshape(w, shape=[N,G,H,1])
%1 = shift_left(%0, %20)
%2 = shift_right(%1, %21)
%3 = reshape(%2, shape=[N,G,B])
%4 = cast(%3, to=i32)
%5 = shift_right(z, %21)
%6 = reshape(%5, shape=[N,G,1])
%7 = cast(%6, to=i32)
%8 = sub(%4, %7)
%9 = cast(%8, to=f32)
%10 = mul(%9, s)
%11 = reshape(%10, shape=[N,P])
%12 = slice(%11, starts=[0,0], stops=[N,K])
%13 = transpose(%12, perm=[1,0])
%14 = matmul(x, %13)
%15 = add(%14, b)
%16 = add(%15, r)
%17 = relu(%16)
output y = %16
output z = %17
)";

std::string Sized(std::string text, int rows, int depth, int columns, int block) {
  const int groups = (depth + block - 1) / block;
  return absl::StrReplaceAll(text, {{"[R,", absl::StrCat("[", rows, ",")},
                                    {"K]", absl::StrCat(depth, "]")},
                                    {"[K,", absl::StrCat("[", depth, ",")},
                                    {"N]", absl::StrCat(columns, "]")},
                                    {"[N,", absl::StrCat("[", columns, ",")},
                                    {"G]", absl::StrCat(groups, "]")},
                                    {"G,", absl::StrCat(groups, ",")},
                                    {"H]", absl::StrCat(block / 2, "]")},
                                    {"H,", absl::StrCat(block / 2, ",")},
                                    {"B]", absl::StrCat(block, "]")},
                                    {"P]", absl::StrCat(groups * block, "]")}});
}

// Weights keep their bits: the schedule has no constant as large as they would be in f32.
bool KeepsBits(const Schedule& schedule, int bits) {
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) {
    return absl::StrContains(step.label, absl::StrCat("(", bits, " bits)"));
  });
}

void ExpectNarrow(const Graph& graph, int bits, int threads, double high = 1) {
  auto schedule = (*MakeDevice("cpu", {threads}))->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_TRUE(KeepsBits(*schedule, bits));
  ExpectAgrees(*std::move(schedule), graph, -high, high, 7, 1e-5);
}

TEST(CpuNarrowProduct, AgreesForAllGroupsAndTails) {
  for (const int block : {16, 32, 64, 128, 256}) {
    for (const int rows : {1, 3, 16, 40}) {
      for (const int depth : {15, 128, 300, 1100}) {
        const int columns = rows % 2 ? 33 : 70;
        SCOPED_TRACE(absl::StrCat(rows, " x ", depth, " x ", columns, ", block ", block));
        ExpectNarrow(GraphWithWeights(Sized(kFourBits, rows, depth, columns, block), 0, 255, 3), 4, 1 + rows % 2);
      }
    }
  }
}

TEST(CpuNarrowProduct, AgreesForAllNumbersOfRows) {
  for (int rows = 1; rows < 19; ++rows) {
    SCOPED_TRACE(rows);
    ExpectNarrow(GraphWithWeights(Sized(kFourBits, rows, 200, 40, 32), 0, 255, 3), 4, 2, 1e30);
  }
}

// As DequantizeLinear is composed, along both axes; two such weights side by side.
TEST(CpuNarrowProduct, AgreesForBytes) {
  for (const char* rows : {"1", "5", "40"}) {
    for (const char* type : {"u8", "i8"}) {
      SCOPED_TRACE(absl::StrCat(rows, " rows of ", type));
      const std::string text = absl::StrReplaceAll(R"(
input x: f32[3,R,96]
state v: T[96,40]
state w: T[96,40]
state s: f32[3,40]
state t: f32[40]
state z: T[40]
%0 = cast(v, to=i32)
%1 = cast(z, to=i32)
%2 = sub(%0, %1)
%3 = cast(%2, to=f32)
%4 = reshape(s, shape=[3,1,40])
%5 = expand(%4, shape=[3,32,40])
%6 = reshape(%5, shape=[96,40])
%7 = mul(%3, %6)
%8 = cast(w, to=f32)
%9 = mul(t, %8)
%10 = concat(%7, %9, axis=1)
%11 = matmul(x, %10)
output y = %11
)",
                                                   {{"R", rows}, {"T", type}});
      ExpectNarrow(GraphWithWeights(text, -128, 127, 5), 8, 2);
    }
  }
}

// Weights whose scales differ within 16 numbers are read as they are.
TEST(CpuNarrowProduct, LeavesOtherWeights) {
  const std::string text = "input x: f32[1,32]\nstate w: u8[32,4]\nstate s: f32[S]\n%0 = cast(w, to=f32)\n"
                           "%1 = mul(%0, s)\n%2 = matmul(x, %1)\noutput y = %2\n";
  const auto keeps = [&](const std::string& shape) {
    const Graph graph = GraphWithWeights(absl::StrReplaceAll(text, {{"S", shape}}), 20, 29, 1);
    auto schedule = (*MakeDevice("cpu", {1}))->Compile(graph);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return schedule.ok() && KeepsBits(*schedule, 8);
  };
  EXPECT_TRUE(keeps("1,4"));
  EXPECT_FALSE(keeps("32,1"));
}

}  // namespace
}  // namespace rewright
