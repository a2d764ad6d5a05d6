/* help.c: what --help prints. It must agree with scanfold.1. */
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
        "  run EXPR x=IN.npy -o OUT.npy    an expression in Python's notation, in as few passes as it takes\n"
        "  explain EXPR --shape x=4,5      what those passes are, and what they cost\n"
        "  info                        version, instruction sets, threads, devices\n"
        "  bench                       how fast it is here, beside a plain copy of the same bytes\n"
        "  digest                      the bits of a fixed list of results, to compare two machines by\n"
        "  cache warm|list|clear       the compiled CUDA kernels kept on disk\n"
        "  help COMMAND                all about one of them (also: scanfold COMMAND --help)\n"
        "\n"
        "examples:\n"
        "  scanfold scan x.npy -o y.npy --axis 1                   y = numpy.cumsum(x, axis=1)\n"
        "  scanfold scan x.npy -o y.npy --axis 0 --reverse         from the last row to the first\n"
        "  scanfold scan x.npy -o y.npy --mask m.npy               only where m is true\n"
        "  scanfold sum x.npy -o s.npy --axis 0,2 --keepdim        over two axes\n"
        "  scanfold sum x.npy                                      over all, printed\n"
        "  scanfold run 'sum(x * x, axis=1)' x=x.npy -o y.npy      several operators in one pass\n"
        "  zcat x.npy.gz | scanfold scan - -o - | gzip > y.npy.gz\n"
        "\n"
        "A result appears whole or not at all, and depends on the values along the axis only: not on the threads, the\n"
        "CPU or the file's layout. Exit status: 0 done, 1 could not be done, 2 the command line made no sense.\n";

static const char common[] =
        "  --reverse         take the elements from the last to the first\n"
        "  --mask M.npy      bool or uint8, broadcast to the input's shape; where it is 0 the element does not count\n"
        "  --skip-nan        nor does an element that is NaN\n"
        "  --offsets O.npy   int32 or int64: the axis is cut into segments, each by itself; where each begins, and the last one\n"
        "                    ends. A fold has one result a segment\n"
        "  --initial V       a number combined with every result, on its left\n"
        "  --dtype T         the result's type; see below for the default\n"
        "  --acc T           the type to combine in, where not the result's: f64 makes an f32 sum as good as f64's\n"
        "  --view T          read the elements' bytes as T: --view bf16 for bfloat16, which .npy stores untyped (V2)\n"
        "  --threads N       default: SCANFOLD_NUM_THREADS, or OMP_NUM_THREADS, or one for each CPU\n"
        "  --slab SIZE       how much of a large file to work on at a time, such as 64M (default 128M)\n"
        "  --mpi             share the axis among the ranks of mpirun: mpirun -n 4 scanfold scan ... --mpi\n"
        "  -q, --quiet       no progress bar\n"
        "\n"
        "types: f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool (float32, int64 and so on as well).\n"
        "The default keeps the input's type, except that sums and products of bools and integers are 64 bits wide\n"
        "(i64, or u64 for unsigned), as in NumPy; positions are i64, and logsumexp of integers f64.\n"
        "bf16 is written as '<V2': numpy.load(f).view(ml_dtypes.bfloat16).\n"
        "\n"
        "files: .npy versions 1.0, 2.0 and 3.0, C or Fortran order, either byte order; results are in C order and the\n"
        "machine's byte order. The input is mapped, not read: it may be larger than memory. - is standard input or\n"
        "output; a pipe, and a file in the other byte order, are copied to $TMPDIR first.\n"
        "A pipe is read as far as its data goes, and no further. An output that is a symbolic\n"
        "link stays one: what it names is written.\n";

static const char scan[] =
        "usage: scanfold scan IN.npy -o OUT.npy [OPTIONS]\n"
        "\n"
        "Each result is the sum (or prod, max, min) of all elements up to and including its own, along one axis.\n"
        "\n"
        "  -o, --output FILE where the result goes; it may be the input's own name\n"
        "  --axis N          the axis, negative from the end (default -1, the last)\n"
        "  --op OP           sum (default), prod, max, min, argmax, argmin, last_argmax, last_argmin or logsumexp\n"
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
        "  --op OP           sum (default), prod, max, min, argmax, argmin, last_argmax, last_argmin or logsumexp;\n"
        "                    only for fold. Of equal elements argmax finds the first, last_argmax the last\n"
        "  --keepdim         keep the folded axes, with length 1\n";

static const char fold_examples[] =
        "\nexamples:\n"
        "  scanfold sum x.npy                                      one number, printed\n"
        "  scanfold sum x.npy -o s.npy --axis 1 --keepdim          s = numpy.sum(x, axis=1, keepdims=True)\n"
        "  scanfold max x.npy -o m.npy --axis 0,2                  over the first and the third axis\n"
        "  scanfold fold x.npy -o i.npy --op argmax --axis 1       i = numpy.argmax(x, axis=1)\n"
        "  scanfold sum data.npy -o rows.npy --offsets indptr.npy  the rows of a CSR matrix\n"
        "  scanfold sum x.npy --mask m.npy --acc f64               where m is true, combined in float64\n";

static const char info[] =
        "usage: scanfold info\n"
        "\n"
        "The version, the instruction sets this build has and which is used, the threads a large call uses, and the\n"
        "devices: the CPU, each CUDA device, and the driver, the compiler (NVRTC) and the cache it is used with, or what\n"
        "is missing for that. SCANFOLD_ISA=avx2 (or another of them) and SCANFOLD_NUM_THREADS=4 change what is chosen;\n"
        "SCANFOLD_LIBCUDA and SCANFOLD_NVRTC name the files to load instead of looking for them.\n";

static const char digest[] =
        "usage: scanfold digest [--device D] [--only TEXT]\n"
        "\n"
        "One line for each operation and dtype: a number made of the bits of all results of a fixed list, scans and folds,\n"
        "of several shapes. Two machines that print the same lines compute the same bits; so do two instruction sets\n"
        "(SCANFOLD_ISA), any number of threads (SCANFOLD_NUM_THREADS) and a GPU. It takes seconds; on\n"
        "a GPU minutes the first time, for compiling a thousand kernels.\n"
        "\n"
        "  --device D        cpu (default), cuda or cuda:1: where the results are computed\n"
        "  --only TEXT       only lines that have this text, such as \"of f16\"\n"
        "\n"
        "examples:\n"
        "  scanfold digest > here.txt        then, on the other machine: scanfold digest | diff here.txt -\n"
        "  scanfold digest --device cuda | diff here.txt -\n";

static const char cache[] =
        "usage: scanfold cache warm [--device N] [-q]\n"
        "       scanfold cache list\n"
        "       scanfold cache clear\n"
        "\n"
        "CUDA kernels are compiled for the device at hand when they are first needed, and kept on disk.\n"
        "\n"
        "  warm              compile what common calls need, now instead of at the first call\n"
        "  list              when each was last used, its size, the beginning of its file's name, and what it is\n"
        "  clear             remove them all\n"
        "  --device N        (warm) for this device only, numbered as in scanfold info; default: every one\n"
        "  -q, --quiet       no progress bar\n"
        "\n"
        "The folder is SCANFOLD_CACHE_DIR (set to nothing: no cache), else scanfold in XDG_CACHE_HOME, else\n"
        ".cache/scanfold in HOME; it holds at most SCANFOLD_CACHE_MB megabytes (256), the least recently used going first.\n"
        "\n"
        "examples:\n"
        "  scanfold cache warm\n"
        "  SCANFOLD_CACHE_DIR=/srv/image/cache scanfold cache warm --device 0\n"
        "  scanfold cache list | sort -k3 -n\n";

static const char run_text[] =
        "usage: scanfold run EXPRESSION NAME=IN.npy... [-o OUT.npy]... [OPTIONS]\n"
        "\n"
        "Computes a line in Python's notation on .npy files. What can be fused is: x is read once where one pass is enough.\n"
        "\n"
        "  NAME=IN.npy       the file for a name in the expression; - is standard input\n"
        "  -o, --output FILE where the result goes; several results (a, b) take several -o. Without it single values are printed\n"
        "  --exact           every operator rounds for itself: nothing is merged or summed in another order\n"
        "  --                ends the options; what follows may begin with a minus, as -x does\n"
        "  --view NAME=T     read the elements' bytes as T, such as x=bf16\n"
        "  --threads N       default: SCANFOLD_NUM_THREADS, or OMP_NUM_THREADS, or one for each CPU\n"
        "  -q, --quiet       no progress bar\n"
        "\n";

static const char explain_text[] =
        "usage: scanfold explain EXPRESSION --shape NAME=N,N... [OPTIONS]\n"
        "\n"
        "Shows what would be done: the passes over memory, the bytes they move beside one pass an operator, which rewrites\n"
        "found them, what they do to rounding, what was not fused and why, and the time to expect.\n"
        "\n"
        "  --shape NAME=N,N  the shape of an input, such as x=1024,8192; x= is a single number\n"
        "  --dtype NAME=T    its dtype; default f32\n"
        "  --exact           without the rewrites that round differently\n"
        "  --format F        text (default), json, dot (for graphviz) or svg\n"
        "  --device D        cpu (default), cuda or cuda:1\n"
        "  --threads N       as for run\n"
        "  --                ends the options: scanfold explain --shape x=4,5 -- '-x'\n"
        "\n";

static const char notation[] =
        "An expression has names (the inputs), numbers, + - * / @, ** 2, comparisons, .T, slices as x[:, 1:], and the functions\n"
        "  sum prod max min (x, axis=1, keepdim=True, mask=m, skip_nan=True, dtype=f64)\n"
        "  cumsum cumprod cummax cummin (x, axis=1, reverse=True, exclusive=True, mask=m)\n"
        "  and each of these and what is made of them with offsets=o: o cuts the axis into segments;\n"
        "  spread(v, axis, length, offsets=o): a value of each segment, for each of its elements\n"
        "  mean sumsq any all norm(x, 2, axis=1); var std var_mean std_mean (x, 1, correction=1)\n"
        "  softmax log_softmax (x, 1, mask=m), layer_norm(x, 1, w, b), rms_norm(x, 1, w), normalize(x, 2, 1), standardize(x, 1)\n"
        "  cummean cumvar; nansum nanprod nanmax nanmin nanmean nanvar nanstd nancumsum nancumprod\n"
        "  argmax argmin logsumexp, as sum; cumargmax cumargmin logcumsumexp, as cumsum; linear_recurrence(a, b, axis=1)\n"
        "  exp log sqrt square abs relu sigmoid tanh minimum maximum clamp where masked_fill\n"
        "  flip transpose permute unsqueeze squeeze broadcast_to concat zeros_like ones_like matmul linear astype\n"
        "also as methods, as x.sum(1), with torch. or np. before them, and with dim for axis.\n";

static const char run_examples[] =
        "\nexamples:\n"
        "  scanfold run 'sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5' x=x.npy w=w.npy -o y.npy\n"
        "  scanfold run 'cumsum(x * m, axis=1)' x=x.npy m=m.npy -o y.npy\n"
        "  scanfold run 'var(x)' x=x.npy                                   the variance, printed\n"
        "  scanfold run 'sum(x, 1), max(x, 1)' x=x.npy -o s.npy -o m.npy   two results, one read\n"
        "  scanfold run -o y.npy -- '-x' x=x.npy                           a minus first\n";

static const char explain_examples[] =
        "\nexamples:\n"
        "  scanfold explain 'sum((x @ w.T) / 2, axis=1, keepdim=True) * 1.5' --shape x=1024,8192 --shape w=8192,8192\n"
        "  scanfold explain 'flip(cumsum(flip(x, 1), 1), 1)' --shape x=32768,32768 --format svg > plan.svg\n"
        "  scanfold explain 'cumsum(x * m, 1)' --shape x=64,100 --shape m=64,100 --dtype m=bool --exact\n";

static const char bench[] =
        "usage: scanfold bench [OPTIONS]\n"
        "\n"
        "Times scans beside a memcpy of the same bytes, and folds beside the fastest of several plain read loops,\n"
        "with as many threads, turn by turn in the same run, in memory that has been touched before. Each time is the\n"
        "median of the rounds; a fraction of 1.00 is the speed of memory. One thread is timed by its own time on a processor,\n"
        "several by the clock. Needs 2.4 GB, or 0.2 with --quick.\n"
        "\n"
        "  --quick           smaller sizes: seconds instead of a minute or two\n"
        "  --few             only a dozen rows, some of every kind\n"
        "  --filter TEXT     only the rows whose name contains TEXT, such as \"sum\" or \"axis 0\"\n"
        "  --rounds N        default 9\n"
        "  --threads N       default: as for scan\n"
        "  --json FILE       the table, the machine, the compiler, the version and the commit as JSON as well\n"
        "  --html FILE       the same as one self-contained page: every case, the worst ones, the machine\n"
        "  --compare FILE    an earlier --json: says which rows have become slower, as fractions of a copy; exit status 1 then\n"
        "  --tolerance P     a row is slower below this part of what it was, five times in a row; default 0.85\n"
        "\n"
        "examples:\n"
        "  scanfold bench --quick\n"
        "  scanfold bench --filter 'axis 0' --threads 1\n"
        "  scanfold bench --json bench.json\n"
        "  scanfold bench --compare bench.json\n"
        "  scanfold bench --quick --html report.html\n";

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
        } else if (!strcmp(command, "digest")) {
                fputs(digest, stdout);
        } else if (!strcmp(command, "bench")) {
                fputs(bench, stdout);
        } else if (!strcmp(command, "run")) {
                fputs(run_text, stdout);
                fputs(notation, stdout);
                fputs(run_examples, stdout);
        } else if (!strcmp(command, "explain")) {
                fputs(explain_text, stdout);
                fputs(notation, stdout);
                fputs(explain_examples, stdout);
        } else if (!strcmp(command, "cache")) {
                fputs(cache, stdout);
        } else {
                return -1;
        }
        return 0;
}
