/*
 * Converts values between the core's form, an sf_value each, and the kernels' form in scratch:
 * lanes of a vector, with the second components behind the first. For steps that are blocks of a
 * longer sequence (step.h), which get values to their left, or whose totals are values.
 */
#include "cpu/panel.h"

#include "core/value.h"

#include <string.h>

static int64_t length_of(const sf_step *s)
{
        return s->before + s->n + s->after;
}

/* Kernels number elements from the beginning of the axis, the core from that of the sequence. */
static int64_t turned(const sf_step *s, int64_t position)
{
        return s->reverse ? length_of(s) - 1 - position : position;
}

/* The position that kernels store for "no element". It is the same where positions are stored
 * complemented, so that the last of equal elements wins. */
static int64_t nowhere(const sf_panel_member *m)
{
        return m->kernels->lane_bytes == 4 ? INT32_MAX : INT64_MAX;
}

static bool is_index(const sf_panel_member *m)
{
        return sf_op_is(m->step->op, SF_INDEX);
}

static uint64_t lane_get(const char *at, int32_t bytes)
{
        uint64_t bits = 0;
        memcpy(&bits, at, (size_t)bytes); /* little-endian, as all instruction sets here are */
        return bits;
}

/* The real number in a lane. */
static double real_of(uint64_t bits, int32_t bytes)
{
        return bytes == 4 ? (double)sf_f32_from_bits((uint32_t)bits) : sf_f64_from_bits(bits);
}

static sf_value value_of(const sf_panel_member *m, uint64_t first, uint64_t second)
{
        const sf_step *s = m->step;
        const int32_t bytes = m->kernels->lane_bytes;
        const bool real = sf_dtypes[s->acc].kind == SF_KIND_REAL;
        const uint64_t lane = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
        first = (first ^ m->kernels->turn) & lane;
        sf_value v = real ? sf_value_from_f64(real_of(first, bytes), s->acc) : (sf_value){.u64 = sf_wrap(s->acc, first)};
        if (m->kernels->parts == 1)
                return v;
        const int64_t whole = bytes == 4 ? (int32_t)(uint32_t)second : (int64_t)second;
        if (is_index(m)) {
                const int64_t at = m->identity.index < 0 ? ~whole : whole;
                v.index = whole == nowhere(m) ? sf_no_index(s->op) : turned(s, at);
        } else if (s->op == SF_PROD) {
                v.exponent = whole;
                v = sf_product_value(s->acc, v);
        } else if (s->acc == SF_DT_F32) {
                v.also32 = (float)real_of(second, bytes);
        } else {
                v.also64 = real_of(second, bytes);
        }
        return v;
}

/* A vector with this value in every lane. */
static void spread(const sf_panel_member *m, sf_value v, char *to)
{
        const sf_step *s = m->step;
        const int32_t bytes = m->kernels->lane_bytes, width = m->kernels->width;
        const int64_t index = v.index;
        /* indices that need 64 bits have elements of 64 bits */
        if (s->acc == SF_DT_F32 && bytes == 8)
                v = (sf_value){.f64 = (double)v.f32};
        m->kernels->fill(to, width, v);
        if (!is_index(m) || index == sf_no_index(s->op))
                return;
        const int64_t number = m->identity.index < 0 ? ~turned(s, index) : turned(s, index);
        for (int32_t i = 0; i < width; i++)
                memcpy(to + (width + i) * bytes, &number, (size_t)bytes);
}

/* The offset of component 0 or 1 of column c in an array of values. */
static int64_t lane_at(const sf_cpu_kernels *k, int64_t c, int32_t component)
{
        return (c / k->width * k->width * k->parts + component * k->width + c % k->width) * k->lane_bytes;
}

void sf_panel_left(const sf_panels *p, const sf_piece *piece, int32_t member, int64_t line, int32_t entry, char *to)
{
        const sf_panel_member *m = &p->member[member];
        const sf_cpu_kernels *k = m->kernels;
        const char *from = piece->of[member].left + line * piece->of[member].left_line + entry * m->step->left_entry;
        const int64_t cols = p->col < 0 ? 1 : piece->cols, step = p->col < 0 ? 0 : m->step->dims[p->col].left;
        /* narrow: interleaved columns */
        const int64_t lanes = p->shape == SF_PANEL_COLUMNS ? cols : k->width;
        _Alignas(64) char vector[2 * SF_LANES_BYTES];
        sf_value v;
        if (cols == 1) {
                memcpy(&v, from, sizeof v);
                spread(m, v, vector);
                for (int64_t at = 0; at < sf_panel_total_bytes(p, m); at += k->width * sf_value_bytes(k))
                        memcpy(to + at, vector, (size_t)(k->width * sf_value_bytes(k)));
                return;
        }
        for (int64_t i = 0; i < lanes; i++) {
                memcpy(&v, from + i % cols * step, sizeof v);
                spread(m, v, vector);
                for (int32_t part = 0; part < k->parts; part++)
                        memcpy(to + lane_at(k, i, part), vector + part * k->width * k->lane_bytes, (size_t)k->lane_bytes);
        }
}

void sf_panel_put_values(const sf_panels *p, const sf_piece *piece, int32_t member, int64_t line, const char *totals)
{
        const sf_panel_member *m = &p->member[member];
        const sf_cpu_kernels *k = m->kernels;
        char *to = piece->of[member].y + line * piece->of[member].y_line;
        const int64_t cols = p->col < 0 ? 1 : piece->cols, step = p->col < 0 ? 0 : m->step->dims[p->col].y;
        for (int64_t c = 0; c < cols; c++) {
                const sf_value v = value_of(m, lane_get(totals + lane_at(k, c, 0), k->lane_bytes),
                                            k->parts > 1 ? lane_get(totals + lane_at(k, c, 1), k->lane_bytes) : 0);
                memcpy(to + c * step, &v, sizeof v);
        }
}
