#include "expr_tools.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sf_dtype dtype_named(const char *name)
{
        static const struct {
                const char *name;
                sf_dtype dtype;
        } names[] = {{"f16", {2, 16, 1}}, {"bf16", {4, 16, 1}}, {"f32", {2, 32, 1}}, {"f64", {2, 64, 1}}, {"i8", {0, 8, 1}}, {"i16", {0, 16, 1}}, {"i32", {0, 32, 1}},
                     {"i64", {0, 64, 1}}, {"u8", {1, 8, 1}}, {"u16", {1, 16, 1}}, {"u32", {1, 32, 1}}, {"u64", {1, 64, 1}}, {"bool", {6, 8, 1}}};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                if (!strcmp(names[i].name, name))
                        return names[i].dtype;
        fprintf(stderr, "no dtype %s\n", name);
        abort();
}

void tool_read_shapes(const char *line, tool_shapes *s)
{
        char copy[512], *rest = copy, *word;
        snprintf(copy, sizeof copy, "%s", line);
        s->count = 0;
        while ((word = strtok_r(rest, " ", &rest))) {
                int i = s->count++;
                char *lengths = strchr(word, '='), *dtype = strchr(word, ':');
                if (!lengths || i == TOOL_INPUTS)
                        abort();
                *lengths++ = 0;
                if (dtype)
                        *dtype++ = 0;
                snprintf(s->name[i], sizeof s->name[i], "%s", word);
                s->tensor[i] = (sf_tensor){.device = {SF_CPU, 0}, .dtype = dtype_named(dtype ? dtype : "f32"), .shape = s->shape[i]};
                for (char *length = strtok(lengths, ","); length; length = strtok(NULL, ","))
                        s->shape[i][s->tensor[i].ndim++] = atoll(length);
        }
}

int tool_dt(sf_dtype dtype)
{
        int dt = 0;
        while (dts[dt].dtype.code != dtype.code || dts[dt].dtype.bits != dtype.bits)
                dt++;
        return dt;
}

int64_t tool_count(const sf_tensor *t)
{
        int64_t count = 1;
        for (int32_t d = 0; d < t->ndim; d++)
                count *= t->shape[d];
        return count;
}

void tool_order(const sf_graph *graph, const tool_shapes *s, sf_tensor *inputs)
{
        for (int32_t i = 0; i < sf_graph_inputs(graph); i++) {
                int found = -1;
                for (int k = 0; k < s->count; k++)
                        if (!strcmp(s->name[k], sf_graph_input_name(graph, i)))
                                found = k;
                if (found < 0) {
                        fprintf(stderr, "no shape for %s\n", sf_graph_input_name(graph, i));
                        abort();
                }
                inputs[i] = s->tensor[found];
        }
}

sf_plan *tool_plan(sf_context *ctx, const char *expression, const char *shapes, bool exact)
{
        tool_shapes s;
        sf_graph *graph;
        sf_plan *plan = NULL;
        sf_tensor inputs[TOOL_INPUTS];
        sf_plan_options options = SF_PLAN_OPTIONS_INIT;
        options.exact = exact;
        tool_read_shapes(shapes, &s);
        if (sf_graph_parse(ctx, expression, &graph) != SF_OK)
                return NULL;
        tool_order(graph, &s, inputs);
        if (sf_plan_create(ctx, graph, sf_graph_inputs(graph), inputs, &options, &plan) != SF_OK)
                plan = NULL;
        sf_graph_destroy(graph);
        return plan;
}

char *tool_json(sf_plan *plan)
{
        size_t needed;
        char *text;
        if (sf_plan_explain(plan, SF_EXPLAIN_JSON, NULL, 0, &needed) != SF_OK || !(text = malloc(needed)) ||
            sf_plan_explain(plan, SF_EXPLAIN_JSON, text, needed, NULL) != SF_OK)
                abort();
        return text;
}

const char *tool_field(const char *json, const char *key, char *value, size_t size)
{
        char quoted[64];
        size_t at = 0;
        snprintf(quoted, sizeof quoted, "\"%s\": ", key);
        const char *from = strstr(json, quoted);
        value[0] = 0;
        if (!from)
                return value;
        from += strlen(quoted);
        bool list = *from == '[';
        from += list;
        /* Strings of a list are joined with "; ". */
        bool inside = false;
        for (; *from && at + 3 < size; from++) {
                if (inside && *from == '\\')
                        value[at++] = *++from;
                else if (*from == '"')
                        inside = !inside;
                else if (!inside && ((list && *from == ']') || (!list && (*from == ',' || *from == '\n' || *from == '}'))))
                        break;
                else if (!inside && *from == ',')
                        value[at++] = ';';
                else
                        value[at++] = *from;
        }
        value[at] = 0;
        return value;
}
