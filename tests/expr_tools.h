/* expr_tools.h: expressions from text for tests: shapes from a line, plans, what they were rewritten to. */
#ifndef SF_TEST_EXPR_TOOLS_H
#define SF_TEST_EXPR_TOOLS_H

#include "scanfold.h"

#include <stdbool.h>

#define TOOL_INPUTS 8

/* Inputs as "x=4,5 m=5:bool w=3,4:f64"; f32 where no dtype is given, "s=" for rank 0. */
typedef struct tool_shapes {
        int count;
        char name[TOOL_INPUTS][16];
        int64_t shape[TOOL_INPUTS][8];
        sf_tensor tensor[TOOL_INPUTS]; /* without data */
} tool_shapes;

/* Fills `shapes`, whose tensors point into it. */
void tool_read_shapes(const char *line, tool_shapes *shapes);

/* The number of a dtype in the harness's list, and how many elements a tensor has. */
int tool_dt(sf_dtype dtype);
int64_t tool_count(const sf_tensor *t);

/* The shapes in the order the graph has its inputs; aborts on a name that is missing. */
void tool_order(const sf_graph *graph, const tool_shapes *shapes, sf_tensor *inputs);

/* Returns a plan, or NULL with the sentence in sf_last_error. */
sf_plan *tool_plan(sf_context *ctx, const char *expression, const char *shapes, bool exact);

/* The explanation as JSON, to be freed; and a field of it ("rewritten" and the like), as the text between its brackets, unescaped. */
char *tool_json(sf_plan *plan);
/* Copies the value that follows "key": up to its closing quote, bracket or comma. */
const char *tool_field(const char *json, const char *key, char *value, size_t size);

#endif
