#include "core/onnx/serialization.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

constexpr int64_t kMinExternalBytes = 1024;  // smaller tensors stay in the model
constexpr int64_t kExternalAlignment = 64;

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Returns the tag of a field of bytes, a string or a message.
uint32_t TagOf(int number) { return WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED); }

class CordStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit CordStream(const absl::Cord& cord) : next_(cord.chunk_begin()), end_(cord.chunk_end()) {}

  bool Next(const void** data, int* size) override {
    while (left_.empty()) {
      if (next_ == end_) return false;
      left_ = *next_++;
    }
    given_ = std::exchange(left_, {});
    *data = given_.data();
    *size = static_cast<int>(given_.size());
    count_ += *size;
    return true;
  }
  void BackUp(int count) override {
    left_ = given_.substr(given_.size() - static_cast<size_t>(count));
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    for (int size = 0; count > 0; count -= size) {
      if (!Next(&data, &size)) return false;
      if (size <= count) continue;
      BackUp(size - count);
      size = count;
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  absl::Cord::ChunkIterator next_, end_;
  absl::string_view given_, left_;  // the chunk of the last Next; the part that BackUp gave back
  int64_t count_ = 0;
};

// Returns the bytes of a message except its length-delimited fields of that number, each of which `read` takes from the
// stream. False: the message is damaged.
template <typename Read>
bool ReadApart(CodedInputStream& in, int number, const Read& read, std::string* rest) {
  google::protobuf::io::StringOutputStream stream(rest);
  google::protobuf::io::CodedOutputStream out(&stream);
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != TagOf(number)) {
      if (!WireFormatLite::SkipField(&in, tag, &out)) return false;
      continue;
    }
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length) || length > in.BytesUntilLimit()) return false;
    const CodedInputStream::Limit outer = in.PushLimit(length);
    if (!read(length) || in.BytesUntilLimit() != 0) return false;
    in.PopLimit(outer);
  }
  return in.ConsumedEntireMessage();
}

class Parser {
 public:
  Parser(const absl::Cord& bytes, onnx::ModelProto* model, absl::flat_hash_map<std::string, Tensor>* initializers)
      : bytes_(std::make_shared<absl::Cord>(bytes)),
        stream_(*bytes_),
        in_(&stream_),
        model_(*model),
        initializers_(*initializers) {}

  bool Model() {
    in_.PushLimit(static_cast<int>(bytes_->size()));
    std::string rest;
    return ReadApart(
               in_, onnx::ModelProto::kGraphFieldNumber, [&](int) { return Graph(); }, &rest) &&
           model_.MergeFromString(rest);
  }

 private:
  bool Graph() {
    std::string rest;
    return ReadApart(
               in_, onnx::GraphProto::kInitializerFieldNumber, [&](int) { return Initializer(); }, &rest) &&
           model_.mutable_graph()->MergeFromString(rest);
  }

  bool Initializer() {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    absl::string_view in_place;
    std::string rest;
    const auto read = [&](int length) { return Elements(length, &in_place, &proto); };
    if (!ReadApart(in_, onnx::TensorProto::kRawDataFieldNumber, read, &rest)) return false;
    if (!proto.MergeFromString(rest)) return false;
    if (in_place.empty()) return true;
    const std::optional<TensorType> type = TypeOfRawData(proto, in_place.size());
    if (type) {
      initializers_.emplace(proto.name(), Tensor(*type, bytes_, const_cast<char*>(in_place.data())));
    } else {
      proto.set_raw_data(in_place.data(), in_place.size());
    }
    return true;
  }

  bool Elements(int length, absl::string_view* in_place, onnx::TensorProto* proto) {
    const void* data = nullptr;
    int size = 0;
    *in_place = {};  // of several the last one counts
    const bool many = static_cast<size_t>(length) >= kManyElementBytes && in_.GetDirectBufferPointer(&data, &size) &&
                      size == length && reinterpret_cast<uintptr_t>(data) % alignof(std::max_align_t) == 0;
    if (!many) return in_.ReadString(proto->mutable_raw_data(), length);
    *in_place = {static_cast<const char*>(data), static_cast<size_t>(length)};
    return in_.Skip(length);
  }

  const std::shared_ptr<absl::Cord> bytes_;
  CordStream stream_;
  CodedInputStream in_;
  onnx::ModelProto& model_;
  absl::flat_hash_map<std::string, Tensor>& initializers_;
};

absl::Status Parsed(bool whole) {
  return whole ? absl::OkStatus() : absl::InvalidArgumentError("not an ONNX model, or damaged");
}

bool IsUtf8(const std::string& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    unsigned code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if (byte(i + k) >> 6 != 2) return false;
      code = code << 6 | (byte(i + k) & 0x3fu);
    }
    // Rejects overlong forms, UTF-16 surrogates, and numbers beyond the last character.
    constexpr unsigned kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return false;
    i += length;
  }
  return true;
}

absl::Status CheckUtf8(const std::string& text) {
  if (IsUtf8(text)) return absl::OkStatus();
  constexpr size_t kShown = 40;
  return InvalidArgument("holds text that is not UTF-8, \"", absl::CHexEscape(text.substr(0, kShown)), "\"; damaged?");
}

template <typename Texts>
absl::Status CheckAll(const Texts& texts) {
  for (const std::string& text : texts) RETURN_IF_ERROR(CheckUtf8(text));
  return absl::OkStatus();
}

absl::Status CheckNode(const onnx::NodeProto& node) {
  for (const std::string* text : {&node.name(), &node.op_type(), &node.domain()}) RETURN_IF_ERROR(CheckUtf8(*text));
  RETURN_IF_ERROR(CheckAll(node.input()));
  RETURN_IF_ERROR(CheckAll(node.output()));
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    RETURN_IF_ERROR(CheckUtf8(attribute.name()));
    RETURN_IF_ERROR(CheckUtf8(attribute.s()));
  }
  return absl::OkStatus();
}

absl::Status CheckInfo(const onnx::ValueInfoProto& info) {
  RETURN_IF_ERROR(CheckUtf8(info.name()));
  for (const auto& dim : info.type().tensor_type().shape().dim()) RETURN_IF_ERROR(CheckUtf8(dim.dim_param()));
  return absl::OkStatus();
}

absl::Status CheckTensor(const onnx::TensorProto& tensor) {
  RETURN_IF_ERROR(CheckUtf8(tensor.name()));
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    RETURN_IF_ERROR(CheckUtf8(entry.key()));
    RETURN_IF_ERROR(CheckUtf8(entry.value()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseModel(google::protobuf::io::ZeroCopyInputStream* stream, onnx::ModelProto* model) {
  CodedInputStream coded(stream);
  return Parsed(model->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage());
}

absl::Status ParseModel(const absl::Cord& bytes, onnx::ModelProto* model,
                        absl::flat_hash_map<std::string, Tensor>* initializers) {
  return Parsed(Parser(bytes, model, initializers).Model());
}

absl::Status CheckModelText(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  for (const std::string* text : {&model.producer_name(), &model.producer_version(), &model.domain(),
                                  &model.doc_string(), &graph.name(), &graph.doc_string()}) {
    RETURN_IF_ERROR(CheckUtf8(*text));
  }
  for (const onnx::StringStringEntryProto& property : model.metadata_props()) {
    RETURN_IF_ERROR(CheckUtf8(property.key()));
    RETURN_IF_ERROR(CheckUtf8(property.value()));
  }
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) RETURN_IF_ERROR(CheckUtf8(opset.domain()));
  for (const onnx::ValueInfoProto& info : graph.input()) RETURN_IF_ERROR(CheckInfo(info));
  for (const onnx::ValueInfoProto& info : graph.output()) RETURN_IF_ERROR(CheckInfo(info));
  for (const onnx::TensorProto& tensor : graph.initializer()) RETURN_IF_ERROR(CheckTensor(tensor));
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
    RETURN_IF_ERROR(CheckTensor(tensor.values()));
  for (const onnx::NodeProto& node : graph.node()) RETURN_IF_ERROR(CheckNode(node));
  return absl::OkStatus();
}

int64_t TotalBytes(const Initializers& initializers) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : initializers) bytes += tensor.num_bytes();
  return bytes;
}

absl::StatusOr<absl::Cord> SerializeWith(onnx::ModelProto model, const Initializers& initializers) {
  const std::unique_ptr<onnx::GraphProto> graph(model.release_graph());
  const auto begin_field = [](int number, size_t length) {
    std::string field;
    google::protobuf::io::StringOutputStream stream(&field);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteTag(TagOf(number));
    coded.WriteVarint64(length);
    coded.Trim();
    return field;
  };
  std::vector<std::string> heads;  // of each initializer: all before its elements
  size_t graph_bytes = graph->ByteSizeLong();
  for (const auto& [name, tensor] : initializers) {
    onnx::TensorProto proto;
    FillTensorType(name, tensor.type(), &proto);
    const auto elements = static_cast<size_t>(tensor.num_bytes());
    const std::string head =
        absl::StrCat(proto.SerializeAsString(), begin_field(onnx::TensorProto::kRawDataFieldNumber, elements));
    heads.push_back(absl::StrCat(begin_field(onnx::GraphProto::kInitializerFieldNumber, head.size() + elements), head));
    graph_bytes += heads.back().size() + elements;
  }
  const std::string head = begin_field(onnx::ModelProto::kGraphFieldNumber, graph_bytes);
  const size_t size = model.ByteSizeLong() + head.size() + graph_bytes;
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError("the model is larger than 2 GiB, where protobuf ends");
  }
  std::string copied;
  const bool whole = model.AppendToString(&copied) && (copied.append(head), graph->AppendToString(&copied));
  if (!whole) return absl::InternalError("the model could not be serialized");
  absl::Cord bytes;
  for (size_t i = 0; i < initializers.size(); ++i) {
    const Tensor& tensor = initializers[i].second;
    const absl::string_view elements(static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.num_bytes()));
    copied.append(heads[i]);
    if (elements.size() < kManyElementBytes) {
      copied.append(elements.data(), elements.size());
    } else {
      bytes.Append(std::exchange(copied, ""));
      bytes.Append(absl::MakeCordFromExternal(elements, [tensor] {}));  // which keeps them
    }
  }
  bytes.Append(std::move(copied));
  return bytes;
}

namespace {

// Written in pieces: pages of a mapped file occupy memory from their first read until they are given back.
absl::Status WriteInPieces(OutputFile& file, const void* data, int64_t bytes) {
  constexpr int64_t kPiece = int64_t{32} << 20;
  const char* const from = static_cast<const char*>(data);
  for (int64_t done = 0; done < bytes; done += kPiece) {
    const int64_t piece = std::min(kPiece, bytes - done);
    RETURN_IF_ERROR(file.Write(from + done, piece));
    ReleasePages(from + done, piece);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteTo(OutputFile& file, const absl::Cord& bytes) {
  for (absl::string_view chunk : bytes.Chunks()) {
    RETURN_IF_ERROR(WriteInPieces(file, chunk.data(), static_cast<int64_t>(chunk.size())));
  }
  return absl::OkStatus();
}

absl::Status WriteSerialized(const absl::Cord& bytes, const std::string& path,
                             const std::function<absl::Status()>& check) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(WriteTo(file, bytes));
  if (check) RETURN_IF_ERROR(check());
  return file.Commit();
}

absl::Status AddExternal(const Initializers& initializers, const std::string& location, OutputFile& data,
                         onnx::GraphProto* graph) {
  const std::string zeros(kExternalAlignment, '\0');
  int64_t offset = 0;
  for (const auto& [name, tensor] : initializers) {
    onnx::TensorProto* proto = graph->add_initializer();
    if (tensor.num_bytes() < kMinExternalBytes) {
      FillTensor(name, tensor, proto);
      continue;
    }
    const int64_t gap = (kExternalAlignment - offset % kExternalAlignment) % kExternalAlignment;
    RETURN_IF_ERROR(data.Write(zeros.data(), gap));
    offset += gap;
    RETURN_IF_ERROR(WriteInPieces(data, tensor.data(), tensor.num_bytes()));
    FillTensorType(name, tensor.type(), proto);
    proto->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair<std::string, std::string>("location", location),
                                     {"offset", absl::StrCat(offset)},
                                     {"length", absl::StrCat(tensor.num_bytes())}}) {
      onnx::StringStringEntryProto* entry = proto->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    offset += tensor.num_bytes();
  }
  return absl::OkStatus();
}

}  // namespace rewright
