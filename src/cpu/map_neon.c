/* Elementwise loops and moves in NEON. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 1
#define V_ISA_HEADER "cpu/isa_neon.h"
#include "cpu/vector.h"

#define MAP_TABLE sf_map_neon
#include "cpu/map_types.inc.h"
