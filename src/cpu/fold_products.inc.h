/*
 * fold_products.inc.h: folds of products: whole tiles of x times w, rows and columns, as fold.inc.h folds x alone. Template; kernels.inc.h has the
 * parameters. Included where K_PRODUCTS is defined: for reals that are lanes as they are, and an operation that is folded by halves.
 *
 * Nothing goes through memory between the product and the fold, so that it runs at the speed of reading. Each product is rounded before it is
 * combined. The totals are left in the counters, as by a fold that will be resumed; fold_rows and fold_columns come to the
 * end of it, with what does not fill a tile or with nothing at all.
 */

/* SF_CPU_TILE_VECTORS vectors of products to one vector of the totals of as many consecutive ones in each lane: fold_tile's. */
SF_INLINE N(vec) O(product_tile)(const char *x, const char *w, int64_t x_ahead, int64_t w_ahead)
{
        enum { LEVELS = 4 }; /* log2(SF_CPU_TILE_VECTORS) */
        _Static_assert(1 << LEVELS == SF_CPU_TILE_VECTORS, "a level for each halving");
        N(vec) half[LEVELS + 1];
        V_UNROLL
        for (int i = 0; i < SF_CPU_TILE_VECTORS; i++) {
                __builtin_prefetch(x + i * V_BYTES + x_ahead);
                __builtin_prefetch(w + i * V_BYTES + w_ahead);
                N(vec) v = N(load)(x + i * V_BYTES) * N(load)(w + i * V_BYTES);
                V_UNROLL
                for (int k = 0; k < LEVELS; k++)
                        if ((i >> k & 1) && (i & ((1 << k) - 1)) == (1 << k) - 1)
                                v = O(halve)(half[k], v);
                half[sf_order_closed((uint64_t)i)] = v;
        }
        return half[LEVELS];
}

static void O(fold_rows_products)(const sf_products *j)
{
        enum { SIZE = SF_CPU_TILE_VECTORS * K_WIDTH };
        const N(tables) t = N(tables_of)(j->lanes);
        const char *x = j->x, *w = j->w;
        uint64_t tile = (uint64_t)(j->start / SIZE);
        for (int64_t done = 0; done < j->n; done += SIZE, tile++, x += SIZE * K_SIZE, w += SIZE * K_SIZE) {
                const int closed = sf_order_closed(tile);
                N(vec) v[SF_CPU_GROUP];
                for (int64_t r = 0; r < j->many; r++)
                        v[r] = O(product_tile)(x + r * j->x_step, w + r * j->w_step, j->x_ahead, j->w_ahead);
                for (int64_t r = 0; r < j->many; r++) {
                        char *counter = j->counters + r * SF_ORDER_LEVELS * V_BYTES;
                        N(vec) total = N(permute)(O(lane_scan)(v[r], &t, K_LOG_WIDTH), t.last);
                        for (int k = 0; k < closed; k++)
                                total = O(combine)(N(get)(counter + k * V_BYTES), total);
                        N(put)(counter + closed * V_BYTES, total);
                }
        }
}

/* A vector of products, of which `count` are there. */
SF_INLINE N(vec) O(product_part)(const char *x, const char *w, const bool spread, N(vec) factor, int count)
{
        if (count >= K_WIDTH)
                return N(load)(x) * (spread ? factor : N(load)(w));
        return N(load_part)(x, 0, count) * (spread ? factor : N(load_part)(w, 0, count));
}

SF_INLINE void O(fold_columns_products_as)(const sf_products *j, const bool spread)
{
        const char *x = j->x, *w = j->w;
        uint64_t tile = (uint64_t)(j->start / V_FOLD_ROWS);
        for (int64_t done = 0; done < j->n; done += V_FOLD_ROWS, tile++, x += V_FOLD_ROWS * j->x_step, w += V_FOLD_ROWS * j->w_step) {
                const int closed = sf_order_closed(tile);
                N(vec) factor[V_FOLD_ROWS];
                V_UNROLL
                for (int i = 0; i < V_FOLD_ROWS; i++) {
                        sf_value one;
                        memcpy(&one.K_VALUE, w + i * j->w_step, K_SIZE); /* where it is not spread, its first column */
                        factor[i] = N(broadcast)(one);
                }
                for (int64_t c = 0; c < j->many; c += K_WIDTH) {
                        const int count = j->many - c < K_WIDTH ? (int)(j->many - c) : K_WIDTH;
                        N(vec) v[V_FOLD_ROWS];
                        V_UNROLL
                        for (int i = 0; i < V_FOLD_ROWS; i++) {
                                const char *at = x + i * j->x_step + c * K_SIZE;
                                __builtin_prefetch(at + j->x_ahead);
                                v[i] = O(product_part)(at, w + i * j->w_step + c * K_SIZE, spread, factor[i], count);
                        }
                        V_UNROLL
                        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                                V_UNROLL
                                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                                        v[i] = O(combine)(v[i], v[i + size]);
                        }
                        for (int k = 0; k < closed; k++)
                                v[0] = O(combine)(N(get)(j->counters + k * j->counter_stride + c * K_LANE_BYTES), v[0]);
                        N(put)(j->counters + closed * j->counter_stride + c * K_LANE_BYTES, v[0]);
                }
        }
}

static void O(fold_columns_products)(const sf_products *j)
{
        if (j->spread)
                O(fold_columns_products_as)(j, true);
        else
                O(fold_columns_products_as)(j, false);
}
