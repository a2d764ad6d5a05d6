/*
 * fold_down.cuh: folds down columns. fold.cu includes it.
 *
 * There are SF_GROUPS groups of SLOTS threads. Each group goes through an aligned part of the rows
 * of a strip. (If any order gives the same bits, the groups take rows in turn.) A thread holds
 * SF_ROWS vectors of columns, SLOTS vectors apart, of SF_ITEMS rows at once. So neighbouring
 * vectors are in one warp, and share the sectors that both touch where rows are not aligned. Each
 * thread has a binary counter (core/order.h) of its own in shared memory.
 *   SF_LEAVES: the rows are few. Groups take leaves of SF_ITEMS rows in turn, so that all have
 *   equally many, and every leaf's total is kept in shared memory; there are at most SF_LEAVES.
 *   SF_SINGLE: a group has one leaf at most. SF_FLAT: a thread has all rows of its columns, and
 *   vectors of columns are numbered through all batch positions; number[1]: how many a row has.
 *   SF_SOLID: a row is one vector, and rows are contiguous; so many bytes are loaded at once.
 *   number[0]: chunks of a sequence. number[1]: strips of a row. number[2]: SLOTS, if SF_SLOTS is
 *   0. number[3]: rows of a part. units: batch positions times chunks times strips. inner: columns.
 */
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
/* May totals of groups or leaves have limited exponents (sf_settled)? A group goes through any
 * number of rows; a leaf, and a part of one leaf, has SF_ITEMS. */
enum { FAR = SF_HELD_IN || !(SF_LEAVES || SF_SINGLE) };
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
#if SF_NSEQ > 1
        sf_i64 left;
        sf_line at = sf_walked(p, line, row, left);
#else
        sf_line at = sf_moved(line, row, sf_along(p));
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                if (i) /* a product for each row would take four instructions more */
                        at = sf_moved(at, APART, sf_along(p));
#if SF_NSEQ > 1
                left -= i ? APART : 0;
                const sf_i64 run = p.dims[SF_NBATCH + SF_NSEQ - 1].len;
                if (left <= 0 && SF_NSEQ == 2 && left + run > 0) { /* the next position of the outer dimension */
                        at = sf_moved(at, -run, sf_along(p));
                        sf_walk(p, SF_NBATCH, 1, 1, at);
                        left += run;
                } else if (left <= 0) {
                        at = sf_walked(p, line, row + i * APART, left);
                }
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
                for (int q = 0; q < SF_ROWS; q++) {
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                sf_cut_vector(v[i][q]);
                        sf_fold_packed(v, q, a + q * SF_WIDTH);
                }
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
                sf_settle_far(a);
                for (; turns >> k & 1; k++) {
                        sf_acc left[HELD];
#pragma unroll
                        for (int c = 0; c < HELD; c++)
                                left[c] = counter[(k * HELD + c) * SF_THREADS];
                        sf_join_all(left, a);
                        sf_settle_far(a);
                }
#pragma unroll
                for (int c = 0; c < HELD; c++)
                        counter[(k * HELD + c) * SF_THREADS] = a[c];
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
                                                left = sf_settled(sf_combine(left, sum[q][j]));
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
                        sf_groups<TOTALS, 1, FAR>::fold(totals + c, SF_ROWS * pitch, total);
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
                        sf_groups<SF_GROUPS, SF_WIDTH, FAR>::fold(
                                totals + q * pitch + slot * SF_WIDTH, SF_ROWS * pitch, sum[q]);
                if (column + q * pitch < p.inner) {
                        sf_results with = sf_load_results(line, column + q * pitch, p.inner, p.inner, sf_across(p));
                        sf_put_row(p, line, unit, column + q * pitch, sum[q], with);
                }
        }
}
