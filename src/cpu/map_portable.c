/* Elementwise loops and moves in portable C. */
#define V_BYTES 16
#define V_PERMUTE_BYTES 8
#define V_ISA_HEADER "cpu/isa_portable.h"
#include "cpu/vector.h"

#define MAP_TABLE sf_map_portable
#include "cpu/map_types.inc.h"
