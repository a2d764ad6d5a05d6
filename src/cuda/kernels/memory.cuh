/*
 * memory.cuh: vectors of neighbouring elements: their addresses, how they are loaded and stored.
 */

/* ------------------------------------------------------------------------------------------------
 * Vectors of SF_WIDTH neighbours, and where they are
 * ---------------------------------------------------------------------------------------------- */

/* The addresses of element 0 of a line in x, y, the mask and the operands of the programs. */
struct sf_line {
        const char *x;
        char *y;
        const char *m;
#if SF_LEFTS
        const char *left;
#endif
#if SF_FUSED
        const char *operand[SF_OPERANDS];
#endif
#if SF_ALSO
        /* Further results. All but SF_SECOND's have one value per sequence, so a step along the
         * sequence does not move them. */
        char *also[SF_ALSO];
#endif
};

/* By how many bytes one step moves these addresses; and where the memory of x and the mask begins
 * and ends. */
struct sf_strides {
        sf_i64 x, y, m;
        const char *x_begin, *x_end, *m_begin, *m_end;
#if SF_FUSED
        sf_i64 operand[SF_OPERANDS];
#endif
#if SF_SECOND
        sf_i64 element;
#endif
};

/* sf_along: from one element of a sequence to the next. sf_across: from one column to the next. */
SF_DEVICE sf_strides sf_along(const sf_params &p)
{
        sf_strides by = {p.sx, p.sy, p.sm, p.x_begin, p.x_end, p.m_begin, p.m_end};
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                by.operand[k] = SF_STILL >> k & 1 ? 0 : p.along[k];
#endif
#if SF_SECOND
        by.element = p.also[0].sy;
#endif
        return by;
}
SF_DEVICE sf_strides sf_across(const sf_params &p)
{
        sf_strides by = {p.ix, p.iy, p.im, p.x_begin, p.x_end, p.m_begin, p.m_end};
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                by.operand[k] = p.across[k];
#endif
#if SF_SECOND
        by.element = p.also[0].iy;
#endif
        return by;
}

/* The line, moved by `count` steps. */
SF_DEVICE sf_line sf_moved(sf_line line, sf_i64 count, const sf_strides &by)
{
        line.x += count * by.x;
        line.y += count * by.y;
        line.m += count * by.m;
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                line.operand[k] += count * by.operand[k];
#endif
#if SF_SECOND
        line.also[0] += count * by.element;
#endif
        return line;
}

/* The byte offset of element `index`, and of the lowest byte of the vector that begins with it. */
template <int UNIT, int SIZE> SF_DEVICE sf_i64 sf_offset(sf_i64 index, sf_i64 stride)
{
        return UNIT ? UNIT * index * SIZE : index * stride;
}
template <int UNIT, int SIZE> SF_DEVICE sf_i64 sf_vector_offset(sf_i64 index, sf_i64 stride)
{
        return sf_offset<UNIT, SIZE>(index, stride) - (UNIT < 0 ? (SF_WIDTH - 1) * SIZE : 0);
}
template <int BYTES> SF_DEVICE void sf_clear(sf_raw<BYTES> &r)
{
        for (int i = 0; i < (int)(sizeof r.w / 4); i++)
                r.w[i] = 0;
}
/* The slot of element j in its vector. UNIT < 0: a vector has its elements in reverse. */
template <int UNIT> SF_DEVICE int sf_slot_of(int j) { return UNIT < 0 ? SF_WIDTH - 1 - j : j; }

/* Loads the elements of a vector that are below `end`, one by one, into r, which must be zero. */
template <int UNIT, int SIZE, int BYTES> SF_DEVICE void sf_load_singly(const char *line, sf_i64 index, sf_i64 end, sf_i64 stride, sf_raw<BYTES> &r)
{
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                if (index + j < end) {
                        sf_raw<SIZE> one;
                        sf_load(line + sf_offset<UNIT, SIZE>(index + j, stride), one);
                        sf_set_slot<SIZE>(r, sf_slot_of<UNIT>(j), sf_slot<SIZE>(one, 0));
                }
}

#if SF_FUSED
/* SF_WIDTH neighbours of an operand; with UNIT 2, the one element that they share. */
template <int DT, int UNIT> struct sf_operand {
        enum { BYTES = (UNIT == 2 ? 1 : SF_WIDTH) * SF_SIZE(DT) };
        sf_raw<BYTES> raw;
};

template <int DT, int UNIT> SF_DEVICE sf_of<DT> sf_value_at(const sf_operand<DT, UNIT> &o, int j)
{
        return sf_dtype<DT>::from(sf_slot<SF_SIZE(DT)>(o.raw, UNIT == 2 ? 0 : sf_slot_of<UNIT>(j)));
}

/* Loads a vector of an operand, as sf_load_vector does. LOOSE: its elements are contiguous, but not
 * aligned. SHORT: `end` may be one less than the line's. What is at or past `end` becomes 0. */
template <bool STILL, bool LOOSE = false, bool SHORT = false, int DT>
SF_DEVICE void sf_load_operand(sf_operand<DT, 2> &o, const char *line, sf_i64 index, sf_i64 end, sf_i64)
{
        sf_clear(o.raw);
        if (index < end)
                sf_load_steady(line, o.raw);
}
template <bool STILL, bool LOOSE = false, bool SHORT = false, int DT, int UNIT>
SF_DEVICE void sf_load_operand(sf_operand<DT, UNIT> &o, const char *line, sf_i64 index, sf_i64 end, sf_i64 stride)
{
        enum { SIZE = SF_SIZE(DT) };
        sf_clear(o.raw);
        if (STILL && index + SF_WIDTH <= end)
                sf_load_steady(line + sf_vector_offset<UNIT, SIZE>(index, stride), o.raw);
        else if (UNIT && !LOOSE && index + SF_WIDTH <= end)
                sf_load(line + sf_vector_offset<UNIT, SIZE>(index, stride), o.raw);
        else if (SF_RAGGED || !UNIT || LOOSE || SHORT)
                sf_load_singly<UNIT, SIZE>(line, index, end, stride, o.raw);
}
#endif

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
                if ((UNIT > 0 && !SF_EARLY) || chunk + BYTES > begin)
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

/* Makes the first `early` elements of a line neutral: they are before its real beginning. Only
 * vectors at the very beginning have any. */
template <int N, class T> SF_DEVICE void sf_clear_early(T (&v)[N][SF_WIDTH], sf_i64 at, int spread, int early, T neutral)
{
        if (at >= early)
                return;
        const int left = early - (int)at;
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (i * spread + j < left)
                                v[i][j] = neutral;
}
#endif

#if SF_PACKS > 1
/* The vector whose first pack is at column `index`. Each next pack is `apart` columns further. Only
 * `packs` of them exist. */
SF_DEVICE sf_vector sf_load_packs(const sf_line &line, sf_i64 index, int apart, int packs, const sf_strides &by)
{
        sf_vector v;
        const char *x = line.x + index * SF_IN_SIZE, *m = line.m + index * by.m;
        (void)m;
#pragma unroll
        for (int q = 0; q < SF_PACKS; q++) {
                sf_load_below(q, packs, x + q * apart * SF_IN_SIZE, v.pack[q]);
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
#if SF_SHIFT_IN
        v.x = sf_cut(v.x, v.x_next, v.x_past);
#if SF_MASK && SF_M_UNIT
        v.m = sf_cut(v.m, v.m_next, v.m_past);
#endif
#endif
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

#if SF_MEMBERS == 1
/* Converts values to the results that are stored. */
SF_DEVICE sf_answer sf_lowered(const sf_params &p, sf_acc v)
{
#if SF_INDICES && SF_LEFTS
        /* Elements to the left have negative positions here. */
        const sf_i64 at = p.before + (sf_i64)(v.second ^ (sf_at)sf_holds::LATE);
        return v.second == sf_holds::nowhere() ? -1 : p.initial ? (sf_i64)p.initial - 1 - at : at;
#elif SF_INDICES
        const sf_at at = sf_holds::lower(v), back = (sf_at)p.initial - 1;
        sf_answer r;
#if SF_ELEMENT
        r.number = at < 0 || back < 0 ? at : back - at;
        r.element = v.first;
#else
        r = at < 0 || back < 0 ? at : back - at;
#endif
        return r;
#elif SF_PRODUCTS
        (void)p;
        return sf_from_near(v) < sf_nears(sf_number()) ? sf_lower_near(v) : sf_holds::lower(v);
#else
        (void)p;
        return sf_holds::lower(v);
#endif
}
template <int N>
SF_DEVICE void sf_lower_all(const sf_params &p, const sf_acc (&v)[N][SF_WIDTH], sf_answer (&result)[N][SF_WIDTH])
{
#if SF_INDICES
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        result[i][j] = sf_lowered(p, v[i][j]);
#else
        (void)p;
        sf_holds::template lower_all<N * SF_WIDTH>(&v[0][0], &result[0][0]);
#endif
}
#endif

/* The operands that the store program reads besides the results. */
struct sf_results {
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) sf_operand<dt, unit> operand##k;
        SF_STORES(OPERAND)
#undef OPERAND
#endif
};

/* Loads an operand of the store program; one that lacks the sequence's last element ends at
 * `shorter`. */
#define SF_LOAD_RESULT(k) \
        sf_load_operand<false, (SF_LOOSE_ONES >> k & 1) != 0, (SF_SHORT >> k & 1) != 0>( \
                with.operand##k, line.operand[k], index, SF_SHORT >> k & 1 ? shorter : end, by.operand[k]);

SF_DEVICE sf_results sf_load_results(const sf_line &line, sf_i64 index, sf_i64 end, sf_i64 shorter, const sf_strides &by)
{
        sf_results with;
        (void)line, (void)index, (void)end, (void)by, (void)shorter;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) SF_LOAD_RESULT(k)
        SF_STORES(OPERAND)
#undef OPERAND
#endif
        return with;
}

/*
 * The same for a scan or a map, in two parts. Operands that the load program reads too are kept
 * from the vector that was loaded, which must have arrived: a copy would wait for it. Only the
 * others are loaded. (Templates, because in a fold both programs read operands differently.)
 */
template <class V> SF_DEVICE void sf_keep_results(const V &read, sf_results &with)
{
        (void)read, (void)with;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) with.operand##k = read.operand##k;
        SF_KEPT(OPERAND)
#undef OPERAND
#endif
}
template <class L> SF_DEVICE sf_results sf_fresh_results(const L &line, sf_i64 index, sf_i64 end, sf_i64 shorter, const sf_strides &by)
{
        sf_results with;
        (void)line, (void)index, (void)end, (void)by, (void)shorter;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) SF_LOAD_RESULT(k)
        SF_FRESH(OPERAND)
#undef OPERAND
#endif
        return with;
}

#if SF_MEMBERS == 1
/* The bits that are stored for a result. It is number j of its vector. */
SF_DEVICE sf_u64 sf_outcome(const sf_params &p, sf_answer result, const sf_results &with, int j)
{
#if SF_ELEMENT
        const sf_outcome_number v = result.number;
#else
        const sf_outcome_number v = result;
#endif
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) , sf_value_at(with.operand##k, j)
        return sf_store_program0(p, v SF_STORES(OPERAND));
#undef OPERAND
#else
        (void)p, (void)with, (void)j;
        return sf_narrow(v);
#endif
}

#if SF_PACKS > 1 && SF_PARTIAL /* only totals are stored */
#elif SF_PACKS > 1
/* Stores a vector in packs, with the arguments of sf_load_packs. */
SF_DEVICE void sf_store_packs(const sf_line &line, sf_i64 index, int apart, int packs, const sf_answer (&v)[SF_WIDTH])
{
        char *y = line.y + index * SF_OUT_SIZE;
#pragma unroll
        for (int q = 0; q < SF_PACKS; q++) {
                sf_raw<PACK * SF_OUT_SIZE> r;
                sf_clear(r);
#pragma unroll
                for (int j = 0; j < PACK; j++)
                        sf_set_slot<SF_OUT_SIZE>(r, j, sf_narrow(v[q * PACK + j]));
                sf_store_below(q, packs, y + q * apart * SF_OUT_SIZE, r);
        }
}
#elif SF_WIDTH * SF_OUT_SIZE <= 16 && !(SF_WIDTH & (SF_WIDTH - 1)) /* a fold stores one by one */
typedef sf_raw<SF_WIDTH * SF_OUT_SIZE> sf_stored;

/* A vector of results, as it is stored. */
SF_DEVICE sf_stored sf_pack(const sf_params &p, const sf_answer (&v)[SF_WIDTH], const sf_results &with)
{
        sf_stored r;
        sf_u64 slot[SF_WIDTH];
        for (int i = 0; i < (int)(sizeof r.w / 4); i++)
                r.w[i] = 0;
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                slot[sf_slot_of<SF_Y_UNIT>(j)] = sf_outcome(p, v[j], with, j);
        /* Narrow slots, set one by one, would take twice the instructions. */
        if (SF_OUT_SIZE == 1 && SF_WIDTH % 4 == 0)
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i += 4)
                        r.w[i / 4 % (int)(sizeof r.w / 4)] = sf_four_bytes((sf_u32)slot[i], (sf_u32)slot[(i + 1) % SF_WIDTH], (sf_u32)slot[(i + 2) % SF_WIDTH], (sf_u32)slot[(i + 3) % SF_WIDTH]);
        else if (SF_OUT_SIZE == 2 && SF_WIDTH % 2 == 0)
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i += 2)
                        r.w[i / 2 % (int)(sizeof r.w / 4)] = (sf_u32)sf_pair((int)slot[i], (int)slot[(i + 1) % SF_WIDTH]);
        else
#pragma unroll
                for (int i = 0; i < SF_WIDTH; i++)
                        sf_set_slot<SF_OUT_SIZE>(r, i, slot[i]);
        return r;
}

/* Stores one slot of a vector. */
SF_DEVICE void sf_store_slot(char *y, const sf_stored &r, int slot)
{
        sf_store(y, sf_one_slot<SF_OUT_SIZE>(sf_slot<SF_OUT_SIZE>(r, slot)));
}

#if SF_SECOND
/* The bits of the second result at position j of its vector: of the element at an index, or of the
 * same result of the scan, with another store program. */
SF_DEVICE sf_u64 sf_second_outcome(const sf_params &p, const sf_answer &v, const sf_results &with, int j)
{
        (void)with, (void)j;
#if SF_ELEMENT
        return sf_store_program1(p, v.element);
#else
#define OPERAND(k, dt, unit) , sf_value_at(with.operand##k, j)
        return sf_store_program1(p, v SF_STORES(OPERAND));
#undef OPERAND
#endif
}

/* Stores the second results of a vector. SF_SECOND_UNIT: as SF_Y_UNIT, where they too may be
 * stored as a vector. */
SF_DEVICE void sf_store_seconds(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by, const sf_answer (&v)[SF_WIDTH],
                                const sf_results &with)
{
        enum { SIZE = SF_SIZE(SF_SECOND_OUT) };
        sf_raw<SF_WIDTH * SIZE> r;
        sf_clear(r);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                sf_set_slot<SIZE>(r, sf_slot_of<SF_SECOND_UNIT>(j), sf_second_outcome(p, v[j], with, j));
        if (SF_SECOND_UNIT && index + SF_WIDTH <= end)
                sf_store(line.also[0] + sf_vector_offset<SF_SECOND_UNIT, SIZE>(index, by.element), r);
        else
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end)
                                sf_store(line.also[0] + (index + j) * by.element,
                                         sf_one_slot<SIZE>(sf_slot<SIZE>(r, sf_slot_of<SF_SECOND_UNIT>(j))));
}
#endif

SF_DEVICE void sf_store_vector(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by, const sf_answer (&v)[SF_WIDTH],
                               const sf_results &with)
{
#if SF_SECOND
        sf_store_seconds(p, line, index, end, by, v, with);
#endif
        if (index + SF_WIDTH <= end)
                sf_store(line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, by.y), sf_pack(p, v, with));
#if SF_RAGGED
        else {
                const sf_stored r = sf_pack(p, v, with);
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end)
                                sf_store_slot(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(index + j, by.y), r, sf_slot_of<SF_Y_UNIT>(j));
        }
#endif
}

#if SF_SHIFT_OUT || SF_EARLY
/* Stores the slots of a chunk from `low` to before `high`, which need not be constants. */
SF_DEVICE void sf_store_some(char *to, const sf_stored &chunk, int low, int high)
{
        enum { WORDS = (int)(sizeof chunk.w / 4) };
#pragma unroll 1
        for (int k = low; k < high; k++) {
                const int byte = k * SF_OUT_SIZE;
                sf_raw<SF_OUT_SIZE> one;
                sf_u32 even = chunk.w[0], odd = chunk.w[WORDS > 1];
                if (WORDS > 2) {
                        even = sf_second(even, chunk.w[WORDS > 2 ? 2 : 0], byte & 8);
                        odd = sf_second(odd, chunk.w[WORDS > 2 ? 3 : 0], byte & 8);
                }
                one.w[0] = sf_second(even, odd, WORDS > 1 && SF_OUT_SIZE < 8 && byte & 4) >> (byte & 3) * 8;
                if (SF_OUT_SIZE == 8)
                        one.w[SF_OUT_SIZE == 8] = odd;
                sf_store(to + byte, one);
        }
}

#endif
#if SF_EARLY
/* Stores a vector of a line whose first `early` elements are not its own (sf_begin_early). */
SF_DEVICE void sf_store_early(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, int early, const sf_answer (&v)[SF_WIDTH], const sf_results &with)
{
        const sf_stored r = sf_pack(p, v, with);
        char *to = line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, 0);
        if (index >= early && index + SF_WIDTH <= end) {
                sf_store(to, r);
        } else if (index < end) {
                const int low = index < early ? (int)(early - index) : 0, high = end - index < SF_WIDTH ? (int)(end - index) : SF_WIDTH;
                sf_store_some(to, r, SF_Y_UNIT < 0 ? SF_WIDTH - high : low, SF_Y_UNIT < 0 ? SF_WIDTH - low : high);
        }
}
#endif
#if SF_SHIFT_OUT
/* sf_store_some for the lanes with `some`. TOGETHER: they are few in a warp, so all lanes help one
 * of them at a time, and each stores one slot. */
template <bool TOGETHER> SF_DEVICE void sf_store_parts(bool some, char *to, const sf_stored &chunk, int low, int high, int lane)
{
        if (!TOGETHER) {
                if (some)
                        sf_store_some(to, chunk, low, high);
                return;
        }
        for (sf_u32 left = sf_ballot(some && low < high); left; left &= left - 1) {
                const int from = sf_lowest(left);
                sf_stored theirs;
#pragma unroll
                for (int w = 0; w < (int)(sizeof chunk.w / 4); w++)
                        theirs.w[w] = ::sf_shuffle(chunk.w[w], from);
                char *place = (char *)::sf_shuffle((sf_u64)to, from);
                const int limits = ::sf_shuffle(low | (high < 0 ? 0 : high) << 8, from), first = limits & 255, last = limits >> 8;
                sf_store_some(place, theirs, first + lane, first + lane < last ? first + lane + 1 : 0);
        }
}

/*
 * Stores the vectors of LANES neighbouring lanes, at any address, as chunks. Each lane stores the
 * chunk in which its vector begins. What comes before the vector in that chunk is taken from the
 * lane that has it. The lane with the lowest addresses takes it from `beyond` of the lane with the
 * highest, if `follows`. The elements left over at either end are stored one by one, those at the
 * highest addresses only if `closes`. All lanes of the warp must be here together; those without
 * `there` store nothing.
 */
template <int LANES>
SF_DEVICE void sf_store_shifted(const sf_line &line, bool there, sf_i64 index, sf_i64 end, const sf_stored &own, const sf_stored &beyond, bool follows,
                                bool closes, int lane)
{
        enum { BYTES = SF_WIDTH * SF_OUT_SIZE, UP = SF_Y_UNIT > 0, LOW = UP ? 0 : LANES - 1, HIGH = LANES - 1 - LOW, TOGETHER = LANES >= 16 };
        const int place = lane & (LANES - 1);
        char *at = line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, 0);
        const int past = (int)((sf_u64)at & (BYTES - 1)), shared = past / SF_OUT_SIZE;
        sf_stored before, chunk = own;
#pragma unroll
        for (int w = 0; w < (int)(sizeof own.w / 4); w++)
                before.w[w] = ::sf_shuffle(place == HIGH ? beyond.w[w] : own.w[w], (lane & -LANES) | ((lane - SF_Y_UNIT) & (LANES - 1)));
        if (past)
                chunk = sf_cut(before, own, BYTES - past);
        /* How many elements the line has from `index` on, limited to two vectors. The chunk begins
         * `shared` elements before the vector; if elements are in reverse, it ends `shared`
         * elements after it. */
        const int left = (int)(index >= end + SF_WIDTH ? -SF_WIDTH : end - index < 2 * SF_WIDTH ? end - index : 2 * SF_WIDTH);
        const int lowest = place != LOW || follows ? 0 : shared;
        const int low = UP ? lowest : lowest > SF_WIDTH + shared - left ? lowest : SF_WIDTH + shared - left;
        const int high = UP && left + shared < SF_WIDTH ? left + shared : SF_WIDTH;
        const bool whole = low == 0 && high == SF_WIDTH;
        if (there && whole)
                sf_store(at - past, chunk);
        sf_store_parts<TOGETHER>(there && !whole, at - past, chunk, low, high, lane);
        if (closes) {
                const int first = SF_WIDTH - shared; /* of its own slots, past the chunk */
                const int from = UP || left >= shared ? 0 : shared - left, to = UP && left < SF_WIDTH ? left - first : shared;
                sf_store_parts<TOGETHER>(there && past && place == HIGH, at - past + BYTES, sf_cut(own, own, BYTES - past), from, to, lane);
        }
}
#endif

/* Stores all vectors of a thread, which are SPREAD elements apart. Those of LANES lanes are
 * contiguous. early: what sf_begin_early returned, or 0. */
template <int LANES, int SPREAD>
SF_DEVICE void sf_store_vectors(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end, const sf_answer (&v)[SF_ITEMS][SF_WIDTH],
                                const sf_results (&with)[SF_ITEMS], int lane, int early)
{
        (void)lane, (void)early;
#if SF_EARLY
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_store_early(p, line, at + i * SPREAD, end, early, v[i], with[i]);
#elif SF_SHIFT_OUT
        sf_stored r[SF_ITEMS];
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                r[i] = sf_pack(p, v[i], with[i]);
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++) {
                const int before = i - SF_Y_UNIT;
                const bool follows = before >= 0 && before < SF_ITEMS;
                sf_store_shifted<LANES>(line, true, at + i * SPREAD, end, r[i], r[follows ? before : i], follows,
                                        i == (SF_Y_UNIT > 0 ? SF_ITEMS - 1 : 0), lane);
        }
#else
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
                sf_store_vector(p, line, at + i * SPREAD, end, sf_along(p), v[i], with[i]);
#endif
}
#endif
#endif

SF_DEVICE sf_i64 sf_divided(const sf_params_dim &d, sf_i64 index)
{
        if (index >> 31)
                return index / d.len;
        return sf_high_word((sf_u32)index, d.times) >> d.shift;
}

/* Moves `line` to position `index` of dims[first .. first + count), of which the last varies
 * fastest. */
SF_DEVICE void sf_walk(const sf_params &p, int first, int count, sf_i64 index, sf_line &line)
{
        for (int d = first + count - 1; d >= first; d--) {
                sf_i64 next = d > first ? sf_divided(p.dims[d], index) : 0;
                sf_i64 at = index - next * p.dims[d].len;
                line.x += at * p.dims[d].x;
                line.y += at * p.dims[d].y;
                line.m += at * p.dims[d].m;
#if SF_LEFTS
                line.left += at * p.dims[d].left;
#endif
#if SF_FUSED
#pragma unroll
                for (int k = 0; k < SF_OPERANDS; k++)
                        line.operand[k] += at * p.step[d][k];
#endif
#if SF_ALSO
#pragma unroll
                for (int k = 0; k < SF_ALSO; k++)
                        line.also[k] += at * p.also[k].step[d];
#endif
                index = next;
        }
}

/* The line at a batch position. x is an argument of its own; all else begins where p says. */
SF_DEVICE sf_line sf_line_from(const sf_params &p, const char *x, sf_i64 batch)
{
        sf_line line = {x, p.y, p.m};
#if SF_LEFTS
        line.left = p.left;
#endif
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                line.operand[k] = p.operand[k];
#endif
#if SF_ALSO
#pragma unroll
        for (int k = 0; k < SF_ALSO; k++)
                line.also[k] = p.also[k].y;
#endif
        sf_walk(p, 0, SF_NBATCH, batch, line);
        return line;
}

SF_DEVICE sf_line sf_batch_line(const sf_params &p, sf_i64 batch)
{
        return sf_line_from(p, p.x, batch);
}

#if SF_MEMBERS == 1
/* v, combined with the initial value if there is one. */
SF_DEVICE sf_acc sf_begin(const sf_params &p, sf_acc v)
{
#if SF_INITIAL
#if SF_PAIRED && !SF_PRODUCTS
        return sf_combine(sf_holds::made(sf_number_of(p.initial), p.initial_also), v);
#else
        return sf_combine(sf_acc_of(p.initial), v);
#endif
#else
        (void)p;
        return v;
#endif
}
#endif

#if SF_TOTAL
/* Stores the total of a scan, column `column`, as the result of a fold. v is the last result of the
 * inclusive scan. The fold has its own initial value and its own store program. */
SF_DEVICE void sf_store_total(const sf_params &p, const sf_line &line, sf_i64 column, sf_acc v)
{
#if SF_TOTAL_INITIAL
        v = sf_combine(sf_acc_of(p.also[0].initial), v);
#endif
        sf_store(line.also[0] + column * p.also[0].iy,
                 sf_one_slot<SF_SIZE(SF_TOTAL_OUT)>(sf_store_program1(p, sf_holds::lower(v))));
}

/* Stores the totals of a line with COLUMNS interleaved sequences: its last elements. `at`: where a
 * thread's first vector begins, less than a tile from the end. */
template <int COLUMNS, int SPREAD>
SF_DEVICE void sf_store_totals(const sf_params &p, const sf_line &line, sf_i64 at, sf_i64 end, const sf_acc (&v)[SF_ITEMS][SF_WIDTH])
{
        int first = (int)(at - (end - COLUMNS));
#pragma unroll
        for (int i = 0; i < SF_ITEMS; i++)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if ((unsigned)(first + i * SPREAD + j) < COLUMNS)
                                sf_store_total(p, line, first + i * SPREAD + j, v[i][j]);
}
#endif

/* ------------------------------------------------------------------------------------------------
 * Pieces: contiguous memory of any type and alignment, moved 16 bytes at a time by the whole block
 * ---------------------------------------------------------------------------------------------- */

/* The unit of a staged sequence, of which a unit has `inner` side by side: then they are the last
 * batch dimension. */
SF_DEVICE int sf_unit_of(const sf_params &p, int sequence, int inner)
{
        const sf_params_dim &last = p.dims[SF_NBATCH > 0 ? SF_NBATCH - 1 : 0];
        return inner == 1 ? sequence : (int)sf_divided(last, sequence);
}

/* `buffer` and `from` have the same address modulo 16 bytes. */
template <int SIZE> SF_DEVICE void sf_fetch_piece(const char *from, int length, unsigned char *buffer)
{
        const int past = (int)((sf_u64)from & 15), end = past + length * SIZE;
        for (int at = sf_thread() * 16; at < end; at += SF_THREADS * 16)
                if (at >= past && at + 16 <= end)
                        sf_copy_async<16>(buffer + at - past, from + at - past);
                else
                        for (int j = at < past ? past : at; j < at + 16 && j < end; j += SIZE)
                                sf_copy_async<SIZE>(buffer + j - past, from + j - past);
}

template <int SIZE> SF_DEVICE void sf_store_piece(char *to, int length, const unsigned char *buffer)
{
        const int past = (int)((sf_u64)to & 15), end = past + length * SIZE;
        const bool alike = past == (int)((sf_u64)buffer & 15);
        for (int at = sf_thread() * 16; at < end; at += SF_THREADS * 16)
                if (at >= past && at + 16 <= end) {
                        sf_raw<16> r;
                        if (alike)
                                sf_shared_load(buffer + at - past, r);
                        else
#pragma unroll
                                for (int k = 0; k < 16 / SIZE; k++) {
                                        sf_raw<SIZE> one;
                                        sf_shared_load(buffer + at - past + k * SIZE, one);
                                        if (SIZE < 4 && k % (4 / (SIZE < 4 ? SIZE : 4)) == 0)
                                                r.w[k * SIZE / 4] = 0;
                                        sf_set_slot<SIZE>(r, k, sf_slot<SIZE>(one, 0));
                                }
                        sf_store(to + at - past, r);
                } else {
                        for (int j = at < past ? past : at; j < at + 16 && j < end; j += SIZE) {
                                sf_raw<SIZE> r;
                                sf_shared_load(buffer + j - past, r);
                                sf_store(to + j - past, r);
                        }
                }
}
