/*
 * scan_rows.cu: scans along an axis whose elements are contiguous, or at any one stride.
 *
 * A team of SF_TEAM threads (a power of two: lanes of a warp, or several warps) goes through one
 * sequence, tile by tile. The next tile is loaded into registers while this one is computed. The
 * total of a tile goes into a binary counter (core/order.h), of which every warp has its own copy.
 * A team no larger than a warp needs no barrier, and has SF_ROWS sequences at once, so that enough
 * loads are under way. Memory is fastest with many reads in a row, then many writes, so a tile is
 * as large as the registers allow.
 *
 * SF_STAGED: the tensor is contiguous, but its sequences are short, or are the columns of small
 * matrices, so that vectors of 16 bytes do not begin where sequences do. Then units, which are
 * sequences or small matrices, are moved as one piece of memory to shared memory, scanned there, and
 * moved back. A block has one piece after another, of which the next one is copied while this one
 * is scanned. Vectors are neighbours there, which are
 * read one by one; where any order gives the same bits, lines begin early (SF_EARLY), and vectors are aligned. number[1]: units of a piece.
 * number[2]: blocks. number[3]: sequences of a unit. SF_STAGED > 1: a piece may be more than the block
 * holds at once.
 *
 * SF_CUTS: a unit is one of the blocks of a sequence (sf_rising), all of them in one tile.
 *
 * number[0]: tiles of a sequence. units: sequences in all.
 */
enum {
        LANES = SF_TEAM < 32 ? SF_TEAM : 32,
        WARPS = SF_TEAM < 32 ? 1 : SF_TEAM / 32,
        TEAMS = SF_THREADS / SF_TEAM,
        TILE = SF_TEAM * SF_ITEMS * SF_WIDTH,
        SPREAD = LANES * SF_WIDTH, /* elements from one item of a thread to its next item */
        /* For products, a condition before every load costs too much: there is one for the tile. */
        ASKS_ONCE = SF_PRODUCTS,
        CHOOSE = SF_PRODUCTS || (SF_STAGED && SF_COMMUTES && SF_IN_SIZE < 4), /* sf_scan_lanes */
};

/* What a warp has of a row at any address follows each other in memory: lanes take the second chunks of their
 * vectors, and of those they store, from the lanes beside. */
#define SF_BESIDE (SF_SHIFT_IN && SF_TEAM >= 32 && !SF_EARLY && !SF_MASK && !SF_CUTS && !SF_STAGED && SF_NSEQ == 1 && SF_WIDTH * SF_IN_SIZE >= 4)
#define SF_JOINS (SF_SHIFT_OUT && SF_TEAM >= 32 && !SF_EARLY && !SF_STAGED && SF_NSEQ == 1 && SF_WIDTH * SF_OUT_SIZE >= 4)

#if SF_STAGED
#if SF_EARLY
/* The slots of the vector at `index` that are its line's own: from *low to before *high. */
SF_DEVICE void sf_own_slots(int index, int end, int early, int *low, int *high)
{
        const int before = index < early ? early - index : 0, behind = end - index < SF_WIDTH ? SF_WIDTH - (end - index) : 0;
        *low = SF_X_UNIT < 0 ? behind : before;
        *high = SF_WIDTH - (SF_X_UNIT < 0 ? before : behind);
}
#endif

/* As sf_load_vector, in shared memory. `step`: elements from one to the next. All items but the last
 * exist, or no sequence does, and then they are those of another. An index past the end loads the
 * first element, and nobody uses it: a condition before the load would be a branch, and the next load
 * would have to wait for it. */
SF_DEVICE sf_vector sf_load_staged(const sf_line &line, int item, int index, int end, int early, int step)
{
        sf_vector v;
        (void)early;
#if SF_EARLY
        int low, high;
        sf_own_slots(index, end, early, &low, &high);
        sf_shared_glance((const unsigned char *)line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index < end ? index : 0, 0), v.x, low * SF_IN_SIZE,
                         index < end ? high * SF_IN_SIZE : 0);
        return v;
#endif
        sf_clear(v.x);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                sf_raw<SF_IN_SIZE> one;
                const bool there = item + 1 < SF_ITEMS || index + j < end;
                sf_shared_glance((const unsigned char *)line.x + (there ? index + j : 0) * step * SF_IN_SIZE, one, there && end > 0);
#if SF_PRODUCTS
#pragma unroll
                for (int w = 0; w < (int)(sizeof one.w / 4); w++)
                        one.w[w] = there ? one.w[w] : sf_blank(w) & (SF_IN_SIZE == 2 ? 0xffff : ~0u);
#endif
                sf_set_slot<SF_IN_SIZE>(v.x, sf_slot_of<SF_X_UNIT>(j), sf_slot<SF_IN_SIZE>(one, 0));
        }
        return v;
}

SF_DEVICE void sf_store_staged(const sf_params &p, const sf_line &line, int item, int index, int end, int early, int step,
                               const sf_answer (&v)[SF_WIDTH])
{
        (void)p, (void)early;
#if SF_EARLY
        const sf_stored r = sf_pack(p, v, sf_results{});
        unsigned char *to = (unsigned char *)line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, 0);
        int low, high;
        sf_own_slots(index, end, early, &low, &high);
        if (index >= end)
                return;
        if (low == 0 && high == SF_WIDTH) {
                sf_shared_store(to, r);
                return;
        }
        enum { EACH = SF_OUT_SIZE < 4 ? 4 / SF_OUT_SIZE : 1, WORDS = SF_OUT_SIZE < 4 ? 1 : SF_OUT_SIZE / 4 };
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j += EACH) {
                sf_raw<WORDS * 4> whole;
#pragma unroll
                for (int w = 0; w < WORDS; w++)
                        whole.w[w] = r.w[j * SF_OUT_SIZE / 4 + w];
                if (j >= low && j + EACH <= high)
                        sf_shared_store(to + j * SF_OUT_SIZE, whole);
                else if (j < high && j + EACH > low)
#pragma unroll
                        for (int k = j; k < j + EACH; k++)
                                if (k >= low && k < high)
                                        sf_shared_store(to + k * SF_OUT_SIZE, sf_one_slot<SF_OUT_SIZE>(sf_slot<SF_OUT_SIZE>(r, k)));
        }
        return;
#endif
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (item + 1 < SF_ITEMS ? end > 0 : index + j < end)
                        sf_shared_store((unsigned char *)line.y + (index + j) * step * SF_OUT_SIZE,
                                        sf_one_slot<SF_OUT_SIZE>(sf_narrow(v[j])));
}
#define LOAD(line, index, end, by) sf_load_staged(line, i, (int)(index), (int)(end), early[q], step)
#else
#define LOAD sf_load_vector
#endif

#if SF_BESIDE
/* A thread's vectors, of which the first is at `at`. */
SF_DEVICE void sf_load_beside(const sf_line &line, sf_i64 at, sf_i64 end, const sf_strides &by, sf_vector (&v)[SF_ITEMS])
{
        const sf_chunk<SF_X_UNIT, SF_IN_SIZE> own = sf_chunk_of<SF_X_UNIT, SF_IN_SIZE>(line.x, at);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                v[i] = sf_no_vector();
                if (sf_needs_chunk(own, at + i * SPREAD, end))
                        sf_load_chunk(sf_chunk_at<SPREAD>(own, i), by.x_begin, by.x_end, v[i].x);
        }
        v[0].x_past = own.past;
        const char *beyond = sf_chunk_beyond<SF_ITEMS, SPREAD>(own, at, end, sf_thread() & 31);
        if (beyond)
                sf_load_chunk(beyond, by.x_begin, by.x_end, v[0].x_next);
}
#endif

#if SF_UNLIFTED
/* Uses what has just been read, so that nothing after a branch has to wait for it: it would wait for
 * the loads of the next tile too. H200, cumprod of (16384, 16384) bf16, share of plain
 * multiplication: 0.91, without 0.89. */
SF_DEVICE void sf_use_now(sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        sf_number one = 1;
        one = sf_anew(one);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        v[i][j].mantissa = sf_multiply(v[i][j].mantissa, one);
}
#else
template <class V> SF_DEVICE void sf_use_now(V &) {}
#endif

/* What a block has in shared memory: `sequences` of them, in `in`, and later their results in `out`. */
struct sf_staged {
        unsigned char *in, *out;
        int sequences;
};

#if SF_STAGED
/* Elements from one of a sequence to the next; and how many its first element is above its lowest address. */
SF_DEVICE int sf_staged_step(const sf_params &p)
{
        const int inner = (int)p.number[3];
        return SF_X_UNIT ? SF_X_UNIT : p.sx < 0 ? -inner : inner;
}
SF_DEVICE int sf_staged_back(const sf_params &p) { return p.sx < 0 ? ((int)p.n - 1) * (int)p.number[3] : 0; }
#endif

/* The sequences that a team has at a time, where they end, and how early they begin (sf_begin_early); of those that
 * are staged, the block's from number `base` on. A team without a sequence runs the same code with a sequence of no
 * elements. */
SF_DEVICE void sf_find_lines(const sf_params &p, const sf_staged &staged, int base, int team, sf_line (&line)[SF_ROWS],
                             sf_i64 (&end)[SF_ROWS], int (&early)[SF_ROWS])
{
        (void)staged, (void)base, (void)early;
#if SF_STAGED
        const int n = (int)p.n, inner = (int)p.number[3], back = sf_staged_back(p);
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++) {
                const int own = base + q * TEAMS + team, sequence = own < staged.sequences ? own : 0;
                const int at = sf_unit_of(p, sequence, inner) * (n - 1) * inner + sequence + back;
                end[q] = own < staged.sequences ? n : 0;
                line[q].x = (const char *)staged.in + at * SF_IN_SIZE;
                line[q].y = (char *)staged.out + at * SF_OUT_SIZE;
#if SF_EARLY
                early[q] = sf_begin_early(line[q]);
                end[q] += own < staged.sequences ? early[q] : 0;
#endif
        }
#else
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++) {
                sf_i64 row = (sf_block() * SF_ROWS + q) * TEAMS + team;
                end[q] = row < p.units ? p.n : 0;
#if SF_CUTS
                sf_i64 begin, length, batch = sf_divide(row < p.units ? row : 0, p.iy);
                sf_i64 block = row < p.units ? row - batch * p.iy : 0, number = block;
                sf_rising_at(p.inner, p.n, 62, &number, &begin, &length); /* a tile for each */
                end[q] = row < p.units ? length : 0;
                line[q] = sf_moved(sf_batch_line(p, batch), begin, sf_along(p));
                line[q].left += block * p.ix;
#else
                line[q] = sf_batch_line(p, row < p.units ? row : 0);
#endif
#if SF_EARLY
                early[q] = sf_begin_early(line[q]);
                end[q] += row < p.units ? early[q] : 0;
#endif
        }
#endif
}

/* Scans them. */
SF_DEVICE void sf_scan_teams(const sf_params &p, const sf_staged &staged, int base)
{
        int thread = sf_thread(), lane = thread & 31, member = thread & (SF_TEAM - 1), warp = member / 32, team = thread / SF_TEAM;
        sf_acc identity = sf_acc_of(p.identity);
        /* SF_THREADS / 32 totals for tiles with even numbers, and as many for odd ones. */
        sf_acc *totals = (sf_acc *)sf_shared() + team * WARPS;
#if SF_STAGED
        const int step = sf_staged_step(p);
#endif
        sf_line line[SF_ROWS];
        sf_i64 end[SF_ROWS];
        int early[SF_ROWS] = {};
        sf_find_lines(p, staged, base, team, line, end, early);

        sf_i64 at = warp * (SPREAD * SF_ITEMS) + (member & (LANES - 1)) * SF_WIDTH;
        sf_vector next[SF_ROWS][SF_ITEMS];
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++)
#if SF_BESIDE
                sf_load_beside(line[q], at, end[q], sf_along(p), next[q]);
#else
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        next[q][i] = LOAD(line[q], at + i * SPREAD, end[q], sf_along(p));
#endif

        sf_counter counter[SF_ROWS];
#pragma unroll
        for (int q = 0; q < SF_ROWS; q++)
                counter[q].entry = identity;

        sf_i64 tiles = SF_SINGLE ? 1 : p.number[0];
        for (sf_i64 t = 0; t < tiles; t++, at += TILE) {
                sf_acc v[SF_ROWS][SF_ITEMS][SF_WIDTH];
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
#if SF_BESIDE
                        sf_meet_chunks(next[q], lane);
#endif
                        sf_elements<1>(p, next[q], at - early[q], SPREAD, 1, v[q]);
#if SF_EARLY
                        sf_clear_early(v[q], at, SPREAD, early[q], sf_neutral(p));
#endif
                }
                sf_results with[SF_ROWS][SF_ITEMS];
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++)
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++) {
                                with[q][i] = sf_fresh_results(line[q], at + i * SPREAD, end[q], end[q] - 1, sf_along(p));
                                sf_keep_results(next[q][i], with[q][i]);
                        }
                if (!SF_SINGLE && t + 1 < tiles)
#pragma unroll
                        for (int q = 0; q < SF_ROWS; q++)
#if SF_BESIDE
                                sf_load_beside(line[q], at + TILE, end[q], sf_along(p), next[q]);
#else
                                if (ASKS_ONCE && at + TILE + (SF_ITEMS - 1) * SPREAD + SF_WIDTH <= end[q])
#pragma unroll
                                        for (int i = 0; i < SF_ITEMS; i++)
                                                next[q][i] = sf_load_vector(line[q], at + TILE + i * SPREAD, at + TILE + i * SPREAD + SF_WIDTH, sf_along(p));
                                else
#pragma unroll
                                        for (int i = 0; i < SF_ITEMS; i++)
                                                next[q][i] = sf_load_vector(line[q], at + TILE + i * SPREAD, end[q], sf_along(p));
#endif
#pragma unroll
                for (int q = 0; q < SF_ROWS; q++) {
                        sf_before<1> before = sf_none_before<1>();
                        sf_parked parked;
                        const bool whole = sf_scan_warp<LANES, 1, CHOOSE>(v[q], lane, sf_acc_of(p.neutral), parked, [=, &p](sf_acc(&again)[SF_ITEMS][SF_WIDTH]) {
                                sf_vector raw[SF_ITEMS];
#if SF_BESIDE
                                sf_load_beside(line[q], at, end[q], sf_along(p), raw);
                                sf_meet_chunks(raw, lane);
#else
#pragma unroll
                                for (int i = 0; i < SF_ITEMS; i++)
                                        raw[i] = LOAD(line[q], at + i * SPREAD, end[q], sf_along(p));
#endif
                                sf_elements<1>(p, raw, at, SPREAD, 1, again);
                                sf_use_now(again);
                        });
                        sf_acc total;
                        if (WARPS > 1) {
                                sf_acc *turn = totals + (t & 1) * (SF_THREADS / 32);
                                if (lane == 31)
                                        turn[warp] = sf_settled(v[q][SF_ITEMS - 1][SF_WIDTH - 1]);
                                sf_sync_block();
                                total = sf_scan_warps<WARPS>(v[q], turn, warp, lane, before);
                        } else {
                                total = sf_of_lane<LANES>(v[q][SF_ITEMS - 1][SF_WIDTH - 1], (lane & -LANES) + LANES - 1);
                        }
                        if (!SF_SINGLE && SF_OWES) {
                                /* Any grouping gives the same bits: one total of all tiles so far
                                 * is enough. */
                                sf_acc left[1] = {counter[q].entry};
                                if (t)
                                        sf_take_all(left, v[q], before);
                                counter[q].entry = t ? sf_combine(left[0], total) : total;
                        } else if (!SF_SINGLE) {
                                for (int k = 0; t >> k; k++) {
                                        sf_acc left[1] = {sf_shuffle(counter[q].entry, k)};
                                        if (t >> k & 1)
                                                sf_take_all(left, v[q], before);
                                }
                                sf_count(counter[q], t, total, lane);
                        }
                        sf_take_lefts(p, line[q], 0, 1, v[q], before);
                        sf_answer result[SF_ITEMS][SF_WIDTH];
                        sf_finish<LANES, 1, SPREAD>(p, line[q], at, end[q], t + 1 == tiles && end[q], v[q], before, whole, parked, lane, result);
#if SF_STAGED
#pragma unroll
                        for (int i = 0; i < SF_ITEMS; i++)
                                sf_store_staged(p, line[q], i, (int)at + i * SPREAD, (int)end[q], early[q], step, result[i]);
#else
#if SF_JOINS
                        if (at + SF_ITEMS * SPREAD - lane * SF_WIDTH <= end[q]) { /* all that the warp has exists */
                                sf_stored r[SF_ITEMS];
#pragma unroll
                                for (int i = 0; i < SF_ITEMS; i++)
                                        r[i] = sf_pack(p, result[i], with[q][i]);
                                sf_store_joined<SPREAD>(line[q], at, r, lane);
                                continue;
                        }
#endif
                        sf_store_vectors<LANES, SPREAD>(p, line[q], at, end[q], result, with[q], lane, early[q]);
#endif
                }
        }
}

#if SF_STAGED
/* Copies the piece that begins with sequence `first`, if there is one, to a stage. */
SF_DEVICE void sf_fetch_staged(const sf_params &p, sf_i64 first, int most, unsigned char *stage)
{
        const char *from = p.x + (first * p.n - sf_staged_back(p)) * SF_IN_SIZE;
        if (first < p.units)
                sf_fetch_piece<SF_IN_SIZE>(from, (int)(p.units - first < most ? p.units - first : most) * (int)p.n, stage + ((sf_u64)from & 15));
        sf_copy_commit();
}
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
#if SF_STAGED
        const int most = (int)(p.number[1] * p.number[3]), room = (int)sf_rows_staged(most * p.n * SF_IN_SIZE);
        const sf_i64 apart = p.number[2] * most; /* from one piece of the block to the next */
        unsigned char *const results = sf_shared() + (apart < p.units ? 2 : 1) * room; /* if they do not fit where the elements are */
        int stage = 0;
        sf_fetch_staged(p, sf_block() * most, most, sf_shared());
        for (sf_i64 first = sf_block() * most; first < p.units; first += apart, stage ^= 1) {
                const sf_i64 begin = first * p.n - sf_staged_back(p);
                sf_staged here = {sf_shared() + stage * room + ((sf_u64)(p.x + begin * SF_IN_SIZE) & 15)};
                here.out = SF_IN_SIZE == SF_OUT_SIZE ? here.in : results + ((sf_u64)(p.y + begin * SF_OUT_SIZE) & 15);
                here.sequences = p.units - first < most ? (int)(p.units - first) : most;
                sf_copy_wait<0>();
                sf_sync_block(); /* the piece is there, and nobody reads the one before it any more */
                sf_fetch_staged(p, first + apart, most, sf_shared() + (stage ^ 1) * room);
                for (int base = 0; base < (SF_STAGED > 1 ? here.sequences : 1); base += SF_ROWS * TEAMS)
                        sf_scan_teams(p, here, base);
                sf_sync_block();
                sf_store_piece<SF_OUT_SIZE>(p.y + begin * SF_OUT_SIZE, here.sequences * (int)p.n, here.out);
        }
#else
        sf_scan_teams(p, sf_staged(), 0);
#endif
}
