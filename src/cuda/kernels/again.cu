/*
 * again.cu: results that came out not finite, computed again (core/again.h). Where all are finite a block looks at its
 * share of them and is done.
 *
 * A block takes one line after another. Its threads share the sequence of the last step, each a run of number[1]
 * elements, a power of two, and one thread combines their totals. What an earlier step leaves is not kept: where an element
 * of it is read, it is computed, by the thread that reads it.
 *
 * SF_STEPS(F) lists the steps, F(number, op, accumulator, dtype of the result, whether there is an initial value, the first of
 * its dims, how many of them are batch, how many the sequence's). SF_LOADS<k>(F) and SF_STORES<k>(F) list what programs
 * of step k read, F(operand, dtype, the step whose result it is or -1). Each operand has one step that reads it, and moves
 * along the lines and along that step's dims alone.
 *   units: lines. number[0]: lines a block looks at.
 */

/* Where every operand is: an address or, of a step's result, how many bytes into it. */
struct sf_places {
        sf_i64 operand[SF_OPERANDS];
};

template <int K> struct sf_recipe;
template <int K> struct sf_programs;
#define STEP(k, op, acc, out, begins, first, batch, seq) \
        template <> struct sf_recipe<k> { enum { OP = op, ACC = acc, OUT = out, BEGINS = begins, FIRST = first, NBATCH = batch, NSEQ = seq }; };
SF_STEPS(STEP)
#undef STEP

/* The first step's values are where a launch of one step has its own, the others' beside it. */
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

/* A fold of elements as they come, in the order of the rule: a counter of finished blocks. */
template <int OP, class T> struct sf_tally {
        T entry[64];
        sf_i64 count;
};
template <int OP, class T> SF_DEVICE void sf_add_to(sf_tally<OP, T> &c, T v)
{
        int k = 0;
        for (; c.count >> k & 1; k++)
                v = sf_join<OP>(c.entry[k], v);
        c.entry[k] = v;
        c.count++;
}
template <int OP, class T> SF_DEVICE T sf_total_of(const sf_tally<OP, T> &c)
{
        int k = 0;
        while (!(c.count >> k & 1))
                k++;
        T total = c.entry[k];
        for (k++; c.count >> k; k++)
                if (c.count >> k & 1)
                        total = sf_join<OP>(c.entry[k], total);
        return total;
}

template <int K> SF_DEVICE sf_i64 sf_length(const sf_params &p)
{
        sf_i64 n = 1;
        for (int d = 0; d < sf_recipe<K>::NSEQ; d++)
                n *= p.dims[sf_recipe<K>::FIRST + sf_recipe<K>::NBATCH + d].len;
        return n;
}

/* The elements from begin on, at least one, of the sequence that begins at `at`. */
template <int K> SF_DEVICE sf_of<sf_recipe<K>::ACC> sf_fold_run(const sf_params &p, const sf_places &at, sf_i64 begin, sf_i64 end)
{
        enum { FIRST = sf_recipe<K>::FIRST + sf_recipe<K>::NBATCH, LAST = FIRST + sf_recipe<K>::NSEQ - 1 };
        sf_tally<sf_recipe<K>::OP, sf_of<sf_recipe<K>::ACC> > tally;
        tally.count = 0;
        for (sf_i64 i = begin; i < end; i++) {
                sf_places here = at;
                sf_i64 index = i;
                for (int d = LAST; d >= FIRST; d--) {
                        sf_i64 next = d > FIRST ? sf_divide(index, p.dims[d].len) : 0;
                        sf_move(p, here, d, index - next * p.dims[d].len);
                        index = next;
                }
                sf_add_to(tally, sf_programs<K>::load(p, here));
        }
        return sf_total_of(tally);
}

/* The bits that step K stores for a sequence that begins at `at` and has this total. */
template <int K> SF_DEVICE sf_u64 sf_finish(const sf_params &p, const sf_places &at, sf_of<sf_recipe<K>::ACC> total)
{
        if (sf_recipe<K>::BEGINS)
                total = sf_join<sf_recipe<K>::OP>(sf_dtype<sf_recipe<K>::ACC>::constant(FIELD(K, initial)), total);
        return sf_programs<K>::store(p, at, total);
}

template <int K> SF_DEVICE sf_u64 sf_result(const sf_params &p, const sf_places &at)
{
        sf_i64 n = sf_length<K>(p);
        return sf_finish<K>(p, at, n ? sf_fold_run<K>(p, at, 0, n) : sf_dtype<sf_recipe<K>::ACC>::constant(FIELD(K, identity)));
}

/* An operand's element: from memory, or the result of step MADE that has this place. */
template <int DT, int MADE> struct sf_element_of {
        SF_DEVICE_MEMBER sf_of<DT> read(const sf_params &p, sf_places at, int k)
        {
                sf_i64 place = at.operand[k];
                for (int d = sf_recipe<MADE>::FIRST; d < sf_recipe<MADE>::FIRST + sf_recipe<MADE>::NBATCH; d++) {
                        sf_i64 len = p.dims[d].len, stride = p.dims[d].y, whole = sf_divide(place, stride < 0 ? -stride : stride);
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
#define STEP(k, op, acc, out, begins, first, batch, seq)                                                                                               \
        template <> struct sf_programs<k> {                                                                                                            \
                SF_DEVICE_MEMBER sf_of<acc> load(const sf_params &p, const sf_places &at) { return (void)at, sf_load_program##k(p SF_LOADS##k(OPERAND)); } \
                SF_DEVICE_MEMBER sf_u64 store(const sf_params &p, const sf_places &at, sf_of<acc> v) { return (void)at, sf_store_program##k(p, v SF_STORES##k(OPERAND)); } \
        };
SF_STEPS(STEP)
#undef STEP
#undef OPERAND

/* Of the last step's results. */
enum { ROOT = SF_ALSO, RESULT = sf_recipe<ROOT>::OUT };

SF_DEVICE bool sf_is_finite(sf_u64 bits)
{
        sf_u64 exponent = RESULT == SF_DT_F64 ? 0x7ff0000000000000ull : RESULT == SF_DT_F32 ? 0x7f800000ull : RESULT == SF_DT_BF16 ? 0x7f80ull : 0x7c00ull;
        return (bits & exponent) != exponent;
}

/* Where the line's result is; `at`, if not NULL, is moved to the line. */
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

SF_KERNEL SF_ENTRY(const __grid_constant__ sf_params p)
{
        typedef sf_of<sf_recipe<ROOT>::ACC> total_type;
        sf_take_turn();
        int thread = sf_thread();
        sf_u32 *marks = (sf_u32 *)sf_shared();
        total_type *totals = (total_type *)(sf_shared() + sf_again_totals(SF_THREADS));
        sf_i64 n = sf_length<ROOT>(p), first = sf_block() * p.number[0], stop = first + p.number[0] < p.units ? first + p.number[0] : p.units;
        for (; first < stop; first += SF_THREADS) {
                bool again = first + thread < stop && !sf_is_finite(sf_bits_at<SF_SIZE(RESULT)>(sf_find_line(p, first + thread, (sf_places *)0)));
                sf_u32 mark = sf_ballot(again);
                if ((thread & 31) == 0)
                        marks[thread / 32] = mark;
                sf_sync_block();
                for (int i = 0; i < SF_THREADS; i++) {
                        if (!(marks[i / 32] >> (i & 31) & 1))
                                continue;
                        sf_places at;
                        for (int k = 0; k < SF_OPERANDS; k++)
                                at.operand[k] = (sf_i64)p.operand[k];
                        char *y = sf_find_line(p, first + i, &at);
                        sf_i64 begin = thread * p.number[1], end = begin + p.number[1] < n ? begin + p.number[1] : n;
                        if (begin < end)
                                totals[thread] = sf_fold_run<ROOT>(p, at, begin, end);
                        sf_sync_block();
                        if (thread == 0) {
                                sf_tally<sf_recipe<ROOT>::OP, total_type> tally;
                                tally.count = 0;
                                for (sf_i64 k = 0; k * p.number[1] < n; k++)
                                        sf_add_to(tally, totals[k]);
                                total_type total = n ? sf_total_of(tally) : sf_dtype<sf_recipe<ROOT>::ACC>::constant(FIELD(ROOT, identity));
                                sf_raw<SF_SIZE(RESULT)> r;
                                r.w[0] = 0;
                                sf_set_slot<SF_SIZE(RESULT)>(r, 0, sf_finish<ROOT>(p, at, total));
                                sf_store(y, r);
                        }
                        sf_sync_block();
                }
                sf_sync_block();
        }
}
#undef FIELD
