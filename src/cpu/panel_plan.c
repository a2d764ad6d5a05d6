/* How steps are walked in panels (panel.h): which belong together, which shape they have, how many lines and columns at a time. */
#include "cpu/panel.h"

/* Elements in a panel: with what the load and the store touch, about a first-level cache. */
#define PANEL 4096
/* Columns in a strip: long runs of memory count for more than a panel in the first-level cache. What their counters may take; and how
 * few a strip may have so that there is one for every thread. */
#define MOST_COLUMNS 4096
#define COUNTER_BYTES (256 << 10)
#define LEAST_COLUMNS 512
/* Lines of columns that walk together where they share an operand. */
#define TOGETHER 8
/* Rows that are folded as they lie fill no panel: a piece has about so many elements, and no more lines than their totals fit into a cache. */
#define DIRECT_ELEMENTS (64 << 10)
#define DIRECT_LINES 2048
/* Fewer columns than this are gathered into rows, or walked interleaved. */
#define FEW_COLUMNS 16

static int64_t smaller(int64_t a, int64_t b)
{
        return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
        return a > b ? a : b;
}
static int64_t magnitude(int64_t v)
{
        return v < 0 ? -v : v;
}
static int64_t parts(int64_t count, int64_t each)
{
        return (count + each - 1) / each;
}
static int64_t power_below(int64_t v)
{
        return (int64_t)1 << sf_order_log2((uint64_t)(v < 1 ? 1 : v));
}

/* ------------------------------------------------------------------------------------------------------------
 * Members
 * ---------------------------------------------------------------------------------------------------------- */

/* Does every value of a type survive the accumulator? */
static bool survives(sf_dt dt, sf_dt acc)
{
        sf_kind kind = sf_dtypes[dt].kind, held = sf_dtypes[acc].kind;
        if (dt == acc)
                return true;
        if (held == SF_KIND_REAL)
                return kind == SF_KIND_REAL && dt != SF_DT_F64;
        if (kind == SF_KIND_REAL || (kind == SF_KIND_SIGNED && held == SF_KIND_UNSIGNED))
                return false;
        return sf_dtypes[dt].bits < sf_dtypes[acc].bits || kind == SF_KIND_BOOL;
}

static bool member_make(sf_panels *p, sf_panel_member *m, const sf_step *s, const sf_fuse *f)
{
        const sf_cpu_map *map = p->isa->map;
        m->step = s;
        m->fuse = f;
        m->held = sf_class_dt(sf_class_of(s->acc));
        m->size = sf_dtypes[m->held].size;
        m->kernels = p->isa->find(m->held, m->held, s->op);
        if (!m->kernels)
                return false;
        sf_dt last = f->load.count ? (sf_dt)f->load.code[f->load.count - 1].dt : f->operand[0].dt;
        m->through = p->shape == SF_PANEL_MAP && !f->store.count && survives(last, s->acc);
        sf_fused_compile(map, f, false, s->acc, m->held, m->through ? s->out : s->acc, m->through ? s->out : m->held, &m->load);
        sf_fused_compile(map, f, true, s->acc, m->held, s->out, s->out, &m->store);
        p->slots = (int32_t)larger(p->slots, larger(m->load.slots, m->store.slots));
        p->widest = larger(p->widest, m->size);
        p->parts = larger(p->parts, m->kernels->parts);
        return true;
}

/* A sequence of one element, and nothing around it, is its element. */
static bool is_map(const sf_step *s)
{
        return s->n == 1 && !s->m && !s->exclusive && !s->has_initial;
}

void sf_panels_start(sf_panels *p, const sf_cpu_isa *isa, const sf_step *s)
{
        p->isa = isa;
        p->members = 0;
        p->slots = 0;
        p->widest = 0;
        p->parts = 1;
        p->n = s->n;
        p->nbatch = s->nbatch;
        p->nseq = s->nseq;
        p->seq = s->nbatch + s->nseq - 1;
        p->shape = is_map(s) ? SF_PANEL_MAP : SF_PANEL_ROWS;
}

bool sf_panels_take(sf_panels *p, const sf_step *s, bool *has_kernel)
{
        const sf_step *first = p->members ? p->member[0].step : s;
        const sf_fuse *f = s->fuse;
        if (p->members == SF_PANEL_MEMBERS)
                return false;
        if (!f) {
                sf_step_plain_fuse(s, &p->plain[p->members]);
                f = &p->plain[p->members];
        }
        if (p->members && (!sf_step_same_walk(first, s, p->member[0].fuse, f) || is_map(first) != is_map(s)))
                return false;
        *has_kernel = member_make(p, &p->member[p->members], s, f);
        p->members += *has_kernel;
        return *has_kernel;
}

/* ------------------------------------------------------------------------------------------------------------
 * Shapes
 * ---------------------------------------------------------------------------------------------------------- */

/* What walking along dimension d costs: nothing for memory that stands still, little for neighbours, much for jumps. */
static int64_t cost_along(const sf_panels *p, int32_t d)
{
        int64_t cost = 0;
        for (int32_t i = 0; i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                const sf_fuse *f = p->member[i].fuse;
                for (int32_t k = 0; k < f->operands && !i; k++) {
                        int64_t stride = f->operand[k].stride[d], size = sf_dtypes[f->operand[k].dt].size;
                        cost += !stride ? 0 : stride == size || stride == -size ? 2 : 16;
                }
                if (!s->fold)
                        cost += magnitude(s->dims[d].y) == sf_dtypes[s->out].size ? 2 : 16;
        }
        return cost;
}

/* Does all the memory that moves along the sequence go down? */
static bool goes_down(const sf_panels *p)
{
        bool down = false, up = p->nseq > 1;
        for (int32_t i = 0; i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                const sf_fuse *f = p->member[i].fuse;
                for (int32_t k = 0; k < f->operands; k++) {
                        down = down || f->operand[k].stride[p->seq] < 0;
                        up = up || f->operand[k].stride[p->seq] > 0;
                }
                up = up || s->dims[p->seq].y > 0;
        }
        return down && !up;
}

/* Do the positions of dimension `d` and the columns of `col` inside it lie on end everywhere? */
static bool on_end(const sf_panels *p, int32_t d, int32_t col)
{
        bool same = true;
        for (int32_t i = 0; same && i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                const sf_fuse *f = p->member[i].fuse;
                same = s->fold || magnitude(s->dims[d].y) == s->dims[col].len * s->dims[col].y;
                for (int32_t k = 0; same && k < f->operands; k++)
                        same = magnitude(f->operand[k].stride[d]) == s->dims[col].len * f->operand[k].stride[col];
        }
        return same;
}

/* May a fold take narrow integers as they lie, side by side along a dimension? */
static const sf_direct_fold *direct_along(const sf_panels *p, const sf_panel_member *m, int32_t d)
{
        const sf_step *s = m->step;
        const sf_operand *x = &m->fuse->operand[0];
        const int64_t stride = d == p->seq ? magnitude(x->stride[d]) : x->stride[d];
        if (m->fuse->load.count || s->m || (s->fold && s->has_initial) || p->nseq > 1 || stride != sf_dtypes[x->dt].size)
                return NULL;
        if (s->op != SF_SUM && !survives(x->dt, s->acc))
                return NULL; /* the largest may be another one once all are wrapped */
        return p->isa->map->direct(x->dt, sf_class_of(m->held), s->op);
}

/* Do all steps fold so, and fill no panel? */
static bool all_direct_along(const sf_panels *p, int32_t d)
{
        bool all = p->shape != SF_PANEL_MAP;
        for (int32_t i = 0; all && i < p->members; i++)
                all = p->member[i].step->fold && direct_along(p, &p->member[i], d);
        return all;
}

static void choose_shape(sf_panels *p, const sf_step *s)
{
        const int32_t last = s->nbatch - 1;
        const int64_t width = p->isa->vector_bytes / p->widest;
        const sf_dim *dims = s->dims;
        p->line = p->col = -1;
        p->reverse = false;
        if (p->shape == SF_PANEL_MAP) {
                p->col = last;
                p->line = last - 1 < 0 ? -1 : last - 1;
                return;
        }
        p->shape = SF_PANEL_ROWS;
        if (last >= 0 && cost_along(p, last) < cost_along(p, p->seq)) {
                int64_t cols = dims[last].len;
                if (p->n * cols >= PANEL / 8 && all_direct_along(p, last) && on_end(p, p->seq, last))
                        p->shape = SF_PANEL_COLUMNS; /* however few there are */
                else if (2 * cols <= width && p->nseq == 1 && p->n * cols >= PANEL / 16 && on_end(p, p->seq, last))
                        p->shape = SF_PANEL_NARROW;
                else if (cols >= FEW_COLUMNS && (cols >= 8 * FEW_COLUMNS || p->n * cols >= PANEL / 8))
                        p->shape = SF_PANEL_COLUMNS;
        }
        p->reverse = p->shape != SF_PANEL_COLUMNS && goes_down(p);
        if (p->shape != SF_PANEL_ROWS) {
                p->col = last;
                p->line = last - 1 < 0 ? -1 : last - 1;
                return;
        }
        /* The last dimension, unless it is so short that pieces would be crumbs. */
        p->line = last;
        for (int32_t d = 0; last >= 0 && dims[last].len < FEW_COLUMNS && d < last; d++)
                if (dims[d].len > dims[p->line].len)
                        p->line = d;
        if (2 * p->n <= width && last >= 0)
                p->shape = SF_PANEL_PACKED;
}

int64_t sf_panels_length(const sf_step *s, int32_t d)
{
        return d < 0 ? 1 : s->dims[d].len;
}

/* Is there an operand that stands still along one dimension and moves along another? */
bool sf_panels_shares(const sf_panels *p, int32_t still, int32_t moving)
{
        const sf_fuse *f = p->member[0].fuse;
        bool found = false;
        for (int32_t k = 0; still >= 0 && moving >= 0 && k < f->operands; k++)
                found = found || (!f->operand[k].stride[still] && f->operand[k].stride[moving]);
        return found;
}

/* Does some memory run along the lines and not along the sequence? Then a cache line of lines is taken at once. */
static bool crossed(const sf_panels *p)
{
        bool found = false;
        for (int32_t i = 0; p->line >= 0 && i < p->members; i++) {
                const sf_step *s = p->member[i].step;
                const sf_fuse *f = p->member[i].fuse;
                for (int32_t k = 0; k < f->operands; k++)
                        found = found || f->operand[k].stride[p->line] == sf_dtypes[f->operand[k].dt].size;
                found = found || (!s->fold && s->dims[p->line].y == sf_dtypes[s->out].size);
        }
        return found;
}

static void choose_sizes(sf_panels *p, const sf_step *s, int workers)
{
        const int32_t width = p->isa->vector_bytes / 4;
        int64_t lines = sf_panels_length(s, p->line), cols = sf_panels_length(s, p->col);
        p->cols = 1;
        p->block = SF_FUSED_BLOCK; /* whole tiles of any kernel: SF_CPU_TILE_VECTORS vectors are fewer */
        p->lines = SF_CPU_GROUP;
        p->entry_lanes = width;
        switch (p->shape) {
        case SF_PANEL_MAP:
                p->block = 1;
                p->cols = smaller(cols, PANEL);
                p->lines = smaller(lines, larger(1, PANEL / p->cols));
                break;
        case SF_PANEL_COLUMNS:
                /* The counter has an entry a level above the tile, of at least four positions, and one for the closing entry. */
                p->levels = sf_order_log2((uint64_t)(p->n / 4 + 1)) + 2;
                p->lines = sf_panels_shares(p, p->line, p->seq) ? smaller(lines, TOGETHER) : 1;
                p->cols = COUNTER_BYTES / (p->levels * p->widest * p->parts * p->lines) / 64 * 64;
                p->cols = p->direct ? MOST_COLUMNS : smaller(larger(p->cols, 64), MOST_COLUMNS);
                p->cols = smaller(p->cols, larger(p->direct ? 4 * LEAST_COLUMNS : LEAST_COLUMNS, cols / parts(2 * workers, s->batch / cols)));
                p->cols = smaller(p->cols, parts(parts(cols, parts(cols, p->cols)), 16) * 16); /* of about the same width */
                p->block = larger(SF_CPU_TILE_ROWS, power_below(2 * PANEL / p->cols));
                p->entry_lanes = parts(p->cols, width) * width;
                break;
        case SF_PANEL_NARROW:
                p->cols = cols;
                p->block = power_below(SF_FUSED_BLOCK / cols);
                break;
        default:
                if (p->direct)
                        p->lines = smaller(larger(SF_CPU_FOLD_GROUP, DIRECT_ELEMENTS / p->n), DIRECT_LINES);
                else if (p->n <= p->block)
                        p->lines = larger(SF_CPU_GROUP, PANEL / p->n / SF_CPU_GROUP * SF_CPU_GROUP);
                else if (crossed(p))
                        p->lines = 4 * SF_CPU_GROUP;
        }
        /* A chunk is a line of its own where a stride leads from one to the next. */
        if (p->chunk)
                p->lines = p->shape == SF_PANEL_COLUMNS || p->nseq > 1 ? 1 : p->direct ? SF_CPU_FOLD_GROUP : SF_CPU_GROUP;
        else
                p->lines = smaller(p->lines, lines);
        p->whole = p->n <= p->block;
        if (p->whole)
                p->block = p->n;
        p->carries = p->whole && p->shape != SF_PANEL_COLUMNS ? 1 : p->lines;
        p->entries = (p->chunk ? SF_PANEL_CHUNK_LEVELS + 1 : 0) + 3;
}

/* Can a kernel read, write and mask straight from and to memory? */
static void choose_directness(sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const bool apart = p->shape == SF_PANEL_ROWS, columns = p->shape == SF_PANEL_COLUMNS, narrow = p->shape == SF_PANEL_NARROW;
        const int64_t sign = p->reverse ? -1 : 1;
        m->reads = m->writes = m->masks = false;
        if (!(apart || columns || narrow) || p->nseq > 1)
                return;
        const int64_t position = (narrow ? p->cols : 1) * sign; /* elements from one to the next, where the sequence is contiguous */
        if (m->load.copy && m->load.source_dt[m->load.copied] == m->held) {
                const int64_t *stride = m->fuse->operand[m->load.copied].stride;
                m->reads = (apart || stride[p->col] == m->size) && (columns || stride[p->seq] == position * m->size);
        }
        if (m->store.copy && m->store.copied == SF_FUSED_RESULT && s->out == m->held && !s->fold)
                m->writes = (apart || s->dims[p->col].y == m->size) && (columns || s->dims[p->seq].y == position * m->size);
        if (s->m)
                m->masks = (apart || s->dims[p->col].m == 1) && (columns || s->dims[p->seq].m == position);
}

/* Shorter rows, in bytes of results, are quicker widened, many at a time. */
#define LEAST_OWN_ROW 48
#define LEAST_WIDE_ROW 256

/* May a scan take narrow integers as they lie, and leave them so, or widen them to what is held? */
static void choose_own(const sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const sf_operand *x = &m->fuse->operand[0];
        const bool rows = p->shape == SF_PANEL_ROWS, columns = p->shape == SF_PANEL_COLUMNS;
        const int64_t size = sf_dtypes[s->out].size, from = sf_dtypes[x->dt].size, sign = p->reverse ? -1 : 1;
        const int32_t along = rows ? p->seq : p->col;
        const bool scans = !s->fold && !m->fuse->load.count && !m->fuse->store.count && p->nseq == 1 && (rows || columns) &&
                           sf_dtypes[s->out].kind != SF_KIND_REAL && x->stride[along] == sign * from && s->dims[along].y == sign * size;
        /* Sums wrap in the results' type if the accumulator holds no fewer bits; max and min need the same values everywhere. */
        const bool wraps = s->op == SF_SUM && x->dt != SF_DT_BOOL && s->out != SF_DT_BOOL && from == size &&
                           sf_dtypes[x->dt].kind != SF_KIND_REAL && sf_dtypes[s->acc].kind != SF_KIND_REAL &&
                           sf_dtypes[s->acc].bits >= sf_dtypes[s->out].bits;
        const bool extreme = (s->op == SF_MAX || s->op == SF_MIN) && x->dt == s->out &&
                             (s->acc == s->out || (s->out == SF_DT_BOOL && s->acc == SF_DT_U8));
        const bool own = (wraps || extreme) && size <= 2 && (!s->m || m->masks);
        m->wide = scans && s->op == SF_SUM && size == 8 && s->out == m->held && m->direct && !s->m && (columns || p->n * size >= LEAST_WIDE_ROW);
        m->own_scan = m->wide || (scans && own && (columns || p->n * size >= LEAST_OWN_ROW));
}

/* Is the load a product of two operands, or the square of one? */
static bool is_product(const sf_program *p, sf_dt dt, int32_t *factor)
{
        const sf_instruction *last = p->count == 2 || p->count == 3 ? &p->code[p->count - 1] : NULL;
        if (!last || last->dt != dt || !(last->code == SF_CODE_MUL || (last->code == SF_CODE_SQUARE && p->count == 2)))
                return false;
        bool loads = true;
        for (int k = 0; k < 2; k++) {
                const sf_instruction *from = &p->code[last->arg[last->code == SF_CODE_SQUARE ? 0 : k]];
                loads = loads && from->code == SF_CODE_LOAD && from->dt == dt;
                factor[k] = from->slot;
        }
        return loads;
}

/* May the kernel for products read both factors where they are? */
static void choose_products(sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const bool columns = p->shape == SF_PANEL_COLUMNS;
        m->products = s->fold && m->kernels->products && !s->m && s->acc == m->held && p->nseq == 1 &&
                      !p->reverse && !(p->whole && !columns) && (columns || p->shape == SF_PANEL_ROWS) && is_product(&m->fuse->load, m->held, m->factor);
        if (!m->products)
                return;
        const sf_operand *a = &m->fuse->operand[m->factor[0]], *b = &m->fuse->operand[m->factor[1]];
        const int32_t along = columns ? p->col : p->seq;
        if (columns && a->stride[along] != m->size) { /* the one that may be spread comes second */
                const sf_operand *first = a;
                const int32_t factor = m->factor[0];
                a = b;
                b = first;
                m->factor[0] = m->factor[1];
                m->factor[1] = factor;
        }
        m->products = a->dt == m->held && b->dt == m->held && a->stride[along] == m->size && (b->stride[along] == m->size || (columns && !b->stride[along]));
}

static void choose_lanes(sf_panels *p, sf_panel_member *m)
{
        int32_t width = m->kernels->width, lane = m->kernels->lane_bytes;
        m->lanes = &p->isa->whole[(lane == 8) * 2 + p->reverse];
        if (p->shape != SF_PANEL_NARROW && p->shape != SF_PANEL_PACKED)
                return;
        bool packed = p->shape == SF_PANEL_PACKED;
        m->lanes = &m->own;
        sf_lanes_make(&m->own, p->isa->vector_bytes, lane, p->isa->permute_bytes, packed ? width / (int32_t)p->n : 1,
                      packed ? (int32_t)p->n : (int32_t)power_below(width / p->cols), packed ? 1 : (int32_t)p->cols, p->reverse);
}

static void choose_outer(sf_panels *p)
{
        p->nouter = 0;
        for (int32_t d = 0; d < p->nbatch; d++)
                if (d != p->line && d != p->col)
                        p->outer[p->nouter++] = d;
}

int64_t sf_panels_bytes(const sf_panels *p)
{
        int64_t bytes = 0;
        const sf_fuse *f = p->member[0].fuse;
        for (int32_t k = 0; k < f->operands; k++)
                bytes += sf_dtypes[f->operand[k].dt].size;
        for (int32_t i = 0; i < p->members; i++)
                bytes += p->member[i].step->fold ? 0 : sf_dtypes[p->member[i].step->out].size;
        return bytes;
}

/* Are results written around the cache? By a kernel where no line is left half written; else from where they are put together, as a fold's are. */
static void choose_stream(const sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const bool rows = p->shape == SF_PANEL_ROWS, columns = p->shape == SF_PANEL_COLUMNS, packed = p->shape == SF_PANEL_PACKED;
        m->streams = m->gathers = false;
        if (!p->stream || m->own_scan || !m->store.copy || m->store.copied != SF_FUSED_RESULT || s->out != m->held)
                return;
        if (s->fold) {
                m->streams = !p->chunk && s->batch * m->size >= SF_CPU_STREAM_BYTES;
                return;
        }
        const int64_t run = (columns ? p->cols : p->n) * m->size;
        bool aligned = !((uintptr_t)s->y % 64) && (!columns || p->cols % 16 == 0);
        for (int32_t d = 0; d < p->nbatch + p->nseq; d++)
                aligned = aligned && (s->dims[d].y == m->size || s->dims[d].y % 64 == 0);
        /* What is over after a row's last tile is stored. Results that are turned are streamed in whole vectors: of half a line each, they cost more. */
        const bool tiles = columns || run >= SF_CPU_STREAM_LINE || p->n % (p->isa->scan_tile * m->kernels->width) == 0;
        const bool turns = p->isa->vector_bytes == 64 && (uintptr_t)s->y % (uintptr_t)m->size == 0 && run >= SF_CPU_STREAM_LINE;
        m->streams = m->writes && (rows || columns) && ((aligned && tiles) || turns);
        /* Short rows that lie on end; of the shortest, which cost more to compute than to store, only where they are packed. */
        m->gathers = !m->streams && (packed || (rows && run >= 128)) && p->whole && p->line >= 0 && s->dims[p->line].y == p->n * m->size &&
                     s->dims[p->seq].y == (p->reverse ? -m->size : m->size);
}

void sf_panels_plan(sf_panels *p, int workers, int64_t chunk)
{
        p->chunk = chunk;
        p->chunks = chunk ? parts(p->n, chunk) : 0;
        p->nodes = 2 * p->chunks;
        if (!chunk)
                choose_shape(p, p->member[0].step);
        p->direct = p->shape != SF_PANEL_NARROW && all_direct_along(p, p->shape == SF_PANEL_COLUMNS ? p->col : p->seq);
        choose_outer(p);
        choose_sizes(p, p->member[0].step, workers);
}

void sf_panels_settle(sf_panels *p)
{
        const sf_step *s = p->member[0].step;
        p->stream = !s->in_place && s->n * s->batch * sf_panels_bytes(p) >= SF_CPU_STREAM_BYTES;
        for (int32_t i = 0; i < p->members && p->shape != SF_PANEL_MAP; i++) {
                choose_directness(p, &p->member[i]);
                choose_products(p, &p->member[i]);
                p->member[i].direct = p->shape == SF_PANEL_NARROW ? NULL : direct_along(p, &p->member[i], p->shape == SF_PANEL_COLUMNS ? p->col : p->seq);
                choose_own(p, &p->member[i]);
                choose_lanes(p, &p->member[i]);
                choose_stream(p, &p->member[i]);
        }
}
