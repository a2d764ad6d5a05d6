/*
 * vanish.inc.h: what is to the left of a tile, for values b and a that are steps h -> a h + b.
 * Template, part of kernels.inc.h.
 *
 * The entries to the left of a tile are combined with its values one after another: b becomes
 * a l.b + b, and a becomes l.a a. If gates are below 1, a soon is so small that a l.b is less than
 * half of b's last place, for this entry and for all that follow. Then b is the result already: the
 * sum would be rounded to b. So the rest need not be computed. That saves most of the work of long
 * rows, and above all the products that are not normal numbers, each of which takes a hundred times
 * as long as others.
 *
 * The bits are the same. Once every |l.a a| is below 2^-64 (f64: 2^-100), and if every |l.a| that
 * follows is at most 1, all later |a| are too. If every |l.b| that follows is at most 2^15, a l.b
 * is below 2^-49 (2^-85). If every |b| is at least 2^-20, half of its last place is at least 2^-45
 * (2^-74).
 */
enum {
        O(mantissa) = K_LANE_BITS == 32 ? 23 : 52,
        O(bias) = K_LANE_BITS == 32 ? 127 : 1023,
        O(small_a) = K_LANE_BITS == 32 ? -64 : -100,
        O(small_b) = -20,
        O(small_entry) = -24, /* an entry with an |a| below 2^this is worth the question */
        O(large_b) = 15
};

/* The bits of a magnitude. They are in the order of the numbers, NaN being the largest. */
SF_INLINE K_BITS O(magnitude)(N(vec) v)
{
        return (K_BITS)v & (K_LANE_UNSIGNED)(K_SIGN - 1);
}
/* Those of a power of two, in every lane. */
SF_INLINE K_BITS O(power)(const int exponent)
{
        const K_BITS zero = {0};
        return zero + ((K_LANE_UNSIGNED)(O(bias) + exponent) << O(mantissa));
}
SF_INLINE v_mask O(above)(K_BITS a, K_BITS b)
{
        return K_CAT(v_above_u, K_LANE_BITS)(a, b);
}

/* Is every a times an entry's below 2^small_a? The sum of the bits of two magnitudes is that of a
 * number between 8/9 of their product and the product, with the bias added once more. */
SF_INLINE bool O(vanishes)(N(vec) by, const int count, const O(val) *v)
{
        const K_LANE_UNSIGNED quarter = (K_LANE_UNSIGNED)1 << (O(mantissa) - 2);
        const K_BITS limit = O(power)(O(small_a)) + O(power)(0) - quarter;
        K_BITS most = O(magnitude)(v[0].a);
        V_UNROLL
        for (int i = 1; i < count; i++)
                most = K_CAT(v_larger_u, K_LANE_BITS)(most, O(magnitude)(v[i].a));
        return !v_any(O(above)(most + O(magnitude)(by), limit));
}

/* Is it likely? One lane of the entry is asked, which costs next to nothing. */
SF_INLINE bool O(may_vanish)(const char *entry)
{
        const K_LANE_UNSIGNED limit = (K_LANE_UNSIGNED)(O(bias) + O(small_entry)) << O(mantissa);
        K_LANE_UNSIGNED bits;
        memcpy(&bits, entry + V_BYTES, sizeof bits);
        return (bits & (K_LANE_UNSIGNED)(K_SIGN - 1)) < limit;
}

/* Are all b large enough, and all further entries harmless? */
SF_INLINE bool O(is_decided)(const char *const *entry, int64_t at, int entries, const int count,
                             const O(val) *v)
{
        v_mask wrong = O(above)(O(power)(O(small_b)), O(magnitude)(v[0].b));
        V_UNROLL
        for (int i = 1; i < count; i++)
                wrong |= O(above)(O(power)(O(small_b)), O(magnitude)(v[i].b));
        for (int e = 0; e < entries; e++) {
                const O(val) l = O(get)(entry[e] + at);
                wrong |= O(above)(O(magnitude)(l.a), O(power)(0));
                wrong |= O(above)(O(magnitude)(l.b), O(power)(O(large_b)));
        }
        return !v_any(wrong);
}

/* Combines all entries, at offset `at` of their addresses, on the left of `count` vectors. Only b
 * is valid afterwards. */
SF_INLINE void O(take_entries)(const char *const *entry, int64_t at, int entries, const int count,
                               O(val) *v)
{
        bool stops = true;
        for (int e = 0; e < entries; e++) {
                const O(val) l = O(get)(entry[e] + at);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i].b = v[i].a * l.b + v[i].b;
                if (e == entries - 1)
                        return;
                if (stops && O(may_vanish)(entry[e] + at) && O(vanishes)(l.a, count, v)) {
                        if (O(is_decided)(entry + e + 1, at, entries - e - 1, count, v))
                                return;
                        stops = false; /* and later attempts would fail too, most likely */
                }
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i].a = l.a * v[i].a;
        }
}

/* The addresses of what is to the left of tile number `tile`, lowest level first, then of a carry's
 * entries. Returns how many. */
SF_INLINE int O(list_entries)(const char *counters, uint64_t tile, const sf_carry *carry,
                              const char **entry)
{
        int count = 0;
        for (; tile; tile &= tile - 1)
                entry[count++] = counters + __builtin_ctzll(tile) * K_ENTRY;
        for (int e = 0; carry && e < carry->count; e++)
                entry[count++] = carry->entries + e * carry->entry_stride;
        return count;
}
