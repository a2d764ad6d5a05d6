/* The golden bits of order_vectors.txt, for every engine. The file's path is the argument. */
#include "harness.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 4096

static long checks;

/* One line, "name hex hex ...": the numbers, and how many. */
static int64_t read_bits(FILE *f, const char *name, uint32_t *bits, int64_t n)
{
        char word[32];
        if (fscanf(f, "%31s", word) != 1 || strcmp(word, name)) {
                FAIL("expected a line of %s", name);
                return 0;
        }
        int64_t got = 0;
        while (got < n && fscanf(f, "%8" SCNx32, &bits[got]) == 1)
                got++;
        CHECK(got == n, "%s has %" PRId64 " of %" PRId64 " numbers", name, got, n);
        return got;
}

static void compare(const engine *e, const char *what, int64_t n, const uint32_t *got, const uint32_t *right,
                    int64_t count)
{
        for (int64_t i = 0; i < count; i++)
                if (got[i] != right[i]) {
                        FAIL("%s, %s of %" PRId64 ": element %" PRId64 " is %08" PRIx32
                             ", the vectors have %08" PRIx32, e->name, what, n, i,
                             got[i], right[i]);
                        return;
                }
        checks++;
}

static void check_block(int64_t n, uint32_t *x, uint32_t *scan, uint32_t *rev, uint32_t fold, uint32_t rfold)
{
        uint32_t y[LONGEST], total;
        for (int64_t i = 0; i < n; i++) {
                float f = (float)mixed((uint64_t)i);
                CHECK(!memcmp(&f, &x[i], 4), "the generator's x[%" PRId64 "] is not the file's", i);
        }
        sf_tensor tx = tensor(x, SF_F32, 1, &n), ty = tensor(y, SF_F32, 1, &n), tt = tensor(&total, SF_F32, 0, NULL);
        for (int i = 0; i < engine_count; i++) {
                sf_scan_options s = SF_SCAN_OPTIONS_INIT;
                sf_fold_options f = SF_FOLD_OPTIONS_INIT;
                for (int reverse = 0; reverse < 2; reverse++) {
                        s.reverse = f.reverse = reverse;
                        CHECK(sf_scan(engines[i].ctx, &tx, &ty, &s) == SF_OK, "%s", sf_last_error(engines[i].ctx));
                        compare(&engines[i], reverse ? "rev" : "scan", n, y, reverse ? rev : scan, n);
                        CHECK(sf_fold(engines[i].ctx, &tx, &tt, &f) == SF_OK, "%s", sf_last_error(engines[i].ctx));
                        compare(&engines[i], reverse ? "rfold" : "fold", n, &total, reverse ? &rfold : &fold, 1);
                }
        }
}

/* The same vectors as columns of a matrix, as rows, and as every second element: the order is the axis's own. */
static void check_spread(int64_t n, const uint32_t *x, const uint32_t *scan)
{
        enum { WIDTH = 37 };
        static uint32_t in[LONGEST * WIDTH], out[LONGEST * WIDTH], column[LONGEST];
        int64_t shape[2] = {n, WIDTH}, transposed[2] = {1, n}, strides[2] = {WIDTH, 1};
        for (int by_rows = 0; by_rows < 2; by_rows++) {
                sf_tensor tx = tensor(in, SF_F32, 2, shape), ty = tensor(out, SF_F32, 2, shape);
                tx.strides = ty.strides = by_rows ? transposed : strides;
                for (int64_t i = 0; i < n; i++)
                        for (int64_t c = 0; c < WIDTH; c++)
                                in[by_rows ? c * n + i : i * WIDTH + c] = x[i];
                sf_scan_options s = SF_SCAN_OPTIONS_INIT;
                s.axis = 0;
                for (int e = 0; e < engine_count; e++) {
                        memset(out, 0, sizeof out);
                        CHECK(sf_scan(engines[e].ctx, &tx, &ty, &s) == SF_OK, "%s", sf_last_error(engines[e].ctx));
                        for (int64_t c = 0; c < WIDTH; c += 6) {
                                for (int64_t i = 0; i < n; i++)
                                        column[i] = out[by_rows ? c * n + i : i * WIDTH + c];
                                compare(&engines[e], by_rows ? "scan of a row" : "scan of a column", n, column, scan,
                                        n);
                        }
                }
        }
}

int main(int argc, char **argv)
{
        static uint32_t x[LONGEST], scan[LONGEST], rev[LONGEST], fold, rfold;
        FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
        char line[256];
        int64_t n;
        int blocks = 0;
        if (!f) {
                fprintf(stderr, "give the path of order_vectors.txt (%s)\n", argc > 1 ? strerror(errno) : "none given");
                return 2;
        }
        engines_open();
        long at = ftell(f);
        while (fgets(line, sizeof line, f) && line[0] == '#')
                at = ftell(f);
        fseek(f, at, SEEK_SET);
        for (; fscanf(f, " n %" SCNd64, &n) == 1; blocks++) {
                if (n < 1 || n > LONGEST || read_bits(f, "x", x, n) != n || read_bits(f, "scan", scan, n) != n ||
                    read_bits(f, "rev", rev, n) != n || read_bits(f, "fold", &fold, 1) != 1 ||
                            read_bits(f, "rfold", &rfold, 1) != 1)
                        break;
                check_block(n, x, scan, rev, fold, rfold);
                check_spread(n, x, scan);
        }
        CHECK(blocks >= 10, "only %d blocks were read", blocks);
        fclose(f);
        engines_close();
        return finish("test_order", checks);
}
