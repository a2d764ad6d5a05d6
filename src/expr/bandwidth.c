/* How many bytes a second a device moves: measured on the CPU, from a table for GPUs. */
#include "expr/explain.h"

#include "core/choose.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Much larger than a cache, but quick to copy. */
enum { BYTES = 64 << 20, TIMES = 4 };

/* Measures a copy, made with the threads and store instructions that all other work uses. */
static double measure_host(sf_context *ctx)
{
        char *memory = malloc(2 * (size_t)BYTES);
        double best = 0;
        if (!memory)
                return 0;
        memset(memory, 1, 2 * (size_t)BYTES); /* so that all pages are mapped */
        int64_t shape[1] = {BYTES / 4};
        sf_view x = {.data = memory, .dt = SF_DT_F32, .ndim = 1, .count = shape[0], .shape = shape, .strides = {4}}, y = x;
        y.data = memory + BYTES;
        for (int i = 0; i < TIMES; i++) {
                sf_step step = {.device = {SF_CPU, 0}};
                sf_step_pair(&step, SF_SUM, SF_DT_F32, SF_DT_F32);
                double start = now();
                if (ctx->backend == SF_BACKEND_REF) /* whose speed says nothing about the memory */
                        memcpy(y.data, x.data, BYTES);
                else if (sf_run_steps(ctx, 1, &step, &(sf_step_views){.x = &x, .y = &y}, NULL, 0, NULL) != SF_OK)
                        break;
                double took = now() - start;
                if (took > 0 && 2.0 * BYTES / took > best)
                        best = 2.0 * BYTES / took;
        }
        free(memory);
        return best;
}

static double host_bandwidth(sf_context *ctx)
{
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static double measured;
        pthread_mutex_lock(&lock);
        if (measured == 0)
                measured = measure_host(ctx);
        double answer = measured;
        pthread_mutex_unlock(&lock);
        return answer;
}

double sf_bandwidth(sf_context *ctx, sf_device device, const char **is, char name[160])
{
        /* The rate of the H200 was measured with a device copy (bench/results/gpu.md). Those of the
         * others are nine tenths of what their data sheets say. */
        static const struct {
                const char *chip;
                double rate;
                const char *is;
        } chips[] = {
                {"H200", 4.35e12, "measured with a device copy on an H200"}, {"H100 PCIe", 0.9 * 2.0e12, NULL}, {"H100 NVL", 0.9 * 3.9e12, NULL},
                {"H100", 0.9 * 3.35e12, NULL}, {"B200", 0.9 * 8.0e12, NULL}, {"A100-SXM4-80GB", 0.9 * 2.04e12, NULL}, {"A100", 0.9 * 1.555e12, NULL},
                {"L40S", 0.9 * 0.864e12, NULL}, {"L4", 0.9 * 0.3e12, NULL}, {"RTX 4090", 0.9 * 1.008e12, NULL}, {"A10", 0.9 * 0.6e12, NULL},
                {"V100", 0.9 * 0.9e12, NULL}, {"T4", 0.9 * 0.32e12, NULL},
        };
        if (device.device_type != SF_CUDA) {
                snprintf(name, 160, "CPU, %s, %d thread%s", sf_context_isa(ctx), (int)sf_context_threads(ctx), sf_context_threads(ctx) == 1 ? "" : "s");
                *is = "measured here by copying 64 MiB";
                return host_bandwidth(ctx);
        }
        sf_device_info info = SF_DEVICE_INFO_INIT;
        snprintf(name, 160, "cuda:%d", (int)device.device_id);
        *is = "not known for this device";
        if (sf_device_describe(ctx, device, &info) != SF_OK)
                return 0;
        snprintf(name, 160, "cuda:%d, %s", (int)device.device_id, info.name);
        for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++)
                if (strstr(info.name, chips[i].chip)) {
                        *is = chips[i].is ? chips[i].is : "nine tenths of its data sheet's";
                        return chips[i].rate;
                }
        return 0;
}
