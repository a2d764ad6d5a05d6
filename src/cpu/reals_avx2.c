/* The kernels of reals in AVX2. */
#define V_BYTES 32
#define V_PERMUTE_BYTES 4
#define V_ISA_HEADER "cpu/isa_avx2.h"
#include "cpu/vector.h"

#define K_REALS sf_reals_avx2
#include "cpu/reals.inc.h"
