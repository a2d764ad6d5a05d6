/*
 * segments_pieces.cuh: one step of segments too long for one block (segments_apply.cu). Each is cut
 * into pieces of PIECE elements, counted from its beginning. A piece belongs to the windows in which
 * it begins, those of one block of the first launch; so they have at most one piece of the segment
 * that was begun before them, and the first piece of another. A fold stores the totals of pieces;
 * the launches of later steps fold those, every block for itself. If a fold's results are wanted,
 * one more launch stores them.
 *
 * A block has the windows whose number, divided by the number of blocks, leaves its own number.
 */
static_assert(SF_THREADS <= 1024, "a bit for each window");

/* Where the total of piece `number` is, of fold J and the segment that begins in windows `begun`. */
template <int J> SF_DEVICE char *sf_piece_total(const sf_params &p, sf_i64 begun, sf_i64 number)
{
        const sf_i64 windows = p.units * p.number[0];
        const sf_i64 place = (J * windows + begun + number) * 2 + (number > 0);
        return (char *)p.scratch + windows * 16 + place * SLOT;
}
template <class V> SF_DEVICE V sf_load_total(const char *from)
{
        enum { WORDS = sizeof(V) / 4 };
        union {
                V value;
                sf_u32 word[WORDS];
        } parts;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                sf_raw<4> one;
                sf_load(from + w * 4, one);
                parts.word[w] = one.w[0];
        }
        return parts.value;
}
template <class V> SF_DEVICE void sf_store_total(char *to, V value)
{
        enum { WORDS = sizeof(V) / 4 };
        union {
                V value;
                sf_u32 word[WORDS];
        } parts;
        parts.value = value;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                sf_raw<4> one;
                one.w[0] = parts.word[w];
                sf_store(to + w * 4, one);
        }
}

template <int J> SF_DEVICE sf_total<J> sf_fold_warp(sf_total<J> v, int lane)
{
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                v = sf_meet<J>(v, lane, b);
        return v;
}

/* Folds the totals of a segment's pieces. */
template <int J> SF_DEVICE sf_total<J> sf_fold_pieces(const sf_params &p, const sf_course &c,
                                                      sf_i64 begun, int pieces)
{
        sf_total<J> *const room = (sf_total<J> *)(sf_shared() +
                                                  sf_several_desk(WARPS, SF_PER, SLOT));
        const sf_total<J> neutral = sf_lifted<J>(FIELD(J, neutral));
        const int groups = (pieces + 31) / 32;
#pragma unroll 1
        for (int g = c.warp; g < groups; g += WARPS) {
                const int number = g * 32 + c.lane;
                sf_total<J> v = neutral;
                if (number < pieces)
                        v = sf_load_total<sf_total<J> >(sf_piece_total<J>(p, begun, number));
                sf_sync_warp();
                v = sf_fold_warp<J>(v, c.lane);
                if (!c.lane)
                        room[g] = v;
        }
        sf_sync_block();
        sf_total<J> own = neutral;
#pragma unroll 1
        for (int g = 0; g < groups; g += 32) {
                const int at = g + c.lane < groups ? g + c.lane : 0;
                const sf_total<J> v = sf_held<J>::choose(g + c.lane < groups, room[at], neutral);
                own = sf_held<J>::choose(c.lane == g / 32, sf_fold_warp<J>(v, c.lane), own);
        }
        sf_sync_block();
        return sf_fold_warp<J>(own, c.lane);
}

/* The results of the folds before step K of a segment of so many pieces. */
template <int J, int K> struct sf_made_before {
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, sf_i64 begun, int pieces,
                                  sf_i64 segment, bool mine)
        {
                if (sf_recipe<J>::KIND == KIND_FOLD)
                        sf_made<J>(p, c, sf_fold_pieces<J>(p, c, begun, pieces), segment, mine);
                sf_made_before<J + 1, K>::run(p, c, begun, pieces, segment, mine);
        }
};
template <int K> struct sf_made_before<K, K> {
        SF_DEVICE_MEMBER void run(const sf_params &, sf_course &, sf_i64, int, sf_i64, bool) {}
};

/* Step K, of a piece. */
template <int K> SF_DEVICE void sf_step_of_piece(const sf_params &p, sf_course &c, const sf_part &s,
                                                 char *to)
{
        if (sf_recipe<K>::KIND != KIND_FOLD)
                return sf_map_part<K>(p, c, s);
        const sf_total<K> total = sf_fold_part<K>(p, c, s);
        if (!sf_thread())
                sf_store_total(to, total);
        sf_sync_block();
}

/* The piece of a segment that begins in the block's windows number `window`. known: the results of
 * earlier steps are of this segment and line. FINISH: all steps are done, and results are stored. */
enum { FINISH = SF_ONLY > STEPS, NOW = FINISH ? 0 : SF_ONLY - 1 };
SF_DEVICE void sf_run_piece(const sf_params &p, sf_course &c, sf_i64 unit, sf_i64 window,
                            sf_i64 segment, bool known)
{
        const sf_i64 begin = sf_bound(p, segment), end = sf_bound(p, segment + 1);
        const sf_i64 begun = begin / PIECE, number = window - begun, first = begin + number * PIECE;
        const sf_i64 left = end - first, before = unit * p.number[0];
        if (number < 0 || left <= 0 || (FINISH && number))
                return;
        sf_part s;
        s.first = first;
        s.count = left < PIECE ? (int)left : (int)PIECE;
        s.chunks = (s.count + CHUNK - 1) / CHUNK;
        s.kept = 0;
        s.cells = sf_shared();
        s.total = sf_the_desk().total[0];
        s.warps = WARPS;
        s.segment = segment;
        if (!known) {
                sf_load_still(p, c, segment);
                sf_made_before<0, FINISH ? STEPS : NOW>::run(
                        p, c, before + begun, (int)((end - begin + PIECE - 1) / PIECE), segment,
                        FINISH && !sf_thread());
        }
        if (!FINISH)
                sf_step_of_piece<NOW>(p, c, s, sf_piece_total<NOW>(p, before + begun, number));
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        sf_take_turn();
        sf_u32 *const bits = (sf_u32 *)sf_the_desk().of[0];
        sf_course c;
        const int thread = sf_thread();
        c.lane = thread & 31;
        c.warp = thread / 32;
        const sf_i64 windows = p.units * p.number[0], blocks = p.number[2];
        sf_i64 last = -1, of = -1;
#pragma unroll 1
        for (sf_i64 from = sf_block(); from < windows; from += blocks * SF_THREADS) {
                const sf_i64 own = from + thread * blocks;
                sf_raw<16> words;
                words.w[1] = words.w[3] = ~0u;
                if (own < windows)
                        sf_load((const char *)p.scratch + own * 16, words);
                const sf_u32 some = sf_ballot((int)words.w[1] >= 0 || (int)words.w[3] >= 0);
                if (!c.lane)
                        bits[c.warp] = some;
                sf_sync_block();
#pragma unroll 1
                for (int w = 0; w < WARPS; w++)
                        for (sf_u32 left = bits[w]; left; left &= left - 1) {
                                const sf_i64 at = from + (w * 32 + sf_lowest(left)) * blocks;
                                const sf_i64 unit = p.units == 1 ? 0 : sf_divide(at, p.number[0]);
                                sf_load((const char *)p.scratch + at * 16, words);
#pragma unroll 1
                                for (int which = 0; which < 2; which++) {
                                        const sf_i64 k = (sf_i64)sf_slot<8>(words, which);
                                        if (k < 0)
                                                continue;
                                        if (of != unit)
                                                sf_locate(p, unit, c);
                                        sf_run_piece(p, c, unit, at - unit * p.number[0], k,
                                                     of == unit && last == k);
                                        of = unit;
                                        last = k;
                                }
                        }
                sf_sync_block();
        }
}
