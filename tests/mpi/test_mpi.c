/* One rank of an MPI program: shards, uneven and some empty, against the whole computed here; gathered and along a tree; and a rank that errs. */
#include "scanfold_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 3, N = 1003 };

static int rank, ranks, failures, checks;

/* Where the shard of rank r begins. */
static int64_t begin(int r)
{
        return r >= ranks ? N : r == 1 ? N / 7 : (int64_t)N * r / ranks;
}

static void check(int passed, const char *what, int op, int reverse, size_t limit)
{
        checks++;
        if (passed)
                return;
        failures++;
        printf("rank %d of %d: %s of %s%s%s: %s\n", rank, ranks, what, sf_op_name((sf_op)op), reverse ? ", reverse" : "", limit ? "" : ", joined",
               sf_last_error(NULL));
}

static void check_scan(int op, int reverse, size_t limit, float (*x)[N], float (*a)[N])
{
        static float whole[LINES][N], part[LINES][N];
        int64_t shape[2] = {LINES, N}, mine[2] = {LINES, begin(rank + 1) - begin(rank)}, strides[2] = {N, 1};
        const int is_index = op >= SF_ARGMAX && op <= SF_LAST_ARGMIN;
        const sf_dtype dtype = is_index ? SF_I32 : SF_F32;
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape}, ta = tx, ty = tx;
        ta.data = a;
        ty.data = whole;
        ty.dtype = dtype;
        sf_scan_options o = SF_SCAN_OPTIONS_INIT;
        o.op = (sf_op)op;
        o.reverse = reverse;
        o.exclusive = reverse;
        check((op == SF_RECURRENCE ? sf_recurrence(NULL, &ta, &tx, &ty, &o) : sf_scan(NULL, &tx, &ty, &o)) == SF_OK, "the whole", op, reverse, limit);
        sf_tensor sx = {.data = &x[0][begin(rank)], .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F32, .shape = mine, .strides = strides}, sa = sx, sy = sx;
        sa.data = &a[0][begin(rank)];
        sy.data = &part[0][begin(rank)];
        sy.dtype = dtype;
        sf_shard_options s = SF_SHARD_OPTIONS_INIT;
        s.op = (sf_op)op;
        s.reverse = s.exclusive = reverse;
        s.a = op == SF_RECURRENCE ? &sa : NULL;
        check(sf_mpi_shard_within(NULL, &sx, &sy, &s, MPI_COMM_WORLD, limit) == SF_OK, "a shard", op, reverse, limit);
        int same = 1;
        for (int i = 0; i < LINES; i++)
                same = same && !memcmp(&whole[i][begin(rank)], &part[i][begin(rank)], (size_t)mine[1] * sizeof(float));
        check(same, "the bits", op, reverse, limit);
}

static void check_fold(int op, size_t limit, double (*x)[N])
{
        double whole[LINES], part[LINES];
        int64_t shape[2] = {LINES, N}, mine[2] = {LINES, begin(rank + 1) - begin(rank)}, strides[2] = {N, 1}, lines = LINES;
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F64, .shape = shape};
        sf_tensor ty = {.data = whole, .device = {SF_CPU, 0}, .ndim = 1, .dtype = SF_F64, .shape = &lines}, sy = ty;
        int32_t axis = 1;
        sf_fold_options o = SF_FOLD_OPTIONS_INIT;
        o.op = (sf_op)op;
        o.axes = &axis;
        o.naxes = 1;
        check(sf_fold(NULL, &tx, &ty, &o) == SF_OK, "the whole fold", op, 0, limit);
        sf_tensor sx = {.data = &x[0][begin(rank)], .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F64, .shape = mine, .strides = strides};
        sy.data = part;
        sf_shard_options s = SF_SHARD_OPTIONS_INIT;
        s.op = (sf_op)op;
        s.fold = 1;
        check(sf_mpi_shard_within(NULL, &sx, &sy, &s, MPI_COMM_WORLD, limit) == SF_OK, "a fold's shard", op, 0, limit);
        check(!memcmp(whole, part, sizeof part), "the bits of a fold", op, 0, limit);
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
        static float x[LINES][N], a[LINES][N];
        static double wide[LINES][N];
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        srand(1);
        for (int line = 0; line < LINES; line++)
                for (int i = 0; i < N; i++) {
                        x[line][i] = (float)(rand() % 2000001 - 1000000) / 333333;
                        a[line][i] = (float)(rand() % 2000001 - 1000000) / 1000003;
                        wide[line][i] = x[line][i] / 3.0;
                }
        for (int op = 0; sf_op_name((sf_op)op); op++)
                for (int way = 0; way < 4; way++) {
                        const size_t limit = way & 2 ? SF_MPI_GATHER_BYTES : 0;
                        check_scan(op, way & 1, limit, x, a);
                        if (!(way & 1) && op != SF_RECURRENCE && (op < SF_ARGMAX || op > SF_LAST_ARGMIN))
                                check_fold(op, limit, wide);
                }
        check_fault(x);
        int all = 0;
        MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (!rank)
                printf("test_mpi: %d ranks, %d checks each, %d failures\n", ranks, checks, all);
        MPI_Finalize();
        return all != 0;
}
