/* Spans: see spans.h. */
#include "ranks/spans.h"

#include "core/order.h"
#include "core/value.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Values: reals are as wide as the accumulator, integers and positions have 8 bytes
 * ---------------------------------------------------------------------------------------------------------- */
static inline bool is_real(const sf_span_kind *k)
{
        return sf_dtypes[k->acc].kind == SF_KIND_REAL;
}

static inline size_t first_bytes(const sf_span_kind *k)
{
        return is_real(k) ? sf_dtypes[k->acc].size : 8;
}

static inline size_t second_bytes(const sf_span_kind *k)
{
        if (sf_op_is(k->op, SF_INDEX))
                return 8;
        return sf_op_is(k->op, SF_PAIR) || (k->op == SF_PROD && is_real(k)) ? first_bytes(k) : 0;
}

int64_t sf_span_value_bytes(const sf_span_kind *k)
{
        return (int64_t)(first_bytes(k) + second_bytes(k));
}

/* A narrower component is in the lowest bytes of its union, because all machines that this runs on
 * are little-endian. */
static inline void put_value(const sf_span_kind *k, char *to, sf_value v)
{
        memcpy(to, &v.u64, first_bytes(k));
        memcpy(to + first_bytes(k), &v.index, second_bytes(k));
}

static inline sf_value get_value(const sf_span_kind *k, const char *from)
{
        sf_value v = {.u64 = 0, .index = 0};
        memcpy(&v.u64, from, first_bytes(k));
        memcpy(&v.index, from + first_bytes(k), second_bytes(k));
        if (k->op == SF_PROD && k->acc == SF_DT_F32)
                v.exponent = (int32_t)(uint32_t)v.index;
        return v;
}

void sf_span_put(const sf_span_kind *k, char *to, sf_value v)
{
        put_value(k, to, v);
}

sf_value sf_span_get(const sf_span_kind *k, const char *from)
{
        return get_value(k, from);
}

/* There may be thousands of lines: the most usual sums are not asked what they are for each. Values
 * that came in a message are at any address. */
static inline void add_reals(char *restrict left, const char *restrict right, int64_t n, const bool wide)
{
        const int64_t each = wide ? 8 : 4;
        for (; n--; left += each, right += each) {
                sf_value l = {.u64 = 0}, r = {.u64 = 0};
                memcpy(&l, left, (size_t)each);
                memcpy(&r, right, (size_t)each);
                if (wide)
                        l.f64 += r.f64;
                else
                        l.f32 += r.f32;
                memcpy(left, &l, (size_t)each);
        }
}

/* Combines the values of two blocks, line by line, into the left one's. */
static void combine_blocks(const sf_span_kind *k, char *left, const char *right)
{
        const size_t each = first_bytes(k) + second_bytes(k);
        if (k->op == SF_SUM && k->acc == SF_DT_F32)
                add_reals(left, right, k->lines, false);
        else if (k->op == SF_SUM && k->acc == SF_DT_F64)
                add_reals(left, right, k->lines, true);
        else
                for (int64_t i = 0; i < k->lines; i++, left += each, right += each)
                        put_value(k, left, sf_combine(k->op, k->acc, get_value(k, left), get_value(k, right)));
}

/* ------------------------------------------------------------------------------------------------------------
 * Blocks
 * ---------------------------------------------------------------------------------------------------------- */
int sf_span_level(int64_t from, int64_t to)
{
        const int fits = sf_order_log2((uint64_t)(to - from));
        const int aligned = from ? __builtin_ctzll((uint64_t)from) : fits;
        return aligned < fits ? aligned : fits;
}

int32_t sf_span_blocks(const sf_span_kind *k, int64_t from, int64_t to)
{
        int32_t count = 0;
        if (sf_op_free(k->op, k->acc))
                return from < to;
        for (; from < to; count++)
                from += (int64_t)1 << sf_span_level(from, to);
        return count;
}

/* ------------------------------------------------------------------------------------------------------------
 * A span that grows
 * ---------------------------------------------------------------------------------------------------------- */
static size_t block_bytes(const sf_pile *p)
{
        return (size_t)(p->kind.lines * sf_span_value_bytes(&p->kind));
}

void sf_pile_start(sf_pile *p, const sf_span_kind *kind, int64_t from)
{
        p->kind = *kind;
        p->from = p->to = from;
        p->count = p->room = 0;
        p->data = NULL;
}

void sf_pile_end(sf_pile *p)
{
        free(p->data);
        p->data = NULL;
}

/* Combines the last two blocks into one. */
static void combine_last(sf_pile *p)
{
        char *left = p->data + (size_t)(p->count - 2) * block_bytes(p);
        combine_blocks(&p->kind, left, left + block_bytes(p));
        p->count--;
        p->level[p->count - 1]++;
}

/* Appends a block that ends at `to`. */
static bool add_block(sf_pile *p, int level, int64_t to, const char *values)
{
        const bool any = sf_op_free(p->kind.op, p->kind.acc);
        if (p->count == p->room) {
                const int32_t room = p->room + 8;
                char *data = realloc(p->data, (size_t)room * block_bytes(p) + 1);
                if (!data)
                        return false;
                p->data = data;
                p->room = room;
        }
        memcpy(p->data + (size_t)p->count * block_bytes(p), values, block_bytes(p));
        p->level[p->count++] = level;
        p->to = to;
        /* Two blocks of one level are the halves of a larger one if the left one begins where a
         * block of the next level begins. */
        while (p->count > 1 && (any || (p->level[p->count - 2] == p->level[p->count - 1] &&
                                        !(p->to & (((int64_t)2 << p->level[p->count - 1]) - 1)))))
                combine_last(p);
        return true;
}

bool sf_pile_add(sf_pile *p, int64_t to, const char *span)
{
        bool added = true;
        if (p->to < to && sf_op_free(p->kind.op, p->kind.acc))
                return add_block(p, 0, to, span);
        while (added && p->to < to) {
                const int level = sf_span_level(p->to, to);
                added = add_block(p, level, p->to + ((int64_t)1 << level), span);
                span += block_bytes(p);
        }
        return added;
}

const char *sf_pile_block(const sf_pile *p, int32_t block)
{
        return p->data + (size_t)block * block_bytes(p);
}

sf_value sf_pile_value(const sf_pile *p, int32_t block, int64_t line)
{
        return sf_span_get(&p->kind, p->data + (size_t)block * block_bytes(p) + (size_t)(line * sf_span_value_bytes(&p->kind)));
}

void sf_pile_fold(sf_pile *p)
{
        for (; p->count > 1; p->count--) {
                char *left = p->data + (size_t)(p->count - 2) * block_bytes(p);
                combine_blocks(&p->kind, left, left + block_bytes(p));
        }
}
