// Concatenations: operands are written straight into the result where they lie in one piece, else copied.
#include <cstring>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

// Channels that come to lie in one block of the result, from one block of an operand. No operand: zeros.
struct Piece {
  int operand = -1;
  int64_t from = 0;  // elements from the first of the operand's image
  int64_t to = 0;    // channels from the first of the block
  int64_t channels = 0;
};

// Images in blocks, behind one another in their channels, where blocks do not begin where operands do. Buffers: the
// operands, each in dense blocks, and the result, whose blocks without pieces are left as they are.
template <int kBlock>
class JoinBlocks : public Kernel {
 public:
  // `pieces`: of each block of the result, by ascending channels, to the end of the block.
  JoinBlocks(const std::vector<Layout>& operands, const Layout& result, std::vector<std::vector<Piece>> pieces,
             int threads)
      : operands_(operands.size()),
        points_(result.strides[1] / kBlock),
        blocks_(static_cast<int64_t>(pieces.size())),
        images_(result.dims[0]),
        image_(result.strides[0]),
        pieces_(std::move(pieces)) {
    for (const Layout& operand : operands) operand_images_.push_back(operand.strides[0]);
    const int64_t units = images_ * blocks_;
    threads_ = ThreadsFor(units * points_ * kBlock, kSharedElements, units, threads);
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    ForEach(images_ * blocks_, threads_, [&](int64_t unit) {
      const int64_t image = unit / blocks_, block = unit % blocks_;
      auto* const to = static_cast<float*>(buffers[operands_]) + image * image_ + block * points_ * kBlock;
      Fill(buffers, image, pieces_[static_cast<size_t>(block)], to);
    });
    return absl::OkStatus();
  }

 private:
  // A piece is copied as a whole block, whose further channels the next piece or point overwrites.
  void Fill(void* const* buffers, int64_t image, const std::vector<Piece>& pieces, float* to) const {
    static constexpr float kZeros[kBlock] = {};
    const auto at = [&](const Piece& piece, int64_t point) {
      if (piece.operand < 0) return kZeros;
      const size_t k = static_cast<size_t>(piece.operand);
      return static_cast<const float*>(buffers[k]) + image * operand_images_[k] + piece.from + point * kBlock;
    };
    for (int64_t point = 0; point + 1 < points_; ++point) {
      for (const Piece& piece : pieces) {
        std::memcpy(to + point * kBlock + piece.to, at(piece, point), kBlock * sizeof(float));
      }
    }
    for (const Piece& piece : pieces) {
      std::memcpy(to + (points_ - 1) * kBlock + piece.to, at(piece, points_ - 1),
                  static_cast<size_t>(piece.channels) * sizeof(float));
    }
  }

  const size_t operands_;
  const int64_t points_, blocks_, images_, image_;  // image_: elements from one to the next
  const std::vector<std::vector<Piece>> pieces_;
  std::vector<int64_t> operand_images_;
  int threads_ = 1;
};

// Returns whether the operands are joined in blocks: channels of images, most of which lie in blocks.
bool Joins(const LayoutQuery& query) {
  const std::vector<Value>& operands = query.node().operands;
  int64_t blocked = 0;
  for (size_t k = 0; k < operands.size(); ++k) blocked += query.operand(k).block == query.context.block ? 1 : 0;
  return 2 * blocked > static_cast<int64_t>(operands.size()) && Int(query.node(), "axis") == 1 && !query.returned &&
         query.graph.type(query.value).dtype == DType::kFloat32 && query.graph.mode() != Mode::kTraining;
}

// Blocked where all operands are, with whole blocks, or where they are joined. One point per image is row-major and
// blocked at once.
std::optional<Layout> ConcatLayout(const LayoutQuery& query) {
  if (Joins(query)) return Layout::Blocked(query.dims(), query.context.block);
  const int64_t block = query.operand(0).block;
  for (size_t k = 0; k < query.node().operands.size(); ++k) {
    const Layout layout = query.operand(k);
    if (layout.block != block || layout.IsPadded()) return std::nullopt;
  }
  return block > 0 ? std::optional(Layout::Blocked(query.dims(), block)) : std::nullopt;
}

// The pieces of an operand whose channels begin at channel `begin` of the result.
void AddPieces(const Layout& operand, int number, int64_t begin, std::vector<std::vector<Piece>>* pieces) {
  const int64_t block = operand.block;
  for (int64_t c = 0; c < operand.dims[1];) {
    const int64_t to = (begin + c) % block, within = c % block;
    const int64_t channels = std::min({block - to, block - within, operand.dims[1] - c});
    (*pieces)[static_cast<size_t>((begin + c) / block)].push_back(
        {number, c / block * operand.strides[1] + within, to, channels});
    c += channels;
  }
}

// Operands by their channels in blocks of the result.
absl::Status EmitJoin(Lowering& lowering, const Node& node, const Layout& to, int result) {
  std::vector<std::vector<Piece>> pieces(static_cast<size_t>((to.dims[1] + to.block - 1) / to.block));
  std::vector<Layout> layouts;
  std::vector<BufferUse> uses;
  int64_t begin = 0;
  for (Value x : node.operands) {
    const Layout own = Layout::Blocked(lowering.graph().type(x).shape, to.block);
    ASSIGN_OR_RETURN(const Place place, lowering.FindAs(x, own));
    const bool whole = begin % to.block == 0 && !own.IsPadded() && to.dims[0] == 1;
    const size_t offset = static_cast<size_t>(begin / to.block * to.strides[1]) * sizeof(float);
    const bool lies_there = whole && lowering.ClaimPart(place.buffer, lowering.Bytes(x, own), result, offset);
    if (!lies_there) {
      AddPieces(own, static_cast<int>(layouts.size()), begin, &pieces);
      layouts.push_back(own);
      uses.push_back(Lowering::Read(place.buffer));
    }
    begin += own.dims[1];
  }
  if (to.IsPadded()) pieces.back().push_back({-1, 0, begin % to.block, to.block - begin % to.block});
  uses.push_back(Lowering::Write(result));
  const int threads = lowering.threads();
  KernelPtr kernel;
  if (to.block == 8) {
    kernel = std::make_unique<JoinBlocks<8>>(layouts, to, std::move(pieces), threads);
  } else {
    kernel = std::make_unique<JoinBlocks<16>>(layouts, to, std::move(pieces), threads);
  }
  lowering.Emit(std::move(kernel), std::move(uses), "concat");
  return absl::OkStatus();
}

absl::StatusOr<bool> PlanConcat(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value out{id, 0};
  const Shape& dims = graph.type(out).shape;
  const size_t axis = Int(node, "axis");
  const DType dtype = graph.type(out).dtype;
  std::vector<Place> places;
  bool whole_blocks = true;
  for (Value x : node.operands) {
    ASSIGN_OR_RETURN(places.emplace_back(), lowering.Find(x));
    const Layout& layout = places.back().layout;
    whole_blocks = whole_blocks && layout.blocked() && !layout.IsPadded();
  }
  const Layout to = lowering.LayoutOf(group, out);
  const bool is_whole = SizesAround(dims, axis).outer == 1;
  const int result = lowering.Define(out, to).buffer;
  if (to.blocked() && !whole_blocks) {
    RETURN_IF_ERROR(EmitJoin(lowering, node, to, result));
    return true;
  }
  int64_t begin = 0;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const Value x = node.operands[k];
    const Shape& x_dims = graph.type(x).shape;
    const Layout own = to.blocked() ? Layout::Blocked(x_dims, to.block) : Layout::RowMajor(x_dims);
    const int64_t offset = to.blocked() && axis == 1 ? begin / to.block * to.strides[1] : begin * to.strides[axis];
    begin += x_dims[axis];
    Place place = places[k];
    if (is_whole && place.layout == Simplified(own) &&
        lowering.ClaimPart(place.buffer, lowering.Bytes(x, own), result,
                           static_cast<size_t>(offset) * DTypeSize(dtype))) {
      continue;
    }
    if (place.layout.IsPadded() || (place.layout.blocked() && to.blocked() && place.layout.block != to.block)) {
      ASSIGN_OR_RETURN(place, lowering.FindAs(x, own));
    }
    lowering.EmitCopy(place, {result, {x_dims, to.strides, to.block}}, dtype, "concat", 0, offset);
  }
  return true;
}

}  // namespace

KernelEntry ConcatEntry() {
  return {.ops = {ops::Concat()}, .plan = PlanConcat, .layout = ConcatLayout, .version = 2};
}

}  // namespace rewright::cpu
