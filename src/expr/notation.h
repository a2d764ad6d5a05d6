/* notation.h: what the two halves of the parser share: notation.c reads expressions,
 * notation_calls.c has the functions. */
#ifndef SF_NOTATION_H
#define SF_NOTATION_H

#include "expr/graph.h"

#define SF_CALL_MAX 20  /* arguments of one call */
#define SF_TUPLE_MAX 64 /* items of one tuple or list */

typedef enum sf_term_kind { SF_TERM_NODE, SF_TERM_NONE, SF_TERM_BOOL, SF_TERM_DTYPE, SF_TERM_TUPLE } sf_term_kind;

/* What a piece of text means. */
typedef struct sf_term {
        sf_term_kind kind;
        const char *at;  /* where it begins, for the caret in error messages */
        int32_t node;    /* NODE */
        bool yes;        /* BOOL */
        sf_dtype dtype;  /* DTYPE */
        int32_t count;   /* TUPLE: items first to first + count - 1 of the parser's */
        int32_t first;
} sf_term;

typedef struct sf_parser {
        sf_context *ctx;
        sf_graph *graph;
        const char *text, *at;
        sf_status status; /* why parsing stopped */
        int depth;
        int32_t placed; /* nodes up to this number have their column set */
        int32_t items;
        sf_term item[256]; /* of all tuples being parsed */
} sf_parser;

/* A name in the text. */
typedef struct sf_name {
        const char *at;
        size_t length;
} sf_name;

static inline bool sf_name_is(sf_name name, const char *word)
{
        for (size_t i = 0; i < name.length; i++)
                if (word[i] != name.at[i])
                        return false;
        return !word[name.length];
}

/* Fails with a message, then the line with a caret under `at`. Returns false. */
bool sf_notation_fail(sf_parser *p, const char *at, const char *format, ...) SF_PRINTF(3, 4);

/* Sets the column of all nodes that were made since the last such call. */
void sf_notation_place(sf_parser *p, const char *at);

/* Makes a term of the node that a library call returned. If that failed, the line and a caret are
 * added to its message. */
bool sf_notation_node(sf_parser *p, const char *at, int32_t node, sf_term *result);

/* The integer that a term is, such as -1. */
bool sf_notation_whole(const sf_parser *p, const sf_term *term, int64_t *value);

/* The dtype of this name ("f32", "float32"), if it is one. */
bool sf_notation_dtype(sf_name name, sf_dtype *dtype);

/* The latest error message is about this node: if the graph has a line, adds the line and a caret
 * to the message. Returns `status`. */
sf_status sf_notation_point(const sf_context *ctx, const sf_graph *graph, int32_t node, sf_status status);

typedef struct sf_argument {
        sf_name name; /* length 0: given by position */
        sf_term term;
} sf_argument;

/* Makes the nodes of a call of function or method `name`; a method's object is the first
 * argument. */
bool sf_notation_call(sf_parser *p, sf_name name, int32_t count, const sf_argument *arguments, sf_term *result);

#endif
