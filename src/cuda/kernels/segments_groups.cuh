/*
 * segments_groups.cuh: a warp computes a group: parts of segments with up to 32 rows together, one
 * for each lane (segments_lines.cuh). The elements of a group are contiguous. They are copied to
 * shared memory, from which each lane takes its row: as they lie in memory (SF_FLAT), or row by
 * row. Only if all rows are short, each lane reads its row directly. The results of a scan go
 * through shared memory too. A single part of a few strips needs no rows: every lane has one
 * element of each strip.
 */

/* ALONE: the group is one part, so its rows are contiguous. MIXED: it is several parts. In both
 * cases one cell is left free after the cells of each row, so that lanes access different banks.
 * SHORT: several parts of one row each, which lanes read directly; cells are only for results,
 * which are contiguous there. */
enum sf_kind { ALONE, MIXED, SHORT };
/* Parts of so many elements are short. */
enum { FEW = SF_LEAF / 2 < 16 ? SF_LEAF / 2 : 16 };

/* The offset of the cell of the group's element i. MIXED: i counts as if every row were full. */
template <sf_kind KIND> SF_DEVICE int sf_cell(int i) { return (int)((sf_u32)i + (KIND == SHORT ? 0 : (sf_u32)i / SF_LEAF)) * SF_CELL; }

/* What a cell holds: an element, or all that was read for it if operands are spread; later its
 * result. */
#if SF_SPREAD && SF_LOAD_FUSED
typedef sf_vector sf_kept;
#else
typedef sf_loaded sf_kept;
#endif
#if SF_SPREAD && SF_STORE_FUSED
#define SF_STORED_EARLY 1
typedef sf_result sf_done;
#else
#define SF_STORED_EARLY 0
typedef sf_answer sf_done;
#endif
static_assert(sizeof(sf_kept) <= SF_CELL && (SF_FOLDS || sizeof(sf_done) <= SF_CELL), "the host has another idea of a cell");
static_assert(SF_FUSED || SF_IN_SIZE <= SF_CELL, "elements as they are in memory fit too");
static_assert(SF_CELL % alignof(sf_kept) == 0 && (SF_FOLDS || SF_CELL % alignof(sf_done) == 0), "a cell after another");

/* A warp's window. */
struct sf_window {
        sf_line line; /* the line, at its index 0 */
        sf_i64 first;
        sf_place place;
        unsigned char *cells;
        const int *rows; /* MIXED: where each row begins in the group, plus 2^16 times its length */
        int lane;
};

/* A group: the position of its first element in the window, and how many elements it has. */
struct sf_group {
        int at, count;
        int rows;
        sf_u32 number; /* which chunk of its segment the first part is */
        bool ends;     /* the first part ends its segment */
};
/* A lane's row. */
struct sf_row {
        sf_i64 segment;
        int at, length;   /* at: counted from the group's first element */
        int number, rows; /* its number in its part, and how many rows the part has */
        bool leads;       /* it belongs to the first part */
};

#include "segments_flat.cuh"

/* ------------------------------------------------------------------------------------------------
 * Elements
 * ---------------------------------------------------------------------------------------------- */

SF_DEVICE sf_kept sf_keep(const sf_params &p, const sf_vector &v)
{
#if SF_SPREAD && SF_LOAD_FUSED
        (void)p;
        return v;
#else
        return sf_read(p, v);
#endif
}
SF_DEVICE sf_loaded sf_use(const sf_params &p, const sf_kept &kept, const sf_vector &spread)
{
        (void)spread;
#if SF_SPREAD && SF_LOAD_FUSED
        return sf_read(p, sf_with_spread(kept, spread));
#else
        (void)p;
        return kept;
#endif
}

/* Lanes read 32 elements at a time, a strip: of one row, or of several rows if SF_LEAF is less.
 * Where is the lane's element of a strip, counted from sf_lane_begins? -1: it has none. */
template <sf_kind KIND> SF_DEVICE int sf_in_strip(const sf_window &w, const sf_group &g, int strip)
{
        if (KIND != MIXED || SF_LEAF > 32)
                return strip * 32 + w.lane < g.count ? strip * 32 : -1;
        const int row = w.rows[strip * (32 / (SF_LEAF > 32 ? 32 : SF_LEAF)) + w.lane / SF_LEAF];
        return w.lane % SF_LEAF < row >> 16 ? row & 0xffff : -1;
}
template <sf_kind KIND> SF_DEVICE int sf_lane_begins(const sf_window &w) { return KIND == MIXED ? w.lane % SF_LEAF : w.lane; }

/* Copies STRIPS strips to cells; all loads are under way at once. Cells past the end of a row get
 * the neutral value; if operands are spread, sf_take does that. ALL: every lane has an element
 * in every strip. */
template <sf_kind KIND, int STRIPS, bool ALL> SF_DEVICE void sf_stage_some(const sf_params &p, const sf_window &w, const sf_group &g, const sf_line &from, int strip)
{
#if SF_RAW_ROWS
        unsigned char *to = w.cells + sf_cell<KIND>(strip * 32 + w.lane);
        const char *own = sf_anew(from.x + strip * 32 * SF_IN_SIZE);
#pragma unroll
        for (int j = 0; j < STRIPS; j++)
                if (ALL || (strip + j) * 32 + w.lane < g.count)
                        sf_copy_async<SF_IN_SIZE>(to + sf_cell<KIND>(j * 32),
                                                  own + j * 32 * SF_IN_SIZE);
        (void)p;
#else
        sf_vector raw[STRIPS];
        bool there[STRIPS];
        const sf_line here = KIND == MIXED ? from : sf_line_at(p, from, strip * 32);
#pragma unroll
        for (int j = 0; j < STRIPS; j++) {
                const int found = ALL ? 0 : sf_in_strip<KIND>(w, g, strip + j),
                          at = KIND == MIXED ? found : j * 32;
                there[j] = found >= 0;
                raw[j] = sf_fetch(p, here, at, there[j] ? CHUNK : at);
        }
        unsigned char *cells = w.cells + sf_cell<KIND>(strip * 32 + w.lane);
#pragma unroll
        for (int j = 0; j < STRIPS; j++) {
#if SF_SPREAD && SF_LOAD_FUSED
                const sf_kept kept = raw[j];
#else
                const sf_kept kept = sf_pick(there[j], sf_keep(p, raw[j]), sf_absent(p));
#endif
                *(sf_kept *)(cells + sf_cell<KIND>(j * 32)) = kept;
        }
#endif
}
template <sf_kind KIND> SF_DEVICE void sf_stage(const sf_params &p, const sf_window &w, const sf_group &g)
{
        /* A vector without operands, such as that of a count, is one byte. */
        enum { WIDE = (int)((sizeof(sf_vector) + 3) / 4), MOST = 32 / (WIDE > 16 ? 32 : WIDE > 8 ? 16 : WIDE > 4 ? 8 : WIDE > 2 ? 4 : WIDE), AHEAD = MOST < SF_LEAF ? MOST : SF_LEAF };
        enum { SOME = AHEAD < 8 ? AHEAD : 8 };
        const sf_line from = sf_line_at(p, w.line, w.first + g.at + sf_lane_begins<KIND>(w));
        if (KIND == ALONE && AHEAD == SF_LEAF && !SF_RAW_ROWS && g.count == CHUNK)
                return sf_stage_some<KIND, AHEAD, true>(p, w, g, from, 0);
        int strip = 0;
        if (KIND == ALONE)
#pragma unroll 1
                for (; (strip + SOME) * 32 <= g.count; strip += SOME)
                        sf_stage_some<KIND, SOME, true>(p, w, g, from, strip);
#pragma unroll 1
        for (; strip * 32 < (SF_RAW_ROWS ? g.count : g.rows * SF_LEAF); strip += SOME)
                sf_stage_some<KIND, SOME, false>(p, w, g, from, strip);
        if (SF_RAW_ROWS)
                sf_copy_commit();
}
/* Waits until all of that is there. */
SF_DEVICE void sf_staged()
{
        if (SF_RAW_ROWS)
                sf_copy_wait<0>();
        sf_sync_warp();
}

/* The values of a row's elements. Past the end of the row they are neutral; a lane without a row
 * may have garbage, which nobody uses. */
template <sf_kind KIND, int N> SF_DEVICE void sf_take(const sf_params &p, const sf_window &w, const sf_group &g, const sf_row &row, sf_acc (&v)[N])
{
        const sf_vector spread = sf_fetch_spread(p, w.line, row.segment);
        const sf_i64 from_number =
                (row.leads ? (sf_i64)g.number * CHUNK : 0) + row.number * SF_LEAF;
        const sf_acc neutral = sf_neutral(p);
        const sf_u32 there = KIND != SHORT && !SF_SPREAD ? ~0u : sf_up_to(row.length);
        if (KIND == SHORT) {
                const sf_line line = sf_line_at(p, w.line, w.first + g.at + row.at);
                sf_vector raw[N];
#pragma unroll
                for (int i = 0; i < N; i++)
                        raw[i] = sf_fetch(p, line, i, row.length);
#pragma unroll
                for (int i = 0; i < N; i++)
                        v[i] = sf_choose(
                                there >> i & 1,
                                sf_lifted(sf_use(p, sf_keep(p, raw[i]), spread), from_number + i),
                                neutral);
                return;
        }
#if SF_FLAT && !SF_FOLDS
        if (KIND == MIXED) {
                const int swap = w.lane & (SWAPS - 1), length = row.length;
                const unsigned char *cells =
                        w.cells + ((sf_u64)(w.line.x + (w.first + g.at) * SF_IN_SIZE) & 15) +
                        (length ? row.at : 0) * SF_IN_SIZE;
                const sf_u32 taken = sf_swap_bits(sf_up_to(length), swap);
                const unsigned char *from[SWAPS];
#pragma unroll
                for (int i = 0; i < SWAPS; i++)
                        from[i] = cells + (i ^ swap) * SF_IN_SIZE;
#pragma unroll
                for (int i = 0; i < N; i++) {
                        sf_vector raw = sf_no_vector();
                        sf_shared_glance(from[i % SWAPS] + i / SWAPS * SWAPS * SF_IN_SIZE, raw.x,
                                         taken >> i & 1);
                        v[i] = sf_lifted(sf_read(p, raw), from_number + (i ^ swap));
                }
                sf_swap(v, swap);
                return;
        }
#endif
        const unsigned char *cells = w.cells + sf_cell<KIND>(w.lane * SF_LEAF);
#if SF_RAW_ROWS
#pragma unroll
        for (int i = 0; i < N; i++) {
                sf_vector raw = sf_no_vector();
                sf_shared_glance(cells + i * SF_CELL, raw.x, i < row.length);
                v[i] = sf_lifted(sf_read(p, raw), from_number + i);
        }
#else
#pragma unroll
        for (int i = 0; i < N; i++) {
                const sf_kept kept = *(const sf_kept *)(cells + i * SF_CELL);
                v[i] = sf_choose(there >> i & 1,
                                 sf_lifted(sf_use(p, kept, spread), from_number + i), neutral);
        }
#endif
}

/* ------------------------------------------------------------------------------------------------
 * Groups
 * ---------------------------------------------------------------------------------------------- */
#if !SF_MAPS
/* Combines the rows of each part. `total` is the row's at first. In a scan it becomes that of all
 * rows of the part up to this one; in a fold, the first row's becomes that of the part. */
template <int N> SF_DEVICE void sf_combine_rows(const sf_row &row, int lane, sf_acc (&v)[N], sf_acc &total)
{
#pragma unroll
        for (int b = 1; b < 32; b *= 2) {
#if SF_FOLDS
                const sf_acc right = sf_shuffle(total, (lane + b) & 31);
                const bool takes = !(row.number & (2 * b - 1)) && row.number + b < row.rows;
                total = sf_choose(takes, sf_settled(sf_combine(total, right)), total);
                (void)v;
#else
                const sf_acc left = sf_shuffle(total, (lane - (row.number & (b - 1)) - 1) & 31);
                if (row.number & b) {
#pragma unroll
                        for (int i = 0; i < N; i++)
                                v[i] = sf_combine(left, v[i]);
                        total = sf_settled(v[N - 1]);
                }
#endif
        }
}

/* Combines the rows of the first part with the totals of chunks before it, one for each bit set in
 * its number; `before` becomes all of these together. All are asked for at once. tells: the chunk
 * is full and more follow it, so a total is published, as soon as it is known. */
template <int N>
SF_DEVICE void sf_take_lefts(const sf_params &p, const sf_window &w, const sf_group &g,
                             const sf_row &row, bool tells, sf_acc (&v)[N], sf_acc &total,
                             sf_acc &before)
{
        const sf_u32 early = tells ? sf_early(g.number) : 0;
        sf_u32 bits = SF_FOLDS && tells ? early : g.number;
        sf_look look;
        sf_acc own = sf_neutral(p);
        bool any = false;
        if (bits >> w.lane & 1)
                look = sf_look_for(p, w.place, g.number, w.lane);
#pragma unroll 1
        for (;; bits &= bits - 1, any = true) {
                if (tells && !(bits & early)) {
                        tells = false;
                        if (w.lane == (SF_FOLDS ? 0 : 31))
                                sf_tell(w.place, total);
                }
                if (!bits)
                        return;
                if (w.lane == sf_lowest(bits))
                        own = sf_found(p, look, w.place.mark);
                const sf_acc left = sf_shuffle(own, sf_lowest(bits));
                if (row.leads)
                        sf_take_one_left(left, any, v, total, before);
        }
}
#endif

#if !SF_FOLDS
/* Copies a row's results to cells. */
template <sf_kind KIND, int N>
SF_DEVICE void sf_put(const sf_params &p, const sf_window &w, const sf_group &g, const sf_row &row, const sf_acc (&v)[N], sf_acc before)
{
        const sf_i64 length = sf_length(p, row.segment);
#if SF_FLAT_RESULTS
        if (KIND == SHORT || (SF_FLAT && KIND == MIXED)) {
                unsigned char *cells = w.cells +
                                       ((sf_u64)(w.line.y + (w.first + g.at) * SF_OUT_SIZE) & 15) +
                                       (row.length ? row.at : 0) * SF_OUT_SIZE;
                const int swap = KIND == SHORT ? 0 : w.lane & (SWAPS - 1);
                const sf_u32 taken = sf_swap_bits(sf_up_to(row.length), swap);
                sf_result done[N];
#pragma unroll
                for (int i = 0; i < N; i++)
                        done[i] = sf_result_of(
                                p,
                                sf_answered(p,
                                            SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i],
                                            length),
                                sf_results());
                if (KIND == MIXED) {
                        sf_swap(done, swap);
                        sf_sync_warp(); /* all have taken their elements */
                }
                unsigned char *to[SWAPS];
#pragma unroll
                for (int i = 0; i < SWAPS; i++)
                        to[i] = cells + (i ^ swap) * SF_OUT_SIZE;
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (taken >> i & 1)
                                sf_shared_store(to[i % SWAPS] + i / SWAPS * SWAPS * SF_OUT_SIZE,
                                                done[i]);
                return;
        }
#endif
        const sf_u32 there = KIND != SHORT && !SF_STORED_EARLY ? ~0u : sf_up_to(row.length);
        unsigned char *cells = w.cells + sf_cell<KIND>(KIND == SHORT ? row.at : w.lane * SF_LEAF);
#pragma unroll
        for (int i = 0; i < N; i++)
                if (there >> i & 1) {
                        const sf_answer result = sf_answered(p, SF_EXCLUSIVE ? (i ? v[i ? i - 1 : 0] : before) : v[i], length);
#if SF_STORED_EARLY
                        const sf_line at = sf_line_at(p, w.line, w.first + g.at + row.at + i);
                        *(sf_done *)(cells + i * SF_CELL) = sf_result_of(p, result, sf_fetch_results(p, w.line, at, row.segment));
#else
                        *(sf_done *)(cells + i * SF_CELL) = result;
#endif
                }
        (void)g;
}

/* Stores SOME strips of results from cells. ALL: every lane has one in every strip. */
template <sf_kind KIND, int SOME, bool ALL> SF_DEVICE void
sf_flush_some(const sf_params &p, const sf_window &w, const sf_group &g, const sf_line &to,
              int strip)
{
        const unsigned char *cells = w.cells + sf_cell<KIND>(strip * 32 + w.lane);
        const sf_line here = KIND == MIXED ? to : sf_line_at(p, to, strip * 32);
#pragma unroll
        for (int j = 0; j < SOME; j++) {
                const int found = ALL ? 0 : sf_in_strip<KIND>(w, g, strip + j),
                          at = KIND == MIXED ? found : j * 32;
                if (found < 0)
                        continue;
                const sf_done done = *(const sf_done *)(cells + sf_cell<KIND>(j * 32));
                char *place = here.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(at, p.sy);
#if SF_STORED_EARLY
                sf_store(place, done);
#else
                sf_store(place,
                         sf_result_of(p, done, sf_load_results(here, at, CHUNK, CHUNK, sf_along(p))));
#endif
        }
}

/* Stores a group's results: from cells to memory. */
template <sf_kind KIND> SF_DEVICE void sf_flush(const sf_params &p, const sf_window &w,
                                                const sf_group &g)
{
        enum { SOME = KIND == SHORT ? 2 : 8 < SF_LEAF ? 8 : SF_LEAF };
#if SF_FLAT_RESULTS
        if (KIND == SHORT || (SF_FLAT && KIND == MIXED)) {
                enum { EACH = 16 / SF_OUT_SIZE, ROW = KIND == SHORT ? (int)FEW : SF_LEAF };
                char *to = w.line.y + (w.first + g.at) * SF_OUT_SIZE;
                return sf_store_flat<SF_OUT_SIZE, (32 * ROW / EACH + 31) / 32>(
                        to, g.count, w.cells + ((sf_u64)to & 15), w.lane);
        }
#endif
        const sf_line to = sf_line_at(p, w.line, w.first + g.at + sf_lane_begins<KIND>(w));
        int strip = 0;
        if (KIND == ALONE)
#pragma unroll 1
                for (; (strip + SOME) * 32 <= g.count; strip += SOME)
                        sf_flush_some<KIND, SOME, true>(p, w, g, to, strip);
#pragma unroll 1
        for (; strip * 32 < (KIND == SHORT ? g.count : g.rows * SF_LEAF); strip += SOME)
                sf_flush_some<KIND, SOME, false>(p, w, g, to, strip);
}
#endif

/* N: no row has more elements. The cells may be used again when this returns. */
template <sf_kind KIND, int N> SF_DEVICE void sf_run_group(const sf_params &p, const sf_window &w,
                                                           const sf_group &g, const sf_row &row)
{
#if SF_FLAT
        if (KIND == MIXED) {
                const char *from = w.line.x + (w.first + g.at) * SF_IN_SIZE;
                sf_fetch_flat<SF_IN_SIZE>(from, g.count, w.cells + ((sf_u64)from & 15), w.lane);
        }
#endif
        if (KIND == ALONE || (KIND == MIXED && !SF_FLAT)) {
                sf_stage<KIND>(p, w, g);
                sf_staged();
        }
        sf_acc v[N], total = sf_identity(p), before = total;
        (void)total, (void)before;
#if SF_FLAT_ALONE
        if (KIND == MIXED)
                total = sf_fold_flat<N>(p, w, g, row);
#endif
        if (!SF_FLAT_ALONE || KIND != MIXED)
                sf_take<KIND>(p, w, g, row, v);
#if !SF_MAPS
        if (!SF_FLAT_ALONE || KIND != MIXED) {
                sf_combine_leaf(v);
                total = sf_settled(v[N - 1]);
        }
        if (KIND != SHORT)
                sf_combine_rows(row, w.lane, v, total);
        const bool tells = KIND != SHORT && !g.ends;
        if (tells || g.number)
                sf_take_lefts(p, w, g, row, tells, v, total, before);
#endif
#if SF_FOLDS
        if (row.length && !row.number && (!row.leads || g.ends))
                sf_store_entry(p, w.line, row.segment, total);
#else
#if SF_EXCLUSIVE
        const sf_acc last = sf_shuffle(total, (w.lane - 1) & 31);
        before = sf_choose(row.number != 0, last, sf_choose(row.leads, before, sf_identity(p)));
#endif
        sf_put<KIND>(p, w, g, row, v, before);
        sf_sync_warp();
        sf_flush<KIND>(p, w, g);
#endif
        sf_sync_warp();
}

/* Computes up to STRIPS strips of a single part, from element `first` on; in each strip a lane has
 * one element. */
template <int STRIPS> SF_DEVICE void sf_run_lanes(const sf_params &p, const sf_window &w,
                                                  const sf_group &g, sf_row row, int first)
{
        const int lane = w.lane, left = g.count - first - lane;
        const sf_line line = sf_line_at(p, w.line, w.first + g.at + first + lane);
        const sf_vector spread = sf_fetch_spread(p, w.line, row.segment);
        const sf_i64 from = (sf_i64)g.number * CHUNK + first + lane;
        const sf_acc neutral = sf_neutral(p);
        sf_vector raw[STRIPS];
        sf_acc v[STRIPS];
#pragma unroll
        for (int j = 0; j < STRIPS; j++)
                raw[j] = sf_fetch(p, line, j * 32, left);
#pragma unroll
        for (int j = 0; j < STRIPS; j++)
                v[j] = sf_choose(j * 32 < left, sf_lifted(sf_use(p, sf_keep(p, raw[j]), spread), from + j * 32), neutral);
        sf_acc total = v[0], before = sf_identity(p);
        row.leads = true;
        (void)total, (void)before;
#if !SF_MAPS
#pragma unroll
        for (int b = 1; b < 32; b *= 2)
#pragma unroll
                for (int j = 0; j < STRIPS; j++) {
                        const sf_acc other = sf_shuffle(v[j], SF_FOLDS ? (lane + b) & 31 : (lane & -(2 * b)) | (b - 1));
                        const sf_acc both = sf_settled(SF_FOLDS ? sf_combine(v[j], other) : sf_combine(other, v[j]));
                        v[j] = sf_choose(SF_FOLDS ? !(lane & (2 * b - 1)) : lane & b, both, v[j]);
                }
#pragma unroll
        for (int b = 1; b < STRIPS; b *= 2)
#pragma unroll
                for (int j = 0; j < STRIPS; j++) {
                        if (SF_FOLDS && j % (2 * b) == 0)
                                v[j] = sf_settled(sf_combine(v[j], v[(j + b) % STRIPS]));
                        if (!SF_FOLDS && j & b)
                                v[j] = sf_settled(sf_combine(sf_shuffle(v[j < b ? 0 : j / b * b - 1], 31), v[j]));
                }
        total = v[0];
        if (g.number)
                sf_take_lefts(p, w, g, row, false, v, total, before);
#endif
#if SF_FOLDS
        if (!lane)
                sf_store_entry(p, w.line, row.segment, total);
#else
        const sf_i64 length = sf_length(p, row.segment);
#pragma unroll
        for (int j = 0; j < STRIPS; j++) {
                sf_acc own = v[j];
#if SF_EXCLUSIVE
                const sf_acc last = j ? sf_shuffle(v[j ? j - 1 : 0], 31) : before, next = sf_shuffle(v[j], (lane - 1) & 31);
                own = sf_choose(lane, next, last);
#endif
                if (j * 32 < left) {
                        const sf_line at = sf_moved(line, j * 32, sf_along(p));
                        sf_store(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(j * 32, p.sy), sf_result_of(p, sf_answered(p, own, length), sf_fetch_results(p, w.line, at, row.segment)));
                }
        }
#endif
}
