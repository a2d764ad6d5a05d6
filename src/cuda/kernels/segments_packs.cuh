/*
 * segments_packs.cuh: tiny segments of segments_apply.cu: a lane has PACK of them, a pack, in
 * registers, and computes them all at once. They have at most as many elements together as a row.
 */
/* Longer rows are for longer segments. */
enum { PACK = 4, PACKED = !STORED && !EACH_SEGMENT && SF_ROW <= 8 };
struct sf_pack {
        int at, length; /* at: counted from the span's first element */
        int stored;     /* so many have results: a lane may have another one's pack */
        sf_u32 heads;   /* a bit for each element with which a segment begins */
};

/* Bits of `some` and those after them, up to the next bit of heads. */
SF_DEVICE sf_u32 sf_smeared(sf_u32 some, sf_u32 heads)
{
        const sf_u32 rest = ~heads & 0xff;
        return some | (rest & ~(rest + (some << 1)));
}

/* The steps of packs. N: none has more elements. */
template <int K, int N> struct sf_pack_steps {
        enum {
                OP = sf_recipe<K>::OP,
                MOST = (int)OP == SF_OP_MAX || (int)OP == SF_OP_MIN,
                LOG = N == 8 ? 3 : 2
        };
        /* Moves the course to vector i. */
        SF_DEVICE_MEMBER void see(sf_course &c, const sf_u64 (&made)[STEPS][N], int i)
        {
#pragma unroll
                for (int k = 0; k < K; k++)
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                c.made[k][j] = made[k][i * SF_WIDTH + j];
        }
        /* The first element of each segment becomes its total. Where any order gives the same bits,
         * from the right; else level by level: an element whose number is a multiple of 2^(b + 1)
         * takes the one 2^b after it, if its segment has that. */
        SF_DEVICE_MEMBER void join(const sf_pack &pack, sf_total<K> (&a)[N])
        {
                const sf_u32 ends = pack.heads | 1u << pack.length;
                if (MOST) {
#pragma unroll
                        for (int i = N - 2; i >= 0; i--)
                                a[i] = sf_held<K>::choose(ends >> (i + 1) & 1, a[i],
                                                          sf_joined<K>(a[i], a[i + 1]));
                        return;
                }
                sf_u32 odd = 0, lent = 0, same = ~(ends >> 1);
#pragma unroll
                for (int b = 0; b < LOG; b++) {
                        /* Bit b of an element's place, of its segment's, and of the difference. */
                        const sf_u32 own = b == 0 ? 0xaau : b == 1 ? 0xccu : 0xf0u,
                                     from = sf_smeared(pack.heads & own, pack.heads);
                        odd |= own ^ from ^ lent;
                        lent = (~own & (from | lent)) | (from & lent);
                        const sf_u32 takes = ~odd & same;
                        same &= same >> (1 << b);
#pragma unroll
                        for (int i = 0; i < N; i++)
                                if (i + (1 << b) < N)
                                        a[i] = sf_held<K>::choose(
                                                takes >> i & 1,
                                                sf_joined<K>(a[i], a[(i + (1 << b)) % N]), a[i]);
                }
        }
        SF_DEVICE_MEMBER void fold(const sf_params &p, sf_course &c, const sf_pack &pack,
                                   sf_vectors (&v)[N / 4], sf_u64 (&made)[STEPS][N])
        {
                sf_total<K> a[N];
                const sf_u32 there = sf_below(pack.length);
#pragma unroll
                for (int i = 0; i < N / 4; i++) {
                        see(c, made, i);
                        sf_fold_vector<K, true>(p, c, there >> 4 * i, v[i], a + 4 * i);
                }
                join(pack, a);
#pragma unroll
                for (int i = 0; i < N; i++) {
                        if (i && !(pack.heads >> i & 1)) {
                                made[K][i] = made[K][i ? i - 1 : 0];
                                continue;
                        }
#pragma unroll
                        for (int k = 0; k < K; k++)
                                c.made[k][0] = made[k][i];
                        made[K][i] = sf_make<K>(p, c, a[i]);
                }
        }
        SF_DEVICE_MEMBER void map(const sf_params &p, sf_course &c, const sf_span &s,
                                  const sf_pack &pack, const sf_vectors (&v)[N / 4],
                                  const sf_u64 (&made)[STEPS][N])
        {
                enum { OWN = SF_SIZE(sf_recipe<K>::OUT) };
#pragma unroll
                for (int i = 0; i < N / 4; i++) {
                        sf_raw<OWN * SF_WIDTH> r;
                        sf_various various;
                        see(c, made, i);
                        sf_map_vector<K>(p, c, v[i], r, various);
                        if (various.fails)
                                sf_map_with_care<K>(p, c, v[i], r);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++) {
                                const int own = 4 * i + j, at = pack.at + own;
                                if (K == LAST && REPLACED)
                                        sf_put_cell<OWN, false>(own, pack.stored,
                                                                s.cells + at * OWN, r, j);
                                else
                                        sf_put_memory<OWN, false>(
                                                own, pack.stored,
                                                sf_result_at<K>(p, c, s.first + at), r, j);
                        }
                }
        }
        SF_DEVICE_MEMBER void run(const sf_params &p, sf_course &c, const sf_span &s,
                                  const sf_pack &pack, sf_vectors (&v)[N / 4],
                                  sf_u64 (&made)[STEPS][N])
        {
                if (sf_recipe<K>::KIND == KIND_FOLD)
                        fold(p, c, pack, v, made);
                else
                        map(p, c, s, pack, v, made);
                sf_pack_steps<K + 1, N>::run(p, c, s, pack, v, made);
        }
};
template <int N> struct sf_pack_steps<STEPS, N> {
        SF_DEVICE_MEMBER void run(const sf_params &, sf_course &, const sf_span &, const sf_pack &,
                                  sf_vectors (&)[N / 4], sf_u64 (&)[STEPS][N]) {}
};
template <int N> SF_DEVICE void sf_run_packs(const sf_params &p, sf_course &c, const sf_span &s,
                                             const sf_pack &pack)
{
        sf_vectors v[N / 4];
        sf_u64 made[STEPS][N];
#pragma unroll
        for (int i = 0; i < N; i++) {
                const bool there = i < pack.length;
                sf_raw<SIZE> one;
                sf_shared_glance(s.cells + (pack.at + i) * SIZE, one, there);
                sf_set_slot<SIZE>(v[i / 4].operand0, i % 4, sf_slot<SIZE>(one, 0));
                sf_load_beside<BESIDE>(p, c, s.first + pack.at + i, there, i % 4, v[i / 4]);
        }
        sf_pack_steps<0, N>::run(p, c, s, pack, v, made);
}
/* Computes segments from k on, PACK for each lane. False: it has done nothing, for they are too
 * long. */
SF_DEVICE bool sf_run_tiny(const sf_params &p, sf_course &c, sf_span &s, sf_i64 &k, sf_i64 past)
{
        const sf_i64 own = k + c.lane * PACK, limit = past < p.segments ? past : p.segments;
        int from[PACK];
#pragma unroll
        for (int i = 0; i < PACK; i++) {
                const sf_i64 bound = sf_bound(p, own + i < past ? own + i : past) - s.first;
                from[i] = bound < 0 ? -1 : bound <= CELLS ? (int)bound : CELLS + 1;
        }
        const int end = ::sf_shuffle(from[0], (c.lane + 1) & 31);
        bool in = c.lane < 31 && own + PACK <= limit && from[0] >= 0 && end <= s.count;
        sf_pack pack = {from[0], end - from[0], end - from[0], 1};
#pragma unroll
        for (int i = 1; i <= PACK; i++) {
                const int next = i < PACK ? from[i % PACK] : end;
                in = in && next >= from[i - 1];
                pack.heads |= i < PACK ? 1u << (next - pack.at & 31) : 0;
        }
        in = in && pack.length <= SF_ROW;
        const int whole = sf_lowest(~sf_ballot(in));
        if (whole < 8)
                return false;
        k += whole * PACK;
        const bool some = pack.length && c.lane < whole;
        const sf_u32 others = sf_ballot(some);
        if (!others)
                return true;
        /* Lanes without elements take those of another, and store nothing. */
        const int lane = some ? c.lane : sf_lowest(others);
        pack.stored = some ? pack.length : 0;
        pack.at = ::sf_shuffle(pack.at, lane);
        pack.length = ::sf_shuffle(pack.length, lane);
        pack.heads = ::sf_shuffle(pack.heads, lane) & sf_below(pack.length);
        sf_load_still(p, c, -1);
        sf_await(s);
        sf_run_packs<(SF_ROW < 8 ? SF_ROW : 8)>(p, c, s, pack);
        sf_sync_warp();
        return true;
}
