// Products of batches that share right factors, as grouped heads do, against the interpreter.
#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

TEST(CpuGroupedRows, AreTheOracles) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const char* a : {"[1,2,7,1,64]", "[1,2,7,3,64]", "[2,2,1,5,64]", "[3,2,4,1,64]"}) {
    for (const char* b : {"[1,2,1,64,80]", "[1,1,1,64,80]", "[1,2,1,64,1]"}) {
      for (const bool turned : {false, true}) {
        std::string text = absl::StrCat("input a: f32", a, "\ninput b: f32", b, "\ninput s: f32[]\n");
        // Behind a transpose rows of a batch do not lie evenly.
        absl::StrAppend(&text, turned ? "%0 = neg(a)\n%1 = transpose(%0, perm=[0,1,3,2,4])\n"
                                      : absl::StrCat("%1 = reshape(a, shape=", a, ")\n"));
        absl::StrAppend(&text, "%2 = matmul(%1, b)\n%3 = mul(%2, s)\n%4 = add(%3, %3)\noutput y = %4\noutput z = %2\n");
        const auto graph = ParseGraph(text);
        ASSERT_TRUE(graph.ok()) << graph.status();
        SCOPED_TRACE(text);
        ExpectAgrees(**device, *graph, -1, 1, 3);
      }
    }
  }
}

}  // namespace
}  // namespace rewright
