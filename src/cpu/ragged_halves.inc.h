/*
 * ragged_halves.inc.h: folds of segments by halves, many at once. Template, part of ragged.inc.h.
 *
 * Every segment is cut into vectors from its own beginning; the last may have fewer elements, or
 * none. K_WIDTH vectors, whatever segments they belong to, are halved until one is left, with the
 * total of vector r in lane r. The totals of a segment are then a segment themselves, K_WIDTH times
 * shorter. When none has more than a vector, the totals are results. So no lane is idle but those
 * of last vectors, and there is nothing that depends on the length of one segment.
 */
typedef struct O(halves) {
        /* a vector has elements at[i] .. to[i] - 1 */
        int32_t at[SF_CPU_RAGGED_VECTORS], to[SF_CPU_RAGGED_VECTORS];
        int32_t bound[SF_CPU_RAGGED_CUTS + 1 + SF_CPU_RAGGED_ROOM]; /* of the totals */
        /* and room, because whole vectors are read */
        K_LANE_C total[K_PARTS][SF_CPU_RAGGED_VECTORS + SF_CPU_RAGGED_ROOM];
} O(halves);

/* Lists the vectors of all segments. Those of the totals that they become replace the bounds. */
static V_APART int64_t O(list_vectors)(O(halves) *h, const int32_t *bound, int64_t count)
{
        int32_t n = 0;
        for (int64_t i = 0; i < count; i++) {
                const int32_t end = bound[i + 1];
                int32_t at = bound[i];
                h->bound[i] = n;
                for (; end - at > K_WIDTH; at += K_WIDTH, n++) {
                        h->at[n] = at;
                        h->to[n] = at + K_WIDTH;
                }
                h->at[n] = at;
                h->to[n++] = end;
        }
        h->bound[count] = n;
        return n;
}

/* The totals of K_WIDTH vectors of elements, in lanes, without a mask. Memory behind the last element
 * of each is the call's own for a whole vector. */
static V_APART void O(halve_whole)(const sf_rows *j, const O(none) *none, const int32_t *at, const int32_t *to, O(val) *total)
{
        O(val) v[K_WIDTH];
        V_UNROLL
        for (int r = 0; r < K_WIDTH; r++) {
                const char *x = j->x + at[r] * K_SIZE;
                const int here = to[r] - at[r];
                __builtin_prefetch(x + j->ahead);
                v[r] = O(blend)(v_mask_below(here, K_LANE_BYTES), O(load)(x, NULL, none), O(neutral)(none));
        }
        O(halve_all)(v, K_WIDTH, 0);
        *total = v[0];
}

/* The same for `many` vectors, wherever they are, with or without a mask. */
static V_APART void O(halve_some)(const sf_rows *j, const O(none) *none, const int32_t *at, const int32_t *to, int many, O(val) *total)
{
        const bool reverse = j->lanes->reverse;
        const O(val) beyond = O(neutral)(none);
        O(val) v[K_WIDTH];
        V_ROLLED
        for (int r = 0; r < K_WIDTH; r++) {
                const int here = r < many ? to[r] - at[r] : 0;
                v[r] = beyond;
                if (!here)
                        continue;
                const int64_t low = reverse ? 1 - to[r] : at[r];
                const int first = reverse ? K_WIDTH - here : 0;
                v[r] = O(load_some)(j->x + low * K_SIZE, j->m ? j->m + low : NULL, none, first, here);
                v[r] = O(blend)(v_mask_below(first + here, K_LANE_BYTES), v[r], beyond);
                v[r] = O(blend)(v_mask_below(first, K_LANE_BYTES), beyond, v[r]);
        }
        O(halve_all)(v, K_WIDTH, 0);
        *total = v[0];
}

/* The same of vectors of totals. */
static V_APART void O(halve_totals)(const O(halves) *h, const O(none) *none, const int32_t *at, const int32_t *to, int many, O(val) *total)
{
        O(val) v[K_WIDTH];
        V_UNROLL
        for (int r = 0; r < K_WIDTH; r++) {
                const int from = r < many ? at[r] : 0, here = r < many ? to[r] - from : 0;
#if K_PARTS > 1
                const O(val) more = {N(get)(&h->total[0][from]), (K_SECOND_VEC)N(get)(&h->total[1][from])};
#else
                const O(val) more = N(get)(&h->total[0][from]);
#endif
                v[r] = O(blend)(v_mask_below(here, K_LANE_BYTES), more, O(neutral)(none));
        }
        O(halve_all)(v, K_WIDTH, 0);
        *total = v[0];
}

static V_APART void O(fold_halves)(const sf_rows *j, const int32_t *bound, int64_t count)
{
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        O(halves) h;
        const int32_t *now = bound; /* of elements, then of totals */
        int64_t longest = j->n;
        for (bool elements = true, last = false; !last; longest = (longest + K_WIDTH - 1) / K_WIDTH, elements = false) {
                const int32_t *at = now, *to = now + 1;
                int64_t vectors = count;
                last = longest <= K_WIDTH;
                if (!last) {
                        vectors = O(list_vectors)(&h, now, count);
                        at = h.at;
                        to = h.to;
                        now = h.bound;
                }
                for (int64_t i = 0; i < vectors; i += K_WIDTH) {
                        const int many = vectors - i < K_WIDTH ? (int)(vectors - i) : K_WIDTH;
                        O(val) v;
                        if (!elements)
                                O(halve_totals)(&h, &none, at + i, to + i, many, &v);
                        else if (many == K_WIDTH && at[i + K_WIDTH - 1] + K_WIDTH <= bound[count] && !j->lanes->reverse && !j->m)
                                O(halve_whole)(j, &none, at + i, to + i, &v);
                        else
                                O(halve_some)(j, &none, at + i, to + i, many, &v);
                        if (!last) {
#if K_PARTS > 1
                                N(put)(&h.total[0][i], v.K_FIRST);
                                N(put)(&h.total[1][i], (N(vec))v.K_SECOND);
#else
                                N(put)(&h.total[0][i], v);
#endif
                                continue;
                        }
                        v = O(blend)(O(ragged_some)(O(ragged_bounds)(bound + i + 1) - O(ragged_bounds)(bound + i)), v, none.value);
                        if (j->carry)
                                O(add_carry)(j->carry, &v, 1);
                        N(store_unit)(j->y + i * K_OUT, O(lower)(v, &none), many);
                }
        }
}
