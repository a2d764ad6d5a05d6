/* The kernels of integers in AVX-512, and the instruction set: see isa_avx512.h for the vector functions. */
#define V_BYTES 64
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_avx512.h"
#include "cpu/vector.h"
#include "cpu/integers.inc.h"

static bool usable(void)
{
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
}

static void fence(void)
{
        v_fence();
}

static sf_lanes whole[SF_LANES_WHOLE];
const sf_cpu_isa sf_isa_avx512 = {"avx512", usable, whole, V_BYTES, V_PERMUTE_BYTES, V_SCAN_TILE, V_FOLD_ROWS, V_SCAN_ROWS,
                                  sf_reals_avx512, integers, counts, fence, &sf_map_avx512};
