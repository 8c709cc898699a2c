// The vector operations of the interpreter: loops over lanes, chosen once per node by representation and function.
//
// Strides are 0 (one value for all lanes) or 1. `mask` holds a byte 0 or 1 per lane. Results do not depend on the
// instruction set: loops are compiled without contraction, and every lane is on its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/interpreter/program.h"
#include "core/ir/expr.h"

// Hot loops are compiled for wider vectors too, and the machine selects. Sanitizers run before the selection works.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GNUC__) && \
    !defined(__clang__)
#define REWRIGHT_CLONES __attribute__((target_clones("default", "avx2")))
#else
#define REWRIGHT_CLONES
#endif

namespace rewright::interp {

using UnaryKernel = void (*)(void* out, const void* a, int64_t n);
using BinaryKernel = void (*)(void* out, const void* a, int64_t stride_a, const void* b, int64_t stride_b, int64_t n);
// Kernel of a function that lacks a value for some arguments: false if that happens in a lane that the mask selects;
// the lane is then -1.
using PartialKernel = bool (*)(void* out, const void* a, int64_t stride_a, const void* b, int64_t stride_b,
                               const uint8_t* mask, int64_t stride_mask, int64_t n);
// acc = acc (+) value where the mask holds; a null mask holds everywhere.
using AccumulateKernel = void (*)(void* acc, const void* value, int64_t stride, const uint8_t* mask,
                                  int64_t stride_mask, int64_t n);
// acc = acc + a * b.
using MulAddKernel = void (*)(void* acc, const void* a, int64_t stride_a, const void* b, int64_t stride_b, int64_t n);
// argmax, argmin: if `value` beats `best`, or `position` is still negative, both are replaced.
using ArgKernel = void (*)(void* best, int64_t* position, const void* value, int64_t stride, const uint8_t* mask,
                           int64_t stride_mask, int64_t at, int64_t n);

// The kernels of one function; all null if it does not apply to the representation. Predicates give kBool.
struct FnKernels {
  UnaryKernel unary = nullptr;
  BinaryKernel binary = nullptr;
  PartialKernel partial = nullptr;
};
FnKernels KernelsOf(Rep rep, Fn fn);
// Returns the kernels of reductions that give values (FindAccumulate) or positions (FindArg); null for other kinds.
AccumulateKernel FindAccumulate(Rep rep, ReduceKind kind);
ArgKernel FindArg(Rep rep, ReduceKind kind);
MulAddKernel FindMulAdd(Rep rep);
UnaryKernel FindCast(Rep from, Rep to);

// One element of the representation.
void StoreConst(Rep rep, double real, int64_t imm, void* out);
// Stores the result of an empty reduction.
void StoreIdentity(Rep rep, ReduceKind kind, void* out);

// Returns how many of the conditions hold.
int64_t CountHeld(const uint8_t* conditions, int64_t n);

// Elements of 1, 4 or 8 bytes. Strides of operands are in elements and may be any number.
void CopyStrided(size_t size, void* out, const void* in, int64_t stride, int64_t n);
void StoreStrided(size_t size, void* out, int64_t stride_out, const void* in, int64_t stride_in, int64_t n);
// Columns of `in` become rows of `out`; elements of a row of `in` are neighbours, and rows lie so many elements apart.
void CopyTransposed(size_t size, void* out, int64_t row_out, const void* in, int64_t row_in, int64_t rows, int columns);
// The lanes of a row where conditions hold lie in [first, last).
struct HeldLanes {
  const uint8_t* of = nullptr;  // the conditions
  int64_t first = 0, last = 0;
};
// `held` is that of the row before, and receives that of this one.
void CopyStridedMasked(size_t size, void* out, const void* in, int64_t stride, const uint8_t* mask, int64_t stride_mask,
                       const void* fill, int64_t n, HeldLanes* held);
void Gather(size_t size, void* out, const void* in, const int64_t* offsets, int64_t n);
void GatherMasked(size_t size, void* out, const void* in, const int64_t* offsets, const uint8_t* mask,
                  int64_t stride_mask, const void* fill, int64_t n);
void SelectLanes(size_t size, void* out, const uint8_t* mask, int64_t stride_mask, const void* yes, int64_t stride_yes,
                 const void* no, int64_t stride_no, int64_t n);

}  // namespace rewright::interp
