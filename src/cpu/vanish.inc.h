/*
 * vanish.inc.h: what is to the left of values b and a that are steps h -> a h + b. Template, part of
 * kernels.inc.h.
 *
 * The entries to the left are combined with values one after another: b becomes a l.b + b, and a
 * becomes l.a a. If gates are below 1, a soon is so small that a l.b is less than half of b's last
 * place, for this entry and for all that follow. Then b is the result already: the sum would be
 * rounded to b. So the rest need not be computed. That saves most of the work of long rows, and
 * above all the products that are not normal numbers, each of which takes a hundred times as long as
 * others.
 *
 * The bits are the same. If every |l.a| that follows is at most 1, later |a| are not larger than the
 * next one, and if every |l.b| that follows is at most 2^15, no a l.b is larger than 2^15 times that.
 * Half of b's last place is at least 2^-25 |b| (f64: 2^-54). Between the two are three places, for
 * what the product of a and l.a is rounded and estimated. A zero b is never decided: adding +0.0
 * would change -0.0.
 */
enum {
        O(mantissa) = K_LANE_BITS == 32 ? 23 : 52,
        O(bias) = K_LANE_BITS == 32 ? 127 : 1023,
        O(far) = K_LANE_BITS == 32 ? 43 : 72, /* a product of a and l.a below 2^-this b is too small */
        O(small_entry) = 3 - O(far), /* an entry with an |a| below 2^this is worth the question */
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

/*
 * Is every b the result already, before any of the harmless entries that follow? `most` is the
 * largest sum of the bits of |a| and of the |l.a| that it is to be multiplied by. Such a sum is that
 * of a number between 8/9 of their product and the product, or more if one is subnormal, with the
 * bias added once more.
 */
SF_INLINE bool O(are_decided)(K_BITS most, const int count, const O(val) *v)
{
        const K_BITS far = O(power)(-O(far)), zero = {0};
        K_BITS less = zero;
        if (v_any(O(above)(most, far + O(power)(8))))
                return false; /* at most this, even if b is infinite */
        const K_BITS least = K_CAT(v_larger_u, K_LANE_BITS)(most, far) - far + 1;
        V_UNROLL
        for (int i = 0; i < count; i++)
                less |= O(magnitude)(v[i].b) - least;
        return !v_any(O(above)(less, zero + (K_LANE_UNSIGNED)(K_SIGN - 1)));
}
SF_INLINE bool O(is_decided)(N(vec) by, const int count, const O(val) *v)
{
        K_BITS most = O(magnitude)(v[0].a);
        V_UNROLL
        for (int i = 1; i < count; i++)
                most = K_CAT(v_larger_u, K_LANE_BITS)(most, O(magnitude)(v[i].a));
        return O(are_decided)(most + O(magnitude)(by), count, v);
}

/* The first `count` positions of a vector; those after them are decided. */
SF_INLINE O(val) O(decided_after)(O(val) v, int count, int unit, bool reverse)
{
        const N(vec) zero = {0};
        const O(val) after = {zero + 1, zero};
        const v_mask below = v_mask_below(reverse ? unit - count : count, K_LANE_BYTES);
        return reverse ? O(blend)(below, after, v) : O(blend)(below, v, after);
}

/* Is it likely? One lane of the entry is asked, which costs next to nothing. */
SF_INLINE bool O(may_vanish)(const char *entry)
{
        const K_LANE_UNSIGNED limit = (K_LANE_UNSIGNED)(O(bias) + O(small_entry)) << O(mantissa);
        K_LANE_UNSIGNED bits;
        memcpy(&bits, entry + V_BYTES, sizeof bits);
        return (bits & (K_LANE_UNSIGNED)(K_SIGN - 1)) < limit;
}

SF_INLINE v_mask O(harm_of)(O(val) l)
{
        return O(above)(O(magnitude)(l.a), O(power)(0)) | O(above)(O(magnitude)(l.b), O(power)(O(large_b)));
}
SF_INLINE bool O(are_harmless)(const char *const *entry, int64_t at, int entries)
{
        const K_BITS zero = {0};
        v_mask wrong = O(above)(zero, zero);
        for (int e = 0; e < entries; e++)
                wrong |= O(harm_of)(O(get)(entry[e] + at));
        return !v_any(wrong);
}

/* Combines all entries, at offset `at` of their addresses, on the left of `count` vectors. Only b
 * is valid afterwards. `known`: they are harmless. */
SF_INLINE void O(take_entries)(const char *const *entry, int64_t at, int entries, bool known, const int count,
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
                if (stops && O(may_vanish)(entry[e] + at) && O(is_decided)(l.a, count, v)) {
                        known = known || O(are_harmless)(entry + e + 1, at, entries - e - 1);
                        if (known)
                                return;
                        stops = false;
                }
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i].a = l.a * v[i].a;
        }
}

#if K_LANE_BITS == 32
/* Products of which some may not be normal numbers, in f64: multiples of the least number, to which
 * adding 3/2 times 2^52 of it rounds them. How many these are are the bits of the product, if that
 * is at most 2^-125. */
SF_INLINE N(vec) O(small_product)(N(vec) a, N(vec) b, K_BITS small)
{
        typedef double wide __attribute__((vector_size(2 * V_BYTES)));
        typedef int64_t places __attribute__((vector_size(2 * V_BYTES)));
        const wide all = {0};
        const wide sum = __builtin_convertvector((N(vec))((K_BITS)a & small), wide) * __builtin_convertvector((N(vec))((K_BITS)b & small), wide) + 0x1.8p-97;
        const places count = (places)sum - (places)(all + 0x1.8p-97), down = count >> 63;
        const K_BITS number = (K_BITS)__builtin_convertvector((count ^ down) - down, v_i32);
        const K_BITS sign = ((K_BITS)a ^ (K_BITS)b) & (K_LANE_UNSIGNED)K_SIGN;
        return (N(vec))((number & small) | sign | ((K_BITS)((N(vec))((K_BITS)a & ~small) * b) & ~small));
}
#endif

/* Combines an entry on the left of a total. A product that is not a normal number is avoided where
 * it changes nothing, or is known without computing it. */
SF_INLINE O(val) O(join_entry)(const char *entry, O(val) total)
{
        const O(val) l = O(get)(entry);
        const K_BITS sum = O(magnitude)(l.a) + O(magnitude)(total.a), one = O(power)(0);
        const K_BITS normal = one + O(power)(1 - O(bias));
        if (!O(may_vanish)(entry) || !v_any(O(above)(normal, sum)))
                return O(combine)(l, total);
        if (v_any(O(harm_of)(l)) || !O(are_decided)(O(magnitude)(total.a) + one, 1, &total))
                total.b = total.a * l.b + total.b;
        /* half of the least number is rounded to zero */
        if (!v_any(O(above)(sum, one + O(power)(-O(bias) - O(mantissa) - 1))))
                total.a = (N(vec))(((K_BITS)l.a ^ (K_BITS)total.a) & (K_LANE_UNSIGNED)K_SIGN);
        else
#if K_LANE_BITS == 32
                total.a = O(small_product)(l.a, total.a, (K_BITS)(sum < normal));
#else
                total.a = l.a * total.a;
#endif
        return total;
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

/* Are gates of a row so small that products of a tile are not normal numbers? Some of them are looked
 * at; zeros say nothing. The bits of a magnitude are its logarithm, nearly. */
SF_INLINE bool O(fades)(const sf_rows *j, int64_t at)
{
        enum { SOME = 16, LONG = 8192 };
        const K_LANE_UNSIGNED most = ((K_LANE_UNSIGNED)O(bias) << O(mantissa)) - ((K_LANE_UNSIGNED)(O(bias) - 4) << O(mantissa)) / (V_SCAN_TILE * K_WIDTH);
        /* all over a long row; of a shorter one in what is read first, for which memory is waited
         * for anyway */
        const int64_t tile = V_SCAN_TILE * K_WIDTH, span = j->n < LONG && j->n > tile ? tile : j->n;
        const int64_t step = span / SOME * (j->lanes->reverse ? -K_SIZE : K_SIZE);
        const char *a = j->x + at * j->x_row + j->beside;
        K_LANE_UNSIGNED sum = 0, limit = 0;
        if (j->lanes->inner > 1)
                return false;
        for (int i = 0; i < SOME; i++, a += step) {
                K_LANE_UNSIGNED bits;
                memcpy(&bits, a, sizeof bits);
                bits &= (K_LANE_UNSIGNED)(K_SIGN - 1);
                sum += bits / SOME;
                limit += bits ? most / SOME : 0;
        }
        return sum < limit;
}

/* ------------------------------------------------------------------------------------------------
 * The same for totals that are alike in all lanes, as numbers
 * ---------------------------------------------------------------------------------------------- */
typedef struct O(one) {
        K_LANE_C b, a;
} O(one);

SF_INLINE K_LANE_UNSIGNED O(size_of)(K_LANE_C v)
{
        K_LANE_UNSIGNED bits;
        memcpy(&bits, &v, sizeof bits);
        return bits & (K_LANE_UNSIGNED)(K_SIGN - 1);
}
SF_INLINE K_LANE_UNSIGNED O(size)(const int exponent)
{
        return (K_LANE_UNSIGNED)(O(bias) + exponent) << O(mantissa);
}
SF_INLINE O(one) O(one_of)(const char *value, int lane)
{
        O(one) v;
        memcpy(&v.b, value + lane * K_LANE_BYTES, sizeof v.b);
        memcpy(&v.a, value + V_BYTES + lane * K_LANE_BYTES, sizeof v.a);
        return v;
}
