/* The kernels of reals in portable C. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_portable.h"
#include "cpu/vector.h"

#define K_REALS sf_reals_portable
#include "cpu/reals.inc.h"
