/* The kernels of integers in portable C, and the instruction set: see isa_portable.h for the vector functions. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_portable.h"
#include "cpu/vector.h"
#include "cpu/integers.inc.h"

static bool usable(void)
{
        return true;
}

static void fence(void)
{
        v_fence();
}

static sf_lanes whole[SF_LANES_WHOLE];
const sf_cpu_isa sf_isa_portable = {"portable", usable, whole, V_BYTES, V_PERMUTE_BYTES, V_SCAN_TILE, V_FOLD_ROWS, V_SCAN_ROWS,
                                    sf_reals_portable, integers, counts, fence, &sf_map_portable};
