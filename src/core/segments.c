#include "core/segments.h"

#include "core/step.h"

#include <inttypes.h>

sf_segments sf_segments_of(const sf_view *offsets)
{
        if (!offsets)
                return (sf_segments){.offsets = NULL};
        return (sf_segments){offsets->data, offsets->dt == SF_DT_I64, offsets->strides[0], offsets->shape[0] - 1};
}

/* Bit 63 is set if one of `many` offsets, or their differences to the next, is negative. Offsets that
 * are not negative have no difference that overflows. */
SF_INLINE uint64_t signs(const char *at, int64_t many, int64_t stride, const bool wide)
{
        uint64_t all = 0;
        for (int64_t i = 0; i < many; i++) {
                const uint64_t low = (uint64_t)sf_segments_read(at + i * stride, wide), high = (uint64_t)sf_segments_read(at + (i + 1) * stride, wide);
                all |= low | high | (high - low);
        }
        return all;
}

bool sf_segments_rise(const sf_segments *s, int64_t first, int64_t end)
{
        const char *at = s->offsets + first * s->stride;
        uint64_t all;
        if (s->wide && s->stride == 8)
                all = signs(at, end - first, 8, true);
        else if (!s->wide && s->stride == 4)
                all = signs(at, end - first, 4, false);
        else
                all = signs(at, end - first, s->stride, s->wide);
        return !(all >> 63);
}

sf_status sf_segments_check(const sf_context *ctx, const sf_segments *s, int64_t n, bool rise)
{
        int64_t last = sf_segments_offset(s, 0);
        if (last)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets[0] is %" PRId64 "; the first segment must begin at 0", last);
        for (int64_t i = 1; i <= s->count && !rise; i++) {
                const int64_t next = sf_segments_offset(s, i);
                if (next < last)
                        return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets[%" PRId64 "] is %" PRId64 ", below the %" PRId64 " before it; offsets must never decrease",
                                       i, next, last);
                last = next;
        }
        last = sf_segments_offset(s, s->count);
        if (last > n)
                return sf_fail(ctx, SF_INVALID_ARGUMENT, "offsets end with %" PRId64 ", but the axis has %" PRId64 " elements; they must not pass its end", last, n);
        return SF_OK;
}

/* Does the step have results for elements after the last offset? */
static bool has_rest(const sf_step *s)
{
        return !s->fold && sf_segments_offset(&s->segments, s->segments.count) < s->n;
}

int64_t sf_segments_walked(const sf_step *s)
{
        return s->segments.count + has_rest(s);
}

int64_t sf_segments_begin(const sf_step *s, int64_t k)
{
        const int64_t count = s->segments.count;
        if (!s->reverse)
                return k <= count ? sf_segments_offset(&s->segments, k) : s->n;
        k -= has_rest(s);
        return k < 0 ? 0 : s->n - sf_segments_offset(&s->segments, count - k);
}

int64_t sf_segments_entry(const sf_step *s, int64_t k)
{
        k -= s->reverse && has_rest(s);
        return k < s->segments.count ? k : -1;
}

int64_t sf_segments_from(const sf_step *s, int64_t position)
{
        int64_t low = 0, high = sf_segments_walked(s);
        while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if (sf_segments_begin(s, middle) < position)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static void step_operand(const sf_step *s, sf_operand *x, int64_t begin, int64_t entry)
{
        static const char nothing[16]; /* a zero of any type */
        const int32_t seq = s->nbatch + s->nseq - 1;
        if (x->segment && entry < 0) {
                x->data = nothing;
                for (int32_t d = 0; d <= seq; d++)
                        x->stride[d] = 0;
        } else if (x->data) {
                x->data += begin * x->stride[seq] + entry * x->segment;
        }
        x->segment = 0;
}

void sf_segments_step(const sf_step *s, int64_t k, sf_step *to, sf_fuse *fuse)
{
        const int32_t seq = s->nbatch + s->nseq - 1;
        const int64_t begin = sf_segments_begin(s, k), entry = sf_segments_entry(s, k);
        *to = *s;
        sf_dim *dim = &to->dims[seq];
        to->segments.offsets = NULL;
        to->sibling = to->then = NULL;
        to->n = dim->len = sf_segments_begin(s, k + 1) - begin;
        to->x = s->x ? s->x + begin * dim->x : NULL;
        to->m = s->m ? s->m + begin * dim->m : NULL;
        to->y = s->y + (s->fold ? entry : begin) * dim->y;
        dim->y = s->fold ? 0 : dim->y;
        if (!s->fuse)
                return;
        *fuse = *s->fuse;
        to->fuse = fuse;
        for (int32_t i = 0; i < fuse->operands; i++)
                step_operand(s, &fuse->operand[i], begin, entry);
}
