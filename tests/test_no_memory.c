/*
 * Expressions without memory: every allocation on the way from a line to its result fails in turn.
 * What fails says so, leaks nothing, and the next call works. The linker puts these functions
 * before the C library's.
 */
#include "expr_tools.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);

static long until_failure = -1; /* this many more calls succeed; negative: all of them */
static bool failed;

static bool fails(void)
{
        if (until_failure < 0 || until_failure-- > 0)
                return false;
        failed = true;
        until_failure = -1;
        return true;
}

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
        return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
        return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
        return fails() ? NULL : __real_realloc(block, size);
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
        return fails() ? NULL : __real_strdup(text);
}

/* Long enough that every array of a graph has to grow, some of them twice. */
static const char line[] =
        "cumsum(flip(a * b + c[1:, None], (0, 1)), 1), sum(concat([d, e, a, b], 0), (0, 1)), "
        "mean(clamp(f.T, 0, 1) - 1 + 2 * f.T - 3 - f.T * 4 - f.T + 5 + f.T / 6, 0, keepdim=True), "
        /* and one that is computed again where it is not finite */
        "linear(a, b), permute(a, (1, 0)), sum(a @ f, 1)";
static const char shapes[] = "a=4,4 b=4,4 c=5 d=2,4 e=3,4 f=4,4";

enum { PARSE, PLAN, EXPLAIN, STEPS };
static const char *const steps[STEPS] = {"parsing", "planning", "explaining"};
static sf_graph *graph;
static sf_plan *plan;
static sf_tensor in[TOOL_INPUTS];

static sf_status run_step(int step)
{
        size_t needed;
        switch (step) {
        case PARSE: return sf_graph_parse(NULL, line, &graph);
        case PLAN: return sf_plan_create(NULL, graph, sf_graph_inputs(graph), in, NULL, &plan);
        default: return sf_plan_explain(plan, SF_EXPLAIN_JSON, NULL, 0, &needed);
        }
}

int main(void)
{
        static const long least[STEPS] = {10, 1, 2};
        long checks = 0;
        tool_shapes s;
        tool_read_shapes(shapes, &s);
        sf_context_isa(NULL); /* the default context is made once */
        for (int step = 0; step < STEPS; step++) {
                long at = 0;
                for (failed = true; failed && at < 1000; at++, checks++) {
                        failed = false;
                        until_failure = at;
                        sf_status status = run_step(step);
                        until_failure = -1;
                        const char *sentence = sf_last_error(NULL);
                        /* Without memory to measure the machine's speed with, an explanation says
                         * that it is not known. */
                        if (step == EXPLAIN && status == SF_OK)
                                continue;
                        CHECK(status == (failed ? SF_OUT_OF_MEMORY : SF_OK),
                              "%s, failure %ld: %s (%s)", steps[step], at, sf_status_name(status),
                              sentence);
                        CHECK(!failed || (strstr(sentence, "no memory") && !strchr(sentence, '^')),
                              "%s, failure %ld: %s", steps[step], at, sentence);
                }
                CHECK(at > least[step], "%s has only %ld allocations", steps[step], at - 1);
                if (step == PARSE)
                        tool_order(graph, &s, in);
        }
        sf_plan_destroy(plan);
        sf_graph_destroy(graph);
        return finish("test_no_memory", checks);
}
