/*
 * Chains: folds whose results are applied to the elements they came from, in one launch of
 * kernels/apply.cu. Lines must be rows, with contiguous elements. emit_apply_columns.c has columns.
 * Other chains run one stage after another: nothing is refused here.
 */
#include "cuda/emit_apply.h"

#include "cuda/emit_chain.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------
 * Vectors
 * ---------------------------------------------------------------------------------------------- */
/* The widest vectors that all tensors with contiguous elements allow; 0: x is not such a tensor.
 * shifts: what the first step reads, and results, may be at any address. */
static int width_of(const chain *c, bool shifts)
{
        const source *x = &c->source[c->link[0].number[0]];
        int64_t largest = 1;
        int best = 1;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]))
                        largest = at_least(largest, size_of((int32_t)c->source[k].dt));
        for (int32_t k = 0; k < c->count; k++)
                if (c->link[k].kind == KIND_MAP)
                        largest = at_least(largest, size_of((int32_t)c->link[k].step.out));
        if (!(c->link[0].loads & 1) || x->along != size_of((int32_t)x->dt))
                return 0;
        for (int w = 2; w <= 16 / largest && w <= c->n; w *= 2) {
                bool fits = true;
                for (int32_t k = 0; k < c->sources; k++) {
                        const source *s = &c->source[k];
                        const int size = size_of((int32_t)s->dt);
                        if (!moves(s) || s->along != size)
                                continue;
                        if (!shifts || !(c->copied >> k & 1))
                                fits = fits && sf_cuda_suits((int64_t)(uintptr_t)s->data, s->step, c->nbatch, w * size);
                }
                for (int32_t k = 0; k < c->count; k++) {
                        const sf_step *s = &c->link[k].step;
                        const int size = size_of((int32_t)s->out);
                        if (c->link[k].kind == KIND_MAP && s->dims[s->nbatch].y == size && !shifts)
                                fits = fits && sf_cuda_result_suits(c, s, w * size);
                }
                if (fits)
                        best = w;
        }
        return best;
}

/* ------------------------------------------------------------------------------------------------
 * Tiles
 * ---------------------------------------------------------------------------------------------- */
typedef struct cut {
        int64_t items, warps, lines, tiles, per, resident, shared, cluster;
        int64_t rounds; /* of lines that a block has one after another */
        bool team; /* the line's blocks are a team, with a tile each */
        int keep;
        int64_t kept; /* tiles */
} cut;

/* Bytes of a vector in shared memory, at least a word. */
static int64_t kept_vector(const chain *c)
{
        int64_t sum = 0;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]) && c->source[k].readers > 1)
                        sum += at_least((int64_t)c->width * size_of((int32_t)c->source[k].dt), 4);
        return sum;
}

/* The most vectors of a thread. */
static int64_t most_items(const chain *c, sf_cuda_tile tile)
{
        const int64_t held = sf_cuda_is_slim(c) ? 2 : sf_cuda_held_bytes(c);
        return at_least(pow2_down(at_least(4 * tile.elements / held, 1)) / c->width, 1);
}

/* The most warps of a block. If vectors are single elements, there are fewer warps, so that each
 * thread has 72 registers: it must know of each element whether it exists, and 64 registers do not
 * hold that (H200, softmax of rows of 65535: 0.57 of a copy; with half as many elements a thread
 * and 1024 threads 0.42). Vectors at any address are cut, which takes registers too. */
static int64_t most_warps(const chain *c, sf_cuda_tile tile)
{
        return at_most(tile.threads / 32, c->width == 1 || c->shifts ? 14 : 32);
}

/* A line in the registers of one block; false: it is too long. */
static bool cut_one_tile(const chain *c, sf_cuda_tile tile, cut *u)
{
        u->keep = 1;
        u->tiles = 1;
        u->items = most_items(c, tile);
        while (u->items > 1 && 16 * c->width * u->items >= c->n)
                u->items /= 2;
        u->warps = ceil_div(c->n, 32 * c->width * u->items);
        u->lines = at_least(tile.more / u->warps, 1);
        u->cluster = 1;
        u->resident = tile.resident * tile.threads / (32 * u->warps * u->lines);
        u->shared = u->warps > 1 ? sf_apply_results(1, c->count, u->lines, u->warps, sf_cuda_slot_size(c)) : 0;
        return u->warps <= most_warps(c, tile);
}

/* How many blocks share a line of so many leaves, if possible blocks of at most 16 warps. Of words,
 * those that leave the fewest warps of a multiprocessor without a leaf. H200, softmax of rows of
 * 50257: 5 blocks of 10 warps, of which three run at once, 0.69 of a copy; 4 of 13 0.63; 50304 0.87
 * and 0.79. Of 50257 bf16 more blocks lose: 0.34 and 0.38. */
static int64_t cluster_of(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip,
                          int64_t leaves)
{
        const int64_t all = tile.threads / 32, few = at_most(most_warps(c, tile), 16);
        int64_t best = 0, found = ceil_div(leaves, few);
        if (found > chip->cluster)
                found = ceil_div(leaves, most_warps(c, tile));
        for (int64_t blocks = c->width > 4 ? 0 : chip->cluster; blocks > 1; blocks--) {
                const int64_t warps = ceil_div(leaves, blocks);
                const int64_t busy = all / warps * leaves * 64 / blocks;
                if (warps <= at_most(all, 16) && busy >= best) {
                        best = busy;
                        found = blocks;
                }
        }
        return found;
}

/* A line in the registers of a cluster of blocks, evenly distributed; false: it needs too many
 * blocks. */
static bool cut_cluster(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip, cut *u)
{
        u->keep = 1;
        u->items = most_items(c, tile);
        const int64_t leaves = ceil_div(c->n, 32 * c->width * u->items);
        u->cluster = u->tiles = cluster_of(c, tile, chip, leaves);
        u->warps = ceil_div(leaves, u->cluster);
        u->lines = 1;
        u->resident = tile.resident * tile.threads / (32 * u->warps);
        u->per = pow2_up(ceil_div(u->warps * u->tiles, 32));
        u->shared = sf_apply_results(chip->cluster, c->count, 1, u->warps * u->tiles, sf_cuda_slot_size(c));
        return u->cluster <= chip->cluster;
}

/* A line in the registers of a team of blocks. False: it needs too many. H200, shares of a copy: rows
 * of 393216, 24 blocks, two on a multiprocessor, softmax 0.61 and normalize 0.79; by shared memory
 * and second reads 0.42 and 0.64. Blocks of 1024: 0.57 and 0.75. Layer norm of 16 rows of 4194304,
 * 256 blocks, 0.21; one stage after another 0.34. */
enum { TEAM_MOST = 32 };
static bool cut_team(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip, cut *u)
{
        const int64_t most = tile.threads / 32;
        u->keep = 1;
        u->items = most_items(c, tile);
        u->warps = at_most(most, 16);
        u->tiles = ceil_div(c->n, 32 * c->width * u->items * u->warps);
        u->lines = u->cluster = 1;
        u->team = true;
        u->resident = tile.resident * most / u->warps;
        u->per = pow2_up(ceil_div(u->tiles, 32));
        u->shared = sf_apply_results(2, 1, 1, u->warps + 1, sf_cuda_slot_size(c));
        return c->width > 1 && u->tiles <= (chip->small_tiles ? 4 : at_most(chip->multiprocessors * u->resident, TEAM_MOST));
}

/*
 * What the first step reads goes through shared memory, if it is whole vectors. In a chain of one
 * fold, there is only that fold between its loads and its stores: 0.8 of a copy without this, 0.97
 * with it (H200, rows of 4096 and 16384). A chain of two folds has more to do meanwhile, and is 3%
 * slower with it.
 *
 * Long lines leave a multiprocessor no other block to load while one computes, and a cluster takes
 * long to start. There a block has several lines and loads the next one while it computes: layer
 * norm of rows of 32768 0.63 -> 0.79 of a copy, RMS norm of 50257 0.50 -> 0.75. As many blocks as
 * run at once then share all lines evenly. How many clusters run at once is not known, so they have
 * fewer lines each and come in waves.
 */
enum { CLUSTER_WAVES = 8 };
static void cut_staged(const chain *c, const sf_cuda_chip *chip, int64_t batch, cut *u)
{
        const int64_t threads = 32 * u->warps * u->lines;
        int64_t copied = 0, kept = 0, folds = 0;
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                const int64_t size = size_of((int32_t)s->dt), bytes = at_least(c->width * size, 4);
                if (c->copied >> k & 1 && moves(s) && s->along == size) {
                        copied += bytes;
                        kept += sf_apply_operand(u->items, bytes, threads, c->shifts);
                }
        }
        for (int32_t k = 0; k < c->count; k++)
                folds += c->link[k].kind == KIND_FOLD;
        const int64_t resident = at_least(at_most(u->resident, chip->threads_per_multiprocessor / threads), 1);
        const int64_t blocks = u->team ? u->tiles : u->cluster;
        const bool loops = blocks > 1 || (chip->small_tiles ? batch % 2 != 0 : resident == 1);
        const int64_t results = u->team ? u->shared : sf_apply_results(u->cluster, (loops ? 2 : 1) * c->count, u->lines, u->warps * u->tiles, sf_cuda_slot_size(c));
        const int64_t shared = results + kept;
        if (u->keep != 1 || chip->capability < 80 || (folds > 1 && !loops && !c->shifts) || copied < 16 || resident * (shared + 1024) > chip->shared_per_multiprocessor)
                return;
        u->keep = loops ? 4 : 3;
        u->shared = shared;
        if (loops)
                u->rounds = ceil_div(batch, u->lines * at_least(chip->multiprocessors * resident / blocks, 1));
        if (u->cluster > 1 && !chip->small_tiles)
                u->rounds = at_least(u->rounds / CLUSTER_WAVES, 1);
}

/* A line tile by tile, by all threads of one block or of several; false: one stage after another is
 * as good. */
static bool cut_tiles(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip, int64_t batch, cut *u)
{
        u->items = most_items(c, tile);
        u->warps = tile.threads / 32;
        u->lines = 1;
        u->resident = tile.resident;
        u->tiles = ceil_div(c->n, 32 * c->width * u->items * u->warps);
        u->per = pow2_up(ceil_div(u->warps * u->tiles, 32));
        u->shared = sf_apply_results(chip->cluster, c->count, 1, u->warps * u->tiles, sf_cuda_slot_size(c));
        const int64_t room = chip->small_tiles ? 4096 : chip->shared_per_block, each = kept_vector(c) * u->items * 32 * u->warps;
        u->keep = 2;
        u->cluster = 1;
        u->kept = each && room > u->shared ? at_most(u->tiles, (room - u->shared) / each) : 0;
        /* enough blocks to keep all of it */
        if (u->kept && ceil_div(u->tiles, u->kept) <= chip->cluster) {
                u->cluster = ceil_div(u->tiles, u->kept);
                u->kept = ceil_div(u->tiles, u->cluster);
        }
        u->shared += u->kept * each;
        /* What is not kept is read again from the second-level cache, if all that blocks walk at
         * once fits in half of it. To be measured: whether it is worth keeping a quarter if it does
         * not. */
        const int64_t walked = at_most(batch, (int64_t)chip->multiprocessors * u->resident) * c->n * sf_cuda_kept_bytes(c);
        return u->per <= 16 && (chip->small_tiles || u->cluster > 1 || ((4 * u->kept >= u->tiles || walked <= chip->l2 / 2) && 2 * batch >= chip->multiprocessors));
}

/* ------------------------------------------------------------------------------------------------
 * The launch
 * ---------------------------------------------------------------------------------------------- */
static sf_status find_tile(const sf_context *ctx, const chain *c, const sf_cuda_chip *chip,
                           sf_cuda_spec *spec, bool walked, sf_cuda_tile *tile)
{
        int64_t copied = 0;
        spec->flags = walked ? SF_CUDA_DOWN : 0;
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, 8, 8, tile));
        spec->flags = 0;
        /* With two operands a thread has few elements of each, and exchanging totals takes as long
         * for few as for many: half as many threads have twice as many. H200, gradients of rows of
         * 4096, share of a copy: layer norm f32 0.85 -> 1.03, softmax bf16 0.84 -> 1.05. */
        for (int32_t k = 0; k < c->sources; k++)
                copied += c->copied >> k & 1 && moves(&c->source[k]) &&
                          c->source[k].dt != SF_DT_BOOL;
        if (copied > 1 && !walked && !c->shifts && !chip->small_tiles) {
                tile->threads /= 2;
                tile->elements *= 2;
        }
        return SF_OK;
}

/* `fits`: it can be cut. */
static sf_status cut_chain(const sf_context *ctx, const chain *c, const sf_cuda_chip *chip, int64_t batch, sf_cuda_spec *spec, cut *u, bool *fits)
{
        sf_cuda_tile tile;
        *u = (cut){.per = 1, .rounds = 1};
        *fits = true;
        spec->width = c->width;
        SF_TRY(find_tile(ctx, c, chip, spec, false, &tile));
        if (chip->small_tiles && c->shifts) /* in tests some threads have several vectors */
                tile.elements = 16;
        /* In tests, teams take some of the lines that a cluster or shared memory could hold. */
        const bool small = chip->small_tiles, skips = small && batch % 9 == 3;
        if (!cut_one_tile(c, tile, u) && (skips || !cut_cluster(c, tile, chip, u)) && ((small && !skips) || !cut_team(c, tile, chip, u))) {
                u->team = false;
                SF_TRY(find_tile(ctx, c, chip, spec, true, &tile));
                *fits = cut_tiles(c, tile, chip, batch, u);
        }
        cut_staged(c, chip, batch, u);
        return SF_OK;
}

sf_status sf_cuda_plan_chain(const sf_context *ctx, const sf_step *first, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        chain c = {.count = 0};
        cut u = {0};
        bool cuts = false;
        sf_cuda_launch *l = &plan->launch[0];
        sf_cuda_spec *spec = &l->spec;
        *fits = plan->across = false;
        if (sf_cuda_follows(first) || !sf_cuda_read_chain(first, &c))
                return SF_OK;
        if (first->segments.offsets)
                return sf_cuda_plan_segments_chain(ctx, &c, first, chip, plan, fits);
        if (!(c.width = width_of(&c, false)))
                return sf_cuda_plan_columns(ctx, &c, first->batch, chip, plan, fits);
        if (first->across)
                SF_TRY(sf_cuda_plan_group(ctx, &c, first->across, chip, plan, fits));
        if (!*fits)
                SF_TRY(sf_cuda_plan_short(ctx, &c, first, chip, plan, fits));
        if (*fits)
                return SF_OK;
        memset(spec, 0, offsetof(sf_cuda_spec, fused.code));
        spec->kernel = SF_CUDA_APPLY;
        /* Vectors at any address go through shared memory, so the line must fit there. */
        const int aligned = c.width, widest = width_of(&c, true);
        c.shifts = widest > aligned;
        c.width = c.shifts ? widest : aligned;
        SF_TRY(cut_chain(ctx, &c, chip, first->batch, spec, &u, &cuts));
        if (c.shifts && (!cuts || u.keep < 3)) {
                c.width = aligned;
                c.shifts = false;
                SF_TRY(cut_chain(ctx, &c, chip, first->batch, spec, &u, &cuts));
        }
        if (!cuts)
                return SF_OK;
        if (u.keep != 2)
                sf_cuda_keep_folded(&c);
        spec->threads = (int32_t)(32 * u.warps * u.lines);
        spec->items = (int32_t)u.items;
        const bool partial = c.n != 32 * c.width * u.items * u.warps * u.tiles ||
                first->batch % u.lines;
        spec->flags = (c.n % c.width ? SF_CUDA_RAGGED : 0) | (c.shifts ? SF_CUDA_SHIFT_IN : 0) |
                (u.team ? 0 : SF_CUDA_SINGLE) | (partial ? SF_CUDA_PARTIAL : 0);
        spec->extra[SF_CUDA_NBATCH] = c.nbatch;
        spec->extra[SF_CUDA_NSEQ] = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_least(at_most(u.resident, chip->threads_per_multiprocessor / spec->threads), 1);
        spec->extra[APPLY_WARPS] = (int32_t)u.warps;
        spec->extra[APPLY_KEEP] = u.keep;
        spec->extra[APPLY_PER] = (int32_t)u.per;
        spec->extra[APPLY_CLUSTER] = (int32_t)u.cluster;
        sf_cuda_describe_chain(&c, -1, spec);
        const int64_t teams = ceil_div(first->batch, u.lines * u.rounds), blocks = teams * (u.team ? u.tiles : u.cluster);
        if (blocks > INT32_MAX || u.shared > chip->shared_per_block || sf_cuda_params_parts(spec).end > SF_CUDA_MAX_PARAMS)
                return SF_OK;
        sf_cuda_put_chain(&c, -1, first->batch, (int64_t[4]){u.tiles, u.kept, teams * u.lines, blocks}, l);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)u.shared;
        l->scratch_fields = u.team;
        l->overlaps = true;
        plan->steps = c.count;
        plan->launches = 1;
        plan->scratch = u.team ? SF_TICKETS + (size_t)(first->batch * sf_cuda_folds(&c) * u.tiles * sf_cuda_slot_size(&c) * 2) : 0;
        plan->watched = u.team;
        *fits = true;
        return SF_OK;
}
