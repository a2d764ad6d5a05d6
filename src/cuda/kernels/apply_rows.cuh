/*
 * apply_rows.cuh: what the kernels of chains of rows, apply.cu and apply_short.cu, do alike: results
 * of which a line has one, steps one after another. A file that includes it defines sf_do for folds
 * and maps.
 */

/* A result of which a line has one: keeps it for the steps that follow, and stores it. */
template <int K> SF_DEVICE void sf_made(sf_course &c, sf_u64 bits)
{
        enum { SIZE = SF_SIZE(sf_recipe<K>::OUT) };
        c.made[K][0] = bits;
        if (!sf_recipe<K>::WITHIN && c.mine)
                sf_store(c.y[K], sf_one_slot<SIZE>(bits));
}
/* The same of a fold whose total is known. */
template <int K>
SF_DEVICE void sf_made_of(const sf_params &p, sf_course &c, sf_total<K> total)
{
        if (sf_recipe<K>::BEGINS)
                total = sf_joined<K>(sf_lifted<K>(FIELD(K, initial)), total);
        sf_made<K>(c, sf_programs<K>::store(p, c, c.still, sf_held<K>::lower(total)));
}

/* Loads what is the same for a whole line. */
SF_DEVICE void sf_load_still(sf_course &c)
{
#pragma unroll
        for (int k = 0; k < STEPS; k++)
                c.made[k][0] = 0;
#define OPERAND(k, dt, unit, made)          \
        if (!(MOVING >> k & 1) && (made) < 0) \
                sf_load_steady(c.operand[k], *(sf_raw<SF_SIZE(dt)> *)&c.still.operand##k);
        SF_OPERAND_LIST(OPERAND)
#undef OPERAND
}

/* Moves the course to a line. */
SF_DEVICE void sf_locate_line(const sf_params &p, sf_i64 line, sf_course &c)
{
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                c.operand[k] = p.operand[k];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
                c.y[k] = FIELD(k, y);
        sf_walk_batch(p, line, c);
}

template <> struct sf_do<KIND_SMALL> {
        template <int K> SF_DEVICE_MEMBER void step(const sf_params &p, sf_course &c, sf_vectors (&)[SF_ITEMS])
        {
                sf_made<K>(c, sf_programs<K>::store(p, c, c.still, sf_programs<K>::load(p, c, c.still, 0)));
        }
};
