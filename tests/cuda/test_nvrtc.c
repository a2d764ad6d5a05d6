/*
 * Compiles the kernels that common calls come to, and one of every dtype, operation and option, with the NVRTC of this machine, for
 * every chip it knows. Needs no GPU. Those that have a speed to keep must not spill (older compilers may), and one in three of them is
 * compiled, however few --every leaves of the rest.
 *
 *     test_nvrtc [--every N] [--arch 90|others] [--list]      others: chips not named below; --list prints registers and spills of each
 */
#include "check.h"
#include "fused_step.h"

#include "core/value.h"
#include "cuda/cuda_warm.h"
#include "cuda/emit_again.h"
#include "cuda/jit.h"
#include "scanfold.h"

/* Chips, as tuning sees them: multiprocessors, threads of one, shared memory of a block and of one, megabytes of L2. */
#define CHIP(number, processors, threads, block, processor, mb)                                                                      \
        {.capability = number, .multiprocessors = processors, .threads_per_multiprocessor = threads, .shared_per_block = block,       \
         .shared_per_multiprocessor = processor, .l2 = (int64_t)mb << 20}
static const sf_cuda_chip chips[] = {CHIP(70, 80, 2048, 98304, 98304, 6),      CHIP(75, 72, 1024, 65536, 65536, 6),
                                     CHIP(80, 108, 2048, 166912, 167936, 40),  CHIP(86, 84, 1536, 101376, 102400, 6),
                                     CHIP(89, 128, 1536, 101376, 102400, 72),  CHIP(90, 132, 2048, 232448, 233472, 50),
                                     CHIP(100, 148, 2048, 232448, 233472, 126), CHIP(120, 170, 1536, 101376, 102400, 96)};
#define CHIPS (sizeof chips / sizeof *chips)
#define OTHERS -1

/* A chip of this capability: as named above, else like the one before it. */
static sf_cuda_chip chip_of(int32_t capability, bool *named)
{
        sf_cuda_chip chip = chips[0];
        for (size_t i = 0; i < CHIPS && chips[i].capability <= capability; i++)
                chip = chips[i];
        *named = chip.capability == capability;
        chip.capability = capability;
        return chip;
}

static const sf_compiler *compiler;
static sf_cuda_spec *done;
static size_t ndone;
static bool listing;
static long compiled, spilled;

/* Have we had this specialisation for this chip? */
static bool again(const sf_cuda_spec *spec)
{
        for (size_t i = 0; i < ndone; i++)
                if (sf_cuda_spec_same(&done[i], spec))
                        return true;
        done = realloc(done, (ndone + 1) * sizeof *done);
        done[ndone++] = *spec;
        return false;
}

/* The number before `words` in the assembler's report. */
static long number_before(const char *log, const char *words)
{
        const char *at = log ? strstr(log, words) : NULL;
        if (!at)
                return 0;
        while (at > log && at[-1] == ' ')
                at--;
        while (at > log && at[-1] >= '0' && at[-1] <= '9')
                at--;
        return atol(at);
}

/* Nothing may be read before the launch in front has ended (sf_take_turn), and what the optimiser may move, reads of a steady operand, could. */
static void check_turn(const char *source, const char *name, const char *what)
{
        sf_binary binary = {NULL, 0, false};
        sf_status status = sf_jit_compile(NULL, compiler, name, source, "compute_90", &binary, NULL);
        const char *turn = status == SF_OK ? strstr(binary.image, "griddepcontrol.wait") : NULL, *load = turn ? strstr(binary.image, "ld.global") : NULL;
        CHECK(turn && (!load || turn < load), "%s, %s: memory is read before the kernel's turn has come", what, name);
        free(binary.image);
}

static void compile(const sf_cuda_spec *spec, const char *arch, const char *what, bool fast)
{
        char *source = NULL, *log = NULL, name[64];
        sf_binary binary = {NULL, 0, false};
        snprintf(name, sizeof name, "%s.cu", sf_cuda_kernel_name(spec->kernel));
        sf_status status = sf_cuda_source(NULL, spec, &source);
        if (status == SF_OK)
                status = sf_jit_compile(NULL, compiler, name, source, arch, &binary, &log);
        CHECK(status == SF_OK, "%s, %s, %s: %s", what, name, arch, sf_last_error(NULL));
        compiled++;
        if (status == SF_OK) {
                CHECK(binary.size > 100 && !memcmp(binary.image, "\177ELF", 4), "%s, %s, %s: no cubin", what, name, arch);
                long stores = number_before(log, "bytes spill stores"), loads = number_before(log, "bytes spill loads");
                CHECK(log && strstr(log, "registers"), "%s, %s: the assembler said nothing: %s", what, arch, log ? log : "");
                spilled += stores + loads > 0;
                if (listing || (fast && stores + loads))
                        printf("%-8s %-40s %-16s %3ld registers, %ld bytes spilled\n", arch, what, name, number_before(log, "registers"), stores);
                CHECK(!fast || stores + loads == 0, "%s, %s, %s spills %ld bytes", what, name, arch, stores);
        }
        if (status == SF_OK && spec->fused.operands && !strcmp(arch, "sm_90"))
                check_turn(source, name, what);
        free(binary.image);
        free(source);
        free(log);
}

static void compile_step(const sf_step *step, const sf_cuda_chip *chip, const char *arch, const char *what, bool fast)
{
        sf_cuda_plan plan;
        sf_status status = sf_cuda_plan_step(NULL, step, chip, &plan);
        CHECK(status == SF_OK, "%s on %s: %s", what, arch, sf_last_error(NULL));
        for (int32_t k = 0; status == SF_OK && k < plan.launches; k++)
                if (!again(&plan.launch[k].spec))
                        compile(&plan.launch[k].spec, arch, what, fast);
}

/*
 * Is there a speed promised for it, on a chip of compute capability 9.0? For sums: of f32, masked ones along the axes of a square
 * matrix only, folds not down narrow matrices; of other types along rows.
 */
static bool has_bar(const sf_step *step)
{
        const sf_dim *sequence = &step->dims[step->nbatch];
        if (step->op != SF_SUM)
                return false;
        if (step->in == SF_DT_F32)
                return step->m ? step->n == 8192 : !(step->fold && step->n == 1 << 20);
        return !step->fold && !step->m && step->batch == 8192 && sequence->x == sf_dtypes[step->in].size;
}

/* Every pair of dtypes and every operation, on shapes and strides that take each kernel file's ways in turn. */
static void compile_variety(const sf_cuda_chip *chip, const char *arch, long every)
{
        long turn = 0;
        for (int32_t shape = 0; shape < 10; shape++)
                for (int in = 0; in < SF_DT_COUNT; in++)
                        for (int out = 0; out < SF_DT_COUNT; out++)
                                for (int op = 0; sf_op_name((sf_op)op); op++) {
                                        sf_step step;
                                        char what[96], name[160];
                                        sf_kind from = sf_dtypes[in].kind, to = sf_dtypes[out].kind;
                                        bool real = to == SF_KIND_REAL;
                                        /* The table of scanfold.h, as far as it takes to give every kind of load and store a turn. */
                                        if ((from == SF_KIND_REAL && !real) || (from != SF_KIND_REAL && (out == SF_DT_F16 || out == SF_DT_BF16)) ||
                                            (to == SF_KIND_BOOL && (from != SF_KIND_BOOL || op < 2)) || (op >= 2 && !real && in != out) ||
                                            sf_op_is((sf_op)op, SF_INDEX | SF_TWO) || (sf_op_is((sf_op)op, SF_ROUNDS) && !real))
                                                continue;
                                        if (turn++ % every)
                                                continue;
                                        sf_cuda_usual_step((turn / every) % 3 * 10 + (shape + (int)turn) % 10, &step, what);
                                        step.x = step.y = (char *)(uintptr_t)(1 << 20);
                                        step.in = (sf_dt)in;
                                        step.out = (sf_dt)out;
                                        step.op = (sf_op)op;
                                        step.acc = to == SF_KIND_BOOL ? SF_DT_U8
                                                   : real ? (in == SF_DT_F64 || out == SF_DT_F64 ? SF_DT_F64 : SF_DT_F32)
                                                          : (sf_dt)out;
                                        step.identity = sf_identity(step.op, step.acc);
                                        step.exclusive = !step.fold && turn % 3 == 0;
                                        step.has_initial = turn % 5 == 0;
                                        /* Strides are in bytes, and the list's are of f32: scaled, and on some turns torn apart. */
                                        for (int32_t d = 0; d < step.nbatch + step.nseq; d++) {
                                                step.dims[d].x = step.dims[d].x / 4 * sf_dtypes[in].size * (turn % 4 == 1 ? -1 : turn % 4 == 2 ? 3 : 1);
                                                step.dims[d].y = step.dims[d].y / 4 * sf_dtypes[out].size * (turn % 7 == 1 ? 2 : 1);
                                        }
                                        snprintf(name, sizeof name, "%s, %s to %s, %s%s%s", sf_op_name(step.op), sf_dtypes[in].name,
                                                 sf_dtypes[out].name, what, step.exclusive ? ", exclusive" : "", step.has_initial ? ", initial" : "");
                                        compile_step(&step, chip, arch, name, false);
                                }
}

/* Products of reals, which hold two components for every element: none of the usual ones may spill. */
static void compile_products(const sf_cuda_chip *chip, const char *arch, long every)
{
        sf_step step;
        char what[96], name[112];
        for (int32_t i = 0; sf_cuda_usual_step(i, &step, what); i++) {
                if (step.op != SF_SUM || step.m || (step.in != SF_DT_F32 && step.in != SF_DT_F64) || i % (3 * every))
                        continue;
                step.op = SF_PROD;
                step.identity = sf_identity(step.op, step.acc);
                snprintf(name, sizeof name, "products: %s", what);
                compile_step(&step, chip, arch, name, compiler->major >= 13);
        }
}

/* Steps that are cut into segments: the usual ones, the operations in turn. Every other has as many segments as elements. */
static void compile_segments(const sf_cuda_chip *chip, const char *arch, long every)
{
        static const sf_op ops[] = {SF_SUM, SF_PROD, SF_LOGSUMEXP, SF_MAX};
        sf_step step;
        char what[96], name[112];
        long turn = 0;
        for (int32_t i = 0; sf_cuda_usual_step(i, &step, what); i++) {
                if (step.nseq != 1 || sf_dtypes[step.acc].kind != SF_KIND_REAL || i % every)
                        continue;
                step.op = ops[turn % 4];
                step.identity = sf_identity(step.op, step.acc);
                step.reverse = turn % 3 == 0;
                step.segments = (sf_segments){(const char *)(uintptr_t)(1 << 20), turn % 2, turn % 2 ? 8 : 4, turn / 2 % 2 ? step.n : 1000};
                turn++;
                snprintf(name, sizeof name, "segments: %s", what);
                compile_step(&step, chip, arch, name, false);
        }
}

/* Fused steps: those that have a speed to keep, and random ones. If lists are thin, a chip that has a
 * speed to keep has half of the former, and others have some: a third of them where the chip is the first
 * of its kind, so that two such have different ones, and else a fifth. */
static void compile_fused(const sf_cuda_chip *chip, const char *arch, long every)
{
        fused_named named;
        const int c = chip->capability, most = every == 1 ? 1 : c == 90 ? 2 : c == 70 || c == 80 || c == 100 ? 3 : 5;
        for (int i = c % most; fused_name(&named, i); i += most)
                compile_step(&named.step, chip, arch, named.name, chip->capability == 90 && compiler->major >= 13);
        for (long i = 0; i < 60 / every; i++) {
                fused_case drawn;
                char what[48];
                snprintf(what, sizeof what, "fused case %ld", i);
                fused_make(&drawn, (uint64_t)i, 0);
                compile_step(&drawn.step[0], chip, arch, what, false);
                fused_free(&drawn);
        }
}

/* Results that are computed again: sum(x @ w.T, 1) / 3 of each real type, a sum of sums of products; and of one of them the last step alone. If lists
 * are thin, chips take turns. */
static void compile_again(const sf_cuda_chip *chip, const char *arch, long every)
{
        enum { M = 1000, N = 40, K = 30 };
        static const sf_dt types[] = {SF_DT_F32, SF_DT_F64, SF_DT_F16, SF_DT_BF16};
        const int c = chip->capability, most = every == 1 || c == 90 ? 1 : 5;
        for (int i = c % most; i < 5; i += most) {
                static sf_again a;
                sf_cuda_plan plan;
                sf_dt dt = types[i % 4], acc = dt == SF_DT_F64 ? SF_DT_F64 : SF_DT_F32;
                int64_t size = sf_dtypes[dt].size;
                char what[48], *memory = (char *)(uintptr_t)(1 << 20);
                memset(&a, 0, sizeof a);
                a.dt = dt;
                a.lines = M;
                a.dims = 1;
                a.line[0] = (sf_dim){.len = M, .y = size};
                a.results = a.made = memory;
                a.steps = 2;
                for (int k = 0; k < 2; k++) {
                        sf_again_step *s = &a.step[k];
                        s->step = (sf_step){.fold = true, .op = SF_SUM, .in = dt, .acc = acc, .out = dt, .n = k ? N : K, .batch = k ? 1 : N,
                                            .nbatch = k ? 0 : 1, .nseq = 1, .has_initial = i == 4, .y = memory, .fuse = &s->fuse};
                        s->tensor = memory;
                        s->fuse.operands = 2 - k;
                        s->fuse.operand[0] = (sf_operand){.data = memory, .dt = dt, .stride = {k ? size : 0, size}};
                        s->fuse.operand[1] = (sf_operand){.data = memory, .dt = dt, .stride = {K * size, size}};
                        s->made[0] = k - 1;
                        s->made[1] = -1;
                        s->move[0][0] = k ? 0 : K * size;
                }
                a.step[0].step.dims[0] = (sf_dim){.len = N, .y = size};
                a.step[0].step.dims[1] = (sf_dim){.len = K, .x = size};
                a.step[1].step.dims[0] = (sf_dim){.len = N, .x = size};
                a.step[0].fuse.load = (sf_program){.count = 3, .code = {{SF_CODE_LOAD, (uint8_t)dt, 0, {0}}, {SF_CODE_LOAD, (uint8_t)dt, 1, {0}},
                                                                        {SF_CODE_MUL, (uint8_t)dt, 0, {0, 1}}}};
                a.step[1].fuse.store = (sf_program){.count = 3, .constants = 1, .code = {{SF_CODE_RESULT, (uint8_t)acc, 0, {0}},
                                                                                        {SF_CODE_CONSTANT, (uint8_t)acc, 0, {0}},
                                                                                        {SF_CODE_DIV, (uint8_t)acc, 0, {0, 1}}}};
                if (i == 4) {
                        a.steps = 1;
                        a.step[0] = a.step[1];
                        a.step[0].step.fuse = &a.step[0].fuse;
                        a.step[0].made[0] = -1;
                }
                snprintf(what, sizeof what, "again, %s, %d steps", sf_dtypes[dt].name, (int)a.steps);
                CHECK(sf_cuda_plan_again(NULL, &a, chip, &plan) == SF_OK, "%s: %s", what, sf_last_error(NULL));
                compile(&plan.launch[0].spec, arch, what, false);
        }
}

int main(int argc, char **argv)
{
        long every = 1, only = 0, others = 0, barred = 0;
        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--list"))
                        listing = true;
                else if (!strcmp(argv[i], "--every") && i + 1 < argc)
                        every = atol(argv[++i]);
                else if (!strcmp(argv[i], "--arch") && i + 1 < argc)
                        only = strcmp(argv[++i], "others") ? atol(argv[i]) : OTHERS;
        }
        every = every < 1 ? 1 : every;
        if (sf_jit_compiler(NULL, 0, &compiler) != SF_OK) {
                printf("SKIPPED: %s\n", sf_last_error(NULL));
                return SKIPPED;
        }
        printf("NVRTC %d.%d from %s, chips %d to %d\n", (int)compiler->major, (int)compiler->minor, compiler->path, (int)compiler->arches[0],
               (int)compiler->arches[compiler->narches - 1]);
        for (int32_t a = 0; a < compiler->narches; a++) {
                char arch[16], what[96];
                sf_step step;
                bool named;
                sf_cuda_chip chip = chip_of(compiler->arches[a], &named);
                if (chip.capability < chips[0].capability || (only == OTHERS && named) || (only > 0 && only != chip.capability))
                        continue;
                if (only == OTHERS && every > 1 && others++ % 2) /* a thin list: the compiler of a named neighbour */
                        continue;
                CHECK(sf_jit_arch(NULL, compiler, chip.capability, arch) == SF_OK && !strncmp(arch, "sm_", 3), "%s", sf_last_error(NULL));
                long before = compiled;
                ndone = 0;
                for (int32_t i = 0; sf_cuda_usual_step(i, &step, what); i++)
                        if (i % every == 0 || (chip.capability == 90 && has_bar(&step) && (every == 1 || barred++ % 3 == 0)))
                                compile_step(&step, &chip, arch, what, chip.capability == 90 && compiler->major >= 13 && has_bar(&step));
                if (chip.capability == 90)
                        compile_products(&chip, arch, every);
                if (chip.capability == 75 || chip.capability == 90) {
                        compile_variety(&chip, arch, 7 * every);
                        compile_segments(&chip, arch, every);
                }
                compile_fused(&chip, arch, every);
                compile_again(&chip, arch, every);
                printf("%s: %ld kernels\n", arch, compiled - before);
        }
        free(done);
        if (!compiled) {
                printf("SKIPPED: this NVRTC knows no such chip\n");
                return SKIPPED;
        }
        printf("%ld kernels compiled, %ld with spills\n", compiled, spilled);
        return finish("test_nvrtc");
}
