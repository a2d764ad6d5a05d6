/* Tries the rewrites on every live node until nothing changes. */
#include "expr/rewrite.h"

#include <string.h>

static const sf_rewrite rewrites[] = {
#define REWRITE(name, kind, sentence) {#name, sentence, SF_IR_##kind, sf_rewrite_##name},
#include "expr/rewrites.def"
#undef REWRITE
};

/* The last step: a matmul that remains is computed as a sum of products. */
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

/* The node with the current replacements of its arguments. */
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

/* How many levels below a node a rewrite looks. A flip of a scan of a flip is the deepest
 * pattern. */
enum { REACH = 3 };

/* Does the node, or one that a rewrite of it could change, have segments? Such nodes are not
 * rewritten. A matmul is lowered all the same, because that changes no other node. */
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

/* Every rewrite moves nodes in one direction only, so this ends by itself; the limit is a
 * safeguard. */
enum { EVENTS = 16 * SF_GRAPH_MAX };

/* Rewrites arguments first. A node that a rewrite has made is tried at once, so what moves down
 * continues to move down in the same sweep. */
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
                sf_ir_count_uses(ir, &order); /* rewrites check how often a node is used */
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
