/* Rewrites are tried on every live node until nothing changes. */
#include "expr/rewrite.h"

#include <string.h>

static const sf_rewrite rewrites[] = {
#define REWRITE(name, kind, sentence) {#name, sentence, SF_IR_##kind, sf_rewrite_##name},
#include "expr/rewrites.def"
#undef REWRITE
};

/* Last of all: what is still a matmul is computed as what it means. */
static const sf_rewrite lowering[] = {
        {"matmul_products", "a @ b -> sum of products", SF_IR_MATMUL, sf_rewrite_matmul_products},
};

static void note(sf_ir *ir, const sf_rewrite *rewrite, int32_t before, int32_t after)
{
        if (ir->events == ir->events_room) {
                int32_t room = ir->events_room ? ir->events_room * 2 : 16;
                sf_ir_event *grown = sf_ir_alloc(ir, (size_t)room * sizeof *grown);
                if (ir->events)
                        memcpy(grown, ir->event, (size_t)ir->events * sizeof *grown);
                ir->event = grown;
                ir->events_room = room;
        }
        ir->event[ir->events++] = (sf_ir_event){rewrite, before, after, ir->rounds};
}

/* The node as its arguments are now. */
static int32_t refreshed(sf_ir *ir, int32_t id)
{
        const sf_ir_node *n = sf_ir_at(ir, id);
        bool moved = false;
        for (int32_t i = 0; i < sf_ir_args(n); i++)
                moved |= sf_ir_arg(ir, n, i) != (n->kind == SF_IR_CONCAT ? n->list[i] : n->arg[i]);
        if (!moved)
                return id;
        int32_t arg[3] = {0}, parts[SF_MAX_NDIM];
        for (int32_t i = 0; i < sf_ir_args(n); i++)
                *(n->kind == SF_IR_CONCAT ? &parts[i] : &arg[i]) = sf_ir_arg(ir, n, i);
        int32_t fresh = sf_ir_now(ir, sf_ir_with(ir, n, arg, parts));
        if (fresh == id)
                return id;
        ir->node[fresh]->uses += n->uses;
        ir->node[id]->forward = fresh;
        return fresh;
}

/* No rewrite takes apart what stands further below a node than this: a flip of a scan of a flip is the deepest. */
enum { REACH = 3 };

/* Has it, or what of it a rewrite could take apart, segments? Such nodes stay as they are; a matmul is lowered all the same, which takes nothing apart. */
static bool has_segments(const sf_ir *ir, int32_t id, int depth)
{
        const sf_ir_node *n = sf_ir_at(ir, id);
        bool found = sf_ir_offsets(n);
        for (int32_t i = 0; !found && depth && i < sf_ir_args(n); i++)
                found = has_segments(ir, sf_ir_arg(ir, n, i), depth - 1);
        return found;
}

static bool try_all(sf_ir *ir, const sf_rewrite *list, size_t count, int32_t id)
{
        const sf_ir_node *n = sf_ir_at(ir, id);
        if (list != lowering && has_segments(ir, id, REACH))
                return false;
        for (size_t i = 0; i < count; i++) {
                if (list[i].kind != n->kind)
                        continue;
                ir->rounds = false;
                int32_t made = list[i].try(ir, n);
                made = made ? sf_ir_now(ir, made) : 0;
                if (!made || made == id)
                        continue;
                ir->node[id]->forward = made;
                note(ir, &list[i], id, made);
                return true;
        }
        return false;
}

typedef struct sweep {
        const sf_rewrite *list;
        size_t count;
        int32_t number;
        bool changed;
} sweep;

/* Rewrites only ever push one way, so that this ends by itself; the bound is for the day one does not. */
enum { EVENTS = 16 * SF_GRAPH_MAX };

/* Arguments first, and what a rewrite made at once: what it pushed down goes on down in the same sweep. */
static void settle(sf_ir *ir, sweep *s, int32_t id)
{
        while (1) {
                id = sf_ir_now(ir, id);
                if (ir->node[id]->settled == s->number)
                        return;
                ir->node[id]->settled = s->number;
                const sf_ir_node *n = sf_ir_at(ir, id);
                for (int32_t i = 0; i < sf_ir_args(n); i++)
                        settle(ir, s, sf_ir_arg(ir, n, i));
                id = refreshed(ir, id);
                ir->node[id]->settled = s->number;
                if (ir->events >= EVENTS || !try_all(ir, s->list, s->count, id))
                        return;
                s->changed = true;
        }
}

static void sweep_all(sf_ir *ir, const sf_rewrite *list, size_t count)
{
        sweep s = {.list = list, .count = count};
        do {
                int32_t *order;
                s.changed = false;
                s.number = ++ir->sweeps;
                sf_ir_count_uses(ir, &order); /* a rewrite asks who else needs a node */
                for (int32_t i = 0; i < ir->outputs; i++)
                        settle(ir, &s, ir->output[i]);
        } while (s.changed);
}

void sf_rewrite_all(sf_ir *ir)
{
        sweep_all(ir, rewrites, sizeof rewrites / sizeof rewrites[0]);
        sweep_all(ir, lowering, sizeof lowering / sizeof lowering[0]);
        sweep_all(ir, rewrites, sizeof rewrites / sizeof rewrites[0]);
}
