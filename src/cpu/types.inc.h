/*
 * types.inc.h: how elements become lanes, and the lane types. Part of reals.inc.h and
 * integers.inc.h, which have the kernels of every storage type between them: two translation units
 * for an instruction set, because they take long to compile.
 */
#include "core/elementary.h"
#include "cpu/kernels.h"

#include <math.h>

/* How elements become lanes. */
#define K_SAME 0          /* they are lanes */
#define K_WIDE 1          /* f32, in f64 lanes */
#define K_HALF 2          /* f16 */
#define K_BRAIN 3         /* bf16 */
#define K_TRUTH 4         /* bool: any value but zero is 1 */
/* integers, with lanes and results of u64; the job's turn has the sign bits of signed ones */
#define K_FROM_INTEGER 5
#define K_FROM_TRUTH 6
/* anything: 1 if a bit that the job asks for is set, else 0; in u64 lanes */
#define K_NONZERO 7
#define K_FROM_HALF 8  /* f16, with lanes and results of f64 */
#define K_FROM_BRAIN 9 /* bf16 */

/* The properties of a lane type: its C type and size, the member of sf_value that holds it, whether
 * it is real. */
#define K_C_f32 float
#define K_C_f64 double
#define K_C_u8 uint8_t
#define K_C_u16 uint16_t
#define K_C_u32 uint32_t
#define K_C_u64 uint64_t
#define K_BYTES_f32 4
#define K_BYTES_f64 8
#define K_BYTES_u8 1
#define K_BYTES_u16 2
#define K_BYTES_u32 4
#define K_BYTES_u64 8
#define K_VALUE_f32 f32
#define K_VALUE_f64 f64
#define K_VALUE_u8 u64
#define K_VALUE_u16 u64
#define K_VALUE_u32 u64
#define K_VALUE_u64 u64
#define K_REAL_f32 1
#define K_REAL_f64 1
#define K_REAL_u8 0
#define K_REAL_u16 0
#define K_REAL_u32 0
#define K_REAL_u64 0
