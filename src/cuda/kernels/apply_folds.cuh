/*
 * apply_folds.cuh: the folds of apply.cu: of a vector, of a warp's leaf, of all leaves of a line.
 */
/* The numbers that step K makes of a vector. MADE: they are kept already. */
template <int K, bool MADE> struct sf_item_numbers {
        template <class ASK>
        SF_DEVICE_MEMBER void get(const sf_params &p, const sf_course &c, sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &ask)
        {
                if (CROWDED)
                        sf_take_in_turn(v);
                sf_load_numbers<K>(p, c, v, one, ask);
                sf_keep_numbers<K>(v, one);
        }
};
template <int K> struct sf_item_numbers<K, true> {
        template <class ASK>
        SF_DEVICE_MEMBER void get(const sf_params &, const sf_course &, sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &)
        {
#define OPERAND(k, dt, unit, made) \
        if ((made) == K && (unit) == 1) \
                for (int j = 0; j < SF_WIDTH; j++) \
                        one[j] = (sf_number_of_step<K>)sf_dtype<dt>::from(sf_slot<SF_SIZE(dt)>(v.operand##k, sizeof v.operand##k > SF_SIZE(dt) ? j : 0));
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
};
/* What step K folds of item i of the lane's vectors. `left`: as in sf_places. WHOLE: all of it is
 * inside the line. */
template <int K, bool WHOLE, bool MADE, class ASK>
SF_DEVICE void sf_numbers_of(const sf_params &p, const sf_course &c, int left, int i, sf_vectors &v, sf_number_of_step<K> (&one)[SF_WIDTH], ASK &ask)
{
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        sf_item_numbers<K, MADE>::get(p, c, v, one, ask);
        if (sf_recipe<K>::MASK >= 0)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        one[j] = sf_keeps<sf_recipe<K>::MASK>::at(c, v, j) ? one[j] : number::constant(FIELD(K, identity));
        if (SF_RAGGED && !WHOLE && (!SF_EARLY || sf_is_cut(left, c.n, i)))
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (SF_EARLY ? !sf_is_there(left, c.n, i, j) : i * SPREAD + j >= left)
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
                sf_numbers_of<K, WHOLE, false>(p, c, left, i, v[i], one, ask);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        few.set(j, one[j]);
                a[i] = few.fold();
                if (!WHOLE && !SF_EARLY)
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

/*
 * SF_EARLY: lanes have aligned vectors, PAST elements before those that the order folds together. Of
 * each of these, the lane has all but the last PAST elements, which the next lane has (the first
 * lane, of its next item; after the last item, the extra vector). They come as totals of as many
 * elements as the bits of PAST say, the fewest first: these are nodes of the tree, as are those of
 * the lane's own elements, the most first.
 */
template <int K, int PAST> struct sf_early {
        enum { BITS = 4, LEVELS = 6 };
        typedef sf_total<K> total;

        /* The total of COUNT elements from FROM on, of which there are a power of two. */
        SF_DEVICE_MEMBER total node(const total (&e)[SF_WIDTH], int from, int count)
        {
                total few[SF_WIDTH];
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        few[j] = e[(from + j) % SF_WIDTH];
#pragma unroll
                for (int b = 1; b < SF_WIDTH; b *= 2)
#pragma unroll
                        for (int j = 0; j + b < SF_WIDTH; j += 2 * b)
                                if (b < count && j + b < count)
                                        few[j] = sf_joined<K>(few[j], few[(j + b) % SF_WIDTH]);
                return few[0];
        }
        /* The totals of the first PAST elements. */
        SF_DEVICE_MEMBER void heads(const total (&e)[SF_WIDTH], total (&head)[BITS])
        {
#pragma unroll
                for (int k = 0; k < BITS; k++)
                        if (PAST >> k & 1)
                                head[k] = node(e, PAST & ((1 << k) - 1), 1 << k);
        }
        /* The total of a vector of the order. */
        SF_DEVICE_MEMBER total whole(const total (&e)[SF_WIDTH], const total (&head)[BITS])
        {
                enum { REST = SF_WIDTH - PAST };
                if (PAST == 0)
                        return node(e, 0, SF_WIDTH);
                total t = e[0];
                bool begun = false;
#pragma unroll
                for (int k = 0; k < BITS && 1 << k < SF_WIDTH; k++) {
                        /* own elements: those of larger nodes come before it */
                        const int from = PAST + (REST >> (k + 1) << (k + 1));
                        if (!begun && PAST >> k & 1) {
                                t = sf_joined<K>(node(e, from, 1 << k), head[k]);
                                begun = true;
                        } else if (begun) {
                                t = PAST >> k & 1 ? sf_joined<K>(t, head[k]) : sf_joined<K>(node(e, from, 1 << k), t);
                        }
                }
                return t;
        }

        /* The total of the warp's leaf. As in sf_fold_lanes, lanes exchange totals of items while they
         * have several; the last items come first, and no more totals are held than there are levels. */
        template <bool MADE, class ASK>
        SF_DEVICE_MEMBER total fold(const sf_params &p, const sf_course &c, int left, const total &extra,
                sf_vectors (&v)[SF_ITEMS], ASK &ask)
        {
                total t = extra, held[LEVELS];
                total e[SF_WIDTH], own[BITS], after[BITS], given[BITS];
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        e[j] = j < PAST ? sf_held<K>::shuffle(extra, j) : extra;
                heads(e, after);
#pragma unroll
                for (int i = SF_ITEMS - 1; i >= 0; i--) {
                        sf_number_of_step<K> one[SF_WIDTH];
                        sf_numbers_of<K, false, MADE>(p, c, left, i, v[i], one, ask);
#pragma unroll
                        for (int j = 0; j < SF_WIDTH; j++)
                                e[j] = sf_held<K>::settle(sf_held<K>::lift(one[j]));
                        heads(e, own);
#pragma unroll
                        for (int k = 0; k < BITS; k++)
                                if (PAST >> k & 1) {
                                        given[k] = sf_held<K>::shuffle(sf_one_of<K>(c.lane == 0, after[k], own[k]), (c.lane + 1) & 31);
                                        after[k] = own[k];
                                }
                        t = whole(e, given);
                        bool odd = false;
#pragma unroll
                        for (int k = 0; k < LEVELS - 1; k++) {
                                const int b = 1 << k;
                                if (b >= SF_ITEMS || odd)
                                        continue;
                                odd = i >> k & 1;
                                if (odd) {
                                        held[k] = t;
                                        continue;
                                }
                                const total hand = sf_one_of<K>(c.lane & b, t, held[k]), mine = sf_one_of<K>(c.lane & b, held[k], t);
                                t = sf_met<K>(mine, sf_held<K>::shuffle(hand, c.lane ^ b), c.lane, b);
                        }
                }
#pragma unroll
                for (int b = SF_ITEMS; b < 32; b *= 2)
                        t = sf_meet<K>(t, c.lane, b);
#pragma unroll
                for (int b = 1; b < SF_ITEMS; b *= 2)
                        t = sf_meet<K>(t, c.lane, b);
                return t;
        }
};
/* sf_early::fold for any `past`. */
template <int K, int PAST, bool MADE> struct sf_early_of {
        template <class ASK>
        SF_DEVICE_MEMBER sf_total<K> fold(int past, const sf_params &p, const sf_course &c, int left, const sf_total<K> &extra,
                sf_vectors (&v)[SF_ITEMS], ASK &ask)
        {
                if (past == PAST)
                        return sf_early<K, PAST>::template fold<MADE>(p, c, left, extra, v, ask);
                return sf_early_of<K, PAST - 1, MADE>::fold(past, p, c, left, extra, v, ask);
        }
};
template <int K, bool MADE> struct sf_early_of<K, -1, MADE> {
        template <class ASK>
        SF_DEVICE_MEMBER sf_total<K> fold(int, const sf_params &, const sf_course &, int, const sf_total<K> &extra, sf_vectors (&)[SF_ITEMS], ASK &) { return extra; }
};

/* Folds the lane's vectors of a leaf, where SF_EARLY. What is kept is computed first: so that is
 * not there once for each `past`. */
template <int K, class ASK>
SF_DEVICE sf_total<K> sf_fold_early(const sf_params &p, sf_course &c, int left, sf_vectors (&v)[SF_ITEMS], ASK &ask)
{
        enum { KEEPS = KEEPERS >> K & 1 };
        typedef sf_dtype<sf_recipe<K>::ACC> number;
        const int past = sf_past(c);
        sf_number_of_step<K> one[SF_WIDTH];
        if (KEEPS)
#pragma unroll
                for (int i = 0; i < SF_ITEMS; i++)
                        sf_item_numbers<K, false>::get(p, c, v[i], one, ask);
        sf_number_of_step<K> extra = sf_programs<K>::load(p, c, c.extra, 0, ask);
        if (KEEPS)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        one[j] = extra;
        sf_keep_numbers<K>(c.extra, one);
        if (sf_recipe<K>::MASK >= 0)
                extra = sf_keeps<sf_recipe<K>::MASK>::at(c, c.extra, 0) ? extra : number::constant(FIELD(K, identity));
        if (left + c.lane * SF_WIDTH - LEAF - c.lane % SF_WIDTH <= 0)
                extra = number::constant(FIELD(K, neutral));
        return sf_early_of<K, SF_WIDTH - 1, KEEPS != 0>::fold(past, p, c, left, sf_held<K>::settle(sf_held<K>::lift(extra)), v, ask);
}

/* Folds the lane's vectors of a leaf; where SF_EARLY, what has an order is then folded whole. */
template <int K, bool WHOLE, class ASK>
SF_DEVICE void sf_fold_own(const sf_params &p, sf_course &c, int left, sf_vectors (&v)[SF_ITEMS],
        sf_total<K> (&a)[SF_ITEMS], ASK &ask)
{
        if (SF_EARLY && !sf_is_extreme<K>::YES)
                a[0] = sf_fold_early<K>(p, c, left, v, ask);
        else
                sf_fold_vectors<K, WHOLE>(p, c, left, v, a, ask);
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
        if (SF_RAGGED && !SF_EARLY && !ALONE && (t * SF_WARPS + c.warp + 1) * LEAF <= c.n)
                sf_fold_own<K, true>(p, c, left, v, a, hasty);
        else
                sf_fold_own<K, ENTIRE>(p, c, left, v, a, hasty);
        /* SF_EARLY: lanes exchange totals, so all of them do it again. */
        const bool fails = SF_EARLY ? sf_ballot(hasty.fails) != 0 : hasty.fails;
        if (KEEPS)
                c.sure = !fails;
        if (fails) {
                if (KEEPS)
                        sf_fetch_again<sf_reads<K>::ALL>(p, c, t, v);
                if (KEEPS && SF_EARLY)
                        sf_fetch_extra<sf_reads<K>::ALL>(p, c, t, c.extra);
                sf_careful careful;
                sf_fold_own<K, ENTIRE>(p, c, left, v, a, careful);
        }
        if (SF_EARLY && !sf_is_extreme<K>::YES)
                return a[0];
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
