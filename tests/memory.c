/* Memory between guard pages, and views of it. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------------
 * Regions
 * ---------------------------------------------------------------------------------------------------------- */
void region_free(region *r)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        if (r->base)
                munmap(r->base - page, r->size + 2 * page);
        *r = (region){NULL, 0};
}

char *region_place(region *r, size_t bytes, int guard, size_t skew)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        if (bytes + skew > r->size || !r->base) {
                region_free(r);
                r->size = (bytes + skew + bytes / 4) / page * page + page;
                char *all = mmap(NULL, r->size + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (all == MAP_FAILED || mprotect(all, page, PROT_NONE) ||
                    mprotect(all + page + r->size, page, PROT_NONE)) {
                        perror("memory between guard pages");
                        exit(1);
                }
                r->base = all + page;
        }
        return guard == GUARD_AFTER ? r->base + r->size - skew - bytes : r->base + skew;
}

/* ------------------------------------------------------------------------------------------------------------
 * Views
 * ---------------------------------------------------------------------------------------------------------- */
const char *const layout_names[LAYOUT_COUNT] = {
#define LAYOUT(name, output) #name,
#include "cases.def"
};
const bool layout_for_output[LAYOUT_COUNT] = {
#define LAYOUT(name, output) output,
#include "cases.def"
};

typedef struct plan {
        int32_t order[SF_MAX_NDIM]; /* axes from the outermost to the innermost */
        int64_t step[SF_MAX_NDIM];  /* 0: repeated */
        int64_t pad;                /* elements after each innermost line */
} plan;

static void make_plan(plan *p, int32_t ndim, int layout, uint64_t seed)
{
        int32_t last = ndim - 1;
        p->pad = layout == LAYOUT_padded ? 3 : 0;
        for (int32_t d = 0; d < ndim; d++) {
                p->order[d] = layout == LAYOUT_transposed ? last - d : layout == LAYOUT_rotated ? (d + last) % ndim : d;
                p->step[d] = layout == LAYOUT_flipped ? -1 : layout == LAYOUT_repeat_all ? 0 : 1;
        }
        if (!ndim)
                return;
        switch (layout) {
        case LAYOUT_step2: p->step[last] = 2; break;
        case LAYOUT_step_minus3: p->step[last] = -3; break;
        case LAYOUT_repeat_first: p->step[0] = 0; break;
        case LAYOUT_repeat_last: p->step[last] = 0; break;
        case LAYOUT_scattered:
                for (int32_t d = last; d >= 0; d--) {
                        uint64_t r = hash(seed + (uint64_t)d);
                        int32_t other = (int32_t)(r % ((uint64_t)d + 1)), was = p->order[d];
                        p->order[d] = p->order[other];
                        p->order[other] = was;
                        p->step[d] = (int64_t)(r >> 20) % 3 + 1;
                        p->step[d] = r >> 63 ? -p->step[d] : p->step[d];
                }
                p->pad = (int64_t)(seed >> 40) % 3;
                break;
        default: break;
        }
}

void view_init(view *v, int dt, int32_t ndim, const int64_t *shape, int layout, uint64_t seed)
{
        plan p;
        memset(v, 0, sizeof *v);
        make_plan(&p, ndim, layout, seed);
        v->dt = dt;
        v->count = 1;
        for (int32_t d = 0; d < ndim; d++) {
                v->shape[d] = shape[d];
                v->count *= shape[d];
        }
        int64_t inner = 1, high = 0;
        for (int32_t i = ndim - 1; i >= 0; i--) {
                int32_t d = p.order[i];
                int64_t magnitude = p.step[d] < 0 ? -p.step[d] : p.step[d];
                v->strides[d] = p.step[d] * inner;
                if (magnitude && shape[d] > 1)
                        inner = inner * magnitude * shape[d] + (i == ndim - 1 ? p.pad : 0);
                if (!v->count)
                        continue;
                if (v->strides[d] < 0)
                        v->low -= v->strides[d] * (shape[d] - 1);
                else
                        high += v->strides[d] * (shape[d] - 1);
                /* The stride of an axis of length 1 is never used, whatever it is. */
                if (layout == LAYOUT_scattered && shape[d] == 1)
                        v->strides[d] = (int64_t)(hash(seed * 7 + (uint64_t)d) >> 1) * (d % 2 ? 1 : -1);
        }
        v->span = v->count ? v->low + high + 1 : 0;
        v->t = (sf_tensor){.device = {SF_CPU, 0}, .ndim = ndim, .dtype = dts[dt].dtype, .shape = ndim ? v->shape : NULL,
                           .strides = layout == LAYOUT_compact || !ndim ? NULL : v->strides};
}

size_t view_bytes(const view *v)
{
        return (size_t)(v->span * dts[v->dt].size);
}

void view_place(view *v, char *lowest, uint64_t byte_offset)
{
        v->t.byte_offset = byte_offset;
        v->t.data = v->count ? (char *)((uintptr_t)lowest + (uintptr_t)(v->low * dts[v->dt].size) - byte_offset) : NULL;
}

void cursor_start(cursor *c, const view *v)
{
        c->v = v;
        c->at = (char *)((uintptr_t)v->t.data + v->t.byte_offset);
        memset(c->index, 0, (size_t)v->t.ndim * sizeof *c->index);
}

void cursor_next(cursor *c)
{
        int size = dts[c->v->dt].size;
        for (int32_t d = c->v->t.ndim - 1; d >= 0; d--) {
                if (c->v->shape[d] == 1)
                        continue;
                c->at += c->v->strides[d] * size;
                if (++c->index[d] < c->v->shape[d])
                        return;
                c->at -= c->v->strides[d] * size * c->v->shape[d];
                c->index[d] = 0;
        }
}

void view_gather(const view *v, void *compact)
{
        cursor c;
        char *p = compact;
        size_t size = (size_t)dts[v->dt].size;
        cursor_start(&c, v);
        for (int64_t i = 0; i < v->count; i++, p += size, cursor_next(&c))
                memcpy(p, c.at, size);
}

void view_scatter(const view *v, const void *compact)
{
        cursor c;
        const char *p = compact;
        size_t size = (size_t)dts[v->dt].size;
        cursor_start(&c, v);
        for (int64_t i = 0; i < v->count; i++, p += size, cursor_next(&c))
                memcpy(c.at, p, size);
}

sf_tensor tensor(void *data, sf_dtype dtype, int32_t ndim, int64_t *shape)
{
        return (sf_tensor){.data = data, .device = {SF_CPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape};
}
