/*
 * Segments: every one has the bits that it has by itself. Random partitions, shapes, layouts, operations and types, on every engine, against unsegmented
 * calls of the reference on each segment's slice; memory lies between guard pages. Then what is refused.
 */
#include "expr_tools.h"
#include "harness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CASES 300
#define MOST_SEGMENTS 20000
#define MOST_DRAWN 8192

static long checks;

/* This case's own random numbers. */
typedef struct dice {
        uint64_t seed, n;
} dice;

static int64_t roll(dice *d, int64_t sides)
{
        return (int64_t)(hash(d->seed * 1000003 + d->n++) % (uint64_t)sides);
}

typedef struct given {
        sf_op op;
        bool fold, reverse, exclusive, masked, in_place, initial;
        int in, out;
        int64_t shape[3], count;
        int64_t offsets[MOST_SEGMENTS + 1];
        bool wide;
        view x, y, mask, a;
        char text[160];
} given;

/* The kinds that are drawn; and one of few elements a segment, some of which have a large part of all. */
enum { KINDS = 8, LONG_AMONG_EMPTY = KINDS };

static int64_t length_of(dice *d, int kind, int64_t n)
{
        switch (kind) {
        case 0: return roll(d, 3);
        case 1: return roll(d, 20);
        case 2: return roll(d, 4) ? 0 : roll(d, 9);
        case 3: return 1;
        case 4: return roll(d, 8) ? roll(d, 12) : roll(d, n + 1);
        case 5: return roll(d, 200);
        case 6: return n;
        case 7: return roll(d, 2) ? roll(d, 33) : roll(d, 700);
        default: return roll(d, 400) ? !roll(d, 3) : roll(d, n); /* LONG_AMONG_EMPTY */
        }
}

/* Lengths of this kind until the axis is full, or not quite. */
static void partition(given *g, dice *d, int kind)
{
        const int64_t n = g->shape[1], end = roll(d, 4) ? n : n - roll(d, n + 1) / 4;
        g->count = g->offsets[0] = 0;
        while (g->count < MOST_DRAWN && (g->offsets[g->count] < end || roll(d, 3))) {
                const int64_t left = end - g->offsets[g->count], length = length_of(d, kind, n);
                g->offsets[g->count + 1] = g->offsets[g->count] + (length < left ? length : left);
                g->count++;
        }
}

static sf_tensor slice(const view *v, int64_t *shape, int64_t from, int64_t length)
{
        sf_tensor t = v->t;
        memcpy(shape, v->shape, sizeof v->shape);
        shape[1] = length;
        t.shape = shape;
        t.strides = (int64_t *)v->strides;
        if (t.data) /* strides may be negative, byte_offset may not */
                t.data = (char *)t.data + from * v->strides[1] * dts[v->dt].size;
        return t;
}

static sf_status run(sf_context *ctx, const given *g, const sf_tensor *x, const sf_tensor *a, const sf_tensor *mask, const sf_tensor *y, const sf_tensor *offsets)
{
        static const int32_t axis = 1;
        const sf_scalar initial = dts[g->out].kind == 'r' ? sf_real(0.75) : sf_int(3);
        if (g->fold) {
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.op = g->op, o.naxes = 1, o.axes = &axis, o.keepdim = 1, o.reverse = g->reverse, o.mask = mask, o.offsets = offsets;
                if (g->initial)
                        o.initial = initial;
                return sf_fold(ctx, x, y, &o);
        }
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.op = g->op, o.axis = 1, o.reverse = g->reverse, o.exclusive = g->exclusive, o.mask = mask, o.offsets = offsets;
        if (g->initial)
                o.initial = initial;
        return a ? sf_recurrence(ctx, a, x, y, &o) : sf_scan(ctx, x, y, &o);
}

/* The result of each segment alone, in `want`, which is compact. An empty one is a segment of nothing. */
static void expect(const given *g, view *want)
{
        static int64_t ends[2], two[1] = {2};
        const sf_tensor nothing = tensor(ends, SF_I64, 1, two);
        const int64_t segments = g->count + (g->offsets[g->count] < g->shape[1] && !g->fold);
        for (int64_t i = 0; i < segments; i++) {
                const int64_t from = g->offsets[i], length = (i < g->count ? g->offsets[i + 1] : g->shape[1]) - from;
                int64_t shape[4][SF_MAX_NDIM];
                const bool recurs = g->op == SF_RECURRENCE;
                sf_tensor x = slice(&g->x, shape[0], from, length), m = slice(&g->mask, shape[1], from, length);
                sf_tensor y = slice(want, shape[2], g->fold ? i : from, g->fold ? 1 : length), a = slice(&g->a, shape[3], from, length);
                if (!length && !g->fold)
                        continue;
                sf_status status = run(REF, g, &x, recurs ? &a : NULL, g->masked ? &m : NULL, &y, length ? NULL : &nothing);
                CHECK(status == SF_OK, "%s: %s", g->text, sf_last_error(REF));
        }
}

static void compare(const given *g, const char *name, const char *want)
{
        cursor c;
        cursor_start(&c, &g->y);
        const int64_t inner = g->shape[2], along = g->fold ? g->count : g->shape[1];
        for (int64_t i = 0; i < g->y.count; i++, cursor_next(&c)) {
                const int64_t at = i / inner % along;
                checks++;
                CHECK(same_bits(g->out, c.at, want + i * dts[g->out].size), "%s on %s: result %" PRId64 " along the axis (%" PRId64 " in all) is %" PRIx64 ", not %" PRIx64,
                      g->text, name, at, i, bits_of(g->out, c.at), bits_of(g->out, want + i * dts[g->out].size));
        }
}

static void choose(given *g, dice *d)
{
        static const int64_t inners[] = {1, 1, 1, 1, 2, 3, 5, 16, 17, 40}, outers[] = {1, 1, 2, 3};
        static const int types[][2] = {{DT_F32, DT_F32}, {DT_F32, DT_F32}, {DT_F64, DT_F64}, {DT_F16, DT_F16}, {DT_I32, DT_I64}, {DT_I8, DT_I8}, {DT_F32, DT_F64}, {DT_U8, DT_U8}, {DT_I64, DT_I64}};
        const int64_t long_one = roll(d, 12) == 0;
        const int type = (int)roll(d, 9);
        g->op = (sf_op)roll(d, op_count());
        g->fold = g->op != SF_RECURRENCE && roll(d, 2);
        g->in = types[type][0];
        g->out = is_index(g->op) ? (roll(d, 2) ? DT_I64 : DT_I32) : types[type][1];
        if ((g->op == SF_LOGSUMEXP || g->op == SF_RECURRENCE) && dts[g->in].kind != 'r')
                g->in = g->out = DT_F32;
        if (g->op != SF_RECURRENCE && !pair_allowed(g->op, g->in, g->out))
                g->out = g->in;
        g->shape[0] = outers[roll(d, 4)];
        g->shape[2] = inners[roll(d, 10)];
        g->shape[1] = long_one ? 3000 + roll(d, 300000) / g->shape[2] / g->shape[0] : roll(d, 3) ? roll(d, 2500) : roll(d, 40);
        g->reverse = roll(d, 3) == 0;
        g->exclusive = !g->fold && roll(d, 3) == 0;
        g->masked = roll(d, 4) == 0;
        g->initial = !is_index(g->op) && roll(d, 4) == 0;
        g->in_place = !g->fold && g->in == g->out && roll(d, 5) == 0;
        g->wide = roll(d, 2);
        partition(g, d, (int)roll(d, KINDS));
}

static given g;

/* plain: without strides. */
static void run_given(dice d, uint64_t seed, bool plain)
{
        static region memory[5];
        snprintf(g.text, sizeof g.text, "case %" PRIu64 ": %s%s of %s to %s, (%" PRId64 ", %" PRId64 ", %" PRId64 ") in %" PRId64 "%s%s%s%s", seed, g.fold ? "fold " : "scan ", sf_op_name(g.op), dts[g.in].name,
                 dts[g.out].name, g.shape[0], g.shape[1], g.shape[2], g.count, g.reverse ? ", reverse" : "", g.exclusive ? ", exclusive" : "", g.masked ? ", masked" : "", g.initial ? ", initial" : "");
        int64_t results[3] = {g.shape[0], g.fold ? g.count : g.shape[1], g.shape[2]};
        int layout = plain ? 0 : (int)roll(&d, LAYOUT_COUNT), layout_y = plain ? 0 : (int)roll(&d, LAYOUT_COUNT);
        layout_y = layout_for_output[layout_y] ? layout_y : 0;
        if (g.in_place)
                layout = layout_y;
        view_init(&g.x, g.in, 3, g.shape, roll(&d, 2) ? 0 : layout, seed);
        view_init(&g.a, g.in, 3, g.shape, 0, seed);
        view_init(&g.mask, DT_BOOL, 3, g.shape, 0, seed);
        view_init(&g.y, g.out, 3, results, g.in_place ? layout_y : roll(&d, 2) ? 0 : layout_y, seed);
        if (g.in_place)
                view_init(&g.x, g.in, 3, g.shape, layout_y, seed), view_init(&g.y, g.out, 3, g.shape, layout_y, seed);
        view *views[4] = {&g.x, &g.a, &g.mask, &g.y};
        for (int i = 0; i < 4; i++)
                view_place(views[i], region_place(&memory[i], view_bytes(views[i]), (int)roll(&d, 2), 0), 0);
        char *values = malloc((size_t)(g.x.count + 1) * 8), *gates = malloc((size_t)(g.x.count + 1) * 8), *keep = malloc((size_t)(g.x.count + 1));
        fill(g.in, 0, g.op == SF_PROD || g.op == SF_LOGSUMEXP, seed, g.x.count, values);
        fill(g.in, 0, true, seed + 1, g.x.count, gates);
        for (int64_t i = 0; i < g.x.count; i++)
                keep[i] = roll(&d, 5) > 0;
        view want;
        view_init(&want, g.out, 3, results, 0, seed);
        char *expected = malloc(view_bytes(&want) + 8);
        view_place(&want, expected, 0);
        view_scatter(&g.x, values);
        view_scatter(&g.a, gates);
        view_scatter(&g.mask, keep);
        expect(&g, &want);
        int64_t offsets_shape[1] = {g.count + 1};
        char *offsets = region_place(&memory[4], (size_t)(g.count + 1) * (g.wide ? 8 : 4), GUARD_AFTER, 0);
        for (int64_t i = 0; i <= g.count; i++) {
                const int32_t narrow = (int32_t)g.offsets[i];
                memcpy(offsets + i * (g.wide ? 8 : 4), g.wide ? (const void *)&g.offsets[i] : &narrow, g.wide ? 8 : 4);
        }
        const sf_tensor t = tensor(offsets, g.wide ? SF_I64 : SF_I32, 1, offsets_shape);
        for (int e = 0; e < engine_count; e++) {
                view_scatter(&g.x, values);
                sf_status status = run(engines[e].ctx, &g, &g.x.t, g.op == SF_RECURRENCE ? &g.a.t : NULL, g.masked ? &g.mask.t : NULL, g.in_place ? &g.x.t : &g.y.t, &t);
                CHECK(status == SF_OK, "%s on %s: %s", g.text, engines[e].name, sf_last_error(engines[e].ctx));
                if (g.in_place && g.x.count) {
                        char *back = malloc(view_bytes(&g.x) + 8);
                        view_gather(&g.x, back);
                        view_scatter(&g.y, back);
                        free(back);
                }
                compare(&g, engines[e].name, expected);
        }
        free(values), free(gates), free(keep), free(expected);
}

static void run_case(uint64_t seed)
{
        dice d = {seed, 0};
        choose(&g, &d);
        run_given(d, seed, false);
}

/* Lines of tiny segments, with which some kernels deal apart; with long ones among them. */
static void test_tiny(int every)
{
        static const int cases[][3] = {{SF_SUM, DT_F32, DT_F32}, {SF_SUM, DT_F32, DT_F32}, {SF_PROD, DT_F32, DT_F32}, {SF_LOGSUMEXP, DT_F16, DT_F16}, {SF_SUM, DT_F64, DT_F64},
                                       {SF_ARGMAX, DT_F32, DT_I32}, {SF_SUM, DT_U8, DT_U8}, {SF_SUM, DT_I32, DT_I64}, {SF_MAX, DT_I8, DT_I8}, {SF_LOGSUMEXP, DT_F64, DT_F64},
                                       {SF_SUM, DT_F32, DT_F64}, {SF_PROD, DT_F32, DT_F32}, {SF_ARGMIN, DT_I64, DT_I64}};
        for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i += every)
                for (int kind = 0; kind < 4; kind++) {
                        const uint64_t seed = (uint64_t)(1000000 + 4 * i + kind);
                        dice d = {seed, 0};
                        g = (given){.op = (sf_op)cases[i][0], .in = cases[i][1], .out = cases[i][2], .fold = i % 2, .reverse = i / 2 % 2, .exclusive = i % 8 == 4 || i % 8 == 6,
                                    .in_place = i % 8 == 0, .wide = i % 3, .shape = {1 + kind % 2, kind ? 1 + roll(&d, 4000) : 2000, 1}};
                        partition(&g, &d, kind ? LONG_AMONG_EMPTY : 0);
                        run_given(d, seed, true);
                }
}

/* `run` empty segments at element `place` of those of usual lengths. */
static void insert_empty(int64_t place, int64_t run)
{
        int64_t k = 0;
        while (k < g.count && g.offsets[k] < place)
                k++;
        memmove(g.offsets + k + run, g.offsets + k, (size_t)(g.count + 1 - k) * sizeof *g.offsets);
        for (int64_t i = 0; i < run; i++)
                g.offsets[k + i] = g.offsets[k + run];
        g.count += run;
}

/* Runs of empty segments at the beginning, in the middle and at the end, so long that some kernels deal with them apart; and nothing else. Lines with a mask
 * and without, where CUDA kernels differ; columns. */
static void test_runs(int every)
{
        static const int cases[][6] = {{SF_SUM, DT_F32, DT_F32, 1, 0, 1}, {SF_MAX, DT_F64, DT_F64, 1, 1, 1}, {SF_SUM, DT_F32, DT_F32, 0, 1, 1}, {SF_ARGMAX, DT_F32, DT_I64, 1, 1, 1},
                                       {SF_SUM, DT_F32, DT_F32, 1, 1, 20}, {SF_PROD, DT_F16, DT_F16, 1, 1, 1}, {SF_SUM, DT_F32, DT_F32, 0, 0, 20}, {SF_SUM, DT_I32, DT_I64, 1, 1, 3},
                                       {SF_LOGSUMEXP, DT_F64, DT_F64, 1, 0, 1}, {SF_SUM, DT_F64, DT_F64, 0, 0, 1}, {SF_ARGMIN, DT_F32, DT_I32, 1, 0, 1}, {SF_MIN, DT_I8, DT_I8, 1, 0, 1}};
        enum { RUN = 13000, PLACES = 4 };
        for (int i = 0; i < (int)(sizeof cases / sizeof *cases) * PLACES; i += every) {
                const int *c = cases[i / PLACES], place = i % PLACES;
                const uint64_t seed = (uint64_t)(2000000 + i);
                dice d = {seed, 0};
                g = (given){.op = (sf_op)c[0], .in = c[1], .out = c[2], .fold = c[3], .masked = c[4], .reverse = i / 3 % 2, .initial = c[3] && i % 3 == 0 && !is_index((sf_op)c[0]), .wide = i % 2,
                            .shape = {1 + (i % 5 == 0), place == 3 ? i % 2 * 1500 : 1500 + roll(&d, 100), c[5]}};
                if (place < 3) {
                        partition(&g, &d, 1);
                        insert_empty(place * g.offsets[g.count] / 2, RUN);
                } else {
                        g.count = RUN;
                }
                run_given(d, seed, true);
        }
}

/* An empty segment's fold is the identity, and the initial value with it. */
static void test_empty(void)
{
        float x[3] = {1, 2, 4}, y[4];
        int32_t offsets[5] = {0, 0, 2, 2, 3};
        int64_t nx[1] = {3}, ny[1] = {4}, no[1] = {5};
        const sf_tensor tx = tensor(x, SF_F32, 1, nx), ty = tensor(y, SF_F32, 1, ny), to = tensor(offsets, SF_I32, 1, no);
        const float sums[4] = {0, 3, 0, 4}, largest[4] = {-__builtin_inff(), 2, -__builtin_inff(), 4}, from[4] = {10, 13, 10, 14};
        for (int e = 0; e < engine_count; e++) {
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.offsets = &to;
                CHECK(sf_fold(engines[e].ctx, &tx, &ty, &o) == SF_OK && !memcmp(y, sums, sizeof y), "%s: sums of empty segments", engines[e].name);
                o.op = SF_MAX;
                CHECK(sf_fold(engines[e].ctx, &tx, &ty, &o) == SF_OK && !memcmp(y, largest, sizeof y), "%s: maxima of empty segments", engines[e].name);
                o.op = SF_SUM;
                o.initial = sf_real(10);
                CHECK(sf_fold(engines[e].ctx, &tx, &ty, &o) == SF_OK && !memcmp(y, from, sizeof y), "%s: sums from 10", engines[e].name);
                checks += 3;
        }
}

static void sum_segments(int e, const sf_tensor *x, const sf_tensor *y, const sf_tensor *offsets)
{
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.offsets = offsets;
        CHECK(sf_fold(engines[e].ctx, x, y, &o) == SF_OK, "%s: %s", engines[e].name, sf_last_error(engines[e].ctx));
}

/* So many empty segments lie between those that have an element that their numbers leave 16 bits. */
static void test_many_empty(void)
{
        enum { APART = 70000, SEGMENTS = 2 * APART + 1 };
        static int32_t offsets[SEGMENTS + 1];
        static float y[SEGMENTS];
        float x[3] = {1, 2, 4};
        for (int k = 1; k <= SEGMENTS; k++)
                offsets[k] = k <= APART ? 1 : k < SEGMENTS ? 2 : 3;
        int64_t nx[1] = {3}, ny[1] = {SEGMENTS}, no[1] = {SEGMENTS + 1};
        const sf_tensor tx = tensor(x, SF_F32, 1, nx), ty = tensor(y, SF_F32, 1, ny), to = tensor(offsets, SF_I32, 1, no);
        for (int e = 0; e < engine_count; e++) {
                memset(y, 0xff, sizeof y);
                sum_segments(e, &tx, &ty, &to);
                int wrong = 0;
                for (int k = 0; k < SEGMENTS; k++)
                        wrong += y[k] != (k == 0 ? 1 : k == APART ? 2 : k == 2 * APART ? 4 : 0);
                CHECK(!wrong, "%s: %d of %d sums of segments are wrong, nearly all of which are empty", engines[e].name, wrong, SEGMENTS);
                checks++;
        }
}

/* Two segments just long enough to be shared by all threads (LEAST_LONG of segments.c): of their
 * positions only the last is a multiple of that. After the last segment, which is long too, there
 * may be positions that belong to none: multiples of LEAST_LONG are among them. */
static void long_ends(int32_t last)
{
        enum { LONG = 1 << 16, N = 6 * LONG, SEGMENTS = 5 };
        static float x[N];
        int32_t offsets[SEGMENTS + 1] = {0, 1, LONG + 1, 2 * LONG + 1, 2 * LONG + 2, last};
        float y[SEGMENTS];
        int64_t nx[1] = {N}, ny[1] = {SEGMENTS}, no[1] = {SEGMENTS + 1};
        for (int i = 0; i < N; i++)
                x[i] = 1;
        const sf_tensor tx = tensor(x, SF_F32, 1, nx), ty = tensor(y, SF_F32, 1, ny), to = tensor(offsets, SF_I32, 1, no);
        for (int e = 0; e < engine_count; e++) {
                memset(y, 0xff, sizeof y);
                sum_segments(e, &tx, &ty, &to);
                for (int k = 0; k < SEGMENTS; k++)
                        CHECK(y[k] == (float)(offsets[k + 1] - offsets[k]), "%s: the sum of segment %d is %g", engines[e].name, k, (double)y[k]);
                checks++;
        }
}

static void test_long_ends(void)
{
        long_ends(6 << 16);
        long_ends((9 << 16) / 2);
}

/* An expression of x, and of o, whose `ends` these are: on every engine, against the reference. */
static void meet_expression(const char *expression, const char *line, const int64_t *ends, uint64_t seed)
{
        enum { RESULTS = 2 };
        tool_shapes inputs;
        tool_read_shapes(line, &inputs);
        const int64_t count = tool_count(&inputs.tensor[0]), cuts = tool_count(&inputs.tensor[1]);
        const int dt = tool_dt(inputs.tensor[0].dtype);
        const size_t bytes = (size_t)(count + cuts) * dts[dt].size;
        char *x = malloc((size_t)count * dts[dt].size), *out[2] = {calloc(RESULTS, bytes), calloc(RESULTS, bytes)};
        int32_t *narrow = malloc((size_t)cuts * sizeof *narrow);
        for (int64_t i = 0; i < cuts; i++)
                narrow[i] = (int32_t)ends[i];
        fill(dt, 0, true, seed, count, x);
        inputs.tensor[0].data = x;
        inputs.tensor[1].data = inputs.tensor[1].dtype.bits == 64 ? (void *)(uintptr_t)ends : narrow;
        for (int e = 0; e < engine_count; e++) {
                sf_plan *plan = tool_plan(engines[e].ctx, expression, line, true);
                CHECK(plan, "%s of %s on %s: %s", expression, line, engines[e].name, sf_last_error(engines[e].ctx));
                if (!plan)
                        continue;
                int64_t shape[RESULTS][SF_MAX_NDIM];
                sf_tensor results[RESULTS];
                for (int32_t k = 0; k < sf_plan_outputs(plan); k++) {
                        results[k] = (sf_tensor){.data = out[e > 0] + (size_t)k * bytes, .shape = shape[k], .device = {SF_CPU, 0}};
                        sf_plan_output(plan, k, &results[k].ndim, shape[k], &results[k].dtype);
                }
                CHECK(sf_plan_run(plan, inputs.tensor, results, NULL) == SF_OK, "%s of %s on %s: %s", expression, line, engines[e].name, sf_last_error(engines[e].ctx));
                bool same = true;
                for (int32_t k = 0; e && k < sf_plan_outputs(plan); k++)
                        for (int64_t i = 0; i < tool_count(&results[k]); i++)
                                same = same && same_bits(dt, out[1] + (size_t)k * bytes + i * dts[dt].size, out[0] + (size_t)k * bytes + i * dts[dt].size);
                CHECK(same, "%s of %s on %s has other bits than the reference", expression, line, engines[e].name);
                checks++;
                sf_plan_destroy(plan);
        }
        free(x), free(out[0]), free(out[1]), free(narrow);
}

/* Runs of empty segments in chains, whose folds are wanted too or are not; behind the last element of a whole number of windows there are some too. */
static void test_runs_in_chains(size_t every)
{
        static const char *const expressions[] = {"softmax(x, 0, offsets=o)", "softmax(x, 0, offsets=o), max(x, 0, offsets=o)", "layer_norm(x, 0, offsets=o)"};
        enum { N = 2048, EACH = 8, RUN = 13000, COUNT = N / EACH + RUN, PLACES = 4 };
        static int64_t ends[COUNT + 1];
        /* However few: those whose results are wanted and that begin where the last window ends. */
        for (size_t i = every < 2 * PLACES ? every - 1 : 2 * PLACES - 1; i < PLACES * sizeof expressions / sizeof *expressions; i += every) {
                const int64_t first = i % PLACES * (N / EACH) / (PLACES - 1);
                for (int64_t k = 0; k <= COUNT; k++)
                        ends[k] = EACH * (k <= first ? k : k <= first + RUN ? first : k - RUN);
                meet_expression(expressions[i / PLACES], i % 2 ? "x=2048 o=13257:i32" : "x=2048 o=13257:i64", ends, i);
        }
}

/* Chains over segments so tiny that a thread has several of them, of which some are empty; with longer ones among them. */
static void test_tiny_in_chains(size_t every)
{
        static const char *const expressions[] = {"softmax(x, 0, offsets=o)", "log_softmax(x, 0, offsets=o)", "layer_norm(x, 0, offsets=o)", "x / spread(sum(x, 0, offsets=o), 0, 2043, offsets=o)"};
        static const char *const shapes[] = {"x=2043 o=3001:i64", "x=2043:f64 o=3001:i32", "x=2043:f16 o=3001:i64"};
        enum { N = 2043, COUNT = 3000, SHAPES = sizeof shapes / sizeof *shapes, KINDS_OF_TINY = 3 };
        static int64_t ends[COUNT + 1];
        for (size_t k = 0; k < KINDS_OF_TINY * SHAPES * (sizeof expressions / sizeof *expressions); k += every) {
                const size_t kind = k % KINDS_OF_TINY;
                dice d = {3000000 + k, 0};
                for (int i = 0; i < COUNT; i++) {
                        const int64_t tiny = kind == 0 ? roll(&d, 2) : kind == 1 ? 1 : roll(&d, 4) / 3 * (1 + roll(&d, 2)), length = roll(&d, 200) ? tiny : roll(&d, 40);
                        ends[i + 1] = ends[i] + length < N ? ends[i] + length : N;
                }
                meet_expression(expressions[k / KINDS_OF_TINY / SHAPES], shapes[k / KINDS_OF_TINY % SHAPES], ends, k);
        }
}

/*
 * What a fold of segments comes to goes back to their elements: in the load of another fold or scan, in a store, and in a map by itself; along rows and down
 * columns; behind the last offset too. Against the reference, which takes each segment by itself.
 */
static void test_spread(size_t every)
{
        static const char *const expressions[] = {"softmax(x, 0, offsets=o)", "cumsum(softmax(x, 0, offsets=o), 0, offsets=o)", "max(softmax(x, 0, offsets=o), 0, offsets=o)",
                                                  "log_softmax(x, 0, offsets=o)", "layer_norm(x, 0, offsets=o)", "sum(x, 0, offsets=o)"};
        static const char *const shapes[] = {"x=700 o=9:i64", "x=300,3 o=9:i32", "x=130,20:f64 o=9:i64", "x=6201 o=9:i32"};
        enum { SHAPES = sizeof shapes / sizeof *shapes };
        /* The last ones are of every length that matters to a CUDA kernel of small tiles. */
        static const int64_t some[2][9] = {{0, 3, 3, 40, 41, 60, 100, 101, 129}, {0, 3, 3, 203, 863, 900, 6050, 6061, 6171}};
        for (size_t k = 0; k < SHAPES * (sizeof expressions / sizeof *expressions); k += every)
                meet_expression(expressions[k / SHAPES], shapes[k % SHAPES], some[k % SHAPES == SHAPES - 1], k);
}

/* The same as people write it: behind the last offset it is 0, whatever was computed of what is there. */
static void test_spread_as_written(void)
{
        static const struct {
                const char *expression;
                float want[7];
        } cases[] = {
                {"spread(v, 0, 7, offsets=o) + 0 * sum(x)", {1, 1, 4, 4, 4, 4, 0}},
                {"spread(1 / v, 0, 7, offsets=o) + 0 * sum(x)", {1, 1, 0.25, 0.25, 0.25, 0.25, 0}},
                {"spread(ones_like(v), 0, 7, offsets=o) * x", {1, 2, 3, 4, 5, 6, 0}},
                {"x - spread(max(x, 0, offsets=o) + v, 0, 7, offsets=o)", {-2, -1, -7, -6, -5, -4, 7}},
                {"cumsum(x * spread(v + 1, 0, 7, offsets=o), 0, offsets=o)", {2, 6, 15, 35, 60, 90, 0}},
                {"cumsum(x * spread(v * 2, 0, 7, offsets=o), 0)", {2, 6, 30, 62, 102, 150, 150}},
                {"cummean(x, 0, offsets=o) + 0 * spread(v, 0, 7, offsets=o)", {1, 1.5, 3, 3.5, 4, 4.5, 7}}, /* counts without reading anything */
        };
        float x[7] = {1, 2, 3, 4, 5, 6, 7}, v[3] = {1, 2, 4}, y[7];
        int32_t o[4] = {0, 2, 2, 6};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                for (int e = 0; e < engine_count; e++, checks++) {
                        const char *expression = cases[i].expression;
                        sf_graph *graph = NULL;
                        sf_plan *plan = NULL;
                        sf_tensor inputs[3];
                        int64_t seven[1] = {7}, three[1] = {3}, four[1] = {4};
                        sf_status status = sf_graph_parse(engines[e].ctx, expression, &graph);
                        for (int32_t k = 0; status == SF_OK && k < sf_graph_inputs(graph); k++) {
                                const char name = *sf_graph_input_name(graph, k);
                                inputs[k] = name == 'x'   ? tensor(x, SF_F32, 1, seven)
                                            : name == 'v' ? tensor(v, SF_F32, 1, three)
                                                          : tensor(o, SF_I32, 1, four);
                        }
                        const sf_tensor out = tensor(y, SF_F32, 1, seven);
                        if (status == SF_OK)
                                status = sf_plan_create(engines[e].ctx, graph, sf_graph_inputs(graph), inputs, NULL, &plan);
                        if (status == SF_OK)
                                status = sf_plan_run(plan, inputs, &out, NULL);
                        CHECK(status == SF_OK, "%s on %s: %s", expression, engines[e].name, sf_last_error(engines[e].ctx));
                        CHECK(status != SF_OK || !memcmp(y, cases[i].want, sizeof y), "%s on %s ends with %g %g", expression, engines[e].name, y[5], y[6]);
                        sf_plan_destroy(plan);
                        sf_graph_destroy(graph);
                }
}

static void refused(const char *what, const sf_tensor *x, const sf_tensor *y, const sf_tensor *offsets, const char *sentence)
{
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        int32_t axis = 0;
        o.offsets = offsets;
        o.axes = &axis;
        o.naxes = 1;
        for (int e = 0; e < engine_count; e++) {
                const sf_status status = sf_fold(engines[e].ctx, x, y, &o);
                CHECK(status == SF_INVALID_ARGUMENT && strstr(sf_last_error(engines[e].ctx), sentence), "%s: %s, \"%s\"; it should say \"%s\"", what, sf_status_name(status),
                      sf_last_error(engines[e].ctx), sentence);
                checks++;
        }
}

/* So many that threads share the check; one decreases near the end. */
static void test_many_refused(void)
{
        enum { MANY = 300000 };
        int32_t *offsets = calloc(MANY + 1, sizeof *offsets);
        float x[6] = {0}, *y = calloc(MANY, sizeof *y);
        int64_t nx[1] = {6}, ny[1] = {MANY}, no[1] = {MANY + 1};
        const sf_tensor tx = tensor(x, SF_F32, 1, nx), ty = tensor(y, SF_F32, 1, ny), t = tensor(offsets, SF_I32, 1, no);
        offsets[MANY - 1] = 5;
        offsets[MANY] = 4;
        refused("decreasing at the end", &tx, &ty, &t, "offsets[300000] is 4, below the 5 before it");
        free(offsets);
        free(y);
}

static void test_refused(void)
{
        float x[6] = {0}, y[2] = {7, 7};
        int64_t nx[1] = {6}, ny[1] = {2}, no[2] = {3, 1}, none[1] = {0}, few[1] = {2}, matrix[2] = {2, 3}, row[2] = {2, 3};
        int64_t above[3] = {1, 2, 6}, down[3] = {0, 4, 3}, beyond[3] = {0, 2, 7}, good[3] = {0, 2, 6};
        const sf_tensor tx = tensor(x, SF_F32, 1, nx), ty = tensor(y, SF_F32, 1, ny);
        sf_tensor t = tensor(above, SF_I64, 1, no);
        refused("first above 0", &tx, &ty, &t, "offsets[0] is 1; the first segment must begin at 0");
        t.data = down;
        refused("decreasing", &tx, &ty, &t, "offsets[2] is 3, below the 4 before it");
        t.data = beyond;
        refused("beyond the axis", &tx, &ty, &t, "offsets end with 7, but the axis has 6 elements");
        t.data = good;
        t.dtype = SF_F64;
        refused("reals", &tx, &ty, &t, "offsets are f64; they must be i32 or i64");
        t.dtype = SF_I64;
        t.ndim = 2;
        refused("two dimensions", &tx, &ty, &t, "offsets have 2 dimensions");
        t.ndim = 1;
        t.shape = none;
        refused("no offsets", &tx, &ty, &t, "0 elements");
        t.shape = few;
        refused("another shape", &tx, &ty, &t, "out has shape (2,); it must be (1,)");
        t.shape = no;
        t.device.device_type = SF_CUDA;
        refused("another device", &tx, &ty, &t, "offsets is on device (2, 0)");
        t = tensor(y, SF_I32, 1, few);
        int64_t one[1] = {1};
        const sf_tensor overlapped = tensor(y, SF_F32, 1, one);
        refused("overlap", &tx, &overlapped, &t, "out overlaps offsets");
        CHECK(y[0] == 7 && y[1] == 7, "a refused call has written");
        t = tensor(good, SF_I64, 1, no);
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.offsets = &t;
        const sf_tensor tm = tensor(x, SF_F32, 2, matrix), tr = tensor(y, SF_F32, 2, row);
        CHECK(sf_fold(NULL, &tm, &tr, &o) == SF_INVALID_ARGUMENT && strstr(sf_last_error(NULL), "offsets cut one axis"), "two axes: %s", sf_last_error(NULL));
        int32_t ndim;
        int64_t shape[1];
        CHECK(sf_fold_shape(NULL, &tx, &o, &ndim, shape) == SF_OK && ndim == 1 && shape[0] == 2, "the shape of a fold of two segments");
}

int main(int argc, char **argv)
{
        uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : CASES;
        engines_open();
        test_empty();
        test_many_empty();
        test_long_ends();
        const int every = count < 25 ? 5 : 1; /* where lists are thin; of 4 shapes, places and kinds each has some */
        test_spread(every);
        test_tiny(every);
        test_runs(every);
        test_runs_in_chains(every);
        test_tiny_in_chains(every);
        test_spread_as_written();
        test_refused();
        test_many_refused();
        for (uint64_t seed = first; seed < first + count; seed++)
                run_case(seed);
        engines_close();
        return finish("test_segments", checks);
}
