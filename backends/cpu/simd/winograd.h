// The transforms of Winograd's convolutions on blocked images, once per instruction set (see simd.h).
//
// A tile is m x m outputs (1 x m or m x 1 for kernels of one row or column); what it reads becomes a x a numbers per
// channel, a = m + r - 1, each in a plane of its own: element (tile, channel) of plane p lies at
// v[p * plane + tile * channels + channel].
#pragma once

#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

// A convolution of stride 1. Images are blocked by the lanes of a vector (nChw8c, nChw16c).
struct WinogradImage {
  long height = 0, width = 0;          // of what is read
  long out_height = 0, out_width = 0;  // of the result
  long top = 0, left = 0;              // padding
  long channels = 0, outputs = 0;      // whole blocks
  long tiles_down = 0, tiles_right = 0;
};

struct WinogradTransforms {
  int rows, kernel_rows, columns, kernel_columns;  // F(rows x columns, kernel_rows x kernel_columns)
  // Channels [block * lanes, (block + 1) * lanes) of the tile down the image `down` and `right`, to v.
  void (*in)(const WinogradImage& image, const float* src, long down, long right, long block, float* v, long plane);
  // Transforms m to the result. False where a number is not finite, or too large to be trusted: |y| >= 2^100.
  bool (*out)(const WinogradImage& image, const float* m, long plane, long down, long right, long block,
              const ConvEpilogue& epilogue, float* dst);
  // The kernels of `outputs` output channels, at most a vector of them, for one input channel: at the points, to
  // to[point * plane + output], zeros behind the last output. The taps of output o are row-major from g + o * step on.
  void (*kernel)(const float* g, long step, long outputs, float* to, long plane);
};

// The transforms of this machine's instruction set (Simd()); none without AVX2.
struct WinogradTable {
  const WinogradTransforms* first = nullptr;
  int count = 0;
};
WinogradTable WinogradAlgorithms();

namespace simd_avx2 {
extern const WinogradTable kWinogradTable;
}
namespace simd_avx512 {
extern const WinogradTable kWinogradTable;
}

}  // namespace rewright::cpu
