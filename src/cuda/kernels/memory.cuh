/*
 * memory.cuh: vectors of neighbours: where they are, loading them, storing them.
 */

/* ------------------------------------------------------------------------------------------------------------
 * Vectors of SF_WIDTH neighbours, and where they are
 * ---------------------------------------------------------------------------------------------------------- */

/* Addresses of the element with index 0 of a line in x, y, the mask and the operands of the programs. */
struct sf_line {
        const char *x;
        char *y;
        const char *m;
#if SF_FUSED
        const char *operand[SF_OPERANDS];
#endif
#if SF_ALSO
        char *also[SF_ALSO]; /* further results: one a sequence, so no step along it moves them */
#endif
};

/* What a step takes them on by, in bytes. */
struct sf_strides {
        sf_i64 x, y, m;
#if SF_FUSED
        sf_i64 operand[SF_OPERANDS];
#endif
};

/* From one element of a sequence to the next; from one column to the next. */
SF_DEVICE sf_strides sf_along(const sf_params &p)
{
        sf_strides by = {p.sx, p.sy, p.sm};
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                by.operand[k] = p.along[k];
#endif
        return by;
}
SF_DEVICE sf_strides sf_across(const sf_params &p)
{
        sf_strides by = {p.ix, p.iy, p.im};
#if SF_FUSED
#pragma unroll
        for (int k = 0; k < SF_OPERANDS; k++)
                by.operand[k] = p.across[k];
#endif
        return by;
}

/* The line `count` steps on. */
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
        return line;
}

/* The byte offset of `index`, and of the vector that begins there. */
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
/* The slot in which element j of a vector lies. */
template <int UNIT> SF_DEVICE int sf_slot_of(int j) { return UNIT < 0 ? SF_WIDTH - 1 - j : j; }

#if SF_FUSED
/* SF_WIDTH neighbours of an operand; UNIT 2: the one element they share. */
template <int DT, int UNIT> struct sf_operand {
        enum { BYTES = (UNIT == 2 ? 1 : SF_WIDTH) * SF_SIZE(DT) };
        sf_raw<BYTES> raw;
};

template <int DT, int UNIT> SF_DEVICE sf_of<DT> sf_value_at(const sf_operand<DT, UNIT> &o, int j)
{
        return sf_dtype<DT>::from(sf_slot<SF_SIZE(DT)>(o.raw, UNIT == 2 ? 0 : sf_slot_of<UNIT>(j)));
}

/* As sf_load_vector says. */
template <int DT> SF_DEVICE void sf_load_operand(sf_operand<DT, 2> &o, const char *line, sf_i64 index, sf_i64 end, sf_i64)
{
        sf_clear(o.raw);
        if (index < end)
                sf_load_steady(line, o.raw);
}
template <int DT, int UNIT> SF_DEVICE void sf_load_operand(sf_operand<DT, UNIT> &o, const char *line, sf_i64 index, sf_i64 end, sf_i64 stride)
{
        enum { SIZE = SF_SIZE(DT) };
        sf_clear(o.raw);
        if (UNIT && index + SF_WIDTH <= end)
                sf_load(line + sf_vector_offset<UNIT, SIZE>(index, stride), o.raw);
        else if (SF_RAGGED || !UNIT)
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end) {
                                sf_raw<SIZE> one;
                                sf_load(line + sf_offset<UNIT, SIZE>(index + j, stride), one);
                                sf_set_slot<SIZE>(o.raw, sf_slot_of<UNIT>(j), sf_slot<SIZE>(one, 0));
                        }
}
#endif

/* What is loaded of a vector of elements. */
struct sf_vector {
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
};

SF_DEVICE sf_vector sf_no_vector()
{
        sf_vector v;
#if SF_LOAD_FUSED
#define OPERAND(k, dt, unit) sf_clear(v.operand##k.raw);
        SF_LOADS(OPERAND)
#undef OPERAND
#else
        /* Not sf_clear: with it NVRTC 13 computes addresses anew that it otherwise takes a step on. */
        for (int i = 0; i < (int)(sizeof v.x.w / 4); i++)
                v.x.w[i] = 0;
#endif
#if SF_MASK
        for (int i = 0; i < (int)(sizeof v.m.w / 4); i++)
                v.m.w[i] = 0;
#endif
        return v;
}

#if !(SF_WIDTH & (SF_WIDTH - 1)) /* else it is no vector of the machine's, and comes by way of shared memory */
/* The vector at `index` of a line along which x, the mask and the operands step by these strides. What lies at or past `end` is not
 * touched, and reads as zero. */
SF_DEVICE sf_vector sf_load_vector(const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by)
{
#if SF_LOAD_FUSED
        sf_vector v;
#define OPERAND(k, dt, unit) sf_load_operand(v.operand##k, line.operand[k], index, end, by.operand[k]);
        SF_LOADS(OPERAND)
#undef OPERAND
#if SF_MASK
        sf_operand<SF_DT_BOOL, SF_M_UNIT> m;
        sf_load_operand(m, line.m, index, end, by.m);
        v.m = m.raw;
#endif
        return v;
#else
        sf_vector v = sf_no_vector();
        if (index + SF_WIDTH <= end) {
                sf_load(line.x + sf_vector_offset<SF_X_UNIT, SF_IN_SIZE>(index, by.x), v.x);
#if SF_MASK && SF_M_UNIT
                sf_load(line.m + sf_vector_offset<SF_M_UNIT, 1>(index, by.m), v.m);
#elif SF_MASK
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++) {
                        sf_raw<1> one;
                        sf_load(line.m + (index + j) * by.m, one);
                        sf_set_slot<1>(v.m, j, one.w[0]);
                }
#endif
        }
#if SF_RAGGED
        else {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end) {
                                sf_raw<SF_IN_SIZE> one;
                                sf_load(line.x + sf_offset<SF_X_UNIT, SF_IN_SIZE>(index + j, by.x), one);
                                sf_set_slot<SF_IN_SIZE>(v.x, sf_slot_of<SF_X_UNIT>(j), sf_slot<SF_IN_SIZE>(one, 0));
#if SF_MASK
                                sf_raw<1> keep;
                                sf_load(line.m + sf_offset<SF_M_UNIT, 1>(index + j, by.m), keep);
                                sf_set_slot<1>(v.m, sf_slot_of<SF_M_UNIT>(j), keep.w[0]);
#endif
                        }
        }
#endif
        return v;
#endif
}

#endif

/* Element j, converted to the accumulator's type; a masked-out one is the identity. */
SF_DEVICE sf_number sf_element(const sf_params &p, const sf_vector &v, int j, sf_number identity)
{
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
#undef OPERAND
#else
        (void)p;
        sf_number a = sf_widen(sf_slot<SF_SIZE(SF_IN)>(v.x, sf_slot_of<SF_X_UNIT>(j)));
#endif
#if SF_MASK
        if (!sf_slot<1>(v.m, sf_slot_of<SF_M_UNIT>(j)))
                a = identity;
#endif
        return a;
}

/* The elements of a vector, lifted. Element j is there if first + j * step is below stop; one that is not is neutral. */
SF_DEVICE void sf_elements_below(const sf_params &p, const sf_vector &v, sf_i64 first, int step, sf_i64 stop, sf_number neutral, sf_acc (&a)[SF_WIDTH])
{
#if SF_HELD_IN
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++) {
                sf_words words;
#pragma unroll
                for (int w = 0; w < SF_VALUE_SIZE / 4; w++)
                        words.w[w] = v.x.w[sf_slot_of<SF_X_UNIT>(j) * (SF_VALUE_SIZE / 4) + w];
                a[j] = sf_holds::in_turn(sf_choose(first + j * step < stop, sf_of_words(words), sf_holds::lift(neutral)), j);
        }
#else
        sf_number number[SF_WIDTH], identity = sf_identity_number(p);
#pragma unroll
        for (int j = 0; j < SF_WIDTH; j++)
                number[j] = first + j * step < stop ? sf_element(p, v, j, identity) : neutral;
        sf_holds::lift_all(number, a);
#endif
}

SF_DEVICE void sf_elements(const sf_params &p, const sf_vector &v, sf_acc (&a)[SF_WIDTH])
{
        sf_elements_below(p, v, 0, 0, 1, sf_neutral_number(p), a);
}

/* What the program on the way out reads beside the results. */
struct sf_results {
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) sf_operand<dt, unit> operand##k;
        SF_STORES(OPERAND)
#undef OPERAND
#endif
};

SF_DEVICE sf_results sf_load_results(const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by)
{
        sf_results with;
        (void)line, (void)index, (void)end, (void)by;
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) sf_load_operand(with.operand##k, line.operand[k], index, end, by.operand[k]);
        SF_STORES(OPERAND)
#undef OPERAND
#endif
        return with;
}

#if SF_MEMBERS == 1
/* The bits that are stored for a result, number j of its vector. */
SF_DEVICE sf_u64 sf_outcome(const sf_params &p, sf_number v, const sf_results &with, int j)
{
#if SF_STORE_FUSED
#define OPERAND(k, dt, unit) , sf_value_at(with.operand##k, j)
        return sf_store_program0(p, v SF_STORES(OPERAND));
#undef OPERAND
#else
        (void)p, (void)with, (void)j;
        return sf_narrow(v);
#endif
}

#if SF_WIDTH * SF_OUT_SIZE <= 16 && !(SF_WIDTH & (SF_WIDTH - 1)) /* a fold stores element by element */
SF_DEVICE void sf_store_vector(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 end, const sf_strides &by, const sf_acc (&v)[SF_WIDTH],
                               const sf_results &with)
{
#if SF_PRODUCTS
        sf_number number[SF_WIDTH];
        sf_holds::lower_all(v, number);
#else
        const sf_acc (&number)[SF_WIDTH] = v;
#endif
        if (index + SF_WIDTH <= end) {
                sf_raw<SF_WIDTH * SF_OUT_SIZE> r;
                for (int i = 0; i < (int)(sizeof r.w / 4); i++)
                        r.w[i] = 0;
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        sf_set_slot<SF_OUT_SIZE>(r, sf_slot_of<SF_Y_UNIT>(j), sf_outcome(p, number[j], with, j));
                sf_store(line.y + sf_vector_offset<SF_Y_UNIT, SF_OUT_SIZE>(index, by.y), r);
        }
#if SF_RAGGED
        else {
#pragma unroll
                for (int j = 0; j < SF_WIDTH; j++)
                        if (index + j < end) {
                                sf_raw<SF_OUT_SIZE> one;
                                one.w[0] = 0;
                                sf_set_slot<SF_OUT_SIZE>(one, 0, sf_outcome(p, number[j], with, j));
                                sf_store(line.y + sf_offset<SF_Y_UNIT, SF_OUT_SIZE>(index + j, by.y), one);
                        }
        }
#endif
}
#endif
#endif

/* Moves `line` to position `index` of dims[first .. first + count), the last of them fastest. */
SF_DEVICE void sf_walk(const sf_params &p, int first, int count, sf_i64 index, sf_line &line)
{
        for (int d = first + count - 1; d >= first; d--) {
                sf_i64 next = d > first ? sf_divide(index, p.dims[d].len) : 0;
                sf_i64 at = index - next * p.dims[d].len;
                line.x += at * p.dims[d].x;
                line.y += at * p.dims[d].y;
                line.m += at * p.dims[d].m;
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

/* The line of a batch position; where x begins is told apart from p. */
SF_DEVICE sf_line sf_line_from(const sf_params &p, const char *x, sf_i64 batch)
{
        sf_line line = {x, p.y, p.m};
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
/* Combined with the initial value, if there is one. */
SF_DEVICE sf_acc sf_begin(const sf_params &p, sf_acc v)
{
#if SF_INITIAL
        return sf_combine(sf_acc_of(p.initial), v);
#else
        (void)p;
        return v;
#endif
}
#endif

#if SF_TOTAL
/* The fold beside a scan: what the inclusive scan has last, with the fold's own initial value and program; of column `column`. */
SF_DEVICE void sf_store_total(const sf_params &p, const sf_line &line, sf_i64 column, sf_acc v)
{
        sf_raw<SF_SIZE(SF_TOTAL_OUT)> r;
        r.w[0] = 0;
#if SF_TOTAL_INITIAL
        v = sf_combine(sf_acc_of(p.also[0].initial), v);
#endif
        sf_set_slot<SF_SIZE(SF_TOTAL_OUT)>(r, 0, sf_store_program1(p, sf_holds::lower(v)));
        sf_store(line.also[0] + column * p.also[0].iy, r);
}

/* Of a line with COLUMNS interleaved sequences: its last elements are the totals. `at`: where a thread's first vector begins, less than a tile
 * from the end. */
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

/* ------------------------------------------------------------------------------------------------------------
 * Pieces: memory without gaps, moved 16 bytes at a time by the whole block, whatever is in it
 * ---------------------------------------------------------------------------------------------------------- */
template <int SIZE> SF_DEVICE void sf_fetch_piece(const char *from, int length, unsigned char *buffer)
{
        enum { STEP = 16 / SIZE };
        for (int at = sf_thread() * STEP; at < length; at += SF_THREADS * STEP)
                if (at + STEP <= length)
                        sf_copy_async<16>(buffer + at * SIZE, from + (sf_i64)at * SIZE);
                else
                        for (int j = at; j < length; j++)
                                sf_copy_async<SIZE>(buffer + j * SIZE, from + (sf_i64)j * SIZE);
}

template <int SIZE> SF_DEVICE void sf_store_piece(char *to, int length, const unsigned char *buffer)
{
        enum { STEP = 16 / SIZE };
        for (int at = sf_thread() * STEP; at < length; at += SF_THREADS * STEP)
                if (at + STEP <= length) {
                        sf_raw<16> r;
                        sf_shared_load(buffer + at * SIZE, r);
                        sf_store(to + (sf_i64)at * SIZE, r);
                } else {
                        for (int j = at; j < length; j++) {
                                sf_raw<SIZE> r;
                                sf_shared_load(buffer + j * SIZE, r);
                                sf_store(to + (sf_i64)j * SIZE, r);
                        }
                }
}
