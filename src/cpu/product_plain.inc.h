/*
 * product_plain.inc.h: tiles of reals that are multiplied as they are. Template, part of
 * kernels.inc.h, for values that are products.
 *
 * A product of two components has the bits of plain multiplication as long as no partial product
 * leaves the range. So a tile is first multiplied plainly, and the exponents of all partial
 * products are checked once at its end. If one is out of range, the tile is computed again with two
 * components. Results are brought back into range in the same way.
 */
enum { O(mantissa_bits) = K_LANE_BITS == 32 ? 23 : 52, O(bias) = K_LANE_BITS == 32 ? 127 : 1023 };
/* How far exponents may be from zero: for a total, the range of normal numbers; for the results of
 * a scan, half of that, because they are then multiplied by what is to their left, with mantissas
 * below 2. */
enum { O(total_most) = O(bias) - 1, O(result_most) = O(bias) / 2 - 3 };

/* Grows with the distance from the lowest allowed exponent; zeros and subnormal numbers exceed the
 * highest. */
SF_INLINE K_BITS O(straying)(N(vec) v, const int most)
{
        const K_BITS zero = {0}, bits = (K_BITS)v;
        return bits + bits - ((zero + (K_LANE_UNSIGNED)(O(bias) - most)) << (O(mantissa_bits) + 1));
}
SF_INLINE K_BITS O(further)(K_BITS worst, N(vec) v, const int most)
{
        return K_CAT(v_larger_u, K_LANE_BITS)(worst, O(straying)(v, most));
}
/* Is some lane at least this large? */
SF_INLINE bool O(reaches)(K_BITS v, K_LANE_UNSIGNED limit)
{
        const K_BITS over = (K_BITS)(v >= limit);
        uint64_t word[V_BYTES / 8], any = 0;
        memcpy(word, &over, sizeof word);
        for (int i = 0; i < V_BYTES / 8; i++)
                any |= word[i];
        return any;
}
SF_INLINE bool O(strays)(K_BITS worst, const int most)
{
        return O(reaches)(worst, (K_LANE_UNSIGNED)(2 * most + 1) << (O(mantissa_bits) + 1));
}

/* The total of a fold's tile of full vectors, in every lane; valid only if nothing is out of range.
 * In reverse the pairs are the same. */
SF_INLINE O(val) O(fold_plainly)(const char *x, const uint8_t *m, const O(none) *none, int64_t step, int64_t ahead, K_BITS *worst)
{
        const K_INTEGERS exponent = {0};
        N(vec) v[SF_CPU_NARROW_TILE];
        V_UNROLL
        for (int i = 0; i < SF_CPU_NARROW_TILE; i++) {
                __builtin_prefetch(x + i * step * K_SIZE + ahead);
                v[i] = O(element)(x + i * step * K_SIZE, m ? m + i * step : NULL, none);
        }
        V_UNROLL
        for (int size = SF_CPU_NARROW_TILE * K_WIDTH / 2, level = 0; size > 0; size /= 2, level++) {
                V_UNROLL
                for (int i = 0; i < (size + K_WIDTH - 1) / K_WIDTH; i++) {
                        const N(vec) early = v[2 * i], late = v[size >= K_WIDTH ? 2 * i + 1 : 0];
                        v[i] = N(paired)(early, late, level, false) * N(paired)(early, late, level, true);
                        *worst = O(further)(*worst, v[i], O(total_most));
                }
        }
        return O(settle)((O(val)){v[0], exponent});
}

/* Scans a tile of full vectors of one sequence. False: some product is out of range, and v is
 * unchanged. */
static V_APART bool O(scan_plainly)(const sf_rows *j, const char *x, const uint8_t *m, int64_t step, O(val) *v)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(none) none = O(none_of)(j->identity, j->turn, j->beside);
        const K_INTEGERS exponent = {0};
        K_BITS worst = {0};
        N(vec) p[V_SCAN_TILE];
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++) {
                __builtin_prefetch(x + i * step * K_SIZE + j->ahead);
                p[i] = O(element)(x + i * step * K_SIZE, m ? m + i * step : NULL, &none);
        }
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++) {
                V_UNROLL
                for (int k = 0; k < K_LOG_WIDTH; k++) {
                        p[i] = N(blend)(t.level_on[k], N(permute)(p[i], t.level[k]) * p[i], p[i]);
                        worst = O(further)(worst, p[i], O(result_most));
                }
        }
        V_UNROLL
        for (int size = 1; size < V_SCAN_TILE; size *= 2) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        if (i & size) {
                                p[i] = N(permute)(p[(i & -size) - 1], t.last) * p[i];
                                worst = O(further)(worst, p[i], O(result_most));
                        }
        }
        if (O(strays)(worst, O(result_most)))
                return false;
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = (O(val)){p[i], exponent};
        return true;
}

/* The results of several vectors. If every exponent is that of a normal number, which one
 * comparison shows, one multiplication each is enough. */
SF_INLINE void O(lower_all)(const O(val) *v, const O(none) *none, const int count, N(vec) *result)
{
        K_BITS worst = {0};
        V_UNROLL
        for (int i = 0; i < count; i++)
                worst = K_CAT(v_larger_u, K_LANE_BITS)(worst, (K_BITS)v[i].exponent + (K_LANE_UNSIGNED)(O(bias) - 1));
        const bool near = !O(reaches)(worst, 2 * O(bias));
        V_UNROLL
        for (int i = 0; i < count; i++)
                result[i] = near ? O(product_lower_near)(v[i]) : O(lower)(v[i], none);
}
