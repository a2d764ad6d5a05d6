/*
 * scan_burst.cu: scans of lines that many blocks share, one tile for each block. A line is one
 * sequence, or several that are interleaved: the columns of a narrow matrix.
 *
 * A block keeps its tile in registers. It reads the whole tile, scans it, waits for the totals of
 * the tiles before it, and writes the whole tile. While one block waits, another one on the same
 * multiprocessor reads or writes.
 *
 * Totals are published and found as in scan_chained.cu. Every tile publishes its own total, the
 * last tile of a group of 32 also the group's total, and so on for groups of groups. All threads
 * look for the totals that the tile needs from every level, each thread for a few of them. The tree
 * is then rebuilt in shared memory.
 *
 * If the number of columns is not a power of two, a row is one vector, or a power of two of
 * vectors. A warp cannot load or store vectors of such lengths at once. So the tile, which is
 * contiguous in memory, goes through shared memory.
 *
 * scratch: tickets (256 bytes), then for every line, level and group: 32 entries of SF_COLUMNS
 * totals. A total is WORDS words of 64 bits, each with the mark and 32 bits of the total.
 * number[0]: tiles of a line. number[1]: groups of a line. number[3]: tickets, one for each block.
 * n: elements of a line.
 */
#define ODD ((SF_COLUMNS & (SF_COLUMNS - 1)) != 0) /* not a power of two */
/* What warps take of each other is prepared once. H200, so and without: cumsum of 2^20 f32 1.08; of
 * (2^20, 32) 0.97; cumprod of 32 columns then has registers for twice as many threads. */
#define PREPARED (SF_PRODUCTS || SF_COLUMNS == 1)

enum {
        SHARE = sf_columns<SF_COLUMNS>::SHARE,
        SPAN = sf_columns<SF_COLUMNS>::SPAN,
        WARPS = SF_THREADS / 32,
        SPREAD = 32 * SF_WIDTH, /* elements from one item of a thread to its next item */
        TILE = SF_THREADS * SF_ITEMS * SF_WIDTH,
        WORDS = SF_TOTAL_WORDS,
        GROUP = SF_GROUP * SF_COLUMNS,                 /* totals of a group */
        LOOKS = (GROUP + SF_THREADS - 1) / SF_THREADS, /* totals of a group for each thread */
        FAR = SF_DEPTH > 2, /* 16 totals of 2^19 numbers or more may meet (sf_settled) */
        STAGED = ODD ? TILE * SF_IN_SIZE + 16 : 0,     /* bytes of the tile in shared memory */
};

/* Entry `index` of a level, in one column of one line. */
SF_DEVICE sf_u64 *sf_entry_of(const sf_params &p, sf_u32 unit, int level, sf_u32 index, int column)
{
        const sf_i64 entry = (sf_i64)sf_first_group_of(p, unit, level) * SF_GROUP + index;
        return (sf_u64 *)p.scratch + SF_TICKETS / 8 + (entry * SF_COLUMNS + column) * WORDS;
}

/* How many entries of a level come before the tile's own one in their group. */
SF_DEVICE int sf_mates(sf_u32 number, int level) { return (int)(number >> (5 * level) & 31); }

/* Waits for all totals that the tile needs from levels `from` to `to` - 1, and copies them to
 * found[level][entry][column]. */
SF_DEVICE void sf_look(const sf_params &p, sf_u32 unit, sf_u32 number, int from, int to,
                       sf_u32 mark, sf_acc *found)
{
        /* One after another: all at once, they would make 32 columns spill (nvcc 13, sm_90). */
#pragma unroll 1
        for (int k = 0; k < LOOKS; k++) {
                sf_u64 word[SF_DEPTH][WORDS];
                sf_u32 missing = ~0u; /* bit l: level l */
                do {
                        sf_u32 late = 0;
                        /* sf_anew: otherwise the compiler keeps addresses from one try to the next,
                         * and registers spill. */
                        const int own = sf_anew(sf_thread()) + k * SF_THREADS;
#pragma unroll
                        for (int l = 0; l < SF_DEPTH; l++) {
                                const sf_u32 index = number >> (5 * l) & ~31u;
                                const sf_u64 *first = sf_entry_of(p, unit, l, index, 0);
                                if (l >= from && l < to && own < sf_mates(number, l) * SF_COLUMNS && missing >> l & 1)
#pragma unroll
                                        for (int w = 0; w < WORDS; w++)
                                                word[l][w] = sf_watch(first + (own * WORDS + w));
                        }
#pragma unroll
                        for (int l = 0; l < SF_DEPTH; l++)
                                if (l >= from && l < to && own < sf_mates(number, l) * SF_COLUMNS && missing >> l & 1)
                                        late |= (sf_u32)!sf_arrived(word[l], mark, found[l * GROUP + own]) << l;
                        /* Several columns have no register to tell levels apart. */
                        missing = SF_COLUMNS == 1 || !late ? late : ~0u;
                } while (missing);
        }
}

/* Folds 2^log entries of one column, at most 16. */
SF_DEVICE sf_acc sf_fold_entries(const sf_acc *entry, int log)
{
        sf_acc sum[1];
        if (log == 0)
                sf_groups<1, 1>::fold(entry, SF_COLUMNS, sum);
        else if (log == 1)
                sf_groups<2, 1>::fold(entry, SF_COLUMNS, sum);
        else if (log == 2)
                sf_groups<4, 1>::fold(entry, SF_COLUMNS, sum);
        else if (log == 3)
                sf_groups<8, 1>::fold(entry, SF_COLUMNS, sum);
        else
                sf_groups<16, 1, FAR>::fold(entry, SF_COLUMNS, sum);
        return sf_settled(sum[0]);
}

#if ODD
/* Does the tile, which has `length` elements, have this vector? And where in the buffer is it (for
 * a vector past the end: where is the first one)? The tile may be stored backwards. */
SF_DEVICE bool sf_is_there(int vector, int length)
{
        return length == TILE || vector * SF_WIDTH < length;
}
SF_DEVICE unsigned char *sf_place_of(unsigned char *buffer, int vector, int length)
{
        int at = sf_is_there(vector, length) ? vector * SF_WIDTH : 0;
        return buffer + (SF_X_UNIT < 0 ? length - SF_WIDTH - at : at) * SF_IN_SIZE;
}
SF_DEVICE void sf_take_vector(const unsigned char *from, sf_vector &v)
{
#if SF_IN_SIZE >= 4
        sf_shared_load(from, v.x);
#else
        sf_clear(v.x);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                sf_raw<SF_IN_SIZE> one;
                sf_shared_load(from + j * SF_IN_SIZE, one);
                sf_set_slot<SF_IN_SIZE>(v.x, j, one.w[0]);
        }
#endif
}
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        int thread = sf_thread(), lane = thread & 31, warp = thread / 32, own = thread & (SPAN - 1);
        unsigned char *buffer = sf_shared() + SF_BURST_TICKET;
        sf_acc *turn = (sf_acc *)(buffer + STAGED); /* totals, a row for each warp */
        sf_acc *found = turn + sf_burst_found(WARPS, SF_COLUMNS);
        sf_acc *taken = turn + sf_burst_taken(WARPS, SF_COLUMNS, SF_DEPTH);

        /* Tickets give tiles to blocks in the order in which the blocks start. So a tile that a
         * block waits for belongs to a block that runs already. */
        sf_u64 *drawn = (sf_u64 *)sf_shared();
        if (thread == 0) {
                *drawn = sf_draw(p);
                sf_hand_in(p, *drawn);
        }
        sf_sync_block();
        sf_u32 mark = sf_mark(*drawn);
        /* Tickets are 32 bits wide, so there are no more tiles. */
        sf_u32 ticket = (sf_u32)*drawn, tiles = (sf_u32)p.number[0], unit = ticket / tiles;
        sf_u32 number = ticket - unit * tiles;
        sf_line line = sf_batch_line(p, unit);
        sf_i64 end = p.n;
        int early = 0;
#if SF_EARLY
        early = sf_begin_early(line);
        end += early;
#endif
        const sf_i64 start = (sf_i64)number * TILE;
        const sf_i64 at = start + warp * (SPREAD * SF_ITEMS) + lane * SF_WIDTH;
        /* All tiles but the last are full: their ends need not be checked. */
        const bool full = !SF_EARLY && !SF_SHIFT_IN && !SF_SHIFT_OUT && p.n - start >= TILE;
#if ODD
        int vector = warp * (32 * SF_ITEMS) + lane, length = full ? TILE : (int)(p.n - start);
        sf_i64 offset = (SF_X_UNIT < 0 ? -(start + length - 1) : start) * SF_IN_SIZE;
        buffer += (sf_u64)(line.x + offset) & 15; /* as sf_fetch_piece wants it */
        const auto load = [=](sf_vector(&raw)[SF_ITEMS], bool full) {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        const int own = vector + i * 32;
                        sf_take_vector(sf_place_of(buffer, own, full ? TILE : length), raw[i]);
                }
        };
        sf_fetch_piece<SF_IN_SIZE>(line.x + offset, length, buffer);
        sf_copy_commit();
        sf_copy_wait<0>();
        sf_sync_block();
#else
        const auto load = [=, &p](sf_vector(&raw)[SF_ITEMS], bool full) {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        const sf_i64 index = at + i * SPREAD, last = full ? index + SF_WIDTH : end;
                        raw[i] = sf_load_vector(line, index, last, sf_along(p));
                }
        };
#endif

        sf_acc v[SF_ITEMS][SF_WIDTH], total[SHARE];
        {
                sf_vector raw[SF_ITEMS];
                if (full)
                        load(raw, true);
                else
                        load(raw, false);
                sf_elements<SF_COLUMNS>(p, raw, at - early, SPREAD, 1, v);
#if SF_EARLY
                sf_clear_early(v, at, SPREAD, early, sf_neutral(p));
#endif
        }
        sf_parked parked;
        const bool whole = sf_scan_warp<32, SF_COLUMNS, false>(v, lane, sf_acc(), parked, [=, &p](sf_acc(&again)[SF_ITEMS][SF_WIDTH]) {
                sf_vector raw[SF_ITEMS];
                load(raw, false);
                sf_elements<SF_COLUMNS>(p, raw, at, SPREAD, 1, again);
        });
        sf_last<SF_COLUMNS>(v, total);
        if (lane >= 32 - SPAN)
                sf_enter(turn + warp * SF_COLUMNS + own * SHARE, total);
        sf_sync_block();
#if PREPARED
        /* WARPS neighbouring threads have a column: thread w of them has warp w's total. */
        for (int first = thread - lane; first < WARPS * SF_COLUMNS; first += SF_THREADS) {
                const int w = lane & (WARPS - 1), column = (first + lane) / WARPS;
                const bool there = column < SF_COLUMNS;
                sf_acc *entry = turn + w * SF_COLUMNS + column, largest = sf_acc();
                if (there)
                        largest = *entry;
                largest = sf_largest<WARPS>(largest, w, lane);
                if (there)
                        *entry = largest;
                if (there && w == WARPS - 1)
                        sf_publish_total<1>(sf_entry_of(p, unit, 0, number, column), largest, mark);
        }
        sf_sync_block();
        for (int bits = warp; bits; bits &= bits - 1) {
                sf_acc left[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        left[s] = turn[(bits - 1) * SF_COLUMNS + own * SHARE + s];
                sf_take_most(left, v);
        }
#else
        sf_acc sum[1] = {sf_acc()};
        if (thread < SF_COLUMNS) {
                sf_groups<WARPS, 1>::fold(turn + thread, SF_COLUMNS, sum);
                sf_settle_all(sum);
                sf_publish_total<1>(sf_entry_of(p, unit, 0, number, thread), sum[0], mark);
        }
        sf_before<SHARE> before = sf_none_before<SHARE>();
        sf_levels<WARPS / 2, SHARE>::take(turn + own * SHARE, SF_COLUMNS, warp, v, before);
#endif

        /* The last tile of a group publishes the group's total, and so on for higher levels. It
         * does so before it waits for anything else, since other blocks wait for these totals. */
        int level = 0;
        for (; level + 1 < SF_DEPTH && sf_mates(number, level) == 31; level++) {
                sf_look(p, unit, number, level, level + 1, mark, found);
                sf_sync_block();
                if (thread < SF_COLUMNS) {
#if PREPARED
                        sf_acc sum[1], *last = turn + (WARPS - 1) * SF_COLUMNS + thread;
#else
                        sf_acc *last = sum;
#endif
                        found[level * GROUP + 31 * SF_COLUMNS + thread] = *last;
                        sf_groups<32, 1, FAR>::fold(found + level * GROUP + thread,
                                                    SF_COLUMNS, sum);
                        *last = sf_settled(sum[0]);
                        sf_publish_total<1>(sf_entry_of(p, unit, level + 1, number >> (5 * (level + 1)), thread), *last, mark);
                }
        }
        sf_look(p, unit, number, level, SF_DEPTH, mark, found);
        sf_sync_block();
        for (int k = thread; k < SF_DEPTH * 5 * SF_COLUMNS; k += SF_THREADS) {
                int bit = k / SF_COLUMNS, log = bit % 5, mates = sf_mates(number, bit / 5);
                const int column = k % SF_COLUMNS;
                if (mates >> log & 1) {
                        const int from = (mates >> log << log ^ 1 << log) * SF_COLUMNS + column;
                        const sf_acc *first = found + bit / 5 * GROUP + from;
                        const int place = sf_count_bits(number & ((1u << bit) - 1));
                        taken[place * SF_COLUMNS + column] = sf_fold_entries(first, log);
                }
        }
        sf_sync_block(); /* the list is complete */
#if PREPARED
        /* Only now, since there were no registers for it while the totals were looked for. */
        sf_before<SHARE> before = sf_none_before<SHARE>();
        for (int bits = warp; bits; bits &= bits - 1) {
                sf_acc left[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        left[s] = turn[(bits - 1) * SF_COLUMNS + own * SHARE + s];
                sf_take_rest(left, before);
        }
#endif
        sf_take_list(taken + own * SHARE, SF_COLUMNS, number, v, before);
        sf_take_lefts(p, line, own * SHARE, SF_COLUMNS, v, before);
        sf_answer result[SF_ITEMS][SF_WIDTH];
        sf_finish<32, SF_COLUMNS, SPREAD>(p, line, at, p.n, number + 1 == p.number[0], v, before, whole, parked, lane, result);
#if ODD
        const auto store = [=, &result](int length) {
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        unsigned char *place = sf_place_of(buffer, vector + i * 32, length);
                        if (!sf_is_there(vector + i * 32, length))
                                continue;
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                sf_shared_store(place + sf_slot_of<SF_Y_UNIT>(j) * SF_OUT_SIZE,
                                                sf_one_slot<SF_OUT_SIZE>(sf_narrow(result[i][j])));
                }
        };
        if (full)
                store(TILE);
        else
                store(length);
        sf_sync_block();
        sf_store_piece<SF_OUT_SIZE>(line.y + offset, length, buffer);
#else
        sf_results with[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                with[i] = sf_load_results(line, at + i * SPREAD, p.n, p.n - 1, sf_along(p));
        if (full)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++) {
                        const sf_i64 index = at + i * SPREAD, last = index + SF_WIDTH;
                        sf_store_vector(p, line, index, last, sf_along(p), result[i], with[i]);
                }
        else
                sf_store_vectors<32, SPREAD>(p, line, at, end, result, with, lane, early);
#endif
}
