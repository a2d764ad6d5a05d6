/*
 * A chain of rows together with folds across its rows: one launch of kernels/apply_group.cu, which
 * leaves totals of groups of rows in scratch, and one for each of these folds. What does not suit
 * it runs the chain, then the folds.
 */
#include "cuda/emit_chain.h"

#include <string.h>

_Static_assert(SF_CUDA_STEPS_MAX == SF_CUDA_CROSSES, "plans have no more steps than a launch");

typedef struct tiles {
        int64_t rows, warps, cluster, levels, resident, shared;
        int64_t count, groups; /* of all tiles, each of 2^levels */
        int64_t at_once;       /* groups */
} tiles;

/* Rows and columns change places, as apply_columns.cu has them. */
static void turn_over(chain *c)
{
        for (int32_t k = 0; k < c->sources; k++) {
                source *s = &c->source[k];
                const int64_t row = s->step[0];
                s->step[0] = s->along;
                s->along = row;
        }
        for (int32_t k = 0; k < c->count; k++) {
                sf_step *s = &c->link[k].step;
                const sf_dim row = s->dims[0];
                s->dims[0] = s->dims[1];
                s->dims[1] = row;
        }
}

/* Adds a fold across the rows; what it makes of its totals is left to fold.cu. */
static bool add_fold(chain *c, const sf_step *s, int64_t rows)
{
        const bool plain = s->op == SF_SUM || s->op == SF_MAX || s->op == SF_MIN;
        if (c->count == SF_CUDA_STEPS_MAX || !s->fold || !plain || s->m || s->values ||
            s->reverse || s->nbatch != 1 || s->nseq != 1 || s->n != rows || s->dims[0].len != c->n)
                return false;
        link *l = &c->link[c->count++];
        *l = (link){.step = *s, .kind = KIND_ACROSS, .mask = -1};
        if (s->fuse)
                l->plain = *s->fuse;
        else
                sf_step_plain_fuse(s, &l->plain);
        l->plain.store.count = l->plain.store.constants = 0;
        for (int32_t k = 0; k < l->plain.operands; k++)
                for (const link *from = c->link; from < l; from++)
                        if (from->kind != KIND_MAP && from->kind != KIND_ACROSS &&
                            l->plain.operand[k].data == from->step.y)
                                l->plain.operand[k].made = 1 + (int32_t)(from - c->link);
        l->step.fuse = &l->plain;
        l->step.sibling = NULL;
        l->step.has_initial = false;
        l->step.out = s->acc;
        l->loads = sf_cuda_program_reads(&l->plain.load, 1);
        return sf_cuda_read_operands(c, l);
}

/* What the folds across the rows read may be wider than all that the chain reads: no vector has more
 * than 16 bytes. */
static void narrow_vectors(chain *c)
{
        int64_t largest = 1;
        for (int32_t k = 0; k < c->sources; k++)
                if (c->source[k].made < 0)
                        largest = at_least(largest, size_of((int32_t)c->source[k].dt));
        while (c->width * largest > 16)
                c->width /= 2;
}

/* Are all tensors contiguous along the rows, and aligned as vectors are? */
static bool suits(const chain *c)
{
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                const int64_t size = size_of((int32_t)s->dt), bytes = c->width * size;
                if (s->made < 0 && (s->along || s->step[0]) &&
                    (s->step[0] != size || bytes < 4 ||
                     !aligned_to((int64_t)(uintptr_t)s->data | s->along, bytes)))
                        return false;
        }
        for (int32_t k = 0; k < c->count; k++) {
                const link *l = &c->link[k];
                const int64_t size = size_of((int32_t)l->step.out), bytes = c->width * size;
                if (l->mask >= 0 || (l->kind == KIND_MAP &&
                                     (l->step.dims[0].y != size || bytes < 4 || bytes > 16 ||
                                      !aligned_to((int64_t)(uintptr_t)l->step.y |
                                                  l->step.dims[1].y, bytes))))
                        return false;
        }
        return c->n % c->width == 0;
}

/* Bytes of a vector of all sources that differ from row to row: these are copied. */
static int64_t copied_bytes(chain *c)
{
        int64_t sum = 0;
        c->copied = 0;
        for (int32_t k = 0; k < c->sources; k++) {
                if (c->source[k].made >= 0 || !c->source[k].along)
                        continue;
                c->copied |= 1u << k;
                sum += c->width * size_of((int32_t)c->source[k].dt);
        }
        return sum;
}

/*
 * Narrow elements are computed in f32, and f64 takes more registers than itself: a thread has half
 * as many bytes of either. Blocks are as large as the tile allows, because clusters take long to
 * exchange totals. H200, layer norm, forward and backward, share of the floor: rows of 1024, 2048,
 * 4096, 8192, 16384 f32 0.90, 0.91, 0.84, 0.79, 0.74; in two reads 0.72, 0.72, 0.70, 0.66, 0.60.
 * Of bf16 rows of 2048, 4096, 8192 0.74, 0.73, 0.59; in two reads 0.60, 0.61, 0.59; of 16384, in
 * another run, 0.55 and 0.64.
 */
static bool cut_tiles(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip, int64_t rows,
                      int64_t bytes, int64_t downs, tiles *u)
{
        enum { CLUSTER_WAVES = 8, LEVELS_MOST = 5 };
        const bool small = chip->small_tiles;
        const int64_t leaves = ceil_div(c->n, 32 * c->width), slot = sf_cuda_slot_size(c);
        const int64_t room = chip->shared_per_multiprocessor;
        const int64_t held = small ? bytes * 2 << rows % 3 :
                                     4 * tile.elements / (c->width != 4 ? 2 : 1);
        int64_t most = tile.threads / 32;
        u->rows = at_most(pow2_down(at_least(held / bytes, 1)), 8);
        if (!small && leaves > most && 7 * most * ceil_div(leaves, most) > 8 * leaves)
                most /= 2; /* fewer warps without columns */
        u->cluster = ceil_div(leaves, most);
        u->warps = u->cluster > 1 ? most : leaves;
        u->count = ceil_div(rows, u->rows);
        const int64_t threads = 32 * u->warps;
        u->resident = at_least(tile.resident * tile.threads / threads, 1);
        u->shared = sf_group_copies(u->cluster, sf_cuda_folds(c), u->warps, 32 / u->rows, slot) +
                u->rows * threads * bytes;
        while (u->resident > 1 && u->resident * (u->shared + 1024) > room)
                u->resident--;
        u->at_once = at_least(chip->multiprocessors * u->resident / u->cluster, 1);
        /* Few totals in scratch, of which one block has all rows; but all blocks have groups. */
        const int64_t level = downs * c->width * slot * threads;
        for (u->levels = 0; u->levels < LEVELS_MOST; u->levels++, u->shared += level) {
                const int64_t next = ceil_div(u->count, (int64_t)2 << u->levels);
                const int64_t places = ceil_div(next, u->at_once) * u->at_once;
                const bool few = next < 3 * u->at_once && 10 * next < 9 * places;
                if ((small ? next < 2 : few) ||
                    (u->rows << u->levels >= 64 && u->count >> u->levels <= 512) ||
                    u->resident * (u->shared + level + 1024) > room)
                        break;
        }
        u->groups = ceil_div(u->count, (int64_t)1 << u->levels);
        /* How many clusters run at once is not known: they have fewer tiles and come in waves. */
        int64_t rounds = ceil_div(u->groups, u->at_once);
        if (u->cluster > 1 && !small)
                rounds = at_least(rounds / CLUSTER_WAVES, 1);
        u->at_once = ceil_div(u->groups, rounds);
        const bool slow = c->width > 4 && u->cluster > 2 && sf_cuda_folds(c) > 2 && !small;
        return chip->capability >= 80 && u->rows > 1 && u->cluster <= chip->cluster &&
               u->groups > 1 && !slow && u->shared <= chip->shared_per_block;
}

/* Where each fold's totals are in scratch. Returns the end. */
static int64_t place_totals(chain *c, int32_t first, int64_t groups)
{
        int64_t end = 0;
        for (int32_t k = first; k < c->count; k++) {
                sf_step *s = &c->link[k].step;
                s->y = (char *)(uintptr_t)end;
                s->dims[0].y = total_size(s);
                s->dims[1].y = c->n * total_size(s);
                end += parts_size(s, groups * c->n);
        }
        return end;
}

sf_status sf_cuda_plan_group(const sf_context *ctx, const chain *rows, const sf_step *across,
                             const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        chain c = *rows;
        sf_cuda_launch *l = &plan->launch[0];
        sf_cuda_spec *spec = &l->spec;
        const int64_t units = c.link[0].step.batch;
        const int32_t first = c.count;
        sf_cuda_tile tile;
        tiles u;
        *fits = false;
        if (c.nbatch != 1 || c.link[0].step.segments.offsets)
                return SF_OK;
        turn_over(&c);
        for (const sf_step *s = across; s; s = s->sibling)
                if (!add_fold(&c, s, units))
                        return SF_OK;
        narrow_vectors(&c);
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_APPLY_GROUP;
        spec->width = c.width;
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, 8, 8, &tile));
        const int64_t bytes = copied_bytes(&c);
        if (!bytes || !suits(&c) || !cut_tiles(&c, tile, chip, units, bytes, c.count - first, &u))
                return SF_OK;
        int64_t codes = 0;
        for (int32_t k = 0; k < c.count; k++)
                codes += at_least(c.link[k].step.fuse->load.count, 1) +
                         at_least(c.link[k].step.fuse->store.count, 1);
        if (codes > 3 * SF_PROGRAM_MAX)
                return SF_OK;
        const int64_t end = place_totals(&c, first, u.groups);
        spec->threads = (int32_t)(32 * u.warps);
        spec->items = (int32_t)u.rows;
        const bool whole = c.n == 32 * c.width * u.warps * u.cluster;
        spec->flags = SF_CUDA_DOWN | SF_CUDA_SINGLE | (whole ? 0 : SF_CUDA_PARTIAL);
        spec->extra[SF_CUDA_NSEQ] = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)u.resident;
        spec->extra[APPLY_GROUP_WARPS] = (int32_t)u.warps;
        spec->extra[APPLY_GROUP_KEEP] = 4;
        spec->extra[APPLY_GROUP_PER] = 1; /* what it shares with apply.cu names it */
        spec->extra[APPLY_GROUP_CLUSTER] = (int32_t)u.cluster;
        sf_cuda_describe_chain(&c, 0, spec);
        const int64_t blocks = u.at_once * u.cluster;
        if (blocks > INT32_MAX || sf_cuda_params_parts(spec).end > SF_CUDA_MAX_PARAMS)
                return SF_OK;
        sf_cuda_put_chain(&c, 0, units, (int64_t[4]){u.count, u.levels, u.at_once, blocks}, l);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)u.shared;
        l->scratch_fields = 1;
        l->overlaps = true;
        plan->steps = first;
        plan->launches = 1;
        plan->scratch = (size_t)end;
        plan->watched = false;
        plan->across = *fits = true;
        for (int32_t k = first; across; across = across->sibling, k++) {
                sf_step own = *across;
                own.sibling = NULL;
                const sf_step rest = sf_cuda_fold_resumed(&own, u.groups, true);
                const layout next = sf_cuda_layout(&rest, true, true);
                const int64_t from = (int64_t)(uintptr_t)c.link[k].step.y;
                SF_TRY(sf_cuda_fold_columns(ctx, &next, chip, plan, from));
        }
        return SF_OK;
}
