/*
 * scan_columns.cu: scans down the columns of matrices: neighbours in memory belong to different
 * sequences.
 *
 * A block goes through a strip of columns, tile by tile. A row of the strip is SLOTS vectors wide.
 * There are SF_GROUPS groups of SLOTS threads. Each group holds SF_ITEMS consecutive rows of the
 * tile, each thread one vector of every row. So a thread combines rows in registers, and groups
 * exchange totals through shared memory. Meanwhile the next tile is being loaded. A binary counter
 * (core/order.h) in shared memory, one for each column, holds the totals of the tiles so far; the
 * last group updates it.
 *
 * SF_STAGED > 0: the rows of a narrow matrix are contiguous, so a tile is one piece of memory. It
 * is moved in vectors of 16 bytes, whatever the length of the rows, through SF_STAGED buffers in
 * shared memory. The results take the place of the elements there.
 *
 * SF_CHUNKED: there are too few strips to fill the chip. 1: every block has a chunk of a strip, as
 * tree_totals.cuh says. SF_PARTIAL: the launch before, which only stores the totals of chunks in
 * scratch. 2: every block has one tile, which it keeps in registers while it waits for the totals of
 * the tiles before it, which other blocks publish (look_back.cuh).
 *
 * SF_PACKS > 1: a thread's vector consists of packs (memory.cuh), which are apart in x and y. In
 * scratch and shared memory the columns of a thread are contiguous nevertheless.
 *
 * SF_SLOTS: vectors in a row of the strip, or 0 if number[2] has it (a narrow matrix of any width).
 * number[0]: tiles of a sequence. number[1]: strips of a row. number[2]: vectors in a row of the
 * strip. A chunk has 2^number[3] tiles. inner: columns in all.
 * scratch: for each batch position, chunk by chunk, a total for each column.
 * SF_CHUNKED 2: number[3]: tickets, one for each tile. units: strips in all. scratch: as
 * look_back.cuh has it.
 */
enum { ROWS = SF_ITEMS * SF_GROUPS, ON = SF_PARTIAL ? -1 : 1 /* step to the next tile */ };
#define SHARED (SF_CHUNKED == 2)
static_assert(SF_ITEMS <= SF_LOOSE / 2 && SF_GROUPS <= SF_LOOSE, "rows, and totals of groups, are multiplied unsettled");

#if SF_SLOTS
#define SLOTS SF_SLOTS
#else
#define SLOTS ((int)p.number[2])
#endif

#if SF_STAGED
/* How many elements tile t has. */
SF_DEVICE int sf_length(const sf_params &p, sf_i64 t, int pitch)
{
        sf_i64 rows = p.n - t * ROWS;
        return (int)(rows < ROWS ? rows : ROWS) * pitch;
}

SF_DEVICE void sf_stage_tile(const sf_params &p, const char *x, sf_i64 t, bool there, int pitch, unsigned char *buffer)
{
        if (there)
                sf_fetch_piece<SF_IN_SIZE>(x + t * ROWS * pitch * SF_IN_SIZE, sf_length(p, t, pitch), buffer);
        sf_copy_commit();
}
#endif

/* How many of a thread's rows, of which `row` is the first, exist? In 32 bits, since every load and
 * store of a row compares with it. */
SF_DEVICE int sf_there(const sf_params &p, bool works, sf_i64 row)
{
        return !works ? 0 : p.n - row < SF_ITEMS ? (int)(p.n - row) : SF_ITEMS;
}

/* Where a row ends in operands that lack the last one. */
SF_DEVICE sf_i64 sf_shorter(const sf_params &p, sf_i64 row) { return row + 1 < p.n ? p.inner : 0; }

#if !SF_STAGED
/* A thread's columns in a row: the first one, the distance between packs, and how many packs exist
 * (the last ones may be past the end of the row). */
struct sf_place {
        sf_i64 column;
        int apart, packs;
};

SF_DEVICE sf_place sf_place_of(const sf_params &p, sf_i64 first, int slot)
{
        sf_place at = {first + slot * PACK, SLOTS * PACK, SF_PACKS};
        if (SF_PACKS > 1 && p.inner - at.column <= (SF_PACKS - 1) * at.apart)
                at.packs = (int)(p.inner - at.column + at.apart - 1) / at.apart;
        return at;
}

/* Rows of whole vectors, of x alone: each is loaded, and stored, on one condition, and addresses are
 * counted up. Otherwise a row would take some 20 instructions, which is as long as memory takes for
 * two or four narrow elements. */
#define PLAIN_IN (!SF_PRODUCTS && !SF_LOAD_FUSED && !SF_MASK && !SF_RAGGED && SF_PACKS == 1 && SF_X_UNIT == 1)
#define PLAIN_OUT (!SF_STORE_FUSED && !SF_SECOND && !SF_RAGGED && SF_PACKS == 1 && SF_Y_UNIT == 1)

SF_DEVICE sf_vector sf_load_row(const sf_params &p, const sf_line &line, const sf_place &at, bool there)
{
#if SF_PACKS > 1
        return sf_load_packs(line, at.column, at.apart, there ? at.packs : 0, sf_across(p));
#else
        return there ? sf_load_vector(line, at.column, p.inner, sf_across(p)) : sf_no_vector();
#endif
}

/* Loads a thread's rows from `row` on, of which `there` exist. Others hold garbage, or keep what
 * they have. */
SF_DEVICE void sf_load_rows(const sf_params &p, const sf_line &line, const sf_place &place, sf_i64 row, int there, sf_vector (&v)[SF_ITEMS])
{
        sf_line at = sf_moved(line, row, sf_along(p));
#if PLAIN_IN
        at.x += place.column * SF_IN_SIZE;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++, at.x += p.sx)
                sf_load_below(i, there, at.x, v[i].x);
#else
#if SF_PRODUCTS && !SF_LOAD_FUSED && !SF_SHIFT_IN
        /* Products need what stands for rows that do not exist, so a thread asks once whether all do. */
        if (there == SF_ITEMS && (SF_PACKS > 1 ? place.packs == SF_PACKS : place.column + SF_WIDTH <= p.inner)) {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++, at = sf_moved(at, 1, sf_along(p)))
#if SF_PACKS > 1
                        v[i] = sf_load_packs(at, place.column, place.apart, SF_PACKS, sf_across(p));
#else
                        v[i] = sf_load_vector(at, place.column, place.column + SF_WIDTH, sf_across(p));
#endif
                return;
        }
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++, at = sf_moved(at, 1, sf_along(p)))
                if (SF_PACKS > 1 || i < there)
                        v[i] = sf_load_row(p, at, place, i < there);
#endif
}

/* The operands of the store program for the same rows. */
SF_DEVICE void sf_load_withs(const sf_params &p, const sf_line &line, sf_i64 column, sf_i64 row, int there, sf_results (&with)[SF_ITEMS])
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                if (i < there)
                        with[i] = sf_fresh_results(sf_moved(line, row + i, sf_along(p)), column, p.inner, sf_shorter(p, row + i), sf_across(p));
}

#if !SF_PARTIAL
/* Stores a thread's rows, as sf_load_rows loads them. */
SF_DEVICE void sf_store_rows(const sf_params &p, const sf_line &line, const sf_place &place, sf_i64 row, int there,
                             const sf_answer (&v)[SF_ITEMS][SF_WIDTH], const sf_results (&with)[SF_ITEMS])
{
        sf_line at = sf_moved(line, row, sf_along(p));
        (void)with;
#if PLAIN_OUT
        at.y += place.column * SF_OUT_SIZE;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++, at.y += p.sy)
                sf_store_below(i, there, at.y, sf_pack(p, v[i], with[i]));
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++, at = sf_moved(at, 1, sf_along(p)))
#if SF_PACKS > 1
                sf_store_packs(at.y + place.column * SF_OUT_SIZE, place.apart, i < there ? place.packs : 0, v[i]);
#else
                if (i < there)
                        sf_store_vector(p, at, place.column, p.inner, sf_across(p), v[i], with[i]);
#endif
#endif
}
#endif
#endif

#if SHARED
#include "look_back.cuh"
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), group = thread / SLOTS, slot = thread - group * SLOTS, pitch = SLOTS * SF_WIDTH;
        unsigned char *buffers = sf_shared() + (SHARED ? SF_BURST_TICKET : 0); /* SF_STAGED tiles */
        /* SF_GROUPS rows for tiles with even numbers, and as many for odd ones. */
        sf_acc *totals = (sf_acc *)(buffers + SF_STAGED * ROWS * pitch * SF_IN_SIZE) + slot * SF_WIDTH;
        sf_acc *counter = totals + sf_columns_counter(SF_GROUPS,
                                                      pitch);          /* a row for each level */

        sf_i64 own = sf_block(), first = 0, tiles = SF_SINGLE || SHARED ? 1 : p.number[0];
#if SHARED
        /* Tickets give tiles to blocks in the order in which the blocks start: the first ones of all
         * strips, then the second ones. So a tile that a block waits for belongs to a block that
         * runs already. */
        sf_u64 *drawn = (sf_u64 *)sf_shared();
        if (thread == 0) {
                *drawn = sf_draw(p);
                sf_hand_in(p, *drawn);
        }
        sf_sync_block();
        const sf_u64 ticket = *drawn;
        first = sf_divide((sf_i64)(sf_u32)ticket, p.units);
        own = (sf_i64)(sf_u32)ticket - first * p.units;
#endif
        sf_i64 unit = sf_divide(own, p.number[1]), batch = unit;
        sf_i64 strip = (own - unit * p.number[1]) * pitch, column = strip + slot * SF_WIDTH;
#if SF_STAGED
        bool works = group < SF_GROUPS && column < p.inner;
#else
        const sf_place place = sf_place_of(p, strip, slot);
        bool works = group < SF_GROUPS && place.column < p.inner;
#endif
#if SF_CHUNKED == 1
        sf_i64 folded = (p.number[0] - 1) >> p.number[3], chunks = folded + !SF_PARTIAL;
        batch = sf_divide(unit, chunks);
        int chunk = (int)(unit - batch * chunks);
        first = (sf_i64)chunk << p.number[3];
        tiles -= first;
        if (chunk < folded)
                tiles = 1ll << p.number[3];
        if (SF_PARTIAL)
                first += tiles - 1;
#endif
        /* Scratch has room for whole vectors of columns; if there are packs, for whole strips. */
        sf_i64 columns = SF_PACKS > 1 ? p.number[1] * pitch : SF_RAGGED ? sf_padded(p.inner, SF_WIDTH) : p.inner;
        sf_line line = sf_batch_line(p, batch);
        sf_i64 row = first * ROWS + group * SF_ITEMS;

#if SF_STAGED
        for (int k = 0; k < SF_STAGED - 1; k++)
                sf_stage_tile(p, line.x, first + ON * k, k < tiles, pitch, buffers + k * (ROWS * pitch * SF_IN_SIZE));
        int turn_in = 0;
#else
        sf_vector next[SF_ITEMS];
        sf_results next_with[SF_ITEMS];
        int coming = sf_there(p, works, row);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                next[i] = sf_no_vector();
        sf_load_rows(p, line, place, row, coming, next);
        sf_load_withs(p, line, column, row, coming, next_with);
#endif
#if SF_CHUNKED == 1 && !SF_PARTIAL
        if (works)
                sf_look_up<SF_GROUPS, SF_WIDTH>((const sf_acc *)p.scratch + batch * folded * columns + column, columns, chunk, (int)p.number[3], group, counter, pitch);
#endif

#if SHARED
        const int depth = sf_ahead_depth(p.number[0]);
        const sf_i64 slots = (p.inner - strip + PACK - 1) / PACK;
        const sf_i64 before_strip = own * sf_ahead_entries(p.number[0], depth) * pitch;
        const sf_ahead ahead = {(sf_u64 *)p.scratch + SF_TICKETS / 8 + before_strip * SF_TOTAL_WORDS,
                                counter - slot * SF_WIDTH + SF_MATES_LOG * depth * pitch,
                                (int)p.number[0], slots < SLOTS ? (int)slots * SF_WIDTH : pitch,
                                pitch, sf_mark(ticket)};
#endif
        for (sf_i64 done = 0; done < tiles; done++, row += ON * ROWS) {
                sf_i64 t = first + ON * done;
                int there = SF_STAGED ? 0 : sf_there(p, works, row);
                sf_acc v[SF_ITEMS][SF_WIDTH];
#if SF_STAGED
                /* After this barrier all threads have also stored the previous tile, so its buffer
                 * may be filled again. */
                sf_copy_wait<SF_STAGED - 2>();
                sf_sync_block();
                unsigned char *buffer = buffers + turn_in * (ROWS * pitch * SF_IN_SIZE);
                sf_stage_tile(p, line.x, t + ON * (SF_STAGED - 1), done + SF_STAGED - 1 < tiles, pitch, buffers + (turn_in ? turn_in - 1 : SF_STAGED - 1) * (ROWS * pitch * SF_IN_SIZE));
                turn_in = turn_in + 1 == SF_STAGED ? 0 : turn_in + 1;
                /* Rows past the end hold garbage. They are the last rows, so no result that is kept
                 * depends on them. A thread without columns reads those of another. */
                unsigned char *own = buffer + ((works ? group * SF_ITEMS * pitch : 0) + slot * SF_WIDTH) * SF_IN_SIZE;
                sf_vector raw[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        raw[i] = sf_no_vector();
                        if (SF_GROUPS > 1 || works) /* no barrier is between this and others' results where there is one group */
                                sf_shared_load(own + i * pitch * SF_IN_SIZE, raw[i].x);
                }
                sf_elements<1>(p, raw, row, 1, 0, v);
                const auto again = [=, &p](auto &rows) {
                        sf_vector raw[SF_ITEMS];
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++) {
                                raw[i] = sf_no_vector();
                                if (works) /* others may store results by now */
                                        sf_shared_load(own + i * pitch * SF_IN_SIZE, raw[i].x);
                        }
                        sf_elements<1>(p, raw, row, 1, 0, rows);
                };
#else
                sf_elements<1>(p, next, row, 1, 0, v);
                sf_results with[SF_ITEMS];
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        with[i] = next_with[i];
                        sf_keep_results(next[i], with[i]);
                }
                coming = sf_there(p, works, row + ON * ROWS);
                if (!SF_SINGLE && !SHARED && done + 1 < tiles) {
                        sf_load_rows(p, line, place, row + ON * ROWS, coming, next);
                        sf_load_withs(p, line, column, row + ON * ROWS, coming, next_with);
                }
                const auto again = [=, &p](auto &rows) {
                        sf_vector raw[SF_ITEMS];
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                raw[i] = sf_no_vector();
                        sf_load_rows(p, line, place, row, there, raw);
                        sf_elements<1>(p, raw, row, 1, 0, rows);
                };
#endif

                /* Between the rows of a thread. */
                sf_parked parked;
                const bool whole = sf_scan_rows(v, parked, again);
                (void)whole;

                /* Between the groups of the tile. */
                sf_acc *turn = totals + (t & 1) * (SF_GROUPS * pitch);
                sf_before<SF_WIDTH> before = sf_none_before<SF_WIDTH>();
                if (SF_GROUPS > 1) {
                        if (works)
                                sf_enter(turn + group * pitch, v[SF_ITEMS - 1]);
                        sf_sync_block();
#if SHARED
                        /* First of all, since other blocks wait for it. */
                        if (t + 1 < p.number[0])
                                for (int c = thread; c < ahead.columns; c += SF_THREADS) {
                                        sf_acc total[1];
                                        sf_groups<SF_GROUPS, 1>::fold(turn - slot * SF_WIDTH + c, pitch, total);
                                        sf_publish_own(ahead, (int)t, c, sf_settled(total[0]));
                                }
#endif
                        if (works && !SF_PARTIAL)
                                sf_levels<SF_GROUPS / 2, SF_WIDTH>::take(turn, pitch, group, v, before);
                }
#if SF_PARTIAL
                if (group == 0 && works) {
                        sf_acc total[SF_WIDTH];
                        sf_groups<SF_GROUPS, SF_WIDTH>::fold(turn, pitch, total);
                        sf_count_back(counter, pitch, done, total);
                        if (done == tiles - 1)
                                sf_enter((sf_acc *)p.scratch + (batch * folded + chunk) * columns + column, total);
                }
#else

                /* Between the tiles of the sequence. */
#if SHARED
                sf_look_back(ahead, (int)t, counter - slot * SF_WIDTH);
#endif
                if (!SF_SINGLE && works)
                        sf_take_tiles<!SF_CHUNKED>(counter, pitch, t, group == SF_GROUPS - 1 && !SHARED, v, before);
                if (works)
                        sf_take_lefts(p, line, column, p.inner, v, before);
                sf_spread_rows(v, before);

#if SF_TOTAL
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (works && row + i + 1 == p.n)
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        if (!SF_RAGGED || column + j < p.inner)
                                                sf_store_total(p, line, column + j, sf_value_of(v, before, whole, parked, i, j));
#endif
                sf_answer result[SF_ITEMS][SF_WIDTH];
                sf_finish_rows(p, v, before, whole, parked, result);
#if SF_STAGED
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        if (works) {
                                sf_raw<SF_WIDTH * SF_OUT_SIZE> r;
                                r.w[0] = 0;
#pragma unroll
                                for (int j = 0; j < SF_WIDTH; j++)
                                        sf_set_slot<SF_OUT_SIZE>(r, j, sf_narrow(result[i][j]));
                                sf_shared_store(own + i * pitch * SF_IN_SIZE, r);
                        }
                sf_sync_block();
                sf_store_piece<SF_OUT_SIZE>(line.y + t * ROWS * pitch * SF_OUT_SIZE, sf_length(p, t, pitch), buffer);
#else
                sf_store_rows(p, line, place, row, there, result, with);
#endif
#endif
        }
}
