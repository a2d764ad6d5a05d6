/* explain.h: what explain.c finds out, and the formats print. */
#ifndef SF_EXPLAIN_H
#define SF_EXPLAIN_H

#include "expr/plan.h"
#include "expr/text.h"

/* The text of a node is cut to this length; if there are many rewrites, to the shorter one. */
#define SF_SHOWN 2000
#define SF_SHOWN_OF_MANY 200

typedef struct sf_traffic {
        int32_t passes;
        double read, written; /* bytes */
        /* there is a matmul: the arithmetic, not the bytes, decides how long it takes */
        bool products;
} sf_traffic;

typedef struct sf_story {
        const sf_plan *plan;
        int32_t *label;            /* by node: its number among the intermediate results, or 0 */
        sf_traffic before, after;
        double bandwidth;          /* bytes a second; 0: not known */
        const char *bandwidth_is;  /* where the number comes from */
        char device[160];
        size_t room;               /* of `shown` */
        char shown[SF_SHOWN];      /* the node shown last */
} sf_story;

/* A node in the notation, cut if it is long. `labelled`: intermediate results are shown by their
 * names. */
const char *sf_story_show(sf_story *s, int32_t node, bool labelled);
/* The tensor's name: an input's name, "out", or t1, which is written to `text`. */
const char *sf_story_buffer(const sf_story *s, int32_t buffer, char text[16]);
const char *sf_story_kind(const sf_pass *pass);
/* The bytes that one pass reads and writes. */
sf_traffic sf_story_pass(const sf_story *s, const sf_pass *pass);

/* bandwidth.c: the bytes a second that this device moves, read and written together. *is says where
 * the number comes from. */
double sf_bandwidth(sf_context *ctx, sf_device device, const char **is, char name[160]);

/* explain_picture.c */
void sf_explain_dot(sf_story *s, sf_text *t);
void sf_explain_svg(sf_story *s, sf_text *t);

#endif
