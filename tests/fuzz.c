/*
 * Random cases, without end if need be: fuzz [cases] [first seed]. Each case follows from its seed alone, so
 * `fuzz 1 SEED` repeats one.
 */
#include "case.h"

#include <inttypes.h>
#include <stdlib.h>

/* A length below `limit`, short ones and those around powers of two more often. */
static int64_t random_length(uint64_t r, int64_t limit)
{
        int64_t n;
        switch (r % 4) {
        case 0: n = (int64_t)(r >> 8) & 7; break;
        case 1: n = ((int64_t)1 << ((r >> 8) % 20)) + (int64_t)((r >> 16) % 3) - 1; break;
        default: n = (int64_t)((r >> 8) % 400); break;
        }
        return n < 0 || n > limit ? limit : n;
}

static test_case random_case(uint64_t seed)
{
        uint64_t r = hash(seed ^ 0xf00d);
        int32_t ndim = (int32_t)(r % 7);
#ifdef SF_LIBFUZZER /* where many small cases find more than a few large ones */
        int64_t shape[8], room = 3000;
#else
        int64_t shape[8], room = r >> 60 ? 3000 : 300000;
#endif
        int32_t start = ndim ? (int32_t)((r >> 8) % (uint64_t)ndim) : 0; /* the axis that may be longest */
        for (int32_t i = 0; i < ndim; i++) {
                int32_t d = (start + i) % ndim;
                shape[d] = random_length(hash(seed * 31 + (uint64_t)i), room);
                if (!shape[d] && hash(seed + 1000 + (uint64_t)i) % 8) /* empty tensors, but rarely */
                        shape[d] = 1;
                room = shape[d] ? room / shape[d] : room;
                room = room ? room : 1;
        }
        test_case c = case_plain(r >> 20 & 1, 0, ndim, shape);
        int32_t rank = ndim ? ndim : 1;
        if (c.fold) {
                uint64_t set = hash(seed + 2000);
                c.all_axes = set >> 60 == 0;
                c.naxes = 0;
                for (int32_t d = 0; d < rank; d++)
                        if (set >> d & 1)
                                c.axes[c.naxes++] = set >> (d + 20) & 1 ? d : d - rank;
        } else {
                c.axes[0] = start - (r >> 30 & 1 ? rank : 0);
        }
        case_vary(&c, seed, r >> 21 & 1 ? VARY_ALL : VARY_ALL & ~VARY_DTYPES);
        return c;
}

#ifdef SF_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (!engine_count)
                engines_open();
        draw_from(data, size);
        test_case c = random_case(1);
        if (!case_check(&c))
                abort();
        return 0;
}
#else
int main(int argc, char **argv)
{
        long cases = argc > 1 ? atol(argv[1]) : 1000;
        uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
        engines_open();
        for (uint64_t seed = first; seed < first + (uint64_t)cases; seed++) {
                test_case c = random_case(seed);
                if (!case_check(&c)) {
                        fprintf(stderr, "repeat it with: fuzz 1 %" PRIu64 "\n", seed);
                        break;
                }
        }
        engines_close();
        return finish("fuzz", cases_checked);
}
#endif
