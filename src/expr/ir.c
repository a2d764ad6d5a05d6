/* A plan's own copy of the expression: equal nodes are made only once. */
#include "expr/ir.h"

#include "core/value.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Memory: blocks that are freed together
 * ---------------------------------------------------------------------------------------------------------- */
struct sf_ir_block {
        sf_ir_block *next;
        size_t used, size;
        _Alignas(16) char data[];
};

/* A graph of about a dozen nodes and its plan fit into one block. */
enum { BLOCK = 32 << 10 };

void *sf_ir_alloc(sf_ir *ir, size_t size)
{
        size = (size + 15) & ~(size_t)15;
        if (!ir->blocks || ir->blocks->size - ir->blocks->used < size) {
                size_t room = size > BLOCK ? size : BLOCK;
                sf_ir_block *block = malloc(sizeof *block + room);
                if (!block)
                        longjmp(ir->no_memory, 1);
                block->next = ir->blocks;
                block->used = 0;
                block->size = room;
                ir->blocks = block;
        }
        void *memory = ir->blocks->data + ir->blocks->used;
        ir->blocks->used += size;
        return memory;
}

void sf_ir_free(sf_ir *ir)
{
        while (ir->blocks) {
                sf_ir_block *next = ir->blocks->next;
                free(ir->blocks);
                ir->blocks = next;
        }
}

static void *copied(sf_ir *ir, const void *data, size_t size)
{
        void *copy = sf_ir_alloc(ir, size);
        if (size)
                memcpy(copy, data, size);
        return copy;
}

/* ------------------------------------------------------------------------------------------------------------
 * One node for equal ones
 * ---------------------------------------------------------------------------------------------------------- */
static uint32_t mix(uint32_t h, uint64_t v)
{
        return (uint32_t)((h ^ v ^ v >> 32) * 0x9e3779b1u) ^ h >> 15;
}

static uint32_t hash_of(const sf_ir_node *n)
{
        uint32_t h = mix((uint32_t)n->kind, (uint64_t)n->dt << 8 | (uint64_t)n->code);
        for (int i = 0; i < 3; i++)
                h = mix(h, (uint64_t)n->arg[i]);
        h = mix(h, n->axes ^ (uint64_t)(uint32_t)n->index << 32 ^ (uint64_t)n->op);
        h = mix(h, (uint64_t)n->start ^ (uint64_t)n->step << 20 ^ n->value.u64);
        for (int32_t i = 0; i < n->nlist; i++)
                h = mix(h, (uint64_t)n->list[i]);
        return h;
}

static bool same(const sf_ir_node *a, const sf_ir_node *b)
{
        return a->hash == b->hash && a->kind == b->kind && a->dt == b->dt && a->axes == b->axes && !memcmp(a->arg, b->arg, sizeof a->arg) &&
               a->index == b->index && a->start == b->start && a->step == b->step && a->value.u64 == b->value.u64 && a->code == b->code &&
               a->op == b->op && a->acc == b->acc && a->reverse == b->reverse && a->exclusive == b->exclusive && a->mean == b->mean &&
               a->has_initial == b->has_initial && a->nlist == b->nlist && (!a->nlist || !memcmp(a->list, b->list, (size_t)a->nlist * sizeof *a->list)) &&
               sf_ir_same_shape(a, b);
}

/* Makes a node from `n`, whose shape and list still belong to the caller. */
static int32_t make(sf_ir *ir, sf_ir_node n)
{
        n.hash = hash_of(&n);
        int32_t *bucket = &ir->bucket[n.hash % 64];
        for (int32_t id = *bucket; id; id = ir->node[id]->next)
                if (same(ir->node[id], &n)) {
                        /* The node may have been replaced already. Its own number is returned all
                         * the same: callers look up the replacement (sf_ir_now), so the graph stays
                         * free of cycles. */
                        ir->merged += ir->node[id]->kind != SF_IR_INPUT && ir->node[id]->kind != SF_IR_CONSTANT;
                        return id;
                }
        if (ir->nodes + 2 > ir->room) {
                int32_t room = ir->room ? ir->room * 2 : 64;
                sf_ir_node **grown = sf_ir_alloc(ir, (size_t)room * sizeof *grown);
                if (ir->nodes)
                        memcpy(grown, ir->node, ((size_t)ir->nodes + 1) * sizeof *grown);
                ir->node = grown;
                ir->room = room;
        }
        n.shape = copied(ir, n.shape, (size_t)n.ndim * sizeof *n.shape);
        n.list = n.nlist ? copied(ir, n.list, (size_t)n.nlist * sizeof *n.list) : NULL;
        n.count = 1;
        for (int32_t d = 0; d < n.ndim; d++)
                /* infer.c refuses an overflow after the node is made */
                /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): `copied` has filled in ndim lengths */
                n.count = (int64_t)((uint64_t)n.count * (uint64_t)n.shape[d]);
        /* Until uses are counted again, nodes that have been replaced still count as users: the
         * number may be too large, but never too small. */
        for (int32_t i = 0; i < sf_ir_args(&n); i++)
                ir->node[sf_ir_arg(ir, &n, i)]->uses++;
        n.next = *bucket;
        ir->node[ir->nodes + 1] = copied(ir, &n, sizeof n);
        *bucket = ++ir->nodes;
        return ir->nodes;
}

int32_t sf_ir_input(sf_ir *ir, int32_t index, sf_dt dt, int32_t ndim, const int64_t *shape)
{
        int32_t made = make(ir, (sf_ir_node){.kind = SF_IR_INPUT, .index = index, .dt = dt,
                                             .ndim = ndim, .shape = shape});
        ir->largest = ir->node[made]->count > ir->largest ? ir->node[made]->count : ir->largest;
        return made;
}

int32_t sf_ir_constant(sf_ir *ir, sf_dt dt, sf_value value)
{
        if (dt != SF_DT_F64 && sf_dtypes[dt].kind == SF_KIND_REAL) {
                /* all other bytes of the value are set to 0, because values are compared */
                uint32_t bits;
                memcpy(&bits, &value.f32, sizeof bits);
                value.u64 = 0;
                memcpy(&value.f32, &bits, sizeof bits);
        }
        return make(ir, (sf_ir_node){.kind = SF_IR_CONSTANT, .dt = dt, .value = value});
}

int32_t sf_ir_number(sf_ir *ir, sf_dt dt, double value)
{
        if (sf_dtypes[dt].kind == SF_KIND_REAL)
                return sf_ir_constant(ir, dt, sf_cast(SF_DT_F64, dt, (sf_value){.f64 = value}));
        return sf_ir_constant(ir, dt, sf_cast(SF_DT_I64, dt, (sf_value){.u64 = (uint64_t)(int64_t)value}));
}

int32_t sf_ir_map(sf_ir *ir, sf_code code, sf_dt dt, int32_t a, int32_t b, int32_t c)
{
        const sf_ir_node *na = sf_ir_at(ir, a), *nb = b ? sf_ir_at(ir, b) : NULL, *nc = c ? sf_ir_at(ir, c) : NULL;
        int64_t shape[SF_MAX_NDIM], wider[SF_MAX_NDIM];
        sf_ir_node n = {.kind = SF_IR_MAP, .code = code, .dt = code >= SF_CODE_EQ && code <= SF_CODE_GE ? SF_DT_BOOL : dt, .arg = {a, b, c},
                        .ndim = na->ndim, .shape = na->shape};
        if (nb) {
                n.ndim = sf_ir_broadcast_shape(na->ndim, na->shape, nb->ndim, nb->shape, shape);
                n.shape = shape;
        }
        if (nc) {
                n.ndim = sf_ir_broadcast_shape(n.ndim, n.shape, nc->ndim, nc->shape, wider);
                n.shape = wider;
        }
        return make(ir, n);
}

int32_t sf_ir_cast(sf_ir *ir, int32_t x, sf_dt dt)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        if (n->dt == dt)
                return x;
        if (n->kind == SF_IR_CONSTANT)
                return sf_ir_constant(ir, dt, sf_cast(n->dt, dt, n->value));
        return sf_ir_map(ir, SF_CODE_CAST, dt, x, 0, 0);
}

int32_t sf_ir_flip(sf_ir *ir, int32_t x, uint64_t axes)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        for (int32_t d = 0; d < n->ndim; d++)
                if (n->shape[d] <= 1)
                        axes &= ~((uint64_t)1 << d);
        if (!axes)
                return x;
        return make(ir, (sf_ir_node){.kind = SF_IR_FLIP, .arg = {x}, .dt = n->dt, .axes = axes, .ndim = n->ndim, .shape = n->shape});
}

int32_t sf_ir_permute(sf_ir *ir, int32_t x, const int32_t *axes)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        int64_t shape[SF_MAX_NDIM];
        bool moved = false;
        for (int32_t d = 0; d < n->ndim; d++) {
                shape[d] = n->shape[axes[d]];
                moved |= axes[d] != d;
        }
        if (!moved)
                return x;
        return make(ir, (sf_ir_node){.kind = SF_IR_PERMUTE, .arg = {x}, .dt = n->dt, .ndim = n->ndim, .shape = shape, .nlist = n->ndim, .list = axes});
}

int32_t sf_ir_squeeze(sf_ir *ir, int32_t x, uint64_t axes)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        int64_t shape[SF_MAX_NDIM];
        int32_t ndim = 0;
        for (int32_t d = 0; d < n->ndim; d++)
                if (!(axes >> d & 1))
                        shape[ndim++] = n->shape[d];
        if (!axes)
                return x;
        return make(ir, (sf_ir_node){.kind = SF_IR_SQUEEZE, .arg = {x}, .dt = n->dt, .axes = axes, .ndim = ndim, .shape = shape});
}

int32_t sf_ir_unsqueeze(sf_ir *ir, int32_t x, uint64_t axes)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        int64_t shape[SF_MAX_NDIM];
        int32_t ndim = 0;
        for (int32_t d = 0, from = 0; from < n->ndim || axes >> d; d++) {
                shape[ndim++] = axes >> d & 1 ? 1 : n->shape[from];
                from += !(axes >> d & 1);
                if (d == 63)
                        break;
        }
        if (!axes)
                return x;
        return make(ir, (sf_ir_node){.kind = SF_IR_UNSQUEEZE, .arg = {x}, .dt = n->dt, .axes = axes, .ndim = ndim, .shape = shape});
}

int32_t sf_ir_broadcast(sf_ir *ir, int32_t x, int32_t ndim, const int64_t *shape)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        sf_ir_node b = {.kind = SF_IR_BROADCAST, .arg = {x}, .dt = n->dt, .ndim = ndim, .shape = shape};
        int32_t lead = ndim - n->ndim;
        bool ones = n->kind != SF_IR_CONSTANT && lead < 64;
        for (int32_t d = 0; d < ndim && ones; d++)
                ones = shape[d] == (d < lead ? 1 : n->shape[d - lead]);
        return ones ? sf_ir_unsqueeze(ir, x, ((uint64_t)1 << lead) - 1) : make(ir, b);
}

int32_t sf_ir_slice(sf_ir *ir, int32_t x, int32_t axis, int64_t start, int64_t step, int64_t length)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        int64_t shape[SF_MAX_NDIM];
        if (length == n->shape[axis] && (step == 1 || length <= 1))
                return x;
        memcpy(shape, n->shape, (size_t)n->ndim * sizeof *shape);
        shape[axis] = length;
        /* A slice of a broadcast number, such as zeros_like, is that number broadcast to a smaller
         * shape. */
        if (n->kind == SF_IR_BROADCAST && sf_ir_at(ir, sf_ir_arg(ir, n, 0))->kind == SF_IR_CONSTANT)
                return sf_ir_broadcast(ir, sf_ir_arg(ir, n, 0), n->ndim, shape);
        return make(ir, (sf_ir_node){.kind = SF_IR_SLICE, .arg = {x}, .dt = n->dt, .index = axis, .start = start, .step = length > 1 ? step : 1,
                                     .ndim = n->ndim, .shape = shape});
}

int32_t sf_ir_concat(sf_ir *ir, int32_t axis, int32_t count, const int32_t *parts)
{
        const sf_ir_node *n = sf_ir_at(ir, parts[0]);
        int64_t shape[SF_MAX_NDIM];
        memcpy(shape, n->shape, (size_t)n->ndim * sizeof *shape);
        for (int32_t i = 1; i < count; i++)
                shape[axis] += sf_ir_at(ir, parts[i])->shape[axis];
        if (count == 1)
                return parts[0];
        return make(ir, (sf_ir_node){.kind = SF_IR_CONCAT, .dt = n->dt, .index = axis, .ndim = n->ndim, .shape = shape, .nlist = count, .list = parts});
}

int32_t sf_ir_reduce(sf_ir *ir, const sf_ir_node *model, int32_t x, int32_t mask)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        int64_t shape[SF_MAX_NDIM];
        for (int32_t d = 0; d < n->ndim; d++)
                shape[d] = model->kind == SF_IR_FOLD && model->axes >> d & 1 ? (model->index ? model->start : 1) : n->shape[d];
        return make(ir, (sf_ir_node){.kind = model->kind, .arg = {x, mask}, .dt = model->dt, .acc = model->acc, .op = model->op, .axes = model->axes,
                                     .reverse = model->reverse, .exclusive = model->exclusive, .mean = model->mean,
                                     .has_initial = model->has_initial, .value = model->value, .index = model->index, .start = model->start,
                                     .ndim = n->ndim, .shape = shape});
}

int32_t sf_ir_spread(sf_ir *ir, int32_t x, int32_t axis, int64_t length, int32_t offsets, bool ends)
{
        const sf_ir_node *n = sf_ir_at(ir, x);
        int64_t shape[SF_MAX_NDIM];
        memcpy(shape, n->shape, (size_t)n->ndim * sizeof *shape);
        shape[axis] = length;
        return make(ir, (sf_ir_node){.kind = SF_IR_SPREAD, .arg = {x}, .dt = n->dt, .axes = (uint64_t)1 << axis, .index = offsets, .start = ends, .ndim = n->ndim,
                                     .shape = shape});
}

int32_t sf_ir_matmul(sf_ir *ir, sf_dt dt, int32_t a, int32_t b)
{
        const sf_ir_node *na = sf_ir_at(ir, a), *nb = sf_ir_at(ir, b);
        int64_t shape[SF_MAX_NDIM];
        int32_t batch = sf_ir_broadcast_shape(na->ndim - 2, na->shape, nb->ndim - 2, nb->shape, shape);
        shape[batch] = na->shape[na->ndim - 2];
        shape[batch + 1] = nb->shape[nb->ndim - 1];
        return make(ir, (sf_ir_node){.kind = SF_IR_MATMUL, .arg = {a, b}, .dt = dt, .ndim = batch + 2, .shape = shape});
}

int32_t sf_ir_with(sf_ir *ir, const sf_ir_node *n, const int32_t arg[3], const int32_t *parts)
{
        switch (n->kind) {
        case SF_IR_MAP:
                if (n->code == SF_CODE_CAST)
                        return sf_ir_cast(ir, arg[0], n->dt);
                return sf_ir_map(ir, n->code, sf_ir_at(ir, n->arg[n->code == SF_CODE_WHERE])->dt, arg[0], arg[1], arg[2]);
        case SF_IR_FLIP: return sf_ir_flip(ir, arg[0], n->axes);
        case SF_IR_PERMUTE: return sf_ir_permute(ir, arg[0], n->list);
        case SF_IR_SQUEEZE: return sf_ir_squeeze(ir, arg[0], n->axes);
        case SF_IR_UNSQUEEZE: return sf_ir_unsqueeze(ir, arg[0], n->axes);
        case SF_IR_BROADCAST: return sf_ir_broadcast(ir, arg[0], n->ndim, n->shape);
        case SF_IR_SLICE: return sf_ir_slice(ir, arg[0], n->index, n->start, n->step, n->shape[n->index]);
        case SF_IR_CONCAT: return sf_ir_concat(ir, n->index, n->nlist, parts);
        case SF_IR_SCAN:
        case SF_IR_FOLD: return sf_ir_reduce(ir, n, arg[0], arg[1]);
        case SF_IR_SPREAD: return sf_ir_spread(ir, arg[0], __builtin_ctzll(n->axes), n->shape[__builtin_ctzll(n->axes)], n->index, n->start);
        /* inputs and constants never get here: they have no arguments */
        default: return sf_ir_matmul(ir, n->dt, arg[0], arg[1]);
        }
}

/* ------------------------------------------------------------------------------------------------------------
 * Queries
 * ---------------------------------------------------------------------------------------------------------- */
bool sf_ir_is_real(const sf_ir *ir, int32_t node)
{
        return sf_dtypes[sf_ir_at(ir, node)->dt].kind == SF_KIND_REAL;
}

bool sf_ir_is_small(const sf_ir *ir, const sf_ir_node *n)
{
        /* about a microsecond of work; 1/64 of the largest input */
        enum { FEW = 4096, SHARE = 64 };
        return n->count <= FEW || n->count <= ir->largest / SHARE;
}

bool sf_ir_is_map(const sf_ir *ir, int32_t node, sf_code code)
{
        const sf_ir_node *n = sf_ir_at(ir, node);
        return n->kind == SF_IR_MAP && n->code == code;
}

bool sf_ir_same_shape(const sf_ir_node *a, const sf_ir_node *b)
{
        return a->ndim == b->ndim && (!a->ndim || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape));
}

bool sf_ir_is_number(const sf_ir *ir, int32_t node, double *value)
{
        const sf_ir_node *n = sf_ir_at(ir, node);
        while (n->kind == SF_IR_BROADCAST)
                n = sf_ir_at(ir, sf_ir_now(ir, n->arg[0]));
        if (n->kind != SF_IR_CONSTANT)
                return false;
        *value = sf_cast(n->dt, SF_DT_F64, n->value).f64;
        return true;
}

int32_t sf_ir_broadcast_shape(int32_t andim, const int64_t *a, int32_t bndim, const int64_t *b, int64_t *shape)
{
        int32_t ndim = andim > bndim ? andim : bndim;
        for (int32_t d = 0; d < ndim; d++) {
                int64_t la = d < ndim - andim ? 1 : a[d - (ndim - andim)], lb = d < ndim - bndim ? 1 : b[d - (ndim - bndim)];
                if (la != lb && la != 1 && lb != 1)
                        return -1;
                shape[d] = la == 1 ? lb : la;
        }
        return ndim;
}

int64_t sf_ir_length(const sf_ir_node *n, uint64_t axes)
{
        int64_t length = 1;
        for (int32_t d = 0; d < n->ndim; d++)
                if (axes >> d & 1)
                        length *= n->shape[d];
        return length;
}

int32_t sf_ir_args(const sf_ir_node *n)
{
        if (n->kind == SF_IR_CONCAT)
                return n->nlist;
        return n->arg[2] ? 3 : n->arg[1] ? 2 : n->arg[0] ? 1 : 0;
}

int32_t sf_ir_arg(const sf_ir *ir, const sf_ir_node *n, int32_t i)
{
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): i is below nlist, so there is a list */
        return sf_ir_now(ir, n->kind == SF_IR_CONCAT ? n->list[i] : n->arg[i]);
}

/* `uses` marks the visited nodes. */
static void visit(sf_ir *ir, int32_t id, int32_t *order, int32_t *count)
{
        sf_ir_node *n = ir->node[id];
        if (n->uses)
                return;
        n->uses = 1;
        for (int32_t i = 0; i < sf_ir_args(n); i++)
                visit(ir, sf_ir_arg(ir, n, i), order, count);
        order[(*count)++] = id;
}

static int32_t order_nodes(sf_ir *ir, int32_t **order)
{
        int32_t count = 0;
        if (ir->nodes > ir->order_room) {
                ir->order_room = 2 * ir->nodes;
                ir->order = sf_ir_alloc(ir, (size_t)ir->order_room * sizeof *ir->order);
        }
        *order = ir->order;
        for (int32_t id = 1; id <= ir->nodes; id++)
                ir->node[id]->uses = 0;
        for (int32_t i = 0; i < ir->outputs; i++)
                visit(ir, sf_ir_now(ir, ir->output[i]), *order, &count);
        return count;
}

int32_t sf_ir_count_uses(sf_ir *ir, int32_t **result)
{
        int32_t *order, count = order_nodes(ir, &order);
        for (int32_t i = 0; i < count; i++)
                ir->node[order[i]]->uses = 0;
        for (int32_t i = 0; i < count; i++)
                for (int32_t k = 0; k < sf_ir_args(ir->node[order[i]]); k++)
                        ir->node[sf_ir_arg(ir, ir->node[order[i]], k)]->uses++;
        for (int32_t i = 0; i < ir->outputs; i++)
                ir->node[sf_ir_now(ir, ir->output[i])]->uses++;
        *result = order;
        return count;
}
