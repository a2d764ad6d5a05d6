#include "cuda/cuda_warm.h"

#include "core/value.h"

#include <stdio.h>

typedef struct shape {
        const char *name;
        int32_t ndim, axis;
        int64_t lengths[3];
} shape;

/* One of each kind of walk: long rows, columns, one long axis, short rows, a narrow matrix, and a
 * middle axis that is not aligned. */
static const shape shapes[] = {{"rows", 2, 1, {8192, 8192, 0}},         {"columns", 2, 0, {8192, 8192, 0}},
                               {"one long axis", 1, 0, {1 << 28, 0, 0}}, {"few long rows", 2, 1, {8, 1 << 24, 0}},
                               {"short rows", 2, 1, {1 << 22, 64, 0}},   {"tiny rows", 2, 1, {1 << 24, 4, 0}},
                               {"narrow columns", 2, 0, {1 << 20, 8, 0}}, {"a middle axis", 3, 1, {128, 4096, 4095}},
                               {"small rows", 2, 1, {1024, 1024, 0}},    {"small columns", 2, 0, {1024, 1024, 0}}};

typedef struct work {
        const char *name;
        bool fold, reverse, masked;
        sf_op op;
} work;

static const work works[] = {{"cumsum", false, false, false, SF_SUM},
                             {"reverse cumsum", false, true, false, SF_SUM},
                             {"masked cumsum", false, false, true, SF_SUM},
                             {"sum", true, false, false, SF_SUM},
                             {"max", true, false, false, SF_MAX}};

static const sf_dt dtypes[] = {SF_DT_F32, SF_DT_BF16, SF_DT_F16, SF_DT_F64, SF_DT_I32, SF_DT_I64};

#define COUNT(array) ((int32_t)(sizeof array / sizeof *array))

bool sf_cuda_usual_step(int32_t index, sf_step *step, char what[96])
{
        if (index < 0 || index >= COUNT(dtypes) * COUNT(works) * COUNT(shapes))
                return false;
        const shape *s = &shapes[index % COUNT(shapes)];
        const work *w = &works[index / COUNT(shapes) % COUNT(works)];
        sf_dt dt = dtypes[index / COUNT(shapes) / COUNT(works)];
        const sf_dtype_row *row = &sf_dtypes[dt];
        int64_t out_shape[3];
        sf_view x, y, m;

        snprintf(what, 96, "%s of %s, %s", w->name, row->name, s->name);
        sf_tensor tensor = {.data = (void *)(uintptr_t)(1 << 20), .device = {SF_CUDA, 0}, .ndim = s->ndim, .shape = (int64_t *)s->lengths};
        tensor.dtype = (sf_dtype){row->code, row->bits, 1};
        if (sf_view_init(NULL, "x", &tensor, &x) != SF_OK)
                return false;
        tensor.dtype = SF_BOOL;
        if (sf_view_init(NULL, "mask", &tensor, &m) != SF_OK)
                return false;
        tensor.dtype = (sf_dtype){row->code, row->bits, 1};
        for (int32_t d = 0; d < s->ndim; d++)
                out_shape[d] = w->fold && d == s->axis ? 1 : s->lengths[d];
        tensor.shape = out_shape;
        if (sf_view_init(NULL, "out", &tensor, &y) != SF_OK)
                return false;

        *step = (sf_step){.fold = w->fold, .op = w->op, .in = dt, .out = dt, .device = {SF_CUDA, 0}};
        step->acc = dt == SF_DT_F16 || dt == SF_DT_BF16 ? SF_DT_F32 : dt;
        step->identity = sf_identity(w->op, step->acc);
        sf_step_geometry(step, &(sf_step_views){.x = &x, .y = &y, .m = w->masked ? &m : NULL, .axes = (uint64_t)1 << s->axis, .keepdim = w->fold,
                                                 .reverse = w->reverse});
        return true;
}
