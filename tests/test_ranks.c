/*
 * Ranks in one process: an axis cut into shards, their spans exchanged by copying, and every result compared with the reference's of the whole,
 * bit by bit. All spans at once, and joined along a tree; a few ranks with every operation and dtype, and 4096 of them.
 */
#include "case.h"

#include <stdlib.h>
#include <string.h>

static long checks;

/* ------------------------------------------------------------------------------------------------------------
 * A problem: the whole, and its shards
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct problem {
        sf_op op;
        int in, out, acc;
        int32_t ndim, axis;
        int64_t shape[3];
        bool fold, keepdim, reverse, exclusive, masked, initial, transposed, placed, skip_nan;
        int32_t ranks;
        int64_t *cut; /* ranks + 1 of them; shard i is cut[i] to cut[i + 1] */
        int64_t away; /* so much longer the first shard says it is, once its own span is known */
        char *x, *a, *mask;
} problem;

static int64_t whole_count(const problem *p)
{
        int64_t n = 1;
        for (int32_t d = 0; d < p->ndim; d++)
                n *= p->shape[d];
        return n;
}

/* Strides, in elements: row-major, or the other way round. */
static void strides_of(const problem *p, const int64_t *shape, int64_t *strides)
{
        int64_t next = 1;
        for (int32_t i = 0; i < p->ndim; i++) {
                const int32_t d = p->transposed ? i : p->ndim - 1 - i;
                strides[d] = next;
                next *= shape[d];
        }
}

typedef struct slice {
        sf_tensor t;
        int64_t shape[3], strides[3];
} slice;

/* Elements [from, to) along the axis of a whole tensor; not to be moved. */
static void slice_of(const problem *p, slice *s, int dt, char *data, int64_t from, int64_t to)
{
        strides_of(p, p->shape, s->strides);
        memcpy(s->shape, p->shape, sizeof s->shape);
        s->shape[p->axis] = to - from;
        s->t = (sf_tensor){.data = data + from * s->strides[p->axis] * dts[dt].size, .device = {SF_CPU, 0}, .ndim = p->ndim, .dtype = dts[dt].dtype,
                           .shape = s->shape, .strides = s->strides};
}

/* A fold's result: compact. */
static void result_of(const problem *p, slice *s, char *data)
{
        s->t = (sf_tensor){.data = data, .device = {SF_CPU, 0}, .dtype = dts[p->out].dtype, .shape = s->shape};
        for (int32_t d = 0; d < p->ndim; d++)
                if (d != p->axis || p->keepdim)
                        s->shape[s->t.ndim++] = d == p->axis ? 1 : p->shape[d];
}

static int64_t result_count(const problem *p)
{
        return p->fold ? whole_count(p) / (p->shape[p->axis] ? p->shape[p->axis] : 1) : whole_count(p);
}

static sf_scalar initial_of(const problem *p)
{
        const sf_scalar none = {0};
        return !p->initial || is_index(p->op) ? none : dts[p->out].kind == 'r' ? sf_real(1.25) : sf_int(1);
}

static sf_status run_whole(const problem *p, char *out)
{
        slice x, a, m, y;
        slice_of(p, &x, p->in, p->x, 0, p->shape[p->axis]);
        slice_of(p, &a, p->in, p->a, 0, p->shape[p->axis]);
        slice_of(p, &m, DT_BOOL, p->mask, 0, p->shape[p->axis]);
        const sf_dtype none = {0, 0, 0};
        if (p->fold) {
                result_of(p, &y, out);
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.op = p->op;
                o.axes = &p->axis;
                o.naxes = 1;
                o.keepdim = p->keepdim;
                o.reverse = p->reverse;
                o.mask = p->masked ? &m.t : NULL;
                o.initial = initial_of(p);
                o.skip_nan = p->skip_nan;
                o.accumulator = p->acc < 0 ? none : dts[p->acc].dtype;
                return sf_fold(REF, &x.t, &y.t, &o);
        }
        slice_of(p, &y, p->out, out, 0, p->shape[p->axis]);
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.op = p->op;
        o.axis = p->axis;
        o.reverse = p->reverse;
        o.exclusive = p->exclusive;
        o.mask = p->masked ? &m.t : NULL;
        o.initial = initial_of(p);
        o.skip_nan = p->skip_nan;
        o.accumulator = p->acc < 0 ? none : dts[p->acc].dtype;
        return p->op == SF_RECURRENCE ? sf_recurrence(REF, &a.t, &x.t, &y.t, &o) : sf_scan(REF, &x.t, &y.t, &o);
}

/* ------------------------------------------------------------------------------------------------------------
 * One rank
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct one_rank {
        slice x, a, m, y;
        sf_shard_options o;
        sf_shard *shard;
        char *span;
} one_rank;

static void rank_make(const problem *p, int32_t i, char *out, one_rank *r)
{
        const sf_shard_options usual = SF_SHARD_OPTIONS_INIT;
        const sf_dtype none = {0, 0, 0};
        const int64_t from = p->cut[i], to = p->cut[i + 1];
        slice_of(p, &r->x, p->in, p->x, from, to);
        slice_of(p, &r->a, p->in, p->a, from, to);
        slice_of(p, &r->m, DT_BOOL, p->mask, from, to);
        if (p->fold)
                result_of(p, &r->y, out + i * result_count(p) * dts[p->out].size);
        else
                slice_of(p, &r->y, p->out, out, from, to);
        r->o = usual;
        r->o.op = p->op;
        r->o.axis = p->axis;
        r->o.fold = p->fold;
        r->o.keepdim = p->keepdim;
        r->o.reverse = p->reverse;
        r->o.exclusive = p->exclusive;
        r->o.mask = p->masked ? &r->m.t : NULL;
        r->o.a = p->op == SF_RECURRENCE ? &r->a.t : NULL;
        r->o.initial = initial_of(p);
        r->o.skip_nan = p->skip_nan;
        r->o.accumulator = p->acc < 0 ? none : dts[p->acc].dtype;
        r->o.placed = p->placed;
        r->o.first = from;
        r->shard = NULL;
        r->span = NULL;
}

/*
 * Along a tree: in round k every place joins what the one 2^k before it has to its own, until it has the span of all places up to its own. What is
 * before a place is then what its neighbour has; of a fold, all is what the last one has.
 */
static char **join_all(sf_context *ctx, const one_rank *ranks, int32_t count)
{
        const sf_shard *s = ranks[0].shard;
        char **span = malloc((size_t)count * sizeof *span);
        for (int32_t i = 0; i < count; i++) {
                const int32_t place = sf_shard_place(s, i);
                const size_t bytes = sf_shard_bytes(s, i);
                span[place] = malloc(bytes + 1);
                memcpy(span[place], ranks[i].span, bytes);
        }
        for (int32_t far = 1; far < count; far *= 2)
                for (int32_t i = count - 1; i >= far; i--) {
                        const int32_t from = i - 2 * far + 1 < 0 ? 0 : i - 2 * far + 1, middle = i - far + 1;
                        char *joined = malloc(sf_shard_span_bytes(s, from, i + 1) + 1);
                        CHECK(sf_shard_join(s, from, middle, i + 1, span[i - far], span[i], joined) == SF_OK, "join: %s", sf_last_error(ctx));
                        free(span[i]);
                        span[i] = joined;
                }
        return span;
}

/* The card of a first shard that is longer than memory is. Nobody looks at its elements: these addresses have none. */
static void go_away(const problem *p, sf_context *ctx, const one_rank *r, sf_shard_card *card)
{
        one_rank far = *r;
        const slice *from[3] = {&r->x, &r->a, &r->m};
        slice *to[4] = {&far.x, &far.a, &far.m, &far.y};
        for (int i = 0; i < 4; i++) {
                to[i]->t.shape = to[i]->shape;
                to[i]->t.strides = i < 3 || !p->fold ? to[i]->strides : NULL;
                if (i == 3 && p->fold)
                        continue;
                to[i]->shape[p->axis] = from[0]->shape[p->axis] + p->away;
                if (p->axis)
                        to[i]->strides[0] = to[i]->shape[1];
                to[i]->t.data = (char *)((uintptr_t)(i + 1) << 58);
        }
        far.o.mask = p->masked ? &far.m.t : NULL;
        far.o.a = p->op == SF_RECURRENCE ? &far.a.t : NULL;
        sf_shard_card_make(ctx, &far.x.t, &far.y.t, &far.o, card);
}

/* All ranks' steps, one rank after the other; the results of all are in `out`. */
static bool run_ranks(const problem *p, sf_context *ctx, bool tree, char *out)
{
        one_rank *ranks = malloc((size_t)p->ranks * sizeof *ranks);
        sf_shard_card *cards = malloc((size_t)p->ranks * sizeof *cards);
        char *all = NULL;
        size_t total = 0;
        bool fine = true;
        for (int32_t i = 0; i < p->ranks; i++) {
                rank_make(p, i, out, &ranks[i]);
                sf_shard_card_make(ctx, &ranks[i].x.t, &ranks[i].y.t, &ranks[i].o, &cards[i]);
        }
        for (int32_t i = 0; i < p->ranks && fine; i++) {
                one_rank *r = &ranks[i];
                if (i == 1 && p->away)
                        go_away(p, ctx, &ranks[0], &cards[0]);
                fine = sf_shard_create(ctx, &r->x.t, &r->y.t, &r->o, i, p->ranks, cards, &r->shard) == SF_OK;
                if (!fine)
                        break;
                const size_t bytes = sf_shard_bytes(r->shard, i);
                r->span = malloc(bytes + 1);
                fine = sf_shard_values(r->shard, r->span) == SF_OK;
                all = realloc(all, total + bytes + 1);
                memcpy(all + total, r->span, bytes);
                total += bytes;
        }
        char **up_to = fine && tree ? join_all(ctx, ranks, p->ranks) : NULL;
        for (int32_t i = p->away ? 1 : 0; i < p->ranks && fine; i++) {
                const int32_t end = p->fold ? p->ranks : sf_shard_place(ranks[i].shard, i);
                fine = (tree ? sf_shard_finish_from(ranks[i].shard, end ? up_to[end - 1] : NULL) : sf_shard_finish(ranks[i].shard, all)) == SF_OK;
        }
        for (int32_t i = 0; i < p->ranks; i++) {
                sf_shard_destroy(ranks[i].shard);
                free(ranks[i].span);
                if (up_to)
                        free(up_to[i]);
        }
        free(up_to);
        free(ranks);
        free(cards);
        free(all);
        return fine;
}

/* ------------------------------------------------------------------------------------------------------------
 * Checked
 * ---------------------------------------------------------------------------------------------------------- */
static void describe(const problem *p, char *text, size_t size)
{
        snprintf(text, size, "%s %s%s %s->%s acc %s (%d,%d,%d) axis %d%s%s%s%s%s%s ranks %d", p->fold ? "fold" : "scan", sf_op_name(p->op),
                 p->transposed ? " transposed" : "", dts[p->in].name, dts[p->out].name, p->acc < 0 ? "-" : dts[p->acc].name, (int)p->shape[0],
                 (int)p->shape[1], (int)p->shape[2], (int)p->axis, p->reverse ? " reverse" : "", p->exclusive ? " exclusive" : "",
                 p->masked ? " masked" : "", p->initial ? " initial" : "", p->skip_nan ? " skip_nan" : "", p->keepdim ? " keepdim" : "", (int)p->ranks);
}

static void check_engine(const problem *p, const engine *e, bool tree, const char *expected)
{
        char text[256];
        const int size = dts[p->out].size;
        const int64_t count = result_count(p), copies = p->fold ? p->ranks : 1;
        char *out = calloc((size_t)(count * copies) + 1, (size_t)size);
        describe(p, text, sizeof text);
        checks++;
        if (!run_ranks(p, e->ctx, tree, out)) {
                FAIL("%s on %s: %s", text, e->name, sf_last_error(e->ctx));
        } else {
                int64_t wrong = 0, first = -1;
                for (int64_t i = 0; i < count * copies; i++)
                        if (!same_bits(p->out, out + i * size, expected + i % count * size) && !wrong++)
                                first = i;
                CHECK(!wrong, "%s on %s%s: %d results differ, the first is number %d", text, e->name, tree ? ", joined" : "", (int)wrong, (int)first);
        }
        free(out);
}

/* On some engines, gathered or joined. */
static void check_problem(problem *p, uint64_t seed, int engines_each)
{
        const int64_t count = whole_count(p);
        const bool product = p->op == SF_PROD || p->op == SF_RECURRENCE;
        p->x = malloc((size_t)(count * dts[p->in].size) + 1);
        p->a = malloc((size_t)(count * dts[p->in].size) + 1);
        p->mask = malloc((size_t)count + 1);
        fill(p->in, (int)(hash(seed) % FILL_COUNT), product, seed, count, p->x);
        fill(p->in, FILL_mixed, true, seed + 1, count, p->a);
        for (int64_t i = 0; i < count; i++)
                p->mask[i] = hash(seed + 7 * (uint64_t)i) % 4 != 0;
        char *expected = calloc((size_t)result_count(p) + 1, (size_t)dts[p->out].size);
        char text[256];
        describe(p, text, sizeof text);
        if (run_whole(p, expected) != SF_OK)
                FAIL("%s: %s", text, sf_last_error(REF));
        else
                for (int i = 0; i < engines_each; i++)
                        check_engine(p, &engines[hash(seed + (uint64_t)i) % (uint64_t)engine_count], hash(seed + 31 + (uint64_t)i) & 1, expected);
        free(p->x);
        free(p->a);
        free(p->mask);
        free(expected);
}

/*
 * A shard far away: the first index is 2^40 + 5 or 2^50 + 5. Its 300 elements do not reach the next multiple of 512, so the blocks before it, of which one is
 * that large, are combined as those before 512 + 5 are, and all but indices is the same. one_sided: all elements are negative if the largest is wanted, else
 * positive, so that a number near zero in place of what the mask hides would win.
 */
static void check_far(problem *p, uint64_t seed, int64_t away, bool one_sided)
{
        int64_t cut[3] = {0, 517, 817};
        const int64_t count = 3 * 817, kept = p->fold ? 3 : count, size = dts[p->out].size;
        char text[256];
        p->shape[p->axis] = 817;
        p->shape[1 - p->axis] = 3;
        p->shape[2] = 1;
        p->ndim = 2;
        p->ranks = 2;
        p->cut = cut;
        p->x = malloc((size_t)(count * dts[p->in].size));
        p->a = malloc((size_t)(count * dts[p->in].size));
        p->mask = malloc((size_t)count);
        fill(p->in, FILL_mixed, p->op == SF_PROD || p->op == SF_RECURRENCE, seed, count, p->x);
        fill(p->in, FILL_mixed, true, seed + 1, count, p->a);
        for (int64_t i = 0; i < count; i++)
                p->mask[i] = hash(seed + 7 * (uint64_t)i) % 4 != 0;
        for (int64_t i = 0; one_sided && i < count; i++) {
                char *last = (char *)p->x + (i + 1) * dts[p->in].size - 1; /* it has the sign */
                *last = (char)(p->op == SF_ARGMAX || p->op == SF_LAST_ARGMAX ? *last | 0x80 : *last & 0x7f);
        }
        char *expected = calloc((size_t)kept, (size_t)size), *out = calloc((size_t)(2 * kept), (size_t)size);
        describe(p, text, sizeof text);
        CHECK(run_whole(p, expected) == SF_OK, "%s: %s", text, sf_last_error(REF));
        for (int64_t i = 0; is_index(p->op) && i < kept; i++) {
                int64_t at;
                memcpy(&at, expected + i * size, sizeof at);
                at += at >= cut[1] ? away : 0;
                memcpy(expected + i * size, &at, sizeof at);
        }
        p->away = away;
        for (int e = 0; e < engine_count; e++) {
                int64_t wrong = 0;
                checks++;
                CHECK(run_ranks(p, engines[e].ctx, false, out), "%s, far away, on %s: %s", text, engines[e].name, sf_last_error(engines[e].ctx));
                for (int64_t i = 0; i < kept; i++) /* a fold's second copy; of a scan, what the second rank has */
                        if (p->fold || (p->axis ? i % 817 : i / 3) >= cut[1])
                                wrong += !same_bits(p->out, out + (i + (p->fold ? kept : 0)) * size, expected + i * size);
                CHECK(!wrong, "%s, far away, on %s: %d results differ", text, engines[e].name, (int)wrong);
        }
        p->away = 0;
        free(p->x);
        free(p->a);
        free(p->mask);
        free(expected);
        free(out);
}

static int compare_cuts(const void *a, const void *b)
{
        const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return x < y ? -1 : x > y;
}

/* Cuts anywhere, so that some ranks have no elements; sometimes into equal parts. */
static void cut_up(problem *p, uint64_t seed)
{
        const int64_t n = p->shape[p->axis];
        for (int32_t i = 1; i < p->ranks; i++)
                p->cut[i] = seed % 4 ? (int64_t)(hash(seed + (uint64_t)i) % (uint64_t)(n + 1)) : n * i / p->ranks;
        p->cut[0] = 0;
        p->cut[p->ranks] = n;
        qsort(p->cut, (size_t)p->ranks + 1, sizeof *p->cut, compare_cuts);
}

static void vary(problem *p, uint64_t seed)
{
        const uint64_t bits = hash(seed + 1000);
        p->reverse = bits & 1;
        p->exclusive = !p->fold && bits >> 1 & 1;
        p->masked = bits >> 2 & 1;
        p->initial = bits >> 3 & 1;
        p->transposed = bits >> 4 & 1;
        p->placed = bits >> 5 & 1;
        p->keepdim = bits >> 6 & 1;
        p->skip_nan = (bits >> 7 & 3) == 0 && !is_index(p->op) && p->op != SF_RECURRENCE && dts[p->in].kind == 'r';
}

/* ------------------------------------------------------------------------------------------------------------
 * The lists
 * ---------------------------------------------------------------------------------------------------------- */
static const int32_t rank_counts[] = {1, 2, 3, 5, 8};

static bool allowed(sf_op op, bool is_fold, int in, int out)
{
        if (op == SF_RECURRENCE)
                return !is_fold && pair_allowed(SF_SUM, in, out) && dts[out].kind == 'r';
        return pair_allowed(op, in, out);
}

static void far_away(void)
{
        static const int types[] = {DT_F32, DT_F64, DT_BF16, DT_I32};
        uint64_t seed = 4000;
        for (int op = 0; op < op_count(); op++)
                for (int is_fold = 0; is_fold < 2; is_fold++)
                        for (size_t t = 0; t < sizeof types / sizeof *types; t++, seed++) {
                                const int out = is_index((sf_op)op) ? DT_I64 : types[t];
                                problem p = {.op = (sf_op)op, .in = types[t], .out = out, .acc = -1, .axis = (int32_t)(seed & 1), .fold = is_fold,
                                             .exclusive = !is_fold && seed & 2, .masked = !(seed % 3) && op != SF_RECURRENCE, .initial = !(seed % 5)};
                                const int64_t away = ((int64_t)1 << (seed & 4 ? 40 : 50)) - 512;
                                if (!allowed((sf_op)op, is_fold, types[t], out))
                                        continue;
                                check_far(&p, seed, away, false);
                                p.masked = true;
                                if (is_index((sf_op)op))
                                        check_far(&p, seed, away, true);
                        }
}

static void every_dtype(void)
{
        static const int64_t shapes[][3] = {{37, 1, 1}, {3, 90, 1}, {70, 2, 3}, {2, 130, 5}, {5, 3, 41}, {2, 3, 300}, {200, 40, 1}, {1, 17, 20}};
        uint64_t seed = 1;
        int64_t cut[16];
        for (int op = 0; op < op_count(); op++)
                for (int is_fold = 0; is_fold < 2; is_fold++)
                        for (int in = 0; in < DT_COUNT; in++)
                                for (int out = 0; out < DT_COUNT; out++) {
                                        if (!allowed((sf_op)op, is_fold, in, out))
                                                continue;
                                        for (int i = 0; i < 5; i++, seed++) {
                                                if (!case_next())
                                                        continue;
                                                const int64_t *shape = shapes[hash(seed) % 8];
                                                problem p = {.op = (sf_op)op, .in = in, .out = out, .acc = DT_NONE, .ndim = 3, .fold = is_fold,
                                                             .shape = {shape[0], shape[1], shape[2]}, .ranks = rank_counts[i], .cut = cut};
                                                p.axis = shape[1] == 1 ? 0 : shape[2] == 1 ? (int32_t)(hash(seed) >> 8 & 1) : (int32_t)(hash(seed) >> 8) % 3;
                                                p.axis = p.axis < 0 ? -p.axis : p.axis;
                                                vary(&p, seed);
                                                cut_up(&p, hash(seed) >> 16);
                                                check_problem(&p, seed, 2);
                                        }
                                }
}

/* Long axes, which threads share, as rows, as columns, and as few columns. */
static void large(void)
{
        static const int64_t shapes[][3] = {{400003, 1, 1}, {150001, 4, 1}, {30001, 40, 1}, {3, 200001, 1}, {9001, 130, 1}};
        static const int dtypes[] = {DT_F32, DT_F64, DT_I32, DT_F16};
        int64_t cut[16];
        for (uint64_t seed = 5000; seed < 5120; seed++) {
                if (!case_next())
                        continue;
                const int64_t *shape = shapes[seed % 5];
                const sf_op op = (sf_op)(hash(seed) % (uint64_t)op_count());
                const int in = dtypes[hash(seed) >> 8 & 3];
                const int out = is_index(op) ? DT_I64 : op == SF_LOGSUMEXP || op == SF_RECURRENCE ? (in == DT_I32 ? DT_F32 : in) : in;
                problem p = {.op = op, .in = in, .out = out, .acc = DT_NONE, .ndim = 3, .fold = hash(seed) >> 20 & 1, .axis = shape[0] == 3 ? 1 : 0,
                             .shape = {shape[0], shape[1], shape[2]}, .ranks = rank_counts[hash(seed) >> 24 & 3], .cut = cut};
                p.fold = p.fold && op != SF_RECURRENCE;
                vary(&p, seed);
                cut_up(&p, hash(seed) >> 16);
                check_problem(&p, seed, 3);
        }
}

/* 4096 ranks: shards of a few elements, some empty. */
static void many(void)
{
        static const sf_op ops[] = {SF_SUM, SF_PROD, SF_RECURRENCE, SF_LAST_ARGMAX, SF_LOGSUMEXP};
        int64_t *cut = malloc(4097 * sizeof *cut);
        for (int i = 0; i < 5; i++) {
                if (!case_next())
                        continue;
                const bool rows = i & 1;
                problem p = {.op = ops[i], .in = rows ? DT_F32 : DT_F16, .out = is_index(ops[i]) ? DT_I32 : DT_F32, .acc = DT_NONE, .ndim = 2,
                             .shape = {rows ? 3 : 20011, rows ? 10007 : 2, 1}, .axis = rows, .ranks = 4096, .cut = cut, .fold = i == 4};
                p.reverse = i == 1 || i == 2;
                p.exclusive = i == 2;
                cut_up(&p, (uint64_t)i * 4 + 1);
                check_problem(&p, 9000 + (uint64_t)i, 1);
        }
        free(cut);
}

/* ------------------------------------------------------------------------------------------------------------
 * Faults: every rank gets the same sentence
 * ---------------------------------------------------------------------------------------------------------- */
static void check_fault(const char *what, void (*spoil)(one_rank *r), const char *expected)
{
        float x[12] = {1, 2, 3}, y[12];
        int64_t cut[4] = {0, 4, 8, 12};
        problem p = {.op = SF_SUM, .in = DT_F32, .out = DT_F32, .acc = DT_NONE, .ndim = 1, .shape = {12, 1, 1}, .ranks = 3, .cut = cut, .placed = true,
                     .x = (char *)x, .a = (char *)x, .mask = (char *)x};
        one_rank ranks[3];
        sf_shard_card cards[3];
        for (int32_t i = 0; i < 3; i++)
                rank_make(&p, i, (char *)y, &ranks[i]);
        spoil(&ranks[1]);
        for (int32_t i = 0; i < 3; i++)
                sf_shard_card_make(REF, &ranks[i].x.t, &ranks[i].y.t, &ranks[i].o, &cards[i]);
        for (int32_t i = 0; i < 3; i++) {
                sf_shard *shard = NULL;
                const sf_status status = sf_shard_create(REF, &ranks[i].x.t, &ranks[i].y.t, &ranks[i].o, i, 3, cards, &shard);
                CHECK(status != SF_OK && !shard, "%s: rank %d did not fail", what, (int)i);
                CHECK(status == SF_OK || !strcmp(sf_last_error(REF), expected), "%s: rank %d says: %s", what, (int)i, sf_last_error(REF));
                checks++;
        }
}

static void other_dtype(one_rank *r)
{
        r->x.t.dtype = r->y.t.dtype = dts[DT_I32].dtype;
}
static void other_op(one_rank *r)
{
        r->o.op = SF_MAX;
}
static void other_direction(one_rank *r)
{
        r->o.reverse = 1;
}
static void other_place(one_rank *r)
{
        r->o.first = 5;
}
static void other_shape(one_rank *r)
{
        r->x.t.ndim = r->y.t.ndim = 2;
        r->x.shape[1] = r->y.shape[1] = 1;
}
static void bad_axis(one_rank *r)
{
        r->o.axis = 7;
}
static void other_initial(one_rank *r)
{
        r->o.initial = sf_real(2);
}

static void faults(void)
{
        check_fault("dtype", other_dtype, "rank 1 has an x of dtype i32, and rank 0 has f32; all ranks must have the same");
        check_fault("op", other_op, "rank 1 has op max, and rank 0 has sum; all ranks must have the same");
        check_fault("reverse", other_direction, "rank 1 has reverse 1, and rank 0 has 0; all ranks must have the same");
        check_fault("hole", other_place, "the shard of rank 1 begins at 5, but those before it end at 4; shards must follow one another");
        check_fault("shape", other_shape, "rank 1 has axis 0 of 2, and rank 0 has axis 0 of 1; all ranks must have the same");
        check_fault("axis", bad_axis, "rank 1: axis is 7; for an x of 1 dimensions it must be -1 to 0");
        check_fault("initial", other_initial, "rank 1 has another initial value than rank 0; all ranks must have the same");
}

/* At most 2 log2(n) values a line, and one where any grouping will do, of as many bytes as the header says. */
static void sizes(void)
{
        int64_t cut[3];
        for (uint64_t seed = 1; seed < 400; seed++) {
                const int64_t n = 1 + (int64_t)(hash(seed) % ((uint64_t)1 << (seed % 50)));
                char *far = (char *)((uintptr_t)1 << 60); /* nobody reads it */
                problem p = {.op = seed & 1 ? SF_MAX : SF_SUM, .in = DT_F32, .out = DT_F32, .acc = DT_NONE, .ndim = 2, .shape = {n, 1, 1}, .ranks = 2, .cut = cut,
                             .x = far, .a = far, .mask = far, .fold = true};
                one_rank ranks[2];
                sf_shard_card cards[2];
                char y[16];
                cut_up(&p, 4 * seed + 1);
                for (int32_t i = 0; i < 2; i++) {
                        rank_make(&p, i, y, &ranks[i]);
                        sf_shard_card_make(REF, &ranks[i].x.t, &ranks[i].y.t, &ranks[i].o, &cards[i]);
                }
                CHECK(sf_shard_create(REF, &ranks[1].x.t, &ranks[1].y.t, &ranks[1].o, 1, 2, cards, &ranks[1].shard) == SF_OK, "%s", sf_last_error(REF));
                size_t most = 4;
                while (p.op == SF_SUM && ((int64_t)1 << most / 8) < n)
                        most += 8;
                CHECK(ranks[1].shard && sf_shard_bytes(ranks[1].shard, 1) <= most && sf_shard_length(ranks[1].shard) == n, "a shard of %lld takes more than %zu bytes",
                      (long long)n, most);
                sf_shard_destroy(ranks[1].shard);
                checks++;
        }
}

int main(int argc, char **argv)
{
        case_arguments(argc, argv);
        engines_open();
        sizes();
        faults();
        every_dtype();
        far_away();
        large();
        many();
        engines_close();
        return finish("test_ranks", checks);
}
