#include "core/onnx/proto.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/onnx.h"
#include "core/tensor/memory.h"
#include "core/tensor/npy.h"

namespace rewright {
namespace {

constexpr std::pair<DType, int32_t> kOnnxTypes[] = {
    {DType::kFloat32, onnx::TensorProto::FLOAT},   {DType::kFloat64, onnx::TensorProto::DOUBLE},
    {DType::kFloat16, onnx::TensorProto::FLOAT16}, {DType::kBFloat16, onnx::TensorProto::BFLOAT16},
    {DType::kInt8, onnx::TensorProto::INT8},       {DType::kInt16, onnx::TensorProto::INT16},
    {DType::kInt32, onnx::TensorProto::INT32},     {DType::kInt64, onnx::TensorProto::INT64},
    {DType::kUInt8, onnx::TensorProto::UINT8},     {DType::kUInt16, onnx::TensorProto::UINT16},
    {DType::kUInt32, onnx::TensorProto::UINT32},   {DType::kUInt64, onnx::TensorProto::UINT64},
    {DType::kBool, onnx::TensorProto::BOOL}};

// Names of the types that this version of the schema does not define yet.
const char* NewTypeName(int64_t data_type) {
  switch (data_type) {
    case 17: return "FLOAT8E4M3FN";
    case 18: return "FLOAT8E4M3FNUZ";
    case 19: return "FLOAT8E5M2";
    case 20: return "FLOAT8E5M2FNUZ";
    case 21: return "UINT4";
    case 22: return "INT4";
    case 23: return "FLOAT4E2M1";
    case 24: return "FLOAT8E8M0";
    case 25: return "UINT2";
    case 26: return "INT2";
    default: return nullptr;
  }
}

std::string TypeName(int64_t data_type) {
  if (data_type == static_cast<int>(data_type) && onnx::TensorProto::DataType_IsValid(static_cast<int>(data_type))) {
    return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(data_type));
  }
  const char* name = NewTypeName(data_type);
  return name != nullptr ? name : absl::StrCat("number ", data_type);
}

struct ExternalData {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;  // -1: not said
};

absl::StatusOr<ExternalData> ReadExternalEntries(const onnx::TensorProto& proto) {
  ExternalData external;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      external.location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      int64_t& number = entry.key() == "offset" ? external.offset : external.length;
      if (!absl::SimpleAtoi(entry.value(), &number) || number < 0) {
        return InvalidArgument("external data: ", entry.key(), " is \"", entry.value(), "\"; expected a number");
      }
    }
  }
  if (external.location.empty()) return absl::InvalidArgumentError("external data: no location is given");
  return external;
}

// True if elements may stay at that offset of a file: many, of a type whose bytes need no look at, in reach of vectors.
bool CanBeMapped(const TensorType& type, int64_t offset) {
  return type.num_bytes() >= static_cast<int64_t>(kManyElementBytes) && type.dtype != DType::kBool &&
         offset % static_cast<int64_t>(alignof(std::max_align_t)) == 0;
}

absl::StatusOr<Tensor> ReadExternalTensor(const onnx::TensorProto& proto, TensorType type, const std::string& directory,
                                          bool map) {
  if (directory.empty()) return absl::InvalidArgumentError("external data is not read here");
  ASSIGN_OR_RETURN(const ExternalData external, ReadExternalEntries(proto));
  auto path = PathInside(directory, external.location);
  if (!path.ok()) return ErrorAt("external data", path.status());
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(*path));
  const int64_t bytes = type.num_bytes();
  if (external.length >= 0 && external.length != bytes) {
    return InvalidArgument("external data: length ", external.length, "; ", type.ToString(), " has ", bytes, " bytes");
  }
  if (external.offset > file.size() || bytes > file.size() - external.offset) {
    return InvalidArgument("external data: ", bytes, " bytes at offset ", external.offset, " do not lie in \"",
                           external.location, "\", which has ", file.size(), " bytes");
  }
  if (map && CanBeMapped(type, external.offset)) {
    const absl::StatusOr<std::shared_ptr<const void>> mapped = file.Map(external.offset, bytes);
    if (mapped.ok()) {
      const std::shared_ptr<void> owner = std::const_pointer_cast<void>(*mapped);
      return Tensor(std::move(type), owner, owner.get());
    }
  }
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(std::move(type), "the tensor"));
  RETURN_IF_ERROR(file.Read(external.offset, bytes, tensor.data()));
  return tensor;
}

absl::Status CheckCount(int64_t found, const TensorType& type, const char* what) {
  if (found == type.num_elements()) return absl::OkStatus();
  return InvalidArgument(what, " has ", found, " elements; ", type.ToString(), " has ", type.num_elements());
}

// Reads the elements from a field; those of 8 and 16 bits are in int32_data, 16-bit floats as their bits.
template <typename T, typename Field>
absl::StatusOr<Tensor> FromField(const Field& field, TensorType type, const char* what) {
  RETURN_IF_ERROR(CheckCount(field.size(), type, what));
  Tensor tensor(std::move(type));
  for (int i = 0; i < field.size(); ++i) {
    if constexpr (std::is_arithmetic_v<T>) {
      tensor.as<T>()[i] = static_cast<T>(field.Get(i));
    } else {
      tensor.as<T>()[i] = std::bit_cast<T>(static_cast<uint16_t>(field.Get(i)));
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> FromTypedField(const onnx::TensorProto& proto, TensorType type) {
  return VisitDType(type.dtype, [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (std::is_same_v<T, float>) {
      return FromField<T>(proto.float_data(), std::move(type), "float_data");
    } else if constexpr (std::is_same_v<T, double>) {
      return FromField<T>(proto.double_data(), std::move(type), "double_data");
    } else if constexpr (std::is_same_v<T, int64_t>) {
      return FromField<T>(proto.int64_data(), std::move(type), "int64_data");
    } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>) {
      return FromField<T>(proto.uint64_data(), std::move(type), "uint64_data");
    } else {
      return FromField<T>(proto.int32_data(), std::move(type), "int32_data");
    }
  });
}

absl::Status CheckRawData(const std::string& raw, const TensorType& type) {
  if (static_cast<int64_t>(raw.size()) == type.num_bytes()) return absl::OkStatus();
  return InvalidArgument("raw_data has ", raw.size(), " bytes; ", type.ToString(), " has ", type.num_bytes());
}

absl::StatusOr<Tensor> FromRawData(const std::string& raw, TensorType type) {
  RETURN_IF_ERROR(CheckRawData(raw, type));
  Tensor tensor(std::move(type));
  if (!raw.empty()) std::memcpy(tensor.data(), raw.data(), raw.size());
  return tensor;
}

absl::StatusOr<Tensor> LoadTensorProto(const InputFile& file) {
  if (file.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("larger than 2 GiB, where protobuf ends");
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  RETURN_IF_ERROR(file.Read(0, file.size(), bytes.data()));
  onnx::TensorProto proto;
  if (!proto.ParseFromString(bytes)) return absl::InvalidArgumentError("not a TensorProto");
  return TensorFromProto(proto, /*directory=*/"");
}

}  // namespace

absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type) {
  std::string known;
  for (const auto& [dtype, number] : kOnnxTypes) {
    if (number == data_type) return dtype;
    absl::StrAppend(&known, known.empty() ? "" : ", ", TypeName(number));
  }
  return Unimplemented("element type ", TypeName(data_type), " is not supported; expected one of ", known);
}

int32_t DTypeToOnnx(DType dtype) {
  for (const auto& [known, number] : kOnnxTypes) {
    if (known == dtype) return number;
  }
  return onnx::TensorProto::UNDEFINED;
}

namespace {

absl::StatusOr<Tensor> ReadTensor(const onnx::TensorProto& proto, const std::string& directory, bool map) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(proto.data_type()));
  TensorType type{dtype, Shape(proto.dims().begin(), proto.dims().end())};
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  if (proto.has_segment()) return absl::UnimplementedError("tensors in segments are not supported");
  absl::StatusOr<Tensor> tensor;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    tensor = ReadExternalTensor(proto, std::move(type), directory, map);
  } else if (proto.has_raw_data()) {
    tensor = FromRawData(proto.raw_data(), std::move(type));
  } else {
    tensor = FromTypedField(proto, std::move(type));
  }
  if (tensor.ok() && tensor->dtype() == DType::kBool) {
    // Truth values become 0 and 1; any number other than zero is true.
    for (int64_t i = 0; i < tensor->num_elements(); ++i) tensor->SetInt(i, tensor->as<uint8_t>()[i]);
  }
  return tensor;
}

}  // namespace

absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, const std::string& directory) {
  return ReadTensor(proto, directory, /*map=*/false);
}

absl::StatusOr<Tensor> DenseFromProto(const onnx::SparseTensorProto& proto, const std::string& directory) {
  ASSIGN_OR_RETURN(const Tensor values, TensorFromProto(proto.values(), directory));
  ASSIGN_OR_RETURN(const Tensor indices, TensorFromProto(proto.indices(), directory));
  const TensorType type{values.dtype(), Shape(proto.dims().begin(), proto.dims().end())};
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(type.shape));
  const int64_t count = values.num_elements(), rank = type.rank();
  const bool listed = indices.type() == TensorType{DType::kInt64, {count}};
  if (values.type().rank() != 1 || (!listed && indices.type() != TensorType{DType::kInt64, {count, rank}})) {
    return InvalidArgument("sparse values ", values.type().ToString(), " at indices ", indices.type().ToString(),
                           "; expected a list of values, and of places in ", type.ToString());
  }
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, "a sparse tensor with its zeros"));
  const auto size = static_cast<int64_t>(DTypeSize(type.dtype));
  int64_t before = -1;
  for (int64_t k = 0; k < count; ++k) {
    int64_t place = 0;
    bool inside = true;
    for (int64_t axis = 0; axis < (listed ? 1 : rank); ++axis) {
      const int64_t index = indices.AtInt(listed ? k : k * rank + axis);
      const int64_t extent = listed ? elements : type.shape[static_cast<size_t>(axis)];
      inside = inside && index >= 0 && index < extent;
      place = inside ? place * (listed ? 1 : extent) + index : 0;
    }
    if (!inside || place <= before) {
      return InvalidArgument("sparse value ", k, ": expected a place in ", type.ToString(),
                             " behind the one before it");
    }
    std::memcpy(tensor.as<char>() + place * size, values.as<const char>() + k * size, static_cast<size_t>(size));
    before = place;
  }
  return tensor;
}

absl::StatusOr<Tensor> TakeTensor(onnx::TensorProto* proto, const std::string& directory, bool map) {
  const size_t bytes = proto->raw_data().size();
  const std::optional<TensorType> type = bytes < kManyElementBytes ? std::nullopt : TypeOfRawData(*proto, bytes);
  if (!type) return ReadTensor(*proto, directory, map);
  const std::shared_ptr<std::string> raw(proto->release_raw_data());
  return Tensor(*type, raw, raw->data());
}

std::optional<TensorType> TypeOfRawData(const onnx::TensorProto& proto, size_t bytes) {
  const absl::StatusOr<DType> dtype = DTypeFromOnnx(proto.data_type());
  const bool plain = dtype.ok() && *dtype != DType::kBool && !proto.has_segment() &&
                     proto.data_location() != onnx::TensorProto::EXTERNAL;
  if (!plain) return std::nullopt;
  TensorType type{*dtype, Shape(proto.dims().begin(), proto.dims().end())};
  if (!CheckedElements(type.shape).ok() || type.num_bytes() != static_cast<int64_t>(bytes)) return std::nullopt;
  return type;
}

void FillTensorType(const std::string& name, const TensorType& type, onnx::TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(DTypeToOnnx(type.dtype));
  for (int64_t size : type.shape) proto->add_dims(size);
}

void FillInfo(const std::string& name, const TensorType& type, onnx::ValueInfoProto* info) {
  info->set_name(name);
  onnx::TypeProto::Tensor* const tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(DTypeToOnnx(type.dtype));
  tensor->mutable_shape();  // present even for a scalar
  for (int64_t size : type.shape) tensor->mutable_shape()->add_dim()->set_dim_value(size);
}

void FillTensor(const std::string& name, const Tensor& tensor, onnx::TensorProto* proto) {
  FillTensorType(name, tensor.type(), proto);
  proto->set_raw_data(tensor.data(), static_cast<size_t>(tensor.num_bytes()));
}

absl::StatusOr<Tensor> LoadTensorFile(const std::string& path) {
  const bool npy = absl::EndsWith(path, ".npy");
  if (!npy && !absl::EndsWith(path, ".pb")) return InvalidArgument(path, ": expected a file named .npy or .pb");
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  auto tensor = npy ? LoadNpy(file) : LoadTensorProto(file);
  if (!tensor.ok()) return ErrorAt(path, tensor.status());
  return tensor;
}

}  // namespace rewright
