/*
 * scan.inc.h: the scan of rows and of packed short rows. Template; kernels.inc.h has the parameters. The order is docs/order.md's; order.h says
 * how a walker keeps it with a counter.
 */

/* ------------------------------------------------------------------------------------------------------------
 * A tile: V_SCAN_TILE vectors of a row. Inside it: lanes, then vectors.
 * ---------------------------------------------------------------------------------------------------------- */

/* The scan of vectors that follow one another, lanes of each done: what is last in one is to the left of those behind. */
SF_INLINE void O(scan_vectors)(const N(tables) *t, const int count, O(val) *v)
{
        V_UNROLL
        for (int size = 1; size < count; size *= 2) {
                V_UNROLL
                for (int i = 0; i < count; i++)
                        if (i & size)
                                v[i] = O(combine)(O(permute)(v[(i & -size) - 1], t->last), v[i]);
        }
}

SF_INLINE void O(scan_tile)(const N(tables) *t, int levels, O(val) *v)
{
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = O(lane_scan)(v[i], t, levels);
        O(scan_vectors)(t, V_SCAN_TILE, v);
}

/* A tile of one row, vectors `step` elements apart. */
SF_INLINE void O(load_tile)(const char *x, const uint8_t *m, int64_t step, int64_t ahead, int unit, O(val) identity, O(val) *v)
{
        if (m) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++, x += step * K_SIZE, m += step) {
                        __builtin_prefetch(x + ahead);
                        v[i] = O(load_some)(x, m, identity, 0, unit);
                }
        } else {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++, x += step * K_SIZE) {
                        __builtin_prefetch(x + ahead);
                        v[i] = O(load_some)(x, NULL, identity, 0, unit);
                }
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * What stands to the left of a tile
 *
 * Ordered: a counter in memory, an entry a level, each a vector with the block's total in every position, so that adding it is one instruction.
 * Free: one vector in a register has all of it, carries too. Where a walk stops, it is left in the counter's highest entry in use.
 * ---------------------------------------------------------------------------------------------------------- */

/* Where a group of rows stands. */
typedef struct O(place) {
        const char *x;
        char *y;
        const uint8_t *m;
        char *counters;
        uint64_t tile;
        int64_t step; /* elements from one vector to the next: down in reverse */
} O(place);

SF_INLINE O(place) O(place_of)(const sf_rows *j, int unit, int64_t at)
{
        const int inner = j->lanes->inner;
        /* A vector's address is that of its lowest lane, which in reverse is its last position. */
        const int64_t offset = j->lanes->reverse ? -(int64_t)(unit - inner) : 0;
        return (O(place)){.x = j->x + at * j->x_row + offset * K_SIZE,
                          .y = j->y + at * j->y_row + offset * (j->raw ? K_LANE_BYTES : K_SIZE),
                          .m = j->m ? j->m + at * j->m_row + offset : NULL,
                          /* A call that resumes or will be resumed has few rows, each with a counter of its own. */
                          .counters = j->counters + (j->resume || j->start ? at * SF_ORDER_LEVELS * K_ENTRY : 0),
                          .tile = j->start ? (uint64_t)(j->start * inner / (V_SCAN_TILE * unit)) : 0,
                          .step = j->lanes->reverse ? -unit : unit};
}

/* `elements` further on. */
SF_INLINE O(place) O(place_on)(const sf_rows *j, O(place) p, int64_t elements)
{
        const int64_t on = p.step < 0 ? -elements : elements;
        p.x += on * K_SIZE;
        p.y += on * (j->raw ? K_LANE_BYTES : K_SIZE);
        p.m = p.m ? p.m + on : NULL;
        return p;
}

#ifdef K_ORDERED
typedef struct O(left) {
        char *counters;
} O(left);

SF_INLINE O(left) O(left_of)(const sf_rows *j, const O(place) *p, const int many, int64_t at, O(val) identity)
{
        (void)j, (void)many, (void)at, (void)identity;
        return (O(left)){p->counters};
}

/* Adds an entry of every row's counter to the left of all its vectors. */
SF_INLINE void O(add_entry)(const char *counters, const int many, O(val) (*v)[V_SCAN_TILE], int64_t level)
{
        const char *first = counters + level * K_ENTRY; /* the others' are constants away */
        V_UNROLL
        for (int r = 0; r < many; r++) {
                O(val) entry = O(get)(first + r * SF_ORDER_LEVELS * K_ENTRY);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = O(combine)(entry, v[r][i]);
        }
}

/* Everything to the left of tile number `tile` is added, lowest level first, and the block that it closes is counted. */
SF_INLINE void O(take_left)(const N(tables) *t, O(left) *left, uint64_t tile, const int many, O(val) (*v)[V_SCAN_TILE])
{
        const int64_t closed = sf_order_closed(tile);
        char *close = left->counters + closed * K_ENTRY;
        for (int64_t k = 0; k < closed; k++)
                O(add_entry)(left->counters, many, v, k);
        V_UNROLL
        for (int r = 0; r < many; r++)
                O(put)(close + r * SF_ORDER_LEVELS * K_ENTRY, O(settle)(O(permute)(v[r][V_SCAN_TILE - 1], t->last)));
        for (uint64_t bits = tile >> closed << closed; bits; bits &= bits - 1)
                O(add_entry)(left->counters, many, v, __builtin_ctzll(bits));
}

SF_INLINE void O(left_put)(const O(left) *left, char *counters, uint64_t tiles, const int many)
{
        (void)left, (void)counters, (void)tiles, (void)many;
}

/* One row's last tile, which nobody is to the right of. */
SF_INLINE void O(take_last)(const sf_rows *j, const char *counters, uint64_t tile, int64_t at, O(val) identity, O(val) *v)
{
        (void)identity;
        for (uint64_t bits = tile; bits; bits &= bits - 1) {
                O(val) entry = O(get)(counters + __builtin_ctzll(bits) * K_ENTRY);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(combine)(entry, v[i]);
        }
        if (j->carry)
                O(add_carry)(j->carry + at * j->carry_row, v, V_SCAN_TILE);
}
#else
typedef struct O(left) {
        O(val) all[SF_CPU_GROUP];
} O(left);

/* All that is to the left of row `at` from a tile on. */
SF_INLINE O(val) O(left_all)(const sf_rows *j, const char *counter, uint64_t tile, int64_t at, O(val) identity)
{
        O(val) all = identity;
        if (tile)
                all = O(get)(counter + sf_order_log2(tile) * K_ENTRY);
        else if (j->carry)
                O(add_carry)(j->carry + at * j->carry_row, &all, 1);
        return all;
}

SF_INLINE O(left) O(left_of)(const sf_rows *j, const O(place) *p, const int many, int64_t at, O(val) identity)
{
        O(left) left;
        V_UNROLL
        for (int r = 0; r < many; r++)
                left.all[r] = O(left_all)(j, p->counters + r * SF_ORDER_LEVELS * K_ENTRY, p->tile, at + r, identity);
        return left;
}

SF_INLINE void O(take_left)(const N(tables) *t, O(left) *left, uint64_t tile, const int many, O(val) (*v)[V_SCAN_TILE])
{
        (void)tile;
        V_UNROLL
        for (int r = 0; r < many; r++) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = O(combine)(left->all[r], v[r][i]);
                left->all[r] = O(settle)(O(permute)(v[r][V_SCAN_TILE - 1], t->last));
        }
}

/* Before `tiles` tiles have been walked there is nothing but the carry, which whoever goes on finds where it was. */
SF_INLINE void O(left_put)(const O(left) *left, char *counters, uint64_t tiles, const int many)
{
        V_UNROLL
        for (int r = 0; r < many; r++)
                if (tiles)
                        O(put)(counters + (r * SF_ORDER_LEVELS + sf_order_log2(tiles)) * K_ENTRY, left->all[r]);
}

SF_INLINE void O(take_last)(const sf_rows *j, const char *counters, uint64_t tile, int64_t at, O(val) identity, O(val) *v)
{
        const O(val) all = O(left_all)(j, counters, tile, at, identity);
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = O(combine)(all, v[i]);
}
#endif

/* ------------------------------------------------------------------------------------------------------------
 * Results
 * ---------------------------------------------------------------------------------------------------------- */

/* What a row of a general call has besides its place. */
typedef struct O(row) {
        N(vec) before; /* exclusive: the result to the left of the next vector is in its last position, and without V_PERMUTE_TWO in every one */
        N(writer) writer;
} O(row);

/* An inclusive result becomes the exclusive one: each lane takes its left neighbour's. */
SF_INLINE N(vec) O(shift)(const N(tables) *t, N(vec) *before, N(vec) v)
{
#ifdef V_PERMUTE_TWO
        N(vec) shifted = N(permute_two)(v, *before, t->before);
        *before = v;
#else
        N(vec) shifted = N(blend)(t->before_on, N(permute)(v, t->before), *before);
        *before = N(permute)(v, t->last);
#endif
        return shifted;
}

/* The result before the first element, or before the next one of a walk that goes on: a value that is lowered already. */
SF_INLINE N(vec) O(get_fill)(const char *fill)
{
        return O(lower)(O(get)(fill));
}
SF_INLINE void O(put_fill)(char *fill, N(vec) v)
{
        O(put)(fill, O(lift)(v));
}

/* What nearly every call is: nothing to the left but the counter, inclusive, results that are stored as they are or streamed to aligned addresses.
 * Apart from the general one because what that has to keep in registers costs this one a third of its speed. */
SF_INLINE void O(simple_group)(const sf_rows *job, const int many, int64_t at, int64_t groups)
{
        const sf_rows j = *job; /* a copy that no store can change */
        const N(tables) t = N(tables_of)(j.lanes);
        const O(val) identity = O(broadcast)(j.identity);
        const int64_t elements = j.n * j.lanes->inner, tiles = elements / (V_SCAN_TILE * K_WIDTH);
        const bool raw = K_CONVERT != K_SAME && j.raw, hold = N(holds) && j.stream;
        /* What would be fetched from beyond the end of a long row is fetched from the beginning of the next group's. */
        const int64_t turn = (j.ahead < 0 ? -j.ahead : j.ahead) / (V_SCAN_TILE * K_WIDTH * K_SIZE);
        const bool turns = turn < tiles && !j.resume;
        const int64_t beyond = j.ahead + (turns ? many * j.x_row - (j.lanes->reverse ? -elements : elements) * K_SIZE : 0);
        N(held) held = {.y = NULL};
        for (; groups > 0; groups--, at += many) {
                O(place) p = O(place_of)(&j, K_WIDTH, at);
                O(left) left = O(left_of)(&j, &p, many, at, identity);
                const int64_t y_step = p.step * (raw ? K_LANE_BYTES : K_SIZE);
                for (int64_t todo = tiles; todo > 0; todo--, p.tile++) {
                        O(val) v[SF_CPU_GROUP][V_SCAN_TILE];
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                O(load_tile)(p.x + r * j.x_row, p.m ? p.m + r * j.m_row : NULL, p.step, todo > turn ? j.ahead : beyond, K_WIDTH, identity, v[r]);
                                O(scan_tile)(&t, K_LOG_WIDTH, v[r]);
                                if (N(holds) && held.y)
                                        N(stream_run)(held.y + r * j.y_row, held.v[r], V_SCAN_TILE, p.step < 0);
                        }
                        O(take_left)(&t, &left, p.tile, many, v);
                        V_UNROLL
                        for (int r = 0; r < many; r++) {
                                char *y = p.y + r * j.y_row;
                                N(vec) result[V_SCAN_TILE];
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        result[i] = O(lower)(v[r][i]);
                                if (raw) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                N(put)(y + i * y_step, result[i]);
                                } else if (hold) {
                                        V_UNROLL
                                        for (int i = 0; i < V_SCAN_TILE; i++)
                                                held.v[r][i] = result[i];
                                } else if (j.stream) {
                                        N(stream_run)(y, result, V_SCAN_TILE, p.step < 0);
                                } else {
                                        N(store_tile)(y, p.step, K_WIDTH, result);
                                }
                        }
                        held.y = hold ? p.y : NULL;
                        p.x += V_SCAN_TILE * p.step * K_SIZE;
                        p.y += V_SCAN_TILE * y_step;
                        p.m = p.m ? p.m + V_SCAN_TILE * p.step : NULL;
                }
                O(left_put)(&left, p.counters, p.tile, many);
        }
        for (int r = 0; held.y && r < many; r++)
                N(stream_run)(held.y + r * j.y_row, held.v[r], V_SCAN_TILE, j.lanes->reverse);
}

/* The whole tiles of one group of rows, whatever there is to do. levels 0: as many as the tables say, and vectors that may not be full. */
SF_INLINE void O(general_group)(const sf_rows *job, const int many, const int levels, int64_t at, O(row) *rows)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(val) identity = O(broadcast)(j.identity);
        const int unit = levels ? K_WIDTH : j.lanes->unit;
        const int64_t tiles = j.n * j.lanes->inner / (V_SCAN_TILE * unit);
        const bool stream = j.stream && unit == K_WIDTH, hold = N(holds) && stream;
        O(place) p = O(place_of)(&j, unit, at);
        O(left) left = O(left_of)(&j, &p, many, at, identity);
        N(held) held = {.y = NULL};
        O(row) row[SF_CPU_GROUP]; /* the caller's, where no store can change them */
        V_UNROLL
        for (int r = 0; r < many; r++) {
                row[r].before = j.exclusive ? O(get_fill)(j.carry[(at + r) * j.carry_row].fill) : O(lower)(identity);
                row[r].writer = N(writer_start)(p.y + r * j.y_row, stream, p.step < 0);
        }
        for (int64_t todo = tiles; todo > 0; todo--, p.tile++) {
                O(val) v[SF_CPU_GROUP][V_SCAN_TILE];
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        O(load_tile)(p.x + r * j.x_row, p.m ? p.m + r * j.m_row : NULL, p.step, j.ahead, unit, identity, v[r]);
                        O(scan_tile)(&t, levels ? levels : t.levels, v[r]);
                        if (N(holds) && held.y)
                                N(write)(&row[r].writer, held.y + r * j.y_row, held.v[r], V_SCAN_TILE);
                }
                O(take_left)(&t, &left, p.tile, many, v);
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        char *y = p.y + r * j.y_row;
                        N(vec) result[V_SCAN_TILE];
#ifdef K_ORDERED
                        if (j.carry)
                                O(add_carry)(j.carry + (at + r) * j.carry_row, v[r], V_SCAN_TILE);
#endif
                        V_UNROLL
                        for (int i = 0; i < V_SCAN_TILE; i++)
                                result[i] = O(lower)(v[r][i]);
                        if (j.exclusive) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        result[i] = O(shift)(&t, &row[r].before, result[i]);
                        }
                        if (hold) {
                                V_UNROLL
                                for (int i = 0; i < V_SCAN_TILE; i++)
                                        held.v[r][i] = result[i];
                        } else if (stream) {
                                N(write)(&row[r].writer, y, result, V_SCAN_TILE);
                        } else {
                                N(store_tile)(y, p.step, unit, result);
                        }
                }
                held.y = hold ? p.y : NULL;
                p.x += V_SCAN_TILE * p.step * K_SIZE;
                p.y += V_SCAN_TILE * p.step * K_SIZE;
                p.m = p.m ? p.m + V_SCAN_TILE * p.step : NULL;
        }
        O(left_put)(&left, p.counters, p.tile, many);
        for (int r = 0; r < many; r++) {
                if (stream && held.y)
                        N(write)(&row[r].writer, held.y + r * j.y_row, held.v[r], V_SCAN_TILE);
                if (stream)
                        N(write_end)(&row[r].writer, p.y + r * j.y_row);
                if (j.exclusive && j.resume)
                        O(put_fill)(j.carry[(at + r) * j.carry_row].fill, N(permute)(row[r].before, t.last));
                rows[r].before = row[r].before;
        }
}

/* The last of a row, `left` elements, fewer than a tile has: lanes past the end hold garbage, and are to the right of all that is stored. */
SF_INLINE void O(scan_end_as)(const sf_rows *j, const int levels, const int unit, int64_t at, const O(place) *p, O(row) *row, int64_t left)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(val) identity = O(broadcast)(j->identity);
        const bool reverse = p->step < 0;
        O(val) v[V_SCAN_TILE];
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++) {
                const int64_t rest = left - i * unit;
                const int count = rest < unit ? (int)rest : unit, first = reverse ? unit - count : 0;
                const int64_t from = i * p->step + first;
                v[i] = identity;
                if (count > 0)
                        v[i] = O(load_some)(p->x + from * K_SIZE, p->m ? p->m + from : NULL, identity, first, count);
        }
        O(scan_tile)(&t, levels, v);
        O(take_last)(j, p->counters, p->tile, at, identity, v);
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++) {
                const int64_t rest = left - i * unit;
                const int count = rest < unit ? (int)rest : unit, first = reverse ? unit - count : 0;
                char *y = p->y + (i * p->step + first) * K_SIZE;
                N(vec) result = O(lower)(v[i]);
                if (j->exclusive)
                        result = O(shift)(&t, &row->before, result);
                if (count == K_WIDTH)
                        N(store)(y, result);
                else if (count > 0)
                        N(store_part)(y, result, first, count);
        }
}
/* Where the tables have fewer levels than a vector has, those above do nothing. */
static V_APART void O(scan_end)(const sf_rows *j, int64_t at, const O(place) *p, O(row) *row, int64_t left)
{
        O(scan_end_as)(j, K_LOG_WIDTH, K_WIDTH, at, p, row, left);
}
static V_APART void O(scan_end_part)(const sf_rows *j, int64_t at, const O(place) *p, O(row) *row, int64_t left)
{
        O(scan_end_as)(j, j->lanes->levels, j->lanes->unit, at, p, row, left);
}

SF_INLINE void O(scan_ends)(const sf_rows *j, const int many, const int unit, int64_t at, O(row) *row)
{
        const int64_t elements = j->n * j->lanes->inner, over = elements % (V_SCAN_TILE * unit);
        O(place) p = O(place_on)(j, O(place_of)(j, unit, at), elements - over);
        p.tile += (uint64_t)(elements / (V_SCAN_TILE * unit));
        for (int r = 0; over && r < many; r++) {
                (unit == K_WIDTH ? O(scan_end) : O(scan_end_part))(j, at + r, &p, row ? &row[r] : NULL, over);
                p.x += j->x_row;
                p.y += j->y_row;
                p.m = p.m ? p.m + j->m_row : NULL;
                p.counters += SF_ORDER_LEVELS * K_ENTRY;
        }
}

/* Each a function with all registers to itself. */
static V_APART void O(simple_one)(const sf_rows *j, int64_t at, int64_t groups)
{
        O(simple_group)(j, 1, at, groups);
}
static V_APART void O(general_one)(const sf_rows *j, int64_t at, O(row) *row)
{
        O(general_group)(j, 1, K_LOG_WIDTH, at, row);
}
static V_APART void O(general_part)(const sf_rows *j, int64_t at, O(row) *row)
{
        O(general_group)(j, 1, 0, at, row);
}
#if K_PARTS == 1
static V_APART void O(simple_four)(const sf_rows *j, int64_t at, int64_t groups)
{
        O(simple_group)(j, SF_CPU_GROUP, at, groups);
}
#endif
#if defined(K_WHOLE) || (!defined(K_ORDERED) && !defined(V_LEAN))
static V_APART void O(general_four)(const sf_rows *j, int64_t at, O(row) *row)
{
        O(general_group)(j, SF_CPU_GROUP, K_LOG_WIDTH, at, row);
}
#endif

#ifdef K_WHOLE
/* Rows of `count` vectors, the last perhaps not full: no counter, and no tile that is mostly empty. */
SF_INLINE void O(scan_short_as)(const sf_rows *job, const int count)
{
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(val) identity = O(broadcast)(j.identity);
        const int part = (int)(j.n - (count - 1) * K_WIDTH), first = j.lanes->reverse ? K_WIDTH - part : 0;
        const int64_t step = j.lanes->reverse ? -K_WIDTH : K_WIDTH, last = (count - 1) * step + first;
        for (int64_t r = 0; r < j.rows; r++) {
                const O(place) p = O(place_of)(&j, K_WIDTH, r);
                O(val) v[V_SCAN_TILE];
                __builtin_prefetch(p.x + j.ahead);
                V_UNROLL
                for (int i = 0; i < count - 1; i++)
                        v[i] = O(load)(p.x + i * step * K_SIZE, p.m ? p.m + i * step : NULL, identity);
                v[count - 1] = O(load_some)(p.x + last * K_SIZE, p.m ? p.m + last : NULL, identity, first, part);
                V_UNROLL
                for (int i = 0; i < count; i++)
                        v[i] = O(lane_scan)(v[i], &t, K_LOG_WIDTH);
                O(scan_vectors)(&t, count, v);
                V_UNROLL
                for (int i = 0; i < count - 1; i++)
                        N(store)(p.y + i * step * K_SIZE, O(lower)(v[i]));
                if (part == K_WIDTH)
                        N(store)(p.y + last * K_SIZE, O(lower)(v[count - 1]));
                else
                        N(store_part)(p.y + last * K_SIZE, O(lower)(v[count - 1]), first, part);
        }
}
static V_APART void O(scan_short)(const sf_rows *j, int64_t vectors)
{
        if (vectors == 1)
                O(scan_short_as)(j, 1);
        else if (vectors == 2)
                O(scan_short_as)(j, 2);
#if V_SCAN_TILE > 2
        else if (vectors == 3)
                O(scan_short_as)(j, 3);
        else
                O(scan_short_as)(j, 4);
#endif
}
#endif

#if defined(K_WHOLE) && defined(K_ORDERED)
/*
 * Narrow matrices whose vectors are not full, four tiles at a time: there is little to do in each, and what the counter wants is asked once. Two levels
 * at most: where there are fewer, no lane is on in those above. Returns how many positions of each row that were; the rest is the general
 * instance's.
 */
static V_APART int64_t O(narrow_blocks)(const sf_rows *job)
{
        enum { BLOCK = 4 * V_SCAN_TILE, LEVELS = 2 };
        const sf_rows j = *job;
        const N(tables) t = N(tables_of)(j.lanes);
        const O(val) identity = O(broadcast)(j.identity);
        const int unit = j.lanes->unit;
        const int64_t blocks = j.n / (BLOCK * j.lanes->rows);
        for (int64_t at = 0; at < j.rows; at++) {
                O(place) p = O(place_of)(&j, unit, at);
                const sf_carry *carry = j.carry ? j.carry + at * j.carry_row : NULL;
                N(vec) before = j.exclusive ? O(get_fill)(carry->fill) : O(lower)(identity);
                uint64_t block = p.tile / 4;
                for (int64_t left = blocks; left > 0; left--, block++) {
                        O(val) v[BLOCK];
                        V_UNROLL
                        for (int i = 0; i < BLOCK; i++) {
                                __builtin_prefetch(p.x + j.ahead);
                                v[i] = O(lane_scan)(O(load_some)(p.x, p.m, identity, 0, unit), &t, LEVELS);
                                p.x += p.step * K_SIZE;
                                p.m = p.m ? p.m + p.step : NULL;
                        }
                        O(scan_vectors)(&t, BLOCK, v);
                        const int closed = sf_order_closed(block);
                        for (uint64_t bits = block, k = 0; bits || k == (uint64_t)closed; k++) {
                                if (k == (uint64_t)closed)
                                        O(put)(p.counters + (closed + 2) * K_ENTRY, O(permute)(v[BLOCK - 1], t.last));
                                if (!bits)
                                        break;
                                O(val) entry = O(get)(p.counters + (__builtin_ctzll(bits) + 2) * K_ENTRY);
                                V_UNROLL
                                for (int i = 0; i < BLOCK; i++)
                                        v[i] = O(combine)(entry, v[i]);
                                bits &= bits - 1;
                        }
                        if (carry)
                                O(add_carry)(carry, v, BLOCK);
                        V_UNROLL
                        for (int i = 0; i < BLOCK; i++, p.y += p.step * K_SIZE) {
                                N(vec) result = O(lower)(v[i]);
                                if (j.exclusive)
                                        result = O(shift)(&t, &before, result);
                                N(store_unit)(p.y, result, unit);
                        }
                }
                if (j.exclusive) /* what is left is shifted on from there */
                        O(put_fill)(carry->fill, N(permute)(before, t.last));
        }
        return blocks * BLOCK * j.lanes->rows;
}

/* What is left of j after that; all of it where it is not for it. */
SF_INLINE sf_rows O(after_narrow)(const sf_rows *j)
{
        const int64_t tile = V_SCAN_TILE * j->lanes->unit;
        sf_rows rest = *j;
        if (j->lanes->levels > 2 || j->start * j->lanes->inner / tile % 4 || (j->rows > 1 && !j->resume))
                return rest;
        const int64_t done = O(narrow_blocks)(j), on = (j->lanes->reverse ? -done : done) * j->lanes->inner;
        rest.x += on * K_SIZE;
        rest.y += on * K_SIZE;
        rest.m = j->m ? j->m + on : NULL;
        rest.n -= done;
        rest.start += done;
        return rest;
}
#endif

/* ------------------------------------------------------------------------------------------------------------
 * Which of them
 * ---------------------------------------------------------------------------------------------------------- */

/* Nothing to the left, and results that are written as they are. */
SF_INLINE bool O(is_simple)(const sf_rows *j)
{
        return !j->carry && !j->exclusive && (!j->stream || N(aligned)(j));
}

SF_INLINE void O(scan_simple)(const sf_rows *j)
{
        const bool over = j->n * j->lanes->inner % (V_SCAN_TILE * K_WIDTH);
        for (int64_t at = 0; at < j->rows;) {
                const int many = K_PARTS > 1 || j->rows - at < SF_CPU_GROUP ? 1 : SF_CPU_GROUP;
                const int64_t groups = over ? 1 : (j->rows - at) / many; /* ends use the counters, which the next group uses too */
#if K_PARTS == 1
                (many == 1 ? O(simple_one) : O(simple_four))(j, at, groups);
#else
                O(simple_one)(j, at, groups);
#endif
                O(scan_ends)(j, many, K_WIDTH, at, NULL);
                at += groups * many;
        }
}

SF_INLINE void O(scan_any)(const sf_rows *j)
{
        const bool full = j->lanes->unit == K_WIDTH;
        for (int64_t at = 0; at < j->rows;) {
                O(row) row[SF_CPU_GROUP];
                int many = 1;
#if defined(K_WHOLE) || (!defined(K_ORDERED) && !defined(V_LEAN))
                if (full && j->rows - at >= SF_CPU_GROUP) {
                        many = SF_CPU_GROUP;
                        O(general_four)(j, at, row);
                }
#endif
                if (many == 1)
                        (full ? O(general_one) : O(general_part))(j, at, row);
                O(scan_ends)(j, many, j->lanes->unit, at, row);
                at += many;
        }
}

static void O(scan_rows)(const sf_rows *j)
{
        if (j->lanes->unit != K_WIDTH) {
#if defined(K_WHOLE) && defined(K_ORDERED)
                const sf_rows rest = O(after_narrow)(j);
                if (rest.n)
                        O(scan_any)(&rest);
#else
                O(scan_any)(j);
#endif
        } else if (O(is_simple)(j)) {
#ifdef K_WHOLE
                const bool whole = !j->start && !j->resume && !j->stream && !j->raw;
                if (whole && j->n < V_SCAN_TILE * K_WIDTH && j->lanes->inner == 1)
                        O(scan_short)(j, (j->n + K_WIDTH - 1) / K_WIDTH);
                else
#endif
                        O(scan_simple)(j);
        } else {
                O(scan_any)(j);
        }
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}

/* ------------------------------------------------------------------------------------------------------------
 * Packed short rows: the whole of `rows` x n x inner elements is one run of memory, whole sequences to a vector.
 * ---------------------------------------------------------------------------------------------------------- */
static void O(scan_packed)(const sf_rows *j)
{
        const N(tables) t = N(tables_of)(j->lanes);
        const O(val) identity = O(broadcast)(j->identity);
        const N(vec) fill = j->exclusive ? O(get_fill)(j->carry->fill) : O(lower)(identity);
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
                const int count = elements - at < unit ? (int)(elements - at) : unit;
                __builtin_prefetch(x + at * K_SIZE + j->ahead);
                O(val) v = O(load_some)(x + at * K_SIZE, m ? m + at : NULL, identity, 0, elements - at >= K_WIDTH ? K_WIDTH : count);
                v = O(lane_scan)(v, &t, t.levels);
                if (j->carry)
                        O(add_carry)(j->carry, &v, 1);
                N(vec) result = O(lower)(v), before = fill;
                if (j->exclusive)
                        result = O(shift)(&t, &before, result);
                if (count == K_WIDTH) {
                        N(write)(&writer, y + at * K_SIZE, &result, 1);
                } else {
                        N(write_end)(&writer, y + at * K_SIZE);
                        writer.first = true;
                        N(store_part)(y + at * K_SIZE, result, 0, count);
                }
        }
        N(write_end)(&writer, y + at * K_SIZE);
        if (j->stream && !j->resume) /* a resumed walk waits for its stores once, at its end */
                v_fence();
}
