/*
 * memory_load.cuh: vectors as they are loaded, and the elements in them. memory.cuh includes it.
 */

/*
 * If rows are not aligned well enough for vectors of 16 bytes, the columns of a thread are SF_PACKS
 * packs. Between two packs of a thread there is one pack of each thread beside it, so the threads
 * of a warp that load one pack each load contiguous memory. Packs are as wide as the alignment of
 * all rows allows.
 */
#ifndef SF_PACKS /* only scan_columns.cu has them */
#define SF_PACKS 1
#endif
enum { PACK = SF_WIDTH / SF_PACKS };

/* A vector of elements as it is loaded. */
struct sf_vector {
#if SF_PACKS > 1
        sf_raw<PACK * SF_IN_SIZE> pack[SF_PACKS];
#if SF_MASK
        sf_raw<PACK> keep[SF_PACKS];
#endif
};
#else
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) sf_operand<dt, unit> operand##k;
        SF_LOADS(OPERAND)
#undef OPERAND
#else
        sf_raw<SF_WIDTH * SF_IN_SIZE> x;
#endif
#if SF_MASK
        sf_raw<SF_WIDTH> m;
#endif
#if SF_SHIFT_IN
        /* The second chunk, and how many bytes into the first one the vector begins. */
        sf_raw<SF_WIDTH * SF_IN_SIZE> x_next;
        int x_past;
#if SF_MASK
        sf_raw<SF_WIDTH> m_next;
        int m_past;
#endif
#endif
};
#endif

/* Word i of a vector that does not exist: its elements are 0. In a scan of products they are 1,
 * since a 0 would make the warp's products leave the range. */
SF_DEVICE sf_u32 sf_blank(int i)
{
        (void)i;
#if !SF_PRODUCTS || SF_IS_FOLD
        return 0;
#elif SF_IN == SF_DT_F64
        return i & 1 ? 0x3ff00000u : 0;
#elif SF_IN == SF_DT_F32
        return 0x3f800000u;
#elif SF_IN == SF_DT_F16
        return SF_WIDTH > 1 ? 0x3c003c00u : 0x3c00u;
#elif SF_IN == SF_DT_BF16
        return SF_WIDTH > 1 ? 0x3f803f80u : 0x3f80u;
#else
        return 0;
#endif
}

SF_DEVICE sf_vector sf_no_vector()
{
        sf_vector v;
#if SF_PACKS > 1
#pragma unroll
        for (int q = 0; q < SF_PACKS; q++) {
                sf_clear(v.pack[q]);
#if SF_MASK
                sf_clear(v.keep[q]);
#endif
        }
        return v;
#else
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) sf_clear(v.operand##k.raw);
        SF_LOADS(OPERAND)
#undef OPERAND
#else
        /* Not sf_clear: with it NVRTC 13 computes addresses again that it otherwise increments. */
        for (int i = 0; i < (int)(sizeof v.x.w / 4); i++)
                v.x.w[i] = sf_blank(i);
#endif
#if SF_MASK
        for (int i = 0; i < (int)(sizeof v.m.w / 4); i++)
                v.m.w[i] = 0;
#endif
#if SF_SHIFT_IN
        v.x_next = v.x;
        v.x_past = 0;
#if SF_MASK
        v.m_next = v.m;
        v.m_past = 0;
#endif
#endif
        return v;
#endif
}

/*
 * Vectors at any address. A device loads and stores a vector only at a multiple of its size. Such
 * an aligned vector is called a chunk here; a vector that is not aligned is in two chunks.
 * SF_SHIFT_IN: x and the mask may be unaligned. SF_SHIFT_OUT: y may be.
 */

/*
 * Loads the chunks that contain the vector at `index` of a line. Returns how many bytes into the
 * first chunk the vector begins. The chunks are only loaded here, so that a thread has many loads
 * in flight. If any byte of a chunk is the tensor's, which is from `begin` to `end`, all of the
 * chunk is read: memory is not allocated in smaller units than that. Other chunks are not read.
 */
template <int UNIT, int SIZE, int BYTES>
SF_DEVICE int sf_load_chunks(const char *line, sf_i64 index, sf_i64 stop, const char *begin, const char *end, sf_raw<BYTES> &a, sf_raw<BYTES> &b)
{
        /* All vectors of the line are aligned as this one is, except those of short blocks. */
        const sf_i64 own = SF_CUTS ? index : 0;
        const char *first = line - (UNIT < 0 ? (SF_WIDTH - 1) * SIZE : 0) + UNIT * own * SIZE;
        const int past = (int)((sf_u64)first & (BYTES - 1));
        const char *chunk = first - past + UNIT * (index - own) * SIZE, *next = past ? chunk + BYTES : chunk;
        if (index < stop) {
                if ((UNIT > 0 && !SF_EARLY && SF_NSEQ == 1) || chunk + BYTES > begin)
                        sf_load_chunk(chunk, begin, end, a);
                if ((UNIT < 0 && !SF_EARLY) || next < end)
                        sf_load_chunk(next, begin, end, b);
        }
        return past;
}

#if SF_EARLY
/*
 * If any grouping gives the same bits, elements may have other positions than the order gives them.
 * So a line begins a few elements early, where its vectors are chunks of y (in a fold, of x), and
 * the elements before its real beginning count as neutral. Moves the line there and returns how
 * many elements early it begins.
 */
SF_DEVICE int sf_begin_early(sf_line &line)
{
        enum { SIZE = SF_Y_UNIT ? SF_OUT_SIZE : SF_IN_SIZE, UNIT = SF_Y_UNIT ? SF_Y_UNIT : SF_X_UNIT, BYTES = SF_WIDTH * SIZE };
        const sf_u64 first = (sf_u64)(SF_Y_UNIT ? (const char *)line.y : line.x) - (UNIT < 0 ? (SF_WIDTH - 1) * SIZE : 0);
        const int early = (int)((UNIT < 0 ? 0 - first : first) & (BYTES - 1)) / SIZE;
        line.x -= early * SF_X_UNIT * SF_IN_SIZE;
        if (SF_Y_UNIT)
                line.y -= early * SF_Y_UNIT * SF_OUT_SIZE;
        return early;
}

/* Makes the first `early` elements of a line, fewer than 16, neutral: they are before its real
 * beginning. Only vectors at the very beginning have any. */
template <int N, class T> SF_DEVICE void sf_clear_early(T (&v)[N][SF_WIDTH], sf_i64 at, int spread, int early, T neutral)
{
        if (at >= early)
                return;
        const int left = early - (int)at;
#pragma unroll
        for (int i = 0; i < (spread < 16 ? N : 1); i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (i * spread + j < left)
                                v[i][j] = neutral;
}
#endif

#if SF_PACKS > 1
/* Packs from number Q on. Where their distance is a constant, it is part of the instruction: the
 * compiler would add it to every row's address. */
template <int Q = 0> SF_DEVICE void sf_load_pack(const char *x, int apart, int packs, sf_vector &v)
{
#if SF_SLOTS
        sf_load_below<Q * SF_SLOTS * PACK * SF_IN_SIZE>(Q, packs, x, v.pack[Q]);
#else
        sf_load_below(Q, packs, x + Q * apart * SF_IN_SIZE, v.pack[Q]);
#endif
        if constexpr (Q + 1 < SF_PACKS)
                sf_load_pack<Q + 1>(x, apart, packs, v);
}

/* The vector whose first pack is at column `index`. Each next pack is `apart` columns further. Only
 * `packs` of them exist. */
SF_DEVICE sf_vector sf_load_packs(const sf_line &line, sf_i64 index, int apart, int packs, const sf_strides &by)
{
        sf_vector v;
        const char *x = line.x + index * SF_IN_SIZE, *m = line.m + index * by.m;
        (void)m;
        sf_load_pack(x, apart, packs, v);
#pragma unroll
        for (int q = 0; q < SF_PACKS; q++) {
#if SF_MASK && SF_M_UNIT
                sf_load_below(q, packs, m + q * apart, v.keep[q]);
#elif SF_MASK
                sf_clear(v.keep[q]);
#pragma unroll
                for (int j = 0; j < PACK; j++) {
                        sf_raw<1> one;
                        sf_load_below(q, packs, m + (q * apart + j) * by.m, one);
                        sf_set_slot<1>(v.keep[q], j, one.w[0]);
                }
#endif
        }
        return v;
}
#elif !(SF_WIDTH & (SF_WIDTH - 1)) /* other widths are staged in shared memory */
/* The vector at `index` of a line. `by` has the strides of x, the mask and the operands along it.
 * Elements at or past `end` hold garbage. */
SF_DEVICE sf_vector sf_load_vector(const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by)
{
#if SF_LOAD_FUSED
        sf_vector v;
#define OPERAND(k, dt, unit) sf_load_operand<(SF_STILL >> k & 1) != 0>(v.operand##k, line.operand[k], index, end, by.operand[k]);
        SF_LOADS(OPERAND)
#undef OPERAND
#if SF_MASK
        sf_operand<SF_DT_BOOL, SF_M_UNIT> m;
        sf_load_operand<false>(m, line.m, index, end, by.m);
        v.m = m.raw;
#endif
        return v;
#else
        sf_vector v = sf_no_vector();
#if SF_SHIFT_IN
        v.x_past = sf_load_chunks<SF_X_UNIT, SF_IN_SIZE>(line.x, index, end, by.x_begin, by.x_end, v.x, v.x_next);
#if SF_MASK && SF_M_UNIT
        v.m_past = sf_load_chunks<SF_M_UNIT, 1>(line.m, index, end, by.m_begin, by.m_end, v.m, v.m_next);
#elif SF_MASK
        sf_load_singly<0, 1>(line.m, index, end, by.m, v.m);
#endif
        return v;
#elif SF_EARLY
        if (index < end)
                sf_load_chunk(line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index, by.x), by.x_begin, by.x_end, v.x);
        return v;
#endif
        if (index + SF_WIDTH <= end) {
                sf_load(line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index, by.x), v.x);
#if SF_MASK && SF_M_UNIT
                sf_load(line.m + sf_vector_offset<SF_M_UNIT, 1>(index, by.m), v.m);
#elif SF_MASK
                sf_load_singly<0, 1>(line.m, index, end, by.m, v.m);
#endif
        }
#if SF_RAGGED
        else {
                sf_load_singly<SF_X_UNIT, SF_IN_SIZE>(line.x, index, end, by.x, v.x);
#if SF_MASK
                sf_load_singly<SF_M_UNIT, 1>(line.m, index, end, by.m, v.m);
#endif
        }
#endif
        return v;
#endif
}

#endif

/*
 * Vectors at any address, of which neighbouring lanes have neighbouring ones: each lane reads one
 * chunk for each vector, that with the larger part of it, and takes the rest from the lane beside
 * (sf_join). Only the lane at the end of a warp's vectors reads one more. UNIT and SIZE are those of
 * x or of an operand, whose first element is at `line`; memory continues in the lane above or below.
 */

/* A lane's chunk of the vector at `index`, which begins `past` bytes into the first of its two. `late`:
 * it is the second one. `lead`: it begins so many elements before the vector, in memory. */
template <int UNIT, int SIZE> struct sf_chunk {
        enum { BYTES = SF_WIDTH * SIZE, TOWARD = UNIT < 0 ? -1 : 1 };
        const char *at;
        int past, lead;
        bool late;
};
template <int UNIT, int SIZE> SF_DEVICE sf_chunk<UNIT, SIZE> sf_chunk_of(const char *line, sf_i64 index)
{
        enum { BYTES = sf_chunk<UNIT, SIZE>::BYTES };
        const char *first = line + sf_vector_offset<UNIT, SIZE>(index, 0);
        const int past = (int)((sf_u64)first & (BYTES - SIZE));
        const bool late = past && !sf_joins_upward(past, BYTES);
        const int before = late ? past - BYTES : past;
        return sf_chunk<UNIT, SIZE>{first - before, past, before / SIZE, late};
}

/* Where a lane's chunk of item number `item` is, if its vectors are SPREAD elements apart. */
template <int SPREAD, int UNIT, int SIZE> SF_DEVICE const char *sf_chunk_at(const sf_chunk<UNIT, SIZE> &own, int item)
{
        return own.at + sf_chunk<UNIT, SIZE>::TOWARD * item * SPREAD * SIZE;
}

/* Has the chunk of the vector at `index` any element before `stop`, which a lane may need? */
template <int UNIT, int SIZE> SF_DEVICE bool sf_needs_chunk(const sf_chunk<UNIT, SIZE> &own, sf_i64 index, sf_i64 stop)
{
        return index - sf_chunk<UNIT, SIZE>::TOWARD * own.lead < stop;
}

/* Where the chunk is that no lane has, of a lane's N vectors, the first one at `index`. NULL: it is
 * not this lane that reads it, or nobody needs it. */
template <int N, int SPREAD, int UNIT, int SIZE>
SF_DEVICE const char *sf_chunk_beyond(const sf_chunk<UNIT, SIZE> &own, sf_i64 index, sf_i64 stop, int lane)
{
        typedef sf_chunk<UNIT, SIZE> chunk;
        const bool top = own.late == (UNIT < 0); /* it is beyond the vectors with the highest index */
        const int part = own.past / SIZE, from = top ? (N - 1) * SPREAD + (UNIT < 0 ? part : SF_WIDTH - part) : 0;
        if (!own.past || lane != (top ? 31 : 0) || index + from >= stop)
                return nullptr;
        return sf_chunk_at<SPREAD>(own, top ? N - 1 : 0) + (own.late ? -chunk::BYTES : chunk::BYTES);
}

#if SF_SHIFT_IN && SF_WIDTH * SF_IN_SIZE >= 4
/* Makes vectors of chunks. The one that no lane has is v[0].x_next, and v[0].x_past is where they begin. */
template <int N> SF_DEVICE void sf_meet_chunks(sf_vector (&v)[N], int lane)
{
        sf_raw<SF_WIDTH * SF_IN_SIZE> x[N];
#pragma unroll
        for (int i = 0; i < N; i++)
                x[i] = v[i].x;
        sf_join<SF_X_UNIT, SF_IN_SIZE>(x, v[0].x_next, v[0].x_past, lane);
#pragma unroll
        for (int i = 0; i < N; i++) {
                v[i].x = x[i];
                v[i].x_past = 0; /* nothing is left to be cut */
        }
}
#endif

/* A vector of chunks becomes the vector itself. */
SF_DEVICE void sf_cut_vector(sf_vector &v)
{
        (void)v;
#if SF_SHIFT_IN
        v.x = sf_cut(v.x, v.x_next, v.x_past);
        v.x_past = 0;
#if SF_MASK && SF_M_UNIT
        v.m = sf_cut(v.m, v.m_next, v.m_past);
        v.m_past = 0;
#endif
#endif
}

/* SF_LIFTED: elements are lifted as soon as they are loaded, because their values hold more than
 * one number. */
#define SF_LIFTED (SF_HELD_IN || SF_INDICES || SF_TWOS)
/* SF_UNLIFTED: elements of a scan are products that are lifted later, or not at all (tree_products.cuh). */
#define SF_UNLIFTED (SF_PRODUCTS && SF_MEMBERS == 1 && !SF_LIFTED)
#if SF_LIFTED
typedef sf_acc sf_loaded;
SF_DEVICE sf_loaded sf_pick(bool first, sf_loaded a, sf_loaded b) { return sf_choose(first, a, b); }
SF_DEVICE sf_loaded sf_absent(const sf_params &p) { return sf_neutral(p); }
SF_DEVICE sf_loaded sf_masked_out(const sf_params &p) { return sf_identity(p); }
#else
typedef sf_number sf_loaded;
SF_DEVICE sf_loaded sf_pick(bool first, const sf_loaded &a, const sf_loaded &b) { return first ? a : b; }
SF_DEVICE sf_loaded sf_absent(const sf_params &p) { return sf_neutral_number(p); }
SF_DEVICE sf_loaded sf_masked_out(const sf_params &p) { return sf_identity_number(p); }
#endif

/* Element j, converted to the accumulator's type. A masked-out element becomes the identity. */
SF_DEVICE sf_loaded sf_element(const sf_params &p, const sf_vector &v, int j, sf_i64 position, sf_loaded masked_out)
{
        (void)position, (void)masked_out;
#if SF_MEMBERS > 1
        sf_number a;
#define OPERAND(k, dt, unit) , sf_value_at(v.operand##k, j)
#define MEMBER(k, op, acc, out, begins) \
        a.v##k = sf_value<op, sf_of<acc>>::lift(sf_load_program##k(p SF_LOADS(OPERAND)));
        SF_EACH(MEMBER)
#undef MEMBER
#undef OPERAND
#elif SF_LOAD_FUSED
#define OPERAND(k, dt, unit) , sf_value_at(v.operand##k, j)
        sf_number a = sf_load_program0(p SF_LOADS(OPERAND));
#if SF_TWOS
        const sf_number other = sf_other_program0(p SF_LOADS(OPERAND));
#endif
#undef OPERAND
#else
        (void)p;
#if SF_PACKS > 1
        sf_number a = sf_widen(sf_slot<SF_SIZE(SF_IN)>(v.pack[j / PACK], j % PACK));
#else
        sf_number a = sf_widen(sf_slot<SF_SIZE(SF_IN)>(v.x, sf_slot_of<SF_X_UNIT>(j)));
#endif
#endif
#if SF_INDICES
        sf_loaded e = sf_holds::lift_at(a, (sf_at)position);
#elif SF_TWOS && SF_LOAD_FUSED
        sf_loaded e = sf_holds::pair(a, other);
#elif SF_LIFTED
        sf_loaded e = sf_holds::lift(a);
#else
        sf_loaded e = a;
#endif
#if SF_MASK && SF_PACKS > 1
        e = sf_pick(sf_slot<1>(v.keep[j / PACK], j % PACK), e, masked_out);
#elif SF_MASK
        e = sf_pick(sf_slot<1>(v.m, sf_slot_of<SF_M_UNIT>(j)), e, masked_out);
#endif
        return e;
}

/* The elements of a vector, not yet lifted unless SF_LIFTED. Element j exists if first + j * step
 * is below stop; else it becomes `absent`. Its index on its line, on which COLUMNS sequences are
 * interleaved, is index + j * apart. */
template <int COLUMNS, class I>
SF_DEVICE void sf_loaded_below(const sf_params &p, const sf_vector &loaded, I first, int step, I stop, sf_i64 index, int apart, sf_loaded absent,
                               sf_loaded (&a)[SF_WIDTH])
{
        sf_vector v = loaded;
        sf_cut_vector(v);
#if SF_HELD_IN
        (void)index, (void)apart;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                sf_words words;
#pragma unroll
                for (int w = 0; w < SF_VALUE_SIZE / 4; w++)
                        words.w[w] = v.x.w[sf_slot_of<SF_X_UNIT>(j) * (SF_VALUE_SIZE / 4) + w];
                a[j] = sf_pick(first + j * step < stop, sf_of_words(words), absent);
        }
#else
        const sf_loaded masked_out = sf_masked_out(p);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                a[j] = sf_pick(first + j * step < stop, sf_element(p, v, j, (index + j * apart) / COLUMNS, masked_out), absent);
#endif
}

/* The elements of all vectors of a thread, lifted together; products are lifted later
 * (tree_products.cuh). `spread`: from the index of a vector to that of the next. */
template <int COLUMNS, int N>
SF_DEVICE void sf_elements(const sf_params &p, const sf_vector (&v)[N], sf_i64 index, int spread, int apart, sf_acc (&a)[N][SF_WIDTH])
{
        sf_loaded loaded[N][SF_WIDTH];
#pragma unroll
        for (int i = 0; i < N; i++)
                sf_loaded_below<COLUMNS, int>(p, v[i], 0, 0, 1, index + i * spread, apart, sf_absent(p), loaded[i]);
#if SF_UNLIFTED
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        a[i][j] = sf_holds::made(loaded[i][j], 0);
#else
        sf_holds::template lift_all<N * SF_WIDTH>(&loaded[0][0], &a[0][0]);
#endif
}

/* Lifts the elements of a thread, if that has been left for later. */
template <int N> SF_DEVICE void sf_lift_late(sf_acc (&v)[N][SF_WIDTH])
{
        (void)v;
#if SF_UNLIFTED
        sf_number numbers[N][SF_WIDTH];
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        numbers[i][j] = v[i][j].mantissa;
        sf_holds::template lift_all<N * SF_WIDTH>(&numbers[0][0], &v[0][0]);
#endif
}
