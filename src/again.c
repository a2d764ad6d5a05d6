/* Results that are not finite, computed again on the host: finds the lines, and runs their
 * steps. */
#include "core/again.h"

#include "backend.h"
#include "core/arena.h"
#include "core/value.h"

#include <string.h>

/* Bytes of scratch for intermediate results at a time, unless a single line needs more. */
#define AT_ONCE (1 << 20)

static bool is_finite(sf_dt dt, const char *p)
{
        uint64_t u64;
        uint32_t u32;
        uint16_t u16;
        switch (dt) {
        case SF_DT_F64: memcpy(&u64, p, 8); return ~u64 & 0x7ff0000000000000u;
        case SF_DT_F32: memcpy(&u32, p, 4); return ~u32 & 0x7f800000u;
        case SF_DT_BF16: memcpy(&u16, p, 2); return ~u16 & 0x7f80u;
        default: memcpy(&u16, p, 2); return ~u16 & 0x7c00u; /* f16 */
        }
}

/* The lines along the last dimension, at one position of all other dimensions: `at` is that
 * position, `count` their number. */
typedef struct stretch {
        const sf_again *a;
        int64_t at[SF_AGAIN_DIMS];
        int64_t count, stride; /* of the last dimension */
} stretch;

static char *first_of(const stretch *s)
{
        char *y = s->a->results;
        for (int32_t d = 0; d + 1 < s->a->dims; d++)
                y += s->at[d] * s->a->line[d].y;
        return y;
}

static stretch start(const sf_again *a)
{
        const sf_dim *last = a->dims ? &a->line[a->dims - 1] : NULL;
        return (stretch){.a = a, .count = last ? last->len : 1, .stride = last ? last->y : 0};
}

/* False if there is no next one. */
static bool next(stretch *s)
{
        for (int32_t d = s->a->dims - 2; d >= 0; d--) {
                if (++s->at[d] < s->a->line[d].len)
                        return true;
                s->at[d] = 0;
        }
        return false;
}

/* ------------------------------------------------------------------------------------------------
 * Are all results finite?
 * ---------------------------------------------------------------------------------------------- */

/* For many results: one fold, which all threads share. The sum of r - r over all results is 0, or
 * NaN if one of them is not finite. */
static sf_status sum_of_differences(sf_context *ctx, const sf_again *a, double *sum)
{
        const sf_dt acc = a->dt == SF_DT_F64 ? SF_DT_F64 : SF_DT_F32;
        sf_step s = {.fold = true, .op = SF_SUM, .in = a->dt, .acc = acc, .out = SF_DT_F64,
                     .device = a->device, .x = a->results,
                     .y = (char *)sum, .n = a->lines, .batch = 1};
        sf_fuse f;
        sf_step_plain_fuse(&s, &f);
        for (int32_t d = 0; d < a->dims; d++) {
                sf_dim *before = s.nseq ? &s.dims[s.nseq - 1] : NULL;
                const sf_dim mine = {.len = a->line[d].len, .x = a->line[d].y};
                if (before && before->x == mine.len * mine.x)
                        *before = (sf_dim){.len = before->len * mine.len, .x = mine.x};
                else
                        s.dims[s.nseq++] = mine;
        }
        for (int32_t d = 0; d < s.nseq; d++)
                f.operand[0].stride[d] = s.dims[d].x;
        f.load.count = 2;
        f.load.code[0] = (sf_instruction){.code = SF_CODE_LOAD, .dt = (uint8_t)a->dt};
        f.load.code[1] = (sf_instruction){.code = SF_CODE_SUB, .dt = (uint8_t)a->dt};
        s.fuse = &f;
        return sf_backend_run(ctx, &s, NULL, 0);
}

bool sf_again_all_finite(sf_context *ctx, const sf_again *a)
{
        enum { FEW = 4096 };
        double sum;
        if (a->lines > FEW)
                return sum_of_differences(ctx, a, &sum) == SF_OK && sum == 0;
        stretch s = start(a);
        do {
                const char *y = first_of(&s);
                for (int64_t i = 0; i < s.count; i++, y += s.stride)
                        if (!is_finite(a->dt, y))
                                return false;
        } while (next(&s));
        return true;
}

/* ------------------------------------------------------------------------------------------------
 * Computing those that are not
 * ---------------------------------------------------------------------------------------------- */

/* Runs step k for `count` adjacent lines at once; `first` is the number of the first one in the
 * stretch. The lines become one more dimension of the step, the outermost. */
static sf_status run_step(sf_context *ctx, const stretch *s, int32_t k, int64_t first,
                          int64_t count, char *made)
{
        const sf_again *a = s->a;
        const sf_again_step *from = &a->step[k];
        const int32_t last = a->dims - 1;
        const bool result = k == a->steps - 1;
        sf_step step = from->step;
        sf_fuse fuse = from->fuse;
        sf_dim along = {.len = count, .y = result ? s->stride : a->size};
        int64_t by[SF_OPERANDS_MAX] = {0};
        if (count > 1) {
                memmove(step.dims + 1, step.dims,
                        (size_t)(step.nbatch + step.nseq) * sizeof *step.dims);
                step.nbatch++;
                step.batch *= count;
        }
        for (int32_t o = 0; o < fuse.operands; o++) {
                sf_operand *p = &fuse.operand[o];
                by[o] = (last >= 0 ? from->move[last][o] : 0) + (from->made[o] >= 0 ? a->size : 0);
                if (p->data && from->made[o] >= 0)
                        p->data = made + (p->data - a->made);
                /* The scratch begins with the first of these lines, so `first` times a->size is not
                 * added. */
                if (p->data && last >= 0)
                        p->data += first * from->move[last][o];
                for (int32_t d = 0; p->data && d < last; d++)
                        p->data += s->at[d] * from->move[d][o];
                if (count > 1) {
                        memmove(p->stride + 1, p->stride,
                                (size_t)(step.nbatch + step.nseq - 1) * sizeof *p->stride);
                        p->stride[0] = by[o];
                }
        }
        along.x = by[0];
        if (count > 1)
                step.dims[0] = along;
        step.x = fuse.operand[0].data;
        step.y = result ? first_of(s) + first * s->stride : made + (step.y - a->made);
        step.fuse = from->plain ? NULL : &fuse;
        return sf_backend_run(ctx, &step, NULL, 0);
}

sf_status sf_again_run(sf_context *ctx, const sf_again *a)
{
        int64_t most = a->size && a->size < AT_ONCE ? AT_ONCE / a->size : a->size ? 1 : a->lines;
        stretch s = start(a);
        sf_arena *arena = NULL;
        sf_status status = SF_OK;
        most = most < s.count ? most : s.count;
        do {
                const char *y = first_of(&s);
                for (int64_t i = 0, count = 1; i < s.count && status == SF_OK; i += count) {
                        count = 1;
                        if (is_finite(a->dt, y + i * s.stride))
                                continue;
                        while (count < most && i + count < s.count &&
                               !is_finite(a->dt, y + (i + count) * s.stride))
                                count++;
                        if (a->size && !arena &&
                            !(arena = sf_arena_borrow(ctx, (size_t)(a->size * most))))
                                return sf_fail(ctx, SF_OUT_OF_MEMORY,
                                               "no memory for %zu bytes of scratch",
                                               (size_t)(a->size * most));
                        for (int32_t k = 0; k < a->steps && status == SF_OK; k++)
                                status = run_step(ctx, &s, k, i, count, arena ? arena->base : NULL);
                }
        } while (status == SF_OK && next(&s));
        if (arena)
                sf_arena_return(ctx, arena);
        return status;
}
