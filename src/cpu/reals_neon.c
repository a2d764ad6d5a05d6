/* The kernels of reals in NEON. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 1
#define V_ISA_HEADER "cpu/isa_neon.h"
#include "cpu/vector.h"

#define K_REALS sf_reals_neon
#include "cpu/reals.inc.h"
