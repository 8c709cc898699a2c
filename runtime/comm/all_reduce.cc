#include "runtime/comm/all_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

// The number of leaves of the left child of a node with this many leaves, more than one.
int64_t LeftLeaves(int64_t leaves) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(leaves) - 1)); }

// Integers wrap around, as in the interpreter.
template <typename T>
struct ArithmeticOf {
  using Type = T;
};
template <>
struct ArithmeticOf<int64_t> {
  using Type = uint64_t;
};
template <>
struct ArithmeticOf<int32_t> {
  using Type = uint32_t;
};

template <typename T>
bool IsNan(T value) {
  return value != value;
}

// result = reduction(a, b), where the result may be one of these; the first NaN beats all numbers.
template <typename T>
void ReduceElements(Reduction reduction, T* result, const T* a, const T* b, int64_t count) {
  using Arithmetic = typename ArithmeticOf<T>::Type;
  const auto each = [&](const auto& of) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) result[i] = of(a[i], b[i]);
  };
  switch (reduction) {
    case Reduction::kSum:
      return each([](T x, T y) { return static_cast<T>(static_cast<Arithmetic>(x) + static_cast<Arithmetic>(y)); });
    case Reduction::kProd:
      return each([](T x, T y) { return static_cast<T>(static_cast<Arithmetic>(x) * static_cast<Arithmetic>(y)); });
    case Reduction::kMax: return each([](T x, T y) { return x < y || (IsNan(y) && !IsNan(x)) ? y : x; });
    case Reduction::kMin: return each([](T x, T y) { return y < x || (IsNan(y) && !IsNan(x)) ? y : x; });
    case Reduction::kAnd: return each([](T x, T y) { return static_cast<T>(x != 0 && y != 0); });
    case Reduction::kOr: return each([](T x, T y) { return static_cast<T>(x != 0 || y != 0); });
  }
}

void ReduceElements(Reduction reduction, DType dtype, void* result, const void* a, const void* b, int64_t count) {
  VisitDType(dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    ReduceElements(reduction, static_cast<T*>(result), static_cast<const T*>(a), static_cast<const T*>(b), count);
  });
}

// Reduces the parts of the ranks [begin, end), which have the leaves of one node between them.
void ReduceRange(Reduction reduction, DType dtype, const std::vector<LeafRange>& leaves,
                 const std::vector<void*>& parts, size_t begin, size_t end, int64_t count, void* result) {
  if (end - begin == 1) {
    if (result != parts[begin]) std::memcpy(result, parts[begin], static_cast<size_t>(count) * DTypeSize(dtype));
    return;
  }
  const int64_t first = leaves[begin].first;
  const int64_t middle = first + LeftLeaves(leaves[end - 1].first + leaves[end - 1].count - first);
  size_t right = begin + 1;
  while (right < end && leaves[right].first < middle) ++right;
  CHECK(right < end && leaves[right].first == middle) << "rank " << right << " has no node of the tree";
  ReduceRange(reduction, dtype, leaves, parts, begin, right, count, parts[begin]);
  ReduceRange(reduction, dtype, leaves, parts, right, end, count, parts[right]);
  ReduceElements(reduction, dtype, result, parts[begin], parts[right], count);
}

absl::Status AllReduceElements(Communicator& ranks, const std::string& what, Reduction reduction,
                               const std::vector<LeafRange>& leaves, DType dtype, char* elements, int64_t count) {
  const int size = ranks.size(), self = ranks.rank();
  const auto element = static_cast<int64_t>(DTypeSize(dtype));
  const auto begin_of = [&](int rank) { return count * rank / size * element; };
  const auto bytes_of = [&](int rank) { return static_cast<size_t>(begin_of(rank + 1) - begin_of(rank)); };
  char* const own = elements + begin_of(self);
  const size_t own_bytes = bytes_of(self);
  const std::shared_ptr<void> received = ranks.memory().Take(own_bytes * static_cast<size_t>(size - 1));
  std::vector<void*> parts;
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == self) {
      parts.push_back(own);
      continue;
    }
    parts.push_back(static_cast<char*>(received.get()) + own_bytes * in.size());
    out.push_back({rank, elements + begin_of(rank), bytes_of(rank)});
    in.push_back({rank, parts.back(), own_bytes});
  }
  RETURN_IF_ERROR(ranks.Exchange(what, out, in));
  ReduceParts(reduction, dtype, leaves, parts, static_cast<int64_t>(own_bytes) / element, own);
  for (Outgoing& part : out) part = {part.to, own, own_bytes};
  for (Incoming& part : in) part = {part.from, elements + begin_of(part.from), bytes_of(part.from)};
  return ranks.Exchange(what, out, in);
}

}  // namespace

std::vector<LeafRange> LeavesOfRanks(int64_t leaves, int ranks) {
  CHECK(ranks >= 1 && ranks <= leaves) << leaves << " leaves for " << ranks << " ranks";
  std::vector<LeafRange> nodes = {{0, leaves}};
  while (nodes.size() < static_cast<size_t>(ranks)) {
    const auto largest = std::max_element(nodes.begin(), nodes.end(),
                                          [](const LeafRange& a, const LeafRange& b) { return a.count < b.count; });
    const int64_t left = LeftLeaves(largest->count);
    const LeafRange right = {largest->first + left, largest->count - left};
    largest->count = left;
    nodes.insert(largest + 1, right);
  }
  return nodes;
}

void AddTo(Tensor& a, const Tensor& b) {
  CHECK(a.type() == b.type()) << a.type().ToString() << " and " << b.type().ToString();
  CHECK(IsFloating(a.dtype())) << a.type().ToString();
  ReduceElements(Reduction::kSum, a.dtype(), a.data(), a.data(), b.data(), a.num_elements());
}

void TreeSum::Add(Tensor leaf) {
  nodes_.emplace_back(1, std::move(leaf));
  while (nodes_.size() > 1 && nodes_[nodes_.size() - 2].first == nodes_.back().first) {
    auto& left = nodes_[nodes_.size() - 2];
    AddTo(left.second, nodes_.back().second);
    left.first *= 2;
    nodes_.pop_back();
  }
}

Tensor TreeSum::Take() {
  CHECK(!nodes_.empty());
  while (nodes_.size() > 1) {
    AddTo(nodes_[nodes_.size() - 2].second, nodes_.back().second);
    nodes_.pop_back();
  }
  Tensor sum = std::move(nodes_.back().second);
  nodes_.clear();
  return sum;
}

void ReduceParts(Reduction reduction, DType dtype, const std::vector<LeafRange>& leaves,
                 const std::vector<void*>& parts, int64_t count, void* result) {
  CHECK(!parts.empty() && parts.size() == leaves.size()) << parts.size();
  ReduceRange(reduction, dtype, leaves, parts, 0, parts.size(), count, result);
}

absl::Status AllReduce(Communicator& ranks, const std::string& what, const std::vector<LeafRange>& leaves,
                       Tensor* tensor, Reduction reduction) {
  CHECK(leaves.size() == static_cast<size_t>(ranks.size())) << leaves.size();
  if (ranks.size() == 1) return absl::OkStatus();
  const auto element = static_cast<int64_t>(DTypeSize(tensor->dtype()));
  const int64_t most = kAllReduceBytes / element, count = tensor->num_elements();
  for (int64_t at = 0; at < count; at += most) {
    RETURN_IF_ERROR(AllReduceElements(ranks, what, reduction, leaves, tensor->dtype(),
                                      static_cast<char*>(tensor->data()) + at * element, std::min(most, count - at)));
  }
  return absl::OkStatus();
}

}  // namespace rewright
