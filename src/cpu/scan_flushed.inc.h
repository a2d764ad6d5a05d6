/*
 * scan_flushed.inc.h: the scan of rows whose gates are so small that products of a tile are not
 * normal numbers. Template, part of scan_pairs.inc.h.
 *
 * A product that is not a normal number takes a hundred times as long as others, except where the
 * processor is told to take it for 0. Then it may differ from the right one by at most the least
 * normal number, 2^-126 (f64: 2^-1022), and so may products of it, if no gate is above 1. Two tiles
 * are scanned like this if no result can tell. That is so if every sum a l.b + b is at least 2^-44,
 * and every l.b at most 2^45. If b is at least 2^-45, an a or a product that was taken for 0 would
 * have added at most 2^-81, which is less than half of the last place of b, 2^-70. Else a l.b is at
 * least 2^-45, and so neither it nor a was taken for 0.
 *
 * Later tiles may have gates above 1. So what a total's a is exactly must be known: that of two
 * halves of a tile, if both are normal numbers, or if even the least normal number in place of one
 * that is not would give a product that is rounded to 0.
 *
 * Two tiles of which one of these is not certain are left, with the rest of the row, to the scan
 * that takes products as they are.
 */
enum { O(least_sum) = -44, O(most_b) = 45, O(most_element) = 30 };

/* *least becomes the least magnitude of sums. */
SF_INLINE N(vec) O(nearer)(N(vec) a, N(vec) b)
{
        return K_CAT(v_nearer_, K_LANE)(a, b);
}
SF_INLINE O(val) O(combine_asked)(N(vec) *least, O(val) l, O(val) r)
{
        const O(val) sum = O(combine)(l, r);
        *least = O(nearer)(*least, sum.b);
        return sum;
}
/* lane_level */
SF_INLINE O(val) O(level_asked)(N(vec) *least, O(val) v, const N(tables) *t, int k)
{
        const O(val) sum = O(combine)(O(permute)(v, t->level[k]), v);
        *least = N(blend)(t->level_on[k], O(nearer)(*least, sum.b), *least);
        return O(blend)(t->level_on[k], sum, v);
}

#if K_LANE_BITS == 32
/* A magnitude, as a number: the processor may take it for 0. */
SF_INLINE double O(wide)(K_LANE_C v)
{
        const K_LANE_UNSIGNED bits = O(size_of)(v);
        memcpy(&v, &bits, sizeof v);
        return bits < O(size)(1 - O(bias)) ? (double)bits * 0x1p-149 : (double)v;
}
#endif

/* l times a, which are at most 1. False: it is not known. */
SF_INLINE bool O(exact_product)(K_LANE_C l, K_LANE_C a, K_LANE_C *product)
{
        const K_LANE_UNSIGNED sum = O(size_of)(l) + O(size_of)(a);
        K_LANE_UNSIGNED bits[2], count = 0;
        memcpy(&bits[0], &l, sizeof l);
        memcpy(&bits[1], &a, sizeof a);
        if (sum >= O(size)(0) + O(size)(1 - O(bias))) { /* both are normal numbers, and their product */
                *product = l * a;
                return true;
        }
        if (O(size_of)(l) && O(size_of)(a) && sum > O(size)(0) + O(size)(-O(bias) - O(mantissa) - 1)) {
#if K_LANE_BITS == 32
                /* a multiple of the least number, to which adding 3/2 times 2^52 of it rounds */
                const double rounded = O(wide)(l) * O(wide)(a) + 0x1.8p-97, zero = 0x1.8p-97;
                uint64_t places[2];
                memcpy(&places[0], &rounded, sizeof rounded);
                memcpy(&places[1], &zero, sizeof zero);
                count = (uint32_t)(places[0] - places[1]);
#else
                return false;
#endif
        }
        count |= (bits[0] ^ bits[1]) & (K_LANE_UNSIGNED)K_SIGN;
        memcpy(product, &count, sizeof count);
        return true;
}

/* The product of two halves, in which 0 stands for what may be as large as the least normal
 * number. */
SF_INLINE bool O(product_of_halves)(K_LANE_C l, K_LANE_C a, K_LANE_C *product)
{
        const K_LANE_UNSIGNED least = O(size)(1 - O(bias)), m = O(size_of)(l), n = O(size_of)(a);
        const K_LANE_UNSIGNED sum = (m < least ? least : m) + (n < least ? least : n);
        if ((m < least || n < least) && sum > O(size)(0) + O(size)(-O(bias) - O(mantissa) - 1))
                return false;
        return O(exact_product)(l, a, product);
}

/* Combines on the left of tile number `tile` what is there, as in take_left; `a` is the tile's
 * product. */
SF_INLINE bool O(flushed_left)(const sf_rows *j, char *counters, uint64_t tile, const sf_carry *carry, K_LANE_C a, N(vec) *least, O(val) *v)
{
        const int lane = j->lanes->reverse ? 0 : K_WIDTH - 1, closed = sf_order_closed(tile);
        const char *entry[2 * SF_ORDER_LEVELS];
        const int entries = O(list_entries)(counters, tile, carry, entry);
        const K_BITS zero = {0};
        K_LANE_UNSIGNED bits[2];
        K_LANE_C b = 0;
        bool left = true; /* is there more to come, which a result could tell? */
        int e = 0;
        for (; left && e < entries; e++) {
                const O(val) l = O(get)(entry[e]);
                if (e == closed)
                        b = O(one_of)((const char *)&v[V_SCAN_TILE - 1], lane).b;
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(combine_asked)(least, l, v[i]);
                left = O(size_of)(O(one_of)(entry[e], 0).a) >= O(size)(O(least_sum) - O(most_b) - O(mantissa) - 4);
        }
        if (e <= closed)
                b = O(one_of)((const char *)&v[V_SCAN_TILE - 1], lane).b;
        for (int k = 0; k < closed; k++)
                if (!O(exact_product)(O(one_of)(counters + k * K_ENTRY, 0).a, a, &a))
                        return false;
        /* as bits: to add a to 0.0 would make it 0 */
        memcpy(&bits[0], &b, sizeof b);
        memcpy(&bits[1], &a, sizeof a);
        O(put)(counters + closed * K_ENTRY, (O(val)){(N(vec))(zero + bits[0]), (N(vec))(zero + bits[1])});
        return O(size_of)(b) <= O(size)(O(most_b));
}

/* Scans two tiles. False: not certain. */
SF_INLINE bool O(flushed_pair)(const sf_rows *j, const N(tables) *t, char *counters, uint64_t tile, const sf_carry *carry, O(val) (*v)[V_SCAN_TILE])
{
        const int lane = j->lanes->reverse ? 0 : K_WIDTH - 1;
        const K_BITS zero = {0};
        N(vec) least[2] = {(N(vec))O(power)(0), (N(vec))O(power)(0)};
        v_mask wrong = O(above)(zero, zero);
        K_LANE_C a[2];
        V_UNROLL
        for (int i = 0; i < 2 * V_SCAN_TILE; i++) {
                const O(val) *one = &v[i / V_SCAN_TILE][i % V_SCAN_TILE];
                wrong |= O(above)(O(magnitude)(one->b), O(power)(O(most_element))) | O(above)(O(magnitude)(one->a), O(power)(0));
        }
        V_UNROLL
        for (int k = 0; k < K_LOG_WIDTH; k++) {
                V_UNROLL
                for (int i = 0; i < 2 * V_SCAN_TILE; i++) {
                        O(val) *one = &v[i / V_SCAN_TILE][i % V_SCAN_TILE];
                        *one = O(level_asked)(&least[i & 1], *one, t, k);
                }
        }
        V_UNROLL
        for (int h = 0; h < 2; h++) {
                V_UNROLL
                for (int size = 1; size < V_SCAN_TILE; size *= 2) {
                        if (2 * size == V_SCAN_TILE && !O(product_of_halves)(O(one_of)((const char *)&v[h][size - 1], lane).a, O(one_of)((const char *)&v[h][V_SCAN_TILE - 1], lane).a, &a[h]))
                                return false;
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                if (i & size)
                                        v[h][i] = O(combine_asked)(&least[h], O(last)(v[h][(i & -size) - 1], t), v[h][i]);
                }
        }
        for (int h = 0; h < 2; h++)
                if (!O(flushed_left)(j, counters, tile + (unsigned)h, carry, a[h], &least[h], v[h]))
                        return false;
        wrong |= O(above)(O(power)(O(least_sum)), O(magnitude)(O(nearer)(least[0], least[1])));
        return !v_any(wrong);
}

/* Scans `todo` elements of a row as far as that is certain. Returns how many elements that is. */
static V_APART int64_t O(flushed_tiles)(const sf_rows *job, int64_t at, O(place) p, int64_t todo, O(results) *results)
{
        enum { PAIR = 2 * V_SCAN_TILE };
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(none) none = O(none_of)(j.identity, j.turn, j.beside);
        const sf_carry *carry = j.carry ? j.carry + at * j.carry_row : NULL;
        O(results) to = *results;
        int64_t done = 0;
        for (; done < todo; p.tile += 2) {
                const int64_t left = todo - done;
                const bool full = left >= PAIR * K_WIDTH;
                O(val) v[2][V_SCAN_TILE];
                N(vec) result[PAIR], before = to.before;
                V_UNROLL
                for (int i = 0; i < PAIR; i++) {
                        __builtin_prefetch(p.x + i * p.step * K_SIZE + j.ahead);
                        if (full)
                                v[i / V_SCAN_TILE][i % V_SCAN_TILE] = O(load)(p.x + i * p.step * K_SIZE, p.m ? p.m + i * p.step : NULL, &none);
                        else
                                v[i / V_SCAN_TILE][i % V_SCAN_TILE] = O(load_end)(&p, &none, i, left);
                }
                if (!O(flushed_pair)(&j, &t, p.counters, p.tile, carry, v))
                        break;
                V_UNROLL
                for (int i = 0; i < PAIR; i++) {
                        result[i] = O(lower)(v[i / V_SCAN_TILE][i % V_SCAN_TILE], &none);
                        if (j.exclusive)
                                result[i] = N(shift)(&t, &before, result[i]);
                }
                to.before = before;
                if (full) {
                        N(write_now)(&to.writer, p.y, result, PAIR);
                } else {
                        N(write_end)(&to.writer, p.y);
                        to.writer.stream = false; /* nothing is held any more */
                        O(store_end)(&p, result, left);
                }
                done += full ? PAIR * K_WIDTH : left;
                p = O(place_on)(&j, p, PAIR * K_WIDTH);
        }
        *results = to;
        return done;
}

/* May a row be scanned like this, what is to its left being what it is? */
SF_INLINE bool O(may_flush)(const sf_rows *j, const char *counters, uint64_t tile, const sf_carry *carry)
{
        const char *entry[2 * SF_ORDER_LEVELS];
        const int entries = O(list_entries)(counters, tile, carry, entry);
        for (int e = 0; e < entries; e++) {
                const O(one) l = O(one_of)(entry[e], 0);
                if (O(size_of)(l.a) > O(size)(0) || O(size_of)(l.b) > O(size)(O(most_b)))
                        return false;
        }
        return j->lanes->inner == 1;
}

static V_APART int64_t O(scan_flushed)(const sf_rows *j, int64_t at, const O(place) *p, int64_t todo, O(results) *to)
{
        if (!O(may_flush)(j, p->counters, p->tile, j->carry ? j->carry + at * j->carry_row : NULL))
                return 0;
        const unsigned before = v_flush();
        const int64_t done = O(flushed_tiles)(j, at, *p, todo, to);
        v_unflush(before);
        return done;
}
