#include "case.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long cases_checked;
static long every = 1, turn;
static int only = -1;

void case_arguments(int argc, char **argv)
{
        for (int i = 1; i + 1 < argc; i++)
                if (!strcmp(argv[i], "--every"))
                        every = atol(argv[i + 1]);
                else if (!strcmp(argv[i], "--op"))
                        for (only = op_count() - 1;
                             only >= 0 && strcmp(sf_op_name((sf_op)only), argv[i + 1]); only--) {
                        }
        if (every < 1)
                every = 1;
}

/* With --op, every case is that operation's; where it has no reals, integers of the same size take
 * their place, and where its results are indices or reals, those do. */
static test_case with_operation(const test_case *given)
{
        static const int whole[DT_COUNT] = {
                [DT_F16] = DT_I16, [DT_BF16] = DT_I16, [DT_F32] = DT_I32, [DT_F64] = DT_I64};
        test_case c = *given;
        if (only < 0)
                return c;
        c.op = (sf_op)only;
        if (is_index(c.op))
                c.out = c.seed % 3 ? DT_I64 : DT_I32;
        else if (!pair_allowed(c.op, DT_I32, DT_I32) && !whole[c.out])
                c.out = dts[c.in].size < 4 ? DT_F32 : DT_F64;
        else if (!pair_allowed(c.op, DT_F32, DT_F32) && (whole[c.in] || whole[c.out])) {
                c.in = whole[c.in] ? whole[c.in] : c.in;
                c.out = whole[c.out] ? whole[c.out] : c.out;
        }
        if (!pair_allowed(c.op, c.in, c.out))
                c.out = c.in;
        if (!accumulator_allowed(c.op, c.in, c.out, c.acc))
                c.acc = DT_NONE;
        c.in_place = c.in_place && dts[c.in].size == dts[c.out].size;
        return c;
}

bool case_next(void)
{
        return hash((uint64_t)turn++) % (uint64_t)every == 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Making cases
 * ---------------------------------------------------------------------------------------------------------- */
test_case case_plain(bool fold, int32_t axis, int32_t ndim, const int64_t *shape)
{
        test_case c;
        memset(&c, 0, sizeof c);
        c.fold = fold;
        c.in = c.out = DT_F32;
        c.acc = DT_NONE;
        c.ndim = ndim;
        if (ndim)
                memcpy(c.shape, shape, (size_t)ndim * sizeof *shape);
        c.naxes = 1;
        c.axes[0] = axis;
        return c;
}

int case_accumulator(const test_case *c, uint64_t seed)
{
        int acc = (int)(hash(seed + 77) % (DT_COUNT + 4)) - 4; /* unset more often than set to any one type */
        return acc >= 0 && accumulator_allowed(c->op, c->in, c->out, acc) ? acc : DT_NONE;
}

void case_settle(test_case *c)
{
        if (c->fold)
                c->exclusive = c->in_place = false;
        if (c->in_place && (dts[c->in].size != dts[c->out].size || !layout_for_output[c->x_layout]))
                c->in_place = false;
        if (!layout_for_output[c->out_layout])
                c->out_layout = LAYOUT_compact;
}

const case_shape case_big[CASE_BIG] = {
#define BIG(axis, ...) {axis, CASE_LENGTHS(__VA_ARGS__)},
#include "cases.def"
};
const case_shape case_samples[CASE_SAMPLES] = {
#define SAMPLE(axis, ...) {axis, CASE_LENGTHS(__VA_ARGS__)},
#include "cases.def"
};

test_case case_of_shape(bool fold, const case_shape *shape)
{
        return case_plain(fold, shape->axis, shape->ndim, shape->shape);
}

void case_each_dtype(bool fold, void (*check)(const test_case *c, unsigned parts))
{
        for (int op = 0; op < op_count(); op++)
                for (int in = 0; in < DT_COUNT; in++)
                        for (int out = 0; out < DT_COUNT; out++)
                                for (int acc = DT_NONE; acc < DT_COUNT; acc++) {
                                        if (!accumulator_allowed((sf_op)op, in, out, acc))
                                                continue;
                                        for (size_t i = 0; i < CASE_SAMPLES; i++) {
                                                test_case c = case_of_shape(fold, &case_samples[i]);
                                                c.op = (sf_op)op;
                                                c.in = in;
                                                c.out = out;
                                                c.acc = acc;
                                                check(&c, VARY_PLACE);
                                                check(&c, VARY_PLACE | VARY_OPTIONS | VARY_MASK | VARY_FILL);
                                        }
                                }
}

void case_vary(test_case *c, uint64_t seed, unsigned parts)
{
        uint64_t r = hash(seed), s = hash(seed + 1), t = hash(seed + 2);
        c->seed = seed;
        if (parts & VARY_DTYPES) {
                for (uint64_t i = 0;; i++) {
                        uint64_t d = hash(seed + 100 + i);
                        c->op = (sf_op)(d % (uint64_t)op_count());
                        c->in = (int)(d >> 8) & 0xffff;
                        c->out = (int)(d >> 24) & 0xffff;
                        c->in %= DT_COUNT;
                        c->out %= DT_COUNT;
                        if (pair_allowed(c->op, c->in, c->out))
                                break;
                }
                c->acc = case_accumulator(c, seed);
        }
        if (parts & VARY_OPTIONS) {
                c->reverse = r & 1;
                c->exclusive = r >> 1 & 1;
                c->initial = r >> 2 & 1 ? (int)(r >> 8) % 1000 % INITIALS : 0;
                c->initial = c->initial < 0 ? 0 : c->initial;
                c->keepdim = r >> 3 & 1;
                c->in_place = r >> 4 & 1;
        }
        if (parts & VARY_LAYOUTS) {
                c->x_layout = (int)(s % LAYOUT_COUNT);
                c->out_layout = (int)((s >> 16) % LAYOUT_COUNT);
        }
        if (parts & VARY_MASK) {
                c->mask = (int)((s >> 32) % MASK_COUNT);
                c->mask_layout = (int)((s >> 48) % LAYOUT_COUNT);
                c->mask_u8 = s >> 63;
        }
        if (parts & VARY_PLACE) {
                static const int skews[] = {0, 0, 1, 3, 4, 8, 12, 20, 32, 61};
                c->guard = t & 1 ? GUARD_AFTER : GUARD_BEFORE;
                c->skew_x = skews[(t >> 8) % 10];
                c->skew_out = skews[(t >> 16) % 10];
                c->skew_mask = skews[(t >> 24) % 10];
        }
        if (parts & VARY_FILL) {
                /* Ordinary values half of the time: special values soon make everything NaN. */
                int kind = (int)((t >> 32) % (2 * FILL_COUNT));
                c->fill = kind < FILL_COUNT ? kind : FILL_mixed;
        }
        case_settle(c);
}

static const char *const mask_names[MASK_COUNT] = {
#define MASK(name) #name,
#include "cases.def"
};

static void print_numbers(FILE *to, int32_t n, const int64_t *numbers)
{
        fputc('(', to);
        for (int32_t d = 0; d < n; d++)
                fprintf(to, "%s%" PRId64, d ? ", " : "", numbers[d]);
        fputc(')', to);
}

void case_print(const test_case *c, FILE *to)
{
        fprintf(to, "%s %s %s -> %s", c->fold ? "fold" : "scan", sf_op_name(c->op), dts[c->in].name, dts[c->out].name);
        if (c->acc != DT_NONE)
                fprintf(to, " in %s", dts[c->acc].name);
        fprintf(to, ", shape ");
        print_numbers(to, c->ndim, c->shape);
        if (c->fold && c->all_axes) {
                fprintf(to, ", all axes");
        } else {
                int64_t axes[SF_MAX_NDIM];
                for (int32_t i = 0; i < c->naxes; i++)
                        axes[i] = c->axes[i];
                fprintf(to, ", axes ");
                print_numbers(to, c->naxes, axes);
        }
        fprintf(to, "%s%s%s%s", c->keepdim ? ", keepdim" : "", c->reverse ? ", reverse" : "",
                c->exclusive ? ", exclusive" : "",
                c->in_place ? ", in place" : "");
        if (c->initial)
                fprintf(to, ", initial #%d", c->initial);
        fprintf(to, ", x %s, out %s", layout_names[c->x_layout], layout_names[c->out_layout]);
        if (c->mask != MASK_none)
                fprintf(to, ", mask %s %s %s", mask_names[c->mask], c->mask_u8 ? "u8" : "bool",
                        layout_names[c->mask_layout]);
        fprintf(to, ", values %s, guard %s, skews %d %d %d, seed %" PRIu64 "\n", fill_names[c->fill],
                c->guard == GUARD_AFTER ? "after" : "before", c->skew_x, c->skew_out, c->skew_mask, c->seed);
}

/* ------------------------------------------------------------------------------------------------------------
 * The parts of a check
 * ---------------------------------------------------------------------------------------------------------- */
static sf_scalar initial_of(const test_case *c)
{
        if (is_index(c->op)) /* which have none */
                return (sf_scalar){0};
        int acc = accumulator_of(c->in, c->out, c->acc), bits = dts[acc].size * 8;
        uint64_t all = UINT64_MAX >> (64 - bits);
        const sf_scalar reals[INITIALS] = {{0}, sf_real(1234.567), sf_int(-3), sf_uint(UINT64_MAX - 1), sf_real(-0.0)};
        const sf_scalar ints[INITIALS] = {{0}, sf_int(-3), sf_int(-(int64_t)(all >> 1) - 1), sf_real(100),
                                          sf_uint(all >> 1)};
        const sf_scalar naturals[INITIALS] = {{0}, sf_int(3), sf_uint(all), sf_real(100), sf_int(0)};
        if (dts[acc].kind == 'r')
                return reals[c->initial];
        if (dts[acc].kind == 's')
                return ints[c->initial];
        if (dts[acc].kind == 'u')
                return naturals[c->initial];
        return c->initial ? sf_int(c->initial % 2) : (sf_scalar){0};
}

static sf_status call(sf_context *ctx, const test_case *c, const sf_tensor *x, const sf_tensor *out,
                      const sf_tensor *mask)
{
        sf_dtype none = {0, 0, 0}, acc = c->acc == DT_NONE ? none : dts[c->acc].dtype;
        if (c->fold) {
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.op = c->op;
                o.naxes = c->naxes;
                o.axes = c->all_axes ? NULL : c->axes;
                o.keepdim = c->keepdim;
                o.reverse = c->reverse;
                o.mask = mask;
                o.initial = initial_of(c);
                o.accumulator = acc;
                return sf_fold(ctx, x, out, &o);
        }
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.op = c->op;
        o.axis = c->axes[0];
        o.reverse = c->reverse;
        o.exclusive = c->exclusive;
        o.mask = mask;
        o.initial = initial_of(c);
        o.accumulator = acc;
        return sf_scan(ctx, x, out, &o);
}

static bool folds_axis(const test_case *c, int32_t d)
{
        bool folds = c->fold && c->all_axes;
        for (int32_t i = 0; c->fold && i < c->naxes; i++)
                folds = folds || (c->axes[i] < 0 ? c->axes[i] + c->ndim : c->axes[i]) == d;
        return folds;
}

static int32_t out_shape(const test_case *c, int64_t *shape)
{
        int32_t rank = 0;
        for (int32_t d = 0; d < c->ndim; d++)
                if (!folds_axis(c, d))
                        shape[rank++] = c->shape[d];
                else if (c->keepdim)
                        shape[rank++] = 1;
        return rank;
}

static int32_t mask_shape(const test_case *c, int64_t *shape)
{
        int32_t last = c->ndim - 1;
        if (c->mask == MASK_scalar || !c->ndim)
                return 0;
        if (c->mask == MASK_trailing) {
                shape[0] = c->shape[last];
                return 1;
        }
        for (int32_t d = 0; d < c->ndim; d++) {
                bool stretched = c->mask == MASK_row      ? d != last
                                 : c->mask == MASK_column ? d == last
                                 : c->mask == MASK_mixed  ? hash(c->seed + (uint64_t)d) & 1
                                                          : false;
                shape[d] = stretched ? 1 : c->shape[d];
        }
        return c->ndim;
}

/* What a buffer held before a call, with a little on both sides where there is room before a guard page. */
typedef struct window {
        char *at, *copy;
        size_t bytes, room;
} window;

static void window_set(window *w, const region *r, char *lowest, size_t bytes)
{
        char *low = lowest - r->base >= 64 ? lowest - 64 : r->base, *end = r->base + r->size, *high = lowest + bytes;
        high = end - high >= 64 ? high + 64 : end;
        w->at = low;
        w->bytes = (size_t)(high - low);
        if (w->bytes > w->room) {
                w->room = w->bytes * 2;
                free(w->copy);
                w->copy = malloc(w->room);
                if (!w->copy)
                        abort();
        }
}

static void window_poison(window *w, uint64_t seed)
{
        memset(w->at, 0x81 + (int)(seed % 100), w->bytes);
}

static void window_save(window *w)
{
        memcpy(w->copy, w->at, w->bytes);
}

static void window_restore(window *w)
{
        memcpy(w->at, w->copy, w->bytes);
}

static bool window_same(const window *w)
{
        return !memcmp(w->at, w->copy, w->bytes);
}

/* A buffer for compact copies; it grows and is never freed. */
static void *compact_buffer(int which, int64_t count, int dt)
{
        static struct {
                void *p;
                size_t room;
        } buffers[3];
        size_t bytes = (size_t)count * (size_t)dts[dt].size + 1;
        if (bytes > buffers[which].room) {
                free(buffers[which].p);
                buffers[which].p = malloc(buffers[which].room = bytes * 2);
                if (!buffers[which].p)
                        abort();
        }
        return buffers[which].p;
}

/* The mask's own elements, and the mask broadcast to x's shape, which the reference is given. */
static void make_mask(const test_case *c, view *mask, uint8_t *full, int64_t count)
{
        cursor m;
        cursor_start(&m, mask);
        for (int64_t i = 0; i < mask->count; i++, cursor_next(&m)) {
                uint64_t r = hash(c->seed * 3 + (uint64_t)i);
                *m.at = (char)(r % 3 ? (c->mask_u8 ? 1 + r % 255 : 1) : 0);
        }
        char *first = (char *)((uintptr_t)mask->t.data + mask->t.byte_offset);
        int64_t index[SF_MAX_NDIM] = {0};
        int32_t lead = c->ndim - mask->t.ndim;
        for (int64_t i = 0; i < count; i++) {
                int64_t offset = 0;
                for (int32_t d = 0; d < mask->t.ndim; d++)
                        offset += mask->shape[d] == 1 ? 0 : index[lead + d] * mask->strides[d];
                full[i] = (uint8_t)first[offset];
                for (int32_t d = c->ndim - 1; d >= 0 && ++index[d] == c->shape[d]; d--)
                        index[d] = 0;
        }
}

/* Reports the first element that differs, or that a byte between the elements does. */
static void report(const engine *e, const view *out, const char *expected, const window *image)
{
        cursor p;
        int size = dts[out->dt].size;
        cursor_start(&p, out);
        for (int64_t i = 0; i < out->count; i++, cursor_next(&p))
                if (!same_bits(out->dt, p.at, expected + i * size)) {
                        fprintf(stderr, "  %s differs first at element %" PRId64 " of %" PRId64 ", index ", e->name, i,
                                out->count);
                        print_numbers(stderr, out->t.ndim, p.index);
                        fprintf(stderr, ": %0*" PRIx64 ", the reference has %0*" PRIx64 "\n", size * 2,
                                bits_of(out->dt, p.at), size * 2,
                                bits_of(out->dt, expected + i * size));
                        return;
                }
        size_t at = 0;
        while (at < image->bytes && image->at[at] == image->copy[at])
                at++;
        fprintf(stderr, "  %s has every element right, but wrote byte %zu of %zu around them\n", e->name, at,
                image->bytes);
}

/* The bits of a NaN are not promised: where both are NaN, the expected one takes the bits found. */
static void forgive_nans(const view *out, const char *expected, window *image)
{
        cursor p;
        size_t size = (size_t)dts[out->dt].size;
        if (dts[out->dt].kind != 'r')
                return;
        cursor_start(&p, out);
        for (int64_t i = 0; i < out->count; i++, cursor_next(&p))
                if (is_nan(out->dt, p.at) && is_nan(out->dt, expected + (size_t)i * size))
                        memcpy(image->copy + (p.at - image->at), p.at, size);
}

/* ------------------------------------------------------------------------------------------------------------
 * The check
 * ---------------------------------------------------------------------------------------------------------- */
static bool engine_wanted(const engine *e, int64_t bytes)
{
        if (e == engines) /* the reference on this layout, against itself on a compact one */
                return bytes < 1 << 21;
        return bytes >= 1 << 15 || e->threads == 1 || e->threads == 3;
}

/* Max or min of no elements without an initial value is the only call that may be refused, even if it
 * has no results. */
static bool refused(const test_case *c)
{
        bool empty = false;
        for (int32_t d = 0; d < c->ndim; d++)
                empty = empty || (folds_axis(c, d) && !c->shape[d]);
        return empty && (is_index(c->op) || (!c->initial && (c->op == SF_MAX || c->op == SF_MIN)));
}

static const test_case *running;
static const char *running_on;

/* A guard page was touched. Printing in a signal handler is not safe, but the process ends
 * anyway. */
static void on_fault(int signal_number)
{
        fprintf(stderr, "%s went beyond its memory (signal %d): ", running_on, signal_number);
        case_print(running, stderr);
        _exit(1);
}

static void watch(const test_case *c, const char *engine_name)
{
        if (!running) {
                signal(SIGSEGV, on_fault);
                signal(SIGBUS, on_fault);
        }
        running = c;
        running_on = engine_name;
}

bool case_check(const test_case *given)
{
        const test_case own = with_operation(given), *c = &own;
        static region x_region, out_region, mask_region;
        static window x_window, out_window, mask_window, image;
        static view x, out, mask, plain_x, plain_out, plain_mask;
        int64_t shape[SF_MAX_NDIM];
        cases_checked++;
        watch(c, "the reference");

        view_init(&x, c->in, c->ndim, c->shape, c->x_layout, c->seed);
        char *x_lowest = region_place(&x_region, view_bytes(&x), c->guard, (size_t)c->skew_x);
        view_place(&x, x_lowest, c->seed % 3 * 8);
        window_set(&x_window, &x_region, x_lowest, view_bytes(&x));
        window_poison(&x_window, c->seed);
        view_init(&plain_x, c->in, c->ndim, c->shape, LAYOUT_compact, 0);
        view_place(&plain_x, compact_buffer(0, x.count, c->in), 0);
        fill(c->in, c->fill, c->op == SF_PROD, c->seed, x.count, plain_x.t.data);
        view_scatter(&x, plain_x.t.data);
        view_gather(&x, plain_x.t.data); /* repeated elements hold one value */
        window_save(&x_window);

        bool masked = c->mask != MASK_none;
        view_init(&plain_mask, DT_U8, c->ndim, c->shape, LAYOUT_compact, 0);
        if (masked) {
                int32_t rank = mask_shape(c, shape);
                view_init(&mask, c->mask_u8 ? DT_U8 : DT_BOOL, rank, shape, c->mask_layout, c->seed + 5);
                char *lowest = region_place(&mask_region, view_bytes(&mask), c->guard, (size_t)c->skew_mask);
                view_place(&mask, lowest, c->seed % 5);
                window_set(&mask_window, &mask_region, lowest, view_bytes(&mask));
                window_poison(&mask_window, c->seed);
                view_place(&plain_mask, compact_buffer(1, x.count, DT_U8), 0);
                make_mask(c, &mask, plain_mask.t.data, x.count);
                window_save(&mask_window);
        }

        int32_t rank = out_shape(c, shape);
        view_init(&plain_out, c->out, rank, shape, LAYOUT_compact, 0);
        char *expected = compact_buffer(2, plain_out.count, c->out);
        view_place(&plain_out, expected, 0);
        sf_status right = refused(c) ? SF_INVALID_ARGUMENT : SF_OK;
        sf_status status = call(REF, c, &plain_x.t, &plain_out.t, masked ? &plain_mask.t : NULL);
        if (status != right) {
                case_print(c, stderr);
                FAIL("the reference says %s: %s", sf_status_name(status), sf_last_error(REF));
                return false;
        }

        /* What the output's memory must look like afterwards, with the filler between the
         * elements. */
        const view *to = c->in_place ? &x : &out;
        char *lowest = x_lowest;
        if (!c->in_place) {
                view_init(&out, c->out, rank, shape, c->out_layout, c->seed + 9);
                lowest = region_place(&out_region, view_bytes(&out), c->guard, (size_t)c->skew_out);
                view_place(&out, lowest, c->seed % 7);
        } else {
                x.dt = c->out;
        }
        window *before = c->in_place ? &x_window : &out_window;
        if (!c->in_place) {
                window_set(before, &out_region, lowest, view_bytes(&out));
                window_poison(before, c->seed + 3);
                window_save(before);
        }
        image.at = before->at;
        window_set(&image, c->in_place ? &x_region : &out_region, lowest, view_bytes(to));
        if (right == SF_OK)
                view_scatter(to, expected);
        window_save(&image);

        sf_tensor in_place_out = x.t;
        in_place_out.dtype = dts[c->out].dtype;
        int64_t bytes = x.count * dts[c->in].size + plain_out.count * dts[c->out].size;
        char names[512] = "";
        for (int i = 0; i < engine_count; i++) {
                if (!engine_wanted(&engines[i], bytes))
                        continue;
                window_restore(before);
                watch(c, engines[i].name);
                status = call(engines[i].ctx, c, &x.t, c->in_place ? &in_place_out : &out.t, masked ? &mask.t : NULL);
                if (status == right && right == SF_OK && !window_same(&image))
                        forgive_nans(to, expected, &image);
                bool wrote = (!c->in_place && !window_same(&x_window)) || (masked && !window_same(&mask_window));
                if (status == right && window_same(&image) && !wrote)
                        continue;
                if (!*names) { /* the first one in detail, the others by name */
                        case_print(c, stderr);
                        if (status != right)
                                fprintf(stderr, "  %s says %s: %s\n", engines[i].name, sf_status_name(status),
                                        sf_last_error(engines[i].ctx));
                        else if (wrote)
                                fprintf(stderr, "  %s wrote to its input\n", engines[i].name);
                        else
                                report(&engines[i], to, expected, &image);
                }
                size_t used = strlen(names);
                snprintf(names + used, sizeof names - used, " %s", engines[i].name);
                if (wrote)
                        break;
        }
        if (*names)
                FAIL("wrong:%s", names);
        return !*names;
}
