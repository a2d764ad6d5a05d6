/*
 * apply_folds.cuh: the folds of apply.cu: of a vector, of a warp's leaf, of all leaves of a line.
 */
/* Folds each of the lane's vectors of a leaf. `first`: the lane's first element. WHOLE: all of the
 * leaf is inside the line. */
template <int K, bool WHOLE> SF_DEVICE void sf_fold_vectors(const sf_params &p, const sf_course &c, int first, sf_vectors (&v)[SF_ITEMS], sf_total<K> (&a)[SF_ITEMS])
{
        /* Only where there are no spills, as nvcc 13 reports for sm_90. */
        enum { QUICK = !(KEEPERS >> K & 1) || (!SF_RAGGED && SF_CLUSTER == 1) };
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        const sf_total<K> neutral = sf_lifted<K>(FIELD(K, neutral));
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                sf_few<sf_recipe<K>::OP, K> few;
                sf_number_of_step<K> one[SF_WIDTH];
                sf_load_either<K, QUICK>(p, c, v[i], one);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        if (sf_recipe<K>::MASK >= 0)
                                one[j] = sf_keeps<sf_recipe<K>::MASK>::at(c, v[i], j) ? one[j] : number::constant(FIELD(K, identity));
                        if (SF_RAGGED && !WHOLE)
                                one[j] = first + i * SPREAD + j < c.n ? one[j] : number::constant(FIELD(K, neutral));
                        few.set(j, one[j]);
                }
                a[i] = few.fold();
                if (!WHOLE)
                        a[i] = sf_held<K>::choose(first + i * SPREAD < c.n, a[i], neutral);
        }
}

/* Folds the warp's leaf of tile t. Only the last leaf of a line is not whole. If its vectors need
 * not be whole either (SF_RAGGED), checking every element takes registers. So whole leaves have
 * their own code without the checks, unless numbers are kept, where that code would take more
 * registers. */
template <int K> SF_DEVICE sf_total<K> sf_fold_leaf(const sf_params &p, const sf_course &c, int t, sf_vectors (&v)[SF_ITEMS])
{
        const int leaf = (t * SF_WARPS + c.warp) * LEAF;
        sf_total<K> a[SF_ITEMS];
        if (SF_RAGGED && !ALONE && !(KEEPERS >> K & 1) && leaf + LEAF <= c.n)
                sf_fold_vectors<K, true>(p, c, leaf + c.lane * SF_WIDTH, v, a);
        else
                sf_fold_vectors<K, false>(p, c, leaf + c.lane * SF_WIDTH, v, a);
        return sf_fold_lanes<K>(a, c.lane);
}

/* Folds the totals of all leaves of a line, of all its warps and tiles. */
template <int K> SF_DEVICE sf_total<K> sf_fold_leaves(const sf_params &p, const sf_course &c, const sf_total<K> *leaf)
{
        sf_total<K> few[SF_PER];
        const int leaves = SF_WARPS * c.tiles;
#pragma unroll
        for (int q = 0; q < SF_PER; q++) {
                const int number = c.lane * SF_PER + q;
                few[q] = leaf[number < leaves ? number : 0];
                few[q] = sf_held<K>::choose(number < leaves, few[q], sf_lifted<K>(FIELD(K, neutral)));
        }
        sf_total<K> total = sf_fold_few<K>(few);
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
                total = sf_meet<K>(total, c.lane, b);
        return total;
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
