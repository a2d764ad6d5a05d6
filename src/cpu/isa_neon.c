/* The kernels of integers in NEON, and the instruction set: see isa_neon.h for the vector functions. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 1
#define V_ISA_HEADER "cpu/isa_neon.h"
#include "cpu/vector.h"
#include "cpu/integers.inc.h"

static bool usable(void)
{
        return true; /* part of the AArch64 baseline */
}

static void fence(void)
{
        v_fence();
}

static sf_lanes whole[SF_LANES_WHOLE];
const sf_cpu_isa sf_isa_neon = {"neon", usable, whole, V_BYTES, V_PERMUTE_BYTES, V_SCAN_TILE, V_FOLD_ROWS, V_SCAN_ROWS,
                                sf_reals_neon, integers, counts, fence, &sf_map_neon};
