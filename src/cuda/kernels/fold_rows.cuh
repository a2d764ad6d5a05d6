/*
 * fold_rows.cuh: folds of rows. fold.cu includes it.
 *
 * A team of SF_TEAM threads folds one chunk of one sequence. Every warp of the team goes through
 * its own aligned part, so no barrier is needed before the end. Elements past the end count as the
 * operation's neutral value, which changes no bit (-0.0 for a sum: x + -0.0 is x, also if x is 0.0
 * or -0.0).
 *   number[0]: chunks of a sequence. number[1]: elements of a chunk. number[2]: elements of a
 *   warp's part. units: sequences times chunks.
 *   SF_STAGED: the tensor is contiguous, but its sequences are short, or are the columns of small
 *   matrices, so that they do not fit vectors. Then what a block has goes through shared memory as
 *   one piece. A unit is a sequence or a small matrix. number[0]: bytes from one result to the
 *   next, or 0. number[1]: units of a block. number[3]: sequences of a unit. SF_STAGED > 1: these may be more than the block holds at once.
 *   SF_SLABS: units of sequences of several dimensions, which are in as many slabs of memory as the
 *   dimensions with m set have positions. y: bytes from one position to the next in shared memory.
 *   il: elements of a unit in a slab. left_entry: slabs. number[2]: blocks that share a slab.
 */
#define SF_SLABS (SF_STAGED && SF_NSEQ > 1)
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

static_assert(!SF_LIMITS || WARPS <= 8, "totals of warps are multiplied unsettled (sf_settled)");

/* Of a staged sequence, only the last item may lack elements. (If the sequence does not exist, its
 * items are those of another, and nobody stores their total.) */
#define SURE(i) (SF_STAGED && (i) + 1 < SF_ITEMS)
/* Can a vector exist in part? If not, it is asked once for all its elements. */
enum { IN_PART = SF_RAGGED || SF_EARLY || SF_CUTS || SF_STAGED || (SF_NSEQ > 1 && SF_SHIFT_IN) };

/* Vectors at any address take their second chunks from the lanes beside. */
#define SF_BESIDE (SF_SHIFT_IN && SF_TEAM >= 32 && !SF_MASK)

#if SF_BESIDE
/* Loads a thread's chunks, of vectors that are in one run. */
template <bool WHOLE>
SF_DEVICE void sf_fetch_beside(const sf_params &p, const sf_line &line, sf_index at, sf_index stop,
                               sf_vector (&v)[SF_ITEMS])
{
        const sf_chunk<SF_X_UNIT, SF_IN_SIZE> own = sf_chunk_of<SF_X_UNIT, SF_IN_SIZE>(line.x, at);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                v[i] = sf_no_vector();
                if (WHOLE || sf_needs_chunk(own, at + i * SPREAD, stop))
                        sf_load_chunk(sf_chunk_at<SPREAD>(own, i), p.x_begin, p.x_end, v[i].x);
        }
        v[0].x_past = own.past;
        const char *beyond = sf_chunk_beyond<SF_ITEMS, SPREAD>(own, at, stop, sf_thread() & 31);
        if (beyond)
                sf_load_chunk(beyond, p.x_begin, p.x_end, v[0].x_next);
}
#endif

/* Loads a thread's vectors, of which the first is at `at`. */
template <bool WHOLE>
SF_DEVICE void sf_fetch_tile(const sf_params &p, const sf_line &line, sf_index at, sf_index stop,
                             sf_vector (&v)[SF_ITEMS])
{
#if SF_NSEQ > 1 && SF_SHIFT_IN
        sf_i64 left[SF_ITEMS];
#if SF_BESIDE
        /* The same for all lanes: is the warp's tile in one run? */
        const sf_i64 first = at - (sf_thread() & 31) * SF_WIDTH, rest = stop - first;
        const sf_line run = sf_walked(p, line, first, left[0]);
        /* Without an element of its own a warp reads no chunk: what comes before is in another run. */
        if (left[0] >= TILE || left[0] >= rest)
                return sf_fetch_beside<false>(p, run, at - first, rest > 0 ? rest : -SF_WIDTH, v);
#endif
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                v[i] = sf_fetch_run(p, line, at + i * SPREAD, stop, left[i]);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_finish_run(p, line, at + i * SPREAD, stop, left[i], v[i]);
#elif SF_BESIDE
        sf_fetch_beside<WHOLE>(p, line, at, stop, v);
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                v[i] = sf_fetch<WHOLE>(p, line, at + i * SPREAD, stop);
#endif
}

/* The elements of a thread's vector number i. */
template <bool WHOLE>
SF_DEVICE void sf_load_item(const sf_params &p, const sf_vector &v, int i, sf_index at, sf_index stop,
                            int early, sf_loaded absent, sf_loaded (&x)[1][SF_WIDTH])
{
        const bool all = WHOLE || SURE(i);
        const sf_index first = at + i * SPREAD;
        (void)early;
        sf_loaded_below<1, sf_index>(p, v, all ? 0 : first, !all && IN_PART, all ? 1 : stop,
                                     first - early, 1, absent, x[0]);
#if SF_EARLY
        sf_clear_early(x, first, SPREAD, early, absent);
#endif
}

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
                sf_cut_vector(own);
                a[i] = sf_fold_packed(own, low, high);
        }
        return;
#endif
        /* One vector after another, which needs fewer registers. */
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_loaded loaded[1][SF_WIDTH];
                sf_acc e[1];
                sf_load_item<WHOLE>(p, v[i], i, at, stop, early, absent, loaded);
                sf_fold_each<false>(loaded, e);
                a[i] = e[0];
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
#if SF_BESIDE
        sf_meet_chunks(v, lane);
#endif
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
                sf_fetch_tile<true>(p, line, at + TILE, stop, v);
        else if (rest > 0)
                sf_fetch_tile<false>(p, line, at + TILE, stop, v);
        return small ? sf_fold_lanes_of<LANES, 1, true, 1, SF_ITEMS>(a, lane, SF_WIDTH) : sf_fold_lanes<LANES>(a, lane);
}
#endif

#if SF_NUMBERS
/* The product of a tile as sf_fold_numbers has it. */
template <bool WHOLE>
SF_DEVICE bool sf_multiply_vectors(const sf_params &p, const sf_vector (&v)[SF_ITEMS], sf_index at,
                                   sf_index stop, int early, int lane, sf_loaded absent, sf_acc &total)
{
        enum { COUNT = LANES > 1 ? ITEMS : SF_ITEMS }; /* lanes share a power of two of items */
        sf_number a[COUNT];
        sf_u32 most = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
                a[i] = absent;
                if (i >= SF_ITEMS)
                        continue;
                sf_loaded x[1][SF_WIDTH];
                sf_load_item<WHOLE>(p, v[i % SF_ITEMS], i, at, stop, early, absent, x);
#pragma unroll
                for (int b = 1; b < SF_WIDTH; b *= 2)
#pragma unroll
                        for (int j = 0; j + b < SF_WIDTH; j += 2 * b)
                                x[0][j] = sf_multiply_on(x[0][j], x[0][(j + b) % SF_WIDTH], most);
                a[i] = x[0][0];
        }
        return sf_fold_numbers<LANES, 1, SF_WIDTH>(a, most, lane, total);
}

/* The same where some product leaves the range: vectors are read again, again(i), and lifted, one after
 * another. So nobody has to keep them, and this takes few registers. */
template <class AGAIN>
SF_DEVICE sf_acc sf_multiply_again(const sf_params &p, sf_index at, sf_index stop, int early, int lane,
                                   sf_loaded absent, AGAIN again)
{
        /* A counter, as of tiles, of mantissas; exponents are one sum. Where items are a power of
         * two, the last entry would be the total, and is left out. Entries have constant indices:
         * an array in local memory would be written where nobody needs it. H200, odd rows of 8
         * bf16: 0.37 of a copy so. */
        enum { POWER = (SF_ITEMS & (SF_ITEMS - 1)) == 0 };
        enum { ENTRIES = sf_log<SF_ITEMS>::DOWN + !POWER };
        static_assert(SF_ITEMS <= SF_LOOSE, "settled mantissas are multiplied unsettled");
        sf_number entry[ENTRIES ? ENTRIES : 1], own = 1;
        int exponent = 0; /* that of a tile fits */
#pragma unroll 1
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_loaded x[1][SF_WIDTH];
                sf_acc a[1];
                sf_load_item<false>(p, again(i), i, at, stop, early, absent, x);
                sf_fold_each<false>(x, a);
                const sf_acc item = sf_fold_lanes<LANES>(a, lane);
                if (SF_ITEMS == 1)
                        return item;
                exponent += (int)item.exponent;
                own = item.mantissa;
                bool carries = true;
#pragma unroll
                for (int k = 0; k < ENTRIES; k++) {
                        const bool full = carries && i >> k & 1;
                        own = full ? sf_multiply(entry[k], own) : own;
                        entry[k] = carries && !full ? own : entry[k];
                        carries = full;
                }
        }
        bool any = POWER;
#pragma unroll
        for (int k = 0; k < ENTRIES; k++)
                if (SF_ITEMS >> k & 1) {
                        own = any ? sf_multiply(entry[k], own) : entry[k];
                        any = true;
                }
        return sf_settled(sf_holds::made(own, (sf_u64)(sf_i64)exponent));
}
#endif

/* Folds a tile of a team. */
template <bool WHOLE, class AGAIN>
SF_DEVICE sf_acc sf_fold_vectors(const sf_params &p, const sf_vector (&v)[SF_ITEMS], sf_index at, sf_index stop, int early, int lane, sf_loaded absent, AGAIN again)
{
        (void)again;
#if SF_NUMBERS
        sf_acc product;
        if (!sf_multiply_vectors<WHOLE>(p, v, at, stop, early, lane, absent, product))
                product = sf_multiply_again(p, at, stop, early, lane, absent, again);
        return product;
#else
        /* Lanes share a power of two of items; those that there are not count as neutral. */
        sf_acc a[SF_ITEMS], all[ITEMS];
        sf_fold_items<WHOLE>(p, v, at, stop, early, absent, a);
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
                all[i] = i < SF_ITEMS ? a[i % SF_ITEMS] : sf_neutral(p);
        return sf_fold_lanes<LANES>(all, lane);
#endif
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
/* The line of a block's sequence, of which only the result is wanted: x is in shared memory. Where
 * results are equally far apart, as they mostly are, number[0] says how far, and nothing need be
 * divided. `first`: the block's first sequence. */
SF_DEVICE sf_line sf_staged_line(const sf_params &p, sf_i64 first, int own)
{
        if (!p.number[0])
                return sf_line_from(p, SF_X, first + own);
        sf_line line = {SF_X, p.y + first * p.number[0] + own * p.number[0], p.m};
        return line;
}

#if SF_SLABS
/* Moves what a block has of all slabs to shared memory. */
SF_DEVICE void sf_fetch_slabs(const sf_params &p, const char *from, int length, unsigned char *in)
{
        for (int slab = 0; slab < (int)p.left_entry; slab++) {
                const char *x = from;
                int at = 0, rest = slab;
#pragma unroll
                for (int d = SF_NBATCH + SF_NSEQ - 1; d >= SF_NBATCH; d--)
                        if (p.dims[d].m) {
                                const int next = (int)sf_divided(p.dims[d], rest), own = rest - next * (int)p.dims[d].len;
                                x += own * p.dims[d].x;
                                at += own * (int)p.dims[d].y;
                                rest = next;
                        }
                sf_fetch_piece<SF_IN_SIZE>(x, length, in + at);
        }
}

/* Where a sequence has an element, in bytes. */
SF_DEVICE int sf_staged_at(const sf_params &p, int index)
{
        int at = 0;
#pragma unroll
        for (int d = SF_NBATCH + SF_NSEQ - 1; d >= SF_NBATCH; d--) {
                const int next = d > SF_NBATCH ? (int)(sf_high_word((sf_u32)index, p.dims[d].times) >> p.dims[d].shift) : 0;
                at += (index - next * (int)p.dims[d].len) * (int)p.dims[d].y;
                index = next;
        }
        return at;
}
#endif

/* Element `index` of a staged sequence, `step` elements from one to the next. An index past the end loads
 * the first element, and nobody uses it: a condition before every load would be a branch. */
SF_DEVICE sf_vector sf_fetch_staged(const sf_params &p, const sf_line &line, int i, int index, int stop, int step)
{
        sf_vector v;
        const int there = SURE(i) || index < stop ? index : 0;
#if SF_SLABS
        (void)step;
        sf_shared_load((const unsigned char *)line.x + sf_staged_at(p, there), v.x);
#else
        sf_shared_load((const unsigned char *)line.x + there * step * SF_IN_SIZE, v.x);
#endif
        return v;
}

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
        const int n = (int)p.n, inner = (int)p.number[3], most = (int)p.number[1] * inner, back = p.sx < 0 ? n - 1 : 0, step = SF_X_UNIT ? SF_X_UNIT : back ? -inner : inner;
#if SF_SLABS
        const sf_i64 outer = sf_divide(sf_block(), p.number[2]), along = p.dims[SF_NBATCH - (inner > 1 ? 2 : 1)].len;
        const sf_i64 begins = (sf_block() - outer * p.number[2]) * p.number[1], top = outer * along + begins;
        const int sequences = along - begins < p.number[1] ? (int)(along - begins) * inner : most;
        const char *from = sf_line_from(p, SF_X, top * inner).x;
        unsigned char *in = sf_shared() + ((sf_u64)from & 15);
        (void)back;
        sf_fetch_slabs(p, from, sequences / inner * (int)p.il, in);
#else
        const sf_i64 top = sf_block() * p.number[1]; /* the block's first unit */
        const int sequences = p.units - top * inner < most ? (int)(p.units - top * inner) : most;
        const char *from = SF_X + (top * n - back) * inner * SF_IN_SIZE;
        const unsigned char *in = sf_shared() + ((sf_u64)from & 15);
        sf_fetch_piece<SF_IN_SIZE>(from, sequences * n, sf_shared() + ((sf_u64)from & 15));
#endif
        sf_copy_commit();
        sf_copy_wait<0>();
        sf_sync_block();
#else
        enum { sequences = 1 };
#endif
        for (int base = 0; base < (SF_STAGED > 1 ? (int)sequences : 1); base += SF_ROWS * TEAMS) {
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
#if SF_STAGED
                        const int mine = base + q * TEAMS + team;
                        line[q] = sf_staged_line(p, top * inner, mine < sequences ? mine : 0);
                        at[q] = lane & (LANES - 1);
                        stop[q] = mine < sequences ? n : 0;
                        continue;
#endif
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
                        if (!works) /* not even the chunk in which a vector at `start` begins is read */
                                stop[q] = (sf_index)start - SF_WIDTH;
                        at[q] = (sf_index)start + (lane & (LANES - 1)) * SF_WIDTH;
#if !SF_STAGED
                        sf_fetch_tile<false>(p, line[q], at[q], stop[q], next[q]);
#endif
                }
#if SF_STAGED
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        const int own = base + q * TEAMS + team, sequence = own < sequences ? own : 0;
                        const int unit = sf_unit_of(p, sequence, inner);
#if SF_SLABS
                        const int begin = unit * (int)p.il + sequence - unit * inner;
#else
                        const int begin = (unit * (n - 1) + back) * inner + sequence;
#endif
                        line[q].x = (const char *)in + begin * SF_IN_SIZE;
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                next[q][i] = sf_fetch_staged(p, line[q], i, at[q] + i * SPREAD, stop[q], step);
                }
#endif
                sf_line own = line[0];
                sf_acc held = neutral;
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_acc total;
                        const auto again = [&](int i) {
#if SF_STAGED
                                return sf_fetch_staged(p, line[q], i, at[q] + i * SPREAD, stop[q], step);
#elif SF_NSEQ > 1 && SF_SHIFT_IN
                                sf_i64 left;
                                sf_vector v = sf_fetch_run(p, line[q], at[q] + i * SPREAD, stop[q], left);
                                sf_finish_run(p, line[q], at[q] + i * SPREAD, stop[q], left, v);
                                return v;
#else
                                return sf_fetch<false>(p, line[q], at[q] + i * SPREAD, stop[q]);
#endif
                        };
                        if (SF_SINGLE) {
#if SF_BESIDE
                                sf_meet_chunks(next[q], lane);
#endif
                                total = sf_fold_vectors<false>(p, next[q], at[q], stop[q], early[q], lane, absent, again);
                        } else {
                                /* The same for all lanes of the warp. */
                                sf_i64 begin = at[q] - lane * SF_WIDTH;
                                sf_i64 tiles = begin < stop[q] ? (stop[q] - begin + TILE - 1) / TILE : 0;
                                /* Blocks mostly end with a tile: then all of them are whole. */
                                const bool even = SF_CUTS && begin + tiles * TILE <= stop[q];
                                sf_counter counter = {neutral};
                                sf_acc own_total = neutral;
                                for (sf_i64 t = 0; t < tiles; t++) {
                                        sf_acc sum;
#if SF_REFILLS
                                        const sf_i64 rest = stop[q] - begin - (t + 1) * TILE;
                                        if (rest >= 0)
                                                sum = sf_fold_whole(p, line[q], at[q], stop[q], early[q], lane, absent, rest, next[q]);
                                        else {
#if SF_BESIDE
                                                sf_meet_chunks(next[q], lane);
#endif
                                                sum = sf_fold_vectors<false>(p, next[q], at[q], stop[q], early[q], lane, absent, again);
                                        }
#else
                                        sf_vector now[SF_ITEMS];
#pragma unroll
                                        for (int i = 0; i < SF_ITEMS; i++)
                                                now[i] = next[q][i];
                                        if (t + 2 < tiles || (even && t + 1 < tiles))
                                                sf_fetch_tile<true>(p, line[q], at[q] + TILE, stop[q], next[q]);
                                        else if (t + 1 < tiles)
                                                sf_fetch_tile<false>(p, line[q], at[q] + TILE, stop[q], next[q]);
#if SF_BESIDE
                                        sf_meet_chunks(now, lane);
#endif
                                        const bool whole = even || t + 1 < tiles;
                                        if (ANY_ORDER && whole)
                                                own_total = sf_fold_own<true>(p, now, at[q], stop[q], early[q], own_total, absent);
                                        else if (ANY_ORDER)
                                                own_total = sf_fold_own<false>(p, now, at[q], stop[q], early[q], own_total, absent);
                                        else if (whole)
                                                sum = sf_fold_vectors<true>(p, now, at[q], stop[q], early[q], lane, absent, again);
                                        else
                                                sum = sf_fold_vectors<false>(p, now, at[q], stop[q], early[q], lane, absent, again);
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
