/*
 * chained_search.cuh: how the watchers of scan_chained.cu look for the totals of earlier tiles, and
 * publish those of groups; and what workers do without these totals, where a product is spent.
 * scan_chained.cu includes it.
 */

/* The first word of the group that has entry `index` of a level, in one column of one line. */
SF_DEVICE sf_u64 *sf_group_of(const sf_params &p, sf_i64 unit, int level, sf_i64 index, int column)
{
#if SF_PRODUCTS
        /* Watchers of products have more to do. */
        sf_u32 group = sf_first_group_of(p, (sf_u32)unit, level);
        group = (group + ((sf_u32)index >> SF_GROUP_LOG)) * SF_COLUMNS + column;
        return (sf_u64 *)p.scratch + SF_TICKETS / 8 + (sf_i64)group * (WORDS * SF_GROUP);
#else
        sf_i64 group = sf_first_group(p, unit, level);
        sf_u64 *first = (sf_u64 *)p.scratch + SF_TICKETS / 8;
        first += group * sf_group_words(SF_COLUMNS, WORDS);
        return first + ((index >> SF_GROUP_LOG) * SF_COLUMNS + column) * (WORDS * SF_GROUP);
#endif
}

/* v, combined with `left` or not. Of pairs a choice takes longer than a condition. */
SF_DEVICE sf_acc sf_combined_if(bool condition, sf_acc left, sf_acc v)
{
        if (!SF_PRODUCTS)
                return sf_choose(condition, sf_combine(left, v), v);
        if (condition)
                v = sf_combine(left, v);
        return v;
}

#if SF_COLUMNS == 1
/* Lane w has warp w's total. Sets taken[w * SF_WARP_LEVELS + k] to what warp w takes from the warps
 * before it for the k-th bit set in w, counted from the lowest. Returns the total of all warps. */
SF_DEVICE sf_acc sf_between_warps(sf_acc total, sf_acc *taken, int lane, sf_acc neutral)
{
        int count = 0;
#pragma unroll
        for (int b = 1; b < WARPS; b *= 2) {
                sf_acc left = sf_shuffle(total, ((lane & -b) - 1) & 31);
                if (lane < WARPS && (lane & b))
                        taken[lane * SF_WARP_LEVELS + count++] = left;
                total = sf_settled(sf_combined_if(lane & b, left, total));
        }
        return sf_shuffle(total, WARPS - 1);
}
#endif

/* The search for the totals that a tile needs in one column. It may take several tries. */
struct sf_search {
        sf_acc v[SF_DEPTH];   /* lane k: entry k of the tile's group on that level */
        bool there[SF_DEPTH]; /* v is known, or not needed */
        bool found;           /* all are known, and have been handed over */
        sf_acc total;         /* of the largest known block that ends with the tile */
        int closed;           /* that block's level; -1: the tile's own total is not known yet */
};

SF_DEVICE void sf_search_begin(const sf_params &p, sf_i64 number, sf_search &s, int lane)
{
#pragma unroll
        for (int l = 0; l < SF_DEPTH; l++) {
                s.v[l] = sf_acc_of(p.identity);
                s.there[l] = lane >= (int)(number >> (5 * l) & 31);
        }
        s.found = false;
        s.closed = -1;
}

/* One try, for all columns of a warp. All loads are issued before the first result is used. Every
 * word has its own mark, so the words of a total need not arrive together. */
SF_DEVICE void sf_search_try(const sf_params &p, const sf_claim &tile, int column, sf_search (&s)[SEARCHES], int lane)
{
        sf_u64 word[SEARCHES][SF_DEPTH][WORDS];
#pragma unroll
        for (int q = 0; q < SEARCHES; q++)
#pragma unroll
                for (int l = 0; l < SF_DEPTH; l++)
                        if (!s[q].there[l] && column + q * SF_LOOKERS < SF_COLUMNS) {
                                const sf_u64 *group = sf_group_of(p, tile.unit, l, tile.number >> (5 * l), column + q * SF_LOOKERS);
#pragma unroll
                                for (int w = 0; w < WORDS; w++)
                                        word[q][l][w] = sf_watch(group + w * 32 + lane);
                        }
#pragma unroll
        for (int q = 0; q < SEARCHES; q++)
#pragma unroll
                for (int l = 0; l < SF_DEPTH; l++)
                        if (!s[q].there[l] && column + q * SF_LOOKERS < SF_COLUMNS) {
                                sf_words words;
                                bool there = true;
#pragma unroll
                                for (int w = 0; w < WORDS; w++) {
                                        there = there && (sf_u32)(word[q][l][w] >> 32) == tile.mark;
                                        words.w[w] = (sf_u32)word[q][l][w];
                                }
                                s[q].there[l] = there;
                                s[q].v[l] = sf_of_words(words);
                        }
}

/* Do all lanes of the warp have what they need? */
SF_DEVICE bool sf_search_complete(const sf_search &s)
{
        bool all = true;
#pragma unroll
        for (int l = 0; l < SF_DEPTH; l++)
                all = all && s.there[l];
        return !sf_ballot(!all);
}

/* The last tile of a group publishes the group's total as soon as it has the totals of the others,
 * which it needs anyway. */
SF_DEVICE void sf_search_close(const sf_params &p, const sf_claim &tile, int column, sf_search &s, int lane)
{
#pragma unroll
        for (int l = 0; l + 1 < SF_DEPTH; l++)
                if (s.closed == l && (tile.number >> (5 * l) & 31) == 31 && !sf_ballot(!s.there[l])) {
                        sf_acc v = sf_choose(lane == 31, s.total, s.v[l]);
#pragma unroll
                        for (int b = 1; b < 32; b *= 2) {
                                v = sf_meet(v, lane, b);
                                if (SF_LIMITS && l > 0 && b == 4) /* sf_settled says why */
                                        v = sf_settled(v);
                        }
                        v = sf_settled(v);
                        sf_i64 index = tile.number >> (5 * l + 5);
                        if (lane == 0)
                                sf_publish<32>(sf_group_of(p, tile.unit, l + 1, index, column) + (int)(index & 31), v, tile.mark);
                        s.total = v;
                        s.closed = l + 1;
                }
}

/* Sets before[k * SF_COLUMNS] to the total that the tile takes for the k-th bit set in its number,
 * counted from the lowest. */
SF_DEVICE void sf_search_end(const sf_params &p, sf_i64 number, const sf_search &s, sf_acc *before, int lane)
{
        int count = 0;
#pragma unroll
        for (int l = 0; l < SF_DEPTH; l++) {
                int mine = (int)(number >> (5 * l) & 31);
                sf_acc v = s.v[l];
#pragma unroll
                for (int k = 0; k < 5; k++) {
                        sf_acc left = sf_shuffle(v, ((lane & -(1 << k)) - 1) & 31);
                        if (lane == mine && (mine >> k & 1))
                                before[count * SF_COLUMNS] = left;
                        count += mine >> k & 1;
                        v = sf_combined_if(lane >> k & 1, left, v);
                        if (SF_LIMITS && l > 1 && k == 2) /* sf_settled says why */
                                v = sf_settled(v);
                }
        }
        if (!SF_PRODUCTS)
                return;
        /* All are settled at once, each by another lane. */
        sf_sync_warp();
        if (lane < count)
                before[lane * SF_COLUMNS] = sf_settled(before[lane * SF_COLUMNS]);
}

/* What a looking warp does in a turn of the loop: it tries once, publishes the totals of groups
 * that are complete, and hands over what it has found. `total`: the tile's own, one for each
 * column, or NULL if they are not known yet. Returns true once all is found. */
SF_DEVICE bool sf_search_turn(const sf_params &p, const sf_claim &tile, int column, sf_search (&search)[SEARCHES], const sf_acc *total,
                              sf_acc *list, int lane)
{
        bool all = true;
        sf_search_try(p, tile, column, search, lane);
#pragma unroll
        for (int q = 0; q < SEARCHES; q++) {
                int c = column + q * SF_LOOKERS;
                sf_search &s = search[q];
                if (c >= SF_COLUMNS)
                        break;
                if (total && s.closed < 0) {
                        s.total = total[c];
                        s.closed = 0;
                }
                sf_search_close(p, tile, c, s, lane);
                if (!s.found && sf_search_complete(s)) {
                        sf_search_end(p, tile.number, s, list + c, lane);
                        s.found = true;
                }
                all = all && s.found;
        }
        return all;
}

#if SF_SPENDS
/*
 * Once the product of all that comes before a warp has left the range by more than the warp can
 * bring back, it is spent: results are zero or infinite, and only their signs are to be found.
 * Whole results can bring back 2^125, others what the warp's numbers are at most.
 */
#define SF_SPENT (1 << 30) /* more than any exponent that is compared with it */
SF_DEVICE bool sf_is_spent(sf_acc before, bool whole)
{
        const int range = sf_range(sf_number());
        const decltype(before.exponent) most = (whole ? 2 : 32 * SF_ITEMS * SF_WIDTH + 2) * range;
        return before.exponent > most || before.exponent < -most;
}

/* The sign and about the exponent of the product of the lanes' values; each lane has one, or none.
 * If the product is a zero, an infinity or a NaN, it itself, with an exponent that is spent. */
SF_DEVICE sf_acc sf_sign_and_exponent(sf_acc v, bool there, int lane)
{
        const sf_number size = sf_magnitude(v.mantissa);
        const auto sum = sf_sum_lanes(there ? v.exponent : 0);
        const sf_u32 negative = sf_ballot(there && v.mantissa < 0);
        sf_number product = sf_count_bits(negative) & 1 ? -1 : 1;
        if (!sf_ballot(there && !(size >= 1 && size < 2)))
                return sf_holds::made(product, (sf_u64)sum);
        product = there ? sf_unit_of(v.mantissa) : 1;
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                product = sf_multiply(product, ::sf_shuffle(product, lane ^ b));
        /* sf_ballot: so the compiler knows that the warp stays together. */
        return sf_holds::made(product, (sf_u64)(sf_i64)(sf_ballot(product == 0) ? -SF_SPENT : SF_SPENT));
}

/* Whether none of the warp's numbers is a zero, an infinity or a NaN. */
SF_DEVICE bool sf_are_plain(const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        bool special = false;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        const sf_number size = sf_magnitude(v[i][j].mantissa);
                        special |= !(size > 0 && size < sf_infinity(size));
                }
        return !sf_ballot(special);
}

/* Scans the signs of numbers that are plain: nothing else of them is left. A lane needs to know only
 * how many before it are negative. */
SF_DEVICE void sf_scan_signs(sf_acc (&v)[SF_ITEMS][SF_WIDTH], int lane)
{
        sf_u32 own = 0;
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_u32 all = 0;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        all ^= sf_high_bits(v[i][j].mantissa);
                const sf_u32 negative = sf_ballot((int)all < 0);
                sf_u32 sign = own ^ (sf_u32)sf_count_bits(negative & ((1u << lane) - 1)) << 31;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        sign ^= sf_high_bits(v[i][j].mantissa);
                        v[i][j].mantissa = sf_of_high_bits(sf_number(), sign);
                }
                own ^= (sf_u32)sf_count_bits(negative) << 31;
        }
}

/* The results of a warp after a spent product (sf_sign_and_exponent). */
SF_DEVICE void sf_spend(const sf_acc (&v)[SF_ITEMS][SF_WIDTH], sf_acc before,
                        sf_answer (&result)[SF_ITEMS][SF_WIDTH])
{
        const sf_number far = before.exponent < 0 ? 0 : sf_infinity(sf_number());
        const sf_number rest = sf_multiply(before.mantissa, far);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        result[i][j] = sf_flipped(rest, sf_high_bits(v[i][j].mantissa));
}

/* The product of all that a warp takes: from the warps before it, and from the tiles before. */
SF_DEVICE sf_acc sf_all_before(const sf_acc *taken, int warp, const sf_acc *here, sf_u32 number, int lane)
{
        const int other = lane - (32 - SF_WARP_LEVELS);
        const bool there = other < 0 ? lane < sf_count_bits(number) : other < sf_count_bits((sf_u32)warp);
        sf_acc v = sf_holds::made(1, 0);
        if (there)
                v = other < 0 ? here[lane] : taken[other];
        return sf_sign_and_exponent(v, there, lane);
}
#endif
