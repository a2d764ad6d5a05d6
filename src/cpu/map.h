/*
 * map.h: elementwise work on contiguous blocks in cache: the loops of an instruction set, which
 * fused_program.c combines.
 *
 * A block holds values of one class, a type that stands for all types held in the same way. f16,
 * bf16 and f32 are held as f32; bool and integers of up to 32 bits as 32-bit integers; the others
 * as themselves. A loop computes in the class's type. Another loop (`settle`) then removes what the
 * narrower type would have lost, as program.h demands.
 */
#ifndef SF_CPU_MAP_H
#define SF_CPU_MAP_H

#include "core/program.h"

typedef enum sf_class {
        SF_CLASS_F32,
        SF_CLASS_F64,
        SF_CLASS_I32,
        SF_CLASS_U32, /* bool too */
        SF_CLASS_I64,
        SF_CLASS_U64,
        SF_CLASS_COUNT
} sf_class;

sf_class sf_class_of(sf_dt dt);
/* The dtype that a class is named after, and the bytes of a value. */
sf_dt sf_class_dt(sf_class class);
int64_t sf_class_size(sf_class class);

/* y[i] = the result for a[i], b[i], c[i]; i < count. y may be a, b or c, but must not overlap them
 * otherwise. A loop of one argument may be given any block as b, one of two any as c. */
typedef void sf_loop(void *y, const void *a, const void *b, const void *c, int64_t count);

/* The element at dst + i * to becomes the one at src + i * from, converted; i < count. */
typedef void sf_move(const char *src, int64_t from, char *dst, int64_t to, int64_t count);

/* A loop that does the work of two codes: the first on a[i] and b[i], the second on that result and
 * c[i]. */
typedef struct sf_pair {
        sf_code first, then;
        sf_loop *loop; /* NULL: the end of a list */
} sf_pair;

/* A loop that takes longer than memory, and prefetches: `step` bytes for each element, from `soon`. */
typedef void sf_busy_loop(void *y, const void *a, const void *b, const void *c, int64_t count,
                          const char *soon, int64_t step);
typedef struct sf_busy {
        sf_loop *loop; /* the one that does the same without; NULL: the end of a list */
        sf_busy_loop *busy;
} sf_busy;

/*
 * y[i] = (x[i] - centre) times, less or divided by *scale, times weight[i], plus bias[i]: what norms
 * and softmax end with, in one loop. A centre, weight or bias that is NULL is left out; only products
 * have the last two. Prefetches what is `soon` bytes from x, unless that is 0.
 */
typedef struct sf_affine {
        const char *x, *centre, *scale, *weight, *bias;
        sf_code then; /* SF_CODE_MUL, SF_CODE_SUB or SF_CODE_DIV */
        int64_t soon;
        /* Of a norm's gradient also: */
        const char *given, *shift, *slope;
        const char *beside; /* prefetched, as what is `soon` bytes from x; or NULL */
} sf_affine;

/*
 * What the gradient of a norm is made of, likewise in one loop: with h[i] = (x[i] - centre) * scale
 * and v[i] = given[i] * weight[i], y[i] = v[i] * h[i] or, with a slope, scale * (v[i] - shift -
 * h[i] * slope). Centre and shift are left out together; the weight only if there is a slope.
 */

/* Of rows that have an element equal to the row's in `best`: the number of the first such element,
 * or of the last. Equal are zeros of either sign, all NaN, and all bools but false. */
typedef struct sf_find {
        const char *x, *best; /* best: contiguous */
        int64_t row; /* bytes from row to row of x */
        int64_t rows, count;
        sf_dt dt;
        uint64_t infinity; /* of reals: its bits */
        bool last;
        int64_t *at;
} sf_find;

typedef struct sf_cpu_map {
        /* by class of the first argument (for `where`, of the second), then by sf_code; NULL:
         * none */
        sf_loop *const *loops[SF_CLASS_COUNT];
        const sf_pair *pairs[SF_CLASS_COUNT]; /* reals only; NULL: none */
        const sf_busy *busy; /* NULL: none */
        void (*affine[2])(const sf_affine *, void *y, int64_t count); /* f32, f64 */
        void (*gradient[2])(const sf_affine *, void *y, int64_t count);
        /* from, to; from reals as program.h says for i32, u32, i64, u64 */
        sf_loop *casts[SF_CLASS_COUNT][SF_CLASS_COUNT];
        sf_loop *truth[SF_CLASS_COUNT];        /* a[i] != 0, as bool */
        /* from a class to the values of a narrower type, rounded or wrapped; NULL: nothing to do */
        sf_loop *settle[SF_DT_COUNT];
        sf_loop *round[SF_DT_COUNT];           /* f64 to f16 or bf16, rounded once, held as f32; NULL for all others */
        void (*fill)(void *y, sf_class class, sf_value value, int64_t count);
        /* Integers of 4 or 8 bytes: `each` times from, as often from + step, and so on, `count` of
         * them. */
        void (*number)(void *y, int64_t size, int64_t from, int64_t step, int64_t count, int64_t each);
        void (*find[4])(const sf_find *); /* by size: 1, 2, 4, 8 bytes */
        /* c[i] if a[i] equals b[i] or is NaN, else -1; of integers as wide as the class */
        sf_loop *reached[SF_CLASS_COUNT];
        /* Copies around the cache where possible; the instruction set's fence waits for it.
         * Meanwhile prefetches as many bytes from `next`: a core keeps memory busy only if it reads
         * and writes at the same time. */
        void (*stream)(void *to, const void *from, int64_t bytes, const void *next);
        /* The conversion of types; NULL: neither scanfold.h's table nor a class needs it. */
        sf_move *(*mover)(sf_dt from, sf_dt to);
} sf_cpu_map;

extern const sf_cpu_map sf_map_portable, sf_map_neon, sf_map_avx2, sf_map_avx512;

#endif
