/*
 * tree_totals.cuh: the totals that the tiles of a block, and blocks, exchange. tree.cuh includes it.
 */

/* ------------------------------------------------------------------------------------------------
 * Totals that blocks publish for each other: of tiles, of groups of 32 tiles, of groups of 32 such
 * groups, and so on, one level after another
 * ---------------------------------------------------------------------------------------------- */

/* The first group of a level of line `unit`. number[0]: tiles of a line. number[1]: groups of a
 * line, of all levels. */
SF_DEVICE sf_i64 sf_first_group(const sf_params &p, sf_i64 unit, int level)
{
        return unit * p.number[1] + sf_groups_below(p.number[0], level);
}

/* The same in 32 bits: there are less than 2^31 tiles, since tickets have so many bits. */
SF_DEVICE sf_u32 sf_first_group_of(const sf_params &p, sf_u32 unit, int level)
{
        sf_u32 group = unit * (sf_u32)p.number[1], entries = (sf_u32)p.number[0];
        for (int k = 0; k < level; k++) {
                entries = (entries + SF_GROUP - 1) >> SF_GROUP_LOG;
                group += entries;
        }
        return group;
}

#include "tickets.cuh"

#if SF_MEMBERS == 1
/* Publishes a settled total. Each word of 64 bits carries the mark and 32 bits of the total, so
 * that both become visible at once. The words are APART words apart. */
template <int APART> SF_DEVICE void sf_publish(sf_u64 *entry, sf_acc v, sf_u32 mark)
{
        const sf_words words = sf_words_of(v);
#pragma unroll
        for (int w = 0; w < (int)(sizeof v / 4); w++)
                sf_post(entry + w * APART, (sf_u64)mark << 32 | words.w[w]);
}

#if SF_PRODUCTS
/*
 * A settled product in half as many words. Its mantissa is in [1, 2), and its exponent is far from
 * filling all of its bits, so a few bits of the mark fit beside them (SF_MARK_BITS). f32: the mark,
 * the sign, 29 bits of the exponent, and the 23 stored bits of the mantissa. f64: two words, each
 * with the mark, and 53 bits of the exponent in the second. Two exponents that no product has stand
 * for a zero, and for an infinity or a NaN. H200, cumprod of (2^20, 32), share of plain
 * multiplication, so and in twice as many words: f32 0.87, 0.83; bf16 0.66, 0.64.
 */
enum { SF_TOTAL_WORDS = SF_VALUE_SIZE / 8 };
static_assert(SF_MARK_BITS == 11, "the shifts and masks below leave a mark so many bits");

template <int APART> SF_DEVICE void sf_publish_total(sf_u64 *entry, sf_acc v, sf_u32 mark)
{
#if SF_VALUE_SIZE == 8
        const sf_u32 bits = sf_bits_of(v.mantissa), field = bits >> 23 & 255;
        const int e = field == 127 ? v.exponent : -(1 << 28) + (field != 0);
        const sf_u32 high = mark << 21 | bits >> 31 << 20 | ((sf_u32)e >> 9 & 0xfffff);
        sf_post(entry, (sf_u64)high << 32 | (sf_u32)e << 23 | (bits & 0x7fffff));
#else
        const sf_u64 bits = sf_bits_of(v.mantissa), field = bits >> 52 & 2047;
        const sf_i64 e = field == 1023 ? v.exponent : -(1ll << 52) + (field != 0);
        sf_post(entry, (sf_u64)mark << 53 | bits >> 63 << 52 | (bits & ~0ull >> 12));
        sf_post(entry + APART, (sf_u64)mark << 53 | ((sf_u64)e & ~0ull >> 11));
#endif
}

/* Whether the words of a total have arrived; if so, the total. */
SF_DEVICE bool sf_arrived(const sf_u64 (&word)[SF_TOTAL_WORDS], sf_u32 mark, sf_acc &v)
{
#if SF_VALUE_SIZE == 8
        const sf_u32 high = (sf_u32)(word[0] >> 32), low = (sf_u32)word[0];
        v.exponent = (int)(sf_u32)(word[0] >> 20) >> 3;
        const sf_u32 special = v.exponent == -(1 << 28) ? 0 : 255, field = v.exponent > -(1 << 28) + 1 ? 127 : special;
        v.mantissa = sf_float_of(high >> 20 << 31 | field << 23 | (low & 0x7fffff));
        return !((high >> 21 ^ mark) & 2047);
#else
        v.exponent = (sf_i64)(word[1] << 11) >> 11;
        const sf_u64 special = v.exponent == -(1ll << 52) ? 0 : 2047, field = v.exponent > -(1ll << 52) + 1 ? 1023 : special;
        v.mantissa = sf_double_of(word[0] >> 52 << 63 | field << 52 | (word[0] & ~0ull >> 12));
        return !(((sf_u32)(word[0] >> 53) ^ mark) & 2047 | ((sf_u32)(word[1] >> 53) ^ mark) & 2047);
#endif
}
#else
enum { SF_TOTAL_WORDS = sizeof(sf_acc) / 4 };

template <int APART> SF_DEVICE void sf_publish_total(sf_u64 *entry, sf_acc v, sf_u32 mark) { sf_publish<APART>(entry, v, mark); }

/* Whether the words of a total have arrived; if so, the total. */
SF_DEVICE bool sf_arrived(const sf_u64 (&word)[SF_TOTAL_WORDS], sf_u32 mark, sf_acc &v)
{
        sf_words words;
        sf_u32 differs = 0;
#pragma unroll
        for (int w = 0; w < SF_TOTAL_WORDS; w++) {
                differs |= (sf_u32)(word[w] >> 32) ^ mark;
                words.w[w] = (sf_u32)word[w];
        }
        v = sf_of_words(words);
        return !differs;
}
#endif
#endif

/* ------------------------------------------------------------------------------------------------
 * A block that processes the tiles of several sequences in turn, its counter in shared memory
 *
 * Entry k is the total of 2^k tiles: SHARE neighbours at counter[k * pitch]. A long sequence is
 * divided into chunks. Each chunk but the last is a power of two of tiles and aligned to its size.
 * A separate launch folds all chunks but the last and leaves their totals in scratch memory. Then
 * either every block combines them into what comes before its own chunk (sf_preload), or
 * scan_totals.cu does so for all blocks (sf_look_up).
 * ---------------------------------------------------------------------------------------------- */

/* Stores totals in an entry. Whatever is kept in memory is settled. */
template <int SHARE> SF_DEVICE void sf_enter(sf_acc *entry, const sf_acc (&total)[SHARE])
{
#pragma unroll
        for (int s = 0; s < SHARE; s++)
                entry[s] = sf_settled(total[s]);
}

/*
 * Combines the elements of tile t with the totals of the tiles before it. As soon as it has taken
 * the entries that carry, the keeper's last elements are the total of the largest block that the
 * tile completes. The caller has a barrier between the calls for two tiles: a tile does not read
 * the entry that it writes, and later tiles read it.
 *
 * WHOLE: the block processes the sequence from its beginning. If any grouping gives the same bits,
 * two entries are then enough. Tiles use them in turn for the total of all tiles before.
 */
template <bool WHOLE, int SHARE>
SF_DEVICE void sf_take_tiles(sf_acc *counter, int pitch, sf_i64 t, bool keeper,
                             sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_before<SHARE> &before)
{
        if (SF_OWES && WHOLE) {
                sf_acc last[SHARE];
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        last[s] = counter[(t & 1) * pitch + s];
                if (t)
                        sf_take_all(last, v, before);
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        last[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
                sf_pay(before, last);
                if (keeper)
                        sf_enter(counter + ((t & 1) ^ 1) * pitch, last);
                return;
        }
        bool carries = true;
        for (int k = 0; carries || t >> k; k++) {
                sf_acc last[SHARE];
                if (t >> k & 1) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                last[s] = counter[k * pitch + s];
                        sf_take_all(last, v, before);
                        continue;
                }
                if (carries && keeper) {
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                last[s] = v[SF_ITEMS - 1][SF_WIDTH - SHARE + s];
                        sf_pay(before, last);
                        sf_enter(counter + k * pitch, last);
                }
                carries = false;
        }
}

/* Folds the tiles of a chunk from the last to the first, so that the scan that follows finds the
 * first tiles in the cache. One thread works on a column. `total` is the total of a tile, the next
 * after `done` others; it becomes the total of the largest block that this tile completes. */
template <int SHARE> SF_DEVICE void sf_count_back(sf_acc *counter, int pitch, sf_i64 done, sf_acc (&total)[SHARE])
{
        int k = 0;
        for (; done >> k & 1; k++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        total[s] = sf_combine(total[s], counter[k * pitch + s]);
        sf_enter(counter + k * pitch, total);
}

/*
 * Fills the counter of a chunk, from entry `low` on, with the totals of the chunks before it. COUNT
 * threads work on the same columns; this is number `own` (if COUNT or more: none of them). `totals`
 * points to those of chunk 0, and each next chunk's are `stride` elements further. There are at
 * most RUN * COUNT chunks. `room` is COUNT rows of `pitch` elements that nothing else uses until
 * the block's next barrier. Totals of chunks may have limited exponents (sf_settled).
 */
template <int RUN, int COUNT, int SHARE>
SF_DEVICE void sf_preload(const sf_acc *totals, sf_i64 stride, int chunk, int low, int own, sf_acc *room, sf_acc *counter, int pitch)
{
        /* What threads take of each other is settled: one more for each bit of COUNT. */
        static_assert(RUN <= 32 && COUNT <= 1024, "at most four products of eight, and ten more");
        sf_acc u[RUN][SHARE];
        int at = own * RUN, last = own < COUNT ? chunk : 0;
#pragma unroll
        for (int i = 0; i < RUN; i++)
#pragma unroll
                for (int s = 0; s < SHARE; s++)
                        u[i][s] = at + i < last ? totals[(at + i) * stride + s] : sf_acc();
        counter += low * pitch;
#pragma unroll
        for (int b = 1; b < RUN; b *= 2, counter += pitch)
#pragma unroll
                for (int i = 0; i < RUN; i += b) {
                        if ((last & b) && at + i == (last & -b) - b)
                                sf_enter(counter, u[i]);
                        if (i & b)
#pragma unroll
                                for (int s = 0; s < SHARE; s++)
                                        u[i - b][s] = sf_combine(u[i - b][s], u[i][s]);
                        if (SF_LIMITS && b == 4 && i & b)
                                sf_settle_all(u[i - b]);
                }
#pragma unroll
        for (int w = 1; w < COUNT; w *= 2, counter += pitch) {
                int blocks = last / (RUN * w);
                if ((blocks & 1) && own == (blocks - 1) * w)
                        sf_enter(counter, u[0]);
                if (own < COUNT && (own & (2 * w - 1)) == w)
                        sf_enter(room + own * pitch, u[0]);
                sf_sync_block();
                if (own < COUNT && !(own & (2 * w - 1)))
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                u[0][s] = sf_combine(u[0][s], room[(own + w) * pitch + s]);
        }
}

/* The same after scan_totals.cu: the total of chunk c is now that of the largest block that c
 * completes. */
template <int COUNT, int SHARE>
SF_DEVICE void sf_look_up(const sf_acc *totals, sf_i64 stride, int chunk, int low, int own, sf_acc *counter, int pitch)
{
        for (int k = own; k < 31 && chunk >> k; k += COUNT)
                if (chunk >> k & 1)
#pragma unroll
                        for (int s = 0; s < SHARE; s++)
                                counter[(low + k) * pitch + s] = totals[((chunk >> k << k) - 1) * stride + s];
}
