#include "runtime/comm/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

// A range of positions along one axis of a tensor, as bytes: `rows` pieces of `bytes` each, `pitch` apart.
struct StridedRange {
  char* first = nullptr;
  int64_t rows = 0, bytes = 0, pitch = 0;
  size_t total() const { return static_cast<size_t>(rows * bytes); }
};

StridedRange RangeOf(const Tensor& tensor, int axis, int64_t begin, int64_t count) {
  const Shape& shape = tensor.shape();
  CHECK(axis >= 0 && axis < tensor.type().rank()) << axis << " of " << tensor.type().ToString();
  const int64_t size = shape[axis];
  CHECK(begin >= 0 && count >= 0 && begin + count <= size) << begin << " + " << count << " of " << size;
  int64_t rows = 1, inner = static_cast<int64_t>(DTypeSize(tensor.dtype()));
  for (int k = 0; k < tensor.type().rank(); ++k) (k < axis ? rows : inner) *= k == axis ? 1 : shape[k];
  char* const data = const_cast<char*>(static_cast<const char*>(tensor.data()));
  return {data + begin * inner, rows, count * inner, size * inner};
}

StridedRange AllOf(const Tensor& tensor) {
  char* const data = const_cast<char*>(static_cast<const char*>(tensor.data()));
  return {data, 1, tensor.num_bytes(), tensor.num_bytes()};
}

// The bytes of the part that ShardType describes.
StridedRange PartOf(const Tensor& whole, int axis, int rank, int size) {
  if (axis >= 0) {
    const int64_t block = whole.shape()[axis] / size;
    return RangeOf(whole, axis, rank * block, block);
  }
  StridedRange part = AllOf(whole);
  const int64_t count = whole.num_elements(), element = static_cast<int64_t>(DTypeSize(whole.dtype()));
  const int64_t begin = count * rank / size;
  part.first += begin * element;
  part.bytes = (count * (rank + 1) / size - begin) * element;
  return part;
}

void Copy(const StridedRange& from, const StridedRange& to) {
  CHECK(from.rows == to.rows && from.bytes == to.bytes) << from.bytes << " and " << to.bytes;
  for (int64_t row = 0; from.bytes > 0 && row < from.rows; ++row) {
    std::memcpy(to.first + row * to.pitch, from.first + row * from.pitch, static_cast<size_t>(from.bytes));
  }
}

// Copies one range to another of as many bytes; either may be contiguous.
void CopyPart(StridedRange from, StridedRange to) {
  const auto split = [](StridedRange& whole, const StridedRange& like) {
    if (whole.rows == like.rows) return;
    CHECK(whole.rows == 1 && whole.bytes == like.rows * like.bytes) << whole.bytes;
    whole = {whole.first, like.rows, like.bytes, like.bytes};
  };
  from.rows == 1 ? split(from, to) : split(to, from);
  Copy(from, to);
}

// A range whose bytes lie in one piece of memory for the time of an exchange: its own where they do already.
class Message {
 public:
  Message(const StridedRange& range, MemoryPool& memory) : range_(range) {
    if (range.rows > 1) packed_ = memory.Take(range.total());
  }
  char* data() { return range_.rows > 1 ? static_cast<char*>(packed_.get()) : range_.first; }
  size_t bytes() const { return range_.total(); }
  Message& Pack() {
    if (range_.rows > 1) Copy(range_, Packed());
    return *this;
  }
  void Unpack() {
    if (range_.rows > 1) Copy(Packed(), range_);
  }

 private:
  StridedRange Packed() { return {data(), range_.rows, range_.bytes, range_.bytes}; }

  const StridedRange range_;
  std::shared_ptr<void> packed_;
};

// The messages of an exchange: one range to and one from every other rank; empty ones are not sent.
class Transfers {
 public:
  explicit Transfers(Communicator& ranks) : ranks_(ranks) {}

  void Send(int to, const StridedRange& range) {
    if (range.total() > 0) out_.emplace_back(to, Message(range, ranks_.memory())).second.Pack();
  }
  void Receive(int from, const StridedRange& range) {
    if (range.total() > 0) in_.emplace_back(from, Message(range, ranks_.memory()));
  }
  absl::Status Run(const std::string& what) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (auto& [to, message] : out_) out.push_back({to, message.data(), message.bytes()});
    for (auto& [from, message] : in_) in.push_back({from, message.data(), message.bytes()});
    RETURN_IF_ERROR(ranks_.Exchange(what, out, in));
    for (auto& [from, message] : in_) message.Unpack();
    return absl::OkStatus();
  }

 private:
  Communicator& ranks_;
  std::vector<std::pair<int, Message>> out_, in_;
};

int64_t SizeOf(const Tensor& tensor, int axis) { return tensor.shape()[axis]; }

// The parts of this rank's block of a tensor, one from each rank, each contiguous.
class Parts {
 public:
  // The transfers run before the parts are reduced. `in_place`: the block of `tensor` itself may be overwritten.
  Parts(const Tensor& tensor, int axis, Communicator& ranks, bool in_place, Transfers* transfers)
      : dtype_(tensor.dtype()) {
    const int64_t size = SizeOf(tensor, axis) / ranks.size();
    const auto block = [&](int rank) { return RangeOf(tensor, axis, rank * size, size); };
    const StridedRange own = block(ranks.rank());
    const bool is_there = in_place && own.rows == 1;
    bytes_ = own.total();
    memory_ = ranks.memory().Take(bytes_ * static_cast<size_t>(ranks.size() - is_there));
    char* next = static_cast<char*>(memory_.get());
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (rank == ranks.rank() && is_there) {
        parts_.push_back(own.first);
        continue;
      }
      parts_.push_back(next);
      const StridedRange part = {next, 1, own.rows * own.bytes, own.rows * own.bytes};
      next += bytes_;
      if (rank == ranks.rank()) {
        CopyPart(own, part);
      } else {
        transfers->Send(rank, block(rank));
        transfers->Receive(rank, part);
      }
    }
  }
  void Reduce(Reduction reduction, const std::vector<LeafRange>& leaves, const StridedRange& result) {
    void* const to = result.rows == 1 ? result.first : parts_[0];
    const auto count = static_cast<int64_t>(bytes_ / DTypeSize(dtype_));
    ReduceParts(reduction, dtype_, leaves, parts_, count, to);
    if (result.rows > 1) CopyPart({static_cast<char*>(to), 1, static_cast<int64_t>(bytes_), 0}, result);
  }

 private:
  const DType dtype_;
  size_t bytes_ = 0;
  std::shared_ptr<void> memory_;
  std::vector<void*> parts_;  // by rank
};

}  // namespace

TensorType BlockType(TensorType whole, int axis, int64_t degree) {
  int64_t& size = whole.shape[axis];
  CHECK(size % degree == 0) << whole.ToString() << ", axis " << axis << ", " << degree;
  size /= degree;
  return whole;
}

void CopyElements(const Tensor& from, Tensor* to) {
  if (from.num_bytes() > 0) std::memcpy(to->data(), from.data(), static_cast<size_t>(from.num_bytes()));
}

absl::StatusOr<Tensor> CopyOf(const Tensor& tensor, const std::string& what) {
  ASSIGN_OR_RETURN(Tensor copy, AllocateTensor(tensor.type(), what));
  if (tensor.data() != nullptr) CopyElements(tensor, &copy);
  return copy;
}

void CopyPositions(const Tensor& from, int axis, int64_t from_begin, int64_t count, Tensor* to, int64_t to_begin) {
  Copy(RangeOf(from, axis, from_begin, count), RangeOf(*to, axis, to_begin, count));
}

void CopyBlock(const Tensor& whole, int axis, int64_t number, Tensor* block) {
  const int64_t size = SizeOf(*block, axis);
  Copy(RangeOf(whole, axis, number * size, size), RangeOf(*block, axis, 0, size));
}

absl::Status AllGather(Communicator& ranks, const std::string& what, const Tensor& block, int axis, Tensor* whole) {
  return AllGather(ranks, what, {{block, axis, *whole}});
}

absl::Status ReduceScatter(Communicator& ranks, const std::string& what, Reduction reduction, const Tensor& part,
                           int axis, Tensor* block) {
  Transfers transfers(ranks);
  Parts parts(part, axis, ranks, /*in_place=*/false, &transfers);
  RETURN_IF_ERROR(transfers.Run(what));
  parts.Reduce(reduction, LeavesOfRanks(ranks.size(), ranks.size()), AllOf(*block));
  return absl::OkStatus();
}

absl::Status ReduceScatterInPlace(Communicator& ranks, const std::string& what, const std::vector<LeafRange>& leaves,
                                  const std::vector<std::pair<Tensor*, int>>& tensors) {
  if (ranks.size() == 1) return absl::OkStatus();
  Transfers transfers(ranks);
  std::vector<Parts> parts;
  for (const auto& [tensor, axis] : tensors) parts.emplace_back(*tensor, axis, ranks, /*in_place=*/true, &transfers);
  RETURN_IF_ERROR(transfers.Run(what));
  for (size_t k = 0; k < tensors.size(); ++k) {
    const auto& [tensor, axis] = tensors[k];
    parts[k].Reduce(Reduction::kSum, leaves, PartOf(*tensor, axis, ranks.rank(), ranks.size()));
  }
  return absl::OkStatus();
}

TensorType ShardType(const TensorType& whole, int axis, int rank, int size) {
  if (axis >= 0) return BlockType(whole, axis, size);
  const int64_t count = whole.num_elements();
  return {whole.dtype, {count * (rank + 1) / size - count * rank / size}};
}

absl::Status AllGather(Communicator& ranks, const std::string& what, const std::vector<GatheredTensor>& tensors) {
  Transfers transfers(ranks);
  for (const GatheredTensor& tensor : tensors) {
    const StridedRange own = AllOf(tensor.part);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const StridedRange there = PartOf(tensor.whole, tensor.axis, rank, ranks.size());
      if (rank == ranks.rank()) {
        CopyPart(own, there);
        continue;
      }
      transfers.Send(rank, own);
      transfers.Receive(rank, there);
    }
  }
  return transfers.Run(what);
}

absl::Status ReduceScatterLeaves(Communicator& ranks, const std::string& what, int givers,
                                 const std::vector<LeafSum>& tensors, const std::vector<Tensor>& leaf) {
  const int self = ranks.rank(), size = ranks.size();
  Transfers transfers(ranks);
  std::vector<std::vector<Tensor>> parts(tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    const auto& [type, axis, sum] = tensors[k];
    for (int rank = 0; rank < size; ++rank) {
      const bool gives = rank < givers;
      if (gives) parts[k].push_back(ranks.memory().Take(ShardType(type, axis, self, size)));
      if (rank == self && gives) {
        CopyPart(PartOf(leaf[k], axis, self, size), AllOf(parts[k].back()));
      } else if (rank != self) {
        if (self < givers) transfers.Send(rank, PartOf(leaf[k], axis, rank, size));
        if (gives) transfers.Receive(rank, AllOf(parts[k].back()));
      }
    }
  }
  RETURN_IF_ERROR(transfers.Run(what));
  for (size_t k = 0; k < parts.size(); ++k) {
    for (Tensor& part : parts[k]) tensors[k].sum->Add(std::move(part));
  }
  return absl::OkStatus();
}

absl::Status AllToAll(Communicator& ranks, const std::string& what, const Tensor& part, int joined, int cut,
                      Tensor* block) {
  CHECK(joined != cut) << joined;
  const int64_t of_part = SizeOf(*block, cut), of_block = SizeOf(part, joined);
  Transfers transfers(ranks);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const StridedRange from = RangeOf(part, cut, rank * of_part, of_part);
    if (rank != ranks.rank()) {
      transfers.Send(rank, from);
      transfers.Receive(rank, RangeOf(*block, joined, rank * of_block, of_block));
      continue;
    }
    // Rows of the two differ in length: by way of a tensor that is a block along both axes.
    Tensor own(BlockType(part.type(), cut, ranks.size()));
    Copy(from, RangeOf(own, cut, 0, of_part));
    Copy(RangeOf(own, joined, 0, of_block), RangeOf(*block, joined, rank * of_block, of_block));
  }
  return transfers.Run(what);
}

absl::Status ExchangeHalo(Communicator& ranks, const std::string& what, const Tensor& block, int axis, int64_t before,
                          Tensor* extended) {
  const int64_t size = SizeOf(block, axis), room = SizeOf(*extended, axis);
  std::memset(extended->data(), 0, static_cast<size_t>(extended->num_bytes()));
  // The positions of the whole tensor that rank `to` wants and rank `from` has: begin and count.
  const auto meet = [&](int from, int to) {
    const int64_t wanted = to * size - before;
    const int64_t begin = std::max(from * size, wanted), end = std::min((from + 1) * size, wanted + room);
    return std::pair(begin, std::max<int64_t>(0, end - begin));
  };
  const auto here = [&](int from, int to) {
    const auto [begin, count] = meet(from, to);
    return RangeOf(block, axis, count > 0 ? begin - from * size : 0, count);
  };
  const auto there = [&](int from, int to) {
    const auto [begin, count] = meet(from, to);
    return RangeOf(*extended, axis, count > 0 ? begin - (to * size - before) : 0, count);
  };
  const int self = ranks.rank();
  Transfers transfers(ranks);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank == self) continue;
    transfers.Send(rank, here(self, rank));
    transfers.Receive(rank, there(rank, self));
  }
  Copy(here(self, self), there(self, self));
  return transfers.Run(what);
}

}  // namespace rewright
