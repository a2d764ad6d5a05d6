/*
 * scan.inc.h: the scan of rows and of packed short rows, once for all instruction sets and types. Template; kernels.inc.h has the
 * parameters. The order is docs/order.md's; order.h says how a walker keeps it with a counter.
 */

/* ------------------------------------------------------------------------------------------------------------
 * Rows
 *
 * `many` rows side by side, tiles of V_SCAN_TILE vectors. Inside a tile: lanes, then vectors. Between tiles: the counter, an
 * entry a level, each entry a vector with the block's total in every lane, so that adding it is one instruction.
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct N(row) {
        const sf_carry *carry;
        N(vec) before; /* exclusive: the value to the left of the next vector is in its last position, and without V_PERMUTE_TWO in every one */
        N(writer) writer;
} N(row);

/* Adds an entry of every row's counter to the left of all its vectors. */
SF_INLINE void N(add_entry)(const sf_op op, const char *counters, const int many, N(vec) (*v)[V_SCAN_TILE], int64_t level)
{
        const char *first = counters + level * V_BYTES; /* the others' are constants away */
        V_UNROLL
        for (int r = 0; r < many; r++) {
                N(vec) entry = N(get)(first + r * SF_ORDER_LEVELS * V_BYTES);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = N(combine)(op, entry, v[r][i]);
        }
}

/* What stands to the left of the whole piece. */
SF_INLINE void N(add_carry)(const sf_op op, const sf_carry *carry, N(vec) *v, const int count)
{
        for (int e = 0; e < carry->count; e++) {
                N(vec) entry = N(get)(carry->entries + e * carry->entry_stride);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = N(combine)(op, entry, v[i]);
        }
}

/* An inclusive result becomes the exclusive one: each lane takes its left neighbour's. */
SF_INLINE N(vec) N(shift)(const N(tables) *t, N(row) *row, N(vec) v)
{
#ifdef V_PERMUTE_TWO
        N(vec) shifted = N(permute_two)(v, row->before, t->before);
        row->before = v;
#else
        N(vec) shifted = N(blend)(t->before_on, N(permute)(v, t->before), row->before);
        row->before = N(permute)(v, t->last);
#endif
        return shifted;
}

/* Where a group of rows stands. */
typedef struct N(place) {
        const char *x;
        char *y;
        const uint8_t *m;
        char *counters;
        uint64_t tile;
        int64_t step; /* elements from one vector to the next: down in reverse */
} N(place);

/* The scan of vectors on end, lanes of each done: what is last in one is to the left of those behind. */
SF_INLINE void N(scan_vectors)(const sf_op op, const N(tables) *t, const int count, N(vec) *v)
{
        V_UNROLL
        for (int size = 1; size < count; size *= 2) {
                V_UNROLL
                for (int i = 0; i < count; i++)
                        if (i & size)
                                v[i] = N(combine)(op, N(permute)(v[(i & -size) - 1], t->last), v[i]);
        }
}

/* The scan of a tile of one row: lanes, then vectors. */
SF_INLINE void N(scan_tile)(const sf_op op, const N(tables) *t, int levels, N(vec) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = N(lane_scan)(op, v[i], t, levels);
        N(scan_vectors)(op, t, V_SCAN_TILE, v);
}

/* Everything to the left of tile number `tile` is added, lowest level first, and the block that it closes is counted. */
SF_INLINE void N(count_tile)(const sf_op op, const N(tables) *t, char *counters, uint64_t tile, const int many, N(vec) (*v)[V_SCAN_TILE])
{
        const int64_t closed = sf_order_closed(tile);
        char *close = counters + closed * V_BYTES;
        for (int64_t k = 0; k < closed; k++)
                N(add_entry)(op, counters, many, v, k);
        V_UNROLL
        for (int r = 0; r < many; r++)
                N(put)(close + r * SF_ORDER_LEVELS * V_BYTES, N(permute)(v[r][V_SCAN_TILE - 1], t->last));
        for (uint64_t bits = tile >> closed << closed; bits; bits &= bits - 1)
                N(add_entry)(op, counters, many, v, __builtin_ctzll(bits));
}

SF_INLINE N(place) N(place_of)(const sf_rows *j, int unit, int64_t at)
{
        const int inner = j->lanes->inner;
        /* A vector's address is that of its lowest lane, which in reverse is its last position. */
        const int64_t offset = j->lanes->reverse ? -(int64_t)(unit - inner) : 0;
        return (N(place)){.x = j->x + at * j->x_row + offset * K_SIZE,
                          .y = j->y + at * j->y_row + offset * (j->raw ? K_LANE_BYTES : K_SIZE),
                          .m = j->m ? j->m + at * j->m_row + offset : NULL,
                          /* A call that resumes or will be resumed has few rows, each with a counter of its own. */
                          .counters = j->counters + (j->resume || j->start ? at * SF_ORDER_LEVELS * V_BYTES : 0),
                          .tile = j->start ? (uint64_t)(j->start * inner / (V_SCAN_TILE * unit)) : 0,
                          .step = j->lanes->reverse ? -unit : unit};
}

/* A tile of one row, vectors `step` elements apart. */
SF_INLINE void N(load_tile)(const char *x, const uint8_t *m, int64_t step, int64_t ahead, int unit, N(vec) identity, N(vec) *v)
{
        if (m) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++, x += step * K_SIZE, m += step) {
                        __builtin_prefetch(x + ahead);
                        v[i] = N(load_unit)(x, m, identity, unit);
                }
        } else {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++, x += step * K_SIZE) {
                        __builtin_prefetch(x + ahead);
                        v[i] = N(load_unit)(x, NULL, identity, unit);
                }
        }
}

SF_INLINE void N(store_tile)(char *y, int64_t step, int unit, const N(vec) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++, y += step * K_SIZE)
                N(store_unit)(y, v[i], unit);
}

/*
 * Results that are streamed wait for the next tile, and go out between its rows. A tile takes longer to compute than a core looks ahead:
 * written at its end, all lines would be sent at once, and then none while the next ones are computed. Where a vector of results is less than a
 * line, putting them by costs more than it gains.
 */
enum { N(holds) = K_CONVERT == K_SAME && V_BYTES == 64 };
typedef struct N(held) {
        char *y; /* where they go; NULL: there are none */
        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
} N(held);

/*
 * What nearly every call is: whole vectors, inclusive, nothing to the left but the counter, results that are stored as they are or
 * streamed to aligned addresses. Apart from the general group below because what that has to keep in registers costs this one a
 * third of its speed.
 */
SF_INLINE void N(plain_tile)(const sf_rows *j, const sf_op op, const N(tables) *t, const int many, N(place) *p, N(held) *held, N(vec) identity,
                             int64_t ahead)
{
        const bool raw = K_CONVERT != K_SAME && j->raw, hold = N(holds) && j->stream;
        const int64_t y_step = p->step * (raw ? K_LANE_BYTES : K_SIZE);
        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
        V_UNROLL
        for (int r = 0; r < many; r++) {
                N(load_tile)(p->x + r * j->x_row, p->m ? p->m + r * j->m_row : NULL, p->step, ahead, K_WIDTH, identity, v[r]);
                N(scan_tile)(op, t, K_LOG_WIDTH, v[r]);
                if (N(holds) && held->y)
                        N(stream_run)(held->y + r * j->y_row, held->v[r], V_SCAN_TILE, p->step < 0);
        }
        N(count_tile)(op, t, p->counters, p->tile, many, v);
        V_UNROLL
        for (int r = 0; r < many; r++) {
                char *y = p->y + r * j->y_row;
                if (raw) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                N(put)(y + i * y_step, v[r][i]);
                } else if (hold) {
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                held->v[r][i] = v[r][i];
                } else if (j->stream) {
                        N(stream_run)(y, v[r], V_SCAN_TILE, p->step < 0);
                } else {
                        N(store_tile)(y, p->step, K_WIDTH, v[r]);
                }
        }
        held->y = hold ? p->y : NULL;
        p->tile++;
        p->x += V_SCAN_TILE * p->step * K_SIZE;
        p->y += V_SCAN_TILE * y_step;
        p->m = p->m ? p->m + V_SCAN_TILE * p->step : NULL;
}

/* The last, of `left` elements: to the right of them anything may stand. */
SF_INLINE void N(scan_over)(const sf_rows *j, const sf_op op, const N(tables) *t, const int levels, N(row) *row, const N(place) *p, int64_t left,
                            N(vec) identity)
{
        const bool reverse = p->step < 0;
        const int unit = levels ? K_WIDTH : j->lanes->unit;
        N(vec) v[V_SCAN_TILE];
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++) {
                int64_t rest = left - i * unit;
                int count = rest < unit ? (int)rest : unit, first = reverse ? unit - count : 0;
                const int64_t at = i * p->step + first;
                v[i] = identity;
                if (count == K_WIDTH)
                        v[i] = N(load_masked)(p->x + at * K_SIZE, p->m ? p->m + at : NULL, identity);
                else if (count > 0)
                        v[i] = N(load_masked_part)(p->x + at * K_SIZE, p->m ? p->m + at : NULL, identity, first, count);
        }
        N(scan_tile)(op, t, levels ? levels : t->levels, v);
        for (uint64_t bits = p->tile; bits; bits &= bits - 1) {
                N(vec) entry = N(get)(p->counters + __builtin_ctzll(bits) * V_BYTES);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = N(combine)(op, entry, v[i]);
        }
        if (row && row->carry)
                N(add_carry)(op, row->carry, v, V_SCAN_TILE);
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++) {
                int64_t rest = left - i * unit;
                int count = rest < unit ? (int)rest : unit, first = reverse ? unit - count : 0;
                char *y = p->y + (i * p->step + first) * K_SIZE;
                if (j->exclusive)
                        v[i] = N(shift)(t, row, v[i]);
                if (count == K_WIDTH)
                        N(store)(y, v[i]);
                else if (count > 0)
                        N(store_part)(y, v[i], first, count);
        }
}

/* The same for every row of a group that has come to its end. */
SF_INLINE void N(scan_ends)(const sf_rows *j, const sf_op op, const int levels, int many, N(row) *row, N(place) p, int64_t left)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        for (int r = 0; r < many; r++) {
                N(scan_over)(j, op, &t, levels, row ? &row[r] : NULL, &p, left, identity);
                p.x += j->x_row;
                p.y += j->y_row;
                p.m = p.m ? p.m + j->m_row : NULL;
                p.counters += SF_ORDER_LEVELS * V_BYTES;
        }
}
static V_APART void N(sum_ends)(const sf_rows *j, int many, N(row) *row, const N(place) *p, int64_t left)
{
        N(scan_ends)(j, SF_SUM, K_LOG_WIDTH, many, row, *p, left);
}
static V_APART void N(prod_ends)(const sf_rows *j, int many, N(row) *row, const N(place) *p, int64_t left)
{
        N(scan_ends)(j, SF_PROD, K_LOG_WIDTH, many, row, *p, left);
}

/* The whole tiles of rows [at, at + groups * many). What is over is somebody else's: a call in here, and the tables would not stay in
 * registers. */
SF_INLINE void N(plain_as)(const sf_rows *job, const sf_op op, const int many, int64_t at, int64_t groups)
{
        const sf_rows j = *job; /* a copy that no store can change */
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        const int64_t elements = j.n * j.lanes->inner, tiles = elements / (V_SCAN_TILE * K_WIDTH);
        /* What would be fetched from beyond the end of a long row is fetched from the beginning of the next group's. */
        const int64_t turn = (j.ahead < 0 ? -j.ahead : j.ahead) / (V_SCAN_TILE * K_WIDTH * K_SIZE);
        const bool turns = turn < tiles && !j.resume;
        const int64_t beyond = j.ahead + (turns ? many * j.x_row - (j.lanes->reverse ? -elements : elements) * K_SIZE : 0);
        N(held) held = {.y = NULL};
        for (; groups > 0; groups--, at += many) {
                N(place) p = N(place_of)(&j, K_WIDTH, at);
                for (int64_t left = tiles; left > 0; left--)
                        N(plain_tile)(&j, op, &t, many, &p, &held, identity, left > turn ? j.ahead : beyond);
        }
        for (int r = 0; held.y && r < many; r++)
                N(stream_run)(held.y + r * j.y_row, held.v[r], V_SCAN_TILE, j.lanes->reverse);
}

/* Each a function with all registers to itself. */
static V_APART void N(sum_plain)(const sf_rows *j, int64_t at, int64_t groups)
{
        N(plain_as)(j, SF_SUM, SF_CPU_GROUP, at, groups);
}
static V_APART void N(sum_plain_one)(const sf_rows *j, int64_t at, int64_t groups)
{
        N(plain_as)(j, SF_SUM, 1, at, groups);
}
static V_APART void N(prod_plain)(const sf_rows *j, int64_t at, int64_t groups)
{
        N(plain_as)(j, SF_PROD, SF_CPU_GROUP, at, groups);
}
static V_APART void N(prod_plain_one)(const sf_rows *j, int64_t at, int64_t groups)
{
        N(plain_as)(j, SF_PROD, 1, at, groups);
}

SF_INLINE void N(plain_rows)(const sf_rows *j, const sf_op op)
{
        const int64_t elements = j->n * j->lanes->inner, tiles = elements / (V_SCAN_TILE * K_WIDTH), over = elements % (V_SCAN_TILE * K_WIDTH);
        for (int64_t at = 0; at < j->rows;) {
                const int many = j->rows - at < SF_CPU_GROUP ? 1 : SF_CPU_GROUP;
                const int64_t groups = over ? 1 : (j->rows - at) / many; /* ends use the counters, which the next group uses too */
                if (op == SF_SUM)
                        (many == 1 ? N(sum_plain_one) : N(sum_plain))(j, at, groups);
                else
                        (many == 1 ? N(prod_plain_one) : N(prod_plain))(j, at, groups);
                if (over) {
                        N(place) p = N(place_of)(j, K_WIDTH, at);
                        const int64_t on = tiles * V_SCAN_TILE * p.step;
                        p.tile += (uint64_t)tiles;
                        p.x += on * K_SIZE;
                        p.y += on * (j->raw ? K_LANE_BYTES : K_SIZE);
                        p.m = p.m ? p.m + on : NULL;
                        (op == SF_SUM ? N(sum_ends) : N(prod_ends))(j, many, NULL, &p, over);
                }
                at += groups * many;
        }
}

/* Rows of `count` vectors, the last perhaps not full: no counter, and no tile that is mostly empty. */
SF_INLINE void N(sum_short_as)(const sf_rows *job, const int count)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        const int part = (int)(j.n - (count - 1) * K_WIDTH), first = j.lanes->reverse ? K_WIDTH - part : 0;
        const int64_t step = j.lanes->reverse ? -K_WIDTH : K_WIDTH, last = (count - 1) * step + first;
        for (int64_t r = 0; r < j.rows; r++) {
                const N(place) p = N(place_of)(&j, K_WIDTH, r);
                N(vec) v[V_SCAN_TILE];
                __builtin_prefetch(p.x + j.ahead);
                V_UNROLL
                for (int i = 0; i < count - 1; i++)
                        v[i] = N(load_masked)(p.x + i * step * K_SIZE, p.m ? p.m + i * step : NULL, identity);
                if (part == K_WIDTH)
                        v[count - 1] = N(load_masked)(p.x + last * K_SIZE, p.m ? p.m + last : NULL, identity);
                else
                        v[count - 1] = N(load_masked_part)(p.x + last * K_SIZE, p.m ? p.m + last : NULL, identity, first, part);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = N(lane_scan)(SF_SUM, v[i], &t, K_LOG_WIDTH);
                N(scan_vectors)(SF_SUM, &t, count, v);
                V_UNROLL
                for (int i = 0; i < count - 1; i++)
                        N(store)(p.y + i * step * K_SIZE, v[i]);
                if (part == K_WIDTH)
                        N(store)(p.y + last * K_SIZE, v[count - 1]);
                else
                        N(store_part)(p.y + last * K_SIZE, v[count - 1], first, part);
        }
}
static V_APART void N(sum_short)(const sf_rows *j, int64_t vectors)
{
        if (vectors == 1)
                N(sum_short_as)(j, 1);
        else if (vectors == 2)
                N(sum_short_as)(j, 2);
#if V_SCAN_TILE > 2
        else if (vectors == 3)
                N(sum_short_as)(j, 3);
        else
                N(sum_short_as)(j, 4);
#endif
}

/* levels 0: as many as the tables say, and vectors that may not be full. */
SF_INLINE void N(scan_general)(const sf_rows *job, const sf_op op, const int many, const int levels, int64_t at, int64_t groups)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        const int unit = levels ? K_WIDTH : j.lanes->unit;
        const int64_t elements = j.n * j.lanes->inner, tiles = elements / (V_SCAN_TILE * unit), over = elements % (V_SCAN_TILE * unit);
        const bool stream = j.stream && unit == K_WIDTH, hold = N(holds) && stream;
        for (; groups > 0; groups--, at += many) {
                N(row) row[SF_CPU_GROUP];
                N(place) p = N(place_of)(&j, unit, at);
                for (int r = 0; r < many; r++) {
                        row[r].carry = j.carry ? j.carry + (at + r) * j.carry_row : NULL;
                        row[r].before = j.exclusive ? N(get)(row[r].carry->fill) : identity;
                        row[r].writer = N(writer_start)(p.y + r * j.y_row, stream, p.step < 0);
                }
                N(held) held = {.y = NULL};
                for (int64_t left = tiles; left > 0; left--, p.tile++) {
                        N(vec) v[SF_CPU_GROUP][V_SCAN_TILE];
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                N(load_tile)(p.x + r * j.x_row, p.m ? p.m + r * j.m_row : NULL, p.step, j.ahead, unit, identity, v[r]);
                                N(scan_tile)(op, &t, levels ? levels : t.levels, v[r]);
                                if (N(holds) && held.y)
                                        N(write)(&row[r].writer, held.y + r * j.y_row, held.v[r], V_SCAN_TILE);
                        }
                        N(count_tile)(op, &t, p.counters, p.tile, many, v);
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                char *y = p.y + r * j.y_row;
                                if (row[r].carry)
                                        N(add_carry)(op, row[r].carry, v[r], V_SCAN_TILE);
                                if (j.exclusive) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                v[r][i] = N(shift)(&t, &row[r], v[r][i]);
                                }
                                if (hold) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                held.v[r][i] = v[r][i];
                                } else if (stream) {
                                        N(write)(&row[r].writer, y, v[r], V_SCAN_TILE);
                                } else {
                                        N(store_tile)(y, p.step, unit, v[r]);
                                }
                        }
                        held.y = hold ? p.y : NULL;
                        p.x += V_SCAN_TILE * p.step * K_SIZE;
                        p.y += V_SCAN_TILE * p.step * K_SIZE;
                        p.m = p.m ? p.m + V_SCAN_TILE * p.step : NULL;
                }
                for (int r = 0; stream && r < many; r++) {
                        if (held.y)
                                N(write)(&row[r].writer, held.y + r * j.y_row, held.v[r], V_SCAN_TILE);
                        N(write_end)(&row[r].writer, p.y + r * j.y_row);
                }
                if (over && levels) {
                        const N(place) end = p;
                        N(sum_ends)(job, many, row, &end, over);
                } else if (over) {
                        N(scan_ends)(job, op, levels, many, row, p, over);
                }
                for (int r = 0; j.resume && j.exclusive && r < many; r++)
                        N(put)(row[r].carry->fill, N(permute)(row[r].before, t.last));
        }
}

static V_APART void N(sum_general)(const sf_rows *j, int64_t at, int64_t groups)
{
        N(scan_general)(j, SF_SUM, SF_CPU_GROUP, K_LOG_WIDTH, at, groups);
}
static V_APART void N(sum_general_one)(const sf_rows *j, int64_t at, int64_t groups)
{
        N(scan_general)(j, SF_SUM, 1, K_LOG_WIDTH, at, groups);
}

/*
 * Narrow matrices whose vectors are not full, four tiles at a time: there is little to do in each, and what the counter wants is asked once. Two levels
 * at most: where there are fewer, no lane is on in those above. Returns how many positions of each row that were; the rest is the general
 * instance's.
 */
SF_INLINE int64_t N(narrow_blocks)(const sf_rows *job, const sf_op op)
{
        enum { BLOCK = 4 * V_SCAN_TILE, LEVELS = 2 };
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        const int unit = j.lanes->unit;
        const int64_t blocks = j.n / (BLOCK * j.lanes->rows);
        for (int64_t at = 0; at < j.rows; at++) {
                N(place) p = N(place_of)(&j, unit, at);
                N(row) row = {.carry = j.carry ? j.carry + at * j.carry_row : NULL};
                row.before = j.exclusive ? N(get)(row.carry->fill) : identity;
                uint64_t block = p.tile / 4;
                for (int64_t left = blocks; left > 0; left--, block++) {
                        N(vec) v[BLOCK];
                        V_UNROLL
                        for (int i = 0; i < BLOCK; i++) {
                                __builtin_prefetch(p.x + j.ahead);
                                v[i] = N(lane_scan)(op, N(load_unit)(p.x, p.m, identity, unit), &t, LEVELS);
                                p.x += p.step * K_SIZE;
                                p.m = p.m ? p.m + p.step : NULL;
                        }
                        N(scan_vectors)(op, &t, BLOCK, v);
                        const int closed = sf_order_closed(block);
                        for (uint64_t bits = block, k = 0; bits || k == (uint64_t)closed; k++) {
                                if (k == (uint64_t)closed)
                                        N(put)(p.counters + (closed + 2) * V_BYTES, N(permute)(v[BLOCK - 1], t.last));
                                if (!bits)
                                        break;
                                N(vec) entry = N(get)(p.counters + (__builtin_ctzll(bits) + 2) * V_BYTES);
                                V_UNROLL
                                for (int i = 0; i < BLOCK; i++)
                                        v[i] = N(combine)(op, entry, v[i]);
                                bits &= bits - 1;
                        }
                        if (row.carry)
                                N(add_carry)(op, row.carry, v, BLOCK);
                        if (j.exclusive) {
                                V_UNROLL
                                for (int i = 0; i < BLOCK; i++)
                                        v[i] = N(shift)(&t, &row, v[i]);
                        }
                        V_UNROLL
                        for (int i = 0; i < BLOCK; i++, p.y += p.step * K_SIZE)
                                N(store_unit)(p.y, v[i], unit);
                }
                if (j.exclusive) /* what is left is shifted on from there */
                        N(put)(row.carry->fill, N(permute)(row.before, t.last));
        }
        return blocks * BLOCK * j.lanes->rows;
}

static V_APART int64_t N(sum_narrow)(const sf_rows *j)
{
        return N(narrow_blocks)(j, SF_SUM);
}
static V_APART int64_t N(prod_narrow)(const sf_rows *j)
{
        return N(narrow_blocks)(j, SF_PROD);
}

/* What is left of j after that; all of it where it is not for it. */
SF_INLINE sf_rows N(after_narrow)(const sf_rows *j, const sf_op op)
{
        const int64_t tile = V_SCAN_TILE * j->lanes->unit;
        sf_rows rest = *j;
        if (j->lanes->levels > 2 || j->start * j->lanes->inner / tile % 4 || (j->rows > 1 && !j->resume))
                return rest;
        const int64_t done = (op == SF_SUM ? N(sum_narrow) : N(prod_narrow))(j), on = (j->lanes->reverse ? -done : done) * j->lanes->inner;
        rest.x += on * K_SIZE;
        rest.y += on * K_SIZE;
        rest.m = j->m ? j->m + on : NULL;
        rest.n -= done;
        rest.start += done;
        return rest;
}

/* ------------------------------------------------------------------------------------------------------------
 * Max and min
 *
 * Whatever the tree, the bits are the same, and combining with the same value again changes nothing. So what stands to the left is one
 * vector in a register, carries and all, where sums need a counter; and a lane with nothing to its left is combined with itself. Where a walk
 * stops, every entry that is in use by then is all there was: extreme.inc.h.
 * ---------------------------------------------------------------------------------------------------------- */
SF_INLINE N(vec) N(extreme_left)(const sf_rows *j, const sf_op op, const char *counter, uint64_t tile, int64_t at, N(vec) identity)
{
        N(vec) left = identity;
        for (uint64_t bits = tile; bits; bits &= bits - 1)
                left = N(combine)(op, N(get)(counter + __builtin_ctzll(bits) * V_BYTES), left);
        if (j->carry)
                N(add_carry)(op, j->carry + at * j->carry_row, &left, 1);
        return left;
}

/* The whole tiles of rows [at, at + groups * many). */
SF_INLINE void N(extreme_tiles)(const sf_rows *job, const sf_op op, const int many, const int levels, const int unit, int64_t at, int64_t groups)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const N(vec) identity = N(broadcast)(j.identity);
        const int64_t tiles = j.n * j.lanes->inner / (V_SCAN_TILE * unit);
        for (; groups > 0; groups--, at += many) {
                N(row) row[SF_CPU_GROUP]; /* `before` has all that is to the left, in every position */
                N(place) p = N(place_of)(&j, unit, at);
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        row[r].before = N(extreme_left)(&j, op, p.counters + r * SF_ORDER_LEVELS * V_BYTES, p.tile, at + r, identity);
                        row[r].writer = N(writer_start)(p.y + r * j.y_row, j.stream && unit == K_WIDTH, p.step < 0);
                }
                for (int64_t left = tiles; left > 0; left--) {
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                N(vec) v[V_SCAN_TILE];
                                char *y = p.y + r * j.y_row;
                                N(load_tile)(p.x + r * j.x_row, p.m ? p.m + r * j.m_row : NULL, p.step, j.ahead, unit, identity, v);
                                V_UNROLL
                                for (int k = 0; k < levels; k++) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                v[i] = N(combine)(op, N(permute)(v[i], t.level[k]), v[i]);
                                }
                                N(scan_vectors)(op, &t, V_SCAN_TILE, v);
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        v[i] = N(combine)(op, row[r].before, v[i]);
                                const N(vec) last = N(permute)(v[V_SCAN_TILE - 1], t.last);
                                if (j.exclusive) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                v[i] = N(shift)(&t, &row[r], v[i]);
                                }
                                row[r].before = last;
                                if (unit == K_WIDTH)
                                        N(write)(&row[r].writer, y, v, V_SCAN_TILE);
                                else
                                        N(store_tile)(y, p.step, unit, v);
                        }
                        p.x += V_SCAN_TILE * p.step * K_SIZE;
                        p.y += V_SCAN_TILE * p.step * K_SIZE;
                        p.m = p.m ? p.m + V_SCAN_TILE * p.step : NULL;
                }
                for (int r = 0; r < many; r++) {
                        N(write_end)(&row[r].writer, p.y + r * j.y_row);
                        for (uint64_t bits = p.tile + (uint64_t)tiles; bits; bits &= bits - 1)
                                N(put)(p.counters + (r * SF_ORDER_LEVELS + __builtin_ctzll(bits)) * V_BYTES, row[r].before);
                        if (j.resume && j.exclusive)
                                N(put)(j.carry[(at + r) * j.carry_row].fill, row[r].before);
                }
        }
}

/* What is over. */
SF_INLINE void N(extreme_ends)(const sf_rows *j, const sf_op op, const int many, int64_t at)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const int unit = j->lanes->unit;
        const int64_t elements = j->n * j->lanes->inner, tiles = elements / (V_SCAN_TILE * unit), over = elements % (V_SCAN_TILE * unit);
        N(place) p = N(place_of)(j, unit, at);
        const int64_t on = tiles * V_SCAN_TILE * p.step;
        p.tile += (uint64_t)tiles;
        p.x += on * K_SIZE;
        p.y += on * K_SIZE;
        p.m = p.m ? p.m + on : NULL;
        for (int r = 0; r < many; r++) {
                N(row) row = {.carry = j->carry ? j->carry + (at + r) * j->carry_row : NULL};
                row.before = N(extreme_left)(j, op, p.counters, p.tile, at + r, identity);
                N(scan_over)(j, op, &t, 0, &row, &p, over, identity);
                if (j->resume && j->exclusive)
                        N(put)(row.carry->fill, N(permute)(row.before, t.last));
                p.x += j->x_row;
                p.y += j->y_row;
                p.m = p.m ? p.m + j->m_row : NULL;
                p.counters += SF_ORDER_LEVELS * V_BYTES;
        }
}

/* Each a function with all registers to itself. Narrow matrices have two levels at most, where vectors of theirs are not full. */
#define K_EXTREME(op, OP)                                                                                                \
        static V_APART void N(op##_tiles)(const sf_rows *j, int64_t at, int64_t groups)                                  \
        {                                                                                                                \
                N(extreme_tiles)(j, OP, SF_CPU_GROUP, K_LOG_WIDTH, K_WIDTH, at, groups);                                 \
        }                                                                                                                \
        static V_APART void N(op##_tiles_one)(const sf_rows *j, int64_t at, int64_t groups)                              \
        {                                                                                                                \
                N(extreme_tiles)(j, OP, 1, K_LOG_WIDTH, K_WIDTH, at, groups);                                            \
        }                                                                                                                \
        static V_APART void N(op##_tiles_narrow)(const sf_rows *j, int64_t at, int64_t groups)                           \
        {                                                                                                                \
                N(extreme_tiles)(j, OP, 1, 2, j->lanes->unit, at, groups);                                               \
        }                                                                                                                \
        static V_APART void N(op##_ends)(const sf_rows *j, int many, int64_t at) { N(extreme_ends)(j, OP, many, at); }
K_EXTREME(max, SF_MAX)
K_EXTREME(min, SF_MIN)
#undef K_EXTREME

SF_INLINE void N(extreme_rows)(const sf_rows *j, const sf_op op)
{
        const bool narrow = j->lanes->inner > 1 && j->lanes->levels <= 2;
        const bool over = j->n * j->lanes->inner % (V_SCAN_TILE * j->lanes->unit);
        for (int64_t at = 0; at < j->rows;) {
                const int many = narrow || j->rows - at < SF_CPU_GROUP ? 1 : SF_CPU_GROUP;
                const int64_t groups = over ? 1 : (j->rows - at) / many; /* ends use the counters, which the next group uses too */
                if (op == SF_MAX)
                        (narrow ? N(max_tiles_narrow) : many == 1 ? N(max_tiles_one) : N(max_tiles))(j, at, groups);
                else
                        (narrow ? N(min_tiles_narrow) : many == 1 ? N(min_tiles_one) : N(min_tiles))(j, at, groups);
                if (over)
                        (op == SF_MAX ? N(max_ends) : N(min_ends))(j, many, at);
                at += groups * many;
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Which of them
 * ---------------------------------------------------------------------------------------------------------- */

/* Streamed results need no turning into place. */
SF_INLINE bool N(aligned)(const sf_rows *j)
{
        /* In reverse, results go down in memory from the end of the first one. */
        const uintptr_t from = (uintptr_t)j->y + (uintptr_t)(j->lanes->reverse ? j->lanes->inner * K_SIZE : 0);
        return (from | (j->rows > 1 ? (uintptr_t)j->y_row : 0)) % N(stream_align) == 0;
}

/* Nothing to the left, and results that are written as they are. */
SF_INLINE bool N(is_plain)(const sf_rows *j)
{
        return !j->carry && !j->exclusive && (!j->stream || N(aligned)(j));
}

SF_INLINE void N(scan_rows)(const sf_rows *j, const sf_op op)
{
        const int64_t groups = j->rows / SF_CPU_GROUP, single = j->rows % SF_CPU_GROUP, at = groups * SF_CPU_GROUP;
        const int64_t vectors = (j->n + K_WIDTH - 1) / K_WIDTH;
        if (op == SF_MAX || op == SF_MIN) {
                N(extreme_rows)(j, op);
        } else if (j->lanes->unit != K_WIDTH) {
                const sf_rows rest = N(after_narrow)(j, op);
                if (rest.n)
                        N(scan_general)(&rest, op, 1, 0, 0, rest.rows);
        } else if (op == SF_SUM && N(is_plain)(j) && j->n < V_SCAN_TILE * K_WIDTH && j->lanes->inner == 1 && !j->start && !j->resume && !j->stream) {
                N(sum_short)(j, vectors);
        } else if (N(is_plain)(j)) {
                N(plain_rows)(j, op);
        } else if (op == SF_SUM) {
                /* Where there are fewer levels than a vector has (narrow matrices), no lane is on in those above. */
                N(sum_general)(j, 0, groups);
                if (single)
                        N(sum_general_one)(j, at, single);
        } else {
                N(scan_general)(j, op, 1, 0, 0, j->rows); /* and the library stays small */
        }
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}

/* ------------------------------------------------------------------------------------------------------------
 * Packed short rows: the whole of `rows` x n x inner elements is one run of memory, whole sequences to a vector.
 * ---------------------------------------------------------------------------------------------------------- */
SF_INLINE void N(scan_packed)(const sf_rows *j, const sf_op op)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const N(vec) identity = N(broadcast)(j->identity);
        const N(vec) fill = j->exclusive ? N(get)(j->carry->fill) : identity;
        const int unit = j->lanes->unit;
        const int64_t elements = j->rows * j->n * j->lanes->inner;
        /* Rows in reverse still lie in memory one after another: the run starts where the first row's last element is. */
        const int64_t offset = j->lanes->reverse ? -(j->n - 1) * j->lanes->inner : 0;
        const char *x = j->x + offset * K_SIZE;
        char *y = j->y + offset * K_SIZE;
        const uint8_t *m = j->m ? j->m + offset : NULL;
        N(writer) writer = N(writer_start)(y, j->stream && unit == K_WIDTH, false);
        int64_t at = 0;
        for (; at < elements; at += unit) {
                bool whole = elements - at >= K_WIDTH;
                int count = elements - at < unit ? (int)(elements - at) : unit;
                __builtin_prefetch(x + at * K_SIZE + j->ahead);
                N(vec) v = whole ? N(load_masked)(x + at * K_SIZE, m ? m + at : NULL, identity)
                                 : N(load_masked_part)(x + at * K_SIZE, m ? m + at : NULL, identity, 0, count);
                v = N(lane_scan)(op, v, &t, t.levels);
                if (j->carry)
                        N(add_carry)(op, j->carry, &v, 1);
                if (j->exclusive)
                        v = N(shift)(&t, &(N(row)){.before = fill}, v);
                if (count == K_WIDTH) {
                        N(write)(&writer, y + at * K_SIZE, &v, 1);
                } else {
                        N(write_end)(&writer, y + at * K_SIZE);
                        writer.first = true;
                        N(store_part)(y + at * K_SIZE, v, 0, count);
                }
        }
        N(write_end)(&writer, y + at * K_SIZE);
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}
