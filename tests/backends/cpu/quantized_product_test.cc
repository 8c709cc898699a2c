// Products and convolutions of 8-bit integers on the CPU device, bit for bit those of the interpreter: odd sizes, both
// types, zero points, what makes 8 bits of sums, factors that others read too, extreme elements.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int64_t Between(Rng& rng, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }
std::string Sizes(const std::vector<int64_t>& sizes) { return absl::StrCat("[", absl::StrJoin(sizes, ","), "]"); }

// The text of a graph that grows line by line.
class Text {
 public:
  explicit Text(Rng& rng) : rng_(rng) {}

  void Leaf(const std::string& line) { leaves_ += line + "\n"; }
  std::string Apply(const std::string& application) {
    const std::string name = absl::StrCat("%", next_++);
    absl::StrAppend(&lines_, name, " = ", application, "\n");
    return name;
  }
  std::string Constant(const std::string& type, const std::string& value) {
    const std::string name = absl::StrCat("%", 1000 + next_++);
    absl::StrAppend(&constants_, "const ", name, ": ", type, "[] = [", value, "]\n");
    return name;
  }
  void Output(const std::string& name, const std::string& value) {
    absl::StrAppend(&outputs_, "output ", name, " = ", value, "\n");
  }
  std::string Done() const { return leaves_ + constants_ + lines_ + outputs_; }

  // x - zero of i32, for x of this type; the zero point is a constant, or an input, or there is none.
  std::string Centred(const std::string& x, const std::string& dtype, bool may_be_input = true) {
    const std::string wide = Apply(absl::StrCat("cast(", x, ", to=i32)"));
    const int64_t low = dtype == "i8" ? -128 : 0;
    switch (rng_() % 5) {
      case 0: return wide;
      case 1:
        if (may_be_input) {
          Leaf(absl::StrCat("input z", x, ": ", dtype, "[]"));
          return Apply(absl::StrCat("sub(", wide, ", ", Apply(absl::StrCat("cast(z", x, ", to=i32)")), ")"));
        }
        [[fallthrough]];
      default: {
        const int64_t ends[] = {low, low + 255, Between(rng_, low, low + 255)};
        return Apply(absl::StrCat("sub(", wide, ", ", Constant("i32", absl::StrCat(ends[rng_() % 3])), ")"));
      }
    }
  }

  // Makes 8 bits of `sums`; `factors` is the shape of the factors of their columns.
  std::string Requantized(const std::string& sums, const std::string& factors, bool bias, const std::string& biases) {
    std::string value = sums;
    if (bias) {
      Leaf("state bias: i32" + biases);
      value = Apply(absl::StrCat("add(", value, ", bias)"));
    }
    const std::string dtype = rng_() % 2 == 0 ? "u8" : "i8";
    const int64_t low = dtype == "i8" ? -128 : 0;
    value = Apply(absl::StrCat("cast(", value, ", to=f32)"));
    if (rng_() % 2 == 0) {
      // Products that lie in the middle between integers, and far outside of the range.
      const char* const scales[] = {"0.5", "0.0009765625", "0.00337", "1e6", "1e-6"};
      value = Apply(absl::StrCat("mul(", value, ", ", Constant("f32", scales[rng_() % 5]), ")"));
    } else {
      Leaf("state scale: f32" + factors);
      value = Apply(absl::StrCat("mul(", value, ", scale)"));
    }
    value = Apply(absl::StrCat("round(", value, ")"));
    if (rng_() % 4 != 0) {
      value =
          Apply(absl::StrCat("add(", value, ", ", Constant("f32", absl::StrCat(Between(rng_, low, low + 255))), ")"));
    }
    const int64_t least = rng_() % 4 == 0 ? Between(rng_, low, low + 100) : low;
    value = Apply(absl::StrFormat("clip(%s, min=%d.0, max=%d.0)", value, least, low + 255));
    return Apply(absl::StrCat("cast(", value, ", to=", dtype, ")"));
  }

 private:
  Rng& rng_;
  int next_ = 0;
  std::string leaves_, constants_, lines_, outputs_;
};

// Elements of all bytes, or of the ends of their range.
void ExpectTheInterpretersBits(const std::string& text, int threads, Rng& rng) {
  SCOPED_TRACE(text);
  const auto device = MakeDevice("cpu", {threads});
  ASSERT_TRUE(device.ok()) << device.status();
  const uint64_t seed = rng();
  const Graph graph = GraphWithWeights(text, -128, 255, seed);
  auto schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::string labels;
  for (const Step& step : schedule->steps) absl::StrAppend(&labels, step.label, "; ");
  EXPECT_THAT(labels, HasSubstr("(bytes, "));
  EXPECT_THAT(labels, Not(HasSubstr("reference")));
  ExpectAgrees(*std::move(schedule), graph, -128, 255, seed);
}

TEST(CpuQuantizedProduct, MatricesOfOddSizes) {
  Rng rng(1);
  for (int i = 0; i < Cases(1500); ++i) {
    Text text(rng);
    const int64_t m = Between(rng, 1, 61), k = Between(rng, 1, 70), n = Between(rng, 1, 67);
    std::vector<int64_t> a = {m, k}, b = {k, n};
    const bool weights = rng() % 2 == 0;
    switch (rng() % 5) {
      case 0:
        a = {2, 3, m, k};
        b = weights ? b : std::vector<int64_t>{2, 3, k, n};
        break;
      case 1:
        a = {2, 1, m, k};
        b = weights ? b : std::vector<int64_t>{3, k, n};
        break;
      case 2: a = {3, m, k}; break;
      default: break;
    }
    const std::string type = rng() % 2 == 0 ? "u8" : "i8", other = rng() % 2 == 0 ? "u8" : "i8";
    const bool shared = rng() % 4 == 0;
    std::string x;
    if (rng() % 4 == 0) {  // read column by column
      std::swap(a[a.size() - 1], a[a.size() - 2]);
      std::vector<int64_t> perm;
      for (size_t axis = 0; axis < a.size(); ++axis) perm.push_back(static_cast<int64_t>(axis));
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      x = text.Apply(
          absl::StrCat("cast(", text.Apply(absl::StrCat("transpose(x, perm=", Sizes(perm), ")")), ", to=i32)"));
    } else {
      x = text.Centred("x", type, !shared);
    }
    text.Leaf(absl::StrCat("input x: ", type, Sizes(a)));
    if (shared) text.Output("shared", x);
    std::string y = "w";
    text.Leaf(absl::StrCat(weights ? "state" : "input", " w: ", other, Sizes(b)));
    y = text.Centred("w", other, !weights);
    std::string out = text.Apply(absl::StrCat("matmul(", x, ", ", y, ")"));
    if (rng() % 4 != 0)
      out = text.Requantized(out, absl::StrCat("[", n, "]"), rng() % 2 == 0, absl::StrCat("[", n, "]"));
    text.Output("y", out);
    ExpectTheInterpretersBits(text.Done(), 1 + static_cast<int>(rng() % 3), rng);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CpuQuantizedProduct, ConvolutionsOfOddSizes) {
  Rng rng(2);
  for (int i = 0; i < Cases(1000); ++i) {
    Text text(rng);
    const int64_t c = Between(rng, 1, 9), o = Between(rng, 1, 40);
    const int64_t r = Between(rng, 1, 4), s = Between(rng, 1, 4), dh = Between(rng, 1, 2), dw = Between(rng, 1, 2);
    const int64_t h = (r - 1) * dh + Between(rng, 1, 9), w = (s - 1) * dw + Between(rng, 1, 30);
    const std::string type = rng() % 2 == 0 ? "u8" : "i8";
    text.Leaf(absl::StrFormat("input x: %s[%d,%d,%d,%d]", type, Between(rng, 1, 3), c, h, w));
    text.Leaf(absl::StrFormat("state w: i8[%d,%d,%d,%d]", o, c, r, s));
    const bool shared = rng() % 4 == 0, margin = rng() % 3 != 0;
    const std::string x = text.Centred("x", type, !shared);
    if (shared) text.Output("shared", x);
    const auto pad = [&] { return margin ? Between(rng, 0, 3) : 0; };
    std::string out = text.Apply(absl::StrFormat(
        "conv2d(%s, %s, strides=[%d,%d], pads=[%d,%d,%d,%d], dilations=[%d,%d])", x, text.Centred("w", "i8", false),
        Between(rng, 1, 3), Between(rng, 1, 3), pad(), pad(), pad(), pad(), dh, dw));
    if (rng() % 4 != 0) {
      const std::string columns = absl::StrCat("[1,", o, ",1,1]");
      out = text.Requantized(out, columns, rng() % 2 == 0, columns);
    }
    text.Output("y", out);
    ExpectTheInterpretersBits(text.Done(), 1 + static_cast<int>(rng() % 3), rng);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// The second reads the bytes of the first where they lie, with and without a margin.
TEST(CpuQuantizedProduct, LayersBehindOneAnother) {
  Rng rng(3);
  for (int i = 0; i < Cases(100); ++i) {
    Text text(rng);
    const int64_t c = 4 * Between(rng, 1, 3), h = Between(rng, 3, 9), w = Between(rng, 3, 20);
    text.Leaf(absl::StrFormat("input x: u8[2,3,%d,%d]", h, w));
    text.Leaf(absl::StrFormat("state w: i8[%d,3,1,1]", c));
    text.Leaf(absl::StrFormat("state v: i8[5,%d,3,3]", c));
    const std::string first = text.Apply(
        absl::StrFormat("conv2d(%s, %s, pads=[0,0,0,0])", text.Centred("x", "u8"), text.Apply("cast(w, to=i32)")));
    std::string between = text.Apply(
        absl::StrCat("mul(", text.Apply("cast(" + first + ", to=f32)"), ", ", text.Constant("f32", "0.0043"), ")"));
    between = text.Apply("clip(" + text.Apply("round(" + between + ")") + ", min=0.0, max=255.0)");
    between = text.Apply("cast(" + between + ", to=u8)");
    const int64_t pad = Between(rng, 0, 1);
    std::string last =
        text.Apply(absl::StrFormat("conv2d(%s, %s, pads=[%d,%d,%d,%d])", text.Centred(between, "u8", false),
                                   text.Apply("cast(v, to=i32)"), pad, pad, pad, pad));
    last = text.Requantized(last, "[1,5,1,1]", true, "[1,5,1,1]");
    text.Output("y", last);
    ExpectTheInterpretersBits(text.Done(), 2, rng);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Sums that are as large as they can be: no instruction saturates in between.
TEST(CpuQuantizedProduct, ExtremeElementsDoNotSaturate) {
  const std::string text = R"(
input x: u8[5,64]
state w: i8[64,3]
%0 = cast(x, to=i32)
%1 = cast(w, to=i32)
%2 = matmul(%0, %1)
output y = %2
)";
  for (int sign : {-1, 1}) {
    const auto device = MakeDevice("cpu", {1});
    ASSERT_TRUE(device.ok()) << device.status();
    const double weight = sign < 0 ? -128 : 127;
    const Graph graph = GraphWithWeights(text, weight, weight, 1);
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const auto executor = MakeHostile(graph, *std::move(schedule));
    ASSERT_TRUE(executor.ok()) << executor.status();
    Rng rng(1);
    std::vector<Tensor> outputs;
    ASSERT_TRUE((*executor)->Run({RandomTensor({DType::kUInt8, {5, 64}}, 255, 255, rng)}, &outputs).ok());
    for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(outputs[0].AtInt(i), static_cast<int64_t>(64 * 255 * weight));
  }
}

}  // namespace
}  // namespace rewright
