/*
 * fold.cu: folds. A sequence too long for its team is cut into aligned chunks whose length is a
 * power of two. Their totals go to scratch memory, and a second launch of this same file folds
 * those, in the same order.
 *
 * SF_DOWN 0, rows: a team of SF_TEAM threads folds one chunk of one sequence. Every warp of the
 * team goes through its own aligned part, so no barrier is needed before the end. Elements past the
 * end count as the operation's neutral value, which changes no bit (-0.0 for a sum: x + -0.0 is x,
 * also if x is 0.0 or -0.0).
 *   number[0]: chunks of a sequence. number[1]: elements of a chunk. number[2]: elements of a
 *   warp's part. units: sequences times chunks.
 *   SF_STAGED: the tensor is contiguous, but its sequences are short, or are the columns of small
 *   matrices, so that they do not fit vectors. Then what a block has goes through shared memory as
 *   one piece. A unit is a sequence or a small matrix. number[1]: units of a block. number[3]:
 *   sequences of a unit. SF_STAGED > 1: these may be more than the block holds at once.
 * SF_DOWN 1, columns: there are SF_GROUPS groups of SLOTS threads. Each group goes through an
 * aligned part of the rows of a strip. (If any order gives the same bits, the groups take rows in
 * turn.) A thread holds SF_ROWS vectors of columns, SLOTS vectors apart, of SF_ITEMS rows at once.
 * So neighbouring vectors are in one warp, and share the sectors that both touch where rows are not
 * aligned. Each thread has a binary counter (core/order.h) of its own in shared memory.
 *   SF_LEAVES: the rows are few. Groups take leaves of SF_ITEMS rows in turn, so that all have
 *   equally many, and every leaf's total is kept in shared memory; there are at most SF_LEAVES.
 *   SF_SINGLE: a group has one leaf at most. SF_FLAT: a thread has all rows of its columns, and
 *   vectors of columns are numbered through all batch positions; number[1]: how many a row has.
 *   SF_SOLID: a row is one vector, and rows are contiguous; so many bytes are loaded at once.
 *   number[0]: chunks of a sequence. number[1]: strips of a row. number[2]: SLOTS, if SF_SLOTS is
 *   0. number[3]: rows of a part. units: batch positions times chunks times strips. inner: columns.
 *
 * SF_ACROSS: fold_across.cuh.
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
/* As sf_fetch, where vectors may be at any address. The innermost dimension may end in the middle
 * of a vector, which is then put together element by element. */
SF_DEVICE sf_vector sf_fetch_run(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 stop)
{
        const sf_params_dim &run = p.dims[SF_NBATCH + SF_NSEQ - 1];
        const sf_i64 before = sf_divided(run, index), at = index - before * run.len;
        sf_line here = line;
        if (index + SF_WIDTH <= stop && at + SF_WIDTH <= run.len) {
                sf_walk(p, SF_NBATCH, SF_NSEQ - 1, before, here);
                here.x += at * run.x;
                here.m += at * run.m;
                return sf_load_vector(here, 0, SF_WIDTH, sf_along(p));
        }
        sf_vector v = sf_no_vector();
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (index + j < stop) {
                        sf_raw<SF_IN_SIZE> one;
                        here = line;
                        sf_walk(p, SF_NBATCH, SF_NSEQ, index + j, here);
                        sf_load(here.x, one);
                        sf_set_slot<SF_IN_SIZE>(v.x, j, sf_slot<SF_IN_SIZE>(one, 0));
#if SF_MASK
                        sf_raw<1> keep;
                        sf_load(here.m, keep);
                        sf_set_slot<1>(v.m, sf_slot_of<SF_M_UNIT>(j), keep.w[0]);
#endif
                }
        return v;
}
#endif

/* A vector of the sequence that begins at `line`; the sequence may have several dimensions. WHOLE:
 * all elements of the vector exist. */
template <bool WHOLE> SF_DEVICE sf_vector sf_fetch(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 stop)
{
#if SF_NSEQ > 1 && SF_SHIFT_IN
        return sf_fetch_run(p, line, index, stop);
#elif SF_NSEQ > 1
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
#if SF_PRODUCTS && SF_MEMBERS == 1 && SF_COMMUTES && !SF_LIFTED
        /* Numbers of f16 are at most 2^16 and at least 2^-24, so a product of four of them is in
         * the range of f32. */
        sf_holds::template fold_each<SF_IN == SF_DT_F16 && !SF_LOAD_FUSED, ALONE>(x, to);
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
#elif !SF_DOWN
#if SF_STAGED
typedef int sf_index; /* an element's index in its sequence */
#else
typedef sf_i64 sf_index;
#endif

/* The next power of two. */
template <int N> struct sf_round_up {
        enum { POWER = 2 * sf_round_up<(N + 1) / 2>::POWER };
};
template <> struct sf_round_up<1> {
        enum { POWER = 1 };
};

enum {
        LANES = SF_TEAM < 32 ? SF_TEAM : 32,
        WARPS = SF_TEAM < 32 ? 1 : SF_TEAM / 32,
        TEAMS = SF_THREADS / SF_TEAM,
        SPREAD = LANES * SF_WIDTH,
        TILE = SPREAD * SF_ITEMS,
        ITEMS = sf_round_up<SF_ITEMS>::POWER,
};

/* Folds each of a thread's vectors. */
template <bool WHOLE>
SF_DEVICE void sf_fold_items(const sf_params &p, const sf_vector (&v)[SF_ITEMS], sf_index at, sf_index stop, int early, sf_loaded absent, sf_acc (&a)[SF_ITEMS])
{
        (void)early;
#if SF_PACKED
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_vector own = v[i];
                const sf_index first = at + i * SPREAD;
                int low = first < early ? early - (int)first : 0, high = WHOLE || stop - first > SF_WIDTH ? SF_WIDTH : stop > first ? (int)(stop - first) : 0;
                if (SF_X_UNIT < 0) { /* a vector has its elements in reverse */
                        const int last = SF_WIDTH - low;
                        low = SF_WIDTH - high;
                        high = last;
                }
#if SF_SHIFT_IN
                own.x = sf_cut(own.x, own.x_next, own.x_past);
#endif
                a[i] = sf_fold_packed(own, low, high);
        }
        return;
#endif
        /* Products lift all vectors at once, with one branch. Other values need fewer registers if
         * vectors are folded one after another. */
        enum { AT_ONCE = SF_PRODUCTS ? SF_ITEMS : 1 };
#pragma unroll
        for (int first = 0; first < SF_ITEMS; first += AT_ONCE) {
                sf_loaded loaded[AT_ONCE][SF_WIDTH];
                sf_acc e[AT_ONCE];
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                        sf_loaded_below<1, sf_index>(p, v[first + i], WHOLE ? 0 : at + (first + i) * SPREAD, !WHOLE, WHOLE ? 1 : stop, at + (first + i) * SPREAD - early, 1,
                                                  absent, loaded[i]);
#if SF_EARLY
                sf_clear_early(loaded, at + first * SPREAD, SPREAD, early, absent);
#endif
                sf_fold_each<false>(loaded, e);
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                        a[first + i] = e[i];
        }
}

/* Sums of exponentials take about as many instructions as memory takes time for. So a warp asks
 * once for a whole tile whether all its numbers are small; then there is nothing to ask when lanes
 * meet. And it loads the next tile when it has computed this one, into the same registers: other
 * warps use the time that it waits, and nothing has to be moved. H200, rows of 16384: 1.02 of a
 * copy, 0.955 without this. */
#define SF_REFILLS (SF_LEVELS && !SF_LIFTED && !SF_STAGED)

#if SF_REFILLS
/* Folds a tile that has all its elements. v: its vectors; then those of the next one, of which
 * `rest` elements exist. */
SF_DEVICE sf_acc sf_fold_whole(const sf_params &p, const sf_line &line, sf_index at, sf_index stop, int early, int lane, sf_loaded absent, sf_i64 rest,
                               sf_vector (&v)[SF_ITEMS])
{
        sf_acc a[SF_ITEMS];
        sf_loaded loaded[SF_ITEMS][SF_WIDTH];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_loaded_below<1, sf_index>(p, v[i], 0, 0, 1, at + i * SPREAD - early, 1, absent, loaded[i]);
#if SF_EARLY
        sf_clear_early(loaded, at, SPREAD, early, absent);
#endif
        const bool small = !sf_ballot(!sf_holds::template are_small<SF_ITEMS * SF_WIDTH>(&loaded[0][0]));
        if (small)
                sf_holds::fold_small(loaded, a);
        else
                sf_holds::fold_any(loaded, a);
        if (rest >= TILE)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        v[i] = sf_fetch<true>(p, line, at + TILE + i * SPREAD, stop);
        else if (rest > 0)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        v[i] = sf_fetch<false>(p, line, at + TILE + i * SPREAD, stop);
        return small ? sf_fold_lanes_of<LANES, true>(a, lane) : sf_fold_lanes<LANES>(a, lane);
}
#endif

#if SF_PRODUCTS && SF_MEMBERS == 1 && SF_COMMUTES && !SF_LIFTED
/* Multiplies as numbers, as long as lanes share the work, a product has at most 64 of them, and it
 * stays in the range: then only the products need be lifted, and exchanged as pairs. */
enum {
        TOGETHER = 64 / SF_WIDTH < LANES ? 64 / SF_WIDTH : LANES,
        NUMBERS = TOGETHER < ITEMS ? TOGETHER : ITEMS,
        LEFT = ITEMS / NUMBERS,
};

/* a * b; `most` tells whether it is normal (sf_normals). */
template <class M> SF_DEVICE sf_number sf_checked(sf_number a, sf_number b, M &most)
{
        const sf_number v = sf_multiply(a, b);
        most = sf_from_normal(v) > most ? sf_from_normal(v) : most;
        return v;
}

/* false: some product leaves the range. */
template <bool WHOLE>
SF_DEVICE bool sf_multiply_vectors(const sf_params &p, const sf_vector (&v)[SF_ITEMS], sf_index at,
                                   sf_index stop, int early, int lane, sf_loaded absent,
                                   sf_acc (&to)[LEFT])
{
        sf_number a[ITEMS];
        decltype(sf_from_normal(sf_number())) most = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
                a[i] = absent;
                if (i >= SF_ITEMS)
                        continue;
                const sf_index first = at + i * SPREAD;
                sf_loaded x[SF_WIDTH];
                sf_loaded_below<1, sf_index>(p, v[i % SF_ITEMS], WHOLE ? 0 : first, !WHOLE,
                                             WHOLE ? 1 : stop, first - early, 1, absent, x);
#pragma unroll
                for (int b = 1; b < SF_WIDTH; b *= 2)
#pragma unroll
                        for (int j = 0; j + b < SF_WIDTH; j += 2 * b)
                                x[j] = sf_checked(x[j], x[(j + b) % SF_WIDTH], most);
                a[i] = x[0];
        }
#pragma unroll
        for (int b = 1; b < NUMBERS; b *= 2)
#pragma unroll
                for (int i = 0; i < ITEMS / 2; i++)
                        if (i < ITEMS / b / 2) {
                                const sf_number even = a[2 * i % ITEMS];
                                const sf_number odd = a[(2 * i + 1) % ITEMS];
                                const sf_number sent = lane & b ? even : odd;
                                a[i] = sf_checked(lane & b ? odd : even,
                                                  ::sf_shuffle(sent, lane ^ b), most);
                        }
#pragma unroll
        for (int i = 0; i < LEFT; i++) {
                most = sf_from_normal(a[i]) > most ? sf_from_normal(a[i]) : most;
                to[i] = sf_lift_normal(a[i], 0);
        }
        return !sf_ballot(most >= sf_normals(sf_number()));
}
#endif

template <bool WHOLE>
SF_DEVICE sf_acc sf_fold_vectors(const sf_params &p, const sf_vector (&v)[SF_ITEMS], sf_index at, sf_index stop, int early, int lane, sf_loaded absent)
{
#if SF_PRODUCTS && SF_MEMBERS == 1 && SF_COMMUTES && !SF_LIFTED && SF_TEAM == 1 && SF_WIDTH == 1
        /* A thread that has a whole sequence: its numbers are one list. */
        sf_loaded own[1][SF_ITEMS];
        sf_acc total[1];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_loaded one[1];
                sf_loaded_below<1, sf_index>(p, v[i], at + i, 1, stop, at + i, 1, absent, one);
                own[0][i] = one[0];
        }
        sf_fold_each<true>(own, total);
        return total[0];
#endif
#if SF_PRODUCTS && SF_MEMBERS == 1 && SF_COMMUTES && !SF_LIFTED
        sf_acc product[LEFT];
        if (sf_multiply_vectors<WHOLE>(p, v, at, stop, early, lane, absent, product))
                return sf_fold_lanes_of<LANES, false, NUMBERS>(product, lane);
#endif
        /* Lanes share a power of two of items; those that there are not count as neutral. */
        sf_acc a[SF_ITEMS], all[ITEMS];
        sf_fold_items<WHOLE>(p, v, at, stop, early, absent, a);
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
                all[i] = i < SF_ITEMS ? a[i % SF_ITEMS] : sf_neutral(p);
        return sf_fold_lanes<LANES>(all, lane);
}

/* If any order gives the same bits, a thread folds all its elements into one value, and lanes are
 * combined only once, at the end. */
template <bool WHOLE>
SF_DEVICE sf_acc sf_fold_own(const sf_params &p, const sf_vector (&v)[SF_ITEMS], sf_index at, sf_index stop, int early, sf_acc before, sf_loaded absent)
{
        sf_acc a[SF_ITEMS];
        sf_fold_items<WHOLE>(p, v, at, stop, early, absent, a);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                before = sf_combine(before, a[i]);
        return before;
}

/* Which unit, a sequence or a chunk of one, is a team's q-th. ADJACENT, for long rows: a team's
 * units are consecutive, and so are its totals. For short rows, consecutive units go to
 * neighbouring teams, so that a warp's loads are contiguous. */
enum { ADJACENT = SF_SINGLE && !SF_STAGED && SF_ROWS > 1 && SF_ROWS <= SF_TEAM && SF_TEAM * SF_WIDTH * SF_IN_SIZE >= 128 };

SF_DEVICE sf_i64 sf_unit(int q, int team)
{
        return ADJACENT ? (sf_block() * TEAMS + team) * SF_ROWS + q : (sf_block() * SF_ROWS + q) * TEAMS + team;
}

#if SF_STAGED
/* Past the block's last sequence: p.units, which means none. */
#define UNIT_OF(q) (base + (q) * TEAMS + team < sequences ? top * inner + base + (q) * TEAMS + team : p.units)
#else
#define UNIT_OF(q) sf_unit(q, team)
#endif

SF_DEVICE void sf_put_unit(const sf_params &p, bool mine, sf_i64 unit, const sf_line &line, sf_acc total)
{
        if (mine && unit < p.units)
                sf_put(p, line, unit, 0, total, sf_load_results(line, 0, SF_WIDTH, SF_WIDTH, sf_along(p)), 0);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), lane = thread & 31, member = thread & (SF_TEAM - 1), warp = member / 32, team = thread / SF_TEAM;
        sf_acc neutral = sf_neutral(p);
        sf_loaded absent = sf_absent(p);
        sf_line line[SF_ROWS];
        sf_index at[SF_ROWS], stop[SF_ROWS];
        int early[SF_ROWS] = {};
        sf_vector next[SF_ROWS][SF_ITEMS];
#if SF_STAGED
        const int n = (int)p.n, inner = (int)p.number[3], most = (int)p.number[1] * inner, back = p.sx < 0 ? n - 1 : 0;
        const sf_i64 top = sf_block() * p.number[1]; /* the block's first unit */
        const int sequences = p.units - top * inner < most ? (int)(p.units - top * inner) : most;
        const char *from = SF_X + (top * n - back) * inner * SF_IN_SIZE;
        const unsigned char *in = sf_shared() + ((sf_u64)from & 15);
        sf_fetch_piece<SF_IN_SIZE>(from, sequences * n, sf_shared() + ((sf_u64)from & 15));
        sf_copy_commit();
        sf_copy_wait<0>();
        sf_sync_block();
#else
        enum { sequences = 1 };
#endif
        for (int base = 0; base < (SF_STAGED > 1 ? (int)sequences : 1); base += SF_ROWS * TEAMS) {
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_i64 unit = UNIT_OF(q);
                        sf_i64 batch = SF_SINGLE ? unit : sf_divide(unit, p.number[0]), chunk = SF_SINGLE ? 0 : unit - batch * p.number[0];
                        bool works = unit < p.units;
                        line[q] = sf_line_from(p, SF_X, works ? batch : 0);
#if SF_CUTS
                        sf_i64 length;
                        early[q] = (int)p.before & (SF_LEAD - 1);
                        const sf_i64 cut = early[q] +
                                sf_block_at(sf_blocks_of(p.before, p.n, (int)p.number[3]), chunk, &length);
                        const sf_i64 part = length > TILE * WARPS ? length / WARPS : TILE;
                        sf_i64 start = cut + warp * part, end = cut + length;
#else
                        const sf_i64 part = p.number[2];
                        sf_i64 start = chunk * p.number[1] + warp * part, end = p.n;
#endif
#if SF_EARLY
                        early[q] = sf_begin_early(line[q]);
                        end += early[q];
#endif
                        stop[q] = (sf_index)(start + part < end ? start + part : end);
                        if (!works)
                                stop[q] = (sf_index)start;
                        at[q] = (sf_index)start + (lane & (LANES - 1)) * SF_WIDTH;
#if !SF_STAGED
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                next[q][i] = sf_fetch<false>(p, line[q], at[q] + i * SPREAD, stop[q]);
#endif
                }
#if SF_STAGED
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        const int own = base + q * TEAMS + team, sequence = own < sequences ? own : 0, step = back ? -inner : inner;
                        const int unit = sf_unit_of(p, sequence, inner);
                        const int begin = (unit * (n - 1) + back) * inner + sequence;
                        const unsigned char *first = in + begin * SF_IN_SIZE;
                        /* An index past the end loads the first element, and nobody uses it: a
                         * condition before every load would be a branch. */
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++) {
                                const int index = at[q] + i * SPREAD, there = index < stop[q] ? index : 0;
                                sf_shared_load(first + there * step * SF_IN_SIZE, next[q][i].x);
                        }
                }
#endif
                sf_line own = line[0];
                sf_acc held = neutral;
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_acc total;
                        if (SF_SINGLE) {
                                total = sf_fold_vectors<false>(p, next[q], at[q], stop[q], early[q], lane, absent);
                        } else {
                                /* The same for all lanes of the warp. */
                                sf_i64 begin = at[q] - lane * SF_WIDTH;
                                sf_i64 tiles = begin < stop[q] ? (stop[q] - begin + TILE - 1) / TILE : 0;
                                sf_counter counter = {neutral};
                                sf_acc own_total = neutral;
                                for (sf_i64 t = 0; t < tiles; t++) {
                                        sf_acc sum;
#if SF_REFILLS
                                        const sf_i64 rest = stop[q] - begin - (t + 1) * TILE;
                                        if (rest >= 0)
                                                sum = sf_fold_whole(p, line[q], at[q], stop[q], early[q], lane, absent, rest, next[q]);
                                        else
                                                sum = sf_fold_vectors<false>(p, next[q], at[q], stop[q], early[q], lane, absent);
#else
                                        sf_vector now[SF_ITEMS];
#pragma unroll
                                        for (int i = 0; i < SF_ITEMS; i++)
                                                now[i] = next[q][i];
                                        if (t + 2 < tiles)
#pragma unroll
                                                for (int i = 0; i < SF_ITEMS; i++)
                                                        next[q][i] = sf_fetch<true>(p, line[q], at[q] + TILE + i * SPREAD, stop[q]);
                                        else if (t + 1 < tiles)
#pragma unroll
                                                for (int i = 0; i < SF_ITEMS; i++)
                                                        next[q][i] = sf_fetch<false>(p, line[q], at[q] + TILE + i * SPREAD, stop[q]);
                                        if (ANY_ORDER && t + 1 < tiles)
                                                own_total = sf_fold_own<true>(p, now, at[q], stop[q], early[q], own_total, absent);
                                        else if (ANY_ORDER)
                                                own_total = sf_fold_own<false>(p, now, at[q], stop[q], early[q], own_total, absent);
                                        else if (t + 1 < tiles)
                                                sum = sf_fold_vectors<true>(p, now, at[q], stop[q], early[q], lane, absent);
                                        else
                                                sum = sf_fold_vectors<false>(p, now, at[q], stop[q], early[q], lane, absent);
#endif
                                        if (!ANY_ORDER)
                                                sf_count(counter, t, sum, lane);
                                        at[q] += TILE;
                                }
                                total = own_total;
                                if (ANY_ORDER)
#pragma unroll
                                        for (int b = 1; b < 32; b *= 2)
                                                total = sf_meet(total, lane, b);
                                else if (tiles > 0)
                                        total = sf_settled(sf_counted(counter, tiles));
                                if (WARPS > 1) {
                                        sf_acc *totals = (sf_acc *)sf_shared() + team * WARPS;
                                        if (lane == 0)
                                                totals[warp] = total;
                                        sf_sync_block();
                                        total = totals[lane & (WARPS - 1)];
#pragma unroll
                                        for (int b = 1; b < WARPS; b *= 2)
                                                total = sf_meet(total, lane, b);
                                }
                        }
                        if (!ADJACENT)
                                sf_put_unit(p, member == 0, UNIT_OF(q), line[q], total);
                        else if (member == q) {
                                own = line[q];
                                held = total;
                        }
                }
                if (ADJACENT) /* all the team's totals at once */
                        sf_put_unit(p, member < SF_ROWS, sf_unit(member, team), own, held);
        }
}

#else /* SF_DOWN */

#if SF_SLOTS
#define SLOTS SF_SLOTS
#else
#define SLOTS ((int)p.number[2])
#endif

/* APART: rows from one of a thread to its next. If any order gives the same bits, groups take rows
 * in turn, so that in a matrix of few columns the rows that a warp loads at once are contiguous. */
enum { STEP = SF_ITEMS * (SF_LEAVES ? SF_GROUPS : 1), TOTALS = SF_LEAVES ? SF_LEAVES : SF_GROUPS };
enum { HELD = SF_ROWS * SF_WIDTH, TURNED = ANY_ORDER && !SF_SOLID, APART = TURNED ? SF_GROUPS : 1 };

/* Where much is computed of each element, turns in which all rows exist have code of their own,
 * which does not ask for every element whether it exists. Elsewhere memory is slower anyway. */
enum { SPLITS = SF_MEMBERS > 1 || SF_LEVELS || (SF_PACKED && SF_OP != SF_OP_SUM) };
static_assert(SF_ITEMS <= SF_LOOSE && SF_GROUPS <= SF_LOOSE, "rows, and totals of groups, are multiplied unsettled");

#if SF_SOLID
/* A row is one vector, and the rows of a thread are contiguous: they are moved SF_SOLID bytes at a
 * time. */
SF_DEVICE void sf_fetch_solid(const sf_params &p, const sf_line &line, sf_i64 row,
                              sf_vector (&v)[SF_ITEMS][SF_ROWS])
{
        enum { WORDS = SF_WIDTH * SF_IN_SIZE / 4, EACH = SF_SOLID / 4 / WORDS };
        const char *from = line.x + row * p.sx;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i += EACH) {
                sf_raw<SF_SOLID> some;
                sf_load(from + i * (SF_WIDTH * SF_IN_SIZE), some);
#pragma unroll
                for (int k = 0; k < SF_SOLID / 4; k++)
                        v[i + k / WORDS][0].x.w[k % WORDS] = some.w[k];
        }
}
#endif

/* Loads SF_ITEMS rows of a thread's columns. WHOLE: all of them exist. */
template <bool WHOLE>
SF_DEVICE void sf_fetch_rows(const sf_params &p, const sf_line &line, sf_i64 row, sf_i64 stop, sf_i64 column, int pitch, sf_vector (&v)[SF_ITEMS][SF_ROWS])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_line at = line;
#if SF_NSEQ > 1
                sf_walk(p, SF_NBATCH, SF_NSEQ, WHOLE || row + i * APART < stop ? row + i * APART : row, at);
#else
                at = sf_moved(line, row + i * APART, sf_along(p));
#endif
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_i64 c = column + q * pitch;
                        v[i][q] = WHOLE              ? sf_load_vector(at, c, SF_RAGGED ? p.inner : c + SF_WIDTH, sf_across(p))
                                  : row + i * APART < stop ? sf_load_vector(at, c, p.inner, sf_across(p))
                                                   : sf_no_vector();
                }
        }
}

/* Operands that are the same for all rows are loaded, and converted, once. */
SF_DEVICE void sf_load_still(const sf_line &line, sf_i64 column, sf_i64 end, const sf_strides &by, sf_vector &v)
{
        (void)line, (void)column, (void)end, (void)by, (void)v;
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit)    \
        if (SF_STILL >> k & 1) \
                sf_load_operand<true>(v.operand##k, line.operand[k], column, end, by.operand[k]);
        SF_LOADS(OPERAND)
#undef OPERAND
#endif
}
SF_DEVICE void sf_take_still(const sf_vector &still, sf_vector &v)
{
        (void)still, (void)v;
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit)    \
        if (SF_STILL >> k & 1) \
                v.operand##k = still.operand##k;
        SF_LOADS(OPERAND)
#undef OPERAND
#endif
}

/* Keeps the totals of a leaf, in the columns of a thread. */
SF_DEVICE void sf_keep_leaf(sf_acc *totals, int leaf, int slot, int pitch, const sf_acc (&a)[HELD])
{
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        totals[(leaf * SF_ROWS + q) * pitch + slot * SF_WIDTH + j] =
                                sf_settled(a[q * SF_WIDTH + j]);
}

/* Folds each of a thread's columns over the rows of sf_fetch_rows. */
template <bool WHOLE>
SF_DEVICE void sf_fold_rows(const sf_params &p, const sf_vector (&still)[SF_ROWS], sf_i64 row, sf_i64 stop, sf_loaded absent, sf_vector (&v)[SF_ITEMS][SF_ROWS],
                            sf_acc (&a)[HELD])
{
#if SF_PACKED
        if (WHOLE || SUMS) {
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++)
                        sf_fold_packed(v, q, a + q * SF_WIDTH);
                return;
        }
#endif
        sf_loaded loaded[HELD][SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_loaded own[SF_WIDTH];
                        sf_take_still(still[q], v[i][q]);
                        sf_loaded_below<1, sf_i64>(p, v[i][q], WHOLE ? 0 : row + i * APART, 0, WHOLE ? 1 : stop, row + i * APART, 0, absent, own);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                loaded[q * SF_WIDTH + j][i] = own[j];
                }
        sf_fold_each<true>(loaded, a);
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), group = thread / SLOTS, slot = thread - group * SLOTS, pitch = SLOTS * SF_WIDTH;
        sf_acc neutral = sf_neutral(p);
        sf_loaded absent = sf_absent(p);
#if SF_FLAT
        const sf_i64 vector = sf_block() * SF_THREADS + thread;
        sf_i64 unit = sf_divide(vector, p.number[1]), batch = unit, chunk = 0;
        sf_i64 column = (vector - unit * p.number[1]) * SF_WIDTH;
        if (unit >= p.units) {
                batch = 0;
                column = p.inner;
        }
#else
        sf_i64 unit = sf_divide(sf_block(), p.number[1]); /* batch position and chunk */
        sf_i64 column = (sf_block() - unit * p.number[1]) * (pitch * SF_ROWS) + slot * SF_WIDTH;
        sf_i64 batch = sf_divide(unit, p.number[0]), chunk = unit - batch * p.number[0];
#endif
        sf_line line = sf_line_from(p, SF_X, batch);
#if SF_CUTS
        sf_i64 length;
        const sf_i64 cut = sf_block_at(sf_blocks_of(p.before, p.n, (int)p.number[3]), chunk, &length);
        const sf_i64 rows = length > SF_ITEMS * SF_GROUPS ? length / SF_GROUPS : SF_ITEMS;
        const sf_i64 part = APART * rows, end = cut + length;
        sf_i64 row = cut + (TURNED ? 0 : group * rows);
#else
        const sf_i64 rows = SF_LEAVES ? SF_ITEMS : p.number[3], part = APART * p.number[3];
        const sf_i64 end = p.n;
        sf_i64 row = (chunk * SF_GROUPS + (TURNED ? 0 : group)) * rows;
#endif
        sf_i64 stop = !SF_LEAVES && row + part < end ? row + part : end;
        if (TURNED)
                row += group;
        if (group >= SF_GROUPS || column >= p.inner)
                stop = row;

        sf_acc *totals = (sf_acc *)sf_shared();
        sf_acc *counter = totals + thread;
        sf_i64 turns = 0;
        /* SF_FREE: of all rows so far, since any grouping gives the same bits. */
        sf_acc sum[SF_ROWS][SF_WIDTH];
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sum[q][j] = neutral;
        sf_vector still[SF_ROWS];
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++)
                sf_load_still(line, column + q * pitch, p.inner, sf_across(p), still[q]);
        for (; row < stop; row += STEP * APART, turns++) {
                sf_vector v[SF_ITEMS][SF_ROWS];
                sf_acc a[HELD];
                if (row + SF_ITEMS * APART - (APART - 1) <= stop && column + (SF_ROWS - 1) * pitch < p.inner) {
#if SF_SOLID
                        sf_fetch_solid(p, line, row, v);
#else
                        sf_fetch_rows<true>(p, line, row, stop, column, pitch, v);
#endif
                        if (SPLITS)
                                sf_fold_rows<true>(p, still, row, stop, absent, v, a);
                } else {
                        sf_fetch_rows<false>(p, line, row, stop, column, pitch, v);
                        if (SPLITS)
                                sf_fold_rows<false>(p, still, row, stop, absent, v, a);
                }
                if (!SPLITS)
                        sf_fold_rows<false>(p, still, row, stop, absent, v, a);
#if SF_FREE && !SF_LEAVES
#pragma unroll
                for (int c = 0; c < HELD; c++)
                        sum[c / SF_WIDTH][c % SF_WIDTH] = sf_combine(sum[c / SF_WIDTH][c % SF_WIDTH], a[c]);
#else
#if SF_LEAVES
                sf_keep_leaf(totals, (int)turns * SF_GROUPS + group, slot, pitch, a);
#elif SF_SINGLE
#pragma unroll
                for (int c = 0; c < HELD; c++)
                        sum[c / SF_WIDTH][c % SF_WIDTH] = a[c];
#else
                int k = 0;
                for (; turns >> k & 1; k++) {
                        sf_acc left[HELD];
#pragma unroll
                        for (int c = 0; c < HELD; c++)
                                left[c] = counter[(k * HELD + c) * SF_THREADS];
                        sf_join_all(left, a);
                }
#pragma unroll
                for (int c = 0; c < HELD; c++)
                        counter[(k * HELD + c) * SF_THREADS] = sf_settled(a[c]);
#endif
#endif
        }

#if !SF_FREE && !SF_SINGLE && !SF_LEAVES
        /* Combines the counter's entries, lowest level first. A group without rows has the neutral
         * value. */
        bool any = false;
        for (int k = 0; turns >> k; k++)
                if (turns >> k & 1) {
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++) {
                                        sf_acc left = counter[(k * HELD + q * SF_WIDTH + j) * SF_THREADS];
                                        if (any)
                                                left = sf_combine(left, sum[q][j]);
                                        sum[q][j] = left;
                                }
                        any = true;
                }
#endif
        if (SF_GROUPS > 1 || SF_LEAVES) {
                if (!SF_FREE && !SF_SINGLE && !SF_LEAVES) /* the counters are in the same memory */
                        sf_sync_block();
#if SF_LEAVES
                /* Leaves that do not exist count as neutral. */
                sf_acc none[HELD];
#pragma unroll
                for (int c = 0; c < HELD; c++)
                        none[c] = neutral;
                for (; group < SF_GROUPS && turns < SF_LEAVES / SF_GROUPS; turns++)
                        sf_keep_leaf(totals, (int)turns * SF_GROUPS + group, slot, pitch, none);
#else
                if (group < SF_GROUPS)
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        totals[(group * SF_ROWS + q) * pitch + slot * SF_WIDTH + j] = sf_settled(sum[q][j]);
#endif
                sf_sync_block();
#if !SF_STORE_FUSED
                /* All threads, each with columns of its own. */
                const sf_i64 first = column - slot * SF_WIDTH;
                for (int c = thread; c < SF_ROWS * pitch && first + c < p.inner; c += SF_THREADS) {
                        sf_acc total[1];
                        if (SF_EARLY && first + c < p.early)
                                continue;
                        sf_groups<TOTALS, 1>::fold(totals + c, SF_ROWS * pitch, total);
                        sf_put(p, line, unit * p.inner + first + c, first + c, total[0],
                               sf_results(), 0);
                }
                return;
#endif
        }
        if (group)
                return;
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++) {
                if (SF_GROUPS > 1)
                        sf_groups<SF_GROUPS, SF_WIDTH>::fold(totals + q * pitch + slot * SF_WIDTH, SF_ROWS * pitch, sum[q]);
                if (column + q * pitch < p.inner) {
                        sf_results with = sf_load_results(line, column + q * pitch, p.inner, p.inner, sf_across(p));
                        sf_put_row(p, line, unit, column + q * pitch, sum[q], with);
                }
        }
}
#endif
