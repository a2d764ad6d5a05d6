/*
 * fold_across.cuh: the first launch of a sum over several dimensions whose neighbours in memory are
 * far apart in the order. fold.cu includes it.
 *
 * The order is over one index: column by column, and in each column row by row. Memory has rows,
 * whose neighbours are columns, perhaps in an order of their own. A leaf is SF_ITEMS consecutive
 * indices, so leaves begin at other rows in every column. A block moves a tile of rows to shared
 * memory, SF_STRIP bytes of each, and its threads fold those leaves that begin there, each thread in one column; so a tile has a leaf's
 * rows more than begin in it. The leaf at a column's end goes on in the next column. Totals go to
 * scratch memory, where they are in the order, and another launch folds them.
 *
 * SF_ACROSS: so many of the sequence's dimensions number the columns. In p.dims they are as in
 * memory, and y says how many columns further in the order the next position is. SF_WIDE: bytes that
 * are loaded at once. inner: columns that follow each other in memory.
 * number[0]: leaves of a sequence. number[1]: strips of such a row. number[2]: tiles of a column.
 * units: rows.
 */
enum {
        LEAF = SF_ITEMS,
        LOADED = SF_THREADS * (128 / SF_STRIP), /* rows of a tile, 32 at a time for each warp, */
        BEGUN = LOADED - LEAF,                  /* and in how many of them leaves begin */
        STRIP = SF_STRIP / SF_IN_SIZE,
        PARTS = SF_THREADS / STRIP,
        VECTORS = SF_STRIP / SF_WIDE,
        TOGETHER = VECTORS < 8 ? VECTORS : 8, /* loads in flight */
};
static_assert(SF_THREADS % STRIP == 0 && LOADED >= 2 * LEAF, "all threads fold");

/* The column that memory has as number `column`, of the sequence at `line`: where it begins, and as
 * which the order has it. */
struct sf_column {
        sf_line line;
        sf_i64 number;
};
SF_DEVICE sf_column sf_column_at(const sf_params &p, sf_line line, sf_i64 column)
{
        const char *y = line.y;
        sf_walk(p, SF_NBATCH, SF_ACROSS, column, line);
        return sf_column{line, SF_ACROSS > 1 ? (sf_i64)(line.y - y) : column};
}

/* Where the order's column `number` begins. */
SF_DEVICE sf_line sf_ordered_column(const sf_params &p, sf_line line, sf_i64 number)
{
#pragma unroll
        for (int d = SF_NBATCH; d < SF_NBATCH + SF_ACROSS; d++) {
                const sf_i64 turns = SF_ACROSS > 1 ? sf_divide(number, p.dims[d].y) : number;
                line.x += (SF_ACROSS > 1 ? turns - sf_divide(turns, p.dims[d].len) * p.dims[d].len : turns) * p.dims[d].x;
        }
        return line;
}

/* Where a column has the element of this row. */
SF_DEVICE const char *sf_row_of(const sf_params &p, sf_line column, sf_i64 row)
{
        sf_walk(p, SF_NBATCH + SF_ACROSS, SF_NSEQ - SF_ACROSS, row, column);
        return column.x;
}

/* Moves 32 rows, of which each lane knows the place of one, to shared memory. */
SF_DEVICE void sf_fetch_rows(const char *own, int bytes, int lane, unsigned char *rows)
{
        for (int first = 0; first < VECTORS; first += TOGETHER) {
                sf_raw<SF_WIDE> r[TOGETHER];
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                        const int at = (first + k) * 32 + lane, past = at % VECTORS * SF_WIDE;
                        const char *row = (const char *)sf_shuffle((sf_u64)own, at / VECTORS);
                        sf_clear(r[k]);
                        if (row && past < bytes)
                                sf_load(row + past, r[k]);
                }
#pragma unroll
                for (int k = 0; k < TOGETHER; k++)
                        sf_shared_store(rows + ((first + k) * 32 + lane) * SF_WIDE, r[k]);
        }
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        unsigned char *tile = sf_shared();
        const int thread = sf_thread(), lane = thread & 31;
        const sf_i64 run = p.inner, all = sf_divide(p.n, p.units);
        const sf_i64 unit = sf_divide(sf_block(), p.number[1]);
        const sf_i64 strip = (sf_block() - unit * p.number[1]) * STRIP;
        const sf_i64 tiles = sf_divide(unit, p.number[2]);
        const sf_i64 top = (unit - tiles * p.number[2]) * BEGUN;
        const sf_i64 batch = sf_divide(tiles, sf_divide(all, run));
        const sf_i64 begin = tiles * run - batch * all + strip; /* the first column */
        const int columns = run - strip < STRIP ? (int)(run - strip) : STRIP;
        const sf_line line = sf_line_from(p, p.x, batch);

        const sf_line first = sf_column_at(p, line, begin).line;
        for (int above = 0; above < LOADED; above += SF_THREADS) {
                const sf_i64 row = top + above + thread;
                sf_fetch_rows(row < p.units ? sf_row_of(p, first, row) : NULL, columns * SF_IN_SIZE, lane,
                              tile + (above + thread - lane) * SF_STRIP);
        }
        if (top + LOADED > p.units) {
                /* Columns end here: what follows is the beginning of the next ones. */
                sf_sync_block();
                const int end = (int)(p.units - top);
                const int most = (end + LEAF < LOADED ? LEAF : LOADED - end) * STRIP;
                for (int k = thread; k < most; k += SF_THREADS) {
                        const bool exists = k % STRIP < columns;
                        const sf_i64 next = exists ? sf_column_at(p, line, begin + k % STRIP).number + 1 : all;
                        sf_raw<SF_IN_SIZE> one;
                        sf_clear(one);
                        sf_set_slot<SF_IN_SIZE>(one, 0, 1ull << (8 * SF_IN_SIZE - 1)); /* -0.0 */
                        if (next < all)
                                sf_load(sf_row_of(p, sf_ordered_column(p, line, next), k / STRIP), one);
                        unsigned char *row = tile + (end + k / STRIP) * SF_STRIP;
                        sf_shared_store(row + k % STRIP * SF_IN_SIZE, one);
                }
        }
        sf_sync_block();

        const int mine = thread % STRIP;
        const sf_i64 index = mine < columns ? sf_column_at(p, line, begin + mine).number * p.units : 0;
        sf_i64 row = top + (-(index + top) & (LEAF - 1)) + thread / STRIP * LEAF;
        for (; mine < columns && row < top + BEGUN && row < p.units; row += PARTS * LEAF) {
                sf_loaded loaded[1][LEAF];
                sf_acc total[1];
                const unsigned char *from = tile + (int)(row - top) * SF_STRIP + mine * SF_IN_SIZE;
#pragma unroll
                for (int k = 0; k < LEAF; k++) {
                        sf_vector v;
                        sf_shared_load(from + k * SF_STRIP, v.x);
                        loaded[0][k] = sf_element(p, v, 0, 0, sf_absent(p));
                }
                sf_fold_each<false>(loaded, total);
                const sf_i64 leaf = batch * p.number[0] + (index + row) / LEAF;
                sf_put(p, line, leaf, 0, total[0], sf_results(), 0);
        }
}
