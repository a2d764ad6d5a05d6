/* check.h: what the tests of the CUDA backend's host side share. */
#ifndef SF_TEST_CUDA_CHECK_H
#define SF_TEST_CUDA_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
static long checks;

#define CHECK(condition, ...)                                                                                      \
        do {                                                                                                       \
                checks++;                                                                                          \
                if (!(condition)) {                                                                                \
                        failures++;                                                                                \
                        fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                            \
                        fprintf(stderr, __VA_ARGS__);                                                              \
                        fputc('\n', stderr);                                                                       \
                }                                                                                                  \
        } while (0)

/* ctest counts a test that returns this as skipped. */
#define SKIPPED 77

static inline int finish(const char *name)
{
        printf("%s: %ld checks, %d failed\n", name, checks, failures);
        return failures != 0;
}

#endif
