/* Elementwise loops and moves in AVX2. */
#define V_BYTES 32
#define V_PERMUTE_BYTES 4
#define V_ISA_HEADER "cpu/isa_avx2.h"
#include "cpu/vector.h"

#define MAP_TABLE sf_map_avx2
#include "cpu/map_types.inc.h"
