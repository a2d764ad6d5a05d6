/*
 * Maps chip and element size to a tile, as data. The first row that fits decides. A row says what
 * it was measured on, or why it should hold. To tune for a chip, add rows above the ones for all.
 */
#include "cuda/emit.h"

typedef struct row {
        int32_t kernel;
        /* fold, segments: of columns; segments, 2: of lines, a window for each block; apply: lines
         * of several tiles; -1: either */
        int32_t down;
        int32_t masked;     /* -1: either */
        int32_t width;      /* vectors of up to this many elements */
        int32_t in;         /* elements of x of up to this many bytes */
        int32_t size;       /* x, y and accumulator of up to this many bytes */
        int32_t capability; /* chips from this one on */
        sf_cuda_tile tile;
} row;

static const row rows[] = {
        /* H200, 32768 x 32768 f32, share of a copy, in one run: 256 threads with 32 floats each and
         * the next 32 in flight, two blocks: 0.978; 512 x 16, two: 0.973; 256 x 16, three: 0.965,
         * four: 0.959; 512 x 8, three: 0.960; 512 x 32, one: 0.951; 1024 x 16, one: 0.946; 256 x
         * 32, three, which spills: 0.745. Masked, 512 x 16 gives 0.97. With 16 halves a thread, two
         * vectors: 0.79; with 32, in one block: 0.97. */
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 1, 4, 70, {512, 64, 1, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 2, 4, 70, {512, 32, 1, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 4, 4, 70, {256, 32, 2, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, -1, 16, 4, 4, 70, {512, 16, 2, 0, 0}},
        /* With 1024 threads of 64 registers each, 64-bit integers would spill. */
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 8, 8, 70, {512, 16, 1, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 1, 16, 8, 8, 70, {512, 8, 2, 0, 0}},

        /* H200: strips of 128 columns, 8 warps of 4 rows, three blocks on a multiprocessor:
         * 0.93. */
        /* Masked, one block of 512 threads: 0.845, against 0.835. */
        {SF_CUDA_SCAN_COLUMNS, -1, 1, 16, 4, 4, 70, {512, 16, 1, 32, 0}},
        /* Narrower elements: as many bytes in flight. */
        {SF_CUDA_SCAN_COLUMNS, -1, 0, 16, 2, 4, 70, {256, 32, 2, 32, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, -1, 16, 4, 4, 70, {256, 16, 3, 32, 0}},
        /* H200, share of a copy, so and in tiles of 8: (100, 300, 3001) i32 into i64 0.85, 0.77; (64, 1000, 1024) f32
         * into f64 0.94, 0.90; (107, 1245, 179) u8 into i64 0.91, 0.67. But (30, 3000, 1001) i64 0.73, 0.83. */
        {SF_CUDA_SCAN_COLUMNS, -1, -1, 16, 4, 8, 70, {256, 16, 2, 32, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, -1, 16, 8, 8, 70, {256, 8, 3, 32, 0}},

        /* H200, (2^20, 2), (2^20, 8), (2^20, 32), share of a copy: 256 x 32, two blocks: 0.42,
         * 0.63, 0.59; 256 x 16, four: 0.41, 0.56, 0.56; 512 x 16, two: 0.38, 0.55, 0.57. */
        {SF_CUDA_SCAN_NARROW, -1, -1, 16, 4, 4, 70, {256, 32, 2, 0, 0}},
        {SF_CUDA_SCAN_NARROW, -1, -1, 16, 8, 8, 70, {256, 16, 2, 0, 0}},

        /* A tile as large as half of a multiprocessor's registers can hold. */
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 4, 4, 70, {512, 32, 2, 0, 0}},
        /* H200, share of a copy, 512 x 16 and two of 512 x 8: (16, 2097152) u8 into i64 0.58, 0.42,
         * 5477961 i32 into i64 0.73, 0.59. */
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 4, 8, 70, {512, 16, 1, 0, 0}},
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 8, 8, 70, {512, 8, 2, 0, 0}},

        /* As many bytes in flight as in folds of rows. */
        {SF_CUDA_MAP, -1, -1, 16, 4, 4, 70, {256, 16, 4, 0, 0}},
        {SF_CUDA_MAP, -1, -1, 16, 8, 8, 70, {256, 8, 4, 0, 0}},

        /* To be measured. A line in registers: 32 words a thread, up to 1024 threads on a
         * multiprocessor. Blocks of 512 run in twos, so that one loads while another stores; for
         * shorter lines, blocks have four warps (`more`). Longer lines tile by tile (`down`), 1024
         * threads with 8 words each. */
        {SF_CUDA_APPLY, 0, -1, 16, 8, 8, 70, {1024, 32, 1, 4, 0}},
        {SF_CUDA_APPLY, 1, -1, 16, 8, 8, 70, {1024, 8, 1, 0, 0}},

        /*
         * Short lines: the same words and registers, and blocks of four warps unless a line has
         * more. Which lines, and which stay with the rows above: of aligned ones, those that have
         * at most a quarter of a warp (`beside`), so up to 256 elements of four bytes or less: in
         * apply.cu a warp has one line, for which it has too many lanes. Of others, those that leave
         * a multiprocessor two blocks, of which one copies while the other computes: up to 512
         * threads, 16384 f32. H200, share of a copy of 256 MiB, with the rows above -> with this
         * one (the last two aligned ones, and 20001, of a first version):
         *
         *     aligned     f32 softmax     bf16 softmax
         *     64          0.40 -> 0.97    0.19 -> 0.81
         *     128         0.79 -> 0.96    0.37 -> 0.84
         *     200, 256    0.92 -> 0.98    0.69 -> 0.89
         *     512         the same        0.82 -> 0.80
         *     1000        0.97 -> 0.93    0.90 -> 0.75
         *
         *     others      f32 softmax     f32 layer norm    bf16 softmax
         *     35          0.12 -> 0.98    0.12 -> 0.97      0.04 -> 0.65
         *     513         0.49 -> 0.95    0.42 -> 0.96      0.23 -> 0.55
         *     1001        0.86 -> 0.97    0.78 -> 0.97      0.46 -> 0.76
         *     2049        0.49 -> 0.93    0.55 -> 0.97      0.28 -> 0.52
         *     4097        0.63 -> 0.93    0.71 -> 0.99      0.26 -> 0.55
         *     10007       0.76 -> 0.90    0.85 -> 0.96      0.51 -> 0.60
         *     16001       0.83 -> 0.82    0.90 -> 0.95      0.49 -> 0.52
         *     20001       0.76 -> 0.56    0.73 -> 0.63
         */
        {SF_CUDA_APPLY_SHORT, -1, -1, 16, 8, 8, 70, {512, 32, 2, 4, 4}},

        /* Columns in registers: 32 words a thread, in blocks of at least four warps. */
        {SF_CUDA_APPLY_COLUMNS, -1, -1, 16, 8, 8, 70, {512, 64, 1, 4, 0}},

        /* 64 words of rows a thread, and as many registers for the rest: with 16 warps to a block, or
         * two blocks of 8, none is spilled (nvcc 13, sm_90). */
        {SF_CUDA_APPLY_GROUP, -1, -1, 16, 8, 8, 70, {512, 64, 1, 0, 0}},

        /* A leaf of 32 words for each lane, of 64 in most folds (emit_segments.c). H200, 2^26 f32:
         * five, six or seven blocks of 128 threads and twelve of 64 differ by less than a tenth. */
        {SF_CUDA_SEGMENTS, 0, -1, 16, 8, 4, 70, {128, 32, 6, 0, 0}},
        {SF_CUDA_SEGMENTS, 0, -1, 16, 8, 8, 70, {128, 32, 4, 0, 0}},
        {SF_CUDA_SEGMENTS, 1, -1, 16, 8, 8, 70, {128, 32, 5, 0, 0}},
        /* Of a chunk; the block has a warp more. H200, 2^26 f32 in segments of Pareto's lengths,
         * mean 1, share of a copy: scans of 128 x 16, seven blocks: 0.59, six: 0.53; sums 0.56 and 0.41.
         * An earlier version, scans: 128 x 16, six: 0.55, 256 x 16, three: 0.55, 256 x 8, four:
         * 0.46, 128 x 8, eight: 0.44. */
        {SF_CUDA_SEGMENTS, 2, -1, 16, 8, 8, 70, {128, 16, 7, 0, 0}},

        /* Rows of 8 elements, and cells for 8 chunks (`more`) of 32 rows; of wide elements for 4. With
         * three blocks wide elements would spill (nvcc 13, sm_90). */
        {SF_CUDA_SEGMENTS_APPLY, -1, -1, 16, 8, 4, 70, {256, 8, 3, 8, 0}},
        {SF_CUDA_SEGMENTS_APPLY, -1, -1, 16, 8, 8, 70, {256, 8, 2, 4, 0}},

        /* The time that a tile waits for its totals, about 9 microseconds on an H200, must be
         * covered by bytes in flight: stages of 32 KiB in shared memory. 2^28 u8, share of a copy:
         * 64 elements a thread 0.63, 32 0.54. */
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 1, 4, 70, {512, 64, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 2, 4, 70, {512, 32, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 4, 4, 70, {512, 16, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 4, 8, 70, {512, 16, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 8, 8, 70, {512, 8, 1, 6, 0}},

        /* H200, 128 x 4096 x 4095 f32, share of a copy. Down rows that allow no vectors (dim 1),
         * all on one machine: two blocks of 512 threads with 4 rows of 5 columns each: 1.013; of 6
         * columns 1.012, of 4 0.998, of 7 1.0, 8 rows of 3 1.001; one block of 1024 with 4 rows of
         * 5 1.01, of 4 0.992. With vectors (dim 0): 256 x 32, three blocks: 1.01; 1024 x 16:
         * 0.72. */
        /* Each has a register. Bytes: H200, sums of (257, 69, 128, 25) bool into i64 1.20 times as
         * fast as in blocks of 256, but of (67, 8698, 138) bf16 0.85. */
        {SF_CUDA_FOLD, 1, -1, 2, 1, 4, 70, {128, 32, 6, 32, 8}},
        {SF_CUDA_FOLD, 1, -1, 16, 1, 4, 70, {128, 64, 4, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 2, 2, 4, 70, {256, 32, 3, 32, 8}},
        {SF_CUDA_FOLD, 1, -1, 16, 2, 4, 70, {256, 64, 2, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 1, 4, 4, 70, {512, 20, 2, 32, 5}},
        {SF_CUDA_FOLD, 1, -1, 16, 4, 4, 70, {256, 32, 3, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 16, 4, 8, 70, {256, 32, 2, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 16, 8, 8, 70, {256, 16, 3, 32, 4}},
        {SF_CUDA_FOLD, 0, -1, 16, 1, 4, 70, {128, 64, 8, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 2, 4, 70, {128, 32, 8, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 4, 4, 70, {128, 16, 8, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 2, 8, 70, {256, 32, 3, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 4, 8, 70, {256, 16, 3, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 8, 8, 70, {256, 8, 4, 0, 0}},
};

/*
 * A value of two components needs twice the registers of another accumulator, and more for
 * computing. According to nvcc 13 for sm_90, these tiles do not spill; those above did. Kernels
 * without a row here use the table above.
 */
static const row pairs[] = {
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 2, 4, 70, {512, 32, 1, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 0, 1, 4, 4, 70, {256, 16, 2, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 4, 4, 70, {256, 32, 2, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, -1, 16, 4, 4, 70, {512, 16, 1, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, -1, 16, 8, 8, 70, {256, 8, 2, 0, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, 0, 4, 4, 4, 70, {256, 16, 3, 32, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, -1, 16, 4, 4, 70, {256, 16, 2, 32, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, 0, 2, 8, 8, 70, {256, 8, 3, 32, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, -1, 16, 8, 8, 70, {256, 8, 2, 32, 0}},
        {SF_CUDA_SCAN_NARROW, -1, -1, 16, 4, 4, 70, {256, 16, 3, 0, 0}},
        {SF_CUDA_SCAN_NARROW, -1, -1, 16, 8, 8, 70, {256, 8, 2, 0, 0}},
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 4, 4, 70, {512, 16, 1, 0, 0}},
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 8, 8, 70, {256, 8, 1, 0, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 4, 4, 70, {512, 16, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 8, 8, 70, {256, 8, 1, 6, 0}},
        {SF_CUDA_FOLD, 1, -1, 2, 2, 4, 70, {256, 32, 3, 32, 8}},
        {SF_CUDA_FOLD, 1, -1, 16, 2, 4, 70, {256, 32, 3, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 1, 4, 4, 70, {512, 16, 2, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 16, 4, 4, 70, {256, 16, 4, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 16, 8, 8, 70, {256, 16, 2, 32, 4}},
        {SF_CUDA_FOLD, 0, -1, 16, 4, 4, 70, {256, 16, 3, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 8, 8, 70, {256, 8, 3, 0, 0}},
};

/*
 * An element with its index needs half of a product's registers for computing, and a scan stores
 * three words for each that it reads. H200, (16384, 16384) f32 with the elements, share of a copy:
 * rows 512 x 8, two blocks: 0.90; 256 x 8, four: 0.88, two: 0.85; 256 x 16, two: 0.86, three: 0.80.
 * argmax of columns: 256 x 32, two, is 1.02 times as fast as 256 x 16, four. Kernels without a row
 * here use the table of pairs.
 */
static const row indices[] = {
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 4, 8, 70, {512, 8, 2, 0, 0}},
        {SF_CUDA_FOLD, 1, -1, 16, 2, 4, 70, {256, 32, 3, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 1, 4, 4, 70, {512, 16, 2, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 16, 4, 4, 70, {256, 32, 2, 32, 4}},
};

/*
 * A recurrence reads two elements for one, and its lanes exchange two numbers at every level. If
 * vectors are single elements, that is most of the work, and warps of small blocks wait less for
 * each other. H200, (8, 1536, n) f32, n = 65537, 4097 and 3001, share of a copy: eight blocks of 64
 * threads 0.885, 0.84, 0.92; four of 128 0.876, 0.67, 0.67; two of 256 0.81, 0.42, 0.67. Vectors of
 * four, n = 65536, the recurrence that gradients take: four of 128 0.968, eight of 64 0.957, two of
 * 256 0.94.
 */
static const row recurrences[] = {
        {SF_CUDA_SCAN_ROWS, -1, 0, 1, 2, 4, 70, {512, 32, 1, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 0, 1, 4, 4, 70, {64, 32, 8, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 0, 4, 4, 4, 70, {128, 32, 4, 0, 0}},
        /* According to nvcc 13 for sm_90, this does not spill; 512 x 16 did. */
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 4, 4, 70, {256, 32, 1, 6, 0}},
};

/*
 * Computing sums of exponentials takes as long as all the rest: so there are more blocks, some of
 * which compute while others load. H200, (16384, 16384) f32, share of a copy: folds of rows 256 x
 * 16, four blocks: 1.02, 256 x 32, three: 1.01, 256 x 16, five, which spills: 0.95; of columns 256 x
 * 16, three: 0.99, four: 0.99, 256 x 32, three: 0.985, two: 0.94. Scans of rows 256 x 16, three:
 * 0.67, 256 x 32, two, which spills: 0.63; of columns, where groups and tiles exchange pairs, 256 x
 * 32, two: 0.57, 256 x 16, three: 0.50.
 */
static const row exponentials[] = {
        {SF_CUDA_SCAN_ROWS, -1, -1, 16, 4, 4, 70, {256, 16, 3, 0, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, -1, 16, 4, 4, 70, {256, 32, 2, 32, 0}},
        {SF_CUDA_FOLD, 1, -1, 16, 4, 4, 70, {256, 16, 3, 32, 4}},
        {SF_CUDA_FOLD, 0, -1, 16, 4, 4, 70, {256, 16, 4, 0, 0}},
};

/*
 * A scan of products holds numbers (kernels/tree_products.cuh), so most of its tiles are those
 * of the first table; columns without a row here hold pairs, and use the table of pairs. These
 * have more registers a thread: for the totals that warps and tiles exchange, which are pairs,
 * in bursts, lines of f64 and rows with masks. H200, cumprod, share of plain multiplication:
 * (2^20, 32) f32 256 x 32, two blocks: 0.74, 512 x 32, two, which spills: 0.45; (2^20, 8) f64
 * 256 x 16, two: 0.87, 512 x 8, two, which spills: 0.30; 2^27 f64 256 x 16 0.90, 512 x 8, which
 * spills: 0.84. Share of a copy, chained, 256 x 32 and 512 x 16: 240000000 f32 0.85, 0.84, and where
 * totals have a level more, 349732361, 0.84, 0.60; 256 x 64 and 512 x 32: 300000000 bf16 0.80, 0.64, f16 0.59, 0.56.
 */
static const row products[] = {
        {SF_CUDA_SCAN_ROWS, -1, 0, 16, 2, 4, 70, {512, 32, 2, 0, 0}},
        {SF_CUDA_SCAN_ROWS, -1, 1, 16, 4, 4, 70, {512, 16, 1, 0, 0}},
        {SF_CUDA_SCAN_COLUMNS, -1, 0, 16, 2, 4, 70, {256, 32, 2, 32, 0}},
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 4, 4, 70, {256, 32, 2, 0, 0}},
        {SF_CUDA_SCAN_BURST, -1, -1, 32, 8, 8, 70, {256, 16, 2, 0, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 4, 2, 4, 70, {256, 32, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 2, 4, 70, {256, 64, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 4, 4, 70, {256, 32, 1, 6, 0}},
        {SF_CUDA_SCAN_CHAINED, -1, -1, 16, 8, 8, 70, {256, 16, 1, 6, 0}},
        {SF_CUDA_FOLD, 1, -1, 16, 2, 4, 70, {256, 64, 2, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 1, 4, 4, 70, {512, 16, 2, 32, 4}},
        {SF_CUDA_FOLD, 1, -1, 16, 4, 4, 70, {256, 32, 3, 32, 4}},
        {SF_CUDA_FOLD, 0, -1, 16, 2, 4, 70, {256, 32, 4, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 4, 4, 70, {256, 16, 4, 0, 0}},
        {SF_CUDA_FOLD, 0, -1, 16, 8, 8, 70, {256, 8, 4, 0, 0}},
};

#define ROW_IN(table) row_for(table, sizeof(table) / sizeof *(table), chip, spec, in, size)

/* The first row that fits; NULL: there is none. */
static const row *row_for(const row *r, size_t count, const sf_cuda_chip *chip,
                          const sf_cuda_spec *spec, int in, int size)
{
        const row *end = r + count;
        const bool windows = spec->kernel == SF_CUDA_SEGMENTS && spec->extra[SEGMENTS_BLOCKS];
        int32_t down = windows ? 2 : (spec->flags & SF_CUDA_DOWN) != 0,
                masked = (spec->flags & SF_CUDA_MASK) != 0;
        while (r < end && (r->kernel != spec->kernel || (r->down >= 0 && r->down != down) ||
                           (r->masked >= 0 && r->masked != masked) || r->width < spec->width ||
                           r->in < in || r->size < size || r->capability > chip->capability))
                r++;
        return r < end ? r : NULL;
}

sf_status sf_cuda_tile_for(const sf_context *ctx, const sf_cuda_chip *chip,
                           const sf_cuda_spec *spec, int in, int size, sf_cuda_tile *tile)
{
        const row *r = NULL;
        if (sf_op_is((sf_op)spec->op, SF_INDEX))
                r = ROW_IN(indices);
        else if (spec->op == SF_RECURRENCE)
                r = ROW_IN(recurrences);
        else if (spec->op == SF_LOGSUMEXP)
                r = ROW_IN(exponentials);
        const bool product = sf_cuda_is_product(spec->op, spec->acc);
        const bool scans = product && spec->kernel < SF_CUDA_FOLD;
        if (product)
                r = ROW_IN(products);
        if (!r && sf_cuda_is_pair(spec->op, spec->acc) &&
            !(scans && spec->kernel != SF_CUDA_SCAN_COLUMNS))
                r = ROW_IN(pairs);
        if (!r)
                r = ROW_IN(rows);
        if (!r)
                return sf_fail(ctx, SF_UNSUPPORTED,
                               "kernel %s has no tile for vectors of %d elements, x of %d bytes and "
                               "results of up to %d, on a device of compute capability %d.%d; "
                               "tuning.c must have a row for it",
                               sf_cuda_kernel_name(spec->kernel), (int)spec->width, in, size,
                               (int)chip->capability / 10, (int)chip->capability % 10);
        *tile = r->tile;
        if (chip->small_tiles) {
                tile->threads = 64;
                tile->elements = tile->beside ? 4 * tile->beside : 4;
                tile->resident = 1;
                tile->more = tile->more > 4 ? 4 : tile->more;
        }
        return SF_OK;
}

/*
 * Two results of one recurrence, one of them times a third tensor that is read: many registers, so
 * fewer threads. H200, share of a copy of five streams, f32. (8, 1536, 65537): three blocks of 128 x
 * 16 0.94, eight of 64 x 8 0.89, four of 128 x 8 0.81. (8, 2048, 1536) along its second axis: three
 * of 128 x 16 0.90, one of 256 x 16 0.90, four of 128 x 8 0.87, three of 256 x 4 0.73. Vectors of
 * four along rows are as fast with the tables' tiles, 0.94.
 */
sf_cuda_tile sf_cuda_tile_doubled(const sf_cuda_chip *chip, const sf_cuda_spec *spec, int size,
                                  sf_cuda_tile tile)
{
        const bool narrow = spec->kernel == SF_CUDA_SCAN_ROWS && spec->width == 1;
        if (chip->small_tiles || spec->op != SF_RECURRENCE || size > 4)
                return tile;
        if (spec->kernel == SF_CUDA_SCAN_COLUMNS || narrow)
                return (sf_cuda_tile){128, 16, 3, tile.more, 0};
        return tile;
}

/*
 * Every member has accumulators of its own, so a thread needs more registers for as many bytes in
 * flight: fewer threads, with as many loads or more. According to nvcc 13 for sm_90 and f32, two
 * and four members then do not spill; with the tile of one fold they do.
 */
sf_cuda_tile sf_cuda_tile_shared(const sf_cuda_chip *chip, sf_cuda_tile tile, int in, int size, int members)
{
        if (members == 1 || chip->small_tiles)
                return tile;
        /* Two sums in f64 of one f32: a thread has registers for little but its loads. Blocks are
         * small, so that others have loads in flight when one begins or ends. H200, var_mean of
         * (16384, 16384), share of a copy: rows eight blocks of 64 x 32 1.004, four of 128 x 32
         * 0.997, six of 128 x 16 0.95; columns 0.95, 1.01, 0.90, two of 256 x 32 0.96. */
        if (members == 2 && in == 4 && size == 8 && tile.threads == 256)
                return tile.more ? (sf_cuda_tile){128, 32, 4, tile.more, tile.beside} : (sf_cuda_tile){64, 32, 8, 0, tile.beside};
        if (tile.threads > 256) /* there are no registers for two blocks */
                return (sf_cuda_tile){512, members == 2 ? 32 : 16, 1, tile.more, 4};
        int32_t most = members == 2 ? 3 : 2;
        tile.resident = tile.resident < most ? tile.resident : most;
        if (members > 2 && tile.more) /* columns: a thread holds whole rows of them */
                tile.elements /= 2;
        return tile;
}
