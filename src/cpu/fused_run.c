/* Runs the loops of a program over a box of elements: see fused.h. */
#include "cpu/fused.h"
#include "cpu/kernels.h"

#include <string.h>

/* Rows of at least this many elements are tiles by themselves; shorter rows are combined into a
 * block. So are rows of less than half a block if no source must be moved for it. */
#define LONG_ROW 128
/* If some memory is contiguous across the rows, this many rows are taken at once: a full cache line
 * of 4-byte elements. */
#define CROSSED_ROWS 16

/* A quarter of a page and a cache line more than the widest values need. On most CPUs a load has to
 * wait if the last 12 bits of its address equal those of a recent store. So blocks that are used
 * together must not be at nearly the same offset in a page. */
#define BLOCK_BYTES (SF_FUSED_BLOCK * (int64_t)sizeof(sf_value) + 1024 + 64)

size_t sf_fused_machine_bytes(int32_t slots)
{
        return (size_t)((slots + 1 + SF_FUSED_SOURCES) * BLOCK_BYTES);
}

void sf_fused_machine_make(sf_fused_machine *m, const sf_cpu_map *map, char *memory, int32_t slots)
{
        m->map = map;
        for (int32_t i = 0; i < slots; i++, memory += BLOCK_BYTES)
                m->value[i] = memory;
        m->value[SF_FUSED_LAST] = memory;
        memory += BLOCK_BYTES;
        for (int32_t k = 0; k < SF_FUSED_SOURCES; k++, memory += BLOCK_BYTES) {
                m->buffer[k] = memory;
                m->kept[k].at = NULL;
        }
}

size_t sf_fused_constants_bytes(const sf_fused_code *code)
{
        return (size_t)(code->program->constants * BLOCK_BYTES);
}

void sf_fused_constants_fill(const sf_cpu_map *map, const sf_fused_code *code, char *to)
{
        const sf_program *p = code->program;
        for (int32_t i = 0; i < p->count; i++)
                if (p->code[i].code == SF_CODE_CONSTANT)
                        map->fill(to + p->code[i].slot * BLOCK_BYTES, sf_class_of((sf_dt)p->code[i].dt),
                                  p->constant[p->code[i].slot], SF_FUSED_BLOCK);
}

/* ------------------------------------------------------------------------------------------------
 * Running
 * ---------------------------------------------------------------------------------------------- */
static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}

void sf_fused_move(sf_move *move, const char *src, int64_t from_row, int64_t from_col, char *dst, int64_t to_row, int64_t to_col, int64_t rows,
                   int64_t cols)
{
        if (rows == 1 || (from_row == cols * from_col && to_row == cols * to_col)) {
                move(src, from_col, dst, to_col, rows * cols);
                return;
        }
        /* Along the dimension with smaller strides, unless its runs would be very short. */
        bool across = magnitude(from_row) + magnitude(to_row) < magnitude(from_col) + magnitude(to_col);
        if ((across || cols < 8) && rows >= 8)
                for (int64_t c = 0; c < cols; c++)
                        move(src + c * from_col, from_row, dst + c * to_col, to_row, rows);
        else
                for (int64_t r = 0; r < rows; r++)
                        move(src + r * from_row, from_col, dst + r * to_row, to_col, cols);
}

/* Fills rows x cols values from a source that repeats along the columns, the rows or both. */
static void repeat(const sf_fused_machine *m, const sf_fused_code *c, int32_t k, const struct sf_fused_side *side, char *to, int64_t rows,
                   int64_t cols)
{
        const int64_t size = sf_class_size(c->source_class[k]);
        for (int64_t r = 0; r < (side->row ? rows : 1); r++) {
                const char *at = side->at + r * side->row;
                if (side->col) {
                        c->in[k](at, side->col, to + r * cols * size, size, cols);
                        continue;
                }
                /* its bits as an integer's: every instruction set here is little-endian */
                sf_value one = {.u64 = 0};
                c->in[k](at, 0, (char *)&one, size, 1);
                m->map->fill(to + r * cols * size, size == 4 ? SF_CLASS_U32 : SF_CLASS_U64, one, cols);
        }
        for (int64_t have = 1; !side->row && have < rows; have *= 2)
                memcpy(to + have * cols * size, to, (size_t)((rows - have < have ? rows - have : have) * cols * size));
}

/* Source k, rows x cols of it, as a block of its class; in place if memory has that form. */
static void *fetch(sf_fused_machine *m, const sf_fused_code *c, int32_t k, const struct sf_fused_side *side, int64_t rows, int64_t cols)
{
        const int64_t size = sf_class_size(c->source_class[k]);
        const bool flat = rows == 1 || side->row == cols * side->col;
        if (flat && c->as_is[k] && side->col == size)
                return (void *)(uintptr_t)side->at;
        char *to = m->buffer[k];
        /* A source that repeats may stay the same for a long time. The result's memory changes. */
        bool repeats = (!side->col || (rows > 1 && !side->row)) && k != SF_FUSED_RESULT;
        if (repeats && m->kept[k].at == side->at && m->kept[k].rows == rows && m->kept[k].cols == cols && m->kept[k].row == side->row &&
            m->kept[k].col == side->col && m->kept[k].dt == c->source_dt[k] && m->kept[k].class == c->source_class[k])
                return to;
        m->kept[k].at = NULL;
        if (!repeats) {
                sf_fused_move(c->in[k], side->at, side->row, side->col, to, cols * size, size, rows, cols);
                return to;
        }
        repeat(m, c, k, side, to, rows, cols);
        m->kept[k].at = side->at;
        m->kept[k].rows = rows;
        m->kept[k].cols = cols;
        m->kept[k].row = side->row;
        m->kept[k].col = side->col;
        m->kept[k].dt = c->source_dt[k];
        m->kept[k].class = c->source_class[k];
        return to;
}

/* Runs the loops on `count` values, and prefetches what is used soon, unless that is NULL. */
static void run_loops(sf_fused_machine *m, const sf_fused_code *code, int64_t count,
                      const char *soon, int64_t step)
{
        for (int32_t i = 0; i < code->ops; i++) {
                const sf_fused_op *op = &code->op[i];
                void *y = m->value[op->y];
                const void *a = m->value[op->a], *b = m->value[op->b], *c = m->value[op->c];
                if (soon && i == code->busy_at)
                        code->busy(y, a, b, c, count, soon, step);
                else
                        op->loop(y, a, b, c, count);
        }
}

/* Runs the loops on at most a block's worth, from row `r` and column `j` on. */
static void run_tile(sf_fused_machine *m, const sf_fused_code *c, const sf_fused_box *box, const struct sf_fused_side *soon, int64_t r, int64_t rows, int64_t j,
                     int64_t cols)
{
        for (uint32_t bits = c->reads; bits; bits &= bits - 1) {
                int32_t k = __builtin_ctz(bits);
                struct sf_fused_side side = box->in[k];
                side.at += r * side.row + j * side.col;
                m->value[SF_FUSED_OPERAND + k] = fetch(m, c, k, &side, rows, cols);
        }
        char *y = box->y + r * box->y_row + j * box->y_col;
        bool direct = c->direct && box->y_col == c->out_size && (rows == 1 || box->y_row == cols * c->out_size);
        bool streamed = direct && box->stream && rows * cols * c->out_size >= SF_CPU_STREAM_LINE;
        void *own = m->value[SF_FUSED_LAST];
        if (direct && !streamed)
                m->value[SF_FUSED_LAST] = y;
        const bool fetches = c->busy && soon->at && (rows == 1 || soon->row == cols * soon->col);
        const char *from = fetches ? soon->at + r * soon->row + j * soon->col : NULL;
        run_loops(m, c, rows * cols, from, soon->col);
        m->value[SF_FUSED_LAST] = own;
        const int64_t size = sf_class_size(c->last_class);
        if (streamed)
                m->map->stream(y, own, rows * cols * c->out_size, own);
        else if (!direct)
                sf_fused_move(c->out, m->value[c->last], cols * size, size, y, box->y_row, box->y_col, rows, cols);
}

/* Is the box one contiguous run in all the memory it touches? */
static bool is_flat(const sf_fused_code *c, const sf_fused_box *box)
{
        bool flat = box->y_row == box->cols * box->y_col;
        for (uint32_t bits = c->reads; flat && bits; bits &= bits - 1) {
                const struct sf_fused_side *side = &box->in[__builtin_ctz(bits)];
                flat = side->row == box->cols * side->col;
        }
        return flat;
}

/* Are rows back to back, except in sources that repeat along them or from row to row? */
static bool is_packed(const sf_fused_code *c, const sf_fused_box *box)
{
        bool packed = box->y_row == box->cols * box->y_col;
        for (uint32_t bits = c->reads; packed && bits; bits &= bits - 1) {
                const struct sf_fused_side *side = &box->in[__builtin_ctz(bits)];
                packed = !side->row || !side->col || side->row == box->cols * side->col;
        }
        return packed;
}

/* Is some memory contiguous across the rows rather than along them? */
static bool is_crossed(const sf_fused_code *c, const sf_fused_box *box)
{
        bool crossed = box->y_row && magnitude(box->y_row) < magnitude(box->y_col);
        for (uint32_t bits = c->reads; !crossed && bits; bits &= bits - 1) {
                const struct sf_fused_side *side = &box->in[__builtin_ctz(bits)];
                crossed = side->row && magnitude(side->row) < magnitude(side->col);
        }
        return crossed;
}

/* Shorter rows are combined into blocks. */
#define AFFINE_ROW 64

/* Is the code an sf_affine here: is it one of rows, each with a centre and a scale of its own? */
static bool is_affine(const sf_fused_code *c, const sf_fused_box *box)
{
        const int64_t size = c->out_size;
        if (c->scale < 0 || box->cols < AFFINE_ROW || box->y_col != size || box->in[c->x].col != size || box->in[c->scale].col)
                return false;
        const bool given = c->given < 0 || (box->in[c->given].col == size && (c->shift < 0 || !box->in[c->shift].col) &&
                                            (c->slope < 0 || !box->in[c->slope].col));
        return given && (c->centre < 0 || !box->in[c->centre].col) && (c->weight < 0 || box->in[c->weight].col == size) &&
               (c->bias < 0 || box->in[c->bias].col == size);
}

static const char *row_of(const sf_fused_box *box, int32_t k, int64_t r, int64_t on)
{
        return k < 0 ? NULL : box->in[k].at + r * box->in[k].row + on;
}

static void run_affine(sf_fused_machine *m, const sf_fused_code *c, const sf_fused_box *box)
{
        const int64_t block = box->stream ? SF_FUSED_BLOCK : box->cols;
        const bool fetches = box->soon.at && box->soon.row == box->in[c->x].row;
        /* the other one of the two that are read */
        const int32_t other = c->given >= 0 && box->soon.at && box->next && box->in[c->given].row == box->soon.row
                                      ? (box->soon.at == (const char *)((uintptr_t)box->in[c->x].at + (uintptr_t)box->next) ? c->given : c->x) : -1;
        const int64_t soon = fetches ? (int64_t)((uintptr_t)box->soon.at - (uintptr_t)box->in[c->x].at) : 0;
        for (int64_t r = 0; r < box->rows; r++)
                for (int64_t j = 0; j < box->cols; j += block) {
                        const int64_t count = box->cols - j < block ? box->cols - j : block, on = j * c->out_size;
                        const sf_affine f = {row_of(box, c->x, r, on), row_of(box, c->centre, r, 0), row_of(box, c->scale, r, 0),
                                             row_of(box, c->weight, r, on), row_of(box, c->bias, r, on), c->then, soon,
                                             row_of(box, c->given, r, on), row_of(box, c->shift, r, 0), row_of(box, c->slope, r, 0),
                                             row_of(box, other, r, on + box->next)};
                        char *y = box->y + r * box->y_row + on, *own = m->value[SF_FUSED_LAST];
                        const bool streamed = box->stream && count * c->out_size >= SF_CPU_STREAM_LINE;
                        (c->given < 0 ? m->map->affine : m->map->gradient)[c->out_size == 8](&f, streamed ? own : y, count);
                        if (streamed)
                                m->map->stream(y, own, count * c->out_size, own);
                }
}

void sf_fused_eval(sf_fused_machine *m, const sf_fused_code *c, char *constants, const sf_fused_box *box)
{
        struct sf_fused_side soon = box->soon;
        int64_t all = box->rows, width = box->cols;
        if (c->copy) {
                const struct sf_fused_side *side = &box->in[c->copied];
                sf_fused_move(c->copy, side->at, side->row, side->col, box->y, box->y_row, box->y_col, all, width);
                return;
        }
        if (is_affine(c, box)) {
                run_affine(m, c, box);
                return;
        }
        if (all > 1 && is_flat(c, box)) {
                soon.at = soon.row == width * soon.col ? soon.at : NULL;
                width *= all;
                all = 1;
        }
        int64_t rows = 1, cols = SF_FUSED_BLOCK;
        if (all > 1 && is_crossed(c, box)) {
                rows = all < CROSSED_ROWS ? all : CROSSED_ROWS;
                cols = SF_FUSED_BLOCK / rows;
        } else if (all > 1 && (width < LONG_ROW || (2 * width < SF_FUSED_BLOCK && is_packed(c, box)))) {
                cols = width;
                rows = SF_FUSED_BLOCK / cols;
        }
        for (int32_t k = 0; k < c->program->constants; k++)
                m->value[SF_FUSED_CONSTANT + k] = constants + k * BLOCK_BYTES;
        for (int64_t r = 0; r < all; r += rows)
                for (int64_t j = 0; j < width; j += cols)
                        run_tile(m, c, box, &soon, r, all - r < rows ? all - r : rows, j, width - j < cols ? width - j : cols);
}
