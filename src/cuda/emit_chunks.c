/* Scans in chunks: one launch folds them, a second combines the totals where that pays, and the
 * last one scans the chunks. For sequences side by side, which in a chained scan would have more
 * totals to look back for than elements to move. */
#include "cuda/emit_draft.h"

#include <string.h>

/* How many chunks a warp of scan_totals.cu holds in registers; a block has at most 32 warps. */
static int64_t held(const sf_step *s)
{
        return 128 / value_size(s);
}

dealing sf_cuda_chunks(const sf_step *step, int64_t tiles, int64_t lines, int64_t wanted)
{
        dealing c = {0, tiles - 1};
        wanted = at_most(wanted, lines * 32 * held(step));
        while (c.folded && lines * (c.folded + 1) > wanted)
                /* n + 1 chunks combined in pairs are n / 2 + 1 */
                c = (dealing){c.log + 1, c.folded / 2};
        return c;
}

/* Integers narrower than the kernels hold them are stored in scratch as they are held. */
static int32_t carried(sf_dt acc)
{
        if (size_of((int32_t)acc) >= 4)
                return (int32_t)acc;
        return acc == SF_DT_I8 || acc == SF_DT_I16 ? SF_DT_I32 : SF_DT_U32;
}

int64_t sf_cuda_total_across(const sf_step *line, int64_t columns)
{
        return line->sibling && columns > 1 ? line->sibling->dims[line->nbatch].y : 0;
}

/* A launch made from the scan's draft, which works on totals. */
static draft on_totals(const draft *scan, sf_cuda_launch *launch, int32_t cleared)
{
        draft d = *scan;
        d.launch = launch;
        memcpy(&launch->spec, &scan->launch->spec, offsetof(sf_cuda_spec, fused.code));
        launch->spec.flags = (launch->spec.flags & ~cleared) | SF_CUDA_PARTIAL;
        launch->spec.out = carried(scan->l.step->acc);
        d.p.initial = 0;
        return d;
}

sf_status sf_cuda_in_chunks(const sf_context *ctx, const sf_cuda_chip *chip, draft *d, dealing c, int64_t lines, int64_t columns, int64_t shared,
                            bool each_for_itself, sf_cuda_plan *plan)
{
        int64_t acc = value_size(d->l.step), outer = d->l.step->batch / (d->l.nbatch < d->l.step->nbatch ? d->l.line.len : 1);
        columns = sf_padded(columns, d->launch->spec.flags & SF_CUDA_RAGGED ? d->l.width : 1);
        plan->launches = 1;
        if (!c.folded)
                return sf_cuda_finish(ctx, chip, d, lines, shared);
        draft fold = on_totals(d, &plan->launch[0], SF_CUDA_INITIAL | SF_CUDA_EXCLUSIVE | SF_CUDA_LEFTS);
        SF_TRY(sf_cuda_finish(ctx, chip, &fold, lines * c.folded, shared));
        if (!each_for_itself) {
                draft tree = on_totals(d, &plan->launch[1], ~0);
                sf_cuda_spec *spec = &tree.launch->spec;
                spec->kernel = SF_CUDA_SCAN_TOTALS;
                spec->in = spec->out;
                spec->threads = (int32_t)(32 * pow2_up(ceil_div(c.folded, held(d->l.step))));
                spec->items = (int32_t)held(d->l.step);
                spec->width = 1;
                memset(spec->extra + SF_CUDA_OWN, 0, sizeof spec->extra - SF_CUDA_OWN * sizeof *spec->extra);
                spec->extra[SF_CUDA_RESIDENT] = 1;
                tree.l.loads = false;
                tree.p.inner = columns;
                tree.p.number[0] = c.folded;
                SF_TRY(sf_cuda_finish(ctx, chip, &tree, outer * ceil_div(columns, 32), spec->threads * acc));
        }
        SF_TRY(sf_cuda_finish(ctx, chip, d, lines * (c.folded + 1), shared));
        plan->launches = each_for_itself ? 2 : 3;
        plan->scratch = (size_t)(outer * c.folded * columns * acc);
        for (int32_t i = 0; i < plan->launches; i++)
                plan->launch[i].scratch_fields = 1;
        return SF_OK;
}

/* Are the vectors that threads hold, and the totals, few enough? */
static bool in_pieces(const sf_step *s, int64_t columns)
{
        const int64_t size = size_of(s->in), words = value_size(s) / 4;
        return size_of(s->out) == size && !s->m && !s->fuse && !s->sibling &&
               odd_part(columns) * words <= 22 && columns * words <= 28;
}

bool sf_cuda_as_line(const sf_step *s, bool any, sf_step *line)
{
        const sf_dim *seq = s->dims + s->nbatch, *inner = seq - 1;
        int64_t in = size_of(s->in), out = size_of(s->out), len = inner->len, sign = seq->x < 0 ? -1 : 1;
        const sf_step *beside = s->sibling && !s->sibling->fold ? s->sibling : NULL;
        const int64_t size = beside ? size_of((int32_t)beside->out) : 0;
        if (beside && (beside->dims[s->nbatch - 1].y != size || beside->dims[s->nbatch].y != sign * len * size))
                return false;
        if ((odd_part(len) > 1 && !any) || len > SF_CUDA_NARROW || inner->x != in || inner->y != out || seq->x != sign * len * in || seq->y != sign * len * out ||
            (s->m && (inner->m != 1 || seq->m != sign * len)) || !sf_cuda_operands_flat(s) || (sign < 0 && (s->fuse || s->sibling)))
                return false;
        *line = *s;
        line->n = s->n * len;
        line->batch = s->batch / len;
        line->nbatch = s->nbatch - 1;
        /* Values to the left are one for each column: the stride is from column to column. */
        line->dims[s->nbatch - 1] = (sf_dim){line->n, sign * in, sign * out, s->m ? sign : 0, sign * inner->left};
        if (sign < 0) { /* from the last column to the first: their order does not matter */
                line->x = (const char *)s->x + (len - 1) * in;
                line->y = (char *)s->y + (len - 1) * out;
                line->m = s->m ? s->m + (len - 1) : NULL;
                line->left = s->left ? s->left + (len - 1) * inner->left : NULL;
        }
        return odd_part(len) == 1 || in_pieces(line, len);
}

sf_status sf_cuda_plan_narrow(const sf_context *ctx, const sf_step *line, int64_t columns, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        layout l = sf_cuda_layout(line, false, false);
        draft d = sf_cuda_draft(&plan->launch[2], SF_CUDA_SCAN_NARROW, &l);
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t width = l.width, share = at_most(columns, width);
        int64_t items = pow2_down(at_least(tile.elements / width, 1));
        while (items > 1 && tile.threads * items / 2 * width >= line->n)
                items /= 2;
        /* Lines of up to one tile: rather more blocks than larger ones. H200, (25726, 2165, 2) f32: 0.71
         * of a copy, 0.58. Of lines a little longer, smaller tiles, of which less is empty. */
        const bool many = !chip->small_tiles && line->batch >= 8 * (int64_t)chip->multiprocessors;
        if (many && tile.threads == 256 && line->n <= 2 * tile.threads * items * width) {
                tile.threads /= 2;
                tile.resident *= 2;
        }
        for (int64_t each; many && (each = tile.threads * items * width) < line->n && 4 * line->n < 3 * ceil_div(line->n, each) * each;)
                if (tile.threads > 64 && tile.resident <= 4) {
                        tile.threads /= 2;
                        tile.resident *= 2;
                } else if (items > 8) {
                        items /= 2;
                } else {
                        break;
                }
        int64_t tiles = ceil_div(line->n, tile.threads * items * width);
        dealing c = sf_cuda_chunks(line, tiles, line->batch, (int64_t)chip->multiprocessors * tile.resident);
        /* If there are enough lines to fill the chip, they are not cut into chunks. A short line
         * leaves much of its block idle. */
        *fits = c.folded > 0 || 4 * line->n >= tile.threads * items * width;
        if (!*fits)
                return SF_OK;
        /* A separate launch takes longer than going through the totals, as long as each thread has
         * only a few. */
        int64_t run = pow2_up(ceil_div(c.folded + 1, tile.threads * share / columns));
        bool each = run * share <= 16;
        if (each)
                d = sf_cuda_draft(&plan->launch[c.folded ? 1 : 0], SF_CUDA_SCAN_NARROW, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = tile.threads;
        spec->items = (int32_t)items;
        spec->extra[SF_CUDA_RESIDENT] = tile.resident;
        spec->extra[SCAN_NARROW_COLUMNS] = (int32_t)columns;
        spec->extra[SCAN_NARROW_RUN] = (int32_t)(each ? run : 0);
        d.p.number[0] = tiles;
        d.p.number[1] = c.log;
        d.p.number[2] = log2_up(tiles) + 1;
        d.across = sf_cuda_total_across(line, columns);
        int64_t totals = sf_narrow_end(tile.threads, columns, d.p.number[2], each ? share : 0);
        return sf_cuda_in_chunks(ctx, chip, &d, c, line->batch, columns, totals * value_size(line), each, plan);
}

/*
 * Strips of a cache line or two, whose tiles stay in registers. H200, share of a copy, so and in
 * chunks: (63415, 868) f32 0.79, 0.54; (100000, 1500) i32 0.81, 0.61; (3, 846168, 260) f32 0.71,
 * 0.58; (100000, 1001) f64 0.81, 0.57; (639450, 830) bool into i64 0.71, 0.47; (300000, 1000) f16
 * 0.51, 0.46; at odd addresses (1000000, 37) f32 0.73, 0.56; (2, 65536, 150) f16 0.30, 0.19;
 * (1804546, 160) u8 0.21, 0.09. Narrow elements leave few bytes in flight, and tiles of few strips
 * wait longer for each other: (524288, 100) f16 0.33, 0.45; (400000, 200) bf16 into f32 0.49, 0.62;
 * (2000000, 50) bf16 0.33, 0.46; (3000000, 100) u8 0.32, 0.47.
 */
sf_status sf_cuda_plan_tiles(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip,
                             sf_cuda_plan *plan, bool *fits)
{
        const sf_step *s = l->step;
        const int64_t in = size_of(s->in), out = size_of(s->out), words = value_size(s) / 4;
        const int64_t outer = s->batch / l->line.len;
        const int64_t pack = in >= 4 ? l->width / l->packs : at_most(l->width, 4);
        const layout own = sf_cuda_narrowed(*l, (int)at_most(pack, 16 / at_least(in, out)));
        const int64_t width = own.width, vectors = ceil_div(l->line.len, width);
        const int64_t most = width > 1 && in >= 4 ? 16 : 32;
        const int64_t strips = ceil_div(vectors, most), slots = ceil_div(vectors, strips);
        const bool plain = !s->fuse && !s->m && !s->sibling && !s->left &&
                           !sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        /* Of narrow matrices the rows, not the columns, fill a block: tiles of few rows would wait longer for each
         * other than they take. H200, share of a copy, eight groups and as many as there are threads for: (16777216,
         * 10) i8 into i64 0.11, 0.30; (4596924, 25) f16 into f32 0.26, 0.38; (3000000, 40) f16 0.24, 0.28. */
        const int64_t full = at_most(pow2_down(at_least(320 / slots, 1)), 64);
        const int64_t groups = chip->small_tiles ? 4 : slots < most ? full : 256 / most;
        const int64_t items = chip->small_tiles ? 2 : at_least(32 / (words * width), 1);
        const int64_t tiles = ceil_div(s->n, groups * items);
        *fits = plain && tiles > 1 && (in >= 4 || own.width / own.packs * in < 4 || outer * strips >= 4);
        if (!*fits)
                return SF_OK;
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SCAN_COLUMNS, &own);
        sf_cuda_spec *spec = &d.launch->spec;
        /* With 64 registers these would spill. H200, 768 threads and 1024: (100000, 1001) f64 0.81,
         * 0.54; (639450, 830) bool into i64 0.71, 0.62; (4, 20000, 999) f32 0.60, 0.54. Others:
         * (3, 846168, 260) f32 0.64, 0.71. */
        const int64_t places = (in >= 4 && width == 1) || words > 1 || out > 4 ? 768 : 1024;
        const int64_t threads = ceil_div(slots * groups, 32) * 32;
        const int depth = sf_ahead_depth(tiles);
        spec->threads = (int32_t)threads;
        spec->items = (int32_t)items;
        spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : (int32_t)at_most(places / threads, 8);
        spec->extra[SCAN_COLUMNS_PACKS] = own.packs;
        spec->extra[SCAN_COLUMNS_SLOTS] = slots == most ? (int32_t)slots : 0;
        spec->extra[SCAN_COLUMNS_GROUPS] = (int32_t)groups;
        spec->extra[SCAN_COLUMNS_CHUNKED] = 2;
        d.p.units = outer * strips;
        d.p.number[0] = tiles;
        d.p.number[1] = strips;
        d.p.number[2] = slots;
        d.p.number[3] = d.p.units * tiles;
        plan->launches = 1;
        const int64_t totals = d.p.units * sf_ahead_entries(tiles, depth) * slots * width;
        plan->scratch = (size_t)(SF_TICKETS + totals * words * 8);
        plan->watched = true;
        const int64_t shared = sf_ahead_end(groups, slots * width, depth) * value_size(s);
        SF_TRY(sf_cuda_finish(ctx, chip, &d, d.p.number[3], SF_BURST_TICKET + shared));
        d.launch->scratch_fields = 1;
        return SF_OK;
}
