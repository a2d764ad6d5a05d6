/*
 * segments_bounds.cuh: what lines and columns that are cut into segments have in common (segments.cu): where segments begin, elements and results, and the
 * totals that chunks tell each other.
 */
enum {
        CHUNK = SF_STRIP == 1 ? 32 * SF_LEAF : SF_LEAF,
        WORDS = sizeof(sf_acc) / 4,
        PARTIES = SF_STRIP == 1 ? 1 : 32 / SF_STRIP, /* windows that a warp has at a time */
};

SF_DEVICE sf_u32 sf_below(int bit) { return (1u << bit) - 1; }

/* ------------------------------------------------------------------------------------------------
 * Segments
 * ---------------------------------------------------------------------------------------------- */

/* The offset of segment k, one of 0 to segments, whatever it is; backwards counted from the line's end. */
SF_DEVICE sf_i64 sf_offset_of(const sf_params &p, sf_i64 k)
{
        const char *at = p.offsets + (SF_BACKWARDS ? p.segments - k : k) * p.offset_stride;
#if SF_WIDE
        const sf_i64 v = *(const sf_i64 *)at;
#else
        const sf_i64 v = *(const int *)at;
#endif
        return SF_BACKWARDS ? p.n - v : v;
}
/* Where segment k begins, on the line; of k = segments where the last one ends. What stands before the first and behind the last is as if a segment too. */
SF_DEVICE sf_i64 sf_bound(const sf_params &p, sf_i64 k)
{
        if (k < 0 || k > p.segments)
                return k < 0 ? 0 : p.n;
        const sf_i64 v = sf_offset_of(p, k);
        return v < 0 ? 0 : v > p.n ? p.n : v;
}
SF_DEVICE sf_i64 sf_length(const sf_params &p, sf_i64 k) { return SF_INDICES && SF_BACKWARDS ? sf_bound(p, k + 1) - sf_bound(p, k) : 0; }

/* By a warp: the first k whose segment begins at `position` or behind it; segments + 1: none does. Lanes ask at 32 places, first around where it would be if all
 * segments had one length, then between the two where the answers change. */
template <class I> SF_DEVICE I sf_find_in(const sf_params &p, sf_i64 position, int lane)
{
        I low = 0, high = (I)p.segments + 1, step = 32;
        I base = (I)((float)position * sf_rough_quotient((float)p.segments, (float)p.n)) - 16 * step;
        while (low < high) {
                if (high - low <= 32 * step) {
                        step = (high - low + 31) >> 5;
                        base = low + step - 1;
                }
                const auto place = [=](int i) { return base + i * step < low ? low : base + i * step < high ? base + i * step : high - 1; };
                const int passed = sf_count_bits(sf_ballot(sf_offset_of(p, (sf_i64)place(lane)) < position));
                const I before = place(passed - 1), behind = place(passed);
                low = passed ? before + 1 : low;
                high = passed < 32 ? behind : high;
                step = (high - low + 31) >> 5;
                base = low + step - 1;
        }
        return low;
}
SF_DEVICE sf_i64 sf_find(const sf_params &p, sf_i64 position, int lane)
{
        if (!p.n)
                return 0;
        return p.segments >> 30 ? sf_find_in<sf_i64>(p, position, lane) : (sf_i64)sf_find_in<int>(p, position, lane);
}

SF_DEVICE bool sf_has_entry(const sf_params &p, sf_i64 segment) { return segment >= 0 && segment < p.segments; }

/* Where the window's first chunk begins, counted from the window, of the segment that begins at `begin`, before it; and which of the segment's chunks it is. */
SF_DEVICE sf_u32 sf_open_number(sf_i64 begin) { return begin < 0 ? (sf_u32)((sf_u64)(CHUNK - 1 - begin) / CHUNK) : 0; }

/* The one chunk of a segment that begins in a window; if none does, nothing. Positions count from the window's beginning, and far ones are cut off. */
struct sf_part {
        int at, length;
        bool ends;  /* the segment, with it */
        bool empty; /* the segment is, and stands in the window */
        bool more;  /* the next segment begins in the window too */
};
enum { FAR = 2 * CHUNK + 1 };
SF_DEVICE int sf_near(sf_i64 position) { return position < 0 ? -1 : position < FAR ? (int)position : (int)FAR; }
/* A segment's beginning, from that of the window at `first`. */
SF_DEVICE int sf_near_bound(const sf_params &p, sf_i64 first, sf_i64 k)
{
        const int least = first ? -1 : 0, most = sf_near(p.n - first);
        if (k < 0 || k > p.segments)
                return k < 0 ? least : most;
        const sf_i64 v = sf_offset_of(p, k) - first;
        return v < 0 ? least : v < most ? (int)v : most;
}
/* Of segment k, which begins and ends there; `at`: where its chunk begins. */
SF_DEVICE sf_part sf_part_of(const sf_params &p, sf_i64 k, int begin, int end, int at)
{
        const bool there = k <= p.segments && begin <= end && at < CHUNK;
        const int left = there && !(SF_FOLDS && !sf_has_entry(p, k)) ? end - at : 0;
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

/* The line at an index. The compiler knows nothing of how it came there, or it would go there anew for every load that has a condition. */
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

/* The vector at an index of a line that is moved so far along, of operands that are not spread. */
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

/* Of operands that are spread: what belongs to a segment; `line` is at its beginning. */
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

/* What the program on the way out reads for a result; `at` is the line moved there. */
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
        return sf_load_results(at, 0, 1, sf_along(p));
#endif
}

SF_DEVICE sf_loaded sf_read(const sf_params &p, const sf_vector &v)
{
        sf_loaded e[SF_WIDTH];
        sf_loaded_below<1, int>(p, v, 0, 0, 1, 0, 0, sf_absent(p), e);
        return e[0];
}

/* An element as a value, number r of its segment. */
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

/* A value as what is stored of it; an index counts from the beginning of its segment, which has `length` elements. */
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
        sf_result r;
        r.w[0] = 0;
        sf_set_slot<SF_OUT_SIZE>(r, 0, sf_outcome(p, v, with, 0));
        return r;
}

/* A fold's result. */
SF_DEVICE void sf_store_entry(const sf_params &p, const sf_line &line, sf_i64 segment, sf_acc v)
{
        if (sf_has_entry(p, segment))
                sf_store(line.y + segment * p.sy, sf_result_of(p, sf_answered(p, v, sf_length(p, segment)), sf_fetch_results(p, line, line, segment)));
}

/* A leaf's values, combined: of a fold the last one is the total, of a scan each stands for all up to it. */
template <int N> SF_DEVICE void sf_combine_leaf(sf_acc (&v)[N])
{
#pragma unroll
        for (int b = 1; b < N; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (SF_FOLDS ? (i + 1) % (2 * b) == 0 : i & b)
                                v[i] = sf_combine(v[i < b ? 0 : SF_FOLDS ? i - b : i / b * b - 1], v[i]);
}

/* ------------------------------------------------------------------------------------------------
 * Totals of chunks
 *
 * Chunk q of a segment begins q windows behind the segment's first: so what is told of chunks needs one place a window. Whoever has a full chunk tells the total of
 * the largest block of chunks that ends with it, 2^k of them where q ends in k ones; for that it needs one told total for each of these. And for each bit set in q
 * the block that ends where the bit says is just the one that was told there: q & ~below(bit) has so many zeros at its end, the chunk before it so many ones.
 * ---------------------------------------------------------------------------------------------- */

/* So often a total is looked for that does not come, as when offsets decrease. Who has given up says so, in the second word of scratch, which others look at now and
 * then: so a launch does not wait as long for each of many. */
#define PATIENCE (1 << 20)
#define NOW_AND_THEN 1024

/* Where a window's totals are told, and as what. */
struct sf_place {
        sf_u64 *words;
        sf_u32 mark;
};
SF_DEVICE void sf_tell(const sf_place &own, sf_acc v) { sf_publish<1>(own.words, v, own.mark); }

/* For a bit of q. */
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
SF_DEVICE sf_look sf_look_for(const sf_place &own, sf_u32 q, int bit)
{
        sf_look look;
        look.words = own.words - (sf_i64)((q & sf_below(bit)) + 1) * (SF_STRIP * WORDS);
        sf_look_once(look, own.mark);
        return look;
}
SF_DEVICE sf_acc sf_found(const sf_params &p, sf_look &look, sf_u32 mark)
{
        sf_u64 *given_up = (sf_u64 *)p.scratch + 1;
        for (int tries = 1; !look.there; tries++) {
                sf_pause(); /* others have something to do */
                sf_look_once(look, mark);
                if (tries == PATIENCE)
                        sf_post(given_up, mark);
                if (!(tries % NOW_AND_THEN) && sf_watch(given_up) == mark)
                        return sf_neutral(p);
        }
        return sf_of_words(look.found);
}

/* The bits of q that are needed to tell a total: the ones at its end. */
SF_DEVICE sf_u32 sf_early(sf_u32 q) { return q & ~(q + 1); }
