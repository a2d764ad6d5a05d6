/* The kernels of reals in AVX-512. */
#define V_BYTES 64
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_avx512.h"
#include "cpu/vector.h"

#define K_REALS sf_reals_avx512
#include "cpu/reals.inc.h"
