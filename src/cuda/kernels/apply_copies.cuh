/*
 * apply_copies.cuh: the rows of a thread's columns on their way through shared memory, for
 * apply_columns.cu and apply_group.cu. A thread reads only what it has copied itself. A file that
 * includes it has sf_copies, where that begins. c.rows: how many rows there are from the thread's
 * first on.
 */

/* Where the thread's item i of operand K is in shared memory. */
#define OPERAND(k, dt, unit, made) + (k < K && COPIED >> k & 1 ? SF_SIZE(dt) * SF_WIDTH : 0)
template <int K, int BYTES> SF_DEVICE unsigned char *sf_place(int i)
{
        enum { BEFORE = 0 SF_OPERAND_LIST(OPERAND), AT = BEFORE * SF_ITEMS * SF_THREADS };
        return sf_copies() + AT + (i * SF_THREADS + sf_thread()) * BYTES;
}
#undef OPERAND

/* Starts to copy what the first step reads to shared memory; then, waits and loads it. */
SF_DEVICE void sf_stage(const sf_params &p, const sf_course &c)
{
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const bool there = i < c.rows;
                (void)there;
#define OPERAND(k, dt, unit, made)                                                           \
        if (COPIED >> k & 1 && there)                                                        \
                sf_copy_async<(COPIED >> k & 1 ? SF_SIZE(dt) * SF_WIDTH : 4)>(sf_place<k, SF_SIZE(dt) * SF_WIDTH>(i), c.operand[k] + i * p.along[k]);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
        sf_copy_commit();
}

template <bool LOADS, int BYTES> SF_DEVICE void sf_take_copy(const unsigned char *place, sf_raw<BYTES> &r)
{
        sf_shared_load(place, *(sf_raw<(LOADS ? BYTES : 4)> *)&r);
}
SF_DEVICE void sf_unstage(sf_vectors (&v)[SF_ITEMS])
{
        sf_copy_wait<0>();
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
#define OPERAND(k, dt, unit, made) \
        if (COPIED >> k & 1)       \
                sf_take_copy<(COPIED >> k & 1) != 0>(sf_place<k, SF_SIZE(dt) * SF_WIDTH>(i), v[i].operand##k);
                SF_OPERAND_LIST(OPERAND)
#undef OPERAND
        }
}
