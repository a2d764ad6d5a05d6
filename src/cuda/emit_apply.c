/*
 * Chains: folds whose results are applied to the elements they came from, in one launch of
 * kernels/apply.cu. Lines must be rows, with contiguous elements. Other chains, above all columns,
 * run one stage after another: nothing is refused here.
 */
#include "cuda/emit_apply.h"

#include "cuda/cuda.h"
#include "cuda/emit_draft.h"

#include <string.h>

enum { KIND_FOLD, KIND_MAP, KIND_SMALL };

/* One step of the chain; all are fused. */
typedef struct link {
        sf_step step;
        sf_fuse plain;
        int kind;
        uint32_t loads, stores; /* operands that its programs read, by its own numbers */
        uint8_t number[SF_OPERANDS_MAX]; /* their new numbers */
        int mask; /* the mask's new number, or -1 */
} link;

/* What the launch reads: a tensor along the lines, or the result of a step. */
typedef struct source {
        const char *data;
        sf_dt dt;
        int made; /* the number of the step, or -1 */
        int readers; /* how many steps load it */
        bool kept; /* a step's: what it folds, element by element */
        bool folded; /* a fold is one of them: it loads all its vectors at once */
        int64_t step[SF_MAX_NDIM + 1], along;
} source;

typedef struct chain {
        int32_t count, sources, nbatch;
        uint32_t first; /* bits: sources that the first step reads */
        link link[SF_CUDA_MEMBERS_MAX];
        source source[SF_OPERANDS_MAX];
        int width;
        bool shifts; /* what the first step reads, and results, may be at any address */
        int64_t n;
} chain;

/* ------------------------------------------------------------------------------------------------
 * Reading the chain
 * ---------------------------------------------------------------------------------------------- */
static const sf_step *step_after(const sf_step **stage, const sf_step *s)
{
        if (s->sibling)
                return s->sibling;
        *stage = (*stage)->then;
        return *stage;
}

/* Instructions that a launch needs for the step; a program without instructions is a cast. */
static int64_t codes_of(const sf_step *s)
{
        return s->fuse ? at_least(s->fuse->load.count, 1) + at_least(s->fuse->store.count, 1) : 2;
}

const char *sf_cuda_follows(const sf_step *first)
{
        int64_t codes = 0;
        int32_t count = 0;
        for (const sf_step *stage = first, *s = first; s; s = step_after(&stage, s), count++) {
                codes += codes_of(s);
                if (!s->map && (!s->fold || sf_op_is(s->op, SF_INDEX) || sf_op_is(s->op, SF_TWO)))
                        return "on CUDA folds whose value is one number, and what is done with them to the line's elements, are taken line by line";
        }
        if (count > SF_CUDA_MEMBERS_MAX)
                return "on CUDA four steps follow each other line by line at most";
        return codes > 2 * SF_PROGRAM_MAX ? "together they are more elementwise work than one CUDA kernel takes" : NULL;
}

/* The number of a source, a new one if necessary; -1: there are too many. */
static int find_source(chain *c, const source *s)
{
        for (int32_t k = 0; k < c->sources; k++) {
                const source *known = &c->source[k];
                bool same = known->dt == s->dt && known->made == s->made;
                if (s->made < 0) {
                        same = same && known->data == s->data && known->along == s->along;
                        for (int32_t d = 0; d < c->nbatch; d++)
                                same = same && known->step[d] == s->step[d];
                }
                if (same)
                        return k;
        }
        if (c->sources == SF_OPERANDS_MAX)
                return -1;
        c->source[c->sources] = *s;
        return c->sources++;
}

static bool moves(const source *s)
{
        return s->made < 0 && s->along;
}

/* Finds the step's operands and its mask among the chain's sources. */
static bool read_operands(chain *c, link *l)
{
        const sf_step *s = &l->step;
        for (int32_t k = 0; (l->loads | l->stores) >> k; k++) {
                if (!((l->loads | l->stores) >> k & 1))
                        continue;
                const sf_operand *o = &s->fuse->operand[k];
                source from = {.data = o->data, .dt = o->dt, .made = o->made - 1, .along = l->kind == KIND_SMALL ? 0 : o->stride[s->nbatch]};
                for (int32_t d = 0; d < s->nbatch; d++)
                        from.step[d] = o->stride[d];
                if (from.made < 0 && !aligned_to((int64_t)(uintptr_t)o->data, size_of((int32_t)o->dt)))
                        return false;
                const int number = find_source(c, &from);
                if (number < 0 || (l->stores >> k & 1 && moves(&from)))
                        return false;
                l->number[k] = (uint8_t)number;
                c->first |= l == c->link && l->loads >> k & 1 ? 1u << number : 0;
                c->source[number].readers += l->loads >> k & 1;
                c->source[number].folded |= l->loads >> k & 1 && l->kind == KIND_FOLD;
        }
        l->mask = -1;
        if (s->m) {
                source from = {.data = (const char *)s->m, .dt = SF_DT_BOOL, .made = -1, .along = s->dims[s->nbatch].m};
                for (int32_t d = 0; d < s->nbatch; d++)
                        from.step[d] = s->dims[d].m;
                l->mask = find_source(c, &from);
                if (l->mask < 0)
                        return false;
                c->first |= l == c->link ? 1u << l->mask : 0;
                c->source[l->mask].readers++;
                c->source[l->mask].folded = true;
        }
        return true;
}

/* False: one launch cannot do it. */
static bool read_chain(const sf_step *first, chain *c)
{
        c->nbatch = first->nbatch;
        c->n = 1;
        for (const sf_step *stage = first, *s = first; s; s = step_after(&stage, s)) {
                if (c->count == SF_CUDA_MEMBERS_MAX)
                        return false;
                link *l = &c->link[c->count++];
                l->step = *s;
                l->kind = !s->map ? KIND_FOLD : s->n == 1 ? KIND_SMALL : KIND_MAP;
                if (s->nseq != 1 || s->nbatch != c->nbatch || (!s->map && !s->fold) || (l->kind != KIND_SMALL && c->n > 1 && s->n != c->n))
                        return false;
                if (!s->fuse) {
                        sf_step_plain_fuse(s, &l->plain);
                        l->step.fuse = &l->plain;
                }
                if (s->map)
                        l->step.op = SF_SUM; /* so that results have the accumulator's type */
                c->n = at_least(c->n, s->n);
                l->loads = sf_cuda_program_reads(&l->step.fuse->load, 1);
                l->stores = sf_cuda_program_reads(&l->step.fuse->store, 0);
                if (!aligned_to((int64_t)(uintptr_t)s->y, size_of((int32_t)s->out)) || !read_operands(c, l))
                        return false;
        }
        return c->n > 1 && c->n < INT32_MAX / 2;
}

/* ------------------------------------------------------------------------------------------------
 * What a fold makes of the elements, and a later step would make again
 * ---------------------------------------------------------------------------------------------- */

/* Do instruction i of a's program on the way in and instruction k of b's compute the same? */
static bool same_value(const link *a, int32_t i, const link *b, int32_t k)
{
        const sf_program *pa = &a->step.fuse->load, *pb = &b->step.fuse->load;
        const sf_instruction *x = &pa->code[i], *y = &pb->code[k];
        if (x->code != y->code || x->dt != y->dt)
                return false;
        if (x->code == SF_CODE_LOAD)
                return a->number[x->slot] == b->number[y->slot];
        if (x->code == SF_CODE_CONSTANT)
                return pa->constant[x->slot].u64 == pb->constant[y->slot].u64;
        for (int32_t q = 0; q < sf_code_arguments[x->code]; q++)
                if (!same_value(a, x->arg[q], b, y->arg[q]))
                        return false;
        return true;
}

/* Where step l computes what the fold's elements are, it loads them instead: a source of its
 * own. */
static void take_folded(chain *c, int32_t fold, link *l)
{
        const link *f = &c->link[fold];
        const int32_t last = f->step.fuse->load.count - 1;
        int32_t at = 0, slot = 0, number = 0;
        while (at < l->step.fuse->load.count && !same_value(f, last, l, at))
                at++;
        while ((l->loads | l->stores) >> slot & 1)
                slot++;
        while (number < c->sources && !(c->source[number].kept && c->source[number].made == fold))
                number++; /* another step may have taken them already */
        if (at == l->step.fuse->load.count || slot >= SF_OPERANDS_MAX || number == SF_OPERANDS_MAX)
                return;
        if (number == c->sources)
                c->source[c->sources++] = (source){.dt = (sf_dt)f->step.acc, .made = fold, .kept = true};
        l->plain = *l->step.fuse;
        l->plain.load.code[at] = (sf_instruction){SF_CODE_LOAD, (uint8_t)f->step.acc, (uint8_t)slot, {0}};
        l->step.fuse = &l->plain;
        l->number[slot] = (uint8_t)number;
        l->loads |= 1u << slot;
}

/* For a softmax these are the exponentials, most of its work. The line must stay in registers. One
 * or two instructions are as quickly done again. */
static void keep_folded(chain *c)
{
        for (int32_t k = 0; k < c->count; k++) {
                const link *f = &c->link[k];
                const sf_program *p = &f->step.fuse->load;
                if (f->kind != KIND_FOLD || p->count <= 2 || p->code[p->count - 1].dt != f->step.acc)
                        continue;
                for (int32_t later = k + 1; later < c->count; later++)
                        if (c->link[later].kind != KIND_SMALL)
                                take_folded(c, k, &c->link[later]);
        }
}

/* ------------------------------------------------------------------------------------------------
 * Vectors
 * ---------------------------------------------------------------------------------------------- */
static bool suits(int64_t address, const int64_t *step, int32_t nbatch, int64_t bytes)
{
        bool fits = aligned_to(address, bytes);
        for (int32_t d = 0; d < nbatch; d++)
                fits = fits && aligned_to(step[d], bytes);
        return fits;
}

static bool result_suits(const chain *c, const sf_step *s, int64_t bytes)
{
        int64_t step[SF_MAX_NDIM + 1];
        for (int32_t d = 0; d < c->nbatch; d++)
                step[d] = s->dims[d].y;
        return suits((int64_t)(uintptr_t)s->y, step, c->nbatch, bytes);
}

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
                        if (!shifts || !(c->first >> k & 1))
                                fits = fits && suits((int64_t)(uintptr_t)s->data, s->step, c->nbatch, w * size);
                }
                for (int32_t k = 0; k < c->count; k++) {
                        const sf_step *s = &c->link[k].step;
                        const int size = size_of((int32_t)s->out);
                        if (c->link[k].kind == KIND_MAP && s->dims[s->nbatch].y == size && !shifts)
                                fits = fits && result_suits(c, s, w * size);
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
        int keep;
        int64_t kept; /* tiles */
} cut;

/* Bytes of an element in all sources that several steps load. */
static int64_t kept_bytes(const chain *c)
{
        int64_t sum = 0;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]) && c->source[k].readers > 1)
                        sum += size_of((int32_t)c->source[k].dt);
        return sum;
}

/* The registers of an element, in bytes. A narrow element is computed in f32, and an f64 needs more
 * than itself. The operands that only maps read are loaded one vector at a time. */
static int64_t held_bytes(const chain *c)
{
        int64_t sum = 0;
        for (int32_t k = 0; k < c->sources; k++)
                if (moves(&c->source[k]) && (c->source[k].readers > 1 || c->source[k].folded))
                        sum += size_of((int32_t)c->source[k].dt) * (size_of((int32_t)c->source[k].dt) == 8 ? 2 : 1);
        return at_least(sum, 4);
}

/* Bytes of a leaf's total. */
static int64_t slot_size(const chain *c)
{
        int64_t size = 4;
        for (int32_t k = 0; k < c->count; k++)
                size = at_least(size, value_size(&c->link[k].step));
        return size;
}

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
        return at_least(pow2_down(at_least(4 * tile.elements / held_bytes(c), 1)) / c->width, 1);
}

/* The most warps of a block. If vectors are single elements, there are fewer warps, so that each
 * thread has 72 registers: it must know of each element whether it exists, and 64 registers do not
 * hold that (H200, softmax of rows of 65535: 0.57 of a copy; with half as many elements a thread
 * and 1024 threads 0.42). */
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
        u->shared = u->warps > 1 ? sf_apply_results(1, c->count, u->lines, u->warps, slot_size(c)) : 0;
        return u->warps <= most_warps(c, tile);
}

/* A line in the registers of a cluster of blocks, evenly distributed; false: it needs too many
 * blocks. */
static bool cut_cluster(const chain *c, sf_cuda_tile tile, const sf_cuda_chip *chip, cut *u)
{
        u->keep = 1;
        u->items = most_items(c, tile);
        const int64_t leaves = ceil_div(c->n, 32 * c->width * u->items);
        u->cluster = u->tiles = ceil_div(leaves, at_most(most_warps(c, tile), 16));
        if (u->cluster > chip->cluster)
                u->cluster = u->tiles = ceil_div(leaves, most_warps(c, tile));
        u->warps = ceil_div(leaves, u->cluster);
        u->lines = 1;
        u->resident = tile.resident * tile.threads / (32 * u->warps);
        u->per = pow2_up(ceil_div(u->warps * u->tiles, 32));
        u->shared = sf_apply_results(chip->cluster, c->count, 1, u->warps * u->tiles, slot_size(c));
        return u->cluster <= chip->cluster;
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
                if (c->first >> k & 1 && moves(s) && s->along == size) {
                        copied += bytes;
                        kept += sf_apply_operand(u->items, bytes, threads, c->shifts);
                }
        }
        for (int32_t k = 0; k < c->count; k++)
                folds += c->link[k].kind == KIND_FOLD;
        const int64_t resident = at_least(at_most(u->resident, chip->threads_per_multiprocessor / threads), 1);
        const bool loops = u->cluster > 1 || (chip->small_tiles ? batch % 2 != 0 : resident == 1);
        const int64_t results = sf_apply_results(u->cluster, (loops ? 2 : 1) * c->count, u->lines, u->warps * u->tiles, slot_size(c));
        const int64_t shared = results + kept;
        if (u->keep != 1 || chip->capability < 80 || (folds > 1 && !loops && !c->shifts) || copied < 16 || resident * (shared + 1024) > chip->shared_per_multiprocessor)
                return;
        u->keep = loops ? 4 : 3;
        u->shared = shared;
        if (loops)
                u->rounds = ceil_div(batch, u->lines * at_least(chip->multiprocessors * resident / u->cluster, 1));
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
        u->shared = sf_apply_results(chip->cluster, c->count, 1, u->warps * u->tiles, slot_size(c));
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
        const int64_t walked = at_most(batch, (int64_t)chip->multiprocessors * u->resident) * c->n * kept_bytes(c);
        return u->per <= 16 && (chip->small_tiles || u->cluster > 1 || ((4 * u->kept >= u->tiles || walked <= chip->l2 / 2) && 2 * batch >= chip->multiprocessors));
}

/* ------------------------------------------------------------------------------------------------
 * The launch
 * ---------------------------------------------------------------------------------------------- */
static void put_word(unsigned char *params, size_t part, int64_t index, uint64_t word)
{
        memcpy(params + part + 8 * (size_t)index, &word, 8);
}

static void describe_sources(const chain *c, sf_cuda_fused *f)
{
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                const int unit = s->kept ? 1 : s->made >= 0 || !s->along ? 3 : s->along == size_of((int32_t)s->dt) ? 1 : 0;
                f->dt[k] = (uint8_t)s->dt;
                f->how[k] = (uint8_t)(unit | SF_CUDA_OPERAND_LOADS | SF_CUDA_OPERAND_STORES | (s->made + 1) * SF_CUDA_OPERAND_MADE);
        }
        f->operands = (uint8_t)c->sources;
}

/* Writes step k and its programs into the specialisation. */
static void describe_step(const chain *c, int32_t k, sf_cuda_spec *spec)
{
        const link *l = &c->link[k];
        const sf_step *s = &l->step;
        sf_cuda_fused *f = &spec->fused;
        const bool vectors = s->dims[s->nbatch].y == size_of((int32_t)s->out);
        spec->extra[APPLY_HOW + k] = l->kind | (s->within ? 4 : 0) | (vectors ? 8 : 0) | (l->mask + 1) * 16;
        const bool initial = s->has_initial && l->kind == KIND_FOLD;
        if (!k) {
                spec->op = (int32_t)s->op;
                spec->in = s->in;
                spec->acc = s->acc;
                spec->out = s->out;
                spec->flags |= initial ? SF_CUDA_INITIAL : 0;
                sf_cuda_append_programs(f, s, true, true, l->number, &f->loads, &f->stores);
                return;
        }
        sf_cuda_also *also = &f->also[f->beside++];
        also->op = (uint8_t)s->op;
        also->acc = (uint8_t)s->acc;
        also->out = (uint8_t)s->out;
        also->initial = initial;
        sf_cuda_append_programs(f, s, true, true, l->number, &also->loads, &also->stores);
}

static int32_t put_constants(unsigned char *params, size_t part, const sf_program *p, int32_t count)
{
        for (int32_t k = 0; k < p->constants; k++)
                put_word(params, part, count++, p->constant[k].u64);
        return count;
}

static void put_params(const chain *c, const cut *u, int64_t batch, int64_t apart, sf_cuda_launch *l)
{
        const sf_cuda_parts parts = sf_cuda_params_parts(&l->spec);
        const sf_step *first = &c->link[0].step;
        sf_params p;
        int32_t constants = 0;
        memset(&p, 0, offsetof(sf_params, dims));
        p.y = (uint64_t)(uintptr_t)first->y;
        p.n = c->n;
        p.units = batch;
        p.sy = first->dims[first->nbatch].y;
        p.number[0] = u->tiles;
        p.number[1] = u->kept;
        p.number[2] = apart;
        sf_cuda_values(first, &p.identity, &p.neutral, &p.initial);
        memset(l->params, 0, parts.end);
        memcpy(l->params, &p, offsetof(sf_params, dims));
        for (int32_t d = 0; d < c->nbatch; d++) {
                const sf_params_dim dim = sf_cuda_params_dim(&first->dims[d]);
                memcpy(l->params + offsetof(sf_params, dims) + (size_t)d * sizeof dim, &dim, sizeof dim);
        }
        const int32_t operands = (int32_t)at_least(c->sources, 1);
        for (int32_t k = 0; k < c->sources; k++) {
                const source *s = &c->source[k];
                put_word(l->params, parts.operand, k, s->made < 0 ? (uint64_t)(uintptr_t)s->data : 0);
                put_word(l->params, parts.along, k, (uint64_t)s->along);
                for (int32_t d = 0; d < c->nbatch; d++)
                        put_word(l->params, parts.step, d * operands + k, (uint64_t)s->step[d]);
        }
        for (int32_t k = 0; k < c->count; k++) {
                const sf_step *s = &c->link[k].step;
                constants = put_constants(l->params, parts.constant, &s->fuse->load, constants);
                constants = put_constants(l->params, parts.constant, &s->fuse->store, constants);
                if (!k)
                        continue;
                sf_also also = {.y = (uint64_t)(uintptr_t)s->y, .sy = s->dims[s->nbatch].y};
                sf_cuda_values(s, &also.identity, &also.neutral, &also.initial);
                const size_t at = parts.also + (size_t)(k - 1) * parts.also_size;
                memcpy(l->params + at, &also, offsetof(sf_also, step));
                for (int32_t d = 0; d < c->nbatch; d++)
                        put_word(l->params, at + offsetof(sf_also, step), d, (uint64_t)s->dims[d].y);
        }
        l->params_size = parts.end;
}

static sf_status find_tile(const sf_context *ctx, const sf_cuda_chip *chip, sf_cuda_spec *spec, bool walked, sf_cuda_tile *tile)
{
        spec->flags = walked ? SF_CUDA_DOWN : 0;
        SF_TRY(sf_cuda_tile_for(ctx, chip, spec, 8, 8, tile));
        spec->flags = 0;
        return SF_OK;
}

/* `fits`: it can be cut. */
static sf_status cut_chain(const sf_context *ctx, const chain *c, const sf_cuda_chip *chip, int64_t batch, sf_cuda_spec *spec, cut *u, bool *fits)
{
        sf_cuda_tile tile;
        *u = (cut){.per = 1, .rounds = 1};
        *fits = true;
        spec->width = c->width;
        SF_TRY(find_tile(ctx, chip, spec, false, &tile));
        if (!cut_one_tile(c, tile, u) && !cut_cluster(c, tile, chip, u)) {
                SF_TRY(find_tile(ctx, chip, spec, true, &tile));
                *fits = cut_tiles(c, tile, chip, batch, u);
        }
        cut_staged(c, chip, batch, u);
        return SF_OK;
}

sf_status sf_cuda_plan_chain(const sf_context *ctx, const sf_step *first, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        chain c = {.count = 0};
        cut u;
        bool cuts;
        sf_cuda_launch *l = &plan->launch[0];
        sf_cuda_spec *spec = &l->spec;
        *fits = false;
        if (first->segments.offsets || sf_cuda_follows(first) || !read_chain(first, &c) || !(c.width = width_of(&c, false)))
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
                keep_folded(&c);
        spec->threads = (int32_t)(32 * u.warps * u.lines);
        spec->items = (int32_t)u.items;
        spec->flags = (c.n % c.width ? SF_CUDA_RAGGED : 0) | (c.shifts ? SF_CUDA_SHIFT_IN : 0);
        spec->extra[SF_CUDA_NBATCH] = c.nbatch;
        spec->extra[SF_CUDA_NSEQ] = 1;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_least(at_most(u.resident, chip->threads_per_multiprocessor / spec->threads), 1);
        spec->extra[APPLY_WARPS] = (int32_t)u.warps;
        spec->extra[APPLY_KEEP] = u.keep;
        spec->extra[APPLY_PER] = (int32_t)u.per;
        spec->extra[APPLY_CLUSTER] = (int32_t)u.cluster;
        describe_sources(&c, &spec->fused);
        for (int32_t k = 0; k < c.count; k++)
                describe_step(&c, k, spec);
        unsigned char *behind = (unsigned char *)(spec->fused.code + sf_cuda_codes(&spec->fused)), *end = (unsigned char *)spec + sf_cuda_spec_size(spec);
        memset(behind, 0, (size_t)(end - behind)); /* eight bytes are hashed at a time */
        const int64_t teams = ceil_div(first->batch, u.lines * u.rounds), blocks = teams * u.cluster;
        if (blocks > INT32_MAX || u.shared > chip->shared_per_block || sf_cuda_params_parts(spec).end > SF_CUDA_MAX_PARAMS)
                return SF_OK;
        put_params(&c, &u, first->batch, teams * u.lines, l);
        l->grid[0] = (uint32_t)blocks;
        l->grid[1] = l->grid[2] = 1;
        l->shared = (uint32_t)u.shared;
        l->scratch_fields = 0;
        l->overlaps = true;
        plan->steps = c.count;
        plan->launches = 1;
        plan->scratch = 0;
        plan->watched = false;
        *fits = true;
        return SF_OK;
}
