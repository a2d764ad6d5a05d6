/*
 * Fused steps on the CUDA kernels, run on the host: random programs over random operands, bit by bit against the reference. exp and its
 * like are the library's own on both sides.
 *
 *     test_fused_host folder compiler jobs [--cases N] [--seed N]
 */
#include "backend.h"
#include "backend_host.h"
#include "fused_step.h"
#include "kernels.h"
#include "ref/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const sf_cuda_chip chips[] = {
        {.capability = 90, .cluster = 8, .multiprocessors = 3, .threads_per_multiprocessor = 2048, .shared_per_block = 65536, .shared_per_multiprocessor = 65536,
         .l2 = 8192, .small_tiles = 1},
        {.capability = 90, .cluster = 8, .multiprocessors = 132, .threads_per_multiprocessor = 2048, .shared_per_block = 232448, .shared_per_multiprocessor = 233472,
         .l2 = 52428800}};

/* With this many cases every kernel file must have run; fewer are for a quick look. */
enum { ENOUGH = 100 };

static long wanted = 100, first_seed = 1, failures, checked;
static sf_context *device;

static void meet(uint64_t seed)
{
        fused_case c;
        bool between = false;
        fused_make(&c, seed, FUSED_SMALL);
        host_chip = chips[seed % 5 == 0];
        host_seed = (long)seed;
        size_t size = fused_results_size(&c);
        unsigned char *right = malloc(size), *got = malloc(size);
        if (!right || !got)
                abort();
        sf_status status = sf_ref_run(device, &c.step[0]);
        fused_results(&c, right);
        fused_reset(&c);
        if (status == SF_OK)
                status = sf_backend_run(device, &c.step[0], NULL, 0);
        fused_results(&c, got);
        long differ = status == SF_OK ? fused_differences(&c, right, got, &between) : 0;
        if (status != SF_OK || differ || between) {
                fused_print(&c, stderr);
                fprintf(stderr, "  %s%s: %ld differ%s\n\n", sf_status_name(status), status == SF_OK ? "" : sf_last_error(device), differ,
                        between ? ", and bytes between elements" : "");
                failures++;
        }
        checked++;
        free(right);
        free(got);
        fused_free(&c);
}

/*
 * Reals to every integer type at once, in range and out of it: y = (... i8(x) * k + i16(x)) * k +
 * ..., which differs where one of them does. tests/test_fused.c has the reference's own casts by
 * hand.
 */
static void meet_casts(sf_dt from)
{
        static const sf_dt types[] = {SF_DT_U64, SF_DT_I8,  SF_DT_U8,  SF_DT_I16,
                                      SF_DT_U16, SF_DT_I32, SF_DT_U32, SF_DT_I64};
        static const double values[] = {
                0.9,     -1.9,    200.7, -300.5,   70000,     -70000, 0x1p31 - 128, 0x1p31,
                -0x1p31, 3e9,     -5e9,  0x1p52,   0x1p62,    0x1p63, -0x1p63,      0x1.8p63,
                0x1p64,  -0x1p64, 1e30,  INFINITY, -INFINITY, NAN,    2147483653.5, -0x1p40 - 77};
        enum { N = sizeof values / sizeof values[0] };
        float x32[N];
        uint64_t right[N], got[N] = {0};
        int64_t shape[1] = {N};
        sf_view x, y;
        sf_fuse fuse = {.load_reads = 1};
        sf_program *p = &fuse.load;
        p->code[0] = (sf_instruction){SF_CODE_LOAD, (uint8_t)from, 0, {0}};
        p->code[1] = (sf_instruction){SF_CODE_CONSTANT, SF_DT_U64, 0, {0}};
        p->constant[p->constants++].u64 = 0x9e3779b97f4a7c15;
        p->code[2] = (sf_instruction){SF_CODE_CAST, SF_DT_U64, 0, {0}};
        p->count = 3;
        for (uint8_t i = 1, total = 2; i < sizeof types / sizeof types[0];
             i++, total = (uint8_t)(p->count - 1)) {
                const uint8_t at = (uint8_t)p->count;
                p->code[p->count++] = (sf_instruction){SF_CODE_CAST, (uint8_t)types[i], 0, {0}};
                p->code[p->count++] = (sf_instruction){SF_CODE_CAST, SF_DT_U64, 0, {at}};
                p->code[p->count++] = (sf_instruction){SF_CODE_MUL, SF_DT_U64, 0, {total, 1}};
                p->code[p->count++] = (sf_instruction){
                        SF_CODE_ADD, SF_DT_U64, 0, {(uint8_t)(at + 2), (uint8_t)(at + 1)}};
        }
        for (int i = 0; i < N; i++)
                x32[i] = (float)values[i];
        sf_tensor tx = {.device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F64, .shape = shape}, ty = tx;
        tx.data = from == SF_DT_F64 ? (void *)(uintptr_t)values : x32;
        tx.dtype.bits = from == SF_DT_F64 ? 64 : 32;
        ty.data = got;
        ty.dtype = SF_U64;
        sf_step step = {.op = SF_SUM,
                        .in = from,
                        .acc = SF_DT_U64,
                        .out = SF_DT_U64,
                        .device = {SF_CPU, 0}};
        if (sf_view_init(device, "x", &tx, &x) != SF_OK ||
            sf_view_init(device, "y", &ty, &y) != SF_OK)
                abort();
        sf_step_geometry(
                &step,
                &(sf_step_views){.x = &x, .y = &y, .operands = 1, .operand = {&x}, .fuse = &fuse});
        host_chip = chips[0];
        host_seed = 0;
        sf_status status = sf_ref_run(device, &step);
        memcpy(right, got, sizeof right);
        memset(got, 0, sizeof got);
        if (status == SF_OK)
                status = sf_backend_run(device, &step, NULL, 0);
        checked++;
        for (int i = 0; i < N && !host_learning; i++)
                if (status != SF_OK || got[i] != right[i]) {
                        fprintf(stderr, "%s: %a of %d bits is another integer\n",
                                sf_status_name(status), values[i], (int)tx.dtype.bits);
                        failures++;
                }
}

/* Is this the whole test, and not a look at some cases? */
static bool is_whole(void)
{
        return wanted >= ENOUGH && first_seed == 1;
}

static void meet_all(void)
{
        /* Scans down a few columns that lie side by side are drawn once in a thousand cases: alone, dealt out to blocks, and beside their totals. */
        static const uint64_t narrow[] = {206, 5708, 6898, 8316, 9772, 12374};
        meet_casts(SF_DT_F32);
        meet_casts(SF_DT_F64);
        for (long i = 0; i < wanted && failures < 5; i++)
                meet((uint64_t)(first_seed + i));
        for (size_t i = 0; i < sizeof narrow / sizeof narrow[0] && is_whole() && failures < 5; i++)
                meet(narrow[i]);
}

static void must_have_run(const char *what, long times)
{
        if (times)
                return;
        fprintf(stderr, "no case has run %s: it is not tested, or not chosen any more\n", what);
        failures++;
}

int main(int argc, char **argv)
{
        sf_context_options o = SF_CONTEXT_OPTIONS_INIT;
        if (argc < 4) {
                fprintf(stderr, "usage: test_fused_host folder compiler jobs [--cases N] [--seed N]\n");
                return 2;
        }
        for (int i = 4; i + 1 < argc; i += 2)
                if (!strcmp(argv[i], "--cases"))
                        wanted = atol(argv[i + 1]);
                else if (!strcmp(argv[i], "--seed"))
                        first_seed = atol(argv[i + 1]);
        kernels_open(argv[1], argv[2], atoi(argv[3]));
        o.threads = 1;
        if (sf_context_create(&device, &o) != SF_OK)
                return 2;
        host_learning = true;
        meet_all();
        host_learning = false;
        checked = 0;
        time_t before = time(NULL);
        kernels_compile();
        fprintf(stderr, "%d specialisations compiled in %ld s\n", kernels_count(), (long)(time(NULL) - before));
        meet_all();
#define KERNEL(name, NAME) fprintf(stderr, " " #name " %ld", host_met[SF_CUDA_##NAME]);
#include "cuda/kernels.def"
#undef KERNEL
        fprintf(stderr, "; interleaved %ld, chunked %ld, of one read %ld, of them scans with their totals %ld\n", host_interleaved, host_chunked, host_shared,
                host_totals);
        if (is_whole()) {
/* again.cu and apply.cu are test_expr_host's. */
#define KERNEL(name, NAME) must_have_run("kernels/" #name ".cu", host_met[SF_CUDA_##NAME] || SF_CUDA_##NAME >= SF_CUDA_AGAIN);
#include "cuda/kernels.def"
#undef KERNEL
                must_have_run("a kernel of several results", host_shared);
                must_have_run("a scan with its total", host_totals);
        }
        printf("test_fused_host: %ld cases, %ld failures\n", checked, failures);
        return failures != 0;
}
