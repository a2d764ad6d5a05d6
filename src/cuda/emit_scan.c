/* Scans: rows, columns, or one sequence shared by many blocks. */
#include "cuda/emit_draft.h"

#include <inttypes.h>

/*
 * A row that fits in the registers of a multiprocessor is read in one burst and written in another,
 * which is best for memory. H200, 32768 x 32768 f32, share of a copy, in tiles and whole: 0.969 and
 * 0.985, reverse 0.979 and 0.999, masked 0.980 and 0.992. Rows of half the length, of which a
 * multiprocessor also holds two in tiles, gain nothing (0.999).
 */
static bool fits_whole(const layout *l, const sf_cuda_chip *chip)
{
        const sf_step *s = l->step;
        return !chip->small_tiles && !s->fuse && !s->sibling && size_of(s->in) == 4 && value_size(s) == 4 && l->width == 4 && s->n > 24576 && s->n <= 32768 &&
               s->batch >= chip->multiprocessors;
}

/*
 * Whether a scan of products along rows has registers for pairs. H200, share of plain
 * multiplication, pairs and numbers: f32 in vectors of four, rows of 16384, numbers near 1 0.98 and
 * 0.91, of a normal distribution 0.99 and 0.77. Single elements have no vectors to multiply: rows of
 * 50257 0.76 and 0.97, 0.56 and 0.39. Other elements have no room. One line of 2^28 gains nothing:
 * 0.94 and 0.97, 0.73 and 0.83.
 */
static bool lifts(const layout *l)
{
        const sf_step *s = l->step;
        return sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc) && scanned_size(s) == 4 &&
               size_of(s->in) == 4 && l->width > 1;
}

/* Do rows of single elements leave more than a quarter of a block's tiles empty? H200, (65536, 4097) f32: 0.42 of
 * a copy in tiles of 8192. */
static bool leaves_empty(const layout *l, int64_t vectors, int64_t largest, const sf_cuda_chip *chip)
{
        const sf_step *s = l->step;
        const int64_t tile = at_most(pow2_up(vectors), largest);
        return !chip->small_tiles && l->width == 1 && size_of(s->in) == 4 && scanned_size(s) == 4 && !sf_op_free(s->op, s->acc) && !s->fuse && !s->sibling &&
               4 * vectors < 3 * ceil_div(vectors, tile) * tile;
}

static sf_status plan_rows(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        const sf_step *s = l->step;
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SCAN_ROWS, l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t width = l->width, vectors = ceil_div(reached(l, s->n), width), held = at_least(tile.elements / width, 1);
        int64_t team, items, rows = 1;
        /* How many vectors a thread can hold without another tile in flight: at most 128 bytes of
         * accumulators, 64 of several rows. */
        int64_t most = chip->small_tiles ? held : at_least(128 / (at_least(scanned_size(s), sf_cuda_loaded_bytes(l)) * width), 1), several = at_least(most / 2, 1);
        /* Single elements: a warp for rows of up to 1536, since of two warps the second would have
         * little to do. H200, share of a copy: rows of 1101 0.80, 0.45 in two warps; 1471 0.79,
         * 0.58. */
        if (width == 1 && size_of(s->in) == 4 && scanned_size(s) == 4 && !chip->small_tiles)
                most = 48;
        if (vectors <= 32 * most) {
                /* Up to a warp for each row: the split into lanes and items that leaves the fewest
                 * idle. */
                team = at_most(pow2_up(vectors), 32);
                items = ceil_div(vectors, team);
                for (int64_t t = team / 2; t >= 8 && ceil_div(vectors, t) <= several; t /= 2)
                        if (ceil_div(vectors, t) * t < items * team) {
                                team = t;
                                items = ceil_div(vectors, t);
                        }
                rows = at_least(pow2_down(several / items), 1);
                spec->threads = (int32_t)at_least(at_most(tile.threads, 256), team);
                /* A small tensor is spread over the whole chip. */
                while (rows > 1 && s->batch < 2 * chip->multiprocessors * rows * (spec->threads / team))
                        rows /= 2;
                while (spec->threads > 64 && spec->threads > team && s->batch < 2 * chip->multiprocessors * rows * (spec->threads / team))
                        spec->threads /= 2;
                spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(chip->small_tiles ? 1 : (items * width > 32 && scanned_size(s) == 4 && width == 1 ? 768 : 1024) / spec->threads, 8);
        } else if (fits_whole(l, chip)) {
                team = 1024;
                items = 8; /* each warp's part is an aligned power of two */
                spec->threads = (int32_t)team;
                spec->extra[SF_CUDA_RESIDENT] = 1;
        } else if ((size_of(s->in) <= 2 && (vectors > tile.threads * held || 8 * vectors < 7 * pow2_up(vectors))) || leaves_empty(l, vectors, tile.threads * held, chip)) {
                /* Much of a large tile would be empty at the end of a row. A warp for each row
                 * needs no barriers either; more if there are few rows. */
                spec->threads = 256;
                spec->extra[SF_CUDA_RESIDENT] = chip->small_tiles ? 1 : 2;
                /* Halves into f32 at any address store twice what they load. H200, share of a copy, three blocks,
                 * which spills, and two: rows of 10001 0.83, 0.66; of 2561 0.78, 0.65; but of f16 0.74, 0.78. */
                if (!chip->small_tiles && l->shift_in && !l->early && size_of(s->in) == 2 && size_of(s->out) == 4 &&
                    !sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc))
                        spec->extra[SF_CUDA_RESIDENT] = 3;
                if (chip->small_tiles)
                        spec->threads = tile.threads;
                items = held;
                if (size_of(s->in) == 4) {
                        items = 16;
                        spec->extra[SF_CUDA_RESIDENT] = 4;
                }
                for (team = 32; team < spec->threads && team * items < vectors && s->batch * team < 1024 * (int64_t)chip->multiprocessors;)
                        team *= 2;
        } else {
                team = at_most(pow2_up(ceil_div(vectors, held)), tile.threads);
                items = held;
                /* A tile of few bytes is loaded and computed quickly: two blocks take turns. */
                if (team == 1024 && team * items * width * size_of(s->in) < 65536)
                        team /= 2;
                spec->threads = (int32_t)team;
                /* H200, rows of 3000, which fill no tile: pairs 0.71, numbers 0.90. */
                if (lifts(l) && vectors >= team * items)
                        spec->flags |= SF_CUDA_LIFTS;
                /* Small blocks have 64 registers a thread, unless that many elements are held. */
                const int64_t each = spec->flags & SF_CUDA_LIFTS ? value_size(s) : scanned_size(s);
                int64_t places = tile.elements * each > 128 ? tile.threads * tile.resident : 1024;
                /* One block of 512 threads is idle between its load and its store. H200, share of a
                 * copy: (6144, 5951) f64 at odd addresses 0.51, 0.31 in one block; (8192, 16384)
                 * 0.93, 0.78; (5064, 4517) i32 into i64 0.98, 0.34; cumprod of (16384, 8192) f64,
                 * share of plain multiplication, 1.00, 0.90. */
                const bool pair = sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
                if (!chip->small_tiles && scanned_size(s) == 8 && team == 512 && tile.resident == 1 &&
                    (!pair || sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc))) {
                        const bool few = vectors <= 512 * held;
                        items = few ? at_least(held / 2, 1) : held;
                        team = tile.threads = spec->threads = 256;
                        tile.resident = few ? 3 : 2;
                }
                spec->extra[SF_CUDA_RESIDENT] = team == tile.threads ? tile.resident : (int32_t)at_least(at_most(places / team, 8), 1);
        }
        /* Where any order gives the same bits, a warp's part need not be a power of two. */
        if (sf_op_free(s->op, s->acc) && vectors < team * items && !sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc))
                items = ceil_div(vectors, team);
        int64_t tiles = ceil_div(vectors, team * items), shared = sf_rows_end(spec->threads) * value_size(s);
        /* H200, numbers near 1, in a loop and not: rows of 50257 f32 0.97 and 0.63, of 8192 f64
         * 0.90 and 0.71. */
        if (sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc) && (width == 1 || scanned_size(s) == 8))
                spec->flags |= SF_CUDA_ROLLS;
        spec->items = (int32_t)items;
        spec->flags |= tiles == 1 ? SF_CUDA_SINGLE : 0;
        spec->extra[SCAN_ROWS_TEAM] = (int32_t)team;
        spec->extra[SCAN_ROWS_ROWS] = (int32_t)rows;
        d.p.units = s->batch;
        d.p.number[0] = tiles;
        plan->launches = 1;
        return sf_cuda_finish(ctx, chip, &d, ceil_div(s->batch, rows * (spec->threads / team)), shared);
}

/* A step over sequences of one element: the last batch dimension is walked like a sequence, but no
 * element depends on another. */
sf_status sf_cuda_plan_map(const sf_context *ctx, const sf_step *s, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        sf_step lines = *s;
        lines.fold = false;
        lines.nseq = 1;
        if (s->nbatch) {
                lines.nbatch = s->nbatch - 1;
                lines.n = s->dims[lines.nbatch].len;
                lines.batch = s->batch / lines.n;
        }
        lines.exclusive = s->exclusive && !s->fold;
        layout l = sf_cuda_layout(&lines, false, false);
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_MAP, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t items = at_least(tile.elements / l.width, 1), vectors = ceil_div(lines.n, l.width), units = lines.batch * vectors;
        spec->threads = tile.threads;
        /* A small tensor is spread over the whole chip. */
        while (items > 1 && units < 2 * chip->multiprocessors * spec->threads * items)
                items /= 2;
        spec->items = (int32_t)items;
        spec->extra[SF_CUDA_RESIDENT] = tile.resident;
        d.p.units = units;
        d.p.number[0] = vectors;
        plan->launches = 1;
        return sf_cuda_finish(ctx, chip, &d, ceil_div(units, spec->threads * items), 0);
}

/* Is the matrix at every batch position contiguous, in x and y, and can it be moved 16 bytes at a
 * time although its rows cannot? */
static bool in_one_piece(const layout *l)
{
        const sf_step *s = l->step;
        const sf_dim *seq = s->dims + s->nbatch;
        int64_t in = size_of(s->in), out = size_of(s->out), len = l->line.len;
        const bool one = !s->sibling || s->sibling->fold; /* a result for each element, not two */
        return one && in == out && !s->m && !s->fuse && l->width < at_most(16 / in, 8) && l->line.x == in && l->line.y == out && seq->x == len * in && seq->y == len * out &&
               in_sixteens(s, l->nbatch);
}

/*
 * An axis so short that one tile holds all of it. A thread holds all its rows, if it can, and
 * strips are as wide as the threads that are then free allow. So a block has enough to do, and
 * there are more threads, each with fewer bytes in flight. Returns how many threads a
 * multiprocessor should hold.
 */
static int64_t for_short_axis(const layout *l, sf_cuda_tile tile, const sf_cuda_chip *chip,
                              strip *cut, int64_t *items, int64_t places, bool all)
{
        const sf_step *s = l->step;
        const int64_t outer = s->batch / l->line.len, width = l->width, vectors = ceil_div(l->line.len, width), words = scanned_down_size(s) / 4;
        if (s->n > cut->groups * *items && !all)
                return places;
        /* Half of a thread's registers for what it holds, if it has 128. */
        if ((all || s->n * width * words <= 32) && !chip->small_tiles) {
                *items = s->n;
                cut->groups = 1;
        }
        while (2 * cut->slots * cut->groups <= tile.threads && cut->slots < vectors &&
               outer * ceil_div(vectors, 2 * cut->slots) >= 8 * (int64_t)chip->multiprocessors)
                cut->slots *= 2;
        cut->strips = ceil_div(vectors, cut->slots);
        /* Registers for what is loaded, what is held, and addresses. */
        const int64_t loaded = *items * l->packs * ceil_div(width / l->packs * size_of(s->in), 4), registers = 32 + *items * width * words + loaded;
        return chip->small_tiles || scans_pairs_down(s) ? places : at_least(places, 65536 / registers);
}

/* With this many blocks, of which `fit` fit on a multiprocessor: how much of the chip is busy until
 * the last of them ends, in thousandths? Blocks that run together share the memory, so those of one
 * round need only be spread evenly; but 512 threads are needed to have enough loads in flight. */
static int64_t busy(int64_t blocks, int64_t threads, int64_t fit, const sf_cuda_chip *chip)
{
        const int64_t all = chip->multiprocessors, each = ceil_div(blocks, all), round = at_most(each, fit) * all;
        return 1000 * blocks / (ceil_div(blocks, round) * round) * at_most(each > fit ? fit * threads : each * threads, 512) / 512;
}

/*
 * If strips leave much of the chip idle: narrower strips, down to 32 columns and one cache line, in
 * blocks of 256 threads, several of which run at once, or of 512 if there is one for each
 * multiprocessor. Vectors have at most 16 bytes of values, and 16 of them side by side are better
 * than more and shorter ones. Of equally good strips, recurrences are faster in the narrower. H200,
 * times as fast as the widest strips of which there are three for every four multiprocessors, and
 * in brackets the share of a copy:
 *             (8, 2048, 1536)  (8, 2048, 2048)  (16, 1000, 700)  (4, 4096, 1024)  (32, 2048, 640)
 * recurrences     1.43 (0.87)      1.51 (0.84)      1.40 (0.84)      1.07 (0.68)      1.68
 * sums of f32     1.15 (0.83)      1.25 (0.97)      1.12 (0.80)      1.25 (0.88)      1.07 (0.83)
 *         f16     2.36 (0.69)      1.49 (0.87)             (0.68)           (0.51)           (0.63)
 *         i64     1.04 (0.94)         1 (0.97)      1.06 (0.87)      1.02 (0.97)         1 (0.89)
 */
static void narrow_strips(const layout *l, sf_cuda_tile tile, const sf_cuda_chip *chip, int64_t *width, int64_t *slots, strip *cut)
{
        const sf_step *s = l->step;
        const int64_t in = size_of(s->in), outer = s->batch / l->line.len, places = tile.threads * tile.resident, value = scanned_down_size(s);
        const bool few = 4 * outer * cut->strips < 3 * chip->multiprocessors, pair = scans_pairs_down(s);
        /* A block for each matrix, and hardly one for each multiprocessor; those of staged rows have enough in flight.
         * H200, share of a copy, so and in whole rows: (100, 3000, 300) bf16 0.85, 0.58; (100, 3000, 100) f32 1.06, 0.85. */
        const bool lone = !few && cut->whole && !pair && !in_one_piece(l) && 2 * outer * cut->strips < 3 * chip->multiprocessors;
        /* The less there is to compute, the less is lost while only the last blocks run. */
        const int64_t enough = !pair ? 750 : sf_op_is(s->op, SF_INDEX) ? 650 : 850;
        int64_t best = few ? 0 : busy(outer * cut->strips, lone ? cut->slots * cut->groups : tile.threads, tile.resident, chip);
        if (s->op == SF_LOGSUMEXP || chip->small_tiles || (!few && !lone && (cut->whole || l->packs > 1)))
                return;
        for (int64_t t = 256; t <= 512 && t <= places; t *= 2)
                for (int64_t w = l->width, n = tile.more; best < enough && n * w > 32 && n * w * in > 128;) {
                        if (w * value > 16 || (n <= 16 && w > 1))
                                w /= 2;
                        else
                                n /= 2;
                        const strip narrow = {n, at_most(pow2_down(t / n), 64), ceil_div(ceil_div(l->line.len, w), n), false};
                        const int64_t blocks = outer * narrow.strips, own = busy(blocks, t, places / t, chip);
                        if (own < best || (own == best && t > 256) || 4 * blocks < 3 * chip->multiprocessors)
                                continue;
                        best = own;
                        *width = w;
                        *slots = n;
                        *cut = narrow;
                }
}

/*
 * How many columns should a thread have so that it can hold all rows of them? Groups of rows are a
 * power of two, of which a few rows more than half leave much idle. 0: that is not so, or there are
 * too few columns, or too narrow ones. H200, share of a copy, so and in groups: (17, 40683310) f16
 * 0.76, 0.64; (4097, 21, 2225) bf16 0.67, 0.50; (1262, 10, 16241) u8 0.57, 0.38; (977, 21, 4796)
 * f64 0.91, 0.78. Elements of 4 bytes gain nothing, and single narrow elements lose.
 */
static int64_t alone_width(const layout *l, int64_t width, const sf_cuda_chip *chip)
{
        const sf_step *s = l->step;
        const int64_t size = size_of(s->in), words = scanned_size(s) / 4, most = 48;
        const bool product = sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc);
        if (chip->small_tiles || (sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc) && !product) ||
            size != size_of(s->out) || size == 4 || s->n * width * words <= 32 ||
            5 * s->n > 4 * pow2_up(s->n) || l->line.len < 192 * width ||
            s->batch / width < 1024 * (int64_t)chip->multiprocessors)
                return 0;
        while (width > 1 && s->n * width * words > most)
                width /= 2;
        return s->n * width * words <= most && (width > 1 || size == 8) ? width : 0;
}

/*
 * Narrow columns that have better tiles than the table's, and how wide their vectors may be; 0: these
 * have not. Vectors whose elements are loaded one by one take as many registers as wide ones: smaller
 * tiles, of which there must be enough. Totals of products are pairs: rather more rows than more
 * columns. H200, share of a copy, so and as the table has it: cumsum of (200, 1000, 333) f16 0.93,
 * 0.82; (130, 65, 1002177) f16 0.78, 0.71; (3000, 65, 1001) f16 0.78, 0.55; (200, 1000, 333) u8 0.73,
 * 0.55; cumprod of (1000, 100, 333) f16 0.72, 0.30; (64, 500, 1501) f16 0.74, 0.46; (5480, 59, 292) f16
 * 0.76, 0.33; (514, 65, 13312) f16 into f32 0.94, 0.69.
 */
static int64_t narrow_tile(const layout *l, const sf_cuda_chip *chip, sf_cuda_tile *tile)
{
        const sf_step *s = l->step;
        const bool product = sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc), single = l->packs == l->width && l->width > 1;
        const bool plain = !chip->small_tiles && !s->m && !s->fuse && !s->sibling && (product || scanned_size(s) == 4);
        const int64_t width = product && single ? 2 : 4, blocks = s->batch / l->line.len * ceil_div(l->line.len, 32 * width);
        if (!plain || size_of(s->in) > 2 || !(product ? size_of(s->in) == 2 : single && size_of(s->out) <= 2) ||
            s->n < 32 || blocks < 4 * (int64_t)chip->multiprocessors)
                return 0;
        *tile = (sf_cuda_tile){128, product && !single ? 32 : 16, !product ? 8 : single ? 5 : 4, tile->more, tile->beside};
        return width;
}

/* In chunks: three launches, with strips of the best width. Else one launch, with strips so narrow
 * that there are enough. */
static sf_status plan_columns(const sf_context *ctx, const layout *l, const sf_cuda_chip *chip, sf_cuda_plan *plan, bool in_chunks)
{
        const sf_step *s = l->step;
        draft d = sf_cuda_draft(&plan->launch[in_chunks ? 2 : 0], SF_CUDA_SCAN_COLUMNS, l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        /* Staging leaves registers for more threads. H200, (4096, 1000, 33), share of a copy: 0.92
         * without. */
        int64_t outer = s->batch / l->line.len, width = l->width, slots = tile.more, threads = tile.threads * (in_one_piece(l) ? 2 : 1);
        int64_t places = tile.threads * tile.resident;
        /* In a sum of exponentials, exchange between groups and tiles takes most of the time: a
         * thread should have more rows rather than more columns. H200, (16384, 16384) f32, share of
         * a copy: 32 elements as vectors of four 0.43, of two 0.57. */
        if (s->op == SF_LOGSUMEXP && !chip->small_tiles)
                width = at_least(at_most(width, 16 / value_size(s)), 1);
        const int64_t most = in_chunks ? 0 : narrow_tile(l, chip, &tile);
        if (most) {
                width = at_most(width, most);
                threads = tile.threads;
                places = tile.threads * tile.resident;
        }
        const int64_t alone = in_chunks ? 0 : alone_width(l, width, chip);
        if (alone)
                width = alone;
        strip cut = sf_cuda_strip(ceil_div(l->line.len, width), slots, threads);
        if (alone)
                cut = (strip){slots, 1, ceil_div(ceil_div(l->line.len, width), slots), false};
        /* Whole rows hardly ever fill 256 threads. H200, (65536, 300), (65536, 200), (2^18, 100),
         * share of a copy: two blocks of up to 512 0.53, 0.54, 0.51; three of 256 0.49, 0.46,
         * 0.48. cumprod of (65536, 300), share of plain multiplication: 0.87, four of 160 0.82. */
        if (in_chunks && cut.whole && threads == 256 && scanned_size(s) == 4) {
                threads = 512;
                places = scanned_down_size(s) == 4 ? 1024 : places;
                cut = sf_cuda_strip(ceil_div(l->line.len, width), slots, threads);
        }
        /* One group adds up the totals of all: rather more rows than more groups. H200, share of a
         * copy, so and in the widest vectors: (4471431, 48) f16 0.33, 0.16; (629908, 129) 0.34,
         * 0.25; (1000000, 100) bf16 0.42, 0.28. */
        while (in_chunks && cut.whole && size_of(s->in) == 2 && width > 1 &&
               (cut.groups > 16 || width > 4)) {
                width /= 2;
                cut = sf_cuda_strip(ceil_div(l->line.len, width), slots, threads);
        }
        if (!in_chunks && !alone)
                narrow_strips(l, tile, chip, &width, &slots, &cut);
        /* If there are still too few strips: narrower ones, down to the 32 bytes that memory moves
         * at once. */
        int64_t sector = at_least(32 / size_of(s->in), 1);
        while (!in_chunks && 4 * cut.strips * outer < 3 * chip->multiprocessors && slots * width > sector && l->line.len > sector) {
                /* Of narrow elements a strip has many columns: rather fewer vectors than shorter
                 * ones, down to a cache line. */
                if (width > 1 && !(size_of(s->in) <= 2 && slots > 8))
                        width /= 2;
                else
                        slots /= 2;
                threads = at_most(2 * tile.threads, 512);
                cut = sf_cuda_strip(ceil_div(l->line.len, width), slots, threads);
                if (cut.whole && cut.strips == 1 && slots * width > sector) {
                        cut = (strip){slots, at_most(pow2_down(threads / slots), 64), ceil_div(ceil_div(l->line.len, width), slots), false};
                }
        }
        int64_t items = pow2_down(at_least(tile.elements / width, 1));
        const layout own = sf_cuda_narrowed(*l, (int)width);
        if (width != l->width)
                d = sf_cuda_draft(d.launch, SF_CUDA_SCAN_COLUMNS, &own);
        /* A short axis needs no more groups than it has rows for. */
        while (cut.groups > 1 && cut.groups / 2 * items >= s->n)
                cut.groups /= 2;
        /* Nor should much of the last tile be empty. H200, (514, 65, 13312) f16 into f32, share of a copy: 0.97, in tiles
         * of 64 rows 0.80. */
        for (int64_t rows; !in_chunks && !cut.whole && !chip->small_tiles && (rows = cut.groups * items) < s->n && cut.groups > 2 &&
             4 * ceil_div(s->n, rows) * rows > 5 * s->n && 10 * ceil_div(s->n, rows / 2) < 19 * ceil_div(s->n, rows);)
                cut.groups /= 2;
        if (!in_chunks && !cut.whole)
                places = for_short_axis(&own, tile, chip, &cut, &items, places, alone > 0);
        int64_t tiles = ceil_div(s->n, cut.groups * items);
        int64_t piece = cut.groups * items * l->line.len * size_of(s->in), staged = cut.whole && in_one_piece(l) && aligned_to(piece, 16) ? 3 : 0;
        spec->extra[SCAN_COLUMNS_STAGED] = (int32_t)staged;
        spec->extra[SCAN_COLUMNS_PACKS] = own.packs;
        spec->threads = (int32_t)ceil_div(cut.slots * cut.groups, 32) * 32;
        spec->items = (int32_t)items;
        spec->flags |= tiles == 1 ? SF_CUDA_SINGLE : 0;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(at_least((staged ? 1024 : places) / spec->threads, 1), 8);
        spec->extra[SCAN_COLUMNS_SLOTS] = cut.whole ? 0 : (int32_t)cut.slots;
        spec->extra[SCAN_COLUMNS_GROUPS] = (int32_t)cut.groups;
        d.p.units = outer * cut.strips;
        d.p.number[0] = tiles;
        d.p.number[1] = cut.strips;
        d.p.number[2] = cut.slots;
        plan->launches = 1;
        int64_t totals = tiles * cut.groups > 1 ? sf_columns_end(cut.groups, cut.slots * width, log2_up(tiles) + 1) : 0;
        int64_t shared = staged * piece + totals * value_size(s);
        if (!in_chunks)
                return sf_cuda_finish(ctx, chip, &d, d.p.units, shared);
        /* Several times as many blocks as run together, so that all end at about the same time,
         * unless their chunks would be too short, or totals too many. */
        int64_t together = (int64_t)chip->multiprocessors * spec->extra[SF_CUDA_RESIDENT];
        dealing c = sf_cuda_chunks(s, tiles, d.p.units, 4 * together);
        if (c.log < 3 || d.p.units * (c.folded + 1) < 2 * together)
                c = sf_cuda_chunks(s, tiles, d.p.units, together);
        if (!c.folded || cut.groups == 1)
                return plan_columns(ctx, l, chip, plan, false);
        spec->extra[SCAN_COLUMNS_CHUNKED] = 1;
        d.p.number[3] = c.log;
        return sf_cuda_in_chunks(ctx, chip, &d, c, d.p.units, own.packs > 1 ? cut.strips * cut.slots * width : l->line.len, shared, false, plan);
}

/* ------------------------------------------------------------------------------------------------
 * One sequence shared by many blocks
 * ---------------------------------------------------------------------------------------------- */

/* The shared memory of a block of scan_chained.cu, without its stages, in bytes. */
static int64_t handed_over(int64_t turns, int64_t workers, int64_t columns, int64_t parties,
                           int64_t depth, int64_t acc, bool lefts)
{
        int64_t claims = SF_RING * (int64_t)sizeof(sf_claim), all = sf_chained_end(turns, workers / 32, columns, parties, depth);
        return claims + (all + (lefts && columns == 1 ? sf_chained_lefts(parties) : 0)) * acc;
}

/* Bytes of scratch in which tiles publish their totals. */
static size_t published(int64_t lines, int64_t groups, int64_t columns, int64_t acc)
{
        return (size_t)(SF_TICKETS + lines * groups * sf_group_words(columns, acc / 4) * 8);
}

/* `columns` interleaved sequences, a power of two, in one line. */
static sf_status plan_chained(const sf_context *ctx, const sf_step *s, int64_t columns, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        layout l = sf_cuda_layout(s, false, false);
        const bool cuts = s->left && s->values;
        if (columns == 1)
                l = sf_cuda_anywhere(l);
        if (cuts)
                l = sf_cuda_loosened(l);
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SCAN_CHAINED, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        int64_t width = l.width, items = pow2_down(at_least(tile.elements / width, 1)), workers = tile.threads, acc = value_size(s);
        /* Warps that publish, and warps that look back. H200, 2^28 f32, share of a copy: one party
         * that looks back 0.58, two 0.87, four 0.77. */
        int64_t announcers = at_most(columns, 4), parties = 2, lookers = at_most(columns, 4);
        /* What is staged as one piece for each warp (X_PIECE). */
        int64_t ends = !l.loads && !s->m && (l.shift_in || (unit(l.line.x, l.in) && width * l.in < 16));
        for (int32_t k = 0; l.loose && k < s->fuse->operands; k++)
                ends += sf_cuda_loose(&l, k);
        int64_t slot = sf_cuda_staged_bytes(&l) + (s->m ? width : 0), stages, stage, shared;
        int64_t tiles, depth;
        const int64_t rising = cuts ? sf_rising(s->before, s->n) : 0;
        const int64_t largest = at_least(pow2_down(rising), s->n - rising);
        /* As many stages as shared memory has room for; smaller tiles if that would be fewer than
         * four. */
        for (;; workers /= 2) {
                stage = workers * items * slot + workers / 32 * ends * SF_CHAINED_END;
                tiles = ceil_div(cuts ? largest : s->n, workers * items * width);
                depth = at_least(ceil_div(log2_up(tiles), SF_GROUP_LOG), 1);
                shared = chip->shared_per_block - handed_over(tile.more, workers, columns, parties, depth, acc, s->left);
                stages = at_most(tile.more, shared / stage);
                if (stages >= 4 || workers <= 64)
                        break;
        }
        stages = at_least(stages, 4);
        int64_t lines = s->batch, all = lines * tiles;
        if (cuts) {
                const int64_t each = workers * items * width;
                d.p.units = rising / each + sf_ones(rising & (each - 1)) + ceil_div(s->n - rising, each);
                all = s->batch * d.p.units;
                lines *= sf_cuda_set_rising(&d, s);
        }
        int64_t blocks = at_most(all, chip->multiprocessors * tile.resident);
        if (all > INT32_MAX)
                return sf_fail(ctx, SF_UNSUPPORTED, "%" PRId64 " sequences of %" PRId64 " elements are %" PRId64 " tiles; at most 2147483647 are supported",
                               lines, s->n, all);
        /* A tile closes groups in a later turn than the one in which its total was published: at
         * least three turns. H200: four of six stages give 0.81. */
        int64_t ahead = at_least(stages - 1, 3);
        shared = stages * stage + handed_over(ahead + 1, workers, columns, parties, depth, acc, s->left);
        spec->threads = (int32_t)(workers + 32 * (announcers + parties * lookers));
        spec->items = (int32_t)items;
        spec->extra[SF_CUDA_RESIDENT] = tile.resident;
        spec->extra[SCAN_CHAINED_COLUMNS] = (int32_t)columns;
        spec->extra[SCAN_CHAINED_STAGES] = (int32_t)stages;
        spec->extra[SCAN_CHAINED_AHEAD] = (int32_t)ahead;
        spec->extra[SCAN_CHAINED_ANNOUNCERS] = (int32_t)announcers;
        spec->extra[SCAN_CHAINED_LOOKERS] = (int32_t)lookers;
        spec->extra[SCAN_CHAINED_PARTIES] = (int32_t)parties;
        spec->extra[SCAN_CHAINED_DEPTH] = (int32_t)depth;
        int64_t groups = sf_groups_below(tiles, depth);
        d.p.number[0] = tiles;
        d.p.number[1] = groups;
        d.p.number[2] = all;
        d.p.number[3] = all + blocks * (stages + 2);
        plan->launches = 1;
        d.across = sf_cuda_total_across(s, columns);
        plan->scratch = published(lines, groups, columns, acc);
        plan->watched = true;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, blocks, shared));
        d.launch->scratch_fields = 1;
        return SF_OK;
}

/* The same, with a block for each tile. */
static sf_status plan_burst(const sf_context *ctx, const sf_step *s, int64_t columns, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        layout l = sf_cuda_layout(s, false, false);
        const bool staged = odd_part(columns) > 1;
        /* The shortest vectors, of an odd length, of which a power of two make a row: the more
         * lanes share a row, the fewer levels there are between them. */
        if (staged)
                l.width = (int)odd_part(columns);
        else
                l = sf_cuda_shifted(l, true);
        draft d = sf_cuda_draft(&plan->launch[0], SF_CUDA_SCAN_BURST, &l);
        sf_cuda_spec *spec = &d.launch->spec;
        if (staged)
                spec->flags &= ~SF_CUDA_RAGGED;
        sf_cuda_tile tile;
        SF_TRY(sf_cuda_draft_tile(ctx, chip, &d, &tile));
        const bool product = sf_cuda_is_product((int32_t)s->op, (int32_t)s->acc);
        int64_t acc = value_size(s), vector = l.width * scanned_size(s) / 4;
        /* H200, cumprod of (2^22, 8), share of plain multiplication: f32 512 x 32 0.90, 256 x 32
         * 0.76; bf16 0.81, 0.73; of (2^20, 32) f32 0.72, 0.70. */
        if (product && !staged && scanned_size(s) == 4 && tile.threads == 256)
                tile.threads = 512;
        if (staged) {
                /* A thread holds this many vectors, and as much again of what it takes from others.
                 * There are as many threads as registers allow. */
                int64_t held = pow2_down(at_least(44 / vector, 1));
                tile = (sf_cuda_tile){.threads = chip->small_tiles ? 64 : 256, .elements = (int32_t)(held * l.width)};
                tile.resident = (held + 1) * vector <= 30 ? 4 : (held + 1) * vector <= 40 ? 3 : (held + 1) * vector <= 80 ? 2 : 1;
                /* Computing needs more registers. H200, cumprod of (2^22, 7) f32, share of plain
                 * multiplication: three blocks 0.89, two 0.80. */
                if (product)
                        tile.resident = (int32_t)at_most(tile.resident, 3);
                else if (sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc))
                        tile.resident = (int32_t)at_least(tile.resident - 2, 1);
        }
        /* Vectors at any address need registers to be put together: half as many threads in a block, three quarters
         * as many on a multiprocessor; or more for each of as many. H200, share of a copy, as chosen here and the other
         * way: 8000001 f32 0.90, 0.84; two columns of 801078 f32 0.74, 0.64; 6388608 f16 into f32 0.78, 0.70; but
         * 8388608 f16 0.40, 0.36; 16777216 u8 0.33, 0.28; 4199568 i64 0.88, 0.73; cumprod of 4194305 f32 0.73, 0.65. */
        if (l.shift_in && !staged && tile.threads * tile.resident > 512 && !chip->small_tiles) {
                const int64_t in = size_of(s->in);
                const bool narrow = in <= 2 && in == size_of(s->out) && !product;
                const bool larger = narrow || in == 8 || (product && in == 4 && columns == 1);
                tile.threads = larger ? 512 : 256;
                tile.resident = !larger ? 3 : in == 8 ? 2 : 1;
                if (larger)
                        tile.elements = (int32_t)((narrow ? 256 : 128) / scanned_size(s));
        }
        int64_t items = pow2_down(at_least(tile.elements / l.width, 1)), threads = tile.threads;
        /* A small tensor is spread over the whole chip. */
        while (threads > 128 && s->batch * ceil_div(s->n, threads * items * l.width) < chip->multiprocessors * tile.resident)
                threads /= 2;
        int64_t tiles = ceil_div(reached(&l, s->n), threads * items * l.width);
        int64_t depth = at_least(ceil_div(log2_up(tiles), SF_GROUP_LOG), 1);
        int64_t groups = sf_groups_below(tiles, depth);
        spec->threads = (int32_t)threads;
        spec->items = (int32_t)items;
        spec->extra[SF_CUDA_RESIDENT] = (int32_t)at_most(tile.resident * tile.threads / threads, 8);
        spec->extra[SCAN_BURST_COLUMNS] = (int32_t)columns;
        spec->extra[SCAN_BURST_DEPTH] = (int32_t)depth;
        d.p.number[0] = tiles;
        d.p.number[1] = groups;
        d.p.number[3] = s->batch * tiles;
        d.across = sf_cuda_total_across(s, columns);
        plan->launches = 1;
        plan->scratch = published(s->batch, groups, columns, product ? acc / 2 : acc);
        plan->watched = true;
        int64_t shared = SF_BURST_TICKET + sf_burst_end(threads / 32, columns, depth) * acc;
        shared += staged ? threads * items * l.width * size_of(s->in) + 16 : 0;
        SF_TRY(sf_cuda_finish(ctx, chip, &d, s->batch * tiles, shared));
        d.launch->scratch_fields = 1;
        return SF_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Choosing between them
 * ---------------------------------------------------------------------------------------------- */
sf_status sf_cuda_plan_scan(const sf_context *ctx, const sf_step *s, bool down, const sf_cuda_chip *chip, sf_cuda_plan *plan)
{
        if (s->left && s->values)
                return s->n < SF_SHORT_BLOCKS ? sf_cuda_plan_short_blocks(ctx, s, chip, plan) : plan_chained(ctx, s, 1, chip, plan);
        layout l = sf_cuda_layout(s, down, false);
        bool staged;
        SF_TRY(sf_cuda_plan_pieces(ctx, &l, down, chip, plan, &staged));
        if (staged)
                return SF_OK;
        /* Contiguous narrow matrices are staged as they are. */
        if (!down || size_of(s->in) < 4 || !in_one_piece(&l) || l.line.len > 4 * 32)
                l = down ? sf_cuda_in_packs(l) : sf_cuda_shifted(l, false);
        SF_TRY(down ? plan_columns(ctx, &l, chip, plan, false) : plan_rows(ctx, &l, chip, plan));
        /* How many times do these blocks fill the chip, and how much of it is idle in the last
         * round? */
        const sf_cuda_launch *launch = &plan->launch[0];
        int64_t together = (int64_t)chip->multiprocessors * launch->spec.extra[SF_CUDA_RESIDENT], blocks = launch->grid[0];
        if (down)
                together = chip->multiprocessors;
        bool idle = 4 * blocks < 3 * ceil_div(blocks, together) * together;
        /* from this many elements on, it pays to share a sequence */
        int64_t many = chip->small_tiles ? 512 : 32768;
        /* Strips narrower than a cache line, or than half of one where rows are aligned and all blocks
         * run at once, are for small tensors, which stay in the cache. H200, share of a copy, in 64
         * bytes and in chunks: (32768, 2048) f32 0.62, 0.51; (131072, 2847) f32 0.28, 0.51. */
        const bool light = size_of(s->in) >= 4 && !sf_cuda_is_pair((int32_t)s->op, (int32_t)s->acc);
        const bool half = light && l.packs == 1 && l.width * size_of(s->in) >= 16 && blocks <= chip->multiprocessors;
        const int64_t wide = at_least(size_of(s->in), size_of(s->out)), least = half ? 64 : 128;
        /* One block for each multiprocessor is idle between its load and its store, and rows that are
         * not aligned share sectors with their neighbours: (24, 65536, 141) f32 0.35. */
        const bool lonely = size_of(s->in) == 4 && l.packs > 1 && blocks <= chip->multiprocessors && s->n * s->batch > 64 * many;
        if (down)
                idle = lonely || 4 * blocks < 3 * together || (launch->spec.extra[SCAN_COLUMNS_SLOTS] * launch->spec.width * wide < at_most(least, l.line.len * wide) &&
                                                     launch->spec.extra[SCAN_COLUMNS_SLOTS] && s->n * s->batch > 64 * many);
        sf_step line;
        bool fits = false;
        /* Rows narrower than what memory moves at once, in many short matrices: H200, (4096, 1000,
         * 4), share of a copy: 0.65 as columns. */
        if (down && !idle && l.line.len * size_of(s->in) <= 32 && sf_cuda_as_line(s, false, &line))
                SF_TRY(sf_cuda_plan_narrow(ctx, &line, l.line.len, chip, plan, &fits));
        /* The same of other widths: (128, 262144, 3) bf16 at an odd address 0.17 as columns. */
        if (down && !idle && l.line.len * size_of(s->in) <= 16 && odd_part(l.line.len) > 1 &&
            s->n >= many && sf_cuda_as_line(s, true, &line))
                return plan_burst(ctx, &line, l.line.len, chip, plan);
        if (fits || !idle || s->n * (down ? at_most(l.line.len, 128) : 1) < many)
                return SF_OK;
        /*
         * One long axis, or several side by side. H200, share of a copy:
         *                     2^22  2^28  (2^20, 2)  (2^20, 8)  (2^20, 32)  (2^27, 2)  (2^26, 4)
         *      chained        0.36  0.87       0.30       0.47        0.51       0.84       0.77
         *      two passes     0.46     -       0.41       0.63        0.59       0.58       0.56
         *      a burst a tile 0.49  0.70       0.40       0.58        0.72       0.75       0.75
         * What stays in the cache may be read twice. Other sequences are chained, unless they have
         * too many columns, whose totals all have to be looked for. If the number of columns is not
         * a power of two, of (2^22, ...):
         *                        3     6     7    12    17    20    24    31
         *      two passes     0.39  0.41  0.46  0.41  0.50  0.48  0.49  0.54
         *      a burst a tile 0.57  0.61  0.59  0.60  0.50  0.57  0.59  0.44
         * Elements that are not four bytes long, chained and as bursts: (3879165, 4) i32 into i64 0.43, 0.82;
         * (30000000, 4) u8 into i64 0.28, 0.46; (40000000, 4) f16 0.56, 0.57; (20000000, 2) i32 into i64 0.42,
         * 0.55; but (40000000, 2) f64 0.76, 0.63; (80000000, 2) f16 0.71, 0.60.
         */
        int64_t columns = down ? l.line.len : 1;
        /* Half of what is moved. H200, lines of u8 into i64, chained and as bursts: 18705632 0.87,
         * 0.70; 16 of 2097152 0.73, 0.58; but 5477961 i32 into i64 0.65, 0.73. Bytes take as long as halves: 33554432
         * u8 0.52, 0.38. */
        const int64_t moved = at_least(at_least(size_of(s->in), 2), (size_of(s->in) + size_of(s->out)) / 2);
        bool large = 3 * s->n * s->batch * moved > 2 * chip->l2;
        if (down && !sf_cuda_as_line(s, true, &line)) {
                SF_TRY(sf_cuda_plan_tiles(ctx, &l, chip, plan, &fits));
                return fits ? SF_OK : plan_columns(ctx, &l, chip, plan, true);
        }
        if (odd_part(columns) > 1)
                return plan_burst(ctx, &line, columns, chip, plan);
        const sf_step *along = down ? &line : s;
        if (!large && columns > 1)
                SF_TRY(sf_cuda_plan_narrow(ctx, along, columns, chip, plan, &fits));
        if (fits)
                return SF_OK;
        layout staged_as = sf_cuda_layout(along, false, false);
        if (columns == 1)
                staged_as = sf_cuda_anywhere(staged_as);
        const bool vectors = staged_as.width * size_of(s->in) >= at_most(8, 2 * size_of(s->in));
        const bool few_totals = columns <= (size_of(s->out) > size_of(s->in) && size_of(s->out) == 8 ? 1 : 2);
        return large && few_totals && vectors ? plan_chained(ctx, along, columns, chip, plan) : plan_burst(ctx, along, columns, chip, plan);
}
