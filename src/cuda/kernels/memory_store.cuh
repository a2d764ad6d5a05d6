/*
 * memory_store.cuh: results, and how vectors of them are stored. memory.cuh includes it.
 */

#if SF_MEMBERS == 1
/* Converts values to the results that are stored. */
SF_DEVICE sf_answer sf_lowered(const sf_params &p, sf_acc v)
{
#if SF_INDICES && SF_LEFTS
        /* Elements to the left have negative positions here. */
        const sf_i64 at = p.before + (sf_i64)(v.second ^ (sf_at)sf_holds::LATE);
        return v.second == sf_holds::nowhere() ? -1 : p.initial ? (sf_i64)p.initial - 1 - at : at;
#elif SF_INDICES
        const sf_at at = sf_holds::lower(v), back = (sf_at)p.initial - 1;
        sf_answer r;
#if SF_ELEMENT
        r.number = at < 0 || back < 0 ? at : back - at;
        r.element = v.first;
#else
        r = at < 0 || back < 0 ? at : back - at;
#endif
        return r;
#elif SF_PRODUCTS
        (void)p;
        return sf_from_near(v) < sf_nears(sf_number()) ? sf_lower_near(v) : sf_holds::lower(v);
#else
        (void)p;
        return sf_holds::lower(v);
#endif
}
template <int N>
SF_DEVICE void sf_lower_all(const sf_params &p, const sf_acc (&v)[N][SF_WIDTH], sf_answer (&result)[N][SF_WIDTH])
{
#if SF_INDICES
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        result[i][j] = sf_lowered(p, v[i][j]);
#else
        (void)p;
        sf_holds::template lower_all<N * SF_WIDTH>(&v[0][0], &result[0][0]);
#endif
}
#endif

/* The operands that the store program reads besides the results. */
struct sf_results {
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) sf_operand<dt, unit> operand##k;
        SF_STORES(OPERAND)
#undef OPERAND
#endif
};

/* Loads an operand of the store program; one that lacks the sequence's last element ends at
 * `shorter`. */
#define SF_LOAD_RESULT(k) \
        sf_load_operand<false, (SF_LOOSE_ONES >> k & 1) != 0, (SF_SHORT >> k & 1) != 0>( \
                with.operand##k, line.operand[k], index, SF_SHORT >> k & 1 ? shorter : end, by.operand[k]);

SF_DEVICE sf_results sf_load_results(const sf_line &line, sf_i64 index, sf_i64 end, sf_i64 shorter, const sf_strides &by)
{
        sf_results with;
        (void)line, (void)index, (void)end, (void)by, (void)shorter;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) SF_LOAD_RESULT(k)
        SF_STORES(OPERAND)
#undef OPERAND
#endif
        return with;
}

/*
 * The same for a scan or a map, in two parts. Operands that the load program reads too are kept
 * from the vector that was loaded, which must have arrived: a copy would wait for it. Only the
 * others are loaded. (Templates, because in a fold both programs read operands differently.)
 */
template <class V> SF_DEVICE void sf_keep_results(const V &read, sf_results &with)
{
        (void)read, (void)with;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) with.operand##k = read.operand##k;
        SF_KEPT(OPERAND)
#undef OPERAND
#endif
}
template <class L> SF_DEVICE sf_results sf_fresh_results(const L &line, sf_i64 index, sf_i64 end, sf_i64 shorter, const sf_strides &by)
{
        sf_results with;
        (void)line, (void)index, (void)end, (void)by, (void)shorter;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) SF_LOAD_RESULT(k)
        SF_FRESH(OPERAND)
#undef OPERAND
#endif
        return with;
}

#if SF_MEMBERS == 1
/* The bits that are stored for a result. It is number j of its vector. */
SF_DEVICE sf_u64 sf_outcome(const sf_params &p, sf_answer result, const sf_results &with, int j)
{
#if SF_ELEMENT
        const sf_outcome_number v = result.number;
#else
        const sf_outcome_number v = result;
#endif
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) , sf_value_at(with.operand##k, j)
        return sf_store_program0(p, v SF_STORES(OPERAND));
#undef OPERAND
#else
        (void)p, (void)with, (void)j;
        return sf_narrow(v);
#endif
}

#if SF_PACKS > 1 && SF_PARTIAL /* only totals are stored */
#elif SF_PACKS > 1
/* Stores a vector in packs, with the arguments of sf_load_packs. */
template <int Q = 0> SF_DEVICE void sf_store_packs(char *y, int apart, int packs, const sf_answer (&v)[SF_WIDTH])
{
        sf_raw<PACK * SF_OUT_SIZE> r;
        sf_clear(r);
#pragma unroll
        for (int j = 0; j < PACK; j++)
                if (PACK == 1 && SF_OUT_SIZE < 4) /* no other bits of the word are stored */
                        r.w[0] = (sf_u32)sf_narrow(v[Q]);
                else
                        sf_set_slot<SF_OUT_SIZE>(r, j, sf_narrow(v[Q * PACK + j]));
#if SF_SLOTS
        sf_store_below<Q * SF_SLOTS * PACK * SF_OUT_SIZE>(Q, packs, y, r);
#else
        sf_store_below(Q, packs, y + Q * apart * SF_OUT_SIZE, r);
#endif
        if constexpr (Q + 1 < SF_PACKS)
                sf_store_packs<Q + 1>(y, apart, packs, v);
}
#elif SF_WIDTH * SF_OUT_SIZE <= 16 && !(SF_WIDTH & (SF_WIDTH - 1)) /* a fold stores one by one */
typedef sf_raw<SF_WIDTH * SF_OUT_SIZE> sf_stored;

/* A vector of results, as it is stored. */
SF_DEVICE sf_stored sf_pack(const sf_params &p, const sf_answer (&v)[SF_WIDTH], const sf_results &with)
{
        sf_stored r;
#if SF_ACC == SF_DT_F32 && (SF_OUT == SF_DT_F16 || SF_OUT == SF_DT_BF16) && !SF_STORE_FUSED && !SF_INDICES
        if (SF_WIDTH % 2 == 0) { /* two are rounded at once */
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i += 2) {
                        const float low = v[sf_slot_of<SF_Y_UNIT>(i)], high = v[sf_slot_of<SF_Y_UNIT>((i + 1) % SF_WIDTH)];
                        r.w[i / 2] = SF_OUT == SF_DT_F16 ? sf_to_halves(low, high) : sf_to_brains(low, high);
                }
                return r;
        }
#endif
        sf_u64 slot[SF_WIDTH];
        for (int i = 0; i < (int)(sizeof r.w / 4); i++)
                r.w[i] = 0;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                slot[sf_slot_of<SF_Y_UNIT>(j)] = sf_outcome(p, v[j], with, j);
        /* Narrow slots, set one by one, would take twice the instructions. */
        if (SF_OUT_SIZE == 1 && SF_WIDTH % 4 == 0)
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i += 4)
                        r.w[i / 4 % (int)(sizeof r.w / 4)] = sf_four_bytes((sf_u32)slot[i], (sf_u32)slot[(i + 1) % SF_WIDTH], (sf_u32)slot[(i + 2) % SF_WIDTH], (sf_u32)slot[(i + 3) % SF_WIDTH]);
        else if (SF_OUT_SIZE == 2 && SF_WIDTH % 2 == 0)
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i += 2)
                        r.w[i / 2 % (int)(sizeof r.w / 4)] = (sf_u32)sf_pair((int)slot[i], (int)slot[(i + 1) % SF_WIDTH]);
        else
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i++)
                        sf_set_slot<SF_OUT_SIZE>(r, i, slot[i]);
        return r;
}

/* Stores one slot of a vector. */
SF_DEVICE void sf_store_slot(char *y, const sf_stored &r, int slot)
{
        sf_store(y, sf_one_slot<SF_OUT_SIZE>(sf_slot<SF_OUT_SIZE>(r, slot)));
}

#if SF_SECOND
/* The bits of the second result at position j of its vector: of the element at an index, or of the
 * same result of the scan, with another store program. */
SF_DEVICE sf_u64 sf_second_outcome(const sf_params &p, const sf_answer &v, const sf_results &with, int j)
{
        (void)with, (void)j;
#if SF_ELEMENT
        return sf_store_program1(p, v.element);
#else
#define OPERAND(k, dt, unit) , sf_value_at(with.operand##k, j)
        return sf_store_program1(p, v SF_STORES(OPERAND));
#undef OPERAND
#endif
}

/* Stores the second results of a vector. SF_SECOND_UNIT: as SF_Y_UNIT, where they too may be
 * stored as a vector. */
SF_DEVICE void sf_store_seconds(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by, const sf_answer (&v)[SF_WIDTH],
                                const sf_results &with)
{
        enum { SIZE = SF_SIZE(SF_SECOND_OUT) };
        sf_raw<SF_WIDTH * SIZE> r;
        sf_clear(r);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                sf_set_slot<SIZE>(r, sf_slot_of<SF_SECOND_UNIT>(j), sf_second_outcome(p, v[j], with, j));
        if (SF_SECOND_UNIT && index + SF_WIDTH <= end)
                sf_store(line.also[0] + sf_vector_offset<SF_SECOND_UNIT, SIZE>(index, by.element), r);
        else
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end)
                                sf_store(line.also[0] + (index + j) * by.element,
                                         sf_one_slot<SIZE>(sf_slot<SIZE>(r, sf_slot_of<SF_SECOND_UNIT>(j))));
}
#endif

SF_DEVICE void sf_store_vector(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by, const sf_answer (&v)[SF_WIDTH],
                               const sf_results &with)
{
#if SF_SECOND
        sf_store_seconds(p, line, index, end, by, v, with);
#endif
        if (index + SF_WIDTH <= end)
                sf_store(line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, by.y), sf_pack(p, v, with));
#if SF_RAGGED
        else {
                const sf_stored r = sf_pack(p, v, with);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end)
                                sf_store_slot(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(index + j, by.y), r, sf_slot_of<SF_Y_UNIT>(j));
        }
#endif
}

#if SF_SHIFT_OUT || SF_EARLY
/* Stores the slots of a chunk from `low` to before `high`, which need not be constants. */
SF_DEVICE void sf_store_some(char *to, const sf_stored &chunk, int low, int high)
{
        enum { WORDS = (int)(sizeof chunk.w / 4) };
#pragma unroll 1
        for (int k = low; k < high; k++) {
                const int byte = k * SF_OUT_SIZE;
                sf_raw<SF_OUT_SIZE> one;
                sf_u32 even = chunk.w[0], odd = chunk.w[WORDS > 1];
                if (WORDS > 2) {
                        even = sf_second(even, chunk.w[WORDS > 2 ? 2 : 0], byte & 8);
                        odd = sf_second(odd, chunk.w[WORDS > 2 ? 3 : 0], byte & 8);
                }
                one.w[0] = sf_second(even, odd, WORDS > 1 && SF_OUT_SIZE < 8 && byte & 4) >> (byte & 3) * 8;
                if (SF_OUT_SIZE == 8)
                        one.w[SF_OUT_SIZE == 8] = odd;
                sf_store(to + byte, one);
        }
}

#endif
#if SF_EARLY
/* Stores a vector of a line whose first `early` elements are not its own (sf_begin_early). */
SF_DEVICE void sf_store_early(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, int early, const sf_answer (&v)[SF_WIDTH], const sf_results &with)
{
        const sf_stored r = sf_pack(p, v, with);
        char *to = line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, 0);
        if (index >= early && index + SF_WIDTH <= end) {
                sf_store(to, r);
        } else if (index < end) {
                const int low = index < early ? (int)(early - index) : 0, high = end - index < SF_WIDTH ? (int)(end - index) : SF_WIDTH;
                sf_store_some(to, r, SF_Y_UNIT < 0 ? SF_WIDTH - high : low, SF_Y_UNIT < 0 ? SF_WIDTH - low : high);
        }
}
#endif
#if SF_SHIFT_OUT
/* sf_store_some for the lanes with `some`. TOGETHER: they are few in a warp, so all lanes help one
 * of them at a time, and each stores one slot. */
template <bool TOGETHER> SF_DEVICE void sf_store_parts(bool some, char *to, const sf_stored &chunk, int low, int high, int lane)
{
        if (!TOGETHER) {
                if (some)
                        sf_store_some(to, chunk, low, high);
                return;
        }
        for (sf_u32 left = sf_ballot(some && low < high); left; left &= left - 1) {
                const int from = sf_lowest(left);
                sf_stored theirs;
#pragma unroll
                for (int w = 0; w < (int)(sizeof chunk.w / 4); w++)
                        theirs.w[w] = ::sf_shuffle(chunk.w[w], from);
                char *place = (char *)::sf_shuffle((sf_u64)to, from);
                const int limits = ::sf_shuffle(low | (high < 0 ? 0 : high) << 8, from), first = limits & 255, last = limits >> 8;
                sf_store_some(place, theirs, first + lane, first + lane < last ? first + lane + 1 : 0);
        }
}

/*
 * Stores the vectors of LANES neighbouring lanes, at any address, as chunks. Each lane stores the
 * chunk in which its vector begins. What comes before the vector in that chunk is taken from the
 * lane that has it. The lane with the lowest addresses takes it from `beyond` of the lane with the
 * highest, if `follows`. The elements left over at either end are stored one by one, those at the
 * highest addresses only if `closes`. All lanes of the warp must be here together; those without
 * `there` store nothing.
 */
template <int LANES>
SF_DEVICE void sf_store_shifted(const sf_line &line, bool there, sf_i64 index, sf_i64 end, const sf_stored &own, const sf_stored &beyond, bool follows,
                                bool closes, int lane)
{
        enum { BYTES = SF_WIDTH * SF_OUT_SIZE, UP = SF_Y_UNIT > 0, LOW = UP ? 0 : LANES - 1, HIGH = LANES - 1 - LOW, TOGETHER = LANES >= 16 };
        const int place = lane & (LANES - 1);
        char *at = line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, 0);
        const int past = (int)((sf_u64)at & (BYTES - 1)), shared = past / SF_OUT_SIZE;
        sf_stored before, chunk = own;
#pragma unroll
        for (int w = 0; w < (int)(sizeof own.w / 4); w++)
                before.w[w] = ::sf_shuffle(place == HIGH ? beyond.w[w] : own.w[w], (lane & -LANES) | ((lane - SF_Y_UNIT) & (LANES - 1)));
        if (past)
                chunk = sf_cut(before, own, BYTES - past);
        /* How many elements the line has from `index` on, limited to two vectors. The chunk begins
         * `shared` elements before the vector; if elements are in reverse, it ends `shared`
         * elements after it. */
        const int left = (int)(index >= end + SF_WIDTH ? -SF_WIDTH : end - index < 2 * SF_WIDTH ? end - index : 2 * SF_WIDTH);
        const int lowest = place != LOW || follows ? 0 : shared;
        const int low = UP ? lowest : lowest > SF_WIDTH + shared - left ? lowest : SF_WIDTH + shared - left;
        const int high = UP && left + shared < SF_WIDTH ? left + shared : SF_WIDTH;
        const bool whole = low == 0 && high == SF_WIDTH;
        if (there && whole)
                sf_store(at - past, chunk);
        sf_store_parts<TOGETHER>(there && !whole, at - past, chunk, low, high, lane);
        if (closes) {
                const int first = SF_WIDTH - shared; /* of its own slots, past the chunk */
                const int from = UP || left >= shared ? 0 : shared - left, to = UP && left < SF_WIDTH ? left - first : shared;
                sf_store_parts<TOGETHER>(there && past && place == HIGH, at - past + BYTES, sf_cut(own, own, BYTES - past), from, to, lane);
        }
}
#endif

#if SF_SHIFT_OUT
/*
 * Stores whole vectors of a warp at any address, which are contiguous from lane to lane and from item
 * to item: as chunks, which lanes put together (sf_join), and one by one what is left over at either
 * end. `at`: the index of a lane's first vector.
 */
template <int SPREAD> SF_DEVICE void sf_store_joined(const sf_line &line, sf_i64 at, sf_stored (&r)[SF_ITEMS], int lane)
{
        enum { SIZE = SF_OUT_SIZE, BYTES = SF_WIDTH * SIZE, NEXT = SF_Y_UNIT * SPREAD * SIZE, LAST = (SF_ITEMS - 1) * NEXT };
        char *to = line.y + sf_vector_offset<SF_Y_UNIT, SIZE>(at, 0);
        const int past = (int)((sf_u64)to & (BYTES - SIZE)), from = BYTES - past;
        const bool up = sf_joins_upward(from, BYTES);
        bool low = false, high = false;
        if (past) {
                low = lane == (SF_Y_UNIT > 0 ? 0 : 31);
                high = lane == (SF_Y_UNIT > 0 ? 31 : 0);
                const bool first = lane == 0;
                char *edge_at = to + (first ? 0 : LAST);
                sf_stored edge;
#pragma unroll
                for (int w = 0; w < (int)(sizeof edge.w / 4); w++)
                        edge.w[w] = first ? r[0].w[w] : r[SF_ITEMS - 1].w[w];
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (j * SIZE < from ? low : high)
                                sf_store_slot(edge_at + j * SIZE, edge, j);
                sf_join<SF_Y_UNIT, SIZE>(r, r[0], from, lane);
                to += up ? from : -past;
        }
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const bool lowest = i == (SF_Y_UNIT > 0 ? 0 : SF_ITEMS - 1), highest = i == (SF_Y_UNIT > 0 ? SF_ITEMS - 1 : 0);
                if (!(lowest && low && !up) && !(highest && high && up))
                        sf_store(to + i * NEXT, r[i]);
        }
}
#endif

/* Stores all vectors of a thread, which are SPREAD elements apart. Those of LANES lanes are
 * contiguous. early: what sf_begin_early returned, or 0. */
template <int LANES, int SPREAD>
SF_DEVICE void sf_store_vectors(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end, const sf_answer (&v)[SF_ITEMS][SF_WIDTH],
                                const sf_results (&with)[SF_ITEMS], int lane, int early)
{
        (void)lane, (void)early;
#if SF_EARLY
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_store_early(p, line, at + i * SPREAD, end, early, v[i], with[i]);
#elif SF_SHIFT_OUT
        sf_stored r[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                r[i] = sf_pack(p, v[i], with[i]);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const int before = i - SF_Y_UNIT;
                const bool follows = before >= 0 && before < SF_ITEMS;
                sf_store_shifted<LANES>(line, true, at + i * SPREAD, end, r[i], r[follows ? before : i], follows,
                                        i == (SF_Y_UNIT > 0 ? SF_ITEMS - 1 : 0), lane);
        }
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_store_vector(p, line, at + i * SPREAD, end, sf_along(p), v[i], with[i]);
#endif
}
#endif
#endif
