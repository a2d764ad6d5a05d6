/*
 * segments_bounds.cuh: where segments begin, as segments.cu has them: the tile a block takes, the segments it meets, and the leaves they are cut into.
 */
enum {
        WINDOWS = SF_THREADS / SF_STRIP,
        TILE = WINDOWS * SF_LEAF,
        REACH = TILE + SF_LEAF, /* a leaf that begins in the tile may end behind it */
        WORDS = sizeof(sf_acc) / 4,
        WARPS = SF_THREADS / 32,
        VECTORS = SF_LEAF / SF_WIDTH, /* that a thread loads of a line's tile */
        NUMBERED = SF_FOLDS || SF_SPREAD, /* it matters which segment an element is of */
};

/* What all threads of a block know of their tile. Positions are counted from the tile's beginning. */
struct sf_frame {
        sf_i64 first;  /* the tile's first position on its line, */
        sf_i64 number; /* and its number there */
        sf_i64 unit;   /* which line and strip */
        sf_i64 next;   /* the first segment that begins behind `first` */
        sf_i64 open;   /* where the one before it begins: at most 0 */
        sf_i64 beyond; /* where the first one begins that does so behind the tile's reach */
        sf_u32 mark;
        int some;      /* segments begin in the reach, behind its first position */
        int leaves;    /* in the list */
        int dense;     /* so many that short ones are walked */
        int closed[SF_DEPTH + 1]; /* has the tile a total on this level? */
        sf_i64 place[SF_DEPTH]; /* its first place there, on the line, */
        sf_u64 *words[SF_DEPTH]; /* and where the totals of all the line's places are */
};

/* The cell of a position: one is left free behind each window, so that threads that have a leaf each meet in different banks. */
SF_DEVICE int sf_cell(int at) { return sf_segments_cells(at, SF_LEAF); }

/* Shared memory, as sf_segments_* of shared.h have it. */
struct sf_desk {
        sf_frame *frame;
        sf_loaded *cells;
        unsigned char *flags;   /* a byte a position: a segment begins there; then, in its place, */
        unsigned short *list;   /* where leaves begin that are not full */
        unsigned short *numbers; /* of segments that begin in the reach: which they are, one more than counted from `next`; or FAR */
        sf_u32 *heads, *leaves; /* a bit a position, a word a window */
        int *heads_before, *last_head, *turn;
        sf_acc *totals;
        sf_u32 *place;          /* whose total: its number in its segment; 0 also where there is none */
};

SF_DEVICE sf_desk sf_desk_of()
{
        unsigned char *s = sf_shared();
        sf_desk d;
        d.totals = (sf_acc *)s;
        s += sf_segments_totals(WINDOWS, SF_DEPTH) * SF_STRIP * (int)sizeof(sf_acc);
        d.frame = (sf_frame *)s;
        s += SF_SEGMENTS_FRAME;
        d.cells = (sf_loaded *)s;
        s += (SF_STRIP == 1 && !SF_MAPS ? sf_cell(REACH) : 0) * (int)sizeof(sf_loaded);
        d.place = (sf_u32 *)s;
        s += sf_segments_totals(WINDOWS, SF_DEPTH) * 4;
        d.heads = (sf_u32 *)s;
        d.leaves = d.heads + WINDOWS + 1;
        d.heads_before = (int *)(d.leaves + WINDOWS + 1);
        d.last_head = d.heads_before + WINDOWS + 1;
        d.turn = d.last_head + WINDOWS + 1;
        s += sf_segments_windows(WINDOWS) * 4;
        d.flags = s;
        d.list = (unsigned short *)s;
        s += sf_segments_list(REACH);
        d.numbers = (unsigned short *)s;
        return d;
}
static_assert(sizeof(sf_frame) <= SF_SEGMENTS_FRAME, "what a block knows of its tile");

/* Where segment k begins, on the line; of k = segments where the last one ends. What stands before the first and behind the last is as if a segment too. */
SF_DEVICE sf_i64 sf_bound(const sf_params &p, sf_i64 k)
{
        const char *at = p.offsets + (SF_BACKWARDS ? p.segments - k : k) * p.offset_stride;
        sf_i64 v;
#if SF_WIDE
        v = *(const sf_i64 *)at;
#else
        v = *(const int *)at;
#endif
        v = v < 0 ? 0 : v > p.n ? p.n : v;
        return SF_BACKWARDS ? p.n - v : v;
}

/* By a warp: the first k whose segment begins behind `position`; segments + 1: none does. */
SF_DEVICE sf_i64 sf_find(const sf_params &p, sf_i64 position, int lane)
{
        sf_i64 low = 0, high = p.segments + 1;
        while (low < high) {
                const sf_i64 step = (high - low + 31) >> 5, probe = low + lane * step + step - 1;
                const bool before = sf_bound(p, probe < high ? probe : high - 1) <= position;
                const sf_i64 passed = low + sf_count_bits(sf_ballot(before)) * step;
                low = passed < high ? passed : high;
                high = low + step - 1 < high ? low + step - 1 : high;
        }
        return low;
}

/* A scan of one number a thread over the block: what those before it come to. One barrier before, two within. */
template <bool MOST> SF_DEVICE int sf_before_thread(int own, int *turn, int thread)
{
        const int lane = thread & 31;
        int sum = own;
#pragma unroll
        for (int b = 1; b < 32; b *= 2) {
                const int left = ::sf_shuffle(sum, (lane - b) & 31);
                if (lane >= b)
                        sum = MOST ? (left > sum ? left : sum) : left + sum;
        }
        sf_sync_block();
        if (lane == 31)
                turn[thread / 32] = sum;
        sf_sync_block();
        int before = ::sf_shuffle(sum, (lane - 1) & 31);
        if (!lane)
                before = MOST ? -1 : 0;
        for (int w = 0; w < thread / 32; w++)
                before = MOST ? (turn[w] > before ? turn[w] : before) : before + turn[w];
        return before;
}

SF_DEVICE sf_u32 sf_below(int bit) { return (1u << bit) - 1; }

/* The flags of a window as bits. */
SF_DEVICE sf_u32 sf_window(const unsigned char *flags)
{
        sf_u32 bits = 0;
#pragma unroll
        for (int i = 0; i < SF_LEAF; i += 4)
                bits |= ((*(const sf_u32 *)(flags + i) * 0x01020408u) >> 24 & 15) << i;
        return bits;
}

/* Where the segment begins that position `at` is of, if it is not a beginning in its own window before it. */
SF_DEVICE sf_i64 sf_opened(const sf_desk &d, int window) { return d.last_head[window] < 0 ? d.frame->open : d.last_head[window]; }

/* Which segment a position is of. */
enum { FAR = 0xffff }; /* its number is too large to be noted, as where a great many are empty: it is looked for */
SF_DEVICE sf_i64 sf_segment_at(const sf_params &p, const sf_desk &d, int at)
{
        const int window = at / SF_LEAF, rank = d.heads_before[window] + sf_count_bits(d.heads[window] & (2u << at % SF_LEAF) - 1);
        const int number = rank ? d.numbers[rank - 1] : 0;
        if (number != FAR)
                return d.frame->next - 1 + number;
        sf_i64 low = d.frame->next, high = p.segments + 1; /* the first that begins behind it is one of low to high */
        while (low < high) {
                const sf_i64 middle = low + ((high - low) >> 1);
                if (sf_bound(p, middle) <= d.frame->first + at)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low - 1;
}
SF_DEVICE int sf_first_leaf(const sf_desk &d, int window) { return d.leaves[window] ? sf_lowest(d.leaves[window]) : SF_LEAF; }

SF_DEVICE bool sf_has_entry(const sf_params &p, sf_i64 segment) { return segment >= 0 && segment < p.segments; }

/* Which tile. */
SF_DEVICE void sf_draw_tile(const sf_params &p, const sf_desk &d, int thread)
{
        sf_frame &f = *d.frame;
        if (!thread) {
                const sf_u64 drawn = sf_draw(p);
                sf_hand_in(p, drawn);
                const sf_i64 id = (sf_u32)drawn;
                f.unit = sf_divide(id, p.number[0]);
                f.number = id - f.unit * p.number[0];
                f.first = f.number * TILE;
                f.mark = sf_mark(drawn);
                sf_u64 *words = (sf_u64 *)p.scratch + SF_TICKETS / 8 + f.unit * p.number[2];
                sf_i64 place = f.number * WINDOWS, places = p.number[0] * WINDOWS;
                for (int l = 0; l < SF_DEPTH; l++, place = (place - 31) >> 5) {
                        f.place[l] = place;
                        f.words[l] = words;
                        words += places * SF_STRIP * WORDS;
                        places = sf_segments_places_above(places);
                        f.closed[l] = 0;
                }
                f.closed[SF_DEPTH] = 0;
        }
        for (int i = thread; i < REACH / 4; i += SF_THREADS)
                ((sf_u32 *)d.flags)[i] = 0;
        sf_sync_block();
}

/* Where it stands among the segments. */
SF_DEVICE void sf_find_tile(const sf_params &p, const sf_desk &d, int thread)
{
        sf_frame &f = *d.frame;
        if (thread < 32) {
                const sf_i64 next = sf_find(p, f.first, thread), open = next ? sf_bound(p, next - 1) : 0;
                if (!thread) {
                        f.next = next;
                        f.open = (open < f.first ? open : f.first) - f.first;
                        f.beyond = p.n - f.first;
                        f.some = next <= p.segments && sf_bound(p, next) < f.first + REACH;
                }
        }
        sf_sync_block();
}

/*
 * Segments from `next` on, TURNS at a time by each of COUNT threads, until one begins behind the tile's reach: so many offsets are under way at once. What is
 * done with segment k, which begins at `at` and ends at `end`, is the caller's.
 */
template <int TURNS, int COUNT, class F> SF_DEVICE void sf_each_segment(const sf_params &p, const sf_frame &f, int own, F &&todo)
{
        bool more = true;
        for (sf_i64 first = f.next + own; more && first <= p.segments; first += TURNS * COUNT) {
                sf_i64 at[TURNS], end[TURNS];
#pragma unroll
                for (int t = 0; t < TURNS; t++) {
                        const sf_i64 k = first + t * COUNT;
                        at[t] = k <= p.segments ? sf_bound(p, k) - f.first : REACH;
                        end[t] = NUMBERED && k < p.segments ? sf_bound(p, k + 1) - f.first : REACH;
                }
#pragma unroll
                for (int t = 0; t < TURNS; t++) {
                        todo(first + t * COUNT, at[t], end[t]);
                        more = more && at[t] < REACH;
                }
        }
}
template <int COUNT, class F> SF_DEVICE void sf_each(const sf_params &p, const sf_frame &f, int own, F &&todo)
{
        if (p.segments > p.n / SF_LEAF) /* a few for every thread */
                sf_each_segment<4, COUNT>(p, f, own, todo);
        else
                sf_each_segment<1, COUNT>(p, f, own, todo);
}

/* Which segments those are that begin in the reach; of several that begin in one place the last, which is the one that has elements. */
SF_DEVICE void sf_number_heads(const sf_params &p, const sf_desk &d, int thread)
{
        const sf_frame &f = *d.frame;
        if (!thread && !f.open)
                d.numbers[0] = 0;
        sf_each<SF_THREADS>(p, f, thread, [&](sf_i64 k, sf_i64 at, sf_i64 end) {
                if (at > 0 && at < REACH && at < p.n - f.first && end != at) {
                        const int window = (int)at / SF_LEAF;
                        d.numbers[d.heads_before[window] + sf_count_bits(d.heads[window] & sf_below((int)at % SF_LEAF))] = (unsigned short)(k - f.next + 1 < FAR ? k - f.next + 1 : FAR);
                }
        });
}

/* Leaves as bits, where heads are known. */
SF_DEVICE void sf_lay_leaves(const sf_params &p, const sf_desk &d, int thread)
{
        for (int w = thread; w <= WINDOWS; w += SF_THREADS) {
                const int on = (int)(sf_opened(d, w) - (sf_i64)w * SF_LEAF) & (SF_LEAF - 1);
                const sf_i64 left = p.n - d.frame->first - w * SF_LEAF;
                sf_u32 leaves = d.heads[w];
                if (!(leaves & sf_below(on)) && on < left)
                        leaves |= 1u << on;
                d.leaves[w] = leaves;
        }
        sf_sync_block();
}

/* Heads and leaves, as bits; what stands before each window. By the first thread of each window, and the first of all for the one behind the tile. */
SF_DEVICE void sf_find_leaves(const sf_params &p, const sf_desk &d, int thread)
{
        const sf_frame &f = *d.frame;
        const int window = thread;
        const bool has = window < WINDOWS;
        if (!f.some) { /* but perhaps one where the tile begins */
                for (int w = window; w <= WINDOWS; w += SF_THREADS) {
                        d.heads[w] = !w && !f.open;
                        d.last_head[w] = w && !f.open ? 0 : -1;
                        d.heads_before[w] = w && !f.open;
                }
                sf_sync_block();
                return sf_lay_leaves(p, d, thread);
        }
        const sf_u32 heads = has ? sf_window(d.flags + window * SF_LEAF) : 0;
        const int last = heads ? window * SF_LEAF + sf_highest(heads) : -1;
        const int before = sf_before_thread<true>(last, d.turn, thread), count = sf_before_thread<false>(sf_count_bits(heads), d.turn, thread);
        if (has) {
                d.heads[window] = heads;
                d.last_head[window] = before;
                d.heads_before[window] = count;
        }
        if (window == WINDOWS - 1) {
                d.heads[WINDOWS] = sf_window(d.flags + TILE);
                d.last_head[WINDOWS] = last > before ? last : before;
                d.heads_before[WINDOWS] = count + sf_count_bits(heads);
        }
        sf_sync_block();
        sf_lay_leaves(p, d, thread);
}

/* The beginning of the first leaf behind the window, or of nothing. */
SF_DEVICE int sf_next_leaf(const sf_params &p, const sf_desk &d, int window)
{
        const sf_i64 end = p.n - d.frame->first;
        const sf_u32 leaves = d.leaves[window + 1];
        return leaves ? (window + 1) * SF_LEAF + sf_lowest(leaves) : (int)(end < REACH ? end : REACH);
}

SF_DEVICE bool sf_is_head(const sf_desk &d, int at) { return d.heads[at / SF_LEAF] >> at % SF_LEAF & 1; }
SF_DEVICE sf_i64 sf_begin_of(const sf_desk &d, int at) { return sf_is_head(d, at) ? at : sf_opened(d, at / SF_LEAF); }
