/*
 * apply_teams.cuh: blocks that share a line or a strip, and are too many for a cluster: a team. Each
 * publishes its totals in scratch memory, with the launch's mark, and takes those of the others.
 * Tickets say which block has which place. So when a block waits for another of its team, all teams
 * before are complete, and the other will start as soon as one of their blocks ends.
 */
#include "tickets.cuh"

template <class V> union sf_in_words {
        V value;
        sf_u32 word[sizeof(V) / 4];
};

/* Draws the block's ticket. It stays at `place` in shared memory. */
SF_DEVICE void sf_join_team(const sf_params &p, sf_u64 *place)
{
        if (sf_thread() == 0) {
                const sf_u64 drawn = sf_draw(p);
                sf_hand_in(p, drawn);
                *place = drawn;
        }
        sf_sync_block();
}

/* The words for total number `entry`: SLOT / 4 for each of `team` blocks. */
SF_DEVICE sf_u64 *sf_team_words(const sf_params &p, sf_i64 entry, int team)
{
        return (sf_u64 *)(p.scratch + SF_TICKETS) + entry * (SLOT / 4) * team;
}

template <class V> SF_DEVICE void sf_tell_team(sf_u64 *words, int team, int rank, V total, sf_u32 mark)
{
        sf_in_words<V> own;
        own.value = total;
#pragma unroll
        for (int w = 0; w < (int)(sizeof own.value / 4); w++)
                sf_post(words + w * team + rank, (sf_u64)mark << 32 | own.word[w]);
}

/* Waits for the totals of all blocks of the team, and folds them. */
template <int K> SF_DEVICE sf_total<K> sf_ask_team(const sf_params &p, const sf_u64 *words, int team, int lane, sf_u32 mark)
{
        sf_total<K> few[SF_PER];
#pragma unroll
        for (int q = 0; q < SF_PER; q++) {
                const int rank = lane * SF_PER + q;
                sf_in_words<sf_total<K> > parts;
                parts.value = sf_lifted<K>(FIELD(K, neutral));
                if (rank < team)
#pragma unroll
                        for (int w = 0; w < (int)(sizeof parts.value / 4); w++) {
                                sf_u64 word = sf_watch(words + w * team + rank);
                                while ((sf_u32)(word >> 32) != mark)
                                        word = sf_watch(words + w * team + rank);
                                parts.word[w] = (sf_u32)word;
                        }
                few[q] = parts.value;
        }
        sf_sync_warp();
        sf_total<K> total = sf_fold_few<K>(few);
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                total = sf_meet<K>(total, lane, b);
        return total;
}
