// Convolutions of stride 1 by Winograd's algorithms, where a proved law allows them and the costs say that they pay
// (docs/winograd.md). Weights that are known before the run are brought to the points once; those that change, in
// training, in every run, by F(2, r) alone.
//
// Tiles of m x m outputs: what a tile reads becomes a x a numbers per channel (a = m + r - 1), one product of matrices
// [tiles, channels] x [channels, outputs] follows for each of these, and a x a numbers per output channel become m x m
// results. Tiles go through in blocks that stay in the caches.
#include "backends/cpu/simd/winograd.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/winograd/meaning.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kDepth = 256;  // channels of one pass of the product: a panel stays in the first cache

WinogradForm FormOf(const WinogradTransforms& t) { return {t.rows, t.kernel_rows, t.columns, t.kernel_columns}; }
int64_t PointsOf(const WinogradTransforms& t) {
  return int64_t{t.rows + t.kernel_rows - 1} * (t.columns + t.kernel_columns - 1);
}

// The convolution of a group by one of the algorithms.
struct WinogradProblem {
  const WinogradTransforms* transforms = nullptr;
  WinogradImage image;
  int64_t images = 1, points = 0;
  int64_t tiles = 0;  // of all images
  int64_t block = 0;  // tiles that go through at a time
  PostOps post_ops;

  int64_t blocks() const { return (tiles + block - 1) / block; }
  bool staged() const { return block == tiles; }
  // An odd number of cache lines between the planes of points: their stores must not fall into one set.
  int64_t in_plane() const { return (AlignUp(block * image.channels, 16) / 16 | 1) * 16; }
  int64_t out_plane() const { return (AlignUp(block * image.outputs, 16) / 16 | 1) * 16; }
  int64_t floats_of_block() const { return points * (in_plane() + out_plane()); }
  // The bytes of the packed weights at one point, an odd number of cache lines likewise.
  size_t packed_bytes() const { return (PackedMatmulBytes(image.channels, image.outputs) / 64 | 1) * 64; }
  size_t weights_bytes() const { return static_cast<size_t>(points) * packed_bytes(); }
};

// Tiles that go through at a time, in whole runs of the product's kernel. The data between the stages shall stay in the
// second cache, as long as the weights, which every block reads again, stay in the third; where they do not, blocks are
// as large as the third cache. (Measured: bench/winograd_bench.)
int64_t ChooseBlock(const WinogradProblem& problem, int threads) {
  constexpr int64_t kSecond = 400 << 10, kThird = 16 << 20, kFewWeights = 4 << 20;
  const int64_t weights = static_cast<int64_t>(problem.weights_bytes());
  const int64_t tile = 4 * problem.points * (problem.image.channels + problem.image.outputs);
  const int64_t unit = Simd().gemm_rows;
  const int64_t least = weights <= kFewWeights ? unit : 2 * unit;
  const int64_t block = std::max((weights <= kThird ? kSecond : kThird) / tile / unit * unit, least);
  const int64_t parts = (problem.tiles + block - 1) / block;
  return parts < threads ? problem.tiles : (problem.tiles + parts - 1) / parts;
}

WinogradProblem ProblemOf(const WinogradTransforms& transforms, const ConvProblem& conv, int64_t lanes, int threads) {
  WinogradProblem problem;
  problem.transforms = &transforms;
  problem.image = {conv.src[2],
                   conv.src[3],
                   conv.dst[2],
                   conv.dst[3],
                   conv.pads[0],
                   conv.pads[1],
                   AlignUp(conv.src[1], lanes),
                   AlignUp(conv.dst[1], lanes)};
  problem.image.tiles_down = (conv.dst[2] + transforms.rows - 1) / transforms.rows;
  problem.image.tiles_right = (conv.dst[3] + transforms.columns - 1) / transforms.columns;
  problem.images = conv.src[0];
  problem.tiles = problem.images * problem.image.tiles_down * problem.image.tiles_right;
  problem.points = PointsOf(transforms);
  problem.post_ops = conv.post_ops;
  problem.block = ChooseBlock(problem, threads);
  return problem;
}

// Goes through weights[outputs, channels, rows, columns] in vectors of outputs, at each channel, and through the places
// at which they lie at the first point, packed as products read them (PackMatmulWeights). `transform` gets the first
// weight of a vector, the number of its outputs, and the place; the next point is `plane` floats behind it. Behind the
// last output or channel the number is 0: zeros have to stand there.
template <typename Transform>
void ForEachWeightVector(const float* weights, int64_t outputs, int64_t channels, const WinogradProblem& problem,
                         int threads, float* packed, const Transform& transform) {
  const int64_t taps = int64_t{problem.transforms->kernel_rows} * problem.transforms->kernel_columns;
  const int64_t lanes = Simd().lanes, depth = problem.image.channels, columns = Simd().gemm_columns;
  const int64_t vectors = AlignUp(problem.image.outputs, columns) / lanes;
  ForEach(vectors, threads, [&](int64_t vector) {
    const int64_t output = vector * lanes;
    const int64_t count = std::clamp<int64_t>(outputs - output, 0, lanes);
    float* const to = packed + output / columns * columns * depth + output % columns;
    for (int64_t c = 0; c < depth; ++c) {
      const bool any = c < channels && count > 0;
      transform(any ? weights + (output * channels + c) * taps : weights, any ? count : 0, to + c * columns);
    }
  });
}

// The matrix that takes the taps along one axis to the points, [points][taps].
std::vector<double> KernelMatrix(int outputs, int taps) {
  const WinogradFactors factors = FactorsOf(outputs, taps);
  std::vector<double> matrix(static_cast<size_t>((outputs + taps - 1) * taps), 1.0);
  if (factors.kernel == nullptr) return matrix;
  for (size_t k = 0; k < matrix.size(); ++k) matrix[k] = factors.kernel[k].value();
  return matrix;
}

// Brings weights that are known before the run to the points, in double precision.
void PackWeightsAtPoints(const float* weights, int64_t outputs, int64_t channels, const WinogradProblem& problem,
                         int threads, float* packed) {
  constexpr int kMostLanes = 16, kMostTaps = 9;  // taps along one axis
  const WinogradTransforms& t = *problem.transforms;
  const std::vector<double> rows = KernelMatrix(t.rows, t.kernel_rows);
  const std::vector<double> columns = KernelMatrix(t.columns, t.kernel_columns);
  const int down = t.rows + t.kernel_rows - 1, right = t.columns + t.kernel_columns - 1;
  const int64_t stride = channels * t.kernel_rows * t.kernel_columns, lanes = Simd().lanes;
  const int64_t plane = static_cast<int64_t>(problem.packed_bytes() / sizeof(float));
  const auto transform = [&](const float* from, int64_t count, float* to) {
    double taps[kMostTaps][kMostTaps][kMostLanes], half[kMostTaps][kMostLanes];
    for (int r = 0; r < t.kernel_rows; ++r) {
      for (int s = 0; s < t.kernel_columns; ++s, ++from) {
        std::fill_n(taps[r][s], kMostLanes, 0.0);
        for (int64_t lane = 0; lane < count; ++lane) taps[r][s][lane] = static_cast<double>(from[lane * stride]);
      }
    }
    for (int i = 0; i < down; ++i) {
      for (int s = 0; s < t.kernel_columns; ++s) {
        std::fill_n(half[s], kMostLanes, 0.0);
        for (int r = 0; r < t.kernel_rows; ++r) {
          const double factor = rows[static_cast<size_t>(i * t.kernel_rows + r)];
          for (int lane = 0; lane < kMostLanes; ++lane) half[s][lane] += factor * taps[r][s][lane];
        }
      }
      for (int j = 0; j < right; ++j, to += plane) {
        double sum[kMostLanes] = {};
        for (int s = 0; s < t.kernel_columns; ++s) {
          const double factor = columns[static_cast<size_t>(j * t.kernel_columns + s)];
          for (int lane = 0; lane < kMostLanes; ++lane) sum[lane] += factor * half[s][lane];
        }
        for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = static_cast<float>(sum[lane]);
      }
    }
  };
  ForEachWeightVector(weights, outputs, channels, problem, threads, packed, transform);
}

// Buffers: src, [the weights at the points], [bias], [scale], [shift], [residual], the weights as they are, dst,
// scratch. Weights that change are brought to the points in the scratch memory. Where a result is not finite the
// convolution is computed directly: tiles spread what is not finite.
class WinogradKernel : public Kernel {
 public:
  // `weights`: their sizes [outputs, channels, rows, columns].
  WinogradKernel(const WinogradProblem& problem, const std::vector<int64_t>& weights, bool weights_known,
                 ConvInstead direct, int threads)
      : problem_(problem),
        outputs_(weights[0]),
        channels_(weights[1]),
        weights_known_(weights_known),
        direct_(std::move(direct)),
        threads_(threads) {}

  size_t scratch_bytes() const {
    const size_t copies = problem_.staged() ? 1 : static_cast<size_t>(threads_);
    const size_t tiles = copies * static_cast<size_t>(problem_.floats_of_block()) * sizeof(float);
    return std::max(PackedWeights() + tiles, direct_.scratch_bytes());
  }

  absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const override { return direct_.MakeHandles(); }

  absl::Status Run(void* const* buffers, RunContext& context) const override {
    Arguments arguments;
    void* const* next = buffers;
    arguments.src = static_cast<const float*>(*next++);
    if (weights_known_) arguments.weights = static_cast<const char*>(*next++);
    arguments.epilogue = TakeEpilogue(problem_.post_ops, &next);
    void* const plain = *next++;
    arguments.dst = static_cast<float*>(*next++);
    char* const scratch = static_cast<char*>(*next);
    arguments.scratch = reinterpret_cast<float*>(scratch + PackedWeights());
    if (!weights_known_) {
      Pack(static_cast<const float*>(plain), reinterpret_cast<float*>(scratch));
      arguments.weights = scratch;
    }
    if (Compute(arguments)) {
      const size_t fused = FusedFunctions(arguments.epilogue);
      if (problem_.post_ops.activations.size() > fused) ActivateRows(arguments.dst, fused);
      return absl::OkStatus();
    }
    return direct_.Run(buffers, weights_known_, *context.handles);
  }

 private:
  struct Arguments {
    const float* src = nullptr;
    const char* weights = nullptr;
    ConvEpilogue epilogue;
    float* dst = nullptr;
    float* scratch = nullptr;
  };

  // Bytes of this kernel's weights in scratch memory; 0 where they are packed beforehand.
  size_t PackedWeights() const {
    return weights_known_ ? 0 : AlignUp(static_cast<int64_t>(problem_.weights_bytes()), 64);
  }

  void ActivateRows(float* dst, size_t first) const {
    const int64_t row = problem_.image.out_width * Simd().lanes;
    const int64_t rows = problem_.images * problem_.image.outputs / Simd().lanes * problem_.image.out_height;
    ForEach(rows, threads_, [&](int64_t i) { Activate(problem_.post_ops.activations, first, dst + i * row, row); });
  }

  // Brings weights that change to the points.
  void Pack(const float* weights, float* packed) const {
    const WinogradTransforms& transforms = *problem_.transforms;
    const int64_t taps = int64_t{transforms.kernel_rows} * transforms.kernel_columns;
    const int64_t plane = static_cast<int64_t>(problem_.packed_bytes() / sizeof(float));
    ForEachWeightVector(weights, outputs_, channels_, problem_, threads_, packed,
                        [&](const float* from, int64_t count, float* to) {
                          transforms.kernel(from, channels_ * taps, count, to, plane);
                        });
  }

  // Units that a thread takes at a time: few enough that one that gets less of its processor leaves its share to
  // others.
  int64_t Claim(int64_t units) const { return std::max<int64_t>(1, units / (4 * threads_)); }

  // False where a result cannot be trusted.
  bool Compute(const Arguments& arguments) const {
    std::atomic<bool> trusted = true;
    const auto distrust = [&](bool fine) {
      if (!fine) trusted.store(false, std::memory_order_relaxed);
    };
    const int64_t lanes = Simd().lanes;
    const int64_t in_blocks = problem_.image.channels / lanes, out_blocks = problem_.image.outputs / lanes;
    float* const v = arguments.scratch;
    if (problem_.staged()) {
      float* const m = v + problem_.points * problem_.in_plane();
      const int64_t panels = (problem_.image.outputs + Simd().gemm_columns - 1) / Simd().gemm_columns;
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
      {
#pragma omp for schedule(dynamic, Claim(problem_.tiles* in_blocks))
        for (int64_t unit = 0; unit < problem_.tiles * in_blocks; ++unit) {
          In(arguments, unit % problem_.tiles, unit % problem_.tiles, unit / problem_.tiles, v);
        }
#pragma omp for schedule(dynamic, Claim(problem_.points* panels))
        for (int64_t unit = 0; unit < problem_.points * panels; ++unit) {
          Product(arguments, unit / panels, unit % panels, unit % panels + 1, problem_.tiles, v, m);
        }
#pragma omp for schedule(dynamic, Claim(problem_.tiles* out_blocks))
        for (int64_t unit = 0; unit < problem_.tiles * out_blocks; ++unit) {
          distrust(Out(arguments, unit % problem_.tiles, unit % problem_.tiles, unit / problem_.tiles, m));
        }
      }
      return trusted;
    }
    const int64_t blocks = problem_.blocks();
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
    {
      float* const own_v = v + omp_get_thread_num() * problem_.floats_of_block();
      float* const own_m = own_v + problem_.points * problem_.in_plane();
      const int64_t panels = (problem_.image.outputs + Simd().gemm_columns - 1) / Simd().gemm_columns;
#pragma omp for schedule(dynamic)
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = problem_.tiles * block / blocks, last = problem_.tiles * (block + 1) / blocks;
        for (int64_t c = 0; c < in_blocks; ++c) {
          for (int64_t tile = first; tile < last; ++tile) In(arguments, tile, tile - first, c, own_v);
        }
        for (int64_t p = 0; p < problem_.points; ++p) Product(arguments, p, 0, panels, last - first, own_v, own_m);
        for (int64_t o = 0; o < out_blocks; ++o) {
          for (int64_t tile = first; tile < last; ++tile) distrust(Out(arguments, tile, tile - first, o, own_m));
        }
      }
    }
    return trusted;
  }

  struct Where {
    int64_t image, down, right;
  };
  Where Locate(int64_t tile) const {
    const int64_t of_image = problem_.image.tiles_down * problem_.image.tiles_right;
    return {tile / of_image, tile % of_image / problem_.image.tiles_right, tile % problem_.image.tiles_right};
  }

  // The tile, stored as number `at` of its block.
  void In(const Arguments& arguments, int64_t tile, int64_t at, int64_t block, float* v) const {
    const WinogradImage& image = problem_.image;
    const Where where = Locate(tile);
    problem_.transforms->in(image, arguments.src + where.image * image.channels * image.height * image.width,
                            where.down, where.right, block, v + at * image.channels + block * Simd().lanes,
                            problem_.in_plane());
  }

  bool Out(const Arguments& arguments, int64_t tile, int64_t at, int64_t block, const float* m) const {
    const WinogradImage& image = problem_.image;
    const Where where = Locate(tile);
    const int64_t offset = where.image * image.outputs * image.out_height * image.out_width;
    ConvEpilogue epilogue = arguments.epilogue;
    if (epilogue.residual != nullptr) epilogue.residual += offset;
    return problem_.transforms->out(image, m + at * image.outputs + block * Simd().lanes, problem_.out_plane(),
                                    where.down, where.right, block, epilogue, arguments.dst + offset);
  }

  void Product(const Arguments& arguments, int64_t point, int64_t first_panel, int64_t last_panel, int64_t rows,
               const float* v, float* m) const {
    const SimdTable& simd = Simd();
    const int64_t depth = problem_.image.channels, columns = problem_.image.outputs;
    const int64_t panels = (columns + simd.gemm_columns - 1) / simd.gemm_columns;
    const float* const a = v + point * problem_.in_plane();
    float* const c = m + point * problem_.out_plane();
    const auto weights = [&](int64_t of_point, int64_t panel, int64_t k) {
      const char* const b = arguments.weights + static_cast<size_t>(of_point) * problem_.packed_bytes();
      return reinterpret_cast<const float*>(b) + (panel * depth + k) * simd.gemm_columns;
    };
    const int64_t parts = (rows + simd.gemm_rows - 1) / simd.gemm_rows;
    for (int64_t k = 0; k < depth; k += kDepth) {
      const int64_t some = std::min(kDepth, depth - k);
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        // A model reads every weight once a run, so weights come from memory; they are as many bytes as all other
        // operands together. So the next weights are prefetched.
        const float* next = nullptr;
        if (panel + 1 < last_panel) {
          next = weights(point, panel + 1, k);
        } else if (k + kDepth < depth) {
          next = weights(point, first_panel, k + kDepth);
        } else if (last_panel < panels) {
          next = weights(point, last_panel, 0);
        } else if (point + 1 < problem_.points) {
          next = weights(point + 1, 0, 0);
        }
        const int64_t column = panel * simd.gemm_columns;
        const int64_t width = std::min<int64_t>(simd.gemm_columns, columns - column);
        // One for each k by the first parts: spread over all of them they come too late where these are few.
        const int64_t of_panel = simd.gemm_columns / kLineFloats, share = parts < of_panel ? some * of_panel : some;
        int64_t lines = next == nullptr ? 0 : some * of_panel;
        for (int64_t part = 0; part < parts; ++part) {
          const int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
          simd.gemm_block(a + begin * depth + k, depth, 1, weights(point, panel, k), some, c + begin * columns + column,
                          columns, end - begin, width, k > 0, nullptr, next, std::min(share, lines));
          next += lines > 0 ? share * kLineFloats : 0;
          lines -= share;
        }
      }
    }
  }

  const WinogradProblem problem_;
  const int64_t outputs_, channels_;  // as they are, without those that fill blocks
  const bool weights_known_;
  const ConvInstead direct_;
  const int threads_;
};

// Returns whether the kernels here run such convolutions at all.
bool IsPossible(const DnnlContext& context, const Graph& graph, const FusedGroup& group, const ConvProblem& problem) {
  const Node& node = graph.node(group.group.nodes[0]);
  const auto one = [](const std::vector<int64_t>& list) { return list == std::vector<int64_t>{1, 1}; };
  // Elsewhere oneDNN, which lays out the images, has no blocked form.
  for (size_t k = 0; k < 4; ++k) {
    if (problem.pads[k] >= problem.weights[2 + k % 2]) return false;
  }
  if (!one(problem.strides) || !one(problem.dilations) || problem.groups != 1) return false;
  if (ComputedDType(graph.type(node.operands[0]).dtype) != DType::kFloat32) return false;
  if (context.block != Simd().lanes || problem.src[1] < context.block / 2) return false;
  const bool padded = problem.dst[1] % context.block != 0;
  if (padded && !std::all_of(problem.post_ops.activations.begin(), problem.post_ops.activations.end(), KeepsZero)) {
    return false;
  }
  const double operations = 2.0 * static_cast<double>(NumElements(problem.dst)) *
                            static_cast<double>(NumElements(problem.weights) / problem.weights[0]);
  return operations >= kMinOperations;
}

// An application of its own, with operands of those types as they are computed: 16-bit floats in f32.
struct Alone {
  Graph graph;
  NodeId application = -1;
  Value x, w;
};
absl::StatusOr<Alone> AloneOf(const Graph& graph, const Node& node) {
  auto arena = std::make_shared<Arena>();
  Alone alone;
  const auto computed = [&](Value x) { return TensorType{ComputedDType(graph.type(x).dtype), graph.type(x).shape}; };
  ASSIGN_OR_RETURN(alone.x, arena->AddInput("x", computed(node.operands[0])));
  ASSIGN_OR_RETURN(alone.w, arena->AddInput("w", computed(node.operands[1])));
  ASSIGN_OR_RETURN(alone.application, arena->Add(*node.op, {alone.x, alone.w}, node.attrs));
  alone.graph = Graph(arena, {alone.x, alone.w}, {{Value{alone.application, 0}, "y"}});
  return alone;
}

// Returns whether a convolution with weights that change is computed by Winograd. The weights are transformed once for
// all tiles, so there must be many tiles, and more if a fifth of their results lies outside of the image. (Measured:
// bench/winograd_bench --training 1.) Rounding errors of m >= 3, a hundred roundings, would add up in training. Nothing
// is measured when a graph is compiled, so that a run that is resumed computes by the same kernels.
bool PaysInEveryRun(const WinogradForm& form, const ConvProblem& problem) {
  constexpr int64_t kLeastTiles = 48, kLeastWithEdges = 128, kLeastChannels = 32, kChannelsOfTile = 12;
  const int64_t pixels = problem.dst[0] * problem.dst[2] * problem.dst[3];
  const int64_t tiles = problem.dst[0] * ((problem.dst[2] + form.rows - 1) / form.rows) *
                        ((problem.dst[3] + form.columns - 1) / form.columns);
  const auto [fewer, more] = std::minmax(problem.src[1], problem.dst[1]);
  const bool has_edges = 5 * pixels < 4 * tiles * form.rows * form.columns;
  const int64_t least = std::max(has_edges ? kLeastWithEdges : kLeastTiles, more / kChannelsOfTile);
  return form.rows == 2 && form.columns == 2 && fewer >= kLeastChannels && tiles >= least;
}

std::vector<std::string> Laws(const DnnlContext& context, const Graph& graph, const FusedGroup& group) {
  std::vector<std::string> laws;
  if (context.allowed_rewrites == nullptr || group.kind != FusedGroup::Kind::kConv) return laws;
  if (MultipliesTilesOfBf16() && ConvRunsInBf16(context, graph, group)) return laws;
  const ConvProblem problem = ConvProblemOf(graph, group);
  if (!IsPossible(context, graph, group, problem)) return laws;
  absl::StatusOr<Alone> alone = AloneOf(graph, graph.node(group.group.nodes[0]));
  if (!alone.ok()) return laws;
  const WinogradTable table = WinogradAlgorithms();
  const bool known = graph.IsKnown(graph.node(group.group.nodes[0]).operands[1]);
  for (int k = 0; k < table.count; ++k) {
    const WinogradForm form = FormOf(table.first[k]);
    if (!known && !PaysInEveryRun(form, problem)) continue;
    if (form.kernel_rows != problem.weights[2] || form.kernel_columns != problem.weights[3]) continue;
    // Tiles larger than the image only add work.
    if (form.rows > problem.dst[2] + 1 || form.columns > problem.dst[3] + 1) continue;
    const absl::StatusOr<Value> meaning =
        WinogradMeaning(*alone->graph.arena(), alone->x, alone->w, problem.pads, form);
    const std::string law = WinogradLaw(form);
    if (meaning.ok() && context.allowed_rewrites->Allow(law, alone->graph, alone->application, *meaning))
      laws.push_back(law);
  }
  return laws;
}

const WinogradTransforms* Find(const std::string& law) {
  const WinogradTable table = WinogradAlgorithms();
  for (int k = 0; k < table.count; ++k) {
    if (WinogradLaw(FormOf(table.first[k])) == law) return &table.first[k];
  }
  return nullptr;
}

absl::StatusOr<bool> PlanWinograd(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kConv) return false;
  ASSIGN_OR_RETURN(const std::string law, lowering.LawOf(group));
  const WinogradTransforms* const transforms = Find(law);
  if (transforms == nullptr) return false;
  const Graph& graph = lowering.graph();
  const Node& node = graph.node(group.group.nodes[0]);
  const int64_t lanes = lowering.context()->block;
  const ConvProblem conv = ConvProblemOf(graph, group);
  ASSIGN_OR_RETURN(ConvPlan direct, MakeConv(lowering.context(), conv));
  if (direct.src != Layout::Blocked(conv.src, lanes) || direct.dst != Layout::Blocked(conv.dst, lanes)) return false;
  const WinogradProblem problem = ProblemOf(*transforms, conv, lanes, lowering.threads());

  std::vector<BufferUse> buffers;
  ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadAs(node.operands[0], direct.src));
  const bool known = graph.IsKnown(node.operands[1]);
  if (known) {
    ASSIGN_OR_RETURN(const Tensor plain, lowering.ConstantTensor(node.operands[1]));
    const size_t bytes = problem.weights_bytes();
    ASSIGN_OR_RETURN(std::shared_ptr<void> packed, AllocatePacked(bytes, plain.type()));
    PackWeightsAtPoints(static_cast<const float*>(plain.data()), conv.weights[0], conv.weights[1], problem,
                        lowering.threads(), static_cast<float*>(packed.get()));
    buffers.push_back(Lowering::Read(lowering.AddConstant(std::move(packed), bytes)));
  }
  RETURN_IF_ERROR(ReadEpilogue(lowering, group, conv.dst[1], problem.image.outputs, direct.dst, &buffers));
  ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadRowMajor(node.operands[1]));
  buffers.push_back(Lowering::Write(lowering.Define(group.group.outputs[0], direct.dst).buffer));
  ASSIGN_OR_RETURN(ConvInstead instead, ConvInstead::Make(lowering.context(), conv, std::move(direct)));
  auto kernel = std::make_unique<WinogradKernel>(problem, conv.weights, known, std::move(instead), lowering.threads());
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(kernel->scratch_bytes())));
  lowering.Emit(std::move(kernel), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (winograd:", Simd().name, " by ", law, ")"));
  return true;
}

}  // namespace

// Its results lie as oneDNN's do: Conv says how.
KernelEntry WinogradEntry() { return {.ops = {ops::Conv2d()}, .plan = PlanWinograd, .laws = Laws, .version = 5}; }

}  // namespace rewright::cpu
