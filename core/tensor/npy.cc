#include "core/tensor/npy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

constexpr char kNpyMagic[] = "\x93NUMPY";
constexpr int64_t kNpyMagicSize = 6;
constexpr int64_t kMaxNpyHeader = 1 << 16;

constexpr NpyType kNpyTypes[] = {{"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}, {"<i8", DType::kInt64},
                                 {"<i4", DType::kInt32},   {"|b1", DType::kBool},    {"<f2", DType::kFloat16},
                                 {"|i1", DType::kInt8},    {"|u1", DType::kUInt8},   {"<i2", DType::kInt16},
                                 {"<u2", DType::kUInt16},  {"<u4", DType::kUInt32},  {"<u8", DType::kUInt64},
                                 {"<V2", DType::kBFloat16}};

std::string AllDescrs() {
  std::string descrs;
  for (const NpyType& type : kNpyTypes) absl::StrAppend(&descrs, descrs.empty() ? "" : " ", type.descr);
  return descrs;
}

// Reads the dictionary of a .npy header, a Python literal like
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class NpyHeader {
 public:
  explicit NpyHeader(std::string text) : text_(std::move(text)) {}

  absl::StatusOr<NpyLayout> Parse() {
    if (!Take('{')) return Bad("expected {");
    while (!Take('}')) {
      ASSIGN_OR_RETURN(const std::string key, String());
      if (!Take(':')) return Bad("expected : after a key");
      if (key == "descr") {
        ASSIGN_OR_RETURN(descr_, String());
      } else if (key == "fortran_order") {
        RETURN_IF_ERROR(Order());
      } else if (key == "shape") {
        RETURN_IF_ERROR(ParseShape());
      } else {
        return Bad(absl::StrCat("unknown key ", key));
      }
      if (!Take(',') && !Peek('}')) return Bad("expected , or }");
    }
    if (descr_.empty() || !has_shape_) return Bad("expected the keys descr, fortran_order and shape");
    for (const NpyType& type : kNpyTypes) {
      if (descr_ == type.descr) return NpyLayout{&type, shape_};
    }
    return InvalidArgument("element type ", descr_, " is not supported; expected one of ", AllDescrs());
  }

 private:
  absl::Status Bad(const std::string& message) const {
    return InvalidArgument("bad .npy header at byte ", at_, ": ", message);
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool Peek(char c) {
    SkipSpace();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    ++at_;
    return true;
  }
  absl::StatusOr<std::string> String() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Bad("expected a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) return Bad("a string does not end");
    std::string string = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return string;
  }
  absl::Status Order() {
    SkipSpace();
    if (text_.compare(at_, 5, "False") == 0) {
      at_ += 5;
      return absl::OkStatus();
    }
    if (text_.compare(at_, 4, "True") == 0) {
      return absl::InvalidArgumentError("the elements are in column-major (Fortran) order; expected row-major");
    }
    return Bad("expected True or False");
  }
  absl::Status ParseShape() {
    if (has_shape_) return Bad("a second shape");
    if (!Take('(')) return Bad("expected (");
    has_shape_ = true;
    while (!Take(')')) {
      SkipSpace();
      const size_t end = text_.find_first_not_of("0123456789", at_);
      int64_t size = 0;
      if (end == std::string::npos || !absl::SimpleAtoi(text_.substr(at_, end - at_), &size)) {
        return Bad("expected a size");
      }
      shape_.push_back(size);
      at_ = end;
      if (!Take(',') && !Peek(')')) return Bad("expected , or )");
    }
    return absl::OkStatus();
  }

  std::string text_;
  size_t at_ = 0;
  std::string descr_;
  Shape shape_;
  bool has_shape_ = false;
};

}  // namespace

absl::StatusOr<NpyLayout> ReadNpyLayout(const InputFile& file) {
  unsigned char start[12] = {};
  const int64_t start_size = std::min<int64_t>(file.size(), sizeof start);
  RETURN_IF_ERROR(file.Read(0, start_size, start));
  if (start_size < 10 || std::memcmp(start, kNpyMagic, kNpyMagicSize) != 0) {
    return absl::InvalidArgumentError("not a .npy file");
  }
  const int version = start[6];
  if (version < 1 || version > 3) return InvalidArgument(".npy version ", version);
  const int64_t header_begin = version == 1 ? 10 : 12;
  int64_t header_size = start[8] | start[9] << 8;
  if (version > 1) header_size |= static_cast<int64_t>(start[10]) << 16 | static_cast<int64_t>(start[11]) << 24;
  if (header_size > kMaxNpyHeader || header_size > file.size() - header_begin) {
    return InvalidArgument("a .npy header of ", header_size, " bytes in a file of ", file.size());
  }
  std::string header(static_cast<size_t>(header_size), '\0');
  RETURN_IF_ERROR(file.Read(header_begin, header_size, header.data()));
  ASSIGN_OR_RETURN(NpyLayout layout, NpyHeader(std::move(header)).Parse());
  RETURN_IF_ERROR(CheckedElements(layout.shape).status());
  layout.offset = header_begin + header_size;
  const TensorType type{layout.type->dtype, layout.shape};
  if (file.size() - layout.offset != type.num_bytes()) {
    return InvalidArgument(file.size() - layout.offset, " bytes of data; ", type.ToString(), " has ", type.num_bytes());
  }
  return layout;
}

absl::StatusOr<Tensor> LoadNpy(const InputFile& file) {
  ASSIGN_OR_RETURN(const NpyLayout layout, ReadNpyLayout(file));
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor({layout.type->dtype, layout.shape}, "the tensor"));
  RETURN_IF_ERROR(file.Read(layout.offset, tensor.num_bytes(), tensor.data()));
  if (tensor.dtype() == DType::kBool) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.SetInt(i, tensor.as<uint8_t>()[i]);
  }
  return tensor;
}

absl::Status SaveNpy(const std::string& path, const Tensor& tensor) {
  std::string descr;
  for (const NpyType& type : kNpyTypes) {
    if (type.dtype == tensor.dtype()) descr = type.descr;
  }
  if (descr.empty()) return InvalidArgument(path, ": .npy files have no elements of type ", DTypeName(tensor.dtype()));
  std::string header = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (int64_t size : tensor.shape()) absl::StrAppend(&header, size, ",");
  absl::StrAppend(&header, "), }");
  // The data begin at a multiple of 64 bytes; the header ends with a newline.
  const size_t unpadded = 10 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';
  std::string start(kNpyMagic, kNpyMagicSize);
  start += '\x01';
  start += '\0';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(file.Write(start.data(), static_cast<int64_t>(start.size())));
  RETURN_IF_ERROR(file.Write(tensor.data(), tensor.num_bytes()));
  return file.Commit();
}

}  // namespace rewright
