/* The kernels of integers in AVX2, and the instruction set: see isa_avx2.h for the vector functions. */
#define V_BYTES 32
#define V_PERMUTE_BYTES 4
#define V_ISA_HEADER "cpu/isa_avx2.h"
#include "cpu/vector.h"
#include "cpu/integers.inc.h"

static bool usable(void)
{
        /* Every CPU with AVX2 has F16C, which is older; gcc 12 has no name to test for it. */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static void fence(void)
{
        v_fence();
}

static sf_lanes whole[SF_LANES_WHOLE];
const sf_cpu_isa sf_isa_avx2 = {"avx2", usable, whole, V_BYTES, V_PERMUTE_BYTES, V_SCAN_TILE, V_FOLD_ROWS, V_SCAN_ROWS,
                                sf_reals_avx2, integers, counts, fence, &sf_map_avx2};
