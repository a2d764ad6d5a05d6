/* help.c: what --help says. Kept in step with scanfold.1. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char general[] =
        "scanfold: cumulative sums and reductions of .npy files, along any axis, with the same bits everywhere.\n"
        "\n"
        "usage: scanfold COMMAND [OPTIONS]\n"
        "\n"
        "  scan IN.npy -o OUT.npy      cumulative sum (or prod, max, min) along one axis\n"
        "  sum  IN.npy -o OUT.npy      sum over some axes, or all; likewise prod, max, min\n"
        "  fold IN.npy --op OP         the same with the operation as an option\n"
        "  info                        version, instruction sets, threads, devices\n"
        "  bench                       how fast it is here, beside a plain copy of the same bytes\n"
        "  help COMMAND                all about one of them (also: scanfold COMMAND --help)\n"
        "\n"
        "examples:\n"
        "  scanfold scan x.npy -o y.npy --axis 1                   y = numpy.cumsum(x, axis=1)\n"
        "  scanfold scan x.npy -o y.npy --axis 0 --reverse         from the last row to the first\n"
        "  scanfold scan x.npy -o y.npy --mask m.npy               only where m is true\n"
        "  scanfold sum x.npy -o s.npy --axis 0,2 --keepdim        over two axes\n"
        "  scanfold sum x.npy                                      over all, printed\n"
        "  zcat x.npy.gz | scanfold scan - -o - | gzip > y.npy.gz\n"
        "\n"
        "A result appears whole or not at all, and depends on the values along the axis only: not on the threads, the\n"
        "CPU or the file's layout. Exit status: 0 done, 1 could not be done, 2 the command line made no sense.\n";

static const char common[] =
        "  --reverse         take the elements from the last to the first\n"
        "  --mask M.npy      bool or uint8, broadcast to the input's shape; where it is 0 the element does not count\n"
        "  --initial V       a number combined with every result, on its left\n"
        "  --dtype T         the result's type; see below for the default\n"
        "  --acc T           the type to combine in, where not the result's: f64 makes an f32 sum as good as f64's\n"
        "  --view T          read the elements' bytes as T: --view bf16 for bfloat16, which .npy stores untyped (V2)\n"
        "  --threads N       default: SCANFOLD_NUM_THREADS, or OMP_NUM_THREADS, or one for each CPU\n"
        "  --slab SIZE       how much of a large file to work on at a time, such as 64M (default 128M)\n"
        "  -q, --quiet       no progress bar\n"
        "\n"
        "types: f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool (float32, int64 and so on as well).\n"
        "The default keeps the input's type, except that sums and products of bools and integers are 64 bits wide\n"
        "(i64, or u64 for unsigned), as in NumPy. bf16 is written as '<V2': numpy.load(f).view(ml_dtypes.bfloat16).\n"
        "\n"
        "files: .npy versions 1.0, 2.0 and 3.0, C or Fortran order, either byte order; results are in C order and the\n"
        "machine's byte order. The input is mapped, not read: it may be larger than memory. - is standard input or\n"
        "output; a pipe, and a file in the other byte order, are copied to $TMPDIR first.\n";

static const char scan[] =
        "usage: scanfold scan IN.npy -o OUT.npy [OPTIONS]\n"
        "\n"
        "Each result is the sum (or prod, max, min) of all elements up to and including its own, along one axis.\n"
        "\n"
        "  -o, --output FILE where the result goes; it may be the input's own name\n"
        "  --axis N          the axis, negative from the end (default -1, the last)\n"
        "  --op OP           sum (default), prod, max or min\n"
        "  --exclusive       each result leaves its own element out; the first is the operation's identity\n";

static const char scan_examples[] =
        "\nexamples:\n"
        "  scanfold scan x.npy -o y.npy --axis 1                   y = numpy.cumsum(x, axis=1)\n"
        "  scanfold scan rewards.npy -o returns.npy --reverse      what is still to come at each step\n"
        "  scanfold scan lengths.npy -o offsets.npy --exclusive    where each piece begins\n"
        "  scanfold scan x.npy -o peak.npy --op max --axis 0       the highest so far\n"
        "  scanfold scan x.npy -o y.npy --dtype f64                float32 in, summed and written in float64\n";

static const char fold[] =
        "usage: scanfold sum IN.npy [-o OUT.npy] [OPTIONS]        (or prod, max, min)\n"
        "       scanfold fold IN.npy --op OP [-o OUT.npy] [OPTIONS]\n"
        "\n"
        "Each result is the sum (or prod, max, min) over the named axes, or over all of them.\n"
        "\n"
        "  -o, --output FILE where the result goes; without it a single value is printed\n"
        "  --axis N[,N...]   the axes, negative from the end (default: all)\n"
        "  --op OP           sum (default), prod, max or min; only for fold\n"
        "  --keepdim         keep the folded axes, with length 1\n";

static const char fold_examples[] =
        "\nexamples:\n"
        "  scanfold sum x.npy                                      one number, printed\n"
        "  scanfold sum x.npy -o s.npy --axis 1 --keepdim          s = numpy.sum(x, axis=1, keepdims=True)\n"
        "  scanfold max x.npy -o m.npy --axis 0,2                  over the first and the third axis\n"
        "  scanfold sum x.npy --mask m.npy --acc f64               where m is true, combined in float64\n";

static const char info[] =
        "usage: scanfold info\n"
        "\n"
        "The version, the instruction sets this build has and which is used, the threads a large call uses, and the\n"
        "devices. SCANFOLD_ISA=avx2 (or another of them) and SCANFOLD_NUM_THREADS=4 change what is chosen.\n";

static const char bench[] =
        "usage: scanfold bench [OPTIONS]\n"
        "\n"
        "Times scans beside a memcpy of the same bytes, and folds beside the fastest of several plain read loops,\n"
        "with as many threads, turn by turn in the same run, in memory that has been touched before. Each time is the\n"
        "median of the rounds; a fraction of 1.00 is the speed of memory. Needs 2.4 GB, or 0.2 with --quick.\n"
        "\n"
        "  --quick           smaller sizes: seconds instead of a minute or two\n"
        "  --filter TEXT     only the rows whose name contains TEXT, such as \"sum\" or \"axis 0\"\n"
        "  --rounds N        default 9\n"
        "  --threads N       default: as for scan\n"
        "  --json FILE       the table, the machine, the compiler and the version as JSON as well\n"
        "\n"
        "examples:\n"
        "  scanfold bench --quick\n"
        "  scanfold bench --filter 'axis 0' --threads 1\n"
        "  scanfold bench --json bench.json\n";

int print_help(const char *command)
{
        if (!command) {
                fputs(general, stdout);
        } else if (!strcmp(command, "scan")) {
                fputs(scan, stdout);
                fputs(common, stdout);
                fputs(scan_examples, stdout);
        } else if (!strcmp(command, "fold") || !strcmp(command, "sum") || !strcmp(command, "prod") ||
                   !strcmp(command, "max") || !strcmp(command, "min")) {
                fputs(fold, stdout);
                fputs(common, stdout);
                fputs(fold_examples, stdout);
        } else if (!strcmp(command, "info")) {
                fputs(info, stdout);
        } else if (!strcmp(command, "bench")) {
                fputs(bench, stdout);
        } else {
                return -1;
        }
        return 0;
}
