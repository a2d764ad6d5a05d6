/*
 * chained_search.cuh: how the watchers of scan_chained.cu look for the totals of earlier tiles, and
 * publish those of groups. scan_chained.cu includes it.
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
                        for (int b = 1; b < 32; b *= 2)
                                v = sf_meet(v, lane, b);
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
