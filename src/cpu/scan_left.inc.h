/*
 * scan_left.inc.h: what is to the left of a tile. Template, part of scan.inc.h.
 *
 * Ordered: a counter in memory, with an entry for each level. An entry is a vector with the block's
 * total in every position, so that adding it is one instruction. Free: one vector in a register has
 * all of it, carries too. When a walk stops, it is stored in the highest entry of the counter that
 * is in use.
 */

/* The current position of a group of rows. */
typedef struct O(place) {
        const char *x;
        char *y;
        const uint8_t *m;
        char *counters;
        uint64_t tile;
        int64_t step; /* elements from one vector to the next; negative in reverse */
} O(place);

SF_INLINE O(place) O(place_of)(const sf_rows *j, int unit, int64_t at)
{
        const int inner = j->lanes->inner;
        /* A vector's address is that of its lowest lane; in reverse this is its last position. */
        const int64_t offset = j->lanes->reverse ? -(int64_t)(unit - inner) : 0;
        return (O(place)){.x = j->x + at * j->x_row + offset * K_SIZE,
                          .y = j->y + at * j->y_row + offset * (j->raw ? K_LANE_BYTES : K_OUT),
                          .m = j->m ? j->m + at * j->m_row + offset : NULL,
                          /* If a call resumes or is resumed, each of its few rows has a counter of
                           * its own. */
                          .counters = j->counters + (j->resume || j->start ? at * SF_ORDER_LEVELS * K_ENTRY : 0),
                          .tile = j->start ? (uint64_t)(j->start * inner / (V_SCAN_TILE * unit)) : 0,
                          .step = j->lanes->reverse ? -unit : unit};
}

/* The place `elements` further on. */
SF_INLINE O(place) O(place_on)(const sf_rows *j, O(place) p, int64_t elements)
{
        const int64_t on = p.step < 0 ? -elements : elements;
        p.x += on * K_SIZE;
        p.y += on * (j->raw ? K_LANE_BYTES : K_OUT);
        p.m = p.m ? p.m + on : NULL;
        return p;
}

#ifdef K_ORDERED
typedef struct O(left) {
        char *counters;
        uint64_t small; /* K_VANISHES: bits of entries beyond which a row's terms may vanish */
} O(left);

#ifdef K_VANISHES
/* Asks of an entry, in every row. Most tiles of gates near 1 have no such entries to their left, and
 * are spared further questions. */
SF_INLINE void O(ask_entry)(O(left) *left, int64_t level, const int many)
{
        uint64_t small = 0;
        V_UNROLL
        for (int r = 0; r < many; r++)
                small |= O(may_vanish)(left->counters + (r * SF_ORDER_LEVELS + level) * K_ENTRY);
        left->small = (left->small & ~((uint64_t)1 << level)) | small << level;
}
#endif

SF_INLINE O(left) O(left_of)(const sf_rows *j, const O(place) *p, const int many, int64_t at, const O(none) *none)
{
        O(left) left = {p->counters, 0};
        (void)j, (void)many, (void)at, (void)none;
#ifdef K_VANISHES
        for (uint64_t bits = p->tile; bits; bits &= bits - 1)
                O(ask_entry)(&left, __builtin_ctzll(bits), many);
#endif
        return left;
}

/* Combines an entry of every row's counter on the left of all its vectors. */
SF_INLINE void O(add_entry)(const char *counters, const int many, O(val) (*v)[V_SCAN_TILE], int64_t level)
{
        const char *first = counters + level * K_ENTRY; /* other rows are at constant distances */
        V_UNROLL
        for (int r = 0; r < many; r++) {
                O(val) entry = O(get)(first + r * SF_ORDER_LEVELS * K_ENTRY);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = O(combine)(entry, v[r][i]);
        }
}

#ifdef K_VANISHES
/* Makes a total, which is in place and has the entries below `from`, that of the block that is
 * closed. A function of its own, because a call costs less than the registers that it would take. */
static V_APART void O(close_block)(char *counters, int64_t from, int64_t closed)
{
        O(val) total = O(get)(counters + closed * K_ENTRY);
        for (int64_t k = from; k < closed; k++)
                total = O(join_entry)(counters + k * K_ENTRY, total);
        O(put)(counters + closed * K_ENTRY, total);
}

/* As below, for one row. The total is computed apart, because of the tile's values only results are
 * needed. */
SF_INLINE void O(take_vanishing)(const N(tables) *t, char *counters, uint64_t tile, const sf_carry *carry, O(val) *v)
{
        const int64_t closed = sf_order_closed(tile);
        const char *entry[2 * SF_ORDER_LEVELS];
        const int entries = O(list_entries)(counters, tile, carry, entry);
        O(put)(counters + closed * K_ENTRY, O(last)(v[V_SCAN_TILE - 1], t));
        O(take_entries)(entry, 0, entries, false, V_SCAN_TILE, v);
        if (closed)
                O(close_block)(counters, 0, closed);
}
#endif

/* Combines everything to the left of tile number `tile`, lowest level first, and stores the total
 * of the block that it closes. K_VANISHES: the carries of its rows too, which elsewhere are added
 * afterwards. */
SF_INLINE void O(take_left)(const N(tables) *t, O(left) *left, uint64_t tile, const sf_carry *carry, int64_t carry_row,
                            const int many, O(val) (*v)[V_SCAN_TILE])
{
        (void)carry, (void)carry_row;
        const int64_t closed = sf_order_closed(tile);
        char *close = left->counters + closed * K_ENTRY;
#ifdef K_VANISHES
        if (left->small & tile) {
                V_UNROLL
                for (int r = 0; r < many; r++) {
                        const sf_carry *own = carry ? carry + r * carry_row : NULL;
                        O(take_vanishing)(t, left->counters + r * SF_ORDER_LEVELS * K_ENTRY, tile, own, v[r]);
                }
                O(ask_entry)(left, closed, many);
                return;
        }
#endif
        for (int64_t k = 0; k < closed; k++)
                O(add_entry)(left->counters, many, v, k);
        V_UNROLL
        for (int r = 0; r < many; r++)
                O(put)(close + r * SF_ORDER_LEVELS * K_ENTRY, O(settle)(O(last)(v[r][V_SCAN_TILE - 1], t)));
        for (uint64_t bits = tile >> closed << closed; bits; bits &= bits - 1)
                O(add_entry)(left->counters, many, v, __builtin_ctzll(bits));
#ifdef K_VANISHES
        O(ask_entry)(left, closed, many);
        V_UNROLL
        for (int r = 0; r < many; r++)
                if (carry)
                        O(add_carry)(carry + r * carry_row, v[r], V_SCAN_TILE);
#endif
}

SF_INLINE void O(left_put)(const O(left) *left, char *counters, uint64_t tiles, const int many)
{
        (void)left, (void)counters, (void)tiles, (void)many;
}

/* The last tile of one row, with nothing to its right, whose lanes have been scanned. */
SF_INLINE void O(take_last)(const sf_rows *j, const char *counters, uint64_t tile, int64_t at, const O(none) *none,
                            const N(tables) *t, O(val) *v)
{
        (void)none;
#ifdef K_VANISHES
        const char *entry[2 * SF_ORDER_LEVELS];
        const sf_carry *carry = j->carry ? j->carry + at * j->carry_row : NULL;
        const int entries = O(list_entries)(counters, tile, carry, entry);
        O(scan_vectors)(t, V_SCAN_TILE, v);
        O(take_entries)(entry, 0, entries, false, V_SCAN_TILE, v);
#else
        O(scan_vectors)(t, V_SCAN_TILE, v);
        for (uint64_t bits = tile; bits; bits &= bits - 1) {
                O(val) entry = O(get)(counters + __builtin_ctzll(bits) * K_ENTRY);
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[i] = O(combine)(entry, v[i]);
        }
        if (j->carry)
                O(add_carry)(j->carry + at * j->carry_row, v, V_SCAN_TILE);
#endif
}
#else
typedef struct O(left) {
        O(val) all[SF_CPU_GROUP];
} O(left);

/* Everything to the left of row `at` at a tile. */
SF_INLINE O(val) O(left_all)(const sf_rows *j, const char *counter, uint64_t tile, int64_t at, const O(none) *none)
{
        O(val) all = none->value;
        if (tile)
                all = O(get)(counter + sf_order_log2(tile) * K_ENTRY);
        else if (j->carry)
                O(add_carry)(j->carry + at * j->carry_row, &all, 1);
        return all;
}

SF_INLINE O(left) O(left_of)(const sf_rows *j, const O(place) *p, const int many, int64_t at, const O(none) *none)
{
        O(left) left;
        V_UNROLL
        for (int r = 0; r < many; r++)
                left.all[r] = O(left_all)(j, p->counters + r * SF_ORDER_LEVELS * K_ENTRY, p->tile, at + r, none);
        return left;
}

SF_INLINE void O(take_left)(const N(tables) *t, O(left) *left, uint64_t tile, const sf_carry *carry, int64_t carry_row,
                            const int many, O(val) (*v)[V_SCAN_TILE])
{
        (void)tile, (void)carry, (void)carry_row;
        V_UNROLL
        for (int r = 0; r < many; r++) {
                V_UNROLL
                for (int i = 0; i < V_SCAN_TILE; i++)
                        v[r][i] = O(combine)(left->all[r], v[r][i]);
                left->all[r] = O(settle)(O(last)(v[r][V_SCAN_TILE - 1], t));
        }
}

/* Before any tile there is only the carry, which stays where it is for the next call. */
SF_INLINE void O(left_put)(const O(left) *left, char *counters, uint64_t tiles, const int many)
{
        V_UNROLL
        for (int r = 0; r < many; r++)
                if (tiles)
                        O(put)(counters + (r * SF_ORDER_LEVELS + sf_order_log2(tiles)) * K_ENTRY, left->all[r]);
}

SF_INLINE void O(take_last)(const sf_rows *j, const char *counters, uint64_t tile, int64_t at, const O(none) *none,
                            const N(tables) *t, O(val) *v)
{
        O(scan_vectors)(t, V_SCAN_TILE, v);
        const O(val) all = O(left_all)(j, counters, tile, at, none);
        V_UNROLL
        for (int i = 0; i < V_SCAN_TILE; i++)
                v[i] = O(combine)(all, v[i]);
}
#endif
