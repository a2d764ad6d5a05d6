/*
 * segments.cu: scans, folds and maps of a line that is cut into segments by offsets (core/segments.h), each by itself, whatever their lengths.
 *
 * Work is cut by elements. A tile is SF_THREADS / SF_STRIP windows of SF_LEAF positions, for SF_STRIP columns. A segment is cut into leaves of SF_LEAF elements, counted
 * from its own beginning; the last one may be shorter. A leaf belongs to the tile, and to the window, in which it begins. So at most one leaf that is full
 * begins in a window, and leaf q of a segment begins q windows behind the segment's own: what is told of full leaves needs one place a window, and those
 * of a segment stand side by side. The same holds one level up, where 32 leaves are a group, 32 groups the next, and so on: a group's place is that of its
 * first member, divided by 32.
 *
 * A thread has a leaf, in registers. Of the leaves before it in its segment it takes one total for each bit set in q, the lowest first (docs/order.md): that of the
 * largest block that ends where the bit says. Tiles publish the totals of their full leaves at once; whoever closes a group of 32 publishes the group's, as soon as
 * it knows the others'. A tile looks back at most 31 places on every level, one level after another, so that nothing a tile publishes waits for
 * more than the level below.
 *
 * SF_STRIP 1: lines of neighbours, which come by way of shared memory, a place left free behind every leaf's worth, so that threads that walk a leaf each meet in
 * different banks. Else columns; every thread reads its own. SF_MAPS: nothing is combined, and there are no leaves. SF_SPREAD: bit k: of operand k there is
 * an element a segment.
 *
 * Offsets are taken as they come: clamped to the line, so that whatever they are nothing else is touched; and a total that never comes, as when they
 * decrease, is waited for only so long.
 *
 * scratch: tickets; then for each line and strip, level by level, the places' totals, mark and payload. number[0]: tiles a line; number[1]: strips; number[2]: words of a
 * line's totals; number[3]: tickets. offsets, segments, offset_stride: where they are, how many segments, bytes from one to the next.
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
#define PATIENCE (1 << 22)

/* ------------------------------------------------------------------------------------------------
 * Where segments begin
 * ---------------------------------------------------------------------------------------------- */

/* What all threads of a block know of their tile. Positions are counted from the tile's beginning. */
struct sf_frame {
        sf_i64 first;  /* the tile's first position on its line, */
        sf_i64 number; /* and its number there */
        sf_i64 unit;   /* which line and strip */
        sf_i64 next;   /* the first segment that begins behind `first` */
        sf_i64 open;   /* where the one before it begins: at most 0 */
        sf_i64 beyond; /* where the first one begins that does so behind the tile's reach */
        sf_u32 mark;
        int leaves;    /* in the list */
        int closed[SF_DEPTH + 1]; /* has the tile a total on this level? */
};

/* Shared memory, as sf_segments_* of shared.h have it. */
struct sf_desk {
        sf_frame *frame;
        sf_loaded *cells;
        unsigned char *flags;   /* a byte a position: a segment begins there; then, in its place, */
        unsigned short *list;   /* where leaves begin that are not full */
        int *numbers;           /* of those that begin in the reach: which they are, counted from `next` */
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
        s += sf_segments_cells(SF_STRIP == 1 && !SF_MAPS ? REACH : 0, SF_LEAF) * (int)sizeof(sf_loaded);
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
        d.numbers = (int *)s;
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

/* How many segments begin in the reach up to a position; and which segment that is. */
SF_DEVICE sf_i64 sf_segment_at(const sf_params &p, const sf_desk &d, int at)
{
        const int window = at / SF_LEAF, rank = d.heads_before[window] + sf_count_bits(d.heads[window] & (2u << at % SF_LEAF) - 1);
        return rank ? d.frame->next + d.numbers[rank - 1] : d.frame->next - 1;
}
SF_DEVICE bool sf_has_entry(const sf_params &p, sf_i64 segment) { return segment >= 0 && segment < p.segments; }

/* ------------------------------------------------------------------------------------------------
 * Elements and results
 * ---------------------------------------------------------------------------------------------- */

/* The vector at a position of the line, for elements of a segment, which matters where operands are spread. */
SF_DEVICE sf_vector sf_fetch(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 segment)
{
#if SF_SPREAD && SF_LOAD_FUSED
        sf_vector v;
        const bool there = sf_has_entry(p, segment);
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_load_operand<false>(v.operand##k, line.operand[k] + (there ? segment : 0) * p.along[k], 0, there, 0);                      \
        else                                                                                                                                   \
                sf_load_operand<false>(v.operand##k, line.operand[k], index, p.n, p.along[k]);
        SF_LOADS(OPERAND)
#undef OPERAND
#if SF_MASK
        sf_clear(v.m);
        if (index < p.n)
                sf_load(line.m + sf_offset<SF_M_UNIT, 1>(index, p.sm), v.m);
#endif
        return v;
#else
        (void)segment;
        return sf_load_vector(line, index, p.n, sf_along(p));
#endif
}

SF_DEVICE sf_results sf_fetch_results(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, sf_i64 segment)
{
#if SF_SPREAD && SF_STORE_FUSED
        sf_results with;
        const bool there = sf_has_entry(p, segment);
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_load_operand<false>(with.operand##k, line.operand[k] + (there ? segment : 0) * p.along[k], 0, there, 0);                   \
        else                                                                                                                                   \
                sf_load_operand<false>(with.operand##k, line.operand[k], index, end, p.along[k]);
        SF_STORES(OPERAND)
#undef OPERAND
        return with;
#else
        (void)segment;
        return sf_load_results(line, index, end, sf_along(p));
#endif
}

/* An element as a value, number r of its segment. */
SF_DEVICE sf_acc sf_lifted(sf_loaded e, sf_i64 r)
{
#if SF_INDICES
        (void)r;
        if (e.second != sf_holds::nowhere())
                e.second = (sf_at)r ^ (sf_at)sf_holds::LATE;
        return e;
#elif SF_LIFTED
        return e;
#else
        return sf_holds::lift(e);
#endif
}

/* A value as what is stored of it; an index counts from the beginning of its segment, which has `length` elements. */
SF_DEVICE sf_answer sf_answered(const sf_params &p, sf_acc v, sf_i64 length)
{
        v = sf_begin(p, v);
#if SF_INDICES
        const sf_at at = sf_holds::lower(v);
        return SF_BACKWARDS && at >= 0 ? length - 1 - at : (sf_i64)at;
#else
        (void)length;
        return sf_holds::lower(v);
#endif
}

SF_DEVICE void sf_store_one(const sf_params &p, char *to, sf_answer v, const sf_results &with)
{
        sf_raw<SF_OUT_SIZE> r;
        r.w[0] = 0;
        sf_set_slot<SF_OUT_SIZE>(r, 0, sf_outcome(p, v, with, 0));
        sf_store(to, r);
}

/* A fold's result. */
SF_DEVICE void sf_store_entry(const sf_params &p, const sf_line &line, sf_i64 segment, sf_acc v, sf_i64 length)
{
        if (sf_has_entry(p, segment))
                sf_store_one(p, line.y + segment * p.sy, sf_answered(p, v, length), sf_fetch_results(p, line, 0, 1, segment));
}

#if !SF_MAPS
/* ------------------------------------------------------------------------------------------------
 * Totals of leaves and groups
 * ---------------------------------------------------------------------------------------------- */

/* The first of a tile's places on a level; how many it may have there; and where they begin in shared memory, behind 32 that it looks back at. */
SF_DEVICE sf_i64 sf_first_place(sf_i64 number, int level)
{
        sf_i64 place = number * WINDOWS;
        for (int l = 0; l < level; l++)
                place = (place - 31) >> 5;
        return place;
}
SF_DEVICE int sf_places(int level) { return level ? SF_SEGMENTS_PLACES - 32 : (int)WINDOWS; }
SF_DEVICE int sf_level_at(int level) { return level ? 32 + WINDOWS + (level - 1) * SF_SEGMENTS_PLACES : 0; }

SF_DEVICE sf_u64 *sf_published(const sf_params &p, const sf_frame &f, int level, sf_i64 place, int column)
{
        sf_u64 *words = (sf_u64 *)p.scratch + SF_TICKETS / 8 + f.unit * p.number[2];
        return words + ((sf_segments_places_below(p.number[0] * WINDOWS, level) + place) * SF_STRIP + column) * WORDS;
}

/* A line of one tile tells nobody anything. */
SF_DEVICE void sf_tell(const sf_params &p, const sf_frame &f, int level, sf_i64 place, int column, sf_acc v)
{
        if (p.number[0] > 1)
                sf_publish<1>(sf_published(p, f, level, place, column), v, f.mark);
}

/* What a thread has to find out of other tiles: places of all levels in turn. */
enum { LOOKS = (32 * SF_STRIP * SF_DEPTH + SF_THREADS - 1) / SF_THREADS };
struct sf_look {
        const sf_u64 *words;
        int at, number, level; /* where it belongs; whose total it is; level -1: nothing is to be found out */
        bool there;
        sf_words found;
};
SF_DEVICE void sf_look_once(sf_look &look, sf_u32 mark)
{
        bool there = true;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                const sf_u64 word = sf_watch(look.words + w);
                there = there && (sf_u32)(word >> 32) == mark;
                look.found.w[w] = (sf_u32)word;
        }
        look.there = there;
}

/* `q`: the number of the leaf that goes on where the tile begins, in its segment; 0: none does. Most totals are there long before they are needed: all are
 * asked for at once. */
SF_DEVICE void sf_look_back(const sf_params &p, const sf_frame &f, sf_i64 q, int thread, sf_look (&look)[LOOKS])
{
#pragma unroll
        for (int i = 0; i < LOOKS; i++) {
                const int own = (i * SF_THREADS + thread) / SF_STRIP, column = thread % SF_STRIP, level = own / 32, e = own % 32;
                sf_i64 place = f.number * WINDOWS, first = place, left = q; /* of leaf q, or of the group it is in */
                for (int l = 0; l < level; l++) {
                        place = (place - (left & 31)) >> 5;
                        first = (first - 31) >> 5;
                        left >>= 5;
                }
                const int digit = (int)(left & 31);
                look[i].level = level < SF_DEPTH && e < digit ? level : -1;
                look[i].at = sf_level_at(level) + 32 + (int)(place - first) - digit + e;
                look[i].number = (int)(left - digit + e);
                look[i].there = false;
                if (look[i].level >= 0) {
                        look[i].words = sf_published(p, f, level, place - digit + e, column);
                        sf_look_once(look[i], f.mark);
                }
        }
}

/* The levels: what is needed of other tiles is awaited, blocks of up to 32 are folded, groups are closed and published. */
SF_DEVICE void sf_climb(const sf_params &p, const sf_desk &d, sf_i64 q, int thread)
{
        const int column = thread % SF_STRIP, row = thread / SF_STRIP;
        sf_frame &f = *d.frame;
        sf_look look[LOOKS];
        sf_look_back(p, f, q, thread, look);
        for (int level = 0; level < SF_DEPTH; level++, q >>= 5) {
                const sf_i64 first = sf_first_place(f.number, level);
                const int at = sf_level_at(level), count = 32 + sf_places(level);
                sf_sync_block();
                if (!q && !f.closed[level])
                        return;
#pragma unroll
                for (int i = 0; i < LOOKS; i++)
                        if (look[i].level == level) {
                                for (int tries = 0; !look[i].there && tries < PATIENCE; tries++)
                                        sf_look_once(look[i], f.mark);
                                d.totals[look[i].at * SF_STRIP + column] = look[i].there ? sf_of_words(look[i].found) : sf_neutral(p);
                                d.place[look[i].at] = (sf_u32)look[i].number;
                        }
#pragma unroll
                for (int b = 1; b < 32; b *= 2) {
                        sf_sync_block();
                        for (int u = at + row; u < at + count; u += WINDOWS)
                                if (!((d.place[u] + 1) & (2 * b - 1))) {
                                        sf_acc *own = &d.totals[u * SF_STRIP + column];
                                        *own = sf_settled(sf_combine(own[-b * SF_STRIP], *own));
                                }
                }
                const sf_i64 above = (first - 31) >> 5;
                for (int u = at + 32 + row; level + 1 < SF_DEPTH && u < at + count; u += WINDOWS)
                        if ((d.place[u] & 31) == 31) {
                                const sf_i64 group = (first + (u - at - 32) - 31) >> 5;
                                const int to = sf_level_at(level + 1) + 32 + (int)(group - above);
                                const sf_acc v = d.totals[u * SF_STRIP + column];
                                d.totals[to * SF_STRIP + column] = v;
                                d.place[to] = d.place[u] >> 5;
                                f.closed[level + 1] = 1;
                                sf_tell(p, f, level + 1, group, column, v);
                        }
        }
}

/* What a leaf takes of those before it, one total after another. */
struct sf_lefts {
        sf_i64 q, place, first;
        int level, bit;
};
SF_DEVICE sf_lefts sf_lefts_of(const sf_frame &f, sf_i64 q, int window)
{
        const sf_i64 first = f.number * WINDOWS;
        return sf_lefts{q, first + window, first, 0, 0};
}
/* Where the next one is; -1: there is none. */
SF_DEVICE int sf_next_left(sf_lefts &s)
{
        while (s.q) {
                for (; s.bit < 5; s.bit++)
                        if (s.q >> s.bit & 1) {
                                const int back = (int)(s.q & sf_below(s.bit)) + 1;
                                return sf_level_at(s.level) + 32 + (int)(s.place - s.first) - back * (s.bit++, 1);
                        }
                s.place = (s.place - (s.q & 31)) >> 5;
                s.first = (s.first - 31) >> 5;
                s.q >>= 5;
                s.level++;
                s.bit = 0;
        }
        return -1;
}

/* ------------------------------------------------------------------------------------------------
 * Leaves
 * ---------------------------------------------------------------------------------------------- */
struct sf_leaf {
        int at, length;
        sf_i64 begin; /* of its segment */
        bool ends;    /* its segment ends with it */
};

/* Its elements, lifted, the first N of them; those it does not have are neutral. */
template <int N> SF_DEVICE void sf_take(const sf_params &p, const sf_desk &d, const sf_line &line, const sf_leaf &leaf, sf_acc (&v)[N])
{
        const sf_acc neutral = sf_neutral(p);
#if SF_STRIP == 1
        const sf_loaded *from = d.cells + leaf.at + leaf.at / SF_LEAF;
        const int gap = SF_LEAF - leaf.at % SF_LEAF; /* so many stand before the next place that is left free */
#pragma unroll
        for (int i = 0; i < N; i++)
                v[i] = i < leaf.length ? sf_lifted(from[i + (i >= gap)], leaf.at + i - leaf.begin) : neutral;
#else
        sf_vector raw[N];
        const sf_i64 segment = SF_SPREAD ? sf_segment_at(p, d, leaf.at) : 0;
#pragma unroll
        for (int i = 0; i < N; i++)
                raw[i] = sf_fetch(p, line, i < leaf.length ? d.frame->first + leaf.at + i : p.n, segment);
#pragma unroll
        for (int i = 0; i < N; i++) {
                sf_loaded own[SF_WIDTH];
                sf_loaded_below<1, int>(p, raw[i], 0, 0, 1, 0, 0, sf_absent(p), own);
                v[i] = i < leaf.length ? sf_lifted(own[0], leaf.at + i - leaf.begin) : neutral;
        }
#endif
}

template <int N> SF_DEVICE void sf_scan_leaf(sf_acc (&v)[N])
{
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (i & b)
                                v[i] = sf_combine(v[i / b * b - 1 < 0 ? 0 : i / b * b - 1], v[i]);
}
template <int N> SF_DEVICE sf_acc sf_fold_leaf(sf_acc (&v)[N])
{
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N; i += 2 * b)
                        v[i] = sf_combine(v[i], v[(i + b) % N]);
        return v[0];
}

SF_DEVICE sf_i64 sf_length_at(const sf_desk &d, const sf_leaf &leaf)
{
        if (!(SF_INDICES && SF_BACKWARDS))
                return 0;
        for (int w = leaf.at / SF_LEAF; w <= WINDOWS; w++) {
                const sf_u32 behind = w == leaf.at / SF_LEAF ? d.heads[w] & ~((2u << leaf.at % SF_LEAF) - 1) : d.heads[w];
                if (behind)
                        return w * SF_LEAF + sf_lowest(behind) - leaf.begin;
        }
        return d.frame->beyond - leaf.begin;
}

/* What is left to be done of a leaf that has been scanned, or folded: N results or 1. */
template <int N> SF_DEVICE void sf_finish(const sf_params &p, const sf_desk &d, const sf_line &line, const sf_leaf &leaf, int column, sf_acc (&v)[N])
{
        const sf_i64 q = (leaf.at - leaf.begin) / SF_LEAF, length = sf_length_at(d, leaf);
        sf_acc before = sf_identity(p);
        bool any = false;
        sf_lefts lefts = sf_lefts_of(*d.frame, q, leaf.at / SF_LEAF);
        for (int u; (u = sf_next_left(lefts)) >= 0; any = true) {
                const sf_acc left = d.totals[u * SF_STRIP + column];
#pragma unroll
                for (int i = 0; i < N; i++)
                        v[i] = sf_combine(left, v[i]);
                if (SF_EXCLUSIVE)
                        before = any ? sf_combine(left, before) : left;
        }
#if SF_FOLDS
        if (leaf.ends)
                sf_store_entry(p, line, sf_segment_at(p, d, leaf.at), v[N - 1], length);
#else
#if SF_STRIP == 1
        sf_answer *to = (sf_answer *)d.cells; /* a cell is as large as both */
        const int cell = sizeof(sf_loaded) / sizeof(sf_answer), first = leaf.at + leaf.at / SF_LEAF, gap = SF_LEAF - leaf.at % SF_LEAF;
#else
        const sf_i64 segment = SF_SPREAD ? sf_segment_at(p, d, leaf.at) : 0;
#endif
#pragma unroll
        for (int i = 0; i < N; i++)
                if (i < leaf.length) {
                        const sf_answer result = sf_answered(p, SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i], length);
#if SF_STRIP == 1
                        to[(first + i + (i >= gap)) * cell] = result;
#else
                        const sf_i64 index = d.frame->first + leaf.at + i;
                        sf_store_one(p, line.y + index * p.sy, result, sf_fetch_results(p, line, index, p.n, segment));
#endif
                }
#endif
}

/* A leaf that is not full; it may be as short as its neighbours are. */
template <int N> SF_DEVICE void sf_short_leaf(const sf_params &p, const sf_desk &d, const sf_line &line, const sf_leaf &leaf, int column)
{
        sf_acc v[N];
        sf_take(p, d, line, leaf, v);
#if SF_FOLDS
        sf_acc total[1] = {sf_fold_leaf(v)};
        sf_finish(p, d, line, leaf, column, total);
#else
        sf_scan_leaf(v);
        sf_finish(p, d, line, leaf, column, v);
#endif
}
#endif

/* ------------------------------------------------------------------------------------------------
 * A tile
 * ---------------------------------------------------------------------------------------------- */

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
                        for (int l = 0; l <= SF_DEPTH; l++)
                                f.closed[l] = 0;
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

/* Marks where segments begin; and a fold's results of those that are empty. */
SF_DEVICE void sf_mark_heads(const sf_params &p, const sf_desk &d, const sf_line &line, int row)
{
        sf_frame &f = *d.frame;
        if (!row && !f.open)
                d.flags[0] = 1;
        sf_each<WINDOWS>(p, f, row, [&](sf_i64 k, sf_i64 at, sf_i64 end) {
                if (at > 0 && at < REACH && at < p.n - f.first)
                        d.flags[at] = 1;
                if (SF_INDICES && SF_BACKWARDS && at >= REACH && k <= p.segments && (k == f.next || sf_bound(p, k - 1) - f.first < REACH))
                        f.beyond = at;
#if SF_FOLDS
                if (k < p.segments && at <= TILE && end == at)
                        sf_store_entry(p, line, k, sf_identity(p), 0);
#endif
        });
#if SF_FOLDS
        for (sf_i64 k = row; !f.number && k < f.next && k < p.segments; k += WINDOWS)
                if (!sf_bound(p, k + 1))
                        sf_store_entry(p, line, k, sf_identity(p), 0);
#endif
        (void)line;
}

/* Which segments those are that begin in the reach; of several that begin in one place the last, which is the one that has elements. */
SF_DEVICE void sf_number_heads(const sf_params &p, const sf_desk &d, int thread)
{
        const sf_frame &f = *d.frame;
        if (!thread && !f.open)
                d.numbers[0] = -1;
        sf_each<SF_THREADS>(p, f, thread, [&](sf_i64 k, sf_i64 at, sf_i64 end) {
                if (at > 0 && at < REACH && at < p.n - f.first && end != at) {
                        const int window = (int)at / SF_LEAF;
                        d.numbers[d.heads_before[window] + sf_count_bits(d.heads[window] & sf_below((int)at % SF_LEAF))] = (int)(k - f.next);
                }
        });
}

/* Heads and leaves, as bits; what stands before each window. By the first thread of each window, and the first of all for the one behind the tile. */
SF_DEVICE void sf_find_leaves(const sf_params &p, const sf_desk &d, int thread)
{
        const sf_frame &f = *d.frame;
        const int window = thread;
        const bool has = window < WINDOWS;
        const sf_u32 heads = has ? sf_window(d.flags + window * SF_LEAF) : 0;
        const int last = heads ? window * SF_LEAF + SF_LEAF - 1 - sf_lowest(sf_reverse_bits(heads) >> (32 - SF_LEAF)) : -1;
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
        for (int w = window; w <= WINDOWS; w += SF_THREADS) {
                const int on = (int)(sf_opened(d, w) - (sf_i64)w * SF_LEAF) & (SF_LEAF - 1);
                const sf_i64 left = p.n - f.first - w * SF_LEAF;
                sf_u32 leaves = d.heads[w];
                if (!(leaves & sf_below(on)) && on < left)
                        leaves |= 1u << on;
                d.leaves[w] = leaves;
        }
        sf_sync_block();
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

#if !SF_MAPS
/* The leaf that is full and begins in a window; of length 0 where there is none. */
SF_DEVICE sf_leaf sf_full_leaf(const sf_params &p, const sf_desk &d, int window)
{
        const sf_u32 leaves = d.leaves[window];
        sf_leaf leaf = {0, 0, 0, false};
        if (!leaves)
                return leaf;
        leaf.at = window * SF_LEAF + SF_LEAF - 1 - sf_lowest(sf_reverse_bits(leaves) >> (32 - SF_LEAF));
        const int next = sf_next_leaf(p, d, window);
        if (next - leaf.at != SF_LEAF)
                return leaf;
        leaf.length = SF_LEAF;
        leaf.begin = sf_begin_of(d, leaf.at);
        leaf.ends = next >= p.n - d.frame->first || sf_is_head(d, next);
        return leaf;
}

/* The others, in the order of their beginnings. */
SF_DEVICE void sf_list_leaves(const sf_params &p, const sf_desk &d, int thread)
{
        const int window = thread;
        sf_u32 leaves = window < WINDOWS ? d.leaves[window] : 0;
        if (leaves) {
                const int last = SF_LEAF - 1 - sf_lowest(sf_reverse_bits(leaves) >> (32 - SF_LEAF));
                if (sf_next_leaf(p, d, window) - (window * SF_LEAF + last) == SF_LEAF)
                        leaves &= ~(1u << last);
        }
        const int before = sf_before_thread<false>(sf_count_bits(leaves), d.turn, thread);
        int at = before;
        for (sf_u32 left = leaves; left; left &= left - 1)
                d.list[at++] = (unsigned short)(window * SF_LEAF + sf_lowest(left));
        if (thread == SF_THREADS - 1)
                d.frame->leaves = at;
        sf_sync_block();
}

SF_DEVICE sf_leaf sf_listed(const sf_params &p, const sf_desk &d, int number)
{
        sf_leaf leaf;
        leaf.at = d.list[number];
        const int window = leaf.at / SF_LEAF;
        const sf_u32 behind = d.leaves[window] & ~((2u << leaf.at % SF_LEAF) - 1);
        leaf.length = (behind ? window * SF_LEAF + sf_lowest(behind) : sf_next_leaf(p, d, window)) - leaf.at;
        leaf.begin = sf_begin_of(d, leaf.at);
        leaf.ends = true;
        return leaf;
}
#endif

#if SF_STRIP == 1 && !SF_MAPS
/* Into cells: vectors that have been fetched, or those that a spread operand's segments were needed for. */
SF_DEVICE void sf_lay_out(const sf_params &p, const sf_desk &d, const sf_vector &raw, int at)
{
        sf_loaded own[SF_WIDTH];
        sf_loaded_below<1, int>(p, raw, 0, 0, 1, 0, 0, sf_absent(p), own);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                d.cells[at + j + (at + j) / SF_LEAF] = own[j];
}
#endif

#if SF_STRIP == 1 && !SF_MAPS && !SF_FOLDS
/* Results from cells to where they belong; what the tile before has is left alone, and what the one behind it has. */
SF_DEVICE void sf_flush(const sf_params &p, const sf_desk &d, const sf_line &line, int low, int high, int at)
{
        const sf_frame &f = *d.frame;
        const int cell = sizeof(sf_loaded) / sizeof(sf_answer);
        if (at + SF_WIDTH <= low || at >= high)
                return;
        sf_answer v[SF_WIDTH];
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                v[j] = ((const sf_answer *)d.cells)[(at + j + (at + j) / SF_LEAF) * cell];
        const sf_i64 index = f.first + at;
        const sf_stored r = sf_pack(p, v, sf_fetch_results(p, line, index, p.n, SF_SPREAD ? sf_segment_at(p, d, at) : 0));
        if (at >= low && at + SF_WIDTH <= high) {
                sf_store(line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, p.sy), r);
                return;
        }
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (at + j >= low && at + j < high)
                        sf_store_slot(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(index + j, p.sy), r, sf_slot_of<SF_Y_UNIT>(j));
}
#endif

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        const int thread = sf_thread(), column = thread % SF_STRIP, row = thread / SF_STRIP;
        const sf_desk d = sf_desk_of();
        sf_draw_tile(p, d, thread);
        const sf_frame &f = *d.frame;
        /* Columns are the last of the batch dimensions. */
        const sf_i64 batch = SF_STRIP > 1 ? sf_divide(f.unit, p.number[1]) : f.unit, own = (f.unit - batch * p.number[1]) * SF_STRIP + column;
        const bool there = SF_STRIP == 1 || own < p.inner;
        const sf_line line = sf_batch_line(p, SF_STRIP > 1 ? batch * p.inner + (there ? own : 0) : batch);
#if SF_STRIP == 1 && !SF_MAPS && !SF_SPREAD
        sf_vector raw[VECTORS], more = sf_no_vector();
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
                raw[i] = sf_fetch(p, line, f.first + (i * SF_THREADS + thread) * SF_WIDTH, 0);
        if (thread < VECTORS)
                more = sf_fetch(p, line, f.first + TILE + thread * SF_WIDTH, 0);
#endif
        sf_find_tile(p, d, thread);
        if (there)
                sf_mark_heads(p, d, line, row);
        sf_sync_block();
        sf_find_leaves(p, d, thread);
        if (NUMBERED) {
                sf_number_heads(p, d, thread);
                sf_sync_block();
        }
#if SF_MAPS
        for (int at = row; at < TILE && f.first + at < p.n; at += WINDOWS)
                if (there) {
                        const sf_i64 segment = sf_segment_at(p, d, at), index = f.first + at;
                        const sf_vector v = sf_fetch(p, line, index, segment);
                        sf_loaded e[SF_WIDTH];
                        sf_loaded_below<1, int>(p, v, 0, 0, 1, 0, 0, sf_absent(p), e);
                        sf_store_one(p, line.y + index * p.sy, sf_holds::lower(sf_lifted(e[0], 0)), sf_fetch_results(p, line, index, p.n, segment));
                }
#else
        for (int u = thread; u < sf_segments_totals(WINDOWS, SF_DEPTH); u += SF_THREADS)
                d.place[u] = 0;
#if SF_STRIP == 1 && SF_SPREAD
        for (int at = thread * SF_WIDTH; at < REACH; at += SF_THREADS * SF_WIDTH)
                sf_lay_out(p, d, sf_fetch(p, line, f.first + at, sf_segment_at(p, d, at)), at);
#elif SF_STRIP == 1
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
                sf_lay_out(p, d, raw[i], (i * SF_THREADS + thread) * SF_WIDTH);
        if (thread < VECTORS)
                sf_lay_out(p, d, more, TILE + thread * SF_WIDTH);
#endif
        sf_list_leaves(p, d, thread); /* barriers within: cells and places are there */

        sf_leaf leaf = sf_full_leaf(p, d, row);
        sf_acc v[SF_LEAF];
        if (leaf.length) {
                sf_take(p, d, line, leaf, v);
#if SF_FOLDS
                v[SF_LEAF - 1] = sf_fold_leaf(v);
#else
                sf_scan_leaf(v);
#endif
                const sf_acc total = sf_settled(v[SF_LEAF - 1]);
                d.totals[(32 + row) * SF_STRIP + column] = total;
                d.place[32 + row] = (sf_u32)((leaf.at - leaf.begin) / SF_LEAF);
                d.frame->closed[0] = 1;
                sf_tell(p, f, 0, f.number * WINDOWS + row, column, total);
        }
        /* The leaf that goes on from the tile before. */
        const int on = sf_lowest(d.leaves[0] | 1u << 31);
        const bool goes_on = d.leaves[0] && !sf_is_head(d, on);
        sf_climb(p, d, goes_on ? (on - f.open) / SF_LEAF : 0, thread);
        sf_sync_block();
        if (leaf.length && there) {
#if SF_FOLDS
                sf_acc total[1] = {v[SF_LEAF - 1]};
                sf_finish(p, d, line, leaf, column, total);
#else
                sf_finish(p, d, line, leaf, column, v);
#endif
        }
        for (int g = row; g < f.leaves; g += WINDOWS) {
                leaf = sf_listed(p, d, g);
                if (!there)
                        continue;
                if (leaf.length <= SF_LEAF / 4)
                        sf_short_leaf<SF_LEAF / 4>(p, d, line, leaf, column);
                else
                        sf_short_leaf<SF_LEAF>(p, d, line, leaf, column);
        }
#if SF_STRIP == 1 && !SF_FOLDS
        sf_sync_block();
        const sf_i64 end = p.n - f.first;
        const int low = d.leaves[0] ? on : TILE, high = sf_next_leaf(p, d, WINDOWS - 1);
        (void)end;
        for (int i = 0; i < VECTORS; i++)
                sf_flush(p, d, line, low, high, (i * SF_THREADS + thread) * SF_WIDTH);
        if (thread < VECTORS)
                sf_flush(p, d, line, low, high, TILE + thread * SF_WIDTH);
#endif
#endif
}
