/*
 * segments_bounds.cuh: what segments.cu needs for both lines and columns: where segments begin,
 * elements and results, and the totals that chunks publish for each other.
 */
enum {
        /* SF_BLOCKS: of the threads' rows, but for one warp's. */
        CHUNK = (SF_BLOCKS        ? SF_THREADS - 32
                 : SF_STRIP == 1 ? 32
                                 : 1) *
                SF_LEAF,
        WORDS = sizeof(sf_acc) / 4,
        PARTIES = SF_STRIP == 1 ? 1 : 32 / SF_STRIP, /* windows that a warp has at a time */
        WARPS = SF_THREADS / 32,
        WARPS_LOG = (WARPS >= 2) + (WARPS >= 4) + (WARPS >= 8) + (WARPS >= 16) + (WARPS >= 32),
        STRETCH = WARPS * CHUNK,
};
static_assert(!SF_STRETCHES || (PARTIES == 1 && WARPS == 1 << WARPS_LOG),
              "a stretch is a power of two of chunks");

#include "segments_find.cuh"
#include "segments_empty.cuh"

/* ------------------------------------------------------------------------------------------------
 * Segments
 * ---------------------------------------------------------------------------------------------- */

SF_DEVICE sf_i64 sf_length(const sf_params &p, sf_i64 k) { return SF_INDICES && SF_BACKWARDS ? sf_bound(p, k + 1) - sf_bound(p, k) : 0; }

/* The number of the first chunk that begins in the window, of the segment that begins at `begin`,
 * counted from the window's beginning. */
SF_DEVICE sf_u32 sf_open_number(sf_i64 begin) { return begin < 0 ? (sf_u32)((sf_u64)(CHUNK - 1 - begin) / CHUNK) : 0; }

/* The one chunk of a segment that begins in a window; length 0 if none does. Positions count from
 * the window's beginning; -1 stands for all before it, FAR for all that are far after it. */
struct sf_part {
        int at, length;
        bool ends;  /* the segment ends with this chunk */
        bool empty; /* the segment is empty, and its place is in the window */
        bool more;  /* the next segment begins in the window too */
};
enum { FAR = (SF_STRETCHES ? (int)STRETCH + (int)CHUNK : 2 * (int)CHUNK) + 1 };
SF_DEVICE int sf_near(sf_i64 position) { return position < 0 ? -1 : position < FAR ? (int)position : (int)FAR; }
/* Where segment k begins, counted from the window's beginning, which is `first`. */
SF_DEVICE int sf_near_bound(const sf_params &p, sf_i64 first, sf_i64 k)
{
        const int least = first ? -1 : 0, most = sf_near(p.n - first);
        if (k < 0 || k > p.segments)
                return k < 0 ? least : most;
        const sf_i64 v = sf_offset_of(p, k) - first;
        return v < 0 ? least : v < most ? (int)v : most;
}
/* The part of segment k, which begins at `begin` and ends at `end`; its chunk begins at `at` and is
 * `number`. A full stretch is not the window's: the block has it. */
SF_DEVICE sf_part sf_part_of(const sf_params &p, sf_i64 k, int begin, int end, int at,
                             sf_u32 number)
{
        const bool there = k <= p.segments && begin <= end && at < CHUNK;
        const bool apart =
                SF_STRETCHES && end - at >= STRETCH - (int)(number & (WARPS - 1)) * CHUNK;
        const int left = there && !apart && !(SF_FOLDS && !sf_has_entry(p, k)) ? end - at : 0;
        sf_part s;
        s.at = at;
        s.length = left <= 0 ? 0 : left < CHUNK ? left : (int)CHUNK;
        s.ends = left <= CHUNK;
        s.empty = there && begin == end && sf_has_entry(p, k);
        s.more = there && end < CHUNK;
        return s;
}

/* ------------------------------------------------------------------------------------------------
 * Elements and results
 * ---------------------------------------------------------------------------------------------- */

/* The line moved to an index. sf_anew hides from the compiler how the addresses were computed; else
 * it would compute them again for every conditional load. */
SF_DEVICE sf_line sf_line_at(const sf_params &p, const sf_line &from, sf_i64 index)
{
        sf_line line = sf_moved(from, index, sf_along(p));
        line.x = sf_anew(line.x);
        line.y = sf_anew(line.y);
        line.m = sf_anew(line.m);
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                line.operand[k] = sf_anew(line.operand[k]);
#endif
        return line;
}

/* Loads the vector at an index of a line; operands that are spread (SF_SPREAD) are cleared. */
SF_DEVICE sf_vector sf_fetch(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end)
{
#if SF_SPREAD && SF_LOAD_FUSED
        sf_vector v;
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_clear(v.operand##k.raw);                                                                                                    \
        else                                                                                                                                   \
                sf_load_operand<false>(v.operand##k, line.operand[k], index, end, p.along[k]);
        SF_LOADS(OPERAND)
#undef OPERAND
#if SF_MASK
        sf_clear(v.m);
        if (index < end)
                sf_load(line.m + sf_offset<SF_M_UNIT, 1>(index, p.sm), v.m);
#endif
        return v;
#else
        return sf_load_vector(line, index, end, sf_along(p));
#endif
}

/* Loads the segment's elements of the operands that are spread; `line` is at its index 0. */
SF_DEVICE sf_vector sf_fetch_spread(const sf_params &p, const sf_line &line, sf_i64 segment)
{
        sf_vector v = sf_no_vector();
        (void)line, (void)segment;
#if SF_SPREAD && SF_LOAD_FUSED
        const bool there = sf_has_entry(p, segment);
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_load_operand<false>(v.operand##k, line.operand[k] + (there ? segment : 0) * p.along[k], 0, there, 0);
        SF_LOADS(OPERAND)
#undef OPERAND
#endif
        return v;
}
SF_DEVICE sf_vector sf_with_spread(sf_vector v, const sf_vector &spread)
{
        (void)spread;
#if SF_SPREAD && SF_LOAD_FUSED
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                v.operand##k = spread.operand##k;
        SF_LOADS(OPERAND)
#undef OPERAND
#endif
        return v;
}

/* What the store program reads for a result; `at` is the line moved to the result. */
SF_DEVICE sf_results sf_fetch_results(const sf_params &p, const sf_line &line, const sf_line &at, sf_i64 segment)
{
#if SF_SPREAD && SF_STORE_FUSED
        sf_results with;
        const bool there = sf_has_entry(p, segment);
#define OPERAND(k, dt, unit)                                                                                                                   \
        if (SF_SPREAD >> k & 1)                                                                                                                \
                sf_load_operand<false>(with.operand##k, line.operand[k] + (there ? segment : 0) * p.along[k], 0, there, 0);                   \
        else                                                                                                                                   \
                sf_load_operand<false>(with.operand##k, at.operand[k], 0, 1, 0);
        SF_STORES(OPERAND)
#undef OPERAND
        return with;
#else
        (void)line, (void)segment;
        return sf_load_results(at, 0, 1, 1, sf_along(p));
#endif
}

SF_DEVICE sf_loaded sf_read(const sf_params &p, const sf_vector &v)
{
        sf_loaded e[SF_WIDTH];
        sf_loaded_below<1, int>(p, v, 0, 0, 1, 0, 0, sf_absent(p), e);
        return e[0];
}

/* The value of an element that is number r of its segment. */
SF_DEVICE sf_acc sf_lifted(sf_loaded e, sf_i64 r)
{
        (void)r;
#if SF_INDICES
        if (e.second != sf_holds::nowhere())
                e.second = (sf_at)r ^ (sf_at)sf_holds::LATE;
        return e;
#elif SF_LIFTED
        return e;
#else
        return sf_holds::lift(e);
#endif
}

/* What is stored for a value. An index counts from the beginning of its segment, in reverse too;
 * the segment has `length` elements. */
SF_DEVICE sf_answer sf_answered(const sf_params &p, sf_acc v, sf_i64 length)
{
        (void)length;
#if !SF_MAPS
        v = sf_begin(p, v);
#endif
#if SF_INDICES
        const sf_at at = sf_holds::lower(v);
        return SF_BACKWARDS && at >= 0 ? length - 1 - at : (sf_i64)at;
#else
        return sf_holds::lower(v);
#endif
}

typedef sf_raw<SF_OUT_SIZE> sf_result;
SF_DEVICE sf_result sf_result_of(const sf_params &p, sf_answer v, const sf_results &with)
{
        return sf_one_slot<SF_OUT_SIZE>(sf_outcome(p, v, with, 0));
}

/* Stores a fold's result. */
SF_DEVICE void sf_store_entry(const sf_params &p, const sf_line &line, sf_i64 segment, sf_acc v)
{
        if (sf_has_entry(p, segment))
                sf_store(line.y + segment * p.sy, sf_result_of(p, sf_answered(p, v, sf_length(p, segment)), sf_fetch_results(p, line, line, segment)));
}

#if SF_FOLDS
/* Stores the results of empty segments: of those from k on and before `end`, every `step`-th. */
SF_DEVICE void sf_store_empty(const sf_params &p, const sf_line &line, sf_i64 k, sf_i64 end,
                              int step)
{
#pragma unroll 1
        for (; k < end; k += step)
                sf_store_entry(p, line, k, sf_identity(p));
}
/* A warp stores those of its share of a line's groups. */
SF_DEVICE void sf_store_share(const sf_params &p, const sf_line &line, sf_i64 share, int lane)
{
#pragma unroll 1
        for (sf_u32 groups = sf_apart_in(p, share, lane); groups; groups &= groups - 1) {
                const sf_i64 first =
                        (share * SF_EMPTY_SHARE + sf_lowest(groups)) * SF_EMPTY_GROUP;
                sf_store_empty(p, line, first + lane, first + SF_EMPTY_GROUP, 32);
        }
}
#endif
#if SF_FOLDS && SF_STRIP == 1
/* The warp number `number` of those that have no window. */
SF_DEVICE void sf_store_apart(const sf_params &p, sf_i64 number, int lane)
{
        const sf_i64 shares = sf_empty_shares(p.segments, 0);
        const sf_i64 unit = shares ? sf_divide(number, shares) : p.units;
        if (unit < p.units)
                sf_store_share(p, sf_batch_line(p, unit), number - unit * shares, lane);
}
#endif
/* What has been found is the first segment from k on that is not empty. Stores the results of those
 * before it that are not apart, by `team` lanes, of which this one is number `lane`. */
SF_DEVICE void sf_leave_out(const sf_params &p, const sf_line &line, sf_i64 k, sf_i64 found,
                            int lane, int team)
{
#if SF_FOLDS
        const sf_ends_of_run ends = sf_ends_of(p, k, found);
        sf_store_empty(p, line, k + lane, ends.head, team);
        sf_store_empty(p, line, ends.tail + lane, found, team);
#endif
        (void)p, (void)line, (void)k, (void)found, (void)lane, (void)team;
}

/* Combines the values of a leaf. In a fold the last one becomes the total; in a scan each becomes
 * the total up to it. */
template <int N> SF_DEVICE void sf_combine_leaf(sf_acc (&v)[N])
{
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (SF_FOLDS ? (i + 1) % (2 * b) == 0 : i & b)
                                v[i] = sf_combine(v[i < b ? 0 : SF_FOLDS ? i - b : i / b * b - 1], v[i]);
}

/* Folds N totals; `next` gives them in turn. */
template <int N, class NEXT> SF_DEVICE sf_acc sf_fold_totals(NEXT next)
{
        sf_acc v[N];
#pragma unroll
        for (int i = 0; i < N; i++)
                v[i] = next(i);
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i + b < N; i += 2 * b)
                        v[i] = sf_settled(sf_combine(v[i], v[i + b]));
        return v[0];
}

/* ------------------------------------------------------------------------------------------------
 * Totals of chunks
 *
 * Chunk q of a segment begins q windows after the segment's first chunk, and a window has at most
 * one full chunk. So totals need one place for each window. A full chunk that is not the last of
 * its segment publishes the total of the largest aligned block of chunks that ends with it: 2^k
 * chunks if q ends in k one bits. This total is made of the chunk's own and one published total for
 * each of these bits.
 *
 * Likewise, all chunks before chunk q are one published total for each bit set in q. The total for
 * bit b is of the 2^b chunks before chunk m = q & ~below(b). Since m ends in exactly b zeros, m - 1
 * ends in exactly b ones: what chunk m - 1 published is the total of just these chunks.
 *
 * Of a full stretch, chunks publish nothing. So of a chunk's bits, those below WARPS stand for
 * chunks, the others for stretches, which do as chunks do and have a place for each block.
 * ---------------------------------------------------------------------------------------------- */

/* A total may never come if offsets decrease. After PATIENCE tries a thread writes the launch's
 * mark to the second word of scratch. Every NOW_AND_THEN tries a waiting thread looks whether it is
 * there, and gives up. So a launch does not wait that long for each of many totals. */
#ifndef PATIENCE /* tests/cuda_host has less */
#define PATIENCE (1 << 20)
#define NOW_AND_THEN 1024
#endif

/* A window, and the mark of what is published. */
struct sf_place {
        sf_u64 *words; /* the totals of the line, or of the lane's column: each window's */
        sf_u32 window, mark;
};
SF_DEVICE sf_u64 *sf_window_words(const sf_place &place, sf_i64 window)
{
        return place.words + window * (SF_STRIP * WORDS);
}
/* Totals of stretches come after those of windows, a place for each block. */
SF_DEVICE sf_u64 *sf_stretch_words(const sf_params &p, const sf_place &place, sf_i64 block)
{
        return sf_window_words(place, p.number[0] + block);
}
SF_DEVICE void sf_tell(const sf_place &own, sf_acc v)
{
        sf_publish<1>(sf_window_words(own, own.window), v, own.mark);
}

/* The search for the total that belongs to a bit of q. */
struct sf_look {
        const sf_u64 *words;
        sf_words found;
        bool there;
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
SF_DEVICE sf_look sf_look_for(const sf_params &p, const sf_place &own, sf_u32 q, int bit)
{
        sf_look look;
        look.words = sf_window_words(own, (sf_i64)own.window - (q & sf_below(bit)) - 1);
#if SF_STRETCHES
        if (bit >= WARPS_LOG) {
                const sf_i64 block = (own.window - (q & (WARPS - 1))) >> WARPS_LOG;
                look.words =
                        sf_stretch_words(p, own, block - ((q & sf_below(bit)) >> WARPS_LOG) - 1);
        }
#endif
        sf_look_once(look, own.mark);
        return look;
}
SF_DEVICE sf_acc sf_found(const sf_params &p, sf_look &look, sf_u32 mark)
{
        sf_u64 *given_up = (sf_u64 *)p.scratch + 1;
        for (int tries = 1; !look.there; tries++) {
                sf_pause(); /* lets other warps work */
                sf_look_once(look, mark);
                if (tries == PATIENCE)
                        sf_post(given_up, mark);
                if (!(tries % NOW_AND_THEN) && sf_watch(given_up) == mark)
                        return sf_neutral(p);
        }
        return sf_of_words(look.found);
}

/* The bits of q whose totals a chunk needs before it can publish one: the ones at the end of q. */
SF_DEVICE sf_u32 sf_early(sf_u32 q) { return q & ~(q + 1); }

/* Combines a thread's elements and their total with one total to their left; `before` becomes all of
 * these together. any: there was one before. */
template <int N> SF_DEVICE void sf_take_one_left(sf_acc left, bool any, sf_acc (&v)[N],
                                                 sf_acc &total, sf_acc &before)
{
#if !SF_FOLDS
#pragma unroll
        for (int i = 0; i < N; i++)
                v[i] = sf_combine(left, v[i]);
#endif
        total = sf_settled(sf_combine(left, total));
        if (SF_EXCLUSIVE)
                before = any ? sf_combine(left, before) : left;
        (void)v, (void)any, (void)before;
}
