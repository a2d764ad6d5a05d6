/* The plan for a person to read: passes, bytes before and after, the rewrites that were applied,
 * and what was not fused and why. */
#include "expr/explain.h"
#include "expr/rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------
 * Counting
 * ---------------------------------------------------------------------------------------------------------- */
static double bytes_of(const sf_ir_node *n)
{
        return (double)n->count * sf_dtypes[n->dt].size;
}

/* Does this node need no pass of its own? Inputs, constants and views need none, but a flip does.
 * Conversions are decided in count_before. */
static bool is_free(const sf_ir_node *n)
{
        return n->kind == SF_IR_INPUT || n->kind == SF_IR_CONSTANT || (sf_ir_is_view(n) && n->kind != SF_IR_FLIP);
}

/* The bytes that an operator reads for this argument. Of a view, it reads the tensor that it is a
 * view of. */
static double read_for(const sf_ir *ir, const sf_ir_node *n)
{
        double bytes = bytes_of(n);
        while (is_free(n) && n->arg[0]) {
                n = sf_ir_at(ir, n->arg[0]);
                bytes = bytes_of(n) < bytes ? bytes_of(n) : bytes;
        }
        if (n->kind == SF_IR_MAP && n->code == SF_CODE_CAST && bytes_of(sf_ir_at(ir, n->arg[0])) < bytes)
                bytes = bytes_of(sf_ir_at(ir, n->arg[0]));
        return n->kind == SF_IR_CONSTANT ? 0 : bytes;
}

/* Counts one pass for each operator, as the user wrote it. A conversion counts only if it is an
 * output (`top`); any other belongs to the operator that needs it. */
static void count_before(const sf_ir *ir, int32_t id, bool top, bool *seen, sf_traffic *t)
{
        const sf_ir_node *n = sf_ir_at(ir, id);
        bool conversion = n->kind == SF_IR_MAP && n->code == SF_CODE_CAST && !top;
        if (seen[id])
                return;
        seen[id] = true;
        int32_t args = n->kind == SF_IR_CONCAT ? n->nlist : sf_ir_args(n);
        bool mine = !is_free(n) && !conversion;
        for (int32_t i = 0; i < args; i++) {
                int32_t arg = n->kind == SF_IR_CONCAT ? n->list[i] : n->arg[i];
                bool again = false;
                for (int32_t k = 0; k < i; k++)
                        again |= arg == (n->kind == SF_IR_CONCAT ? n->list[k] : n->arg[k]);
                if (mine && !again)
                        t->read += read_for(ir, sf_ir_at(ir, arg));
                count_before(ir, arg, false, seen, t);
        }
        if (!mine)
                return;
        t->products |= n->kind == SF_IR_MATMUL;
        t->passes++;
        t->written += bytes_of(n);
}

/* Has an earlier pass of the same group read this operand already, or made it? */
static bool is_near(const sf_plan *plan, const sf_pass *pass, int32_t k)
{
        const sf_access *a = k < pass->operands ? &pass->operand[k] : &pass->mask;
        bool near = pass->sibling || (k < pass->operands && pass->made[k]);
        for (int32_t i = 0, count; i < plan->passes; i += count) {
                count = sf_plan_together(plan, i);
                int32_t at = i;
                while (at < i + count && plan->pass[at] != pass)
                        at++;
                for (int32_t e = i; at < i + count && e < at; e++) {
                        const sf_pass *earlier = plan->pass[e];
                        for (int32_t o = 0; o < earlier->operands + earlier->masked; o++)
                                near |= sf_plan_same_access(plan, o < earlier->operands ? &earlier->operand[o] : &earlier->mask, a);
                }
        }
        return near;
}

sf_traffic sf_story_pass(const sf_story *s, const sf_pass *pass)
{
        sf_traffic t = {.passes = 1, .written = pass->step.within ? 0 : bytes_of(sf_ir_at(&s->plan->ir, pass->root))};
        double positions = 1;
        for (int32_t d = 0; d < pass->ndim; d++)
                positions *= (double)pass->shape[d];
        for (int32_t k = 0; k < pass->operands + pass->masked; k++) {
                if (is_near(s->plan, pass, k))
                        continue;
                const sf_access *a = k < pass->operands ? &pass->operand[k] : &pass->mask;
                double extent = sf_access_extent(s->plan, pass, a);
                t.read += (extent < positions ? extent : positions) * sf_dtypes[s->plan->buffer[a->buffer].dt].size;
        }
        return t;
}

/* ------------------------------------------------------------------------------------------------------------
 * Naming
 * ---------------------------------------------------------------------------------------------------------- */
const char *sf_story_show(sf_story *s, int32_t node, bool labelled)
{
        if (sf_ir_print_labelled(&s->plan->ir, node, labelled ? s->label : NULL, s->shown, s->room) >= s->room)
                memcpy(s->shown + s->room - 4, "...", 4);
        return s->shown;
}

const char *sf_story_buffer(const sf_story *s, int32_t buffer, char text[16])
{
        const sf_buffer *b = &s->plan->buffer[buffer];
        switch (b->place) {
        case SF_PLACE_INPUT: return s->plan->ir.name[b->index];
        case SF_PLACE_OUTPUT: return s->plan->output_name[b->index];
        default: snprintf(text, 16, "t%d", (int)s->label[b->node]); return text;
        }
}

const char *sf_story_kind(const sf_pass *pass)
{
        return !pass->core ? "map" : pass->step.fold ? "fold" : "scan";
}

static sf_status start(sf_story *s, sf_plan *plan)
{
        const sf_ir *ir = &plan->ir;
        size_t nodes = (size_t)ir->nodes + 1;
        bool *seen = calloc(nodes, sizeof *seen);
        enum { MANY = 40 };
        s->plan = plan;
        s->room = ir->events > MANY ? SF_SHOWN_OF_MANY : SF_SHOWN;
        s->label = calloc(nodes, sizeof *s->label);
        if (!seen || !s->label) {
                free(seen);
                free(s->label);
                return sf_fail(plan->ctx, SF_OUT_OF_MEMORY, "no memory for an explanation");
        }
        for (int32_t i = 0; i < ir->outputs; i++)
                count_before(ir, ir->output[i], true, seen, &s->before);
        free(seen);
        int32_t labels = 0;
        for (int32_t i = 0; i < plan->passes; i++) {
                const sf_buffer *out = &plan->buffer[plan->pass[i]->out.buffer];
                if (out->place == SF_PLACE_SCRATCH && !s->label[out->node])
                        s->label[out->node] = ++labels;
                sf_traffic t = sf_story_pass(s, plan->pass[i]);
                s->after.passes += !sf_pass_joins(plan->pass[i]);
                s->after.products |= plan->pass[i]->products;
                s->after.read += t.read;
                s->after.written += t.written;
        }
        s->bandwidth = sf_bandwidth(plan->ctx, plan->device, &s->bandwidth_is, s->device);
        return SF_OK;
}

/* Prints "268.4 MB". */
static void add_bytes(sf_text *t, double bytes)
{
        static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
        int unit = 0;
        for (; bytes >= 999.95 && unit < 5; unit++)
                bytes /= 1000;
        sf_text_real(t, bytes, unit ? 1 : 0);
        sf_text_add(t, " %s", units[unit]);
}

static void add_seconds(sf_text *t, double seconds)
{
        if (seconds >= 1)
                sf_text_real(t, seconds, 2);
        else if (seconds >= 1e-3)
                sf_text_real(t, seconds * 1e3, 2);
        else
                sf_text_real(t, seconds * 1e6, 1);
        sf_text_add(t, seconds >= 1 ? " s" : seconds >= 1e-3 ? " ms" : " us");
}

/* ------------------------------------------------------------------------------------------------------------
 * Text
 * ---------------------------------------------------------------------------------------------------------- */
static void text_traffic(sf_text *t, const char *when, const sf_traffic *x)
{
        sf_text_add(t, "%s %d pass%s, ", when, (int)x->passes, x->passes == 1 ? "" : "es");
        add_bytes(t, x->read);
        sf_text_add(t, " read, ");
        add_bytes(t, x->written);
        sf_text_add(t, " written\n");
}

static void text_passes(sf_story *s, sf_text *t)
{
        const sf_plan *plan = s->plan;
        char name[16];
        for (int32_t i = 0, number = 0; i < plan->passes; i++) {
                const sf_pass *pass = plan->pass[i];
                const sf_buffer *out = &plan->buffer[pass->out.buffer];
                sf_traffic moved = sf_story_pass(s, pass);
                if (pass->sibling)
                        sf_text_add(t, "  same read  ");
                else if (pass->follows || pass->across)
                        sf_text_add(t, "  same lines ");
                else
                        sf_text_add(t, "  pass %-4d  ", (int)++number);
                sf_text_add(t, "%-4s  %s", sf_story_kind(pass),
                            sf_story_buffer(s, pass->out.buffer, name));
                sf_text_add(t, out->node == pass->root ? " = %s\n" : " (part) = %s\n", sf_story_show(s, pass->root, true));
                sf_text_add(t, "               ");
                if (!pass->sibling) {
                        sf_text_add(t, "reads ");
                        add_bytes(t, moved.read);
                        sf_text_add(t, pass->operands ? " (" : "");
                        for (int32_t k = 0; k < pass->operands; k++)
                                sf_text_add(t, k ? ", %s" : "%s",
                                            sf_story_buffer(s, pass->operand[k].buffer, name));
                        if (pass->masked)
                                sf_text_add(t, ", mask %s",
                                            sf_story_buffer(s, pass->mask.buffer, name));
                        sf_text_add(t, pass->operands ? "), " : ", ");
                }
                sf_text_add(t, "writes ");
                add_bytes(t, moved.written);
                sf_text_add(t, pass->step.within ? "; it stays near" : "");
                sf_text_add(t, pass->kept >= 0 ? "; kept while the versions of what it reads stay\n" : "\n");
                if (pass->again)
                        sf_text_add(t, "               results that are not finite are computed "
                                       "again as written\n");
        }
        if (!plan->passes)
                sf_text_add(t, "  nothing: no output has an element\n");
}

static void explain_text(sf_story *s, sf_text *t)
{
        const sf_plan *plan = s->plan;
        const sf_ir *ir = &plan->ir;
        char shape[128];
        for (int32_t i = 0; i < ir->outputs; i++)
                sf_text_add(t, "%s\n", sf_story_show(s, ir->output[i], false));
        for (int32_t i = 0; i < ir->inputs; i++) {
                const sf_buffer *b = &plan->buffer[plan->input_buffer[i]];
                sf_text_add(t, "  %s: %s %s\n", ir->name[i], sf_dtypes[b->dt].name, sf_shape_text(b->ndim, b->shape, shape));
        }
        sf_text_add(t, "  on %s%s\n\nbecomes\n", s->device, ir->exact ? ", exact" : "");
        for (int32_t i = 0; i < ir->outputs; i++)
                sf_text_add(t, "  %s\n", sf_story_show(s, sf_ir_now(ir, ir->output[i]), false));
        sf_text_add(t, "\nin\n");
        text_passes(s, t);
        sf_text_add(t, "\n");
        text_traffic(t, "before:", &s->before);
        text_traffic(t, "after: ", &s->after);
        if (plan->scratch) {
                sf_text_add(t, "scratch: ");
                add_bytes(t, (double)plan->scratch);
                sf_text_add(t, "\n");
        }
        if (s->bandwidth > 0) {
                sf_text_add(t, "expected time: %s", s->after.products ? "more than " : "");
                add_seconds(t, (s->after.read + s->after.written) / s->bandwidth);
                sf_text_add(t, " at ");
                add_bytes(t, s->bandwidth);
                sf_text_add(t, "/s (%s); one pass an operator: %s", s->bandwidth_is, s->before.products ? "more than " : "");
                add_seconds(t, (s->before.read + s->before.written) / s->bandwidth);
                sf_text_add(t, "\n");
        } else {
                sf_text_add(t, "expected time: the bandwidth is %s\n", s->bandwidth_is);
        }
        sf_text_add(t, ir->events ? "\nrewrites\n" : "\nrewrites: none\n");
        for (int32_t i = 0; i < ir->events; i++) {
                const sf_ir_event *e = &ir->event[i];
                sf_text_add(t, "  %s%s\n", e->rewrite->sentence, e->rounds ? "  [rounds differently]" : "");
                sf_text_add(t, "       %s\n", sf_story_show(s, e->before, false));
                sf_text_add(t, "    -> %s\n", sf_story_show(s, e->after, false));
        }
        if (ir->merged)
                sf_text_add(t, "  %d common subexpression%s computed once\n", (int)ir->merged, ir->merged == 1 ? "" : "s");
        sf_text_add(t, plan->remarks ? "\nnot fused\n" : "");
        for (int32_t i = 0; i < plan->remarks; i++)
                sf_text_add(t, "  %s: %s\n", sf_story_show(s, plan->remark[i].node, true), plan->remark[i].why);
}

/* ------------------------------------------------------------------------------------------------------------
 * JSON
 * ---------------------------------------------------------------------------------------------------------- */
static void json_string(sf_text *t, const char *key, const char *value)
{
        if (key)
                sf_text_add(t, "\"%s\": ", key);
        sf_text_add(t, "\"");
        sf_text_json(t, value);
        sf_text_add(t, "\"");
}

static void json_traffic(sf_text *t, const char *key, const sf_traffic *x)
{
        sf_text_add(t, "  \"%s\": {\"passes\": %d, \"bytes_read\": ", key, (int)x->passes);
        sf_text_real(t, x->read, 0);
        sf_text_add(t, ", \"bytes_written\": ");
        sf_text_real(t, x->written, 0);
        sf_text_add(t, "},\n");
}

static void json_outputs(sf_story *s, sf_text *t, const char *key, bool rewritten)
{
        const sf_ir *ir = &s->plan->ir;
        sf_text_add(t, "  \"%s\": [", key);
        for (int32_t i = 0; i < ir->outputs; i++) {
                sf_text_add(t, i ? ", " : "");
                json_string(t, NULL, sf_story_show(s, rewritten ? sf_ir_now(ir, ir->output[i]) : ir->output[i], false));
        }
        sf_text_add(t, "],\n");
}

static void json_passes(sf_story *s, sf_text *t)
{
        char name[16];
        sf_text_add(t, "  \"passes\": [");
        for (int32_t i = 0; i < s->plan->passes; i++) {
                const sf_pass *pass = s->plan->pass[i];
                sf_traffic moved = sf_story_pass(s, pass);
                sf_text_add(t, "%s\n    {\"kind\": \"%s\", ", i ? "," : "", sf_story_kind(pass));
                json_string(t, "writes", sf_story_buffer(s, pass->out.buffer, name));
                sf_text_add(t, ", ");
                json_string(t, "computes", sf_story_show(s, pass->root, true));
                sf_text_add(t, ", \"reads\": [");
                for (int32_t k = 0; k < pass->operands + pass->masked; k++) {
                        const sf_access *a = k < pass->operands ? &pass->operand[k] : &pass->mask;
                        sf_text_add(t, k ? ", " : "");
                        json_string(t, NULL, sf_story_buffer(s, a->buffer, name));
                }
                sf_text_add(t, "], \"bytes_read\": ");
                sf_text_real(t, moved.read, 0);
                sf_text_add(t, ", \"bytes_written\": ");
                sf_text_real(t, moved.written, 0);
                sf_text_add(t,
                            ", \"fused\": %s, \"same_read\": %s, \"same_lines\": %s, \"kept\": %s, \"products\": %s, "
                            "\"again\": %s}",
                            pass->fused ? "true" : "false", pass->sibling ? "true" : "false", pass->follows || pass->across ? "true" : "false",
                            pass->kept >= 0 ? "true" : "false", pass->products ? "true" : "false",
                            pass->again ? "true" : "false");
        }
        sf_text_add(t, "],\n");
}

static void explain_json(sf_story *s, sf_text *t)
{
        const sf_plan *plan = s->plan;
        const sf_ir *ir = &plan->ir;
        sf_text_add(t, "{\n");
        json_outputs(s, t, "expression", false);
        json_outputs(s, t, "rewritten", true);
        sf_text_add(t, "  \"exact\": %s,\n  ", ir->exact ? "true" : "false");
        json_string(t, "device", s->device);
        sf_text_add(t, ",\n  \"inputs\": [");
        for (int32_t i = 0; i < ir->inputs; i++) {
                const sf_buffer *b = &plan->buffer[plan->input_buffer[i]];
                sf_text_add(t, "%s{", i ? ", " : "");
                json_string(t, "name", ir->name[i]);
                sf_text_add(t, ", \"dtype\": \"%s\", \"shape\": [", sf_dtypes[b->dt].name);
                for (int32_t d = 0; d < b->ndim; d++)
                        sf_text_add(t, d ? ", %" PRId64 : "%" PRId64, b->shape[d]);
                sf_text_add(t, "]}");
        }
        sf_text_add(t, "],\n");
        json_passes(s, t);
        json_traffic(t, "before", &s->before);
        json_traffic(t, "after", &s->after);
        sf_text_add(t, "  \"rewrites\": [");
        for (int32_t i = 0; i < ir->events; i++) {
                const sf_ir_event *e = &ir->event[i];
                sf_text_add(t, "%s\n    {", i ? "," : "");
                json_string(t, "name", e->rewrite->name);
                sf_text_add(t, ", ");
                json_string(t, "rewrite", e->rewrite->sentence);
                sf_text_add(t, ", ");
                json_string(t, "before", sf_story_show(s, e->before, false));
                sf_text_add(t, ", ");
                json_string(t, "after", sf_story_show(s, e->after, false));
                sf_text_add(t, ", \"rounds\": %s}", e->rounds ? "true" : "false");
        }
        sf_text_add(t, "],\n  \"not_fused\": [");
        for (int32_t i = 0; i < plan->remarks; i++) {
                sf_text_add(t, "%s{", i ? ", " : "");
                json_string(t, "node", sf_story_show(s, plan->remark[i].node, true));
                sf_text_add(t, ", ");
                json_string(t, "why", plan->remark[i].why);
                sf_text_add(t, "}");
        }
        sf_text_add(t, "],\n  \"scratch\": %" PRId64 ",\n  \"bytes_per_second\": ", plan->scratch);
        sf_text_real(t, s->bandwidth, 0);
        sf_text_add(t, ",\n  ");
        json_string(t, "bandwidth_is", s->bandwidth_is);
        sf_text_add(t, ",\n  \"expected_seconds\": ");
        if (s->bandwidth > 0)
                sf_text_real(t, (s->after.read + s->after.written) / s->bandwidth, 9);
        else
                sf_text_add(t, "null");
        sf_text_add(t, "\n}\n");
}

sf_status sf_plan_explain(sf_plan *plan, sf_explain_format format, char *text, size_t size, size_t *needed)
{
        static void (*const formats[])(sf_story *, sf_text *) = {
                [SF_EXPLAIN_TEXT] = explain_text, [SF_EXPLAIN_JSON] = explain_json, [SF_EXPLAIN_DOT] = sf_explain_dot, [SF_EXPLAIN_SVG] = sf_explain_svg};
        if (!plan)
                return sf_fail(NULL, SF_INVALID_ARGUMENT, "plan is NULL; it must be a plan");
        if ((int)format < 0 || (int)format > SF_EXPLAIN_SVG)
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "format is %d; it must be SF_EXPLAIN_TEXT, _JSON, _DOT or _SVG", (int)format);
        if (!text && size)
                return sf_fail(plan->ctx, SF_INVALID_ARGUMENT, "text is NULL but size is %zu", size);
        sf_story *s = calloc(1, sizeof *s);
        if (!s)
                return sf_fail(plan->ctx, SF_OUT_OF_MEMORY, "no memory for an explanation");
        sf_status status = start(s, plan);
        if (status == SF_OK) {
                sf_text t = {size ? text : NULL, size, 0};
                formats[format](s, &t);
                if (needed)
                        *needed = t.at + 1;
                free(s->label);
        }
        free(s);
        return status;
}
