/*
 * Chains down columns: one launch of kernels/apply_columns.cu. Strips of columns stay in registers,
 * of one block or of a team of blocks. What does not suit it runs one stage after another.
 */
#include "cuda/emit_chain.h"

#include <string.h>

typedef struct strips {
        int64_t width, across, items, warps, lines, per;
        int64_t team;  /* blocks that share a strip, */
        int64_t cluster; /* as a cluster; 1: not */
        int64_t units; /* strips of all matrices */
        int64_t resident, shared;
        int64_t groups; /* of LINES strips, or teams, that work at once */
        int keep;
} strips;

/* Columns are contiguous, or one element stands for all of them. */
static bool lies_across(const chain *c, int32_t across)
{
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                if (s->made < 0 && s->step[across] && s->step[across] != size_of((int32_t)s->dt))
                        return false;
        }
        return true;
}

/* The widest vectors of columns that all tensors allow. */
static int64_t widest(const chain *c, int32_t across, int64_t columns)
{
        int64_t largest = 1, best = 1;
        for (int32_t k = 0; k < c->sources; k++)
                if (c->source[k].made < 0 && c->source[k].step[across])
                        largest = at_least(largest, size_of((int32_t)c->source[k].dt));
        for (int32_t k = 0; k < c->count; k++)
                if (c->link[k].kind == KIND_MAP)
                        largest = at_least(largest, size_of((int32_t)c->link[k].step.out));
        for (int64_t w = 2; w <= 16 / largest && columns % w == 0; w *= 2) {
                bool fits = true;
                for (int32_t k = 0; k < c->sources; k++) {
                        const source *s = &c->source[k];
                        const int64_t bytes = w * size_of((int32_t)s->dt);
                        if (s->made < 0 && s->step[across])
                                fits = fits && aligned_to(s->along, bytes) &&
                                       sf_cuda_suits((int64_t)(uintptr_t)s->data, s->step, across, bytes);
                }
                for (int32_t k = 0; k < c->count; k++) {
                        const sf_step *s = &c->link[k].step;
                        const int64_t bytes = w * size_of((int32_t)s->out);
                        if (c->link[k].kind != KIND_MAP ||
                            s->dims[across].y != size_of((int32_t)s->out))
                                continue;
                        fits = fits && aligned_to((int64_t)(uintptr_t)s->y, bytes) &&
                               aligned_to(s->dims[s->nbatch].y, bytes);
                        for (int32_t d = 0; d < across; d++)
                                fits = fits && aligned_to(s->dims[d].y, bytes);
                }
                if (fits)
                        best = w;
        }
        return best;
}

/* Bytes of a thread's vectors that are copied by way of shared memory; 0: they cannot be. */
static int64_t copied_bytes(const chain *c, int32_t across, const strips *u)
{
        int64_t sum = 0;
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                const int64_t bytes = u->width * size_of((int32_t)s->dt);
                if (!(c->copied >> k & 1) || !moves(s) || !s->step[across])
                        continue;
                if (bytes < 4)
                        return 0;
                sum += bytes;
        }
        return sum * u->items;
}

/* How many rows and columns a thread, a warp and a block have, in strips of so many bytes. False:
 * more blocks than a cluster has would share a strip. H200, softmax of columns of 65536, a team of
 * 64 blocks: 0.35 of a copy; one stage after another 0.46. Only tests have teams. Columns of
 * 16384, f32: 16 blocks of 512 threads,
 * strips of 128 bytes, 0.58 to 0.70; 1024 threads 0.49 to 0.67; strips of 64 bytes, 8 blocks, 0.53
 * to 0.57; of 32 bytes 0.32 to 0.42. */
static bool cut_strips(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip,
                       int64_t columns, int64_t bytes, strips *u)
{
        const source *x = &c->source[c->link[0].number[0]];
        const int64_t line = bytes / size_of((int32_t)x->dt);
        const int64_t most = tile.threads / 32;
        u->items = pow2_down(at_least(4 * tile.elements / sf_cuda_held_bytes(c), 1));
        u->items = at_least(u->items / u->width, 1);
        u->across = at_most(at_least(line / u->width, 1), 32);
        while (u->across > 1 && u->across / 2 * u->width >= columns)
                u->across /= 2;
        /* Few rows: a warp has more columns, then a thread fewer rows. */
        while (u->across < 32 && 16 / u->across * u->items >= c->n &&
               u->across * u->width < columns)
                u->across *= 2;
        while (u->items > 1 && 32 / u->across * u->items / 2 >= c->n)
                u->items /= 2;
        const int64_t leaf = 32 / u->across * u->items;
        u->team = 1;
        u->warps = pow2_up(ceil_div(c->n, leaf));
        if (u->warps > most) {
                u->warps = most;
                u->team = ceil_div(c->n, leaf * most);
        }
        u->lines = u->team > 1 ? 1 : at_least(tile.more / u->warps, 1);
        u->per = pow2_up(ceil_div(u->team, 32));
        u->resident = at_least(tile.resident * tile.threads / (32 * u->warps * u->lines), 1);
        const int64_t widest_cluster = at_least(chip->cluster, chip->widest_cluster);
        const bool alone = chip->small_tiles && c->n % 2; /* in tests some are teams */
        u->cluster = u->team <= widest_cluster && !alone ? u->team : 1;
        return chip->small_tiles ? u->team <= 4 : u->team == 1 || u->cluster > 1;
}

/* A block that has its multiprocessor for itself, and a team, have several strips, one after another,
 * and load the next one while they compute. Clusters have fewer each and come in waves. */
enum { CLUSTER_WAVES = 8 };
static void keep_strips(const chain *c, const sf_cuda_chip *chip, int32_t across, strips *u)
{
        const int64_t threads = 32 * u->warps * u->lines, beside = u->across * u->width;
        const int64_t copied = copied_bytes(c, across, u) * threads;
        const bool few = chip->small_tiles ? u->units % 2 != 0 : u->resident == 1;
        const bool loops = u->team > 1 || few, alone = u->warps == 1 && u->team == 1;
        u->shared = sf_down_kept(alone, u->lines, beside, u->warps, sf_cuda_slot_size(c),
                                 u->cluster, sf_cuda_folds(c));
        u->keep = 1;
        u->groups = ceil_div(u->units, u->lines);
        const int64_t shared = u->shared + copied;
        if (chip->capability >= 80 && copied && shared <= chip->shared_per_block &&
            u->resident * (shared + 1024) <= chip->shared_per_multiprocessor) {
                u->keep = loops ? 4 : 3;
                u->shared = shared;
        }
        if (u->keep == 4 || u->team > 1) {
                const int64_t at_once = at_least(chip->multiprocessors * u->resident / u->team, 1);
                int64_t rounds = u->keep == 4 ? ceil_div(u->groups, at_once) : 1;
                if (u->cluster > 1 && !chip->small_tiles) /* how many run at once is not known */
                        rounds = at_least(rounds / CLUSTER_WAVES, 1);
                u->groups = ceil_div(u->groups, rounds);
        }
}

/* With few strips of few rows, most multiprocessors would have nothing to do. */
static bool fills(const chain *c, const sf_cuda_chip *chip, const strips *u, int64_t batch)
{
        return chip->small_tiles || c->n * batch <= 1 << 18 ||
               2 * u->groups * u->team >= chip->multiprocessors;
}

sf_status sf_cuda_plan_columns(const sf_context *ctx, chain *c, int64_t batch,
                               const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        sf_cuda_launch *l = &plan->launch[0];
        sf_cuda_spec *spec = &l->spec;
        const int32_t across = c->nbatch - 1;
        const source *x = &c->source[c->link[0].number[0]];
        sf_cuda_tile tile;
        strips u;
        *fits = false;
        if (across < 0 || !(c->link[0].loads & 1) ||
            x->step[across] != size_of((int32_t)x->dt) || !lies_across(c, across))
                return SF_OK;
        const int64_t columns = c->link[0].step.dims[across].len, matrices = batch / columns;
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_APPLY_COLUMNS;
        u.width = spec->width = (int32_t)widest(c, across, columns);
        c->width = (int)u.width;
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, 8, 8, &tile));
        /* H200, RMS norm over 64 channels: strips of 256 bytes 0.95 of a copy, of 128 0.92; of bf16
         * 0.84 and 0.93. */
        const int64_t bytes = at_most(64 * size_of((int32_t)x->dt), 256);
        if (!(cut_strips(c, tile, chip, columns, bytes, &u) && u.team == 1) &&
            !cut_strips(c, tile, chip, columns, 128, &u))
                return SF_OK;
        const int64_t beside = u.across * u.width, strips_each = ceil_div(columns, beside);
        u.units = matrices * strips_each;
        keep_strips(c, chip, across, &u);
        if (!fills(c, chip, &u, batch))
                return SF_OK;
        sf_cuda_keep_folded(c);
        spec->threads = (int32_t)(32 * u.warps * u.lines);
        spec->items = (int32_t)u.items;
        spec->flags = SF_CUDA_DOWN | (u.team == 1 ? SF_CUDA_SINGLE : 0);
        spec->extra[SF_CUDA_NBATCH] = across;
        spec->extra[SF_CUDA_NSEQ] = 1;
        const int64_t room = chip->threads_per_multiprocessor / spec->threads;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_least(at_most(u.resident, room), 1);
        spec->extra[APPLY_COLUMNS_WARPS] = (int32_t)u.warps;
        spec->extra[APPLY_COLUMNS_KEEP] = u.keep;
        spec->extra[APPLY_COLUMNS_PER] = (int32_t)u.per;
        spec->extra[APPLY_COLUMNS_CLUSTER] = (int32_t)u.cluster;
        spec->extra[APPLY_COLUMNS_ACROSS] = (int32_t)u.across;
        sf_cuda_describe_chain(c, across, spec);
        const int64_t blocks = u.groups * u.team;
        const bool watched = u.team > u.cluster;
        const int64_t totals = u.units * sf_cuda_folds(c) * beside * u.team;
        const size_t words = watched ? (size_t)(totals * (sf_cuda_slot_size(c) / 4)) : 0;
        if (blocks > INT32_MAX || u.shared > chip->shared_per_block ||
            sf_cuda_params_parts(spec).end > SF_CUDA_MAX_PARAMS)
                return SF_OK;
        sf_cuda_put_chain(c, across, u.units,
                          (int64_t[4]){u.team, strips_each, u.groups * u.lines, blocks}, l);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)u.shared;
        l->scratch_fields = watched;
        l->overlaps = true;
        plan->steps = c->count;
        plan->launches = 1;
        plan->scratch = watched ? SF_TICKETS + 8 * words : 0;
        plan->watched = watched;
        *fits = true;
        return SF_OK;
}
