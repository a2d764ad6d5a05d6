/* Checking, dtypes, engines and values. Memory and views are in memory.c. */
#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int failures;

void fail_at(const char *file, int line, const char *format, ...)
{
        va_list args;
        const char *base = strrchr(file, '/');
        fprintf(stderr, "%s:%d: ", base ? base + 1 : file, line);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
        if (++failures >= 20) {
                fprintf(stderr, "giving up after %d failures\n", failures);
                exit(1);
        }
}

int finish(const char *name, long checks)
{
        printf("%s: %ld checks, %d failures\n", name, checks, failures);
        return failures ? 1 : 0;
}

static uint64_t mixed_up(uint64_t n)
{
        n += 0x9e3779b97f4a7c15u;
        n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
        n = (n ^ n >> 27) * 0x94d049bb133111ebu;
        return n ^ n >> 31;
}

#ifdef SF_LIBFUZZER
/* Whatever a test draws, it draws by this function: so libFuzzer decides about all of it, each of its words about some draws. The same number
 * always draws the same; others draw something else, even of the same word, since some tests draw until they like it. */
static const uint8_t *drawn;
static size_t drawn_words;

void draw_from(const uint8_t *bytes, size_t size)
{
        drawn = bytes;
        drawn_words = size / sizeof(uint64_t);
}

uint64_t hash(uint64_t n)
{
        uint64_t word = 0;
        if (drawn_words)
                memcpy(&word, drawn + mixed_up(n) % drawn_words * sizeof word, sizeof word);
        return mixed_up(n ^ word);
}
#else
uint64_t hash(uint64_t n)
{
        return mixed_up(n);
}
#endif

/* ------------------------------------------------------------------------------------------------------------
 * dtypes
 * ---------------------------------------------------------------------------------------------------------- */
const dt_row dts[DT_COUNT] = {
#define TDTYPE(name, NAME, size, kind, code) {#name, {code, size * 8, 1}, size, #kind[0]},
#include "cases.def"
};

static bool holds(int out, int in)
{
        const dt_row *o = &dts[out], *i = &dts[in];
        if (i->kind == 'b')
                return true;
        return o->kind == i->kind ? o->size >= i->size : o->kind == 's' && i->kind == 'u' && o->size > i->size;
}

int op_count(void)
{
        int count = 0;
        while (sf_op_name((sf_op)count))
                count++;
        return count;
}

bool is_index(sf_op op)
{
        return op >= SF_ARGMAX && op <= SF_LAST_ARGMIN;
}

bool pair_allowed(sf_op op, int in, int out)
{
        char from = dts[in].kind, to = dts[out].kind;
        if (op == SF_RECURRENCE) /* which sf_recurrence has */
                return false;
        if (is_index(op))
                return out == DT_I32 || out == DT_I64;
        if (op == SF_LOGSUMEXP && to != 'r')
                return false;
        if (from == 'r')
                return to == 'r';
        if (to == 'r')
                return out == DT_F32 || out == DT_F64;
        if (to == 'b')
                return from == 'b';
        return op == SF_SUM || op == SF_PROD || holds(out, in);
}

int accumulator_of(int in, int out, int acc)
{
        if (dts[out].kind != 'r')
                return out;
        if (acc != DT_NONE)
                return acc;
        return dts[in].kind != 'r' ? out : in == DT_F64 || out == DT_F64 ? DT_F64 : DT_F32;
}

bool accumulator_allowed(sf_op op, int in, int out, int acc)
{
        if (!pair_allowed(op, in, out))
                return false;
        if (acc == DT_NONE)
                return true;
        if (is_index(op))
                return false;
        int own = accumulator_of(in, out, DT_NONE);
        if (dts[own].kind == 'r')
                return acc == DT_F64 || (acc == DT_F32 && own == DT_F32);
        return dts[out].kind != 'b' && (dts[acc].kind == 's' || dts[acc].kind == 'u') && dts[acc].size >= dts[out].size;
}

uint64_t bits_of(int dt, const void *element)
{
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        switch (dts[dt].size) {
        case 1: return memcpy(&u8, element, 1), u8;
        case 2: return memcpy(&u16, element, 2), u16;
        case 4: return memcpy(&u32, element, 4), u32;
        default: return memcpy(&u64, element, 8), u64;
        }
}

bool is_nan(int dt, const void *element)
{
        uint64_t b = bits_of(dt, element);
        switch (dt) {
        case DT_F16: return (b & 0x7fff) > 0x7c00;
        case DT_BF16: return (b & 0x7fff) > 0x7f80;
        case DT_F32: return (b & 0x7fffffff) > 0x7f800000;
        case DT_F64: return (b & 0x7fffffffffffffff) > 0x7ff0000000000000;
        default: return false;
        }
}

bool same_bits(int dt, const void *a, const void *b)
{
        return !memcmp(a, b, (size_t)dts[dt].size) || (is_nan(dt, a) && is_nan(dt, b));
}

/* ------------------------------------------------------------------------------------------------------------
 * Engines
 * ---------------------------------------------------------------------------------------------------------- */
engine engines[MAX_ENGINES];
int engine_count;

static void engine_open(const sf_context_options *options)
{
        engine *e = &engines[engine_count];
        if (sf_context_create(&e->ctx, options) != SF_OK) {
                fprintf(stderr, "no context for %s: %s\n", options->isa ? options->isa : "ref", sf_last_error(NULL));
                exit(1);
        }
        e->threads = options->threads;
        snprintf(e->name, sizeof e->name, "%s/%d", sf_context_isa(e->ctx), options->threads);
        const char *isa = options->backend == SF_BACKEND_REF ? "ref" : options->isa;
        CHECK(!strcmp(sf_context_isa(e->ctx), isa), "asked for %s, got %s", isa, sf_context_isa(e->ctx));
        CHECK(sf_context_threads(e->ctx) == options->threads, "%s has %d threads", e->name,
              (int)sf_context_threads(e->ctx));
        engine_count++;
}

/* SCANFOLD_TEST_ENGINES, if it is set, names those that a slow stage has the time for, as "neon/1 neon/3"; and the reference is always there. */
static bool is_wanted(const sf_context_options *o)
{
        const char *wanted = getenv("SCANFOLD_TEST_ENGINES");
        char name[32];
        const int length = snprintf(name, sizeof name, "%s/%d", o->isa, (int)o->threads);
        for (const char *at = wanted; at && (at = strstr(at, name)); at += length)
                if ((at == wanted || at[-1] == ' ') && (!at[length] || at[length] == ' '))
                        return true;
        return !wanted;
}

void engines_open(void)
{
        static const int counts[] = THREAD_COUNTS;
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        o.backend = SF_BACKEND_REF;
        o.threads = 1;
        engine_open(&o);
        o.backend = SF_BACKEND_AUTO;
        int32_t usable;
        for (int32_t i = 0; (o.isa = sf_isa_name(i, &usable)) != NULL; i++)
                for (size_t t = 0; usable && t < sizeof counts / sizeof *counts; t++) {
                        o.threads = counts[t];
                        if (is_wanted(&o))
                                engine_open(&o);
                }
        if (engine_count == 1) {
                fprintf(stderr, "SCANFOLD_TEST_ENGINES is \"%s\", and this machine has none of these\n", getenv("SCANFOLD_TEST_ENGINES"));
                exit(1);
        }
}

void engines_close(void)
{
        while (engine_count > 0)
                sf_context_destroy(engines[--engine_count].ctx);
}

/* ------------------------------------------------------------------------------------------------------------
 * Values
 * ---------------------------------------------------------------------------------------------------------- */
const char *const fill_names[FILL_COUNT] = {
#define FILL(name) #name,
#include "cases.def"
};

double mixed(uint64_t i)
{
        static const double decades[] = {1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3};
        uint32_t r = (uint32_t)(i * 2654435761u + 12345);
        double v = (r >> 8) / 0x1p24 * decades[i % 7];
        return i % 5 == 3 ? -v : v;
}

/* Rounding does not matter here, only that values differ in size. A value that is too large
 * becomes the largest one, not infinity. */
static uint16_t half_near(double v)
{
        uint16_t sign = signbit(v) ? 0x8000 : 0;
        int e;
        v = fabs(v);
        if (v < 0x1p-14)
                return (uint16_t)(sign | (uint16_t)(v * 0x1p24));
        if (v >= 65504)
                return sign | 0x7bff;
        double m = frexp(v, &e); /* [0.5, 1) x 2^e */
        return (uint16_t)(sign | ((e + 14) << 10) | ((int)(m * 2048) & 0x3ff));
}

static void put_real(int dt, double v, char *p)
{
        float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        uint16_t bf16 = (uint16_t)(bits >> 16), f16 = half_near(v);
        switch (dt) {
        case DT_F16: memcpy(p, &f16, 2); return;
        case DT_BF16: memcpy(p, &bf16, 2); return;
        case DT_F32: memcpy(p, &f, 4); return;
        default: memcpy(p, &v, 8); return;
        }
}

static void put_bits(int dt, uint64_t bits, char *p)
{
        uint8_t u8 = (uint8_t)bits;
        uint16_t u16 = (uint16_t)bits;
        uint32_t u32 = (uint32_t)bits;
        switch (dts[dt].size) {
        case 1: memcpy(p, &u8, 1); return;
        case 2: memcpy(p, &u16, 2); return;
        case 4: memcpy(p, &u32, 4); return;
        default: memcpy(p, &bits, 8); return;
        }
}

/* The interesting bit patterns of a real type: its zeros, ends of its subnormals, one, and its ends. */
static uint64_t special_bits(int dt, uint64_t r, bool finite)
{
        int mantissa = dt == DT_F16 ? 10 : dt == DT_BF16 ? 7 : dt == DT_F32 ? 23 : 52;
        int width = dts[dt].size * 8;
        uint64_t inf = (((uint64_t)1 << (width - 1 - mantissa)) - 1) << mantissa, one = (uint64_t)1 << mantissa;
        uint64_t sign = (r >> 32 & 1) << (width - 1), v;
        switch (r % (finite ? 8 : 12)) {
        case 0: v = 0; break;
        case 1: v = 1; break;
        case 2: v = one - 1; break;
        case 3: v = one; break;
        case 4: v = r % 3 ? inf / 2 & ~(one - 1) : inf - 1; break;
        case 5: v = inf - one; break;
        case 8: v = inf; break;
        case 9: v = r % 64 < 4 ? inf + (one >> 1) : inf; break;
        case 10: v = r % 32 < 4 ? inf + 1 : 0; break; /* a signalling NaN */
        default: v = (r >> 20) % inf; break;
        }
        return v | sign;
}

static void fill_real(int dt, int kind, bool product, uint64_t seed, int64_t count, char *p)
{
        for (int64_t i = 0; i < count; i++, p += dts[dt].size) {
                uint64_t r = hash(seed ^ (uint64_t)i * 0x100000001b3u);
                double v = mixed((uint64_t)i + seed % 1000);
                if (kind == FILL_special || kind == FILL_finite) {
                        put_bits(dt, special_bits(dt, r, kind == FILL_finite), p);
                        continue;
                }
                if (kind == FILL_small)
                        v = r % 9 ? (double)(r % 9) - 4 : r >> 63 ? -0.0 : 0.0;
                else if (kind == FILL_rising)
                        v = (double)(i / 3 + 1) * 0x1p-16;
                else if (product)
                        v = copysign(0.5 + (double)(r >> 11) * 0x1p-53 + (r & 1) * 0.4, v);
                put_real(dt, kind == FILL_positive ? fabs(v) : v, p);
        }
}

void fill(int dt, int kind, bool product, uint64_t seed, int64_t count, void *compact)
{
        char *p = compact;
        if (dts[dt].kind == 'r') {
                fill_real(dt, kind, product, seed, count, p);
                return;
        }
        bool is_signed = dts[dt].kind == 's';
        int bits = dts[dt].size * 8;
        uint64_t all = UINT64_MAX >> (64 - bits), high = (uint64_t)1 << (bits - 1);
        uint64_t ends[] = {0, 1, all, all - 1, high, high - 1, high + 1, 2};
        for (int64_t i = 0; i < count; i++, p += dts[dt].size) {
                uint64_t r = hash(seed ^ (uint64_t)i * 0x100000001b3u);
                if (dts[dt].kind == 'b') /* nonzero is true, whatever the byte; runs of one value,
                        or `and` is soon false */
                        r = kind == FILL_special ? (r % 3 ? r % 7 : 0) : r % (kind == FILL_positive ? 64 : 2) != 0;
                else if (kind == FILL_special || kind == FILL_finite)
                        r = ends[r % 8];
                else if (kind == FILL_small)
                        r = is_signed ? r % 9 - 4 : r % 9;
                else if (kind == FILL_rising)
                        r = (uint64_t)i / 3;
                else if (product)
                        r |= 1; /* a product of even numbers is soon zero */
                put_bits(dt, kind == FILL_positive && is_signed ? r & (high - 1) : r, p);
        }
}
