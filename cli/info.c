/* info.c: what this program can do here. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* One line for each device, then the driver, compiler and cache, which are the same for all. If a
 * device cannot be queried, its line says why, and the next one follows. */
static void print_cuda(sf_context *ctx)
{
        sf_device_info info = SF_DEVICE_INFO_INIT;
        int32_t count, asked = 0;
        if (sf_device_count(ctx, SF_CUDA, &count)) {
                printf("               no CUDA: %s\n", sf_last_error(ctx));
                return;
        }
        for (int32_t i = 0; i < count; i++) {
                if (sf_device_describe(ctx, (sf_device){ SF_CUDA, i }, &info)) {
                        printf("               cuda:%d: %s\n", (int)i, sf_last_error(ctx));
                        continue;
                }
                asked++;
                printf("               cuda:%d %s, compute capability %d.%d, %d multiprocessors, %.1f GB\n", (int)i, info.name,
                       (int)info.capability / 10, (int)info.capability % 10, (int)info.multiprocessors, 1e-9 * (double)info.memory);
        }
        if (!count)
                printf("               no CUDA: the driver is there, but it shows this process no device\n");
        if (!asked)
                return;
        char folder[1024];
        printf("CUDA driver    %d.%d, %s\n", (int)info.driver / 1000, (int)info.driver % 1000 / 10, info.driver_path);
        if (info.compiler)
                printf("CUDA compiler  NVRTC %d.%d, %s\n", (int)info.compiler / 1000, (int)info.compiler % 1000 / 10, info.compiler_path);
        else
                printf("CUDA compiler  none: %s\n", info.compiler_path);
        if (!sf_cache_path(ctx, folder, sizeof(folder)))
                printf("CUDA cache     %s\n", *folder ? folder : "none: each process compiles for itself");
}

int command_info(int argc, char **argv)
{
        if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
                return print_help("info"), finish_stdout();
        if (argc > 1)
                return complain_usage("info", "info takes no argument, and was given %s", argv[1]);
        sf_context *ctx;
        int status = make_context(0, &ctx);
        if (status)
                return status;
        printf("scanfold       %s\n", sf_version_string());
        const char *chosen = sf_context_isa(ctx), *name;
        int32_t usable;
        printf("instructions  ");
        for (int32_t i = 0; (name = sf_isa_name(i, &usable)); i++)
                printf(" %s%s", name, !strcmp(name, chosen) ? " (chosen)" : usable ? "" : " (not on this CPU)");
        if (!strcmp(chosen, "ref"))
                printf(" ref (chosen)");
        printf("\nthreads        %d\n", (int)sf_context_threads(ctx));
        printf("devices        cpu\n");
        print_cuda(ctx);
        sf_context_destroy(ctx);
        return finish_stdout();
}
