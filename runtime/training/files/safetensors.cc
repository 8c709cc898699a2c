#include "runtime/training/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "nlohmann/json.hpp"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

// As in the reference implementation.
constexpr int64_t kMaxHeader = 100'000'000;

constexpr std::pair<const char*, DType> kTypes[] = {
    {"F32", DType::kFloat32}, {"F64", DType::kFloat64}, {"I64", DType::kInt64},     {"I32", DType::kInt32},
    {"BOOL", DType::kBool},   {"F16", DType::kFloat16}, {"BF16", DType::kBFloat16}, {"I8", DType::kInt8},
    {"U8", DType::kUInt8},    {"I16", DType::kInt16},   {"U16", DType::kUInt16},    {"U32", DType::kUInt32},
    {"U64", DType::kUInt64}};

const char* TypeName(DType dtype) {
  for (const auto& [name, type] : kTypes) {
    if (type == dtype) return name;
  }
  return "";
}

// The length and the header, padded so that the elements begin at a multiple of 8.
std::string Start(const NamedTensors& tensors) {
  Json json = Json::object();
  int64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    json[name] = {{"dtype", TypeName(tensor.dtype())},
                  {"shape", tensor.shape()},
                  {"data_offsets", {at, at + tensor.num_bytes()}}};
    at += tensor.num_bytes();
  }
  std::string header = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string start;
  for (int shift = 0; shift < 64; shift += 8) start += static_cast<char>(static_cast<uint64_t>(header.size()) >> shift);
  return start + header;
}

using Sink = std::function<absl::Status(const void* data, int64_t bytes)>;

absl::Status Write(const NamedTensors& tensors, const Sink& sink) {
  const std::string start = Start(tensors);
  RETURN_IF_ERROR(sink(start.data(), static_cast<int64_t>(start.size())));
  for (const auto& [name, tensor] : tensors) RETURN_IF_ERROR(sink(tensor.data(), tensor.num_bytes()));
  return absl::OkStatus();
}

absl::Status Bad(const std::string& message) { return absl::InvalidArgumentError(message); }

// The place of a tensor among the elements.
struct Place {
  std::string name;
  TensorType type;
  int64_t begin = 0, end = 0;
};

// A list of whole numbers of at least 0.
bool Integers(const Json& json, std::vector<int64_t>* list) {
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    if (!item.is_number_integer() || item < 0 || item > INT64_MAX) return false;
    list->push_back(item.get<int64_t>());
  }
  return true;
}

absl::StatusOr<Place> PlaceOf(const std::string& name, const Json& json) {
  const auto bad = [&](const std::string& message) { return Bad(absl::StrCat("tensor ", name, ": ", message)); };
  if (!json.is_object()) return bad("expected an object");
  Place place{name};
  const Json dtype = json.value("dtype", Json());
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return dtype == t.first; });
  if (type == std::end(kTypes)) {
    return bad(absl::StrCat(
        "dtype: found ", dtype.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40), ", expected one of ",
        absl::StrJoin(kTypes, " ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); })));
  }
  place.type.dtype = type->second;
  if (!Integers(json.value("shape", Json()), &place.type.shape)) return bad("shape: expected a list of sizes");
  const auto elements = CheckedElements(place.type.shape);
  if (!elements.ok()) return bad(absl::StrCat("shape: ", elements.status().message()));
  std::vector<int64_t> offsets;
  if (!Integers(json.value("data_offsets", Json()), &offsets) || offsets.size() != 2 || offsets[0] > offsets[1]) {
    return bad("data_offsets: expected a begin and an end");
  }
  place.begin = offsets[0];
  place.end = offsets[1];
  if (place.end - place.begin != place.type.num_bytes()) {
    return bad(absl::StrCat("found ", place.end - place.begin, " bytes, expected ", place.type.num_bytes(), " for ",
                            place.type.ToString()));
  }
  return place;
}

absl::StatusOr<std::vector<Place>> ParseHeader(const std::string& header, int64_t data_bytes) {
  const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Bad("the header is no JSON object");
  std::vector<Place> places;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    ASSIGN_OR_RETURN(Place place, PlaceOf(name, entry));
    places.push_back(std::move(place));
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t at = 0;
  for (const Place& place : places) {
    if (place.begin != at) {
      return Bad(
          absl::StrCat("tensor ", place.name, ": begins at byte ", place.begin, " of the elements, expected ", at));
    }
    at = place.end;
  }
  if (at != data_bytes) return Bad(absl::StrCat("found ", data_bytes, " bytes of elements, expected ", at));
  return places;
}

absl::StatusOr<NamedTensors> Read(const InputFile& file) {
  uint8_t start[8] = {};
  if (file.size() < 8) return Bad(absl::StrCat("has ", file.size(), " bytes, expected a safetensors file"));
  RETURN_IF_ERROR(file.Read(0, 8, start));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | start[i];
  if (length > static_cast<uint64_t>(std::min(kMaxHeader, file.size() - 8))) {
    return Bad(absl::StrCat("a header of ", length, " bytes in a file of ", file.size()));
  }
  const auto header_bytes = static_cast<int64_t>(length);
  std::string header(length, '\0');
  RETURN_IF_ERROR(file.Read(8, header_bytes, header.data()));
  ASSIGN_OR_RETURN(const std::vector<Place> places, ParseHeader(header, file.size() - 8 - header_bytes));
  NamedTensors tensors;
  for (const Place& place : places) {
    ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(place.type, absl::StrCat("tensor ", place.name)));
    RETURN_IF_ERROR(file.Read(8 + header_bytes + place.begin, place.type.num_bytes(), tensor.data()));
    for (int64_t i = 0; place.type.dtype == DType::kBool && i < tensor.num_elements(); ++i) {
      if (tensor.as<uint8_t>()[i] > 1) return Bad(absl::StrCat("tensor ", place.name, ": expected bytes 0 or 1"));
    }
    tensors.emplace(place.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace

NamedTensors StatesOf(const Graph& graph) {
  NamedTensors states;
  for (Value state : graph.states()) states[graph.node(state.node).name] = *graph.arena()->Elements(state.node);
  return states;
}

absl::Status WriteSafetensors(const std::string& path, const NamedTensors& tensors) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(Write(tensors, [&](const void* data, int64_t bytes) { return file.Write(data, bytes); }));
  return file.Commit();
}

std::string SafetensorsSha256(const NamedTensors& tensors) {
  Sha256 hash;
  Write(tensors, [&](const void* data, int64_t bytes) {
    hash.Add(data, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }).IgnoreError();  // the sink gives none
  return hash.Hex();
}

absl::StatusOr<NamedTensors> ReadSafetensors(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  auto tensors = Read(file);
  if (!tensors.ok()) return ErrorAt(path, tensors.status());
  return tensors;
}

}  // namespace rewright
