/*
 * product.inc.h: sums of products: whole tiles of x times w, rows and columns, as fold.inc.h folds x alone. Template; kernels.inc.h has the
 * parameters; for reals that are lanes as they are.
 *
 * Nothing goes through memory between the product and the sum, so that it runs at the speed of reading. Each product is rounded before it is
 * added. The totals are left in the counters, as by a fold that will be resumed; fold_rows and fold_columns come to the
 * end of it, with what does not fill a tile or with nothing at all.
 */

/* K_WIDTH vectors of products to one vector of the totals of K_WIDTH consecutive ones each: fold_tile's. */
SF_INLINE N(vec) N(product_tile)(const char *x, const char *w, int64_t x_ahead, int64_t w_ahead)
{
        N(vec) half[K_LOG_WIDTH + 1];
        V_UNROLL
        for (int i = 0; i < K_WIDTH; i++) {
                __builtin_prefetch(x + i * V_BYTES + x_ahead);
                __builtin_prefetch(w + i * V_BYTES + w_ahead);
                N(vec) v = N(load)(x + i * V_BYTES) * N(load)(w + i * V_BYTES);
                V_UNROLL
                for (int k = 0; k < K_LOG_WIDTH; k++)
                        if ((i >> k & 1) && (i & ((1 << k) - 1)) == (1 << k) - 1)
                                v = N(halve)(SF_SUM, half[k], v, false);
                half[sf_order_closed((uint64_t)i)] = v;
        }
        return half[K_LOG_WIDTH];
}

static void N(fold_rows_products)(const sf_products *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const char *x = j->x, *w = j->w;
        uint64_t tile = (uint64_t)(j->start / (K_WIDTH * K_WIDTH));
        for (int64_t done = 0; done < j->n; done += K_WIDTH * K_WIDTH, tile++, x += K_WIDTH * V_BYTES, w += K_WIDTH * V_BYTES) {
                const int closed = sf_order_closed(tile);
                N(vec) v[SF_CPU_GROUP];
                for (int64_t r = 0; r < j->many; r++)
                        v[r] = N(product_tile)(x + r * j->x_step, w + r * j->w_step, j->x_ahead, j->w_ahead);
                for (int64_t r = 0; r < j->many; r++) {
                        char *counter = j->counters + r * SF_ORDER_LEVELS * V_BYTES;
                        N(vec) total = N(permute)(N(lane_scan)(SF_SUM, v[r], &t, K_LOG_WIDTH), t.last);
                        for (int k = 0; k < closed; k++)
                                total = N(combine)(SF_SUM, N(get)(counter + k * V_BYTES), total);
                        N(put)(counter + closed * V_BYTES, total);
                }
        }
}

/* A vector of products, of which `count` are there. */
SF_INLINE N(vec) N(product_part)(const char *x, const char *w, const bool spread, N(vec) factor, int count)
{
        if (count >= K_WIDTH)
                return N(load)(x) * (spread ? factor : N(load)(w));
        const N(vec) none = {0};
        return N(load_masked_part)(x, NULL, none, 0, count) * (spread ? factor : N(load_masked_part)(w, NULL, none, 0, count));
}

SF_INLINE void N(fold_columns_products_as)(const sf_products *j, const bool spread)
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
                                v[i] = N(product_part)(at, w + i * j->w_step + c * K_SIZE, spread, factor[i], count);
                        }
                        V_UNROLL
                        for (int size = 1; size < V_FOLD_ROWS; size *= 2) {
                                V_UNROLL
                                for (int i = 0; i < V_FOLD_ROWS; i += 2 * size)
                                        v[i] = N(combine)(SF_SUM, v[i], v[i + size]);
                        }
                        for (int k = 0; k < closed; k++)
                                v[0] = N(combine)(SF_SUM, N(get)(j->counters + k * j->counter_stride + c * K_LANE_BYTES), v[0]);
                        N(put)(j->counters + closed * j->counter_stride + c * K_LANE_BYTES, v[0]);
                }
        }
}

static void N(fold_columns_products)(const sf_products *j)
{
        if (j->spread)
                N(fold_columns_products_as)(j, true);
        else
                N(fold_columns_products_as)(j, false);
}
