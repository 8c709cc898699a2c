#include "core/onnx/tensor_proto.h"

#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"

namespace rewright {
namespace {

// Names of the types that this version of the schema does not know yet.
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
        return absl::InvalidArgumentError(
            absl::StrCat("external data: ", entry.key(), " is \"", entry.value(), "\"; expected a number"));
      }
    }
  }
  if (external.location.empty()) return absl::InvalidArgumentError("external data: no location is given");
  return external;
}

absl::StatusOr<Tensor> ReadExternalTensor(const onnx::TensorProto& proto, TensorType type,
                                          const std::string& directory) {
  if (directory.empty()) return absl::InvalidArgumentError("external data is not read here");
  ASSIGN_OR_RETURN(const ExternalData external, ReadExternalEntries(proto));
  auto path = PathInside(directory, external.location);
  if (!path.ok()) return ErrorAt("external data", path.status());
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(*path));
  const int64_t bytes = type.num_bytes();
  if (external.length >= 0 && external.length != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("external data: length ", external.length, "; ", type.ToString(), " has ", bytes, " bytes"));
  }
  if (external.offset > file.size() || bytes > file.size() - external.offset) {
    return absl::InvalidArgumentError(absl::StrCat("external data: ", bytes, " bytes at offset ", external.offset,
                                                   " do not lie in \"", external.location, "\", which has ",
                                                   file.size(), " bytes"));
  }
  ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(std::move(type), "the tensor"));
  RETURN_IF_ERROR(file.Read(external.offset, bytes, tensor.data()));
  return tensor;
}

absl::Status CheckCount(int64_t found, const TensorType& type, const char* what) {
  if (found == type.num_elements()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has ", found, " elements; ", type.ToString(), " has ", type.num_elements()));
}

template <typename Field, typename Store>
absl::StatusOr<Tensor> FromField(const Field& field, TensorType type, const char* what, const Store& store) {
  RETURN_IF_ERROR(CheckCount(field.size(), type, what));
  Tensor tensor(std::move(type));
  for (int i = 0; i < field.size(); ++i) RETURN_IF_ERROR(store(tensor, i, field.Get(i)));
  return tensor;
}

absl::StatusOr<Tensor> FromTypedField(const onnx::TensorProto& proto, TensorType type) {
  switch (type.dtype) {
    case DType::kFloat32:
      return FromField(proto.float_data(), std::move(type), "float_data", [](Tensor& t, int i, float value) {
        t.as<float>()[i] = value;
        return absl::OkStatus();
      });
    case DType::kFloat64:
      return FromField(proto.double_data(), std::move(type), "double_data", [](Tensor& t, int i, double value) {
        t.as<double>()[i] = value;
        return absl::OkStatus();
      });
    case DType::kInt64:
      return FromField(proto.int64_data(), std::move(type), "int64_data", [](Tensor& t, int i, int64_t value) {
        t.as<int64_t>()[i] = value;
        return absl::OkStatus();
      });
    case DType::kInt32:
      return FromField(proto.int32_data(), std::move(type), "int32_data", [](Tensor& t, int i, int32_t value) {
        t.as<int32_t>()[i] = value;
        return absl::OkStatus();
      });
    case DType::kBool:
      return FromField(proto.int32_data(), std::move(type), "int32_data", [](Tensor& t, int i, int32_t value) {
        t.as<uint8_t>()[i] = value != 0;
        return absl::OkStatus();
      });
  }
  return absl::InternalError("an element type without a field");
}

absl::StatusOr<Tensor> FromRawData(const std::string& raw, TensorType type) {
  if (static_cast<int64_t>(raw.size()) != type.num_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("raw_data has ", raw.size(), " bytes; ", type.ToString(), " has ", type.num_bytes()));
  }
  Tensor tensor(std::move(type));
  if (!raw.empty()) std::memcpy(tensor.data(), raw.data(), raw.size());
  return tensor;
}

}  // namespace

absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type) {
  switch (data_type) {
    case onnx::TensorProto::FLOAT: return DType::kFloat32;
    case onnx::TensorProto::DOUBLE: return DType::kFloat64;
    case onnx::TensorProto::INT64: return DType::kInt64;
    case onnx::TensorProto::INT32: return DType::kInt32;
    case onnx::TensorProto::BOOL: return DType::kBool;
    default:
      return absl::UnimplementedError(absl::StrCat("element type ", TypeName(data_type),
                                                   " is not supported; expected FLOAT, DOUBLE, INT64, INT32 or BOOL"));
  }
}

int32_t DTypeToOnnx(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return onnx::TensorProto::FLOAT;
    case DType::kFloat64: return onnx::TensorProto::DOUBLE;
    case DType::kInt64: return onnx::TensorProto::INT64;
    case DType::kInt32: return onnx::TensorProto::INT32;
    case DType::kBool: return onnx::TensorProto::BOOL;
  }
  return onnx::TensorProto::UNDEFINED;
}

absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, const std::string& directory) {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(proto.data_type()));
  TensorType type{dtype, Shape(proto.dims().begin(), proto.dims().end())};
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  if (proto.has_segment()) return absl::UnimplementedError("tensors in segments are not supported");
  absl::StatusOr<Tensor> tensor;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    tensor = ReadExternalTensor(proto, std::move(type), directory);
  } else if (proto.has_raw_data()) {
    tensor = FromRawData(proto.raw_data(), std::move(type));
  } else {
    tensor = FromTypedField(proto, std::move(type));
  }
  if (tensor.ok() && tensor->dtype() == DType::kBool) {
    // Whatever is not zero is true; inside, truth values are 0 and 1.
    for (int64_t i = 0; i < tensor->num_elements(); ++i) tensor->SetInt(i, tensor->as<uint8_t>()[i]);
  }
  return tensor;
}

void FillTensorType(const std::string& name, const TensorType& type, onnx::TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(DTypeToOnnx(type.dtype));
  for (int64_t size : type.shape) proto->add_dims(size);
}

void FillTensor(const std::string& name, const Tensor& tensor, onnx::TensorProto* proto) {
  FillTensorType(name, tensor.type(), proto);
  proto->set_raw_data(tensor.data(), static_cast<size_t>(tensor.num_bytes()));
}

}  // namespace rewright
