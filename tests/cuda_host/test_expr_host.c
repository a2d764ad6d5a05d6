/*
 * Random expressions as plans whose steps run on the CUDA kernels, on the host: ../test_expr_random.c, its main under another name, met
 * twice: once to learn which kernels are wanted, and once they are compiled. So are parts of ../test_expr_finite.c and of
 * ../test_derived.c, and some of ../test_segments.c.
 *
 *     test_expr_host folder compiler jobs [--cases N | --segments N | --short N | --nvrtc N]
 *
 * With --short the short chains of ../test_derived.c alone, one in N, with the tiles that an H200 has; elsewhere tiles are small. With --nvrtc all of its chains, whose kernels NVRTC compiles, one in N, and nothing runs: the host's compiler takes what a device does not.
 */
#include "backend_host.h"
#include "harness.h"
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

int expr_main(int argc, char **argv);
int finite_main(int argc, char **argv);
int derived_main(int argc, char **argv);
int segments_main(int argc, char **argv);

/* In place of the harness's: the reference, and the kernels. */
void engines_open(void)
{
        static const char *const names[] = {"reference", "cuda on the host"};
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        for (engine_count = 0; engine_count < 2; engine_count++) {
                engine *e = &engines[engine_count];
                o.backend = engine_count ? SF_BACKEND_AUTO : SF_BACKEND_REF;
                e->threads = 1;
                snprintf(e->name, sizeof e->name, "%s", names[engine_count]);
                if (sf_context_create(&e->ctx, &o) != SF_OK)
                        exit(2);
        }
}

/* Has kernels/apply_short.cu met lines of every kind? */
static bool met_short_lines(void)
{
        bool all = true;
        fprintf(stderr, "short lines: %ld as they are in memory, %ld in another order, %ld in vectors; %ld several a warp, %ld of several warps, %ld apart\n", host_short[0],
                host_short[1], host_short[2], host_short[3], host_short[4], host_short[5]);
        for (int k = 0; k < 6; k++)
                all = all && host_short[k];
        return all;
}

/* Offsets that decrease, are negative or are past the axis, which a device cannot refuse. Nothing else is touched, as AddressSanitizer sees. While kernels are
 * learnt, the offsets are good. */
static void wild_offsets(void)
{
        static const struct {
                int64_t n, columns, count, equal; /* equal: so many offsets that follow one another */
        } cases[] = {{1500, 1, 1500, 1}, {300, 1, 4000, 1}, {900, 20, 30, 1}, {700, 1, 30, 1}, {300, 1, 20000, 6000}, {60, 20, 20000, 6000}};
        enum { CASES = sizeof cases / sizeof *cases };
        for (int i = 0; i < 2 * CASES; i++) {
                const int64_t n = cases[i % CASES].n, columns = cases[i % CASES].columns, count = cases[i % CASES].count, equal = cases[i % CASES].equal;
                const bool reverse = i / CASES, fold = columns > 1 || reverse == i % 2; /* scans down columns wait too long here */
                int64_t shape[2] = {n, columns}, results[2] = {fold ? count : n, columns}, ends[1] = {count + 1};
                const int32_t axis = 0;
                float *x = calloc((size_t)(n * columns), sizeof *x), *y = calloc((size_t)(results[0] * columns), sizeof *y);
                int64_t *offsets = calloc((size_t)count + 1, sizeof *offsets);
                for (int64_t k = 0; k <= count; k++)
                        offsets[k] = host_learning ? n * k / count : n * k / count + (int64_t)(hash((uint64_t)(k / equal * 100 + i)) % (uint64_t)(2 * n)) - n;
                const sf_tensor tx = tensor(x, SF_F32, 2, shape), ty = tensor(y, SF_F32, 2, results), to = tensor(offsets, SF_I64, 1, ends);
                sf_fold_options f = SF_FOLD_OPTIONS_INIT;
                sf_scan_options s = SF_SCAN_OPTIONS_INIT;
                f.naxes = 1, f.axes = &axis, s.axis = axis, f.offsets = s.offsets = &to, f.reverse = s.reverse = reverse;
                host_unchecked = true;
                sf_status status = fold ? sf_fold(engines[1].ctx, &tx, &ty, &f) : sf_scan(engines[1].ctx, &tx, &ty, &s);
                host_unchecked = false;
                CHECK(status == SF_OK, "wild offsets: %s", sf_last_error(engines[1].ctx));
                free(x), free(y), free(offsets);
        }
}

static int meet_segments(char **arguments)
{
        engines_open();
        wild_offsets();
        engines_close();
        return segments_main(3, arguments);
}

int main(int argc, char **argv)
{
        char *arguments[] = {argv[0], "30", NULL}, *some[] = {argv[0], "4", NULL}, *derived[] = {argv[0], "797", "9", "1", NULL}, *segments[] = {argv[0], "0", "60", NULL};
        if (argc < 4) {
                fprintf(stderr, "usage: test_expr_host folder compiler jobs [--cases N | --segments N | --short N | --nvrtc N]\n");
                return 2;
        }
        if (argc > 5 && !strcmp(argv[4], "--cases"))
                arguments[1] = argv[5];
        if (atol(arguments[1]) < 30) /* a quick look: a quarter of the formulas, half of the laws, a third of the chains, an eighth of the segments */
                derived[1] = "3203", derived[2] = "18", derived[3] = "3", segments[2] = "8";
        host_chip = (sf_cuda_chip){.capability = 90, .multiprocessors = 3, .threads_per_multiprocessor = 2048, .shared_per_block = 65536,
                                   .shared_per_multiprocessor = 65536, .l2 = 8192, .cluster = 2, .small_tiles = 1};
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        host_learning = true;
        if (argc > 5 && !strcmp(argv[4], "--nvrtc")) {
                char *chains[] = {argv[0], "100000", "100000", "1", NULL};
                return derived_main(4, chains) || kernels_nvrtc("apply", atol(argv[5]));
        }
        const bool only = argc > 5 && !strcmp(argv[4], "--segments");
        if (only)
                segments[2] = argv[5];
        if (argc > 5 && !strcmp(argv[4], "--short")) {
                host_chip = (sf_cuda_chip){.capability = 90, .multiprocessors = 132, .threads_per_multiprocessor = 2048, .shared_per_block = 232448,
                                           .shared_per_multiprocessor = 233472, .l2 = 62914560, .cluster = 16};
                char *few[] = {argv[0], "100000", "100000", "100000", argv[5], NULL};
                derived_main(5, few);
                kernels_compile();
                host_learning = false;
                return derived_main(5, few) | !met_short_lines();
        }
        if (only ? meet_segments(segments) : expr_main(2, arguments) | finite_main(2, some) | derived_main(4, derived) | meet_segments(segments))
                return 1;
        kernels_compile();
        host_learning = false;
        int failed = only ? meet_segments(segments) : expr_main(2, arguments) | finite_main(2, some) | derived_main(4, derived) | meet_segments(segments);
        fprintf(stderr, "%d specialisations, %ld launches\n", kernels_count(), host_launches);
        if (only)
                return failed;
        if (!host_met[SF_CUDA_AGAIN] || !host_met[SF_CUDA_APPLY_GROUP]) {
                fprintf(stderr, "no graph has run kernels/again.cu or apply_group.cu\n");
                failed = 1;
        }
        fprintf(stderr, "chains: %ld in registers, %ld in shared memory, %ld partly; %ld by clusters, %ld by way of shared memory, %ld line after line, %ld at any address\n", host_kept[0],
                host_kept[1], host_kept[2], host_clusters, host_through, host_loops, host_shifts);
        if (!host_kept[0] || !host_kept[1] || !host_kept[2] || !host_clusters || !host_loops || !host_shifts) { /* test_memory_host insists on the other */
                fprintf(stderr, "no chain has run kernels/apply.cu so\n");
                failed = 1;
        }
        return failed | !met_short_lines();
}
