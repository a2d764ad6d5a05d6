/* laws.h: what the laws of test_laws.c and laws_some.c share: an engine, an operation and two dtypes at a time. */
#ifndef SF_TEST_LAWS_H
#define SF_TEST_LAWS_H

#include "harness.h"

enum { LONGEST = 1 << 17, SHORT = 1000, SIZE = 8 };
/* How a scan is done; flips are negative strides. */
enum { REVERSE = 1, EXCLUSIVE = 2, FLIP_IN = 4, FLIP_OUT = 8 };

/* What the laws are checked for now. */
typedef struct kind {
        sf_op op;
        int in, out, acc;
} kind;

extern long checks;
extern const engine *now;
extern kind k;
extern char *x, *y, *z, *t, *wide; /* LONGEST elements each; x has elements of k.in */

bool is_real(int dt);
char *in_at(char *base, int64_t i);
char *out_at(char *base, int64_t i);
int64_t integer_at(int dt, const char *p);

void need(sf_status status);
/* Are these `count` results the same? */
void equal(const char *law, int64_t n, const char *a, const char *b, int64_t count);

void scan(char *from, char *to, int64_t n, int how);
/* The same of other dtypes, and with whatever else the options have. */
void scan_with(sf_scan_options o, int in, int out, char *from, char *to, int64_t n, int how);
void fold(char *from, char *to, int32_t ndim, const int64_t *shape, const int64_t *strides, int how);
/* Each element by itself, converted: lines of one element have nothing to combine. */
void convert(int in, int out, char *from, char *to, int64_t n);
/* The fold of no elements, as the header defines it. */
void put_identity(int dt, char *to);

/* laws_some.c: the laws of some operations only. */
void laws_of_some(void);

#endif
