/*
 * look_back.cuh: the totals that the tiles of a strip of columns publish for each other.
 *
 * Every tile publishes its own total, the last of four tiles also theirs, the last of four such
 * groups theirs, and so on. What comes before a tile is then at most three totals of each level: a
 * thread looks for those of one column and level, and combines them into entries of the counter
 * (tree_totals.cuh).
 */
struct sf_ahead {
        sf_u64 *entries; /* of the strip: of every tile, then of every group of four, and so on */
        sf_acc *own;     /* in shared memory: the total of each column of the tile */
        int tiles, columns, pitch;
        sf_u32 mark;
};

SF_DEVICE sf_u64 *sf_ahead_entry(const sf_ahead &a, int level, int index, int column)
{
        const sf_i64 entry = sf_ahead_entries(a.tiles, level) + index;
        return a.entries + (entry * a.pitch + column) * SF_TOTAL_WORDS;
}

/* How many entries of a level come before that of a tile, among four. */
SF_DEVICE int sf_mates(int tile, int level)
{
        return tile >> SF_MATES_LOG * level & (SF_MATES - 1);
}

SF_DEVICE sf_acc sf_two(sf_acc a, sf_acc b) { return sf_settled(sf_combine(a, b)); }

/* Waits for the totals of one column and level that come before the tile's, and enters them in the
 * counter, whose entry for the lowest of them is at `counter`. Returns them combined with `own`, if
 * there are three of them. */
SF_DEVICE sf_acc sf_look(const sf_ahead &a, int tile, int level, int column, sf_acc *counter,
                         sf_acc own)
{
        enum { OTHERS = SF_MATES - 1 };
        const int mates = sf_mates(tile, level);
        const int first = tile >> SF_MATES_LOG * level & -SF_MATES;
        const sf_u64 *entry = sf_ahead_entry(a, level, first, column);
        sf_acc e[OTHERS];
        bool late;
        do {
                sf_u64 word[OTHERS][SF_TOTAL_WORDS];
                late = false;
#pragma unroll
                for (int i = 0; i < OTHERS; i++)
#pragma unroll
                        for (int w = 0; w < SF_TOTAL_WORDS; w++)
                                if (i < mates)
                                        word[i][w] = sf_watch(
                                                entry + i * a.pitch * SF_TOTAL_WORDS + w);
#pragma unroll
                for (int i = 0; i < OTHERS; i++)
                        if (i < mates)
                                late |= !sf_arrived(word[i], a.mark, e[i]);
        } while (late);
        if (mates & 1)
                counter[0] = mates & 2 ? e[2] : e[0];
        if (mates & 2) {
                const sf_acc two = sf_two(e[0], e[1]);
                counter[a.pitch] = two;
                if (mates == OTHERS)
                        own = sf_two(two, sf_two(e[2], own));
        }
        return own;
}

/* Publishes the total of a column of the tile, and keeps it for sf_look_back: the same thread has the
 * same column there. */
SF_DEVICE void sf_publish_own(const sf_ahead &a, int tile, int column, sf_acc total)
{
        a.own[column] = total;
        sf_publish_total<1>(sf_ahead_entry(a, 0, tile, column), total, a.mark);
}

/* Fills the tile's counter with the totals of the tiles before it. All threads of the block are here
 * together. */
SF_DEVICE void sf_look_back(const sf_ahead &a, int tile, sf_acc *counter)
{
        const int depth = sf_ahead_depth(a.tiles);
        int closed = 0; /* levels that the tile is the last one of, but for the highest */
        while (tile + 1 < a.tiles && closed + 1 < depth && sf_mates(tile, closed) == SF_MATES - 1)
                closed++;
        for (int c = sf_thread(); closed && c < a.columns; c += SF_THREADS) {
                sf_acc own = a.own[c];
                for (int l = 0; l < closed; l++) {
                        const int index = tile >> SF_MATES_LOG * (l + 1);
                        own = sf_look(a, tile, l, c, counter + l * SF_MATES_LOG * a.pitch + c, own);
                        sf_publish_total<1>(sf_ahead_entry(a, l + 1, index, c), own, a.mark);
                }
        }
        for (int k = sf_thread(); k < (depth - closed) * a.columns; k += SF_THREADS) {
                const int above = k / a.columns, level = closed + above;
                const int c = k - above * a.columns;
                sf_look(a, tile, level, c, counter + level * SF_MATES_LOG * a.pitch + c, sf_acc());
        }
        sf_sync_block();
}
