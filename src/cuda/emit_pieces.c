/* Short sequences, or small matrices of several side by side, in one contiguous piece of memory: a
 * block stages as many as it can hold. */
#include "cuda/emit_draft.h"

/* The most bytes that a block stages, so that several blocks share a multiprocessor, some computing
 * while others load; and the most bytes of a unit. */
#define MOST_STAGED (24 << 10)
#define MOST_UNIT (24 << 10)
/* The most words of values that a thread holds, and one of 32 that share a sequence; of narrow elements, and of
 * those that are widened; and of several sequences. H200, share of a copy, rows of 3001 u8 0.82, in vectors at any
 * address 0.69, of f16 0.78, 0.80; of 4097 bf16 0.54, 0.72; of 2561 bf16 into f32 0.44, 0.78. */
#define MOST_HELD 32
#define MOST_SCANNED 40
#define MOST_NARROW 48
#define MOST_NARROW_ROW 96
#define MOST_WIDENED_ROW 80
#define MOST_SEVERAL 16
#define MOST_FOLDED 48 /* for one thread, which keeps none of them for long */

/* Is a tensor contiguous that has these strides from unit to unit, along the sequence and across
 * it? */
static bool one_piece(int64_t unit, int64_t along, int64_t across, int64_t n, int64_t inner, int64_t size)
{
        return magnitude(along) == inner * size && (inner == 1 || across == size) && unit == n * inner * size;
}

typedef struct pieces {
        int64_t inner; /* sequences side by side, which make a unit */
        int64_t each;  /* units for a block */
        int64_t team, width, items, rows;
        int64_t blocks;
        bool early;    /* SF_EARLY */
        int64_t resident;
        int64_t shared; /* bytes */
        int64_t slabs, along; /* of sequences of several dimensions; positions that follow each other in a slab */
        int64_t pitch[SF_MAX_NDIM]; /* bytes in shared memory from one position to the next, along each dimension */
} pieces;

/* If 32 lanes each read a number of `size` bytes at the same position of their vectors of `width`, about
 * how many use the same bank of shared memory? This is asked in every call, so it is one loop over the
 * lanes, without a division. */
static int64_t meeting(int64_t team, int64_t width, int64_t n, int64_t inner, int64_t size)
{
        int64_t seen[32], most = 1, unit = 0, column = 0;
        int32_t count[32] = {0};
        for (int64_t lane = 0; lane < 32; lane += team) {
                for (int64_t position = 0; position < team; position++) {
                        const int64_t word = ((unit + width * position) * inner + column) * size >> 2, bank = word & 31;
                        /* cppcheck-suppress uninitvar ; seen is set if count is above 0 */
                        if (!count[bank] || seen[bank] != word)
                                most = at_least(most, ++count[bank]);
                        seen[bank] = word;
                }
                if (++column == inner) {
                        column = 0;
                        unit += n;
                }
        }
        return most;
}

/* How many units a block has, if its threads hold `held` sequences at once. Few narrow elements are
 * not enough to keep memory busy: then it has several times as many, as long as there are enough
 * blocks. H200, share of a copy, so and once: sums of 9 f16 0.82, 0.63, of 3 bf16 0.58, 0.55; scans
 * of 7 u8 0.75, 0.54, of 3 i8 0.52, 0.40; but longer rows need the registers, scans of 101 f16 0.69,
 * 0.89. */
static bool is_tiny(const sf_step *s)
{
        return size_of((int32_t)s->in) <= 2 && s->n < 16;
}
/* Does a block have one piece after another, and vectors of several elements? H200, share of a copy, so and not:
 * cumsum of rows of 65 f16 0.84, 0.53, of 653 0.82, 0.63, of 2049 bf16 0.84, 0.48; of 653 u8 0.71, 0.39; but of 653
 * f32 0.86, 0.96, of 13 i8 0.64, 0.75. */
static bool streams(const sf_step *s)
{
        return !s->fold && size_of((int32_t)s->in) <= 2 && !is_tiny(s);
}
static int64_t staged_units(const sf_step *s, int64_t inner, int64_t held, int64_t bytes,
                            int64_t room, const sf_cuda_chip *chip)
{
        const int64_t units = s->batch / inner, once = at_least((is_tiny(s) && held < inner ? 2 : 1) * held / inner, streams(s));
        int64_t each = once;
        while (is_tiny(s) && each && 2 * each <= 8 * once && 2 * each * bytes <= room &&
               units >= 16 * each * (int64_t)chip->multiprocessors)
                each *= 2;
        return at_most(at_most(each, at_least(room / bytes, 1)), units);
}

/* Sequences of several dimensions are short too, if units of them follow each other in a few slabs.
 * H200, share of a copy, so and element by element: sums of (8264133, 2, 9, 4) f32 stored as 1302 over
 * its last two 0.89, 0.13; (127, 257, 909, 5) over its first and third 0.67, 0.46. */
static bool in_slabs(const sf_step *s, bool beside, pieces *p)
{
        const int64_t size = size_of((int32_t)s->in);
        const int32_t unit = s->nbatch - (beside ? 2 : 1);
        int64_t within = p->inner, reach = p->inner * size; /* of a unit in a slab, in elements and in bytes */
        if (unit < 0)
                return false;
        p->slabs = 1;
        p->along = s->dims[unit].len;
        for (int32_t k = 0; k < s->nseq; k++) {
                const sf_dim *dim = &s->dims[s->nbatch + k];
                if (dim->x <= 0)
                        return false;
                const bool inside = dim->x < s->dims[unit].x;
                *(inside ? &within : &p->slabs) *= dim->len;
                reach += inside ? (dim->len - 1) * dim->x : 0;
        }
        /* Sequences that overlap may have as many elements, but not all of them there. */
        return within * size == s->dims[unit].x && reach <= s->dims[unit].x;
}

/* Lays the slabs out in shared memory, each where it is in a vector of 16 bytes in memory. Returns
 * the bytes of all. */
static int64_t lay_slabs(const sf_step *s, pieces *p)
{
        const int64_t size = size_of((int32_t)s->in), unit = s->n / p->slabs * p->inner * size;
        int64_t end = ceil_div(p->each * unit + 16, 16) * 16;
        for (int32_t k = s->nseq - 1; k >= 0; k--) {
                const sf_dim *dim = &s->dims[s->nbatch + k];
                p->pitch[k] = dim->x;
                if (dim->x >= unit) {
                        p->pitch[k] = end + ((dim->x - end) & 15);
                        end = p->pitch[k] * dim->len;
                }
        }
        return end;
}

/* The team, and the vectors, with the least cost: bank conflicts, exchange of totals, idle lanes. A vector is
 * moved one by one, but exchanges one total. Of lines that begin early it is moved at once. A whole warp
 * holds `most` words, other teams `held`. false: there is none. */
static bool share(const sf_step *s, int64_t words, int64_t most, int64_t held, pieces *p)
{
        const int64_t in = size_of((int32_t)s->in), out = size_of((int32_t)s->out);
        const bool pair = sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc), free = sf_op_free(s->op, s->acc) && !pair;
        const bool several = streams(s), early = several && free && in == out && p->inner == 1;
        const int64_t widest = early ? 16 / in : several && words == 1 && !pair ? at_most(4, 16 / at_least(in, out)) : 1;
        int64_t best = 0;
        for (int64_t width = 1; width <= widest; width *= 2)
                for (int64_t team = 1; team <= 32; team *= 2) {
                        const int64_t vectors = ceil_div(s->n + (early ? width - 1 : 0), width), items = ceil_div(vectors, team);
                        const int64_t fit = s->fold && team == 1 ? MOST_FOLDED : team == 32 ? most : held;
                        if (items * width * words > fit || (team > 1 && team >= 2 * vectors) || (early && width > 1 && width * in < 4))
                                continue;
                        const int64_t levels = log2_up(team) * words, own = width * log2_up(width) / 2;
                        const int64_t joined = free && several ? 2 * (levels + 2 * words) + width : (1 + width) * levels + own;
                        const int64_t times = team * items * 1024, rest = (4 * width + joined) * times / s->n;
                        if (best && rest >= best)
                                continue;
                        const int64_t alone = early ? at_least(width * in / 4, 1) : width * meeting(team, width, s->n, p->inner, in);
                        const int64_t moved = (s->fold ? 1 : 2) * alone;
                        const int64_t cost = (moved + 4 * width + joined) * times / s->n;
                        if (!best || cost < best) {
                                best = cost;
                                p->team = team;
                                p->width = width;
                                p->items = items;
                                p->early = early && width > 1;
                        }
                }
        return best > 0;
}

/* The most words of values that a whole warp holds. */
static int64_t most_words(const sf_step *s, bool narrow)
{
        if (s->fold)
                return MOST_HELD;
        if (!narrow)
                return MOST_SCANNED;
        const bool widens = size_of((int32_t)s->in) != size_of((int32_t)s->out);
        return widens ? MOST_WIDENED_ROW : MOST_NARROW_ROW;
}

/* How many blocks a multiprocessor has, if a thread holds `held` words at once and `all` in turn:
 * there are registers for what it holds, and about as many for the rest. */
static int64_t blocks_together(const sf_step *s, int64_t held, int64_t all)
{
        static const struct {
                int64_t held, blocks;
        } places[] = {{24, 8}, {MOST_SCANNED, 6}, {MOST_NARROW, 5}, {MOST_WIDENED_ROW, 4},
                      {INT64_MAX, 3}};
        int i = 0;
        if (all <= MOST_SEVERAL)
                return 10;
        if (!streams(s))
                return 6;
        while (held > places[i].held)
                i++;
        return places[i].blocks;
}

/* Distributes them to blocks of `threads`; false: they are not such sequences, or too long. */
static bool deal(const sf_step *s, const sf_cuda_chip *chip, int64_t threads, pieces *p)
{
        const int64_t in = size_of((int32_t)s->in), out = size_of((int32_t)s->out);
        const bool holds = s->fold && scanned_size(s) > 4;
        /* In any order a value takes the next element as soon as it is there. H200, sums of 513 i32 into i64 0.53 in
         * vectors of one. */
        const bool takes = s->fold && sf_op_free(s->op, s->acc) && !sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        const int64_t words = takes ? 1 : (holds ? value_size(s) : scanned_size(s)) / 4;
        const sf_dim *seq = s->dims + s->nbatch, *last = s->nbatch ? seq - 1 : NULL;
        if (!last || (s->nseq != 1 && !s->fold) || s->m || s->fuse || s->sibling || s->n < 2)
                return false;
        p->inner = (s->nseq > 1 ? last->x != in : magnitude(seq->x) == in) ? 1 : last->len;
        const bool beside = p->inner > 1;
        if (s->nseq == 1 && s->nbatch > (beside ? 2 : 1))
                return false;
        const sf_dim *unit = beside ? (s->nbatch == 2 ? last - 1 : NULL) : last;
        /* If there is only one unit, its stride does not matter. */
        const int64_t each = s->n * p->inner;
        bool fits = s->nseq > 1 ? in_slabs(s, beside, p)
                                : one_piece(unit ? unit->x : each * in, seq->x, last->x, s->n, p->inner, in);
        if (!s->fold)
                fits = fits && one_piece(unit ? unit->y : each * out, seq->y, last->y, s->n, p->inner, out) && (seq->x < 0) == (seq->y < 0);
        const int64_t bytes = s->n * p->inner * (in + (s->fold || in == out ? 0 : out));
        const bool narrow = streams(s) && words == 1 && !sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        const int64_t most = most_words(s, narrow);
        if (!fits || bytes > MOST_UNIT || s->n > 32 * (most / words))
                return false;

        if (!share(s, words, most, narrow ? MOST_NARROW : MOST_HELD, p))
                return false;
        const int64_t held = p->items * p->width * words;
        const int64_t units = s->batch / p->inner, sequences = threads / p->team, room = chip->small_tiles ? 4096 : MOST_STAGED;
        const int64_t several = is_tiny(s) ? MOST_SEVERAL / 2 : MOST_SEVERAL;
        p->rows = at_least(pow2_down(several / held), 1);
        p->resident = blocks_together(s, held, p->rows * held);
        while (p->rows > 1 && p->rows * sequences / 2 >= p->inner && (p->rows * sequences / 2 / p->inner * bytes > room || p->rows * sequences / 2 >= p->inner * units ||
                               2 * s->batch < p->rows * sequences * 2 * (int64_t)chip->multiprocessors))
                p->rows /= 2;
        p->each = staged_units(s, p->inner, p->rows * sequences, bytes, room, chip);
        if (!p->each)
                return false;
        if (s->nseq > 1) { /* a fold */
                p->each = at_most(p->each, p->along);
                p->shared = lay_slabs(s, p);
                p->blocks = s->batch / (p->along * p->inner) * ceil_div(p->along, p->each);
                return true;
        }
        const int64_t in_bytes = sf_rows_staged(p->each * s->n * p->inner * in), all = ceil_div(units, p->each);
        p->shared = 2 * in_bytes + (s->fold || in == out ? 0 : sf_rows_staged(p->each * s->n * p->inner * out));
        /* As many blocks as run together. */
        const int64_t fit = at_most(p->resident, chip->shared_per_multiprocessor / (p->shared + 1024));
        p->blocks = streams(s) ? at_most(all, at_least(fit, 1) * chip->multiprocessors) : all;
        p->shared -= p->blocks == all ? in_bytes : 0;
        return true;
}

/* Bytes from the result of a sequence to that of the next one; 0: they are not equally far apart. */
static int64_t apart(const sf_step *s, int64_t inner)
{
        const sf_dim *last = s->dims + s->nbatch - 1;
        return s->nbatch == 1 || last[-1].y == inner * last->y ? last->y : 0;
}

/* Rows that are vectors as they are, or long enough for vectors at any address, and columns that
 * fill a block have better kernels. */
static bool suits(const layout *l, bool down)
{
        const sf_step *s = l->step;
        const int64_t size = size_of(s->in), row = (down ? l->line.len : s->n) * size;
        if (s->nseq > 1)
                return s->fold && (down && l->line.x == size ? row < 64 : l->width * size < 16);
        if (down) {
                /* H200, scans of (1025, 5) f16 so 0.37, as columns 0.25; (717, 5) bf16 into f32 0.55,
                 * 0.34; sums of (94, 11) f32 0.92, 0.53, of (128, 17) 0.86, 0.66; but of (900, 5) f16 0.50,
                 * 0.59. */
                const int64_t narrow = s->fold ? 128 : size <= 2 ? 32 : 0;
                const bool few = !s->fold && s->n <= 8 && s->batch > l->line.len;
                return row * s->n < (row < narrow ? 16384 : 4096) || (few && row < 4096);
        }
        if (size >= 4)
                return l->width == 1 && (size == 4 || row <= 512);
        /* H200, share of a copy, so and in vectors at any address: scans of f16 in rows of 653 0.82,
         * 0.63, of bf16 2049 0.84, 0.48, into f32 653 0.85, 0.73; of i8 into i64 65 0.84, 0.76, 653
         * 0.83, 0.89; sums of bf16 37 1.40, 0.55; 101 0.46, 0.41; 401 0.45, 0.50; of 207, in blocks of
         * 128, 0.82, 0.45. */
        const bool widens = size_of((int32_t)s->out) == 8;
        const bool pair = sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) &&
                          !sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc);
        /* If all rows of x begin alike, results are aligned, and only x is shifted: rows of 48 bf16
         * 0.61, and 0.50 so. */
        if (l->width * size >= 8 || (row >= 32 && aligned_to(row, 16)))
                return false;
        if (row < 32)
                return true;
        if (s->fold)
                return s->n < 256 && !pair;
        if (pair)
                return s->n < 400 && !widens;
        return s->n < 128 || !widens;
}

sf_status sf_cuda_plan_pieces(const sf_context *ctx, const layout *l, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool *fits)
{
        const sf_step *s = l->step;
        /* H200, share of a copy, so and in blocks of 256, half as many: products of 51 i64 0.95, 0.81,
         * sums of 7 f32 1.40, 1.33, scans of 257 f16 into f32 0.98, 0.94. */
        const int64_t threads = chip->small_tiles ? 64 : 128;
        pieces g = {0};
        *fits = !s->left && !s->values && suits(l, down) && deal(s, chip, threads, &g);
        if (!*fits)
                return SF_OK;
        layout one = sf_cuda_layout(s, false, false);
        one.width = (int)g.width;
        one.early = g.early;
        draft d = sf_cuda_draft(&plan->launch[0], s->fold ? SF_CUDA_FOLD : SF_CUDA_SCAN_ROWS, &one);
        sf_cuda_spec *spec = &d.launch->spec;
        spec->threads = (int32_t)threads;
        spec->items = (int32_t)g.items;
        spec->flags |= SF_CUDA_SINGLE;
        if (!s->fold && sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc))
                spec->flags |= SF_CUDA_ROLLS; /* H200, rows of 35: 0.95, without 0.81 */
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(g.resident, 2048 / threads);
        spec->extra[s->fold ? FOLD_TEAM : SCAN_ROWS_TEAM] = (int32_t)g.team;
        spec->extra[s->fold ? FOLD_ROWS : SCAN_ROWS_ROWS] = (int32_t)g.rows;
        const bool turns = g.each * g.inner > g.rows * (threads / g.team);
        spec->extra[s->fold ? FOLD_STAGED : SCAN_ROWS_STAGED] = turns ? 2 : 1;
        d.p.units = s->batch;
        d.p.number[0] = s->fold ? apart(s, g.inner) : 1;
        d.p.number[1] = g.each;
        d.p.number[2] = s->fold ? s->n : g.blocks;
        d.p.number[3] = g.inner;
        if (s->nseq > 1) {
                d.p.number[0] = 0;
                d.p.number[2] = ceil_div(g.along, g.each);
                d.p.il = s->n / g.slabs * g.inner;
                d.p.left_entry = g.slabs;
                for (int32_t k = 0; k < s->nseq; k++) {
                        sf_params_dim *dim = &d.p.dims[s->nbatch + k];
                        dim->y = g.pitch[k];
                        dim->m = dim->x >= d.p.il * size_of((int32_t)s->in);
                }
        }
        plan->launches = 1;
        return sf_cuda_finish(ctx, chip, &d, g.blocks, g.shared);
}
