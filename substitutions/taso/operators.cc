#include "substitutions/taso/operators.h"

#include <iterator>

namespace rewright::taso {
namespace {

constexpr int kMostInputs = 6;      // TASO's own limit
constexpr int kMostOutputs = 6;     // TASO's own limit
constexpr int kMostAxes = 6;        // of a rule here
constexpr int64_t kLargest = 1024;  // kernels and strides

const std::vector<Key> kWindow = {Key::kKernelHeight, Key::kKernelWidth, Key::kStrideHeight, Key::kStrideWidth,
                                  Key::kPadding};

const OpInfo kOperators[] = {
    {"input", 0, 0, {}, false},
    {"weight", 0, 0, {}, false},
    {"any", 0, 0, {}, false},
    {"conv2d", 2, 2, {Key::kStrideHeight, Key::kStrideWidth, Key::kPadding, Key::kActivation}, true},
    {"dropout", 1, 1, {}, false},
    {"linear", 2, 2, {}, false},
    {"pool2d_max", 1, 1, kWindow, true},
    {"pool2d_avg", 1, 1, kWindow, true},
    {"relu", 1, 1, {}, true},
    {"sigmoid", 1, 1, {}, true},
    {"tanh", 1, 1, {}, true},
    {"batchnorm", 1, 5, {}, false},
    {"concat", 1, kMostInputs, {Key::kAxis, Key::kRank}, true},
    {"split", 1, 1, {Key::kAxis, Key::kNumOutputs}, true},
    {"reshape", 1, 1, {}, false},
    {"transpose", 1, 1, {Key::kRank, Key::kPermutation}, true},
    {"ew_add", 2, 2, {}, true},
    {"ew_mul", 2, 2, {}, true},
    {"matmul", 2, 2, {Key::kActivation}, true},
    {"mul", 2, 2, {}, true},
    {"enlarge", 1, 2, {}, true},
    {"merge_gconv", 1, 1, {Key::kMergeCount}, false},
    {"constant_imm", 0, 0, {}, false},
    {"constant_iconv", 0, 0, {}, false},
    {"constant_one", 0, 0, {}, true},
    {"constant_pool", 0, 0, {Key::kKernelHeight, Key::kKernelWidth}, true},
};

const KeyInfo kKeys[] = {
    {"op_type", 0, static_cast<int64_t>(std::size(kOperators)) - 1},
    {"num_inputs", 0, kMostInputs},
    {"num_outputs", 1, kMostOutputs},
    {"group", 1, INT32_MAX},
    {"kernel_h", 1, kLargest},
    {"kernel_w", 1, kLargest},
    {"stride_h", 1, kLargest},
    {"stride_w", 1, kLargest},
    {"pad", 0, 1},
    {"acti", 0, 3},
    {"numdim", 1, kMostAxes},
    {"axis", 0, kMostAxes - 1},
    {"perm", 0, INT32_MAX},
    {"outshuffle", 0, 1},
    {"merge_gconv_count", 1, INT32_MAX},
};

}  // namespace

const OpInfo* FindOperator(int64_t number) {
  const bool known = number >= 0 && number < static_cast<int64_t>(std::size(kOperators));
  return known ? &kOperators[number] : nullptr;
}

const KeyInfo* FindKey(int64_t number) {
  const bool known = number >= 0 && number < static_cast<int64_t>(std::size(kKeys));
  return known ? &kKeys[number] : nullptr;
}

}  // namespace rewright::taso
