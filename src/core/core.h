/*
 * core.h: the internal types. Every layer may use them; nothing here depends on a backend.
 */
#ifndef SF_CORE_H
#define SF_CORE_H

#include "scanfold.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SF_INLINE static inline __attribute__((always_inline))
#define SF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SF_COLD __attribute__((cold, noinline))
#else
#define SF_INLINE static inline
#define SF_PRINTF(fmt, args)
#define SF_COLD
#endif

/* Element types as small numbers: indices into the rows of dtypes.def. */
typedef enum sf_dt {
#define DTYPE(name, NAME, ctype, code, bits, kind) SF_DT_##NAME,
#include "core/dtypes.def"
#undef DTYPE
        SF_DT_COUNT
} sf_dt;

typedef enum sf_kind { SF_KIND_REAL, SF_KIND_SIGNED, SF_KIND_UNSIGNED, SF_KIND_BOOL } sf_kind;

typedef struct sf_dtype_row {
        const char *name;
        uint8_t code, bits;
        uint8_t size; /* bytes */
        sf_kind kind;
} sf_dtype_row;

extern const sf_dtype_row sf_dtypes[SF_DT_COUNT];

/* Properties of an operation besides how it combines. ops.def explains them. */
enum {
        SF_REALS = 1, SF_ORDERED = 2, SF_WRAPS = 4, SF_EMPTY = 8, SF_COMMUTES = 16,
        SF_PAIR = 32, SF_INDEX = 64, SF_ROUNDS = 128, SF_TWO = 256
};

typedef struct sf_op_row {
        const char *name;
        uint32_t traits;
        sf_op on_bool; /* the operation to use on bool: on 0 and 1, max is "or" and min is "and" */
} sf_op_row;

extern const sf_op_row sf_ops[];

static inline bool sf_op_is(sf_op op, uint32_t trait)
{
        return sf_ops[op].traits & trait;
}

/* Does any grouping of the elements give the same bits? */
static inline bool sf_op_free(sf_op op, sf_dt acc)
{
        return !sf_op_is(op, SF_ORDERED) || sf_dtypes[acc].kind != SF_KIND_REAL;
}

/* One value of the accumulator's type. The accumulator's sf_dt says which member is used: integers
 * and bool of every width are in u64, wrapped to their width and then sign- or zero-extended. The
 * second component (value.h) is 0 unless the operation has one. */
typedef struct sf_value {
        union {
                float f32;
                double f64;
                uint64_t u64;
        };
        union {
                /* of a product that is out of the range of its type: times 2^exponent */
                int64_t exponent;
                int64_t index;    /* the position of a maximum or minimum */
                float also32;     /* logsumexp: the sum is this times 4^(the first component); */
                double also64;    /* recurrence: the factor of the state before */
        };
} sf_value;

/* The type of an operation's results before they are rounded to the output's. */
static inline sf_dt sf_op_result(sf_op op, sf_dt acc)
{
        return sf_op_is(op, SF_INDEX) ? SF_DT_I64 : acc;
}

/* ------------------------------------------------------------------------------------------------------------
 * status.c: a status code, and an error message kept for the calling thread
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_fail(const sf_context *ctx, sf_status status, const char *format, ...) SF_PRINTF(3, 4) SF_COLD;
/* The status of the calling thread's latest failure, for functions that return a node instead of a
 * status. */
sf_status sf_last_status(void);

/* Return the status of a call that failed; otherwise go on. */
#define SF_TRY(call)                                                                                                     \
        do {                                                                                                             \
                sf_status sf_try_status = (call);                                                                        \
                if (sf_try_status != SF_OK)                                                                              \
                        return sf_try_status;                                                                            \
        } while (0)

/* ------------------------------------------------------------------------------------------------------------
 * view.c: a borrowed tensor, validated once
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sf_view {
        char *data; /* the first element, byte_offset applied */
        sf_dt dt;
        int32_t ndim;
        int64_t count;         /* elements */
        const int64_t *shape;  /* the caller's, or that of the view it was broadcast to */
        int64_t low, high;     /* the bytes touched are data + [low, high) */
        int64_t strides[SF_MAX_NDIM]; /* in bytes */
} sf_view;

/* Checks everything that can be wrong with a single tensor. `name` is its name in error messages:
 * "x", "out", "mask". */
sf_status sf_view_init(const sf_context *ctx, const char *name, const sf_tensor *tensor, sf_view *view);

/* Broadcasts `view` to the shape of `like`, with stride 0 along broadcast axes. `like_name` is its
 * name in error messages. */
sf_status sf_view_broadcast(const sf_context *ctx, const char *name, sf_view *view, const char *like_name, const sf_view *like);

bool sf_view_same(const sf_view *a, const sf_view *b);     /* the same elements at the same addresses */
/* Do two views share a byte? Exact except for absurd strides. */
bool sf_view_overlap(const sf_view *a, const sf_view *b);
/* Do two elements of a view share a byte? As exact. */
bool sf_view_overlaps_itself(const sf_view *view);

/* "f32", or DLPack's code and bits for a dtype that is not supported. May write into text. */
const char *sf_dtype_text(sf_dtype dtype, char text[48]);
/* "(2, 3)". Writes into text. */
const char *sf_shape_text(int32_t ndim, const int64_t *shape, char text[128]);
/* The row of a DLPack dtype, or SF_DT_COUNT if it is not supported. */
sf_dt sf_dt_find(sf_dtype dtype);

/* ------------------------------------------------------------------------------------------------------------
 * The context
 * ---------------------------------------------------------------------------------------------------------- */
struct sf_cpu_isa; /* cpu/cpu.h */

/* A block of scratch memory that a call on the CPU may borrow. */
typedef struct sf_arena {
        struct sf_arena *next;
        size_t size;
        char *base; /* page-aligned */
} sf_arena;

struct sf_context {
        /* distinguishes a context from an earlier one at the same address; 0 is the default
         * context */
        uint64_t serial;
        int32_t threads;
        sf_backend backend;
        bool checks; /* SCANFOLD_CHECK=1 */
        const struct sf_cpu_isa *isa;
        atomic_flag arenas_lock;
        sf_arena *arenas; /* those not in use, largest first */
};

/* Should a backend also check values in device memory, such as offsets? A call has to wait for
 * them; without the check it only makes sure that it stays within bounds. Values in host memory are
 * always checked. */
static inline bool sf_context_checks(const sf_context *ctx)
{
        return ctx->checks;
}

#endif
