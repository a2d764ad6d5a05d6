/* The kernels in portable C: see isa_portable.h for the vector functions. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_portable.h"
#include "cpu/vector.h"

/* Measured, not derived: tiles that fill the registers without spilling. */
#define V_SCAN_TILE 2
#define V_SCAN_TILE_LOG 1
#define V_SCAN_ROWS 4
#define V_FOLD_ROWS 4
#define V_FOLD_ROWS_LOG 2
/* a fallback, in which exchanging lanes one by one is long code: no instances just for speed */
#define V_LEAN
#include "cpu/types.inc.h"

static bool usable(void)
{
        return true;
}

static void fence(void)
{
        v_fence();
}

static sf_lanes whole[SF_LANES_WHOLE];
const sf_cpu_isa sf_isa_portable = {"portable", usable, whole, V_BYTES, V_PERMUTE_BYTES, V_SCAN_TILE, V_FOLD_ROWS, V_SCAN_ROWS, find, count, fence,
                                    &sf_map_portable};
