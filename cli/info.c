/* info.c: what this program can do here. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

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
        sf_context_destroy(ctx);
        return finish_stdout();
}
