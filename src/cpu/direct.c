/*
 * Straight from memory, straight to it: which operands kernels read themselves, with what they make
 * of elements as they load them, and which results they write. All else goes by way of a panel.
 */
#include "cpu/panel.h"

#include <string.h>

/* The bits of which at least one is set in an element that is not zero: for reals all but the sign.
 * For all elements in 8 bytes. */
static uint64_t asked_of(sf_dt dt)
{
        const int bits = 8 * (int)sf_dtypes[dt].size;
        const uint64_t every = bits == 64 ? 1 : ~(uint64_t)0 / (((uint64_t)1 << (bits & 63)) - 1);
        return sf_dtypes[dt].kind == SF_KIND_REAL ? ~(every << (bits - 1)) : ~(uint64_t)0;
}

/* Are the two parts of elements at the same distance everywhere, in a type that kernels take? */
static bool are_twins(sf_panel_member *m)
{
        const sf_step *s = m->step;
        if (!sf_op_is(s->op, SF_TWO) || !m->load.copy || !m->beside.copy)
                return false;
        const sf_operand *x = &m->fuse->operand[m->load.copied], *other = &m->fuse->operand[m->beside.copied];
        bool same = x->dt == m->held && other->dt == m->held;
        for (int32_t d = 0; d < s->nbatch + s->nseq; d++)
                same = same && x->stride[d] == other->stride[d];
        m->apart = other->data - x->data;
        return same;
}

/* Is a value of a program an operand, as it is in memory or widened to dt? */
static bool is_operand(const sf_fuse *f, const sf_program *p, int32_t value, sf_dt dt, int32_t *operand)
{
        const sf_instruction *at = &p->code[value];
        if (at->dt == dt && at->code == SF_CODE_CAST)
                at = &p->code[at->arg[0]];
        *operand = at->slot;
        return p->code[value].dt == dt && at->code == SF_CODE_LOAD && (at->dt == dt || at->dt == f->operand[at->slot].dt);
}

/* Is a value the result of one instruction on two operands? */
static bool is_made_of(const sf_fuse *f, const sf_program *p, int32_t value, sf_code code, sf_dt dt, int32_t *factor)
{
        const sf_instruction *at = &p->code[value];
        return at->code == code && at->dt == dt && is_operand(f, p, at->arg[0], dt, &factor[0]) &&
               is_operand(f, p, at->arg[1], dt, &factor[1]);
}

/* Is a program's value the operand *k, or that of which NaN is replaced by the identity? */
static bool is_element(sf_panel_member *m, const sf_program *p, int32_t value, int32_t *k)
{
        const sf_instruction *at = &p->code[value], *test = &p->code[at->arg[0]];
        const sf_instruction *none = &p->code[at->arg[2]];
        int32_t tested;
        if (at->code != SF_CODE_WHERE)
                return is_operand(m->fuse, p, value, m->held, k);
        if (at->dt != m->held || test->code != SF_CODE_EQ || test->arg[0] != test->arg[1] ||
            none->code != SF_CODE_CONSTANT || none->dt != m->held)
                return false;
        const sf_value v = p->constant[none->slot], id = m->step->identity;
        const size_t size = m->held == SF_DT_F32 ? sizeof v.f32 : sizeof v.f64;
        m->lift.skips = !memcmp(&v.u64, &id.u64, size); /* bits: -0.0 is another identity than +0.0 */
        const sf_dt dt = (sf_dt)p->code[test->arg[0]].dt;
        return m->lift.skips && is_operand(m->fuse, p, test->arg[0], dt, &tested) &&
               is_operand(m->fuse, p, at->arg[1], m->held, k) && tested == *k;
}

/* Is this a fold of a real operand less a centre for each line, its magnitude or its square? Then
 * kernels lift it. Returns the operand, or -1. */
static int32_t lifted_by(const sf_panels *p, sf_panel_member *m)
{
        const sf_program *load = &m->fuse->load;
        const sf_instruction *at = load->count ? &load->code[load->count - 1] : NULL;
        int32_t factor[2], k;
        if (!at || p->cut || !m->step->fold || !m->kernels->lifts || m->step->acc != m->held ||
            at->dt != m->held)
                return -1;
        int32_t value = load->count - 1;
        m->lift.on = true;
        m->lift.magnitude = at->code == SF_CODE_ABS;
        m->lift.square = at->code == SF_CODE_SQUARE || (at->code == SF_CODE_MUL && at->arg[0] == at->arg[1]);
        value = m->lift.magnitude || m->lift.square ? at->arg[0] : value;
        if (is_element(m, load, value, &k))
                return k;
        /* rows of free operations are folded by lanes, several at once: they have no centres */
        const bool rows = p->shape == SF_PANEL_ROWS;
        if (p->shape == SF_PANEL_NARROW || (rows && m->kernels->free) ||
            !is_made_of(m->fuse, load, value, SF_CODE_SUB, m->held, factor))
                return -1;
        /* the centre: one for each line, of the elements' type */
        const sf_operand *x = &m->fuse->operand[factor[0]], *centre = &m->fuse->operand[factor[1]];
        const bool beside = rows || centre->stride[p->col] == sf_dtypes[x->dt].size;
        m->centre = factor[1];
        return !centre->stride[p->seq] && centre->dt == x->dt && beside ? factor[0] : -1;
}

/* Kernels that have no kernel for many segments walk them one by one. */
static bool takes_segments(const sf_cpu_kernels *k, bool fold)
{
        return fold ? k->fold_segments != NULL : k->scan_segments != NULL;
}

/* Which memory can a kernel use itself: can it read, write and mask without a panel? */
void sf_direct_choose(sf_panels *p, sf_panel_member *m)
{
        const sf_step *s = m->step;
        const bool apart = p->shape == SF_PANEL_ROWS, columns = p->shape == SF_PANEL_COLUMNS;
        const bool narrow = p->shape == SF_PANEL_NARROW;
        m->reads = m->writes = m->masks = p->straight;
        m->wide = false;
        m->lift = (sf_prelude){.on = false};
        m->centre = -1;
        m->turn = m->kernels->turn | m->kernels->signs;
        if (p->straight || s->map) /* a map has no kernel */
                return;
        m->kernels = sf_cpu_find(p->isa, m->held, m->held, s->op);
        if (!(apart || columns || narrow) || p->nseq > 1)
                return;
        /* From one position to the next, in elements, if the sequence is contiguous. */
        const int64_t step = (narrow ? p->cols : 1) * (p->reverse ? -1 : 1);
        if (p->cut && sf_op_is(s->op, SF_INDEX)) {
                m->reads = false; /* numbers are stored beside the elements */
        } else if (sf_op_is(s->op, SF_INDEX) ? !s->fold : m->kernels->two) {
                m->reads = are_twins(m) && (apart || m->fuse->operand[m->load.copied].stride[p->col] == m->size) &&
                           (columns || m->fuse->operand[m->load.copied].stride[p->seq] == step * m->size);
        } else {
                const int32_t k = m->counted >= 0 ? m->counted
                                  : m->load.copy  ? m->load.copied
                                                  : lifted_by(p, m);
                const sf_dt dt = k < 0 ? m->held : m->fuse->operand[k].dt;
                const int64_t size = sf_dtypes[dt].size;
                const int64_t *stride = k < 0 ? NULL : m->fuse->operand[k].stride;
                const sf_cpu_kernels *kernels = m->counted < 0
                                                        ? sf_cpu_find(p->isa, dt, m->held, s->op)
                                                        : sf_cpu_counts(p->isa, size);
                m->load.copied = k;
                m->reads = k >= 0 && kernels && (s->fold || kernels->scan_rows) &&
                           (!p->cut || !apart || takes_segments(kernels, s->fold) == takes_segments(m->kernels, s->fold)) &&
                           (kernels->result_bytes == m->size ||
                            (s->fold && !p->cut && kernels->lane_bytes == m->size)) &&
                           (!m->lift.on || kernels->lifts) &&
                           (apart || stride[p->col] == size) &&
                           (columns || stride[p->seq] == step * size);
                m->kernels = m->reads ? kernels : m->kernels;
                m->wide = m->reads && kernels->result_bytes != m->size;
                m->lift.on = m->lift.on && m->reads;
                m->centre = m->lift.on ? m->centre : -1;
        }
        m->turn = m->reads && m->counted >= 0 ? asked_of(m->fuse->operand[m->counted].dt)
                                                : m->kernels->turn | m->kernels->signs;
        if (m->store.copy && m->store.copied == SF_FUSED_RESULT && s->out == m->made && !s->fold)
                m->writes = (apart || s->dims[p->col].y == m->size) &&
                            (columns || s->dims[p->seq].y == step * m->size);
        if (s->m)
                m->masks = (apart || s->dims[p->col].m == 1) &&
                           (columns || s->dims[p->seq].m == step);
}

/* Can a kernel for products read both operands from memory? The second may be constant along the
 * columns or, if it is a centre, along the sequence. */
static void choose_factors(const sf_panels *p, sf_panel_member *m, bool centred)
{
        const bool columns = p->shape == SF_PANEL_COLUMNS;
        const sf_operand *a = &m->fuse->operand[m->factor[0]], *b = &m->fuse->operand[m->factor[1]];
        const int32_t along = columns ? p->col : p->seq;
        const int64_t size = sf_dtypes[a->dt].size;
        const sf_cpu_kernels *kernels = a->dt == b->dt ? sf_cpu_find(p->isa, a->dt, m->held, m->step->op) : NULL;
        const bool beside = b->stride[along] == size;
        const bool found = centred ? !b->stride[p->seq] && (beside || !columns) : beside || (columns && !b->stride[along]);
        if (kernels && found && a->stride[along] == size)
                m->products = kernels->products;
}

static bool may_be_products(const sf_panels *p, const sf_panel_member *m, bool whole)
{
        const sf_step *s = m->step;
        const bool columns = p->shape == SF_PANEL_COLUMNS, rows = p->shape == SF_PANEL_ROWS;
        return s->fold && m->kernels->products && !p->cut && !s->m && s->acc == m->held && p->nseq == 1 && !p->reverse &&
               (columns || (rows && (whole || !p->whole))) && m->fuse->load.count;
}

void sf_direct_products(sf_panels *p, sf_panel_member *m)
{
        const sf_fuse *f = m->fuse;
        m->products = NULL;
        m->pair = -1;
        const bool whole = p->members == 1 && p->n >= SF_CPU_TILE_VECTORS * m->kernels->width;
        if (m->lift.on || !may_be_products(p, m, whole) || !is_made_of(f, &f->load, f->load.count - 1, SF_CODE_MUL, m->held, m->factor))
                return;
        /* the operand that may be constant comes second */
        if (p->shape == SF_PANEL_COLUMNS && !f->operand[m->factor[0]].stride[p->col]) {
                const int32_t factor = m->factor[0];
                m->factor[0] = m->factor[1];
                m->factor[1] = factor;
        }
        choose_factors(p, m, false);
        if (m->products)
                p->whole = p->whole && p->shape == SF_PANEL_COLUMNS; /* every line has counters */
}

static void pair_up(sf_panels *p, sf_panel_member *squares, sf_panel_member *sums)
{
        squares->squares = true;
        sums->squares = false;
        squares->pair = (int32_t)(sums - p->member);
        sums->pair = (int32_t)(squares - p->member);
}

/* Do two folds of short rows lift the same elements in the same way, but that m squares them too?
 * Then a call of its kernel folds both. */
static bool lift_alike(const sf_panels *p, const sf_panel_member *m, const sf_panel_member *other)
{
        const sf_step *s = m->step, *t = other->step;
        return p->shape == SF_PANEL_ROWS && p->whole && m->reads && other->reads &&
               m->kernels == other->kernels && m->kernels->products && m->lift.square &&
               other->lift.on && !other->lift.square && !other->lift.magnitude &&
               !m->lift.skips && !other->lift.skips && m->load.copied == other->load.copied &&
               m->centre == other->centre && m->centre >= 0 && !s->m && !t->m &&
               !s->has_initial && !t->has_initial && !s->lefts && !t->lefts &&
               p->n < (int64_t)m->kernels->width << SF_CPU_BOTH_LEVELS;
}

/* Sums of x - w and of its squares, with one w for each line, are folded together: of lines that
 * have at least one tile by kernels for products. */
void sf_direct_pair(sf_panels *p, sf_panel_member *m, sf_panel_member *other)
{
        if (m->pair < 0 && other->pair < 0 && lift_alike(p, m, other)) {
                pair_up(p, m, other);
                return;
        }
        const bool whole = p->n >= SF_CPU_TILE_VECTORS * m->kernels->width;
        const sf_program *squares = &m->fuse->load, *sums = &other->fuse->load;
        if (m->products || other->products || m->step->op != other->step->op || m->held != other->held || !may_be_products(p, m, whole) ||
            !may_be_products(p, other, whole))
                return;
        const sf_instruction *last = &squares->code[squares->count - 1];
        if (last->code != SF_CODE_SQUARE || last->dt != m->held || !is_made_of(m->fuse, squares, last->arg[0], SF_CODE_SUB, m->held, m->factor) ||
            !is_made_of(other->fuse, sums, sums->count - 1, SF_CODE_SUB, m->held, other->factor) ||
            m->factor[0] != other->factor[0] || m->factor[1] != other->factor[1])
                return;
        choose_factors(p, m, true);
        if (!m->products)
                return;
        other->products = m->products;
        p->whole = p->whole && p->shape == SF_PANEL_COLUMNS; /* every line has counters */
        pair_up(p, m, other);
}
