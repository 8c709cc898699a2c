// Samples in files, one file for each input of a graph: .npy arrays whose first axis counts the samples, or texts and
// lists of tokens, of which samples are windows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/npy.h"
#include "core/tensor/tensor.h"

namespace rewright {

// The division of a list of n tokens into samples of `length`: sample i has the tokens from i * stride + shift on. The
// last token is only ever learnt, never read, so a column that is shifted by one has as many samples as one that is
// not.
struct TokenWindows {
  int64_t stride = 0;  // 0: the length, so that windows do not overlap
  int64_t shift = 0;   // 0 or 1
};

// One file, and what a batch of it is.
struct Column {
  std::string file;
  TensorType batch;  // what the graph takes: [samples of a batch, axes of a sample...]
  // Elements are multiplied by it.
  double scale = 1;
  // Elements are whole numbers 0..classes-1; 0: they are what they are.
  int64_t classes = 0;
  // The file is a list of tokens, [n] in a .npy file, otherwise a text whose bytes are the tokens.
  std::optional<TokenWindows> tokens;
};

// Files stay mapped into memory. Thread-safe: nothing changes after Open.
//
// Elements are converted: to a floating type from any type, to an integer type from integers, bytes and truth values
// (and a scale of 1), to truth values from truth values alone.
class Dataset {
 public:
  // Errors, which name the file: those of ReadNpyLayout; samples of another shape or of a type that does not convert;
  // tokens too few for a sample; arrays of different lengths, or of none; an element that is no class or does not fit
  // the type.
  static absl::StatusOr<Dataset> Open(std::vector<Column> columns);

  int64_t size() const { return size_; }
  // The samples `rows`, as one tensor a column. Fewer rows than a batch has leave the rest zero. REQUIRES: rows within
  // 0..size-1. Errors: too little memory.
  absl::StatusOr<std::vector<Tensor>> Gather(const std::vector<int64_t>& rows) const;
  // The SHA-256 of types, shapes and up to `most` samples, at least two, spread evenly: what differs elsewhere it does
  // not tell.
  std::string Sha256Of(int64_t most) const;

 private:
  struct Array {
    Column column;
    const NpyType* type = nullptr;
    std::shared_ptr<const void> file;
    const char* elements = nullptr;
    int64_t sample = 1;  // elements of a sample
    int64_t stride = 1;  // elements from a sample to the next

    int64_t bytes() const { return static_cast<int64_t>(DTypeSize(type->dtype)); }  // of an element
  };
  absl::Status Add(Column column);

  std::vector<Array> arrays_;
  int64_t size_ = -1;
};

// The order in which samples are read: every epoch all of them, shuffled by a permutation of its own, in whole batches;
// what does not fill the last batch is left out (in every epoch something else). A batch follows from its number alone.
class BatchOrder {
 public:
  // `batch` of 1..samples. Without a seed every epoch has the order of the files.
  BatchOrder(int64_t samples, int64_t batch, std::optional<uint64_t> seed);
  int64_t batches_per_epoch() const { return samples_ / batch_; }
  std::vector<int64_t> Rows(int64_t number) const { return Rows(number, 0, batch_); }
  // The part [first, first + count) of these rows.
  std::vector<int64_t> Rows(int64_t number, int64_t first, int64_t count) const;

 private:
  int64_t samples_, batch_;
  std::optional<uint64_t> seed_;
};

// The samples of batch `number` in the order of the file; the last batch may have fewer.
std::vector<int64_t> RowsInOrder(int64_t samples, int64_t batch, int64_t number);

}  // namespace rewright
