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

#include "memory_beside.cuh"
#include "memory_load.cuh"
#include "memory_store.cuh"

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

#if SF_NSEQ > 1
/* The line at `index` of a sequence of several dimensions. left: so many positions of the innermost
 * one are there and after it. */
SF_DEVICE sf_line sf_walked(const sf_params &p, const sf_line &line, sf_i64 index, sf_i64 &left)
{
        const sf_params_dim &run = p.dims[SF_NBATCH + SF_NSEQ - 1];
        const sf_i64 before = sf_divided(run, index), at = index - before * run.len;
        sf_line here = line;
        sf_walk(p, SF_NBATCH, SF_NSEQ - 1, before, here);
        left = run.len - at;
        return sf_moved(here, at, sf_along(p));
}
#endif

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
        return inner == 1 ? sequence : (int)(sf_high_word((sf_u32)sequence, last.times) >> last.shift);
}

/* `buffer` and `from` have the same address modulo 16 bytes. The chunks at either end are copied
 * whole, with what else is in them. */
template <int SIZE> SF_DEVICE void sf_fetch_piece(const char *from, int length, unsigned char *buffer)
{
        const int past = (int)((sf_u64)from & 15), end = past + length * SIZE;
#pragma unroll 4
        for (int at = sf_thread() * 16; at < end; at += SF_THREADS * 16)
                sf_copy_chunk<16>(buffer - past + at, from - past + at, from, from + length * SIZE);
}

/* The chunks that are the piece's alone are stored whole, the elements before and after them by one
 * thread each. */
template <int SIZE> SF_DEVICE void sf_store_piece(char *to, int length, const unsigned char *buffer)
{
        const int past = (int)((sf_u64)to & 15), end = past + length * SIZE, apart = (int)((sf_u64)buffer - (sf_u64)to) & 15;
        const unsigned char *chunks = buffer - past - apart; /* of the buffer, `apart` bytes before those of `to` */
        const int first = sf_thread() * 16 + (past ? 16 : 0), last = end & ~15;
        if (!apart) {
#pragma unroll 4
                for (int at = first; at < last; at += SF_THREADS * 16) {
                        sf_raw<16> r;
                        sf_shared_load(chunks + at, r);
                        sf_store(to - past + at, r);
                }
        } else {
#pragma unroll 2
                for (int at = first; at < last; at += SF_THREADS * 16) {
                        sf_raw<16> r, next;
                        sf_shared_load(chunks + at, r);
                        sf_shared_load(chunks + at + 16, next);
                        sf_store(to - past + at, sf_cut(r, next, apart));
                }
        }
        const int before = (past ? (end < 16 ? end : 16) - past : 0) / SIZE, after = (past && end < 16 ? 0 : end & 15) / SIZE;
        if (sf_thread() < before + after) {
                const int k = sf_thread() < before ? sf_thread() : length - before - after + sf_thread();
                sf_raw<SIZE> one;
                sf_shared_load(buffer + k * SIZE, one);
                sf_store(to + k * SIZE, one);
        }
}
