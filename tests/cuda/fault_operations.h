/* fault_operations.h: what test_faults.c lets fail: operations that between them call every public function, and what they should come to. */
#ifndef SF_TEST_FAULT_OPERATIONS_H
#define SF_TEST_FAULT_OPERATIONS_H

#include "fake.h"

#include "scanfold.h"

enum { ROWS = 3, N = 120001 }; /* more than a megabyte: threads share it */
extern float x[ROWS][N], y[ROWS][N]; /* y: all results that are in memory of the host */

typedef struct operation {
        const char *name; /* NULL: behind the last one */
        sf_status (*run)(void);
        bool (*is_right)(void);
        bool (*is_whole)(void); /* after a failure, of several results: each is right or untouched. NULL: all are, or none is touched */
        long least; /* calls that can fail */
} operation;
extern const operation operations[];

enum { UNTOUCHED = 0x5a }; /* the bytes of y before */
bool is_untouched(const void *results, size_t bytes);
void operations_prepare(fake_cuda *cuda);

#endif
