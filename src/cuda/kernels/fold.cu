/*
 * fold.cu: folds. A sequence too long for its team is cut into aligned chunks whose length is a
 * power of two. Their totals go to scratch memory, and a second launch of this same file folds
 * those, in the same order.
 *
 * SF_DOWN 0: rows (fold_rows.cuh). SF_DOWN 1: columns (fold_down.cuh). SF_ACROSS: sums of several
 * dimensions (fold_across.cuh).
 *
 * SF_PARTIAL: the totals go to scratch, in the accumulator's type, chunk after chunk; those of a
 * further member follow those of the one before it. SF_RESUME: x is scratch. SF_VALUES: what is
 * stored is the value, of two components, as it is held; somebody else goes on with it.
 *
 * SF_CUTS: chunks are the blocks of sf_blocks_of, and y has a value for each (sf_cuts). Of rows,
 * positions begin up to SF_LEAD before the sequence, so that vectors are where they would be in the
 * longer sequence: only blocks shorter than a vector are not aligned. number[3]: log. SF_PARTIAL:
 * totals of the largest blocks go to scratch; a second launch makes `il` values of them.
 */
#if SF_RESUME
#define SF_X ((const char *)p.scratch)
#else
#define SF_X p.x
#endif

#if SF_NSEQ > 1 && SF_SHIFT_IN
/* As sf_fetch, where vectors may be at any address. The innermost dimension is at least as long as a
 * vector, and may end in the middle of one: `left` of its elements are in the innermost one's
 * present run. */
SF_DEVICE sf_vector sf_fetch_run(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 stop, sf_i64 &left)
{
        left = SF_WIDTH;
        if (index >= stop)
                return sf_no_vector();
        return sf_load_vector(sf_walked(p, line, index, left), 0, SF_WIDTH, sf_along(p));
}

/* The first `count` bytes of a, and what follows those in b. */
template <int BYTES> SF_DEVICE sf_raw<BYTES> sf_spliced(const sf_raw<BYTES> &a, const sf_raw<BYTES> &b, int count)
{
        sf_raw<BYTES> r;
#pragma unroll
        for (int w = 0; w < (BYTES + 3) / 4; w++) {
                const int here = count - 4 * w;
                const sf_u32 keep = here >= 4 ? 0xffffffffu : here <= 0 ? 0 : (1u << 8 * here) - 1;
                r.w[w] = (a.w[w] & keep) | (b.w[w] & ~keep);
        }
        return r;
}

/* Makes a vector of its chunks, and of those of the next run. */
SF_DEVICE void sf_finish_run(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 stop, sf_i64 left, sf_vector &v)
{
        sf_cut_vector(v);
        if (left >= SF_WIDTH || index + left >= stop)
                return;
        sf_i64 whole;
        const sf_line next = sf_walked(p, line, index + left, whole);
        sf_vector then = sf_load_vector(sf_moved(next, -left, sf_along(p)), 0, SF_WIDTH, sf_along(p));
        sf_cut_vector(then);
        v.x = sf_spliced(v.x, then.x, (int)left * SF_IN_SIZE);
#if SF_MASK
        v.m = sf_spliced(v.m, then.m, (int)left);
#endif
}
#endif

/* A vector of the sequence that begins at `line`; the sequence may have several dimensions. WHOLE:
 * all elements of the vector exist. */
template <bool WHOLE> SF_DEVICE sf_vector sf_fetch(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 stop)
{
#if SF_NSEQ > 1
        if (!WHOLE && index >= stop)
                return sf_no_vector();
        sf_line at = line;
        sf_walk(p, SF_NBATCH, SF_NSEQ, index, at);
        return sf_load_vector(at, 0, SF_WIDTH, sf_along(p));
#else
        return sf_load_vector(line, index, WHOLE ? index + SF_WIDTH : stop, sf_along(p));
#endif
}

#include "fold_packed.cuh"

/* Folds each of COUNT lists of N elements, in the order. Products are not settled; ALONE says what
 * becomes of them (value.cuh). */
template <bool ALONE, int N, int COUNT>
SF_DEVICE void sf_fold_each(const sf_loaded (&x)[COUNT][N], sf_acc (&to)[COUNT])
{
#if SF_NUMBERS
        sf_holds::template fold_each<ALONE>(x, to);
#elif SF_EXPONENTIALS && SF_MEMBERS == 1 && !SF_LIFTED
        sf_holds::fold_each(x, to);
#else
        sf_acc e[COUNT][N];
        sf_holds::template lift_all<COUNT * N>(&x[0][0], &e[0][0]);
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N; i += 2 * b)
#pragma unroll
                        for (int c = 0; c < COUNT; c++)
                                e[c][i] = sf_combine(e[c][i], e[c][(i + b) % N]);
#pragma unroll
        for (int c = 0; c < COUNT; c++)
                to[c] = e[c][0];
#endif
}

template <int SIZE> SF_DEVICE void sf_put_bits(char *y, sf_u64 bits)
{
        sf_store(y, sf_one_slot<SIZE>(bits));
}

#if SF_MEMBERS > 1 && SF_PARTIAL
/* Stores total number `part` of a member, settled. A value of two components is stored as it is
 * held, any other in the accumulator's type. */
template <bool PAIR, int ACC> struct sf_keeper {
        template <class V> SF_DEVICE_MEMBER void put(char *totals, sf_i64 part, V v)
        {
                sf_put_bits<SF_SIZE(ACC)>(totals + part * SF_SIZE(ACC), sf_dtype<ACC>::bits(v));
        }
};
template <int ACC> struct sf_keeper<true, ACC> {
        template <class V> SF_DEVICE_MEMBER void put(char *totals, sf_i64 part, V v) { ((V *)totals)[part] = v; }
};
template <int OP, int ACC, class V> SF_DEVICE void sf_keep_total(char *totals, sf_i64 part, V v)
{
        typedef sf_value<OP, sf_of<ACC>> holds;
        sf_keeper<holds::PAIR, ACC>::put(totals, part, holds::settle(v));
}
#endif

#if SF_CUTS
/* Where the value of a block goes; `part` and c as in sf_put. */
SF_DEVICE char *sf_place_of(const sf_params &p, const sf_line &line, sf_i64 part, sf_i64 c)
{
        enum { SIZE = SF_PAIRED ? (int)sizeof(sf_acc) : SF_OUT_SIZE };
        const sf_i64 columns = SF_DOWN ? p.inner : 1;
        const sf_i64 unit = SF_DOWN ? sf_divide(part, columns) : part;
        const sf_i64 batch = sf_divide(unit, p.number[0]);
        sf_i64 number = unit - batch * p.number[0];
#if SF_PARTIAL
        const sf_blocks blocks = sf_blocks_of(p.before, p.n, (int)p.number[3]);
        const sf_i64 first = sf_ones(blocks.head);
        if (number >= first && number < first + blocks.whole)
                return (char *)p.scratch +
                        ((batch * blocks.whole + number - first) * columns + c) * SIZE;
        if (number >= first)
                number += p.il - blocks.whole;
#endif
        return line.y + c * p.iy + number * p.left_entry;
}
#endif

/* Stores the total of a sequence; or of a part of a sequence, as number `part` in scratch memory.
 * It belongs to column c of the line and to element j of the vector that `with` was loaded for. */
SF_DEVICE void sf_put(const sf_params &p, const sf_line &line, sf_i64 part, sf_i64 c, sf_acc v, const sf_results &with, int j)
{
#if SF_CUTS
        char *to = sf_place_of(p, line, part, c);
#if SF_PAIRED
        (void)with, (void)j;
        *(sf_acc *)to = sf_settled(v);
#else
        sf_put_bits<SF_OUT_SIZE>(to, sf_outcome(p, sf_lowered(p, v), with, j));
#endif
        return;
#endif
#if SF_PARTIAL
        (void)line, (void)c, (void)with, (void)j;
#else
        (void)part;
        v = sf_begin(p, sf_choose(p.n != 0, v, sf_identity(p)));
#endif
#if SF_MEMBERS > 1
#define OPERAND(k, dt, unit) , sf_value_at(with.operand##k, j)
#if SF_PARTIAL
#define MEMBER(k, op, acc, out, begins) \
        sf_keep_total<op, acc>((char *)p.scratch + ((k) ? (sf_i64)p.also[(k) ? (k) - 1 : 0].y : 0), part, v.v##k);
#else
#define MEMBER(k, op, acc, out, begins)                                                                                            \
        sf_put_bits<SF_SIZE(out)>((k) ? line.also[(k) ? (k) - 1 : 0] + c * p.also[(k) ? (k) - 1 : 0].iy : line.y + c * p.iy, \
                                  sf_store_program##k(p, sf_value<op, sf_of<acc>>::lower(v.v##k) SF_STORES(OPERAND)));
#endif
        SF_EACH(MEMBER)
#undef MEMBER
#undef OPERAND
#else
#if SF_PARTIAL && SF_PAIRED
        ((sf_acc *)p.scratch)[part] = sf_settled(v);
#elif SF_VALUES
        (void)with, (void)j;
        *(sf_acc *)(line.y + c * p.iy) = sf_settled(v);
#else
        sf_put_bits<SF_OUT_SIZE>(SF_PARTIAL ? (char *)p.scratch + part * SF_OUT_SIZE : line.y + c * p.iy, sf_outcome(p, sf_lowered(p, v), with, j));
#if SF_ELEMENT
        sf_put_bits<SF_SIZE(SF_SECOND_OUT)>(line.also[0] + c * p.also[0].iy, sf_store_program1(p, v.first));
#endif
#endif
#endif
}

/* Stores the totals of a vector of columns, which begins at `column`; as vectors if possible. */
SF_DEVICE void sf_put_row(const sf_params &p, const sf_line &line, sf_i64 unit, sf_i64 column, const sf_acc (&sum)[SF_WIDTH], const sf_results &with)
{
#if SF_MEMBERS == 1 && !SF_PARTIAL && !SF_ELEMENT && !SF_VALUES && !SF_CUTS && SF_WIDTH > 1
        enum { BYTES = SF_WIDTH * SF_OUT_SIZE, EACH = BYTES < 16 ? BYTES : 16, WORDS = EACH / 4 };
        char *y = line.y + column * p.iy;
        const bool all = column + SF_WIDTH <= p.inner && (!SF_EARLY || column >= p.early);
        if (WORDS && p.iy == SF_OUT_SIZE && all && !((sf_u64)y & (EACH - 1))) {
                sf_raw<BYTES> r;
#pragma unroll
                for (int w = 0; w < BYTES / 4; w++)
                        r.w[w] = 0;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_set_slot<SF_OUT_SIZE>(r, j, sf_outcome(p, sf_lowered(p, sf_begin(p, sum[j])), with, j));
#pragma unroll
                for (int k = 0; k < BYTES / EACH; k++) {
                        sf_raw<EACH> part;
#pragma unroll
                        for (int w = 0; w < WORDS; w++)
                                part.w[w] = r.w[k * WORDS + w];
                        sf_store(y + k * EACH, part);
                }
                return;
        }
#endif
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if ((!SF_RAGGED || column + j < p.inner) && (!SF_EARLY || column + j >= p.early))
                        sf_put(p, line, unit * p.inner + column + j, column + j, sum[j], with, j);
}

enum { ANY_ORDER = SF_FREE && SF_COMMUTES };

#if SF_ACROSS
#include "fold_across.cuh"
#elif SF_DOWN
#include "fold_down.cuh"
#else
#include "fold_rows.cuh"
#endif
