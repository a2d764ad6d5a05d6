/*
 * One rank of an MPI program: shards, uneven and some empty, against the whole computed here; gathered and along a tree; and a rank that errs.
 *
 *     test_mpi [EVERY]        one case in so many; each operation and each type has some, of every way
 */
#include "scanfold_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 3, N = 1003 };

static int rank, ranks, failures, checks;

static void check(int passed, const char *what, int op, int reverse, size_t limit)
{
        checks++;
        if (passed)
                return;
        failures++;
        printf("rank %d of %d: %s of %s%s%s: %s\n", rank, ranks, what, sf_op_name((sf_op)op), reverse ? ", reverse" : "", limit ? "" : ", joined",
               sf_last_error(NULL));
}

/* Where the shard of rank r begins; of five ranks or more, one is empty. */
static int64_t begin(int r)
{
        return r >= ranks ? N : r == 1 ? N / 9 : (int64_t)N * (ranks > 4 && r == 2 ? 3 : r) / ranks;
}

/* Types of x, and of results where an operation has them: for sums and products of integers, reals of exponentials. */
static const struct {
        sf_dtype x, wide;
} types[] = {
        {SF_F16_INIT, SF_F16_INIT}, {SF_BF16_INIT, SF_F32_INIT}, {SF_F32_INIT, SF_F32_INIT}, {SF_F64_INIT, SF_F64_INIT}, {{0, 8, 1}, {0, 64, 1}},
        {{0, 16, 1}, {0, 16, 1}},   {{0, 32, 1}, {0, 64, 1}},    {{0, 64, 1}, {0, 64, 1}},   {{1, 8, 1}, {1, 8, 1}},     {{1, 16, 1}, {1, 64, 1}},
        {{1, 32, 1}, {1, 32, 1}},   {{1, 64, 1}, {1, 64, 1}},
};
enum { TYPES = sizeof types / sizeof *types };

static int is_real(sf_dtype t)
{
        return t.code == 2 || t.code == 4;
}

/* Elements of type t, as bytes: small numbers, which the type has exactly or rounded by the library itself. */
static void fill(sf_dtype t, int seed, char *to)
{
        static double wide[LINES * N];
        int64_t count = LINES * N;
        srand((unsigned)seed);
        for (int i = 0; i < LINES * N; i++)
                wide[i] = is_real(t) ? (rand() % 2000001 - 1000000) / 700001.0 : 0;
        sf_tensor from = {.data = wide, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F64, .shape = &count}, made = from;
        made.data = to;
        made.dtype = t;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        int64_t column[2] = {LINES * N, 1};
        from.ndim = made.ndim = 2;
        from.shape = made.shape = column;
        o.axis = 1; /* sequences of one element: a cast */
        if (is_real(t)) {
                check(sf_scan(NULL, &from, &made, &o) == SF_OK, "a cast", SF_SUM, 0, 1);
                return;
        }
        for (int i = 0; i < LINES * N; i++) {
                const int64_t v = rand() % 201 - (t.code ? 0 : 100);
                memcpy(to + (size_t)i * (t.bits / 8), &v, t.bits / 8);
        }
}

/* The result's type, or bits 0 where there is no such operation. */
static sf_dtype result_type(int op, int type)
{
        const sf_dtype none = {0, 0, 0}, i32 = {0, 32, 1}, i64 = {0, 64, 1};
        if (op >= SF_ARGMAX && op <= SF_LAST_ARGMIN)
                return type % 2 ? i32 : i64;
        if ((op == SF_LOGSUMEXP || op == SF_RECURRENCE) && !is_real(types[type].x))
                return none;
        return op == SF_MAX || op == SF_MIN ? types[type].x : types[type].wide;
}

static void check_case(int op, int type, int fold, int reverse, size_t limit)
{
        static char x[LINES * N * 8], a[LINES * N * 8], whole[LINES * N * 8], part[LINES * N * 8];
        const sf_dtype in = types[type].x, out = result_type(op, type);
        const int64_t size = out.bits / 8, at = begin(rank);
        int64_t shape[2] = {LINES, N}, mine[2] = {LINES, begin(rank + 1) - at}, strides[2] = {N, 1}, lines = LINES;
        if (!out.bits || (fold && op == SF_RECURRENCE))
                return;
        fill(in, 1, x);
        fill(in, 2, a);
        memset(whole, 0, sizeof whole);
        memset(part, 0, sizeof part);
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2, .dtype = in, .shape = shape}, ta = tx, ty = tx;
        ta.data = a;
        ty.data = whole;
        ty.dtype = out;
        sf_tensor sx = {.data = x + at * (in.bits / 8), .device = {SF_CPU, 0}, .ndim = 2, .dtype = in, .shape = mine, .strides = strides}, sa = sx, sy = sx;
        sa.data = a + at * (in.bits / 8);
        sy.data = part + at * size;
        sy.dtype = out;
        sf_status status;
        if (fold) {
                int32_t axis = 1;
                sf_fold_options o = SF_FOLD_OPTIONS_INIT;
                o.op = (sf_op)op, o.axes = &axis, o.naxes = 1, o.reverse = reverse;
                ty.ndim = 1;
                ty.shape = &lines;
                sy = ty;
                sy.data = part;
                status = sf_fold(NULL, &tx, &ty, &o);
        } else {
                sf_scan_options o = SF_SCAN_OPTIONS_INIT;
                o.op = (sf_op)op, o.reverse = reverse, o.exclusive = reverse;
                status = op == SF_RECURRENCE ? sf_recurrence(NULL, &ta, &tx, &ty, &o) : sf_scan(NULL, &tx, &ty, &o);
        }
        check(status == SF_OK, "the whole", op, reverse, limit);
        sf_shard_options s = SF_SHARD_OPTIONS_INIT;
        s.op = (sf_op)op, s.fold = fold, s.reverse = reverse, s.exclusive = reverse && !fold, s.a = op == SF_RECURRENCE ? &sa : NULL;
        check(sf_mpi_shard_within(NULL, &sx, &sy, &s, MPI_COMM_WORLD, limit) == SF_OK, "a shard", op, reverse, limit);
        int same = !fold || !memcmp(whole, part, (size_t)(LINES * size));
        for (int64_t i = 0; !fold && i < LINES; i++)
                same = same && !memcmp(whole + (i * N + at) * size, part + (i * N + at) * size, (size_t)(mine[1] * size));
        check(same, fold ? "the bits of a fold" : "the bits", op, reverse, limit);
}

/* The last rank has another operation: all get the same sentence. */
static void check_fault(float (*x)[N])
{
        int64_t shape[1] = {4};
        float y[4];
        char expected[128];
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F32, .shape = shape}, ty = tx;
        ty.data = y;
        sf_shard_options s = SF_SHARD_OPTIONS_INIT;
        s.op = rank && rank == ranks - 1 ? SF_MAX : SF_SUM;
        const sf_status status = sf_mpi_shard(NULL, &tx, &ty, &s, MPI_COMM_WORLD);
        snprintf(expected, sizeof expected, "rank %d has op max, and rank 0 has sum; all ranks must have the same", ranks - 1);
        check(ranks == 1 ? status == SF_OK : status == SF_INVALID_ARGUMENT && !strcmp(sf_last_error(NULL), expected), "a fault", SF_SUM, 0, 1);
}

int main(int argc, char **argv)
{
        static float x[1][N];
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        const int every = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
        for (int op = 0; sf_op_name((sf_op)op); op++)
                for (int type = 0; type < TYPES; type++)
                        for (int way = 0; way < 4; way++) /* half of them gathered, half along a tree */
                                if ((op + type + way) % every == 0)
                                        check_case(op, type, way & 1, way >> 1, (op + type + way + (way >> 1)) & 1 ? SF_MPI_GATHER_BYTES : 0);
        check_fault(x);
        int all = 0;
        MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (!rank)
                printf("test_mpi: %d ranks, %d checks each, %d failures\n", ranks, checks, all);
        MPI_Finalize();
        return all != 0;
}
