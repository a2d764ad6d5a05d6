/* Elementwise loops and moves in AVX-512. */
#define V_BYTES 64
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_avx512.h"
#include "cpu/vector.h"

#define MAP_TABLE sf_map_avx512
#include "cpu/map_types.inc.h"
