/* test_dlclose LIBRARY: loads it, lets it compute on several threads, unloads it, and goes on for a
 * while. */
#include "scanfold.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N = 1 << 20, ROUNDS = 5 };
static float x[N], y[N];

int main(int argc, char **argv)
{
        setenv("SCANFOLD_NUM_THREADS", "3", 1);
        for (int round = 0; round < ROUNDS; round++) {
                void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
                sf_status (*scan)(sf_context *, const sf_tensor *, const sf_tensor *,
                                  const sf_scan_options *) = NULL;
                int64_t shape[1] = {N};
                sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F32,
                                .shape = shape}, ty = tx;
                if (library)
                        *(void **)&scan = dlsym(library, "sf_scan");
                ty.data = y;
                for (int i = 0; i < N; i++)
                        x[i] = 1;
                if (!scan || scan(NULL, &tx, &ty, NULL) != SF_OK || y[N - 1] != N) {
                        printf("test_dlclose: no scan (%s)\n", library ? "wrong" : dlerror());
                        return 1;
                }
                dlclose(library);
                /* threads that were watching for work have gone to sleep */
                nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
        puts("test_dlclose: loaded and unloaded");
        return 0;
}
