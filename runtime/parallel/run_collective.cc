#include "runtime/parallel/run_collective.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/comm/collectives.h"

namespace rewright {

absl::Status RunCollective(Communicator& ranks, const std::string& when, const Collective& collective,
                           const Tensor& operand, Tensor* result) {
  const std::string what = absl::StrCat(when, ", ", CollectiveName(collective.kind), " of ", collective.of);
  switch (collective.kind) {
    case Collective::Kind::kAllGather: return AllGather(ranks, what, operand, collective.axis, result);
    case Collective::Kind::kReduceScatter:
      return ReduceScatter(ranks, what, collective.reduction, operand, collective.axis, result);
    case Collective::Kind::kAllToAll: return AllToAll(ranks, what, operand, collective.joined, collective.axis, result);
    case Collective::Kind::kHalo: return ExchangeHalo(ranks, what, operand, collective.axis, collective.before, result);
    case Collective::Kind::kAllReduce:
      CopyElements(operand, result);
      return AllReduce(ranks, what, LeavesOfRanks(ranks.size(), ranks.size()), result, collective.reduction);
  }
  return absl::OkStatus();
}

int64_t BytesSentBy(const Executable& executable) {
  const auto* of_ranks = dynamic_cast<const DistributedExecutable*>(&executable);
  return of_ranks == nullptr ? 0 : of_ranks->bytes_sent();
}

int64_t BytesSentToRead(const Executable& executable, const std::string& name) {
  const auto* of_ranks = dynamic_cast<const DistributedExecutable*>(&executable);
  return of_ranks == nullptr ? 0 : of_ranks->BytesSentToRead(name);
}

int64_t BytesOfAllReduce(const TensorType& type, int rank, int size) {
  const int64_t count = type.num_elements(), own = count * (rank + 1) / size - count * rank / size;
  return (count - own + own * (size - 1)) * static_cast<int64_t>(DTypeSize(type.dtype));
}

int64_t BytesSent(const Collective& collective, const TensorType& operand, const TensorType& result, int rank,
                  int size) {
  switch (collective.kind) {
    case Collective::Kind::kAllGather: return operand.num_bytes() * (size - 1);
    case Collective::Kind::kReduceScatter:
    case Collective::Kind::kAllToAll: return operand.num_bytes() / size * (size - 1);
    case Collective::Kind::kAllReduce: return BytesOfAllReduce(result, rank, size);
    case Collective::Kind::kHalo: break;
  }
  // Positions along the axis that others want of this rank's block.
  const auto axis = static_cast<size_t>(collective.axis);
  const int64_t block = operand.shape[axis], room = result.shape[axis];
  int64_t positions = 0;
  for (int to = 0; to < size; ++to) {
    const int64_t wanted = to * block - collective.before;
    const int64_t begin = std::max(rank * block, wanted), end = std::min((rank + 1) * block, wanted + room);
    if (to != rank) positions += std::max<int64_t>(0, end - begin);
  }
  return block == 0 ? 0 : operand.num_bytes() / block * positions;
}

}  // namespace rewright
