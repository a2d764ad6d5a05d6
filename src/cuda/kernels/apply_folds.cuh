/*
 * apply_folds.cuh: the folds of apply.cu: of a vector, of a warp's leaf, of all leaves of a line.
 */
/* What step K folds of item i of the lane's vectors. `left`: as in sf_places. WHOLE: all of it is
 * inside the line. */
template <int K, bool WHOLE, class ASK>
SF_DEVICE void sf_numbers_of(const sf_params &p, const sf_course &c, int left, int i, sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &ask)
{
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        if (CROWDED)
                sf_take_in_turn(v);
        sf_take_numbers<K>(p, c, v, one, ask);
        if (SF_RAGGED && !WHOLE)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (i * SPREAD + j >= left)
                                one[j] = number::constant(FIELD(K, neutral));
}

/* Folds each of the lane's vectors of a leaf. */
template <int K, bool WHOLE, class ASK>
SF_DEVICE void sf_fold_vectors(const sf_params &p, const sf_course &c, int left,
        sf_vectors (&v)[SF_ITEMS], sf_total<K> (&a)[SF_ITEMS], ASK &ask)
{
        const sf_total<K> neutral = sf_lifted<K>(FIELD(K, neutral));
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_few<sf_recipe<K>::OP, K> few;
                sf_number_of_step<K> one[SF_WIDTH];
                sf_numbers_of<K, WHOLE>(p, c, left, i, v[i], one, ask);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        few.set(j, one[j]);
                a[i] = few.fold();
                if (!WHOLE)
                        a[i] = sf_held<K>::choose(sf_begins_inside(left, i), a[i], neutral);
        }
}

/* The largest or the smallest number needs no order: a thread folds all its numbers first. */
template <int K> struct sf_is_extreme {
        enum { OP = sf_recipe<K>::OP, YES = (int)OP == SF_OP_MAX || (int)OP == SF_OP_MIN };
};
template <int K> SF_DEVICE sf_total<K> sf_fold_free(sf_total<K> total, int lane)
{
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                total = sf_meet<K>(total, lane, b);
        return total;
}

/* Folds the warp's leaf of tile t. Only the last leaf of a line is not whole: the others have their
 * own code, if lines end within vectors. Each is folded in the quick way (sf_hasty), and again with
 * care if that does not do. The second time, what the step reads is loaded from
 * memory, if it may have made way for numbers that are kept: so both are not in registers at once. */
template <int K> SF_DEVICE sf_total<K> sf_fold_leaf(const sf_params &p, sf_course &c, int t, sf_vectors (&v)[SF_ITEMS])
{
        enum { KEEPS = KEEPERS >> K & 1 };
        const int left = c.n - sf_first_of(c, t);
        sf_total<K> a[SF_ITEMS];
        sf_hasty hasty = {false};
        if (SF_RAGGED && !ALONE && (t * SF_WARPS + c.warp + 1) * LEAF <= c.n)
                sf_fold_vectors<K, true>(p, c, left, v, a, hasty);
        else
                sf_fold_vectors<K, ENTIRE>(p, c, left, v, a, hasty);
        if (KEEPS)
                c.sure = !hasty.fails;
        if (hasty.fails) {
                if (KEEPS)
                        sf_fetch_again<sf_reads<K>::ALL>(p, c, t, v);
                sf_careful careful;
                sf_fold_vectors<K, ENTIRE>(p, c, left, v, a, careful);
        }
        if (sf_is_extreme<K>::YES)
                return sf_fold_free<K>(sf_fold_few<K>(a), c.lane);
        return sf_fold_lanes<K>(a, c.lane);
}

/* -------------------------------------------------------------------------------------------------
 * The blocks that share a line
 * ---------------------------------------------------------------------------------------------- */

/* Gives the total of a leaf, which all lanes have, to every block of the line. */
template <class V> SF_DEVICE void sf_hand_out(const sf_course &c, sf_u64 *desk, V *leaf, V total)
{
        if (SF_CLUSTER == 1) {
                if (c.lane == 0)
                        *leaf = total;
        } else if (c.lane < SF_CLUSTER) {
                union {
                        V value;
                        sf_u32 word[sizeof(V) / 4];
                } parts;
                parts.value = total;
#pragma unroll
                for (int w = 0; w < (int)(sizeof(V) / 4); w++)
                        sf_desk_send(desk, (sf_u32 *)leaf + w, c.lane, parts.word[w]);
        }
}
