/*
 * core.h: the internal types on one page. Every layer may use what is here; nothing here knows a backend.
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

/* Element types, internally a small number: an index into the rows of dtypes.def. */
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

/* What is known of an operation besides how it combines: ops.def. */
enum {
        SF_REALS = 1, SF_ORDERED = 2, SF_WRAPS = 4, SF_EMPTY = 8, SF_COMMUTES = 16,
        SF_PAIR = 32, SF_INDEX = 64, SF_ROUNDS = 128, SF_TWO = 256
};

typedef struct sf_op_row {
        const char *name;
        uint32_t traits;
        sf_op on_bool; /* on 0 and 1, or is max and and is min */
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

/* One accumulator's worth of value. Which member is live follows from the accumulator's sf_dt:
 * integers and bool of every width live in u64, wrapped to their width and then sign- or
 * zero-extended. The second component (value.h) is 0 unless the operation has one. */
typedef struct sf_value {
        union {
                float f32;
                double f64;
                uint64_t u64;
        };
        union {
                int64_t exponent; /* of a product of reals that has left their range: times 2^exponent */
                int64_t index;    /* the position of an extreme */
                float also32;     /* logsumexp: the sum, as a multiple of four to the first component; */
                double also64;    /* recurrence: what the state before is multiplied by */
        };
} sf_value;

/* The type of an operation's results before they are rounded to the output's. */
static inline sf_dt sf_op_result(sf_op op, sf_dt acc)
{
        return sf_op_is(op, SF_INDEX) ? SF_DT_I64 : acc;
}

/* ------------------------------------------------------------------------------------------------------------
 * status.c: a code, and a sentence kept for the calling thread
 * ---------------------------------------------------------------------------------------------------------- */
sf_status sf_fail(const sf_context *ctx, sf_status status, const char *format, ...) SF_PRINTF(3, 4) SF_COLD;
/* What the calling thread's latest failure was. For what returns a node, and so has no status to
 * return. */
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
        const int64_t *shape;  /* the caller's, or `ones` of a broadcast view */
        int64_t low, high;     /* the bytes touched are data + [low, high) */
        int64_t strides[SF_MAX_NDIM]; /* in bytes */
} sf_view;

/* Checks everything a single tensor can get wrong. `name` is what its sentences call it: "x", "out", "mask". */
sf_status sf_view_init(const sf_context *ctx, const char *name, const sf_tensor *tensor, sf_view *view);

/* Gives `view` the shape of `like`, which sentences call `like_name`, with stride 0 where it is stretched. */
sf_status sf_view_broadcast(const sf_context *ctx, const char *name, sf_view *view, const char *like_name, const sf_view *like);

bool sf_view_same(const sf_view *a, const sf_view *b);     /* the same elements at the same addresses */
bool sf_view_overlap(const sf_view *a, const sf_view *b);  /* may share a byte; exact but for absurd strides */
bool sf_view_overlaps_itself(const sf_view *view);         /* two elements may share a byte; exact likewise */

/* "f32", or DLPack's own words for what we do not have. Writes into text. */
const char *sf_dtype_text(sf_dtype dtype, char text[48]);
/* "(2, 3)". Writes into text. */
const char *sf_shape_text(int32_t ndim, const int64_t *shape, char text[128]);
/* The row for a DLPack dtype, or SF_DT_COUNT. */
sf_dt sf_dt_find(sf_dtype dtype);

/* ------------------------------------------------------------------------------------------------------------
 * The context
 * ---------------------------------------------------------------------------------------------------------- */
struct sf_cpu_isa; /* cpu/cpu.h */

/* A block of scratch a CPU call may borrow. */
typedef struct sf_arena {
        struct sf_arena *next;
        size_t size;
        char *base; /* 64-byte aligned */
} sf_arena;

struct sf_context {
        uint64_t serial; /* distinguishes contexts whose addresses were reused; 0 is the default context */
        int32_t threads;
        sf_backend backend;
        bool checks; /* SCANFOLD_CHECK=1 */
        const struct sf_cpu_isa *isa;
        atomic_flag arenas_lock;
        sf_arena *arenas; /* free ones, largest first */
};

/* Whether a backend is to look at what it otherwise only keeps within bounds: values in a device's
 * memory, such as offsets, for which a call has to wait. The host's own are checked in any case. */
static inline bool sf_context_checks(const sf_context *ctx)
{
        return ctx->checks;
}

#endif
