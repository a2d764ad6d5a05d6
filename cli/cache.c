/* cache.c: the compiled CUDA kernels on disk: compiles them ahead of time, lists and removes
 * them. */
#include "cli.h"
#include "progress.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALL_DEVICES = -1, PATH_SIZE = 1024 };

struct tally {
        int64_t entries, bytes;
};

static void count_entry(void *user, const char *name, const char *about, int64_t bytes, int64_t used)
{
        struct tally *tally = user;
        (void)name, (void)about, (void)used;
        tally->entries++;
        tally->bytes += bytes;
}

static void print_entry(void *user, const char *name, const char *about, int64_t bytes, int64_t used)
{
        time_t seconds = (time_t)used;
        struct tm when;
        char day[32] = "";
        if (localtime_r(&seconds, &when))
                strftime(day, sizeof(day), "%Y-%m-%d %H:%M", &when);
        count_entry(user, name, about, bytes, used);
        printf("%s %9.1f KB  %.12s  %s\n", day, 1e-3 * (double)bytes, name, about);
}

/* "3 kernels, 0.1 MB, in /home/me/.cache/scanfold" */
static void print_tally(const struct tally *tally, const char *folder)
{
        printf("%" PRId64 " kernel%s, %.1f MB, in %s\n", tally->entries, tally->entries == 1 ? "" : "s",
               1e-6 * (double)tally->bytes, folder);
}

static int find_folder(sf_context *ctx, char folder[PATH_SIZE])
{
        if (sf_cache_path(ctx, folder, PATH_SIZE))
                return complain("%s", sf_last_error(ctx));
        if (!*folder)
                return complain("there is no folder for compiled kernels: %s; SCANFOLD_CACHE_DIR can name one",
                                getenv("SCANFOLD_CACHE_DIR") ? "SCANFOLD_CACHE_DIR is set to nothing, which turns it off"
                                                             : "neither SCANFOLD_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set");
        return CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------------------
 * warm
 * ---------------------------------------------------------------------------------------------------------- */
struct warming {
        char label[24];
        int32_t done, of;
};

static int warmed_one(void *user, const char *what, int32_t done, int32_t of)
{
        struct warming *w = user;
        (void)what;
        if (!w->of) /* how many there are is known only now; until here the bar showed seconds */
                progress_start(w->label, (uint64_t)of, 0);
        progress_add((uint64_t)(done - w->done));
        w->done = done;
        w->of = of;
        return 0;
}

static int warm_device(sf_context *ctx, int32_t number)
{
        sf_device_info info = SF_DEVICE_INFO_INIT;
        sf_device device = { SF_CUDA, number };
        struct warming w = { "", 0, 0 };
        if (sf_device_describe(ctx, device, &info))
                return complain("%s", sf_last_error(ctx));
        snprintf(w.label, sizeof(w.label), "cuda:%d", (int)number);
        progress_start(w.label, 0, 0);
        sf_status status = sf_cache_warm(ctx, device, warmed_one, &w);
        progress_stop();
        if (status)
                return complain("%s", sf_last_error(ctx));
        printf("cuda:%d %s: %d common calls are compiled\n", (int)number, info.name, (int)w.done);
        return CLI_DONE;
}

static int warm(sf_context *ctx, const char *folder, int32_t number)
{
        int32_t count;
        struct tally tally = { 0, 0 };
        if (sf_device_count(ctx, SF_CUDA, &count))
                return complain("%s", sf_last_error(ctx));
        if (!count)
                return complain("there is no CUDA device to compile kernels for");
        for (int32_t i = 0; i < count; i++) {
                int status = number == ALL_DEVICES || number == i ? warm_device(ctx, i) : CLI_DONE;
                if (status)
                        return status;
        }
        if (number >= count)
                return complain("there is no CUDA device %d; this process sees %d, numbered from 0", (int)number, (int)count);
        /* If the library cannot write to the cache, that is no error when it computes; here writing
         * was the purpose. */
        sf_cache_list(ctx, count_entry, &tally);
        if (!tally.entries)
                return complain("nothing could be kept in %s; it must be a folder this user can write, and SCANFOLD_CACHE_MB not 0",
                                folder);
        print_tally(&tally, folder);
        return CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------------------
 * The command
 * ---------------------------------------------------------------------------------------------------------- */
static int list(sf_context *ctx, const char *folder)
{
        struct tally tally = { 0, 0 };
        if (sf_cache_list(ctx, print_entry, &tally))
                return complain("%s", sf_last_error(ctx));
        print_tally(&tally, folder);
        return CLI_DONE;
}

static int clear(sf_context *ctx, const char *folder)
{
        int64_t removed;
        if (sf_cache_clear(ctx, &removed))
                return complain("%s", sf_last_error(ctx));
        printf("removed %" PRId64 " kernel%s from %s\n", removed, removed == 1 ? "" : "s", folder);
        return CLI_DONE;
}

int command_cache(int argc, char **argv)
{
        static const struct option options[] = {
                { "device", required_argument, NULL, 'd' },
                { "quiet", no_argument, NULL, 'q' },
                { "help", no_argument, NULL, 'h' },
                { NULL, 0, NULL, 0 },
        };
        int64_t number = ALL_DEVICES;
        int option;
        while ((option = getopt_long(argc, argv, ":qh", options, NULL)) != -1) {
                if (option == 'h')
                        return print_help("cache"), finish_stdout();
                if (option == ':' || option == '?')
                        return complain_option("cache", option, argv);
                if (option == 'q')
                        progress_silence();
                else if (parse_int(optarg, 0, INT32_MAX, &number))
                        return complain_usage("cache", "--device %s is not a device's number, 0 or more", optarg);
        }
        const char *action = optind < argc ? argv[optind] : "";
        int is_warm = !strcmp(action, "warm"), is_list = !strcmp(action, "list");
        if (!*action)
                return complain_usage("cache", "say what to do with the cache: warm, list or clear");
        if (!is_warm && !is_list && strcmp(action, "clear"))
                return complain_usage("cache", "%s is nothing to do with the cache; say warm, list or clear", action);
        if (argc - optind > 1)
                return complain_usage("cache", "cache %s takes no file, and was given %s", action, argv[optind + 1]);
        if (!is_warm && number != ALL_DEVICES)
                return complain_usage("cache", "--device is for warm; the cache of all devices is one folder");

        sf_context *ctx;
        char folder[PATH_SIZE];
        int status = make_context(0, &ctx);
        if (status)
                return status;
        status = find_folder(ctx, folder);
        if (!status)
                status = is_warm ? warm(ctx, folder, (int32_t)number) : is_list ? list(ctx, folder) : clear(ctx, folder);
        sf_context_destroy(ctx);
        return status ? status : finish_stdout();
}
