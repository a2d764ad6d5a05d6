/*
 * again.cu: computes again the results that are not finite (core/again.h). The threads of a block
 * look at all results of the block first. Nearly always all are finite, and the block is done.
 *
 * A block computes one line after another. Its threads share the sequence of the last step: each
 * folds a run of number[1] elements, a power of two, and one thread combines their totals. Results
 * of earlier steps are not stored: the thread that reads an element of them computes it.
 *
 * SF_STEPS(F) lists the steps: F(number, op, accumulator, dtype of the result, whether there is an
 * initial value, its first dim, how many dims are batch, how many belong to the sequence).
 * SF_LOADS<k>(F) and SF_STORES<k>(F) list what the programs of step k read: F(operand, dtype, the
 * step whose result it is or -1). Only one step reads an operand, which has strides along the lines
 * and along that step's dims only.
 *   units: lines. number[0]: lines that a block looks at. number[1]: see above. number[2]: the
 *   results are contiguous and aligned, and every block has whole vectors of them, except perhaps
 *   the last block.
 */

/* Where each operand is: an address or, if it is the result of a step, an offset into it in
 * bytes. */
struct sf_places {
        sf_i64 operand[SF_OPERANDS];
};

/* What SF_STEPS and the lists of operands say of step K. */
template <int K> struct sf_recipe;
template <int K> struct sf_programs;
#define STEP(k, op, acc, out, begins, first, batch, seq)                                           \
        template <> struct sf_recipe<k> {                                                          \
                enum { OP = op, ACC = acc, OUT = out, BEGINS = begins };                           \
                enum { FIRST = first, NBATCH = batch, NSEQ = seq };                                \
        };
SF_STEPS(STEP)
#undef STEP

/* The type of a step's numbers, and how its values are held (value.cuh). */
template <int K> using sf_number_of_step = sf_of<sf_recipe<K>::ACC>;
template <int K> using sf_held = sf_value<sf_recipe<K>::OP, sf_number_of_step<K> >;
template <int K> using sf_total = typename sf_held<K>::type;

/* Parameters of the first step are where every launch has them; those of other steps are in
 * p.also. */
#if SF_ALSO
#define FIELD(k, name) ((k) ? p.also[(k) ? (k) - 1 : 0].name : p.name)
#else
#define FIELD(k, name) p.name
#endif

SF_DEVICE void sf_move(const sf_params &p, sf_places &at, int dim, sf_i64 count)
{
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                at.operand[k] += count * p.step[dim][k];
}

template <int SIZE> SF_DEVICE sf_u64 sf_bits_at(const char *at)
{
        sf_raw<SIZE> r;
        sf_load(at, r);
        return sf_slot<SIZE>(r, 0);
}

/* Folds values one by one, in the order of docs/order.md: a binary counter of the totals of
 * finished blocks (core/order.h), settled. */
template <int K> struct sf_tally {
        sf_total<K> entry[64];
        sf_i64 count;
};
template <int K> SF_DEVICE void sf_add_to(sf_tally<K> &c, sf_total<K> v)
{
        int k = 0;
        for (; c.count >> k & 1; k++)
                v = sf_held<K>::settle(SF_JOIN(sf_recipe<K>::OP, c.entry[k], v));
        c.entry[k] = sf_held<K>::settle(v);
        c.count++;
}
template <int K> SF_DEVICE sf_total<K> sf_total_of(const sf_tally<K> &c)
{
        int k = 0;
        while (!(c.count >> k & 1))
                k++;
        sf_total<K> total = c.entry[k];
        for (k++; c.count >> k; k++)
                if (c.count >> k & 1)
                        total = sf_held<K>::settle(SF_JOIN(sf_recipe<K>::OP, c.entry[k], total));
        return total;
}

template <int K> SF_DEVICE sf_i64 sf_length(const sf_params &p)
{
        sf_i64 n = 1;
        for (int d = 0; d < sf_recipe<K>::NSEQ; d++)
                n *= p.dims[sf_recipe<K>::FIRST + sf_recipe<K>::NBATCH + d].len;
        return n;
}

template <int K> SF_DEVICE sf_total<K> sf_lifted(sf_u64 bits)
{
        return sf_held<K>::lift(sf_dtype<sf_recipe<K>::ACC>::constant(bits));
}

/* Folds elements `begin` to `end` - 1, at least one, of the sequence that begins at `at`. */
template <int K>
SF_DEVICE sf_total<K> sf_fold_run(const sf_params &p, const sf_places &at, sf_i64 begin, sf_i64 end)
{
        enum {
                FIRST = sf_recipe<K>::FIRST + sf_recipe<K>::NBATCH,
                LAST = FIRST + sf_recipe<K>::NSEQ - 1
        };
        sf_tally<K> tally;
        tally.count = 0;
        for (sf_i64 i = begin; i < end; i++) {
                sf_places here = at;
                sf_i64 index = i;
                for (int d = LAST; d >= FIRST; d--) {
                        sf_i64 next = d > FIRST ? sf_divide(index, p.dims[d].len) : 0;
                        sf_move(p, here, d, index - next * p.dims[d].len);
                        index = next;
                }
                sf_add_to<K>(tally, sf_held<K>::lift(sf_programs<K>::load(p, here)));
        }
        return sf_total_of<K>(tally);
}

/* The bits that step K stores for the sequence that begins at `at` and has this total. */
template <int K>
SF_DEVICE sf_u64 sf_finish(const sf_params &p, const sf_places &at, sf_total<K> total)
{
        if (sf_recipe<K>::BEGINS)
                total = SF_JOIN(sf_recipe<K>::OP, sf_lifted<K>(FIELD(K, initial)), total);
        return sf_programs<K>::store(p, at, sf_held<K>::lower(total));
}

template <int K> SF_DEVICE sf_u64 sf_result(const sf_params &p, const sf_places &at)
{
        sf_i64 n = sf_length<K>(p);
        if (!n)
                return sf_finish<K>(p, at, sf_lifted<K>(FIELD(K, identity)));
        return sf_finish<K>(p, at, sf_fold_run<K>(p, at, 0, n));
}

/* Reads an element of an operand: from memory (MADE is -1), or by computing that element of the
 * result of step MADE. */
template <int DT, int MADE> struct sf_element_of {
        SF_DEVICE_MEMBER sf_of<DT> read(const sf_params &p, sf_places at, int k)
        {
                enum { FIRST = sf_recipe<MADE>::FIRST, END = FIRST + sf_recipe<MADE>::NBATCH };
                sf_i64 place = at.operand[k];
                for (int d = FIRST; d < END; d++) {
                        sf_i64 len = p.dims[d].len, stride = p.dims[d].y;
                        sf_i64 whole = sf_divide(place, stride < 0 ? -stride : stride);
                        sf_i64 index = whole - sf_divide(whole, len) * len;
                        sf_move(p, at, d, stride < 0 ? len - 1 - index : index);
                }
                return sf_dtype<DT>::from(sf_result<MADE>(p, at));
        }
};
template <int DT> struct sf_element_of<DT, -1> {
        SF_DEVICE_MEMBER sf_of<DT> read(const sf_params &, const sf_places &at, int k)
        {
                return sf_dtype<DT>::from(sf_bits_at<SF_SIZE(DT)>((const char *)at.operand[k]));
        }
};

#define OPERAND(k, dt, made) , sf_element_of<dt, made>::read(p, at, k)
#define STEP(k, op, acc, out, begins, first, batch, seq)                                           \
        template <> struct sf_programs<k> {                                                        \
                SF_DEVICE_MEMBER sf_of<acc> load(const sf_params &p, const sf_places &at)          \
                {                                                                                  \
                        return (void)at, sf_load_program##k(p SF_LOADS##k(OPERAND));               \
                }                                                                                  \
                template <class T>                                                                 \
                SF_DEVICE_MEMBER sf_u64 store(const sf_params &p, const sf_places &at, T v)        \
                {                                                                                  \
                        return (void)at, sf_store_program##k(p, v SF_STORES##k(OPERAND));          \
                }                                                                                  \
        };
SF_STEPS(STEP)
#undef STEP
#undef OPERAND

/* The last step, and the dtype of its results. */
enum { ROOT = SF_ALSO, RESULT = sf_recipe<ROOT>::OUT };

SF_DEVICE bool sf_is_finite(sf_u64 bits)
{
        sf_u64 exponent = RESULT == SF_DT_F64    ? 0x7ff0000000000000ull
                          : RESULT == SF_DT_F32  ? 0x7f800000ull
                          : RESULT == SF_DT_BF16 ? 0x7f80ull
                                                 : 0x7c00ull;
        return (bits & exponent) != exponent;
}

/* Where the line's result is. Also moves `at` to the line if it is not NULL. */
SF_DEVICE char *sf_find_line(const sf_params &p, sf_i64 line, sf_places *at)
{
        char *y = p.y;
        for (int d = SF_NBATCH - 1; d >= 0; d--) {
                sf_i64 next = sf_divide(line, p.dims[d].len), index = line - next * p.dims[d].len;
                y += index * p.dims[d].y;
                if (at)
                        sf_move(p, *at, d, index);
                line = next;
        }
        return y;
}

/* The whole block computes one line. */
SF_DEVICE void sf_compute(const sf_params &p, sf_i64 line, sf_i64 n, sf_total<ROOT> *totals)
{
        sf_places at;
        for (int k = 0; k < SF_OPERANDS; k++)
                at.operand[k] = (sf_i64)p.operand[k];
        char *y = sf_find_line(p, line, &at);
        sf_i64 run = p.number[1], begin = sf_thread() * run, end = begin + run < n ? begin + run
                     : n;
        if (begin < end)
                totals[sf_thread()] = sf_fold_run<ROOT>(p, at, begin, end);
        sf_sync_block();
        if (sf_thread() == 0) {
                sf_tally<ROOT> tally;
                tally.count = 0;
                for (sf_i64 k = 0; k * run < n; k++)
                        sf_add_to<ROOT>(tally, totals[k]);
                sf_total<ROOT> total = sf_lifted<ROOT>(FIELD(ROOT, identity));
                if (n)
                        total = sf_total_of<ROOT>(tally);
                sf_store(y, sf_one_slot<SF_SIZE(RESULT)>(sf_finish<ROOT>(p, at, total)));
        }
        sf_sync_block();
}

/* Of the results of these lines, are those that this thread looks at all finite? EACH of them are
 * one load. */
template <int EACH> SF_DEVICE bool sf_sees_finite(const sf_params &p, sf_i64 first, sf_i64 stop)
{
        enum { AT_ONCE = 4, SIZE = SF_SIZE(RESULT), SPREAD = SF_THREADS * EACH };
        bool finite = true;
        for (sf_i64 at = first + sf_thread() * EACH; at < stop; at += AT_ONCE * SPREAD) {
                sf_raw<EACH * SIZE> r[AT_ONCE] = {};
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++) {
                        sf_i64 line = at + k * SPREAD;
                        if (line < stop)
                                sf_load(EACH > 1 ? p.y + line * SIZE
                                                 : sf_find_line(p, line, (sf_places *)0), r[k]);
                }
#pragma unroll
                for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
                        for (int j = 0; j < EACH; j++)
                                finite = finite & sf_is_finite(sf_slot<SIZE>(r[k], j));
        }
        return finite;
}

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        enum { WARPS = SF_THREADS / 32, EACH = 16 / SF_SIZE(RESULT) };
        sf_take_turn();
        int thread = sf_thread();
        sf_u32 *marks = (sf_u32 *)sf_shared(), any = 0;
        sf_total<ROOT> *totals = (sf_total<ROOT> *)(sf_shared() + sf_again_totals(SF_THREADS));
        sf_i64 first = sf_block() * p.number[0];
        sf_i64 stop = first + p.number[0] < p.units ? first + p.number[0] : p.units;
        sf_i64 whole = p.number[2] ? stop - stop % EACH : first;
        bool finite = sf_sees_finite<EACH>(p, first, whole) & sf_sees_finite<1>(p, whole, stop);
        sf_u32 mark = sf_ballot(!finite);
        if ((thread & 31) == 0)
                marks[thread / 32] = mark;
        sf_sync_block();
#pragma unroll
        for (int w = 0; w < WARPS; w++)
                any |= marks[w];
        if (!any)
                return;

        sf_i64 n = sf_length<ROOT>(p);
        for (; first < stop; first += SF_THREADS) {
                sf_sync_block();
                sf_i64 end = first + thread + 1; /* one past this thread's line */
                mark = sf_ballot(end <= stop && !sf_sees_finite<1>(p, first, end));
                if ((thread & 31) == 0)
                        marks[thread / 32] = mark;
                sf_sync_block();
                for (int w = 0; w < WARPS; w++)
                        for (sf_u32 left = marks[w]; left; left &= left - 1)
                                sf_compute(p, first + 32 * w + sf_lowest(left), n, totals);
        }
}
#undef FIELD
