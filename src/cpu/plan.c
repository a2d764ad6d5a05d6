#include "cpu/plan.h"

#include "core/value.h"
#include "cpu/cpus.h"

#include <string.h>

/* Below this many bytes a call stays on the caller's thread: that takes a tenth of a millisecond, and a helper that has just begun when
 * something else takes its CPU can cost several. */
#define SHARE_BYTES (1 << 20)

int sf_cpu_workers(const sf_context *ctx, int64_t bytes)
{
        if (bytes < SHARE_BYTES)
                return 1;
        const int32_t limit = sf_thread_limit(), threads = limit && limit < ctx->threads ? limit : ctx->threads;
        return threads < bytes / SF_CPU_WORKER_BYTES ? threads : (int)(bytes / SF_CPU_WORKER_BYTES);
}

/* Is the stride `unit` elements of storage, or the other way round in reverse, in all tensors that have it? */
static bool steps_by(const sf_cpu_plan *p, const sf_dim *dim, int64_t elements, bool with_y)
{
        return dim->x == elements * p->size && (!with_y || dim->y == elements * p->size) && (!p->step->m || dim->m == elements);
}

static void lanes_make(sf_cpu_plan *p, int64_t groups, int64_t rows)
{
        p->lanes = &p->isa->whole[(p->kernels->lane_bytes == 8) * 2 + p->reverse];
        if (groups == 1 && rows == p->kernels->width && p->inner == 1)
                return;
        p->lanes = &p->own_lanes;
        sf_lanes_make(&p->own_lanes, p->isa->vector_bytes, p->kernels->lane_bytes, p->isa->permute_bytes, (int32_t)groups, (int32_t)rows,
                      (int32_t)p->inner, p->reverse);
}

/* Splits the batch dimensions into the line, the last of the first `count`, and the outer ones. */
static void split_batch(sf_cpu_plan *p, int32_t count, bool with_line)
{
        const sf_step *s = p->step;
        p->line = (sf_dim){1, 0, 0, 0};
        if (with_line && count)
                p->line = s->dims[--count];
        p->nouter = count;
        p->outer = 1;
        for (int32_t d = 0; d < count; d++) {
                p->outer_dims[d] = s->dims[d];
                p->outer *= s->dims[d].len;
        }
}

/* Prefetched ahead of each of several streams, of each where nothing is written, and of a single one. Measured. */
#define AHEAD_OF_MANY 512
#define AHEAD_OF_FOLDS 1024
#define AHEAD_OF_ONE 4096

static bool stream_pays(const sf_cpu_plan *p, int64_t line_bytes, int64_t pitch)
{
        return p->stream && (line_bytes >= SF_CPU_STREAM_LINE || (line_bytes == pitch && pitch % 64 == 0 && !((uintptr_t)p->step->y % 64)));
}

/* Results that are to be streamed: by the kernels, if they can, else by way of scratch where they lie on end. */
static void choose_stream(sf_cpu_plan *p, bool by_kernels, bool on_end)
{
        p->detour = p->stream && !by_kernels && on_end;
        p->stream = p->stream && by_kernels;
}

void sf_cpu_plan_make(sf_cpu_plan *p, const sf_cpu_isa *isa, const sf_step *s)
{
        p->step = s;
        p->isa = isa;
        p->shape = SF_CPU_STAGED; /* fused.c plans that for itself */
        p->kernels = s->in == s->out && s->nseq == 1 ? isa->find(s->in, s->acc, s->op) : NULL;
        if (!p->kernels)
                return;
        p->size = sf_dtypes[s->in].size;
        p->seq = s->dims[s->nbatch];
        p->inner = 1;
        p->detour = false;
        p->stream = !s->fold && !s->in_place && s->n * s->batch * (sf_dtypes[s->in].size + sf_dtypes[s->out].size) >= SF_CPU_STREAM_BYTES;
        p->reverse = p->seq.x < 0;
        p->ahead = s->fold ? AHEAD_OF_FOLDS : AHEAD_OF_MANY;
        const int32_t width = p->kernels->width;

        /* Along the sequence itself. A sequence of one element has no direction: any stride will do. */
        int64_t sign = p->reverse ? -1 : 1;
        if (s->n == 1 || steps_by(p, &p->seq, sign, !s->fold)) {
                split_batch(p, s->nbatch, true);
                bool packs = (s->fold ? 2 : 1) * s->n <= width && p->line.len > 1 && p->line.x == s->n * p->size && (!s->m || p->line.m == s->n) &&
                             p->line.y == (s->fold ? 1 : s->n) * p->size;
                p->shape = packs ? SF_CPU_PACKED : SF_CPU_ROWS;
                lanes_make(p, packs ? width / s->n : 1, packs ? s->n : width);
                /* What is over after a row's last tile is stored, not streamed. */
                const bool tiles = s->n * p->size >= SF_CPU_STREAM_LINE || s->n % (isa->scan_tile * width) == 0;
                choose_stream(p, packs ? p->lanes->unit == width : tiles && stream_pays(p, s->n * p->size, p->line.y), p->line.y == s->n * p->size);
                if (packs || s->n * p->size < AHEAD_OF_ONE)
                        p->ahead = AHEAD_OF_ONE; /* neighbouring lines are one stream */
                else if (p->reverse)
                        p->ahead = -p->ahead;
                return;
        }
        /* Across neighbouring sequences. */
        const sf_dim *across = s->nbatch ? &s->dims[s->nbatch - 1] : NULL;
        if (across && steps_by(p, across, 1, true)) {
                p->inner = across->len;
                bool block = 2 * p->inner <= width && steps_by(p, &p->seq, sign * p->inner, !s->fold);
                if (!block) {
                        p->shape = SF_CPU_COLUMNS;
                        choose_stream(p, stream_pays(p, p->inner * p->size, p->seq.y), p->seq.y == sign * p->inner * p->size);
                        /* So many results would each first be read. */
                        if (s->fold && s->batch * p->size >= SF_CPU_STREAM_BYTES && p->inner * p->size >= SF_CPU_STREAM_LINE)
                                p->stream = true;
                        split_batch(p, s->nbatch - 1, false);
                        return;
                }
                split_batch(p, s->nbatch - 1, true);
                int64_t piece = s->n * p->inner;
                bool packs = piece <= width && p->line.len > 1 && p->line.x == piece * p->size && (!s->m || p->line.m == piece) &&
                             p->line.y == (s->fold ? p->inner : piece) * p->size;
                p->shape = packs ? SF_CPU_PACKED : SF_CPU_ROWS;
                lanes_make(p, packs ? width / piece : 1, packs ? s->n : (int64_t)1 << sf_order_log2((uint64_t)(width / p->inner)));
                choose_stream(p, p->lanes->unit == width, true);
                return;
        }
}

const sf_carry *sf_cpu_carry_make(const sf_cpu_plan *p, sf_carry *carry, char *scratch, int64_t lanes)
{
        const sf_step *s = p->step;
        if (!s->has_initial && !s->exclusive)
                return NULL;
        *carry = (sf_carry){.count = s->has_initial, .entries = scratch, .entry_stride = 0, .fill = scratch + lanes * sf_value_bytes(p->kernels)};
        p->kernels->fill(scratch, lanes, s->initial);
        /* initial + identity, as the last addition: not always the initial value itself (-0.0 + 0.0 is 0.0) */
        sf_value fill = s->has_initial ? sf_combine(s->op, s->acc, s->initial, s->identity) : s->identity;
        p->kernels->fill(carry->fill, lanes, fill);
        return carry;
}
