/*
 * The plan of a step and its siblings (panel.h): which of them are walked together, what their
 * kernels read from and write to memory themselves, and which results are written around the cache.
 */
#include "cpu/panel.h"

#include "core/value.h"

/* How many bytes to prefetch ahead: in each of several streams, in each stream if nothing is
 * written, and in a single stream. Measured. */
#define AHEAD_OF_MANY 512
#define AHEAD_OF_FOLDS 1024
#define AHEAD_OF_ONE 4096

/* ---------------------------------------------------------------------------------------------
 * Members
 * ------------------------------------------------------------------------------------------- */
bool sf_survives(sf_dt dt, sf_dt acc)
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

/* Can this be a straight step: plain, alone, and with elements that a kernel reads as they are? */
static bool member_straight(sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const sf_fuse *f = m->fuse;
        if (p->cut || p->members || s->sibling || f->load.count || f->store.count || s->in != s->out ||
            s->nseq > 1 || sf_op_is(s->op, SF_INDEX | SF_TWO))
                return false;
        m->held = m->made = s->in;
        m->size = sf_dtypes[s->in].size;
        m->kernels = sf_cpu_find(p->isa, s->in, s->acc, s->op);
        p->straight = m->kernels && m->kernels->result_bytes == m->size &&
                      (s->fold || m->kernels->scan_rows) && sf_shape_straight(p, m, s);
        m->load.copied = 0;
        m->load.program = &f->load;
        m->store.program = &f->store;
        return p->straight;
}

/* The type that elements are held in. Indices need a type whose lane is wide enough for
 * positions. */
static sf_dt held_by(const sf_step *s)
{
        static const sf_class wide[SF_CLASS_COUNT] = {SF_CLASS_F64, SF_CLASS_F64, SF_CLASS_I64, SF_CLASS_U64, SF_CLASS_I64, SF_CLASS_U64};
        const sf_class class = sf_class_of(s->acc);
        const bool far = s->before + s->n + s->after >= INT32_MAX;
        return sf_class_dt(sf_op_is(s->op, SF_INDEX) && far ? wide[class] : class);
}

/* Positions count from the beginning of the axis. In reverse, the last of them comes first, so the
 * other one of equal elements wins. An f32 that is held as an f64 has the identity of that. An i32's is
 * the same number in 64 bits, and must be, because totals may be stored in 32 bits. */
static sf_value identity_of(const sf_step *s)
{
        const bool widened = held_by(s) == SF_DT_F64 && s->acc != SF_DT_F64;
        sf_value v = widened ? sf_identity(s->op, SF_DT_F64) : s->identity;
        if (sf_op_is(s->op, SF_INDEX) && s->reverse)
                v.index = v.index < 0 ? INT64_MAX : -1;
        return v;
}

static bool is_zero(const sf_program *p, const sf_instruction *at)
{
        const sf_value v = p->constant[at->slot];
        const sf_class class = sf_class_of((sf_dt)at->dt);
        return at->code == SF_CODE_CONSTANT && (class == SF_CLASS_F32 ? v.f32 == 0 : class == SF_CLASS_F64 ? v.f64 == 0 : !v.u64);
}

/* Is this a sum of x != 0, with x an operand as it is in memory? Then kernels count, and read
 * memory themselves if it is contiguous. They count in 64 bits; the lowest bits are the
 * accumulator's. Returns the operand, or -1. */
static int32_t counted_by(const sf_step *s, const sf_fuse *f)
{
        const sf_program *p = &f->load;
        const sf_instruction *at = p->count ? &p->code[p->count - 1] : NULL;
        if (!at || s->op != SF_SUM || !s->fold || s->has_initial || s->lefts || s->values || sf_dtypes[s->acc].kind == SF_KIND_REAL ||
            sf_dtypes[s->acc].bits < 32)
                return -1;
        at = at->code == SF_CODE_CAST ? &p->code[at->arg[0]] : at;
        if (at->code != SF_CODE_NE || !is_zero(p, &p->code[at->arg[1]]))
                return -1;
        at = &p->code[at->arg[0]];
        return at->code == SF_CODE_LOAD && at->dt == f->operand[at->slot].dt ? at->slot : -1;
}

static bool member_make(sf_panels *p, sf_panel_member *m)
{
        static const sf_program nothing = {0};
        const sf_cpu_map *map = p->isa->map;
        const sf_step *s = m->step;
        const sf_fuse *f = m->fuse;
        m->through = false;
        m->counted = -1;
        m->apart = 0;
        m->identity = identity_of(s);
        m->beside.program = &nothing;
        if (!member_straight(p, m)) {
                m->counted = counted_by(s, f);
                m->held = m->made = m->counted < 0 ? held_by(s) : SF_DT_I64;
                m->size = sf_dtypes[m->held].size;
                m->kernels = sf_cpu_find(p->isa, m->held, m->held, s->op);
                if (!m->kernels)
                        return false;
                const bool widens = m->size > sf_dtypes[s->acc].size && sf_op_is(s->op, SF_INDEX);
                const sf_dt acc = widens || m->counted >= 0 ? m->held : s->acc;
                if (sf_op_is(s->op, SF_INDEX))
                        m->made = m->size == 4 ? SF_DT_I32 : SF_DT_I64;
                if (sf_op_is(s->op, SF_TWO))
                        sf_fused_compile(map, f, &f->beside, s->acc, m->held, s->acc, m->held, &m->beside);
                sf_dt last = f->load.count ? (sf_dt)f->load.code[f->load.count - 1].dt
                                           : f->operand[0].dt;
                m->through = (p->shape == SF_PANEL_MAP || (p->cut && s->map)) && !f->store.count &&
                             sf_survives(last, s->acc);
                sf_fused_compile(map, f, &f->load, acc, m->held, m->through ? s->out : acc,
                                 m->through ? s->out : m->held, &m->load);
                sf_fused_compile(map, f, &f->store, sf_op_is(s->op, SF_INDEX) || m->counted >= 0 ? m->made : s->acc,
                                 m->made, s->out, s->out, &m->store);
                p->slots = (int32_t)sf_larger(p->slots, sf_larger(m->load.slots, m->store.slots));
                if (sf_op_is(s->op, SF_TWO))
                        p->slots = (int32_t)sf_larger(p->slots, m->beside.slots);
        }
        p->widest = sf_larger(p->widest, m->size);
        p->value_bytes = sf_larger(p->value_bytes, sf_value_bytes(m->kernels));
        return true;
}

/* A sequence of one element, with nothing before it, is its element. */
static bool is_map(const sf_step *s)
{
        return s->n == 1 && !s->segments.offsets && !s->m && !s->exclusive && !s->has_initial && !s->lefts && !s->values && !sf_op_is(s->op, SF_PAIR);
}

void sf_panels_start(sf_panels *p, const sf_cpu_isa *isa, const sf_step *s)
{
        p->isa = isa;
        p->members = 0;
        p->straight = false;
        p->slots = 0;
        p->widest = 0;
        p->value_bytes = 0;
        p->boxes = 1;
        p->cut = s->segments.offsets;
        p->spreads = 0;
        p->n = s->n;
        p->nbatch = s->nbatch;
        p->nseq = s->nseq;
        p->seq = s->nbatch + s->nseq - 1;
        p->shape = is_map(s) ? SF_PANEL_MAP : SF_PANEL_ROWS;
}

bool sf_panels_take(sf_panels *p, const sf_step *s, bool *has_kernel)
{
        sf_panel_member *m = &p->member[p->members];
        const sf_step *first = p->members ? p->member[0].step : s;
        if (p->members == SF_PANEL_MEMBERS)
                return false;
        if (!s->fuse)
                sf_step_plain_fuse(s, &p->plain[p->members]);
        m->step = s;
        m->fuse = s->fuse ? s->fuse : &p->plain[p->members];
        if (p->members && (!sf_step_same_walk(first, s, p->member[0].fuse, m->fuse) ||
                           is_map(first) != is_map(s)))
                return false;
        *has_kernel = member_make(p, m);
        /* a fold's store program has one position for each segment */
        for (int32_t k = 0; k < m->fuse->operands && *has_kernel; k++)
                if (m->fuse->operand[k].segment)
                        p->spreads |= (m->load.reads | (sf_op_is(s->op, SF_TWO) ? m->beside.reads : 0) | (s->fold ? 0 : m->store.reads)) & 1u << k;
        p->members += *has_kernel;
        return *has_kernel;
}

/* ---------------------------------------------------------------------------------------------
 * Around the cache
 * ------------------------------------------------------------------------------------------- */

/* Does every run of results begin and end at a cache line boundary? */
static bool whole_lines(const sf_panels *p, const sf_panel_member *m, int64_t run)
{
        const sf_step *s = m->step;
        bool whole = !((uintptr_t)s->y % 64) && run % 64 == 0;
        for (int32_t d = 0; d < p->nbatch + p->nseq; d++)
                whole = whole && (sf_magnitude(s->dims[d].y) == m->size || s->dims[d].y % 64 == 0);
        return whole;
}

/*
 * Decides whether a member's results are written around the cache: by the kernel, if the runs that
 * it writes are long or whole cache lines; by way of scratch, if shorter runs are back to back:
 * many are computed there and then copied. Results of a store program are streamed by its last loop
 * (fused_run.c).
 */
static void choose_stream(const sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const sf_dim *seq = &s->dims[p->seq];
        const int64_t all = sf_panels_length(p, p->col);
        const int64_t line = p->n * all * m->size; /* bytes of a line's results */
        const int64_t run = p->shape == SF_PANEL_COLUMNS ? all * m->size : line;
        m->streams = m->gathers = false;
        if (!p->stream || s->map)
                return;
        if (!p->straight &&
            !(m->store.copy && m->store.copied == SF_FUSED_RESULT && s->out == m->made))
                return;
        if (p->cut && s->fold) {
                m->streams = s->batch * s->segments.count * m->size >= SF_CPU_STREAM_BYTES;
                return;
        }
        /* a block's results are one run, however it is cut */
        if (p->cut && p->shape != SF_PANEL_COLUMNS) {
                m->gathers = sf_magnitude(seq->y) == all * m->size && (p->col < 0 || s->dims[p->col].y == m->size);
                return;
        }
        if (s->fold) { /* so many results: an ordinary store would first read their cache lines */
                m->streams = !p->chunk && s->batch * m->size >= SF_CPU_STREAM_BYTES &&
                             (!p->straight || run >= SF_CPU_STREAM_LINE);
                return;
        }
        const bool is_long = run >= SF_CPU_STREAM_LINE, lines = whole_lines(p, m, run);
        switch (p->shape) {
        case SF_PANEL_ROWS: /* the rest after a row's last tile is stored normally */
                m->streams = is_long ||
                             (lines && p->n % (p->isa->scan_tile * m->kernels->width) == 0);
                break;
        case SF_PANEL_COLUMNS: m->streams = is_long || lines; break;
        default: m->streams = p->straight && m->lanes->unit == m->kernels->width; break;
        }
        m->streams = m->streams && m->writes;
        if (m->streams || sf_magnitude(seq->y) != all * m->size)
                return;
        /* Several lines at once that are back to back; or the blocks of a shared line. */
        if (p->chunk)
                m->gathers = p->straight && p->shape != SF_PANEL_ROWS;
        else
                m->gathers = p->whole && p->shape != SF_PANEL_COLUMNS && p->line >= 0 &&
                             s->dims[p->line].y == line &&
                             SF_CPU_GROUP * line <= sf_larger(SF_PANEL_BYTES, p->lines * line);
}

/* How far ahead kernels that read memory prefetch. Short neighbouring lines are one stream. */
static int64_t ahead_of(const sf_panels *p)
{
        const sf_panel_member *m = &p->member[0];
        const int64_t bytes = m->step->fold ? AHEAD_OF_FOLDS : AHEAD_OF_MANY;
        if (p->shape == SF_PANEL_PACKED ||
            (p->shape == SF_PANEL_ROWS && p->n * m->size < AHEAD_OF_ONE))
                return AHEAD_OF_ONE;
        return p->reverse ? -bytes : bytes;
}

/* ---------------------------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------------------------- */
int64_t sf_panels_read(const sf_panels *p)
{
        int64_t bytes = 0;
        const sf_fuse *f = p->member[0].fuse;
        for (int32_t k = 0; k < f->operands; k++)
                bytes += sf_dtypes[f->operand[k].dt].size;
        return bytes;
}

int64_t sf_panels_bytes(const sf_panels *p)
{
        int64_t bytes = sf_panels_read(p);
        for (int32_t i = 0; i < p->members; i++)
                bytes += p->member[i].step->fold ? 0 : sf_dtypes[p->member[i].step->out].size;
        return bytes;
}

void sf_panels_plan(sf_panels *p, int workers)
{
        const sf_step *s = p->member[0].step;
        if (!p->straight)
                sf_shape_panel(p);
        p->stream = !s->in_place && p->boxes * s->n * s->batch * sf_panels_bytes(p) >= SF_CPU_STREAM_BYTES;
        p->stream_programs = p->stream && sf_cpu_streams_programs();
        p->ahead = ahead_of(p);
        p->nouter = 0;
        p->outers = 1;
        for (int32_t d = 0; d < p->nbatch; d++)
                if (d != p->line && d != p->col) {
                        p->outer[p->nouter++] = d;
                        p->outers *= s->dims[d].len;
                }
        for (int32_t i = 0; i < p->members && p->shape != SF_PANEL_MAP; i++)
                sf_shape_lanes(p, &p->member[i]);
        sf_cut_sizes(p, workers);
        for (int32_t i = 0; i < p->members; i++) {
                sf_panel_member *m = &p->member[i];
                m->streams = m->gathers = m->writes = false;
                if (p->shape == SF_PANEL_MAP)
                        continue;
                sf_direct_choose(p, m);
                sf_direct_products(p, m);
                choose_stream(p, m);
        }
        for (int32_t i = 0; i < p->members && p->shape != SF_PANEL_MAP; i++)
                for (int32_t k = 0; k < p->members; k++)
                        sf_direct_pair(p, &p->member[i], &p->member[k]);
        sf_positions_plan(p);
        sf_cut_tasks(p, workers);
}
